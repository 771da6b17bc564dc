// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Is a bottleneck shared as targeted (T9)?
//!
//! Counted is the payload that was delivered while both flows are meant to send: from the start of the later one to the
//! end of the one that ends first. Both scenarios have 50 Mb/s and a queue of one bandwidth-delay product; the one beside
//! cubic has a single flow of it.

use super::evidence::Evidence;
use super::{Tally, ARQ};
use crate::record::FlowResult;
use crate::scenario::flow::Flow;
use crate::summary::sharing::{bytes_together, contenders, jain_index, share_beside_rivals};
use crate::summary::{Spread, Summary};

/// T9
pub(super) fn fair(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    let beside_cubic =
        median(evidence, &mut tally, "fairness-cubic", is_beside_cubic, share_beside_rivals);
    if let Some(share) = beside_cubic {
        tally.at_least("share of the bottleneck beside cubic", share, 0.25);
        tally.at_most("share of the bottleneck beside cubic", share, 0.75);
    }
    // Where nothing arrived nothing was shared.
    let jain: Of = |flows| Some(jain_index(&bytes_together(flows)?).unwrap_or(0.0));
    if let Some(index) = median(evidence, &mut tally, "fairness", is_among_equals, jain) {
        tally.at_least("Jain's index of two of ours", index, 0.95);
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

/// A figure of the flows that compete in a run.
type Of = fn(&[&FlowResult]) -> Option<f64>;

/// The median of a figure over the runs of the scenario's cell.
fn median(
    evidence: &Evidence<'_>,
    tally: &mut Tally,
    scenario: &str,
    is_it: fn(&Summary) -> bool,
    of: Of,
) -> Option<f64> {
    let cell = evidence.ours(tally, scenario, ARQ, "two sessions", is_it)?;
    let values: Option<Vec<_>> = evidence.runs(cell).map(|run| of(&contenders(run))).collect();
    if values.is_none() {
        tally.is_missing(format!("{scenario}: two floods at the same time"));
    }
    Some(Spread::of(values?)?.median())
}
