// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What the links have done over the last looks.

use std::collections::VecDeque;

use crate::figures::{Link, Order, Rates};

/// Looks that are kept of each link.
pub(crate) const KEPT: usize = 240;

/// A link with its recent past, the newest look last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// As it stands.
    pub link: Link,
    /// Since the look before; nothing at the first.
    pub rates: Rates,
    /// Bytes sent per second.
    pub sent: VecDeque<u64>,
    /// Bytes received per second.
    pub received: VecDeque<u64>,
    /// Round-trip times in microseconds.
    pub rtt: VecDeque<u64>,
    /// Packets lost, in tenths of a percent of those sent.
    pub lost: VecDeque<u64>,
}

impl Row {
    fn push(&mut self, link: Link, rates: Rates) {
        for (past, value) in [
            (&mut self.sent, rates.sent),
            (&mut self.received, rates.received),
            (&mut self.rtt, link.rtt * 1e6),
            (&mut self.lost, rates.lost * 1e3),
        ] {
            if past.len() == KEPT {
                past.pop_front();
            }
            past.push_back(value.round() as u64);
        }
        (self.link, self.rates) = (link, rates);
    }

    /// Whether `link` is this one still, and not one of a restarted process.
    fn is(&self, link: &Link) -> bool {
        let known = &self.link;
        (known.id, &known.src, &known.dst) == (link.id, &link.src, &link.dst)
            && known.age <= link.age
    }
}

/// The links of the process over time.
#[derive(Debug)]
pub(crate) struct History {
    rows: Vec<Row>,
    /// What orders them.
    pub order: Order,
    /// The number of the link that is shown in detail.
    selected: Option<u64>,
}

impl History {
    /// Begins with the first look.
    pub(crate) fn new(links: Vec<Link>, order: Order) -> Self {
        let mut history = Self { rows: Vec::new(), order, selected: None };
        history.look(links);
        history
    }

    /// Takes the next look. Links that are gone are forgotten.
    pub(crate) fn look(&mut self, links: Vec<Link>) {
        let mut before = std::mem::take(&mut self.rows);
        for link in links {
            let known = before.iter().position(|row| row.is(&link));
            let mut row = known.map(|at| before.swap_remove(at)).unwrap_or_default();
            let rates = known.and_then(|_| Rates::between(&row.link, &link));
            let rates = rates.unwrap_or(row.rates);
            row.push(link, rates);
            self.rows.push(row);
        }
        self.sort();
    }

    /// Orders the links by the next figure.
    pub(crate) fn next_order(&mut self) {
        self.order = self.order.next();
        self.sort();
    }

    /// The links in order.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Where in the order the chosen link stands: the first unless another was chosen.
    pub(crate) fn selected(&self) -> Option<usize> {
        let chosen = self.rows.iter().position(|row| Some(row.link.id) == self.selected);
        chosen.or(if self.rows.is_empty() { None } else { Some(0) })
    }

    /// Chooses the link `steps` below the chosen one, or above.
    pub(crate) fn select(&mut self, steps: isize) {
        let Some(at) = self.selected() else { return };
        let to = at.saturating_add_signed(steps).min(self.rows.len() - 1);
        self.selected = Some(self.rows[to].link.id);
    }

    fn sort(&mut self) {
        let order = self.order;
        let key = |row: &Row| [row.rates.sent, row.rates.received];
        self.rows.sort_by(|a, b| order.compare((&a.link, key(a)), (&b.link, key(b))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link after so many seconds.
    fn link(id: u64, age: f64, sent: f64, rtt: f64) -> Link {
        Link { id, age, sent, rtt, src: "a".into(), dst: "b".into(), ..Link::default() }
    }

    fn ids(history: &History) -> Vec<u64> {
        history.rows().iter().map(|row| row.link.id).collect()
    }

    #[test]
    fn links_are_ordered_by_what_is_asked_and_the_choice_stays() {
        let first = vec![link(1, 1.0, 0.0, 0.3), link(2, 1.0, 0.0, 0.1)];
        let mut history = History::new(first, Order::Sent);
        assert_eq!((ids(&history), history.selected()), (vec![1, 2], Some(0)));
        history.select(1);
        let second =
            vec![link(1, 2.0, 10.0, 0.3), link(2, 2.0, 500.0, 0.1), link(3, 0.5, 9e9, 0.2)];
        history.look(second);
        assert_eq!(ids(&history), [2, 1, 3], "a new link has no rate yet");
        assert_eq!(history.selected(), Some(0), "link 2 is still chosen");
        history.next_order();
        history.next_order();
        assert_eq!((history.order, ids(&history)), (Order::Rtt, vec![1, 3, 2]));
        history.select(-5);
        assert_eq!(history.selected(), Some(0));
        history.look(vec![]);
        assert_eq!(history.selected(), None);
        history.select(1);
    }

    #[test]
    fn the_past_is_bounded_and_a_restarted_process_has_none() {
        let mut history = History::new(vec![link(1, 0.0, 0.0, 0.1)], Order::Link);
        for look in 1..1_000 {
            let seconds = f64::from(look);
            history.look(vec![link(1, seconds, seconds * 100.0, 0.1)]);
        }
        // The same answer again.
        history.look(vec![link(1, 999.0, 99_900.0, 0.1)]);
        assert_eq!(history.rows()[0].sent.len(), KEPT);
        assert!(history.rows()[0].sent.iter().all(|sent| *sent == 100));
        history.look(vec![link(1, 3.0, 5.0, 0.1)]);
        assert_eq!(history.rows()[0].sent, [0]);
    }
}
