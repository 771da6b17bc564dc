// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What became of the messages of one flow?
//!
//! Every message counts from the moment when it was meant to leave, so a publisher that is held up cannot hide the
//! wait. A message that never came is later than any that did: it stays in the ranking, and a percentile that falls
//! on it is *lost*, not absent.
//!
//! A [`Ledger`] is written while messages come; [`flow_result`] reads it afterwards, together with what the publisher
//! knows. Counts, silence and bytes over time are exact however long the flow is. Single messages are kept up to
//! [`KEPT_AT_MOST`]; beyond that every second, fourth, … by number, which no link can influence. Ranks come from
//! sorting those, so they are exact: a histogram would save memory that is bounded already.

mod ledger;

use arq_report::record::{nearest_rank, FlowResult, Percentiles};
use arq_report::scenario::flow::{Flow, Pattern};
use serde::{Deserialize, Serialize};

pub use ledger::{Ledger, NotOurs, Thinned};

/// Single messages that a process remembers of one flow.
pub const KEPT_AT_MOST: usize = 1 << 18;
/// Single messages that a result keeps of one flow.
const SHOWN_AT_MOST: u64 = 20_000;
const NS_PER_MS: f64 = 1e6;

/// When the messages of a flow were meant to leave; times are nanoseconds of the machine's monotonic clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Departures {
    /// Messages that were meant to be sent.
    pub offered: u64,
    /// When the flow began.
    pub first_ns: u64,
    /// Where nobody could know beforehand: when each was handed over.
    pub noted: Thinned<u64>,
}

impl Departures {
    /// When a message was meant to leave. All messages of a transfer are due when it begins, so that the latency of
    /// the last is how long the whole took.
    fn intended_ns(&self, flow: &Flow, sequence: u64) -> Option<u64> {
        match flow.pattern {
            Pattern::Periodic { rate_hz, .. } => Some(self.first_ns + after(sequence, rate_hz)),
            Pattern::Transfer { .. } => Some(self.first_ns),
            Pattern::Flood { .. } | Pattern::PingPong { .. } | Pattern::Opening { .. } => {
                self.noted.get(sequence).copied()
            }
        }
    }

    /// When the last message was meant to leave.
    fn last_ns(&self, flow: &Flow) -> u64 {
        let last = self.offered.checked_sub(1);
        let noted = || self.noted.last().copied();
        last.and_then(|last| self.intended_ns(flow, last)).or_else(noted).unwrap_or(self.first_ns)
    }
}

/// Nanoseconds from the first message of a periodic flow to another.
pub(crate) fn after(sequence: u64, rate_hz: f64) -> u64 {
    (sequence as f64 * 1e9 / rate_hz) as u64
}

/// Sums up one flow.
pub fn flow_result(flow: &Flow, departures: &Departures, ledger: &Ledger) -> FlowResult {
    let every = step(departures, ledger);
    let messages = messages(flow, departures, ledger, every);
    let kept_every = (messages.len() as u64).div_ceil(SHOWN_AT_MOST).max(1);
    let first_ns = departures.first_ns;
    FlowResult {
        flow: flow.clone(),
        offered: departures.offered,
        delivered: ledger.delivered,
        duplicates: ledger.duplicates,
        out_of_order: ledger.out_of_order,
        longest_silence_ms: ledger.longest_silence_ns(first_ns, departures.last_ns(flow)) as f64
            / NS_PER_MS,
        duration_s: ledger.last_ns.map_or(0.0, |last| last.saturating_sub(first_ns) as f64 / 1e9),
        arrived_bytes: ledger.arrived_bytes.clone(),
        percentiles: percentiles(&messages),
        messages: messages.into_iter().step_by(kept_every as usize).collect(),
        kept_every: every * kept_every,
        ideal: None,
    }
}

/// Every how many messages both sides remember; both numbers are powers of two.
fn step(departures: &Departures, ledger: &Ledger) -> u64 {
    let enough = departures.offered.div_ceil(KEPT_AT_MOST as u64).next_power_of_two();
    enough.max(ledger.arrivals.every()).max(departures.noted.every())
}

/// Intended departure and latency in milliseconds of every `every`-th offered message.
fn messages(
    flow: &Flow,
    departures: &Departures,
    ledger: &Ledger,
    every: u64,
) -> Vec<(f64, Option<f64>)> {
    let mut arrivals = ledger.arrivals.to_sorted().into_iter().peekable();
    // What was never handed over would have left behind the last that was.
    let last_ns = departures.last_ns(flow);
    let mut messages = Vec::new();
    for sequence in (0..departures.offered).step_by(every as usize) {
        while arrivals.next_if(|(number, _)| *number < sequence).is_some() {}
        let arrival = arrivals.next_if(|(number, _)| *number == sequence).map(|(_, times)| times);
        let intended_ns = departures.intended_ns(flow, sequence);
        let intended_ns = intended_ns.or_else(|| arrival.map(|(intended, _)| intended));
        let intended_ns = intended_ns.unwrap_or(last_ns);
        let latency = arrival.map(|(_, arrived)| milliseconds(intended_ns, arrived));
        messages.push((milliseconds(departures.first_ns, intended_ns), latency));
    }
    messages
}

fn milliseconds(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / NS_PER_MS
}

