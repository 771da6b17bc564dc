// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Is a bottleneck shared as targeted (T9, S1)?
//!
//! Counted is the payload that was delivered while all flows are meant to send: from the start of the latest one to the
//! end of the one that ends first. Both scenarios of T9 have 50 Mb/s and a queue of one bandwidth-delay product; the one
//! beside cubic has a single flow of it.

use super::evidence::{of_cell, Evidence};
use super::{Tally, ARQ};
use crate::record::FlowResult;
use crate::scenario::flow::Flow;
use crate::summary::sharing::{
    bytes_together, contenders, jain_index, least_share, share_beside_rivals,
};
use crate::summary::{Figure, Spread, Summary};

/// Four sessions on each of four networks, and one beside a flow of the kernel's: the bench's cells of S1. The simulator's
/// are in its table of the controller.
const FOUR: &str = "shared-bottleneck";
const BESIDE_THE_KERNELS: [&str; 2] = ["beside-cubic", "beside-bbr"];

/// T9
pub(super) fn fair(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    let beside_cubic =
        median(evidence, &mut tally, "fairness-cubic", is_beside_cubic, share_beside_rivals);
    if let Some(share) = beside_cubic {
        tally.at_least("share of the bottleneck beside cubic", share, 0.25);
        tally.at_most("share of the bottleneck beside cubic", share, 0.75);
    }
    if let Some(index) = median(evidence, &mut tally, "fairness", is_among_equals, jain) {
        tally.at_least("Jain's index of two of ours", index, 0.95);
    }
    tally
}

/// S1
pub(super) fn no_harm_to_others(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    for (what, cell) in evidence.all_ours(&mut tally, FOUR) {
        let bytes = of_cell(cell, Figure::WireBytes);
        let evenness = of_runs(evidence, cell, jain);
        let least = of_runs(evidence, cell, |flows| least_share(&bytes_together(flows)?));
        let Some(((bytes, evenness), least)) = bytes.zip(evenness).zip(least) else {
            tally.is_missing(format!("{what}: four floods at the same time"));
            continue;
        };
        tally.at_most(&format!("{what}, bytes per byte"), bytes, 1.08);
        tally.at_least(&format!("{what}, Jain's index"), evenness, 0.9);
        tally.at_least(&format!("{what}, least share of an even one"), least, 0.25);
    }
    for scenario in BESIDE_THE_KERNELS {
        for (what, cell) in evidence.all_ours(&mut tally, scenario) {
            match of_runs(evidence, cell, share_beside_rivals) {
                Some(share) => {
                    tally.at_least(&format!("{what}, our share"), share, 0.3);
                    tally.at_most(&format!("{what}, our share"), share, 0.7);
                }
                None => tally.is_missing(format!("{what}: two floods at the same time")),
            }
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

/// A figure of the flows that compete in a run.
type Of = fn(&[&FlowResult]) -> Option<f64>;

/// Where nothing arrived nothing was shared.
fn jain(flows: &[&FlowResult]) -> Option<f64> {
    Some(jain_index(&bytes_together(flows)?).unwrap_or(0.0))
}

/// The median of a figure over the runs of the scenario's cell.
fn median(
    evidence: &Evidence<'_>,
    tally: &mut Tally,
    scenario: &str,
    is_it: fn(&Summary) -> bool,
    of: Of,
) -> Option<f64> {
    let cell = evidence.ours(tally, scenario, ARQ, "two sessions", is_it)?;
    let median = of_runs(evidence, cell, of);
    if median.is_none() {
        tally.is_missing(format!("{scenario}: two floods at the same time"));
    }
    median
}

/// The median of a figure over the runs of a cell; `None` where a run does not have it.
fn of_runs(evidence: &Evidence<'_>, cell: &Summary, of: Of) -> Option<f64> {
    let values: Option<Vec<_>> = evidence.runs(cell).map(|run| of(&contenders(run))).collect();
    Some(Spread::of(values?)?.median())
}
