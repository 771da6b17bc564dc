// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which figures of a link are shown, and which of them can order the links?

use std::cmp::Ordering;
use std::collections::BTreeMap;

use clap::ValueEnum;

/// A link and what the process says of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Link {
    /// Its number in the process.
    pub id: u64,
    /// Its local end.
    pub src: String,
    /// Its remote end.
    pub dst: String,
    /// Seconds since it was opened.
    pub age: f64,
    /// Smoothed round-trip time in seconds.
    pub rtt: f64,
    /// Its least value.
    pub rtt_min: f64,
    /// Its mean deviation.
    pub rtt_variation: f64,
    /// Upper estimate of the share of our packets that are lost.
    pub loss: f64,
    /// The same of the peer's packets.
    pub reverse_loss: f64,
    /// What congestion control allows in flight, in bytes.
    pub window: f64,
    /// What is in flight, in bytes.
    pub in_flight: f64,
    /// Pacing rate in bytes per second.
    pub pacing: f64,
    /// Bytes that wait to be sent.
    pub queued: f64,
    /// Seconds that the oldest of them has waited.
    pub queue_age: f64,
    /// Bytes sent.
    pub sent: f64,
    /// Packets sent.
    pub packets_sent: f64,
    /// Bytes received.
    pub received: f64,
    /// Packets declared lost.
    pub lost: f64,
    /// Those of them that had arrived after all.
    pub spurious: f64,
    /// Chunks sent again.
    pub again: f64,
    /// Repair symbols sent.
    pub parity: f64,
    /// Chunks computed from repair symbols.
    pub recovered: f64,
    /// Its paths, where it leads over several interfaces.
    pub paths: BTreeMap<String, Path>,
}

/// A path of a link, and what the process says of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Path {
    /// Where it stands.
    pub state: String,
    /// Smoothed round-trip time in seconds.
    pub rtt: f64,
    /// Upper estimate of the share of our packets that it loses.
    pub loss: f64,
    /// Bytes sent.
    pub sent: f64,
    /// Bytes received.
    pub received: f64,
    /// Times that it fell silent.
    pub silences: f64,
    /// Seconds of silence in all.
    pub silent: f64,
}

impl Path {
    /// Where the figure of this name is kept, if it is one of those that are shown.
    pub(crate) fn slot(&mut self, name: &str) -> Option<&mut f64> {
        Some(match name {
            "arq_path_rtt_smoothed_seconds" => &mut self.rtt,
            "arq_path_loss_ratio" => &mut self.loss,
            "arq_path_sent_bytes_total" => &mut self.sent,
            "arq_path_received_bytes_total" => &mut self.received,
            "arq_path_silences_total" => &mut self.silences,
            "arq_path_silent_seconds" => &mut self.silent,
            _ => return None,
        })
    }
}

impl Link {
    /// Where the figure of this name is kept, if it is one of those that are shown.
    pub(crate) fn slot(&mut self, name: &str) -> Option<&mut f64> {
        Some(match name {
            "arq_age_seconds" => &mut self.age,
            "arq_rtt_smoothed_seconds" => &mut self.rtt,
            "arq_rtt_min_seconds" => &mut self.rtt_min,
            "arq_rtt_variation_seconds" => &mut self.rtt_variation,
            "arq_loss_ratio" => &mut self.loss,
            "arq_reverse_loss_ratio" => &mut self.reverse_loss,
            "arq_window_bytes" => &mut self.window,
            "arq_in_flight_bytes" => &mut self.in_flight,
            "arq_pacing_bytes_per_second" => &mut self.pacing,
            "arq_queued_bytes" => &mut self.queued,
            "arq_queue_age_seconds" => &mut self.queue_age,
            "arq_sent_bytes_total" => &mut self.sent,
            "arq_packets_sent_total" => &mut self.packets_sent,
            "arq_received_bytes_total" => &mut self.received,
            "arq_packets_lost_total" => &mut self.lost,
            "arq_packets_spuriously_lost_total" => &mut self.spurious,
            "arq_chunks_retransmitted_total" => &mut self.again,
            "arq_repair_symbols_sent_total" => &mut self.parity,
            "arq_chunks_recovered_total" => &mut self.recovered,
            _ => return None,
        })
    }
}

