// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Do commands arrive right behind the fades that they are due in (R3)?

use super::evidence::Evidence;
use super::Tally;
use crate::record::Measurement;
use crate::summary::Spread;

const SCENARIO: &str = "fades";

/// R3
pub(super) fn commands_right_behind_them(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    for (what, cell) in evidence.all_ours(&mut tally, SCENARIO) {
        let ratios: Option<Vec<_>> = evidence.runs(cell).map(p99_beside_the_bound).collect();
        match ratios.and_then(Spread::of) {
            Some(ratios) => {
                tally.at_most(&format!("{what}, p99 beside the bound"), ratios.median(), 1.15);
            }
            None => tally.is_missing(format!("{what}: the bound of each run")),
        }
    }
    tally
}

/// Of the first flow, through the fades of this very run: how many there were, and how long, differs more between runs
/// than links do.
fn p99_beside_the_bound(run: &Measurement) -> Option<f64> {
    let flow = run.flows.first()?;
    let bound = flow.ideal?.this_run?.p99?;
    Some(flow.percentiles.p99.unwrap_or(f64::INFINITY) / bound)
}