/// Ranks over all messages, lost ones last.
fn percentiles(messages: &[(f64, Option<f64>)]) -> Percentiles {
    let mut latencies: Vec<f64> = messages.iter().filter_map(|(_, latency)| *latency).collect();
    latencies.sort_unstable_by(f64::total_cmp);
    let at = |percent| nearest_rank(&latencies, messages.len(), percent);
    let sum: f64 = latencies.iter().sum();
    Percentiles {
        mean_of_delivered: (!latencies.is_empty()).then(|| sum / latencies.len() as f64),
        p50: at(50.0),
        p90: at(90.0),
        p99: at(99.0),
        p99_9: at(99.9),
        max: at(100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const FIRST: u64 = 7_000 * MS;

    /// A hundred messages a second: message `i` is meant to leave at `10 i` ms.
    fn flow(messages: u64) -> Flow {
        let text = format!(
            r#"{{"name":"f","payload_bytes":100,"pattern":"periodic","rate_hz":100.0,"messages":{messages}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn departures(offered: u64) -> Departures {
        Departures { offered, first_ns: FIRST, noted: Thinned::default() }
    }

    /// The result when these messages came with these latencies in milliseconds.
    fn result(offered: u64, latencies_ms: &[(u64, u64)]) -> FlowResult {
        let arrival = |&(sequence, latency): &(u64, u64)| {
            let intended = FIRST + sequence * 10 * MS;
            (sequence, intended, intended + latency * MS)
        };
        let mut arrivals: Vec<_> = latencies_ms.iter().map(arrival).collect();
        arrivals.sort_by_key(|(_, _, arrived)| *arrived);
        let mut ledger = Ledger::new(FIRST);
        for (sequence, intended, arrived) in arrivals {
            ledger.note(sequence, intended, arrived, 100).unwrap();
        }
        flow_result(&flow(offered), &departures(offered), &ledger)
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let hundred: Vec<_> = (0..100).map(|i| (i, i + 1)).collect();
        let Percentiles { mean_of_delivered, p50, p90, p99, p99_9, max } =
            result(100, &hundred).percentiles;
        assert_eq!([p50, p90, p99, p99_9, max], [50.0, 90.0, 99.0, 100.0, 100.0].map(Some));
        assert_eq!(mean_of_delivered, Some(50.5));
        let one = result(1, &[(0, 7)]).percentiles;
        assert_eq!((one.p50, one.p99, one.max), (Some(7.0), Some(7.0), Some(7.0)));
    }

    #[test]
    fn a_lost_message_is_late_not_absent() {
        let ninety: Vec<_> = (0..90).map(|i| (i, 5)).collect();
        let some = result(100, &ninety);
        assert_eq!((some.offered, some.delivered), (100, 90));
        assert_eq!((some.percentiles.p90, some.percentiles.p99), (Some(5.0), None));
        assert_eq!(some.percentiles.mean_of_delivered, Some(5.0));
        assert_eq!(some.messages[89], (890.0, Some(5.0)));
        assert_eq!(some.messages[90], (900.0, None));
        assert_eq!(result(3, &[]).percentiles, Percentiles::default());
    }

    #[test]
    fn silence_includes_the_wait_for_the_first_and_after_the_last() {
        let silence =
            |messages, latencies: &[(u64, u64)]| result(messages, latencies).longest_silence_ms;
        assert_eq!(silence(3, &[(0, 1), (1, 1), (2, 1)]), 10.0);
        assert_eq!(silence(3, &[(0, 35), (1, 25), (2, 15)]), 35.0);
        assert_eq!(silence(6, &[(0, 1)]), 49.0);
        assert_eq!(silence(6, &[]), 50.0);
    }

    #[test]
    fn long_flows_are_thinned_for_show_and_their_ranks_are_not() {
        let all: Vec<_> = (0..50_000).map(|i| (i, if i == 49_999 { 900 } else { 1 })).collect();
        let result = result(50_000, &all);
        assert_eq!((result.kept_every, result.messages.len()), (3, 16_667));
        assert_eq!(result.messages[1], (30.0, Some(1.0)));
        assert_eq!(result.percentiles.max, Some(900.0));
        assert_eq!(result.delivered, 50_000);
    }

    #[test]
    fn a_transfer_is_due_as_a_whole_and_a_lost_flood_message_has_its_time() {
        let text = r#"{"name":"t","payload_bytes":100,"pattern":"transfer","messages":2}"#;
        let transfer: Flow = serde_json::from_str(text).unwrap();
        let mut ledger = Ledger::new(FIRST);
        ledger.note(0, FIRST, FIRST + 5 * MS, 100).unwrap();
        ledger.note(1, FIRST, FIRST + 9 * MS, 100).unwrap();
        let whole = flow_result(&transfer, &departures(2), &ledger);
        assert_eq!((whole.percentiles.max, whole.duration_s), (Some(9.0), 0.009));
        let flood = Flow { pattern: Pattern::Flood { seconds: 1.0 }, ..transfer };
        let mut noted = Thinned::default();
        (0..3).for_each(|i| noted.push(i, FIRST + i * 2 * MS));
        let departures = Departures { noted, ..departures(3) };
        let result = flow_result(&flood, &departures, &ledger);
        assert_eq!(result.messages[2], (4.0, None));
    }

    #[test]
    fn what_was_never_handed_over_is_lost_behind_the_last_that_was() {
        let text = r#"{"name":"o","payload_bytes":100,"pattern":"opening","messages":4}"#;
        let mut noted = Thinned::default();
        (0..2).for_each(|i| noted.push(i, FIRST + i * 30 * MS));
        let mut ledger = Ledger::new(FIRST);
        ledger.note(0, FIRST, FIRST + 5 * MS, 100).unwrap();
        ledger.note(1, FIRST + 30 * MS, FIRST + 37 * MS, 100).unwrap();
        let departures = Departures { noted, ..departures(4) };
        let result = flow_result(&serde_json::from_str(text).unwrap(), &departures, &ledger);
        assert_eq!(result.messages[1..], [(30.0, Some(7.0)), (30.0, None), (30.0, None)]);
        assert_eq!((result.offered, result.delivered), (4, 2));
        assert_eq!((result.percentiles.p50, result.percentiles.p90), (Some(7.0), None));
    }
}
