// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Is a bottleneck shared as targeted (T9)?
//!
//! Counted is the payload that was delivered while both flows are meant to send: from the start of the later one to the
//! end of the one that ends first. Both scenarios have 50 Mb/s and a queue of one bandwidth-delay product; the one beside
//! cubic has a single flow of it.

use super::evidence::Evidence;
use super::{Tally, ARQ};
use crate::record::Measurement;
use crate::scenario::flow::Flow;
use crate::summary::sharing::{self, jain_index};
use crate::summary::{Spread, Summary};

/// T9
pub(super) fn fair(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    if let Some(shares) = shares(evidence, &mut tally, "fairness-cubic", is_beside_cubic) {
        let of_ours = |share: &[f64; 2]| share[0] / (share[0] + share[1]);
        if let Some(median) = median(shares.iter().map(of_ours)) {
            tally.at_least("share of the bottleneck beside cubic", median, 0.25);
            tally.at_most("share of the bottleneck beside cubic", median, 0.75);
        }
    }
    if let Some(shares) = shares(evidence, &mut tally, "fairness", is_among_equals) {
        // Where nothing arrived nothing was shared.
        let jain = |share: &[f64; 2]| jain_index(share).unwrap_or(0.0);
        if let Some(median) = median(shares.iter().map(jain)) {
            tally.at_least("Jain's index of two of ours", median, 0.95);
        }
    }
    tally
}

/// Two flows with a session each, the second over the kernel's cubic.
fn is_beside_cubic(cell: &Summary) -> bool {
    let links: Vec<_> = cell.flows.iter().map(|flow| flow.flow.link.as_deref()).collect();
    links == [None, Some("tcp-cubic")] || cell.repeats == 0
}

/// Two flows of the link under test with a session each.
fn is_among_equals(cell: &Summary) -> bool {
    let apart = |flow: &Flow| flow.own_session && flow.link.is_none();
    cell.flows.len() == 2 && cell.flows.iter().all(|flow| apart(&flow.flow)) || cell.repeats == 0
}

/// The bytes of both flows in each run of the scenario's cell.
fn shares(
    evidence: &Evidence<'_>,
    tally: &mut Tally,
    scenario: &str,
    is_it: fn(&Summary) -> bool,
) -> Option<Vec<[f64; 2]>> {
    let cell = evidence.ours(tally, scenario, ARQ, "two sessions", is_it)?;
    let shares: Option<Vec<_>> = evidence.runs(cell).map(bytes_together).collect();
    if shares.is_none() {
        tally.is_missing(format!("{scenario}: two floods at the same time"));
    }
    shares
}

/// What arrived of each flow while both were sending.
fn bytes_together(measurement: &Measurement) -> Option<[f64; 2]> {
    sharing::bytes_together(&sharing::contenders(measurement))?.try_into().ok()
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    Some(Spread::of(values.collect())?.median())
}
