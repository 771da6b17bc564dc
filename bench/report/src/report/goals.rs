// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which links give the application what it needs?

use maud::{html, Markup};

use super::grid::Grid;
use super::units::Unit;
use crate::record::FlowResult;
use crate::scenario::Goal;
use crate::summary::{least_messages, Spread};

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
            p { "Median of the repeats; a message that never came is late. A check mark says that the goal was met and that no run failed. Where a single late message would have missed it, a run has too few messages to tell: 99.99 % takes 10,000." }
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

/// What a link did about a goal.
#[derive(Clone, Copy)]
struct Reached {
    /// The share that came in time, per cent, or the longest silence, milliseconds; median of the repeats.
    value: f64,
    /// Of the repeat with the fewest.
    messages: u64,
    /// Runs that the median leaves out because they failed.
    failed: usize,
}

fn reached(grid: &Grid<'_>, setting: usize, link: usize, goal: &Goal) -> Option<Reached> {
    let results = || grid.flow_results(setting, link, &goal.flow).map(|(_, result)| result);
    let value = |result: &FlowResult| match goal.within_ms {
        Some(within_ms) => in_time(result, within_ms),
        None => Some(result.longest_silence_ms),
    };
    let messages = results().map(|result| result.messages.len() as u64).min()?;
    let value = Spread::of(results().filter_map(value).collect())?.median();
    Some(Reached { value, messages, failed: grid.failed(setting, link) })
}

fn in_time(result: &FlowResult, within_ms: f64) -> Option<f64> {
    let in_time = result
        .messages
        .iter()
        .filter(|(_, latency)| latency.is_some_and(|ms| ms <= within_ms))
        .count();
    (!result.messages.is_empty()).then(|| 100.0 * in_time as f64 / result.messages.len() as f64)
}

/// Whether a link gives what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Met,
    Missed,
    /// By the runs that did not fail.
    OtherRunsFailed,
    /// All came in time, and with so few messages nothing else would have met the goal.
    TooFewMessages,
}

fn verdict(goal: &Goal, reached: Reached) -> Verdict {
    let Reached { value, messages, failed } = reached;
    let met = if failed > 0 { Verdict::OtherRunsFailed } else { Verdict::Met };
    match (goal.percent, goal.longest_silence_ms) {
        (Some(percent), _) if value < percent => Verdict::Missed,
        (Some(percent), _) if messages < least_messages(percent) => Verdict::TooFewMessages,
        (Some(_), _) => met,
        (None, Some(silence)) if value <= silence => met,
        (None, _) => Verdict::Missed,
    }
}

fn cell(goal: &Goal, reached: Option<Reached>) -> Markup {
    let Some(reached) = reached else { return html! { "–" } };
    let unit = if goal.within_ms.is_some() { Unit::Percent } else { Unit::Milliseconds };
    let value = unit.write(reached.value);
    html! {
        @match verdict(goal, reached) {
            Verdict::Met => { (value) " ✓" }
            Verdict::Missed => { span.bad { (value) " missed" } }
            Verdict::OtherRunsFailed => { (value) span.bad { ", but " (reached.failed) " failed" } }
            Verdict::TooFewMessages => { (value) ", too few messages to tell" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(percent: Option<f64>, within_ms: Option<f64>, longest_silence_ms: Option<f64>) -> Goal {
        Goal { flow: "control".into(), percent, within_ms, longest_silence_ms }
    }

    fn of(goal: &Goal, value: f64, messages: u64) -> Verdict {
        verdict(goal, Reached { value, messages, failed: 0 })
    }

    #[test]
    fn a_share_must_be_reached_and_a_silence_must_not() {
        let share = goal(Some(99.0), Some(100.0), None);
        assert_eq!(of(&share, 99.0, 300), Verdict::Met);
        assert_eq!(of(&share, 98.9, 300), Verdict::Missed);
        let silence = goal(None, None, Some(500.0));
        assert_eq!(of(&silence, 500.0, 3), Verdict::Met);
        assert_eq!(of(&silence, 501.0, 3), Verdict::Missed);
    }

    #[test]
    fn a_failed_run_leaves_no_check_mark_and_no_excuse() {
        let one_failed =
            |goal: &Goal, value| verdict(goal, Reached { value, messages: 300, failed: 1 });
        let share = goal(Some(99.0), Some(100.0), None);
        assert_eq!(one_failed(&share, 100.0), Verdict::OtherRunsFailed);
        assert_eq!(one_failed(&share, 98.9), Verdict::Missed);
        let silence = goal(None, None, Some(500.0));
        assert_eq!(one_failed(&silence, 500.0), Verdict::OtherRunsFailed);
    }

    #[test]
    fn a_share_that_few_messages_cannot_show_is_not_told_as_met() {
        let share = goal(Some(99.99), Some(10.0), None);
        assert_eq!(of(&share, 100.0, 300), Verdict::TooFewMessages);
        assert_eq!(of(&share, 100.0, 10_000), Verdict::Met);
        assert_eq!(of(&share, 99.67, 300), Verdict::Missed, "one that is late is one too many");
    }
}
