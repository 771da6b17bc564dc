// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Are the published figures beaten or matched, and is all delivered on the reliable sheet (T11)?

use super::evidence::{of_cell, of_first_flow, of_flow, Evidence};
use super::{Tally, ARQ};
use crate::record::Cell;
use crate::scenario::{self, Published, Scenario};
use crate::summary::{setting_in_words, Figure, FlowSummary, Spread, Summary};

/// The experiments with published figures.
const EXPERIMENTS: [&str; 9] = [
    "drop-rate",
    "drop-rate-500kb",
    "payload",
    "arq-schemes",
    "sack",
    "wifi-burst",
    "wifi-bad",
    WINDOW,
    SHEET,
];
const SHEET: &str = "reliable-sheet";
/// This one ran between two hosts of one laboratory, 3 ms apart with all that zenoh adds; of our two delays it is the
/// shorter one.
const DROP_RATE: &str = "drop-rate";
const LABORATORY_DELAY_MS: f64 = 0.5;
/// Of this one the shape is reproduced, not the scale: what is held against each other is the time of the better
/// scheme as a share of AIMD's.
const WINDOW: &str = "window-vs-aimd";
const AIMD: &str = "arq-aimd";
/// What counts as matched.
const MATCHED: f64 = 1.05;
/// What must be delivered where a source tells of what arrived and not how much that was, per cent.
const DELIVERED_PERCENT: f64 = 99.0;

/// T11
pub(super) fn beaten_or_matched(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    for name in EXPERIMENTS {
        let Some(scenario) = tally.scenario(name) else { continue };
        for cell in cells_of_ours(&scenario) {
            let rows: Vec<_> = scenario.published.iter().filter(|row| is_of(row, &cell)).collect();
            if rows.is_empty() && name != SHEET {
                continue;
            }
            let same = |summary: &Summary| summary.cell == cell;
            let what = setting_in_words(&cell.setting);
            let Some(found) = evidence.ours(&mut tally, name, ARQ, &what, same) else { continue };
            if name == WINDOW {
                hold_against_aimd(&mut tally, evidence, found, &rows);
                continue;
            }
            rows.iter().for_each(|row| hold_against(&mut tally, found, row));
            if rows.iter().any(|row| is_of_arrivals_only(row)) {
                nearly_all_came(&mut tally, found);
            }
            if name == SHEET {
                all_in_order(&mut tally, found);
            }
        }
    }
    tally
}

fn cells_of_ours(scenario: &Scenario) -> Vec<Cell> {
    let cells = scenario.cells().into_iter().filter(|setting| {
        let is_far = setting.network.forward.delay_ms > LABORATORY_DELAY_MS;
        setting.cell.link == ARQ && !(scenario.name == DROP_RATE && is_far)
    });
    cells.map(|setting| setting.cell).collect()
}

fn is_of(row: &Published, cell: &Cell) -> bool {
    row.setting.iter().all(|value| cell.setting.contains(value))
}

fn hold_against(tally: &mut Tally, cell: &Summary, row: &Published) {
    for (key, published) in &row.figures {
        // Neither the least nor the spread of latencies is a merit.
        let Some((figure, is_share_lost)) = figure_of(key) else { continue };
        // Of a range the better end; less is better in each of these figures.
        let (bound, _) = ends(*published);
        let what = format!("{}, {}: {key} of {}", cell.scenario, cell.setting(), row.link);
        let found = of_worst_like_first(cell, figure).or_else(|| of_cell(cell, figure));
        match found {
            Some(delivered) if is_share_lost => tally.at_most(&what, 100.0 - delivered, bound),
            Some(found) => tally.at_most(&what, found, bound * MATCHED + figure.noise()),
            None => tally.is_missing(what),
        }
    }
}

