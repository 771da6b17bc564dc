// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What became of the messages of one run?
//!
//! Every message counts from the moment when it was meant to leave, so a publisher that is held up cannot hide the
//! wait. A message that never came is later than any that did: it stays in the ranking, and a percentile that falls
//! on it is *lost*, not absent.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A message as the subscriber saw it; times are of the machine's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Arrival {
    /// Its number, from 0.
    pub(super) sequence: u64,
    /// When it was meant to leave.
    pub(super) intended_ns: u64,
    /// When it came.
    pub(super) arrived_ns: u64,
}

/// The messages that were meant to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offered {
    /// How many.
    pub(super) messages: u64,
    /// When the first was meant to leave.
    pub(super) first_ns: u64,
    /// When the last was meant to leave.
    pub(super) last_ns: u64,
}

/// The summary of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    offered: u64,
    /// Ascending, one per message that came.
    latencies: Vec<Duration>,
    /// The longest time without any arrival while messages were due.
    pub(super) longest_silence: Duration,
    /// Arrivals of a message that had come before.
    pub(super) duplicates: u64,
    /// Arrivals after a message of a higher number.
    pub(super) out_of_order: u64,
}

impl Delivery {
    /// Sums up the arrivals, in the order in which they came.
    pub(super) fn of(offered: Offered, arrivals: &[Arrival]) -> Self {
        let mut latency_of = BTreeMap::new();
        let (mut duplicates, mut out_of_order) = (0, 0);
        for arrival in arrivals {
            let highest = latency_of.last_key_value().map(|(sequence, _)| *sequence);
            let latency = arrival.arrived_ns.saturating_sub(arrival.intended_ns);
            let is_new = !latency_of.contains_key(&arrival.sequence);
            match is_new {
                true => drop(latency_of.insert(arrival.sequence, Duration::from_nanos(latency))),
                false => duplicates += 1,
            }
            if is_new && highest > Some(arrival.sequence) {
                out_of_order += 1;
            }
        }
        let mut latencies: Vec<_> = latency_of.into_values().collect();
        latencies.sort_unstable();
        let longest_silence = longest_silence(offered, arrivals);
        Self { offered: offered.messages, latencies, longest_silence, duplicates, out_of_order }
    }

    /// How many messages came.
    pub(super) fn delivered(&self) -> u64 {
        self.latencies.len() as u64
    }

    /// The share of the offered messages that came.
    pub(super) fn share(&self) -> f64 {
        self.delivered() as f64 / self.offered.max(1) as f64
    }

    /// The latency that `percent` of the offered messages did not exceed (nearest rank); `None` when that
    /// message was lost.
    pub(super) fn percentile(&self, percent: f64) -> Option<Duration> {
        let rank = (self.offered as f64 * percent / 100.0).ceil().max(1.0);
        self.latencies.get(rank as usize - 1).copied()
    }
}

/// The longest gap between arrivals, counted from the first intended departure, and to the last one at least: a link
/// that falls silent for good is silent until the end.
fn longest_silence(offered: Offered, arrivals: &[Arrival]) -> Duration {
    let mut heard = offered.first_ns;
    let mut longest = 0;
    for arrival in arrivals {
        longest = longest.max(arrival.arrived_ns.saturating_sub(heard));
        heard = heard.max(arrival.arrived_ns);
    }
    Duration::from_nanos(longest.max(offered.last_ns.saturating_sub(heard)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Message `i` is meant to leave at `10 i` ms.
    fn arrivals(latencies_ms: &[(u64, u64)]) -> Vec<Arrival> {
        let arrival = |&(sequence, latency): &(u64, u64)| Arrival {
            sequence,
            intended_ns: sequence * 10 * MS,
            arrived_ns: (sequence * 10 + latency) * MS,
        };
        let mut arrivals: Vec<_> = latencies_ms.iter().map(arrival).collect();
        arrivals.sort_by_key(|arrival| arrival.arrived_ns);
        arrivals
    }

    fn offered(messages: u64) -> Offered {
        Offered { messages, first_ns: 0, last_ns: (messages - 1) * 10 * MS }
    }

    fn ms(value: u64) -> Option<Duration> {
        Some(Duration::from_millis(value))
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let hundred: Vec<_> = (0..100).map(|i| (i, i + 1)).collect();
        let delivery = Delivery::of(offered(100), &arrivals(&hundred));
        let of = |percent| delivery.percentile(percent);
        assert_eq!((of(50.0), of(99.0), of(99.9), of(100.0)), (ms(50), ms(99), ms(100), ms(100)));
        assert_eq!(of(0.0), ms(1));
        let one = Delivery::of(offered(1), &arrivals(&[(0, 7)]));
        assert_eq!((one.percentile(50.0), one.percentile(99.0)), (ms(7), ms(7)));
    }

    #[test]
    fn a_lost_message_is_late_not_absent() {
        let ninety: Vec<_> = (0..90).map(|i| (i, 5)).collect();
        let delivery = Delivery::of(offered(100), &arrivals(&ninety));
        assert_eq!(delivery.percentile(90.0), ms(5));
        assert_eq!(delivery.percentile(91.0), None);
        assert!((delivery.share() - 0.9).abs() < 1e-9);
        assert_eq!(Delivery::of(offered(3), &[]).percentile(50.0), None);
    }

    #[test]
    fn silence_includes_the_wait_for_the_first_and_after_the_last() {
        let silence = |latencies: &[(u64, u64)], messages| {
            Delivery::of(offered(messages), &arrivals(latencies)).longest_silence.as_millis()
        };
        assert_eq!(silence(&[(0, 1), (1, 1), (2, 1)], 3), 10);
        assert_eq!(silence(&[(0, 35), (1, 25), (2, 15)], 3), 35);
        assert_eq!(silence(&[(0, 1)], 6), 49);
        assert_eq!(silence(&[], 6), 50);
    }

    #[test]
    fn duplicates_and_disorder_are_counted_and_the_first_copy_decides() {
        let mut seen = arrivals(&[(0, 1), (2, 1), (1, 30)]);
        seen.push(Arrival { arrived_ns: 90 * MS, ..seen[0] });
        let delivery = Delivery::of(offered(3), &seen);
        assert_eq!((delivery.delivered(), delivery.duplicates, delivery.out_of_order), (3, 1, 1));
        assert_eq!(delivery.percentile(1.0), ms(1));
    }
}
