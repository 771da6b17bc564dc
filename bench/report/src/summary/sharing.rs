// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How evenly do the flows of a run share a bottleneck?
//!
//! Counted while all of them are meant to send: from the start of the latest to the end of the first that ends.

use crate::record::{FlowResult, Measurement};
use crate::scenario::flow::Pattern;

/// The flows that want all they can get; none where fewer than two do.
pub(crate) fn contenders(measurement: &Measurement) -> Vec<&FlowResult> {
    let greedy = |flow: &&FlowResult| {
        matches!(flow.flow.pattern, Pattern::Flood { .. } | Pattern::Transfer { .. })
    };
    let flows: Vec<_> = measurement.flows.iter().filter(greedy).collect();
    if flows.len() > 1 {
        flows
    } else {
        Vec::new()
    }
}

/// What arrived of each flow while all were sending, bytes; `None` where they never did or one has no such time.
pub(crate) fn bytes_together(flows: &[&FlowResult]) -> Option<Vec<f64>> {
    let from_s = flows.iter().map(|flow| flow.flow.start_s).fold(0.0, f64::max);
    let ends_s: Option<Vec<f64>> = flows.iter().map(|flow| end_s(flow)).collect();
    let until_s = ends_s?.into_iter().fold(f64::INFINITY, f64::min);
    (from_s < until_s).then(|| flows.iter().map(|flow| bytes(flow, from_s, until_s)).collect())
}

fn end_s(result: &FlowResult) -> Option<f64> {
    match result.flow.pattern {
        Pattern::Flood { seconds } => Some(result.flow.start_s + seconds),
        Pattern::Transfer { .. } => Some(result.flow.start_s + result.duration_s),
        Pattern::Periodic { .. } | Pattern::PingPong { .. } | Pattern::Opening { .. } => None,
    }
}

/// `arrived_bytes` counts tenths of a second from the flow's own start.
fn bytes(result: &FlowResult, from_s: f64, until_s: f64) -> f64 {
    let tenth = |at_s: f64| ((at_s - result.flow.start_s) * 10.0).round() as usize;
    let within = result.arrived_bytes.iter().take(tenth(until_s)).skip(tenth(from_s));
    within.map(|bytes| *bytes as f64).sum()
}

/// Jain's index, (Σx)² / (n Σx²): 1 when all have the same, 1/n when one of n has everything. `None` for fewer than two
/// or when none got anything.
pub(crate) fn jain_index(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (shares.len() > 1 && squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// The least of all shares, of an even one: 1 when all have the same, 0 when one has nothing. `None` as for
/// [`jain_index`].
pub(crate) fn least_share(shares: &[f64]) -> Option<f64> {
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let least = shares.iter().copied().reduce(f64::min)?;
    (shares.len() > 1 && mean > 0.0).then(|| least / mean)
}

/// What flows of the link under test got of all that arrived beside those of rivals, 0 to 1. `None` without a rival, and
/// where nothing arrived.
pub(crate) fn share_beside_rivals(flows: &[&FlowResult]) -> Option<f64> {
    let is_rival = |flow: &FlowResult| flow.flow.link.is_some();
    let bytes = bytes_together(flows)?;
    let tested = flows.iter().zip(&bytes).filter(|(flow, _)| !is_rival(flow));
    let (tested, all) = (tested.map(|(_, bytes)| bytes).sum::<f64>(), bytes.iter().sum::<f64>());
    (flows.iter().any(|flow| is_rival(flow)) && all > 0.0).then(|| tested / all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Outcome, Percentiles};
    use crate::summary::tests::run;

    /// A flood from `start_s` on, with so many bytes in each tenth of a second.
    fn flood(start_s: f64, seconds: f64, per_tenth: u64) -> FlowResult {
        let Outcome::Measured(measurement) = run("arq", "0", 0, Percentiles::default()).outcome
        else {
            panic!("a measurement")
        };
        let mut result = measurement.flows[0].clone();
        result.flow.pattern = Pattern::Flood { seconds };
        result.flow.start_s = start_s;
        result.arrived_bytes = vec![per_tenth; (seconds * 10.0) as usize];
        result
    }

    #[test]
    fn only_the_time_counts_in_which_all_send() {
        let (first, second) = (flood(0.0, 4.0, 100), flood(1.0, 2.0, 300));
        assert_eq!(bytes_together(&[&first, &second]), Some(vec![2_000.0, 6_000.0]));
        let late = flood(4.0, 1.0, 100);
        assert_eq!(bytes_together(&[&first, &late]), None);
    }

    #[test]
    fn the_index_is_one_for_equals_and_one_nth_for_one_taker() {
        assert_eq!(jain_index(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain_index(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[8.0]), None);
        assert_eq!(jain_index(&[0.0, 0.0]), None);
    }

    #[test]
    fn the_least_share_is_one_for_equals_and_zero_for_who_gets_nothing() {
        assert_eq!(least_share(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(least_share(&[1.0, 2.0, 3.0, 2.0]), Some(0.5));
        assert_eq!(least_share(&[8.0, 0.0]), Some(0.0));
        assert_eq!(least_share(&[8.0]), None);
        assert_eq!(least_share(&[0.0, 0.0]), None);
    }

    #[test]
    fn a_share_is_that_of_the_link_under_test_and_needs_a_rival() {
        let (first, mut second) = (flood(0.0, 4.0, 100), flood(1.0, 2.0, 300));
        assert_eq!(share_beside_rivals(&[&first, &second]), None);
        second.flow.link = Some("tcp-cubic".to_owned());
        assert_eq!(share_beside_rivals(&[&first, &second]), Some(0.25));
        second.arrived_bytes.fill(0);
        assert_eq!(share_beside_rivals(&[&first, &second]), Some(1.0));
        let starved = flood(0.0, 4.0, 0);
        assert_eq!(share_beside_rivals(&[&starved, &second]), None);
    }

    #[test]
    fn one_flow_contends_with_nobody() {
        let mut measurement =
            Measurement { flows: vec![flood(0.0, 1.0, 1)], ..Measurement::default() };
        assert!(contenders(&measurement).is_empty());
        measurement.flows.push(flood(0.0, 1.0, 1));
        assert_eq!(contenders(&measurement).len(), 2);
    }
}
