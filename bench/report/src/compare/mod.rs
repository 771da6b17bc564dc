// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Is one result set better than another, cell by cell, or could the difference be chance?
//!
//! The repeats of a cell are the sample. Welch's t-test on the logarithms asks whether the two differ, for latencies
//! spread by factors, not by differences; where a rank was lost or a figure is zero, the Mann-Whitney test does.
//! Holm's correction keeps the chance of even one false alarm in the whole table below the level asked for.

mod bootstrap;
mod table;

use crate::record::{Cell, Environment};
use crate::results::ResultSet;
use crate::scenario::flow::Flow;
use crate::summary::significance::{holm, mann_whitney, welch, Welch};
use crate::summary::{self, Figure, Figures, Spread, Summary};

pub use table::of as table;

/// What is compared unless something else is asked for.
pub const FIGURES: [Figure; 8] = [
    Figure::Share,
    Figure::P50,
    Figure::P99,
    Figure::Goodput,
    Figure::Duration,
    Figure::WireBytes,
    Figure::WirePackets,
    Figure::CpuPerGb,
];

/// One figure of one cell in both sets.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The scenario's name.
    pub scenario: String,
    /// The link and its setting.
    pub cell: Cell,
    /// The flow, if the figure is of one and there are several.
    pub flow: Option<String>,
    /// Which figure.
    pub figure: Figure,
    /// In the first set.
    pub a: Spread,
    /// In the second.
    pub b: Spread,
    /// Median of the second by that of the first; `None` where either is lost or zero.
    pub ratio: Option<f64>,
    /// Where 95 % of the ratios lie when the repeats are drawn anew.
    pub interval: Option<(f64, f64)>,
    /// Corrected for the number of comparisons; `None` with fewer than two repeats a side.
    pub p_value: Option<f64>,
    /// By median and, if means were tested, by mean; `None` if they disagree or are equal.
    pub second_is_greater: Option<bool>,
    /// The second, beside the first.
    pub judgement: Judgement,
}

/// How the second set does beside the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Beyond chance.
    Better,
    /// Beyond chance.
    Worse,
    /// Nothing that chance would not do.
    NoSignificantDifference,
    /// Too few repeats.
    CannotTell,
}

/// All comparisons of two result sets, and what is not in both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compared {
    /// In the order of the first set.
    pub rows: Vec<Comparison>,
    /// Cells that only one set has, or that were measured differently, runs that failed or are void, and what the machines
    /// have not in common.
    pub notes: Vec<String>,
}

/// Holds a result set against another of the same scenario, and tells what their machines have not in common.
pub fn compare_sets(a: &ResultSet, b: &ResultSet, figures: &[Figure], level: f64) -> Compared {
    let mut compared = compare(&summary::of(&a.records), &summary::of(&b.records), figures, level);
    compared.notes.extend(different_machines(&a.environment, &b.environment));
    compared
}

/// Holds the second set against the first in these figures, at this level of significance for the whole.
pub fn compare(a: &[Summary], b: &[Summary], figures: &[Figure], level: f64) -> Compared {
    let mut compared = Compared::default();
    for first in a {
        match b.iter().find(|second| is_same_cell(first, second)) {
            Some(second) if has_same_ground(first, second) => {
                let (totals, others): (Vec<_>, Vec<_>) =
                    figures.iter().copied().partition(|figure: &Figure| figure.is_total());
                compared.rows.extend(in_figures(first, second, &others));
                let totals = in_figures(first, second, &totals);
                if has_same_length(first, second) {
                    compared.rows.extend(totals);
                } else if !totals.is_empty() {
                    compared.notes.push(format!(
                        "{}: of runs of different length, so what grows with it is not compared",
                        name(first)
                    ));
                }
                compared.notes.extend(unsound(first, "first"));
                compared.notes.extend(unsound(second, "second"));
            }
            Some(_) => compared.notes.push(format!(
                "{}: measured over another network or with another flow, not compared",
                name(first)
            )),
            None => compared.notes.push(format!("{}: only in the first set", name(first))),
        }
    }
    let only_second = b.iter().filter(|second| !a.iter().any(|first| is_same_cell(first, second)));
    compared
        .notes
        .extend(only_second.map(|second| format!("{}: only in the second set", name(second))));
    let too_few = summary::too_few_messages(a.iter().chain(b), figures);
    let note = |ranks| format!("too few messages in a run, so not compared: {ranks}");
    compared.notes.extend(too_few.map(note));
    judge(&mut compared.rows, level);
    compared
}

fn name(summary: &Summary) -> String {
    format!("{}, {}, {}", summary.scenario, summary.setting(), summary.cell.link)
}

/// What the figures of a cell leave out: the runs that have none.
fn unsound(summary: &Summary, set: &str) -> Option<String> {
    let (failed, voided) = (summary.failures.len(), summary.voided);
    if failed + voided == 0 {
        return None;
    }
    let runs = summary.repeats + failed + voided;
    let why = summary.failures.first().map_or_else(String::new, |why| format!(": {why}"));
    let name = name(summary);
    Some(format!(
        "{name}: of {runs} runs in the {set} set {failed} failed and {voided} are void{why}"
    ))
}

