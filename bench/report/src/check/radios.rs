// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Are two radios as good as the better one without its outages (M1)?

use netlab::wire::Conditions;

use super::evidence::{of_first_flow, Evidence};
use super::{Tally, ARQ_A, ARQ_B, ARQ_PATHS};
use crate::record::{nearest_rank, Measurement};
use crate::summary::{setting_in_words, Figure, Spread, Summary};

const SCENARIO: &str = "two-radios";
/// What arrives so much later than the median has met an outage, milliseconds.
const OUTAGE_MS: f64 = 200.0;

/// M1
pub(super) fn as_the_better_one(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    let Some(scenario) = tally.scenario(SCENARIO) else { return tally };
    for setting in scenario.cells().into_iter().filter(|setting| setting.cell.link == ARQ_PATHS) {
        let what = setting_in_words(&setting.cell.setting);
        let mut cell = |link: &str| {
            let is_it = |cell: &Summary| cell.cell.setting == setting.cell.setting;
            evidence.ours(&mut tally, SCENARIO, link, &what, is_it)
        };
        if is_recorded(&setting.network) {
            let cells = [ARQ_PATHS, ARQ_A, ARQ_B].map(&mut cell);
            if let [Some(both), Some(a), Some(b)] = cells {
                beside_the_better(evidence, &mut tally, &what, both, [a, b]);
            }
        } else if let Some(second) = setting.network.second.as_deref() {
            if !setting.network.events.is_empty() {
                if let Some(both) = cell(ARQ_PATHS) {
                    fails_over(evidence, &mut tally, &what, both, second);
                }
            }
        }
    }
    tally
}

fn is_recorded(network: &Conditions) -> bool {
    let second = network.second.as_deref();
    network.forward.recording.is_some() && second.is_some_and(|two| two.forward.recording.is_some())
}

fn beside_the_better(
    evidence: &Evidence<'_>,
    tally: &mut Tally,
    what: &str,
    both: &Summary,
    alone: [&Summary; 2],
) {
    let of_runs = |cell: &Summary, of: fn(&Measurement) -> f64| {
        Some(Spread::of(evidence.runs(cell).map(of).collect())?.median())
    };
    let p99s = alone.map(|cell| of_runs(cell, p99_without_outages).unwrap_or(f64::INFINITY));
    let better = usize::from(p99s[1] < p99s[0]);
    match of_first_flow(both, Figure::P99) {
        Some(found) => tally.at_most(
            &format!("{what}, p99, 1.2 x {} without outages", alone[better].cell.link),
            found,
            1.2 * p99s[better],
        ),
        None => tally.is_missing(format!("{what}: p99")),
    }
    match of_runs(both, packets).zip(of_runs(alone[better], packets)) {
        Some((found, of_one)) => tally.at_most(
            &format!("{what}, packets, 1.05 x {}", alone[better].cell.link),
            found,
            1.05 * of_one,
        ),
        None => tally.is_missing(format!("{what}: packets")),
    }
}

/// In the worst run; later than the other radio alone brings it.
fn fails_over(
    evidence: &Evidence<'_>,
    tally: &mut Tally,
    what: &str,
    both: &Summary,
    second: &Conditions,
) {
    let one_way_ms = second.forward.delay_ms;
    let round_trip_ms = one_way_ms + second.backward.delay_ms;
    let latest = evidence.runs(both).flat_map(latencies).fold(0.0, f64::max);
    let what = format!("{what}, latest message, ms behind the other radio's way");
    tally.at_most(&what, latest - one_way_ms, 1.5 * round_trip_ms);
}

fn packets(run: &Measurement) -> f64 {
    (run.forward.entered_packets + run.backward.entered_packets) as f64
}

/// Of the first flow; infinite for what never came.
fn latencies(run: &Measurement) -> impl Iterator<Item = f64> + '_ {
    let messages = run.flows.first().into_iter().flat_map(|flow| &flow.messages);
    messages.map(|(_, latency_ms)| latency_ms.unwrap_or(f64::INFINITY))
}

fn p99_without_outages(run: &Measurement) -> f64 {
    let mut all: Vec<f64> = latencies(run).collect();
    all.sort_unstable_by(f64::total_cmp);
    let median = nearest_rank(&all, all.len(), 50.0).unwrap_or(f64::INFINITY);
    all.retain(|latency_ms| *latency_ms <= median + OUTAGE_MS);
    nearest_rank(&all, all.len(), 99.0).unwrap_or(f64::INFINITY)
}
