// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which links give the application what it needs?

use maud::{html, Markup};

use super::grid::Grid;
use super::units::Unit;
use crate::record::FlowResult;
use crate::scenario::Goal;
use crate::summary::Spread;

/// For each goal and setting, what each link reached.
pub(crate) fn table(grid: &Grid<'_>) -> Markup {
    let goals: Vec<(&Goal, usize)> = grid
        .info
        .goals
        .iter()
        .flat_map(|goal| (0..grid.settings.len()).map(move |setting| (goal, setting)))
        .collect();
    let rows = goals.iter().filter(|(goal, setting)| {
        (0..grid.links.len()).any(|l| reached(grid, *setting, l, goal).is_some())
    });
    let rows: Vec<_> = rows.collect();
    html! {
        @if !rows.is_empty() {
            h3 { "Goals" }
            p { "Median of the repeats; a message that never came is late. A check mark says that the goal was met." }
            div.scroll tabindex="0" role="region" aria-label="Goals" { table {
                thead { tr {
                    th scope="col" { "goal" } th scope="col" { "setting" }
                    @for link in &grid.links { th scope="col" { (link.name) } }
                } }
                tbody { @for (goal, setting) in rows {
                    tr {
                        th scope="row" { (words(goal)) }
                        td { (grid.describe(*setting)) }
                        @for link in 0..grid.links.len() { td { (cell(goal, reached(grid, *setting, link, goal))) } }
                    }
                } }
            } }
        }
    }
}

fn words(goal: &Goal) -> String {
    let ms = |value| Unit::Milliseconds.tick(value);
    match (goal.percent, goal.within_ms, goal.longest_silence_ms) {
        (Some(percent), Some(within), _) => {
            format!("{}: {} within {}", goal.flow, Unit::Percent.tick(percent), ms(within))
        }
        (_, _, Some(silence)) => format!("{}: no silence above {}", goal.flow, ms(silence)),
        _ => goal.flow.clone(),
    }
}

/// What the goal speaks of: the share that came in time, per cent, or the longest silence, milliseconds.
fn reached(grid: &Grid<'_>, setting: usize, link: usize, goal: &Goal) -> Option<f64> {
    let results = grid.flow_results(setting, link, &goal.flow);
    let value = |result: &FlowResult| match goal.within_ms {
        Some(within_ms) => in_time(result, within_ms),
        None => Some(result.longest_silence_ms),
    };
    Spread::of(results.filter_map(|(_, result)| value(result)).collect())
        .map(|spread| spread.median())
}

fn in_time(result: &FlowResult, within_ms: f64) -> Option<f64> {
    let in_time = result
        .messages
        .iter()
        .filter(|(_, latency)| latency.is_some_and(|ms| ms <= within_ms))
        .count();
    (!result.messages.is_empty()).then(|| 100.0 * in_time as f64 / result.messages.len() as f64)
}

fn is_met(goal: &Goal, value: f64) -> bool {
    match (goal.percent, goal.longest_silence_ms) {
        (Some(percent), _) => value >= percent,
        (None, Some(silence)) => value <= silence,
        (None, None) => false,
    }
}

fn cell(goal: &Goal, value: Option<f64>) -> Markup {
    let unit = if goal.within_ms.is_some() { Unit::Percent } else { Unit::Milliseconds };
    html! {
        @match value {
            None => { "–" }
            Some(value) if is_met(goal, value) => { (unit.write(value)) " ✓" }
            Some(value) => { span.bad { (unit.write(value)) " missed" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(percent: Option<f64>, within_ms: Option<f64>, longest_silence_ms: Option<f64>) -> Goal {
        Goal { flow: "control".into(), percent, within_ms, longest_silence_ms }
    }

    #[test]
    fn a_share_must_be_reached_and_a_silence_must_not() {
        let share = goal(Some(99.0), Some(100.0), None);
        assert!(is_met(&share, 99.0) && !is_met(&share, 98.9));
        let silence = goal(None, None, Some(500.0));
        assert!(is_met(&silence, 500.0) && !is_met(&silence, 501.0));
    }
}
