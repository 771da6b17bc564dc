// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Is service resumed after an outage as targeted (T12)?

use netlab::wire::{Change, Conditions, Event};

use super::evidence::Evidence;
use super::{Tally, ARQ};
use crate::record::{FlowResult, Measurement};
use crate::summary::{Spread, Summary};

const SCENARIO: &str = "blackout";
const LENGTH_S: f64 = 8.0;
/// The interval between probes that is in force after more than five seconds of silence (ARQ-PTO-4).
const PTO_MS: f64 = 1_000.0;

/// T12
pub(super) fn back_after_a_blackout(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    let has_one = |cell: &Summary| blackout_end_ms(&cell.network).is_some();
    let Some(cell) = evidence.ours(&mut tally, SCENARIO, ARQ, "8 s", has_one) else { return tally };
    let Some(end_ms) = blackout_end_ms(&cell.network) else { return tally };
    for flow in &cell.flows {
        tally.at_most(
            &format!("messages of {} that never came", flow.flow.name),
            flow.undelivered as f64,
            0.0,
        );
    }
    let waits: Option<Vec<_>> = evidence.runs(cell).map(|run| wait_ms(run, end_ms)).collect();
    match waits.and_then(Spread::of) {
        Some(waits) => tally.at_most("ms to the first message", waits.median(), 1.5 * PTO_MS),
        None => tally.is_missing("blackout, arq: the time of every message"),
    }
    tally
}

/// When the network's one blackout of that length is over, on the network's clock: 5 ms more than after the first
/// message.
fn blackout_end_ms(network: &Conditions) -> Option<f64> {
    let [Event { at_s, until_s: Some(until_s), every_s: None, change: Change::Blackout }] =
        network.events.as_slice()
    else {
        return None;
    };
    ((until_s - at_s - LENGTH_S).abs() < 1e-9).then_some(until_s * 1e3)
}

/// From the end of the blackout to the first arrival of any flow; infinite if none came. `None` if not every message
/// was kept.
fn wait_ms(run: &Measurement, end_ms: f64) -> Option<f64> {
    let mut first = f64::INFINITY;
    for result in &run.flows {
        if result.kept_every != 1 {
            return None;
        }
        first = arrivals_ms(result).filter(|at| *at >= end_ms).fold(first, f64::min);
    }
    Some(first - end_ms)
}

fn arrivals_ms(result: &FlowResult) -> impl Iterator<Item = f64> + '_ {
    let start_ms = result.flow.start_s * 1e3;
    let messages = result.messages.iter();
    messages.filter_map(move |(departed, latency)| Some(start_ms + departed + (*latency)?))
}
