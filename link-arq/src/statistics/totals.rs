// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What have all links of this process done, those that have ended included? The sum of what each counts.

use arq_proto::{LaneId, LaneStats};
use parking_lot::Mutex;

use super::{AssociationStats, Figure, Read, FIGURES, LANE_FIGURES};

/// The sums of those that have ended.
static ENDED: Mutex<Totals> = Mutex::new(Totals::NOTHING);
/// The greatest that was shown. One that is about to end is in neither sum for a moment, and a counter never falls.
static SHOWN: Mutex<Totals> = Mutex::new(Totals::NOTHING);

/// How many lane figures there are.
const LANE_COUNTERS: usize = LANE_FIGURES.len();

/// A sum for each figure that only grows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Totals {
    /// In the order of [`FIGURES`]; that of one that does not only grow stays 0.
    links: [u64; FIGURES.len()],
    /// Of each lane, in the order of [`LANE_FIGURES`].
    lanes: [[u64; LANE_COUNTERS]; LaneId::COUNT],
}

impl Totals {
    const NOTHING: Self =
        Self { links: [0; FIGURES.len()], lanes: [[0; LANE_COUNTERS]; LaneId::COUNT] };

    fn add(&mut self, link: &AssociationStats) {
        add(&mut self.links, FIGURES, link);
        for (sums, lane) in self.lanes.iter_mut().zip(&link.stats.lanes) {
            add(sums, LANE_FIGURES, lane);
        }
    }

    fn raise(&mut self, to: &Self) {
        let ours = self.links.iter_mut().chain(self.lanes.as_flattened_mut());
        let theirs = to.links.iter().chain(to.lanes.as_flattened());
        ours.zip(theirs).for_each(|(our, their)| *our = (*our).max(*their));
    }

    /// Each figure of [`FIGURES`] that only grows, and its sum.
    pub(crate) fn links(
        &self,
    ) -> impl Iterator<Item = (&'static Figure<AssociationStats>, u64)> + '_ {
        FIGURES.iter().zip(self.links).filter(|(figure, _)| figure.is_counter())
    }

    /// Each figure of [`LANE_FIGURES`] that only grows, and its sums by lane.
    pub(crate) fn lanes(
        &self,
    ) -> impl Iterator<Item = (&'static Figure<LaneStats>, [u64; LaneId::COUNT])> + '_ {
        LANE_FIGURES
            .iter()
            .enumerate()
            .filter(|(_, figure)| figure.is_counter())
            .map(|(at, figure)| (figure, self.lanes.map(|sums| sums[at])))
    }

    /// The sum of the figure of that field.
    fn of(&self, field: &str) -> u64 {
        self.links().filter(|(figure, _)| figure.field == field).map(|(_, sum)| sum).sum()
    }
}

fn add<S>(sums: &mut [u64], figures: &[Figure<S>], stats: &S) {
    for (sum, figure) in sums.iter_mut().zip(figures) {
        if let Read::Counter(read) = figure.read {
            *sum = sum.saturating_add(read(stats));
        }
    }
}

/// One ends, standing like this.
pub(super) fn on_end(last: &AssociationStats) {
    ENDED.lock().add(last);
}

/// The sums, when `alive` says how those stand that are open. Those of the ended are taken first: one that ends meanwhile
/// is not counted in both.
pub(crate) fn totals(
    alive: impl FnOnce() -> Vec<AssociationStats>,
) -> (Totals, Vec<AssociationStats>) {
    let mut totals = ENDED.lock().clone();
    let alive = alive();
    alive.iter().for_each(|link| totals.add(link));
    let mut shown = SHOWN.lock();
    shown.raise(&totals);
    (shown.clone(), alive)
}

/// Chunks sent again and repair symbols, of all associations that this process has had: unlike their own figures, it
/// never falls.
#[must_use]
pub fn repairs_sent() -> u64 {
    let (totals, _) = totals(super::statistics);
    totals.of("chunks_retransmitted") + totals.of("repair_symbols_sent")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arq_proto::Stats;

    use super::*;

    fn link(repaired: u64, delivered: u64) -> AssociationStats {
        let mut stats = Stats::default();
        stats.chunks_retransmitted = repaired;
        stats.window_bytes = 7;
        stats.lanes[3].messages_delivered = delivered;
        AssociationStats {
            id: 1,
            src: "arq/[::1]:1".parse().unwrap(),
            dst: "arq/[::1]:2".parse().unwrap(),
            age: Duration::ZERO,
            opened_at: std::time::SystemTime::UNIX_EPOCH,
            security: "none",
            peer: None,
            certificate_expires: None,
            stats,
            paths: Vec::new(),
        }
    }

    #[test]
    fn sums_are_of_all_that_only_grows() {
        let mut totals = Totals::NOTHING;
        totals.add(&link(2, 30));
        totals.add(&link(5, 40));
        assert_eq!(totals.of("chunks_retransmitted"), 7);
        assert_eq!(totals.of("window_bytes"), 0);
        assert!(totals.links().all(|(figure, _)| figure.is_counter()));
        let delivered: Vec<_> =
            totals.lanes().filter(|(figure, _)| figure.field == "messages_delivered").collect();
        assert_eq!(delivered[0].1[3], 70);
    }

    /// The statics are of the whole process: only what this test does is asked.
    #[test]
    fn one_that_ends_meanwhile_is_counted_once_and_no_sum_falls() {
        let before = repairs_sent();
        on_end(&link(7, 0));
        let ends = || {
            on_end(&link(5, 0));
            vec![link(5, 0)]
        };
        assert_eq!(totals(ends).0.of("chunks_retransmitted"), before + 7 + 5);
        // Alive no more, and not yet among the ended.
        assert_eq!(totals(Vec::new).0.of("chunks_retransmitted"), before + 7 + 5);
    }
}