fn is_same_cell(a: &Summary, b: &Summary) -> bool {
    a.scenario == b.scenario && a.cell == b.cell
}

/// A changed number of messages, or length of a flood, is no other experiment; a changed network is, and anything else of
/// a flow. A cell without a single result has no flows to differ in.
fn has_same_ground(a: &Summary, b: &Summary) -> bool {
    let flows = |summary: &Summary| -> Vec<Flow> {
        let flows = summary.flows.iter().map(|flow| &flow.flow);
        // At scale 0 all lengths are alike.
        flows.map(|flow| Flow { pattern: flow.pattern.scaled(0.0), ..flow.clone() }).collect()
    };
    a.network == b.network && (flows(a) == flows(b) || a.repeats == 0 || b.repeats == 0)
}

/// Whether as many messages were sent in both, for as long.
fn has_same_length(a: &Summary, b: &Summary) -> bool {
    let flows = |summary: &Summary| -> Vec<Flow> {
        summary.flows.iter().map(|flow| flow.flow.clone()).collect()
    };
    flows(a) == flows(b) || a.repeats == 0 || b.repeats == 0
}

fn in_figures(a: &Summary, b: &Summary, figures: &[Figure]) -> Vec<Comparison> {
    let row = |flow: Option<&String>, of_a: &Figures, of_b: &Figures, figure: Figure| {
        let (a_values, b_values) = (of_a.get(&figure)?, of_b.get(&figure)?);
        let (p_value, second_is_greater) = test(a_values, b_values);
        Some(Comparison {
            scenario: a.scenario.clone(),
            cell: a.cell.clone(),
            flow: flow.cloned(),
            figure,
            ratio: ratio(a_values.median(), b_values.median()),
            interval: bootstrap::ratio_of_medians(a_values.values(), b_values.values()),
            p_value,
            second_is_greater,
            judgement: Judgement::CannotTell,
            a: a_values.clone(),
            b: b_values.clone(),
        })
    };
    let mut rows = Vec::new();
    for (of_a, of_b) in a.flows.iter().zip(&b.flows) {
        let flow = (a.flows.len() > 1).then_some(&of_a.flow.name);
        rows.extend(figures.iter().filter_map(|it| row(flow, &of_a.figures, &of_b.figures, *it)));
    }
    rows.extend(figures.iter().filter_map(|it| row(None, &a.figures, &b.figures, *it)));
    rows
}

fn ratio(a: f64, b: f64) -> Option<f64> {
    Some(b / a).filter(|ratio| ratio.is_finite() && *ratio > 0.0)
}

/// The chance of such a difference where there is none, and its direction.
fn test(a: &Spread, b: &Spread) -> (Option<f64>, Option<bool>) {
    let direction = |difference: f64| (difference != 0.0).then_some(difference > 0.0);
    let by_median = (a.median() != b.median()).then(|| b.median() > a.median());
    if a.values().len() < 2 || b.values().len() < 2 {
        return (None, by_median);
    }
    let logarithms = |of: &Spread| of.values().iter().map(|value| value.ln()).collect::<Vec<_>>();
    match welch(&logarithms(a), &logarithms(b)) {
        Some(Welch { t, p_value, .. }) => {
            (Some(p_value), by_median.filter(|_| by_median == direction(-t)))
        }
        None => (mann_whitney(a.values(), b.values()), by_median),
    }
}

/// Corrects the p-values for their number, and says what follows.
fn judge(rows: &mut [Comparison], level: f64) {
    let raw: Vec<f64> = rows.iter().filter_map(|row| row.p_value).collect();
    let tested = rows.iter_mut().filter(|row| row.p_value.is_some());
    for (row, p_value) in tested.zip(holm(&raw)) {
        row.p_value = Some(p_value);
        row.judgement = match row.second_is_greater.filter(|_| p_value < level) {
            Some(is_greater) if is_greater == row.figure.more_is_better() => Judgement::Better,
            Some(_) => Judgement::Worse,
            None => Judgement::NoSignificantDifference,
        };
    }
}

fn different_machines(a: &Environment, b: &Environment) -> Vec<String> {
    let pairs = [
        ("kernel", &a.kernel, &b.kernel),
        ("processor", &a.processor, &b.processor),
        ("zenoh", &a.zenoh, &b.zenoh),
    ];
    let differs = pairs.into_iter().filter(|(_, a, b)| a != b);
    let mut notes: Vec<_> =
        differs.map(|(what, a, b)| format!("the {what} is not the same: {a} and {b}")).collect();
    if let Some((a, b)) = a.socket_buffers.zip(b.socket_buffers).filter(|(a, b)| a != b) {
        notes.push(format!("the largest socket buffers are not the same: {a}, and {b}"));
    }
    if a.optimised != b.optimised {
        notes.push("one of the two was built without optimisation".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests;