/// The worst median of a figure among the flows that are like the first. Of the control of three robots a source has one
/// figure, and each robot is held to it.
fn of_worst_like_first(cell: &Summary, figure: Figure) -> Option<f64> {
    let first = &cell.flows.first()?.flow;
    let is_like_it = |flow: &&FlowSummary| {
        let FlowSummary { flow, .. } = flow;
        (flow.payload_bytes, flow.pattern, flow.priority)
            == (first.payload_bytes, first.pattern, first.priority)
    };
    let medians = cell.flows.iter().filter(is_like_it).map(|flow| of_flow(flow, figure));
    let medians = Spread::of(medians.collect::<Option<Vec<_>>>()?)?;
    Some(if figure.more_is_better() { medians.min() } else { medians.max() })
}

/// Whether its figures leave out what never came, and it does not say how much that was.
fn is_of_arrivals_only(row: &Published) -> bool {
    let has = |wanted: &str| row.figures.iter().any(|(key, _)| *key == wanted);
    ["mean_ms", "p99_gap_ms", "retransmissions"].into_iter().any(has) && !has("lost_percent")
}

/// A link that delivers little and that early has beaten nobody.
fn nearly_all_came(tally: &mut Tally, cell: &Summary) {
    for flow in &cell.flows {
        let (scenario, name) = (&cell.scenario, &flow.flow.name);
        let what = format!("{scenario}, {}: % delivered of {name}", cell.setting());
        match of_flow(flow, Figure::Share) {
            Some(percent) => tally.at_least(&what, percent, DELIVERED_PERCENT),
            None => tally.is_missing(what),
        }
    }
}

/// From and to.
fn ends(published: scenario::Figure) -> (f64, f64) {
    match published {
        scenario::Figure::Exact(value) => (value, value),
        scenario::Figure::Range(from, to) => (from, to),
    }
}

fn middle((from, to): (f64, f64)) -> f64 {
    f64::midpoint(from, to)
}

fn hold_against_aimd(
    tally: &mut Tally,
    evidence: &Evidence<'_>,
    ours: &Summary,
    rows: &[&Published],
) {
    let what = ours.setting();
    let same = |cell: &Summary| cell.cell.setting == ours.cell.setting;
    let Some(aimd) = evidence.ours(tally, WINDOW, AIMD, &what, same) else { return };
    let published = |link: &str| {
        let row = rows.iter().find(|row| row.link == link)?;
        let duration = row.figures.iter().find(|(key, _)| *key == "duration_s")?;
        Some(ends(duration.1))
    };
    let duration = |cell: &Summary| of_first_flow(cell, Figure::Duration);
    match (published("constant window"), published("AIMD"), duration(ours), duration(aimd)) {
        (Some(constant), Some(published_aimd), Some(found), Some(aimd)) if aimd.is_finite() => {
            let allowed = aimd * middle(constant) / middle(published_aimd) * MATCHED;
            tally.at_most(&format!("{WINDOW}, {what}: duration beside AIMD"), found, allowed);
        }
        _ => tally.is_missing(format!("{WINDOW}, {what}: the durations")),
    }
}

/// Our figure of a published one's key, and whether it is that of what was not delivered. Spread and minimum are
/// shown in the report, but are no achievement.
fn figure_of(key: &str) -> Option<(Figure, bool)> {
    match key {
        "mean_ms" => Some((Figure::Mean, false)),
        "median_ms" => Some((Figure::P50, false)),
        "max_ms" => Some((Figure::Max, false)),
        "p99_gap_ms" => Some((Figure::GapP99, false)),
        "lost_percent" => Some((Figure::Share, true)),
        "duration_s" => Some((Figure::Duration, false)),
        "retransmissions" => Some((Figure::Retransmissions, false)),
        _ => None,
    }
}

fn all_in_order(tally: &mut Tally, cell: &Summary) {
    for flow in &cell.flows {
        for (count, what) in [
            (flow.undelivered, "never came"),
            (flow.duplicates, "came twice"),
            (flow.out_of_order, "came out of order"),
        ] {
            let what = format!("{SHEET}, {}: messages that {what}", cell.setting());
            tally.at_most(&what, count as f64, 0.0);
        }
    }
}