/// What a link has done since the look before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// Bytes sent per second.
    pub sent: f64,
    /// Bytes received per second.
    pub received: f64,
    /// Chunks sent again per second.
    pub again: f64,
    /// Repair symbols sent per second.
    pub parity: f64,
    /// Share of the packets that were lost, of those sent meanwhile.
    pub lost: f64,
}

impl Rates {
    /// From two looks at a link, by its own clock: an answer may be old, and take its time. `None` if
    /// they show the same moment. What has begun anew counts as nothing.
    pub(crate) fn between(before: &Link, after: &Link) -> Option<Self> {
        let grown = |figure: fn(&Link) -> f64| (figure(after) - figure(before)).max(0.0);
        let seconds = after.age - before.age;
        if seconds <= 0.0 {
            return None;
        }
        let packets = grown(|link| link.packets_sent);
        Some(Self {
            sent: grown(|link| link.sent) / seconds,
            received: grown(|link| link.received) / seconds,
            again: grown(|link| link.again) / seconds,
            parity: grown(|link| link.parity) / seconds,
            lost: if packets > 0.0 { (grown(|l| l.lost) / packets).min(1.0) } else { 0.0 },
        })
    }
}

/// What orders the links, the greatest first; by number the oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// Bytes sent: per second, or in all with --once.
    #[default]
    Sent,
    /// Bytes received, likewise.
    Received,
    /// Round-trip time.
    Rtt,
    /// Loss, of the worse direction.
    Loss,
    /// How long the oldest message waits to be sent.
    Queue,
    /// Number of the link.
    Link,
}

impl Order {
    /// The one after this.
    pub(crate) fn next(self) -> Self {
        let all = Self::value_variants();
        let at = all.iter().position(|order| *order == self).unwrap_or_default();
        all.get(at + 1).copied().unwrap_or_default()
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Received => "received",
            Self::Rtt => "rtt",
            Self::Loss => "loss",
            Self::Queue => "queue",
            Self::Link => "link",
        }
    }

    /// Which of two links stands first, when `sent` and `received` are these of each.
    pub(crate) fn compare(self, a: (&Link, [f64; 2]), b: (&Link, [f64; 2])) -> Ordering {
        let key = |(link, [sent, received]): (&Link, [f64; 2])| match self {
            Self::Sent => sent,
            Self::Received => received,
            Self::Rtt => link.rtt,
            Self::Loss => link.loss.max(link.reverse_loss),
            Self::Queue => link.queue_age,
            Self::Link => 0.0,
        };
        key(b).total_cmp(&key(a)).then(a.0.id.cmp(&b.0.id))
    }
}

#[cfg(test)]
mod tests {
    use zenoh_link_arq::statistics::FIGURES;

    use super::*;

    #[test]
    fn every_figure_that_is_shown_exists() {
        let names: Vec<_> = FIGURES.iter().map(|figure| figure.exported_name()).collect();
        let mut link = Link::default();
        for name in &names {
            if let Some(slot) = link.slot(name) {
                *slot = 1.0;
            }
        }
        // Nothing was left at its default.
        assert!(!format!("{link:?}").contains(": 0.0"), "{link:?}");
    }

    #[test]
    fn rates_are_of_the_time_between_and_never_negative() {
        let before = Link { age: 7.0, sent: 1e3, packets_sent: 10.0, lost: 1.0, ..Link::default() };
        let after = Link {
            age: 9.0,
            sent: 5e3,
            packets_sent: 30.0,
            lost: 6.0,
            received: 2.0,
            ..Link::default()
        };
        let rates = Rates::between(&before, &after).expect("time has passed");
        assert_eq!((rates.sent, rates.received, rates.lost), (2e3, 1.0, 0.25));
        let anew = Link { age: 8.0, ..Link::default() };
        assert_eq!(Rates::between(&before, &anew), Some(Rates::default()));
        assert_eq!(Rates::between(&before, &before), None);
    }

    #[test]
    fn all_orders_come_round() {
        let mut order = Order::Sent;
        for expected in ["received", "rtt", "loss", "queue", "link", "sent"] {
            order = order.next();
            assert_eq!(order.name(), expected);
        }
    }
}
