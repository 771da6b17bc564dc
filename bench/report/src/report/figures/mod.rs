// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which figures do the records of a scenario give?

mod distribution;
mod fairness;
mod in_flight;
mod rows;
mod sweep;
mod timeline;

use super::axis::Axis;
use super::grid::{Grid, Link};
use super::metric::Metric;
use super::plot::figure::{Entry, Figure};
use super::plot::Line;

/// More panels than this are too many for a figure; it then shows a choice, evenly taken, and says so.
pub(crate) const MOST_PANELS: usize = 12;

/// All figures that the records give, for the chapter of this name; none that would be empty or say nothing.
pub(crate) fn figures(grid: &Grid<'_>, chapter: &str, seed: u64) -> Vec<Figure> {
    let mut figures = sweep::figures(grid);
    if figures.is_empty() {
        figures.extend(rows::figures(grid));
    }
    figures.extend(distribution::figures(grid));
    figures.extend(timeline::figures(grid));
    figures.extend(fairness::figures(grid));
    figures.extend(in_flight::figures(grid));
    figures.iter_mut().for_each(|figure| sign(figure, grid, chapter, seed));
    figures
}

/// Says whose figure it is.
pub(crate) fn sign(figure: &mut Figure, grid: &Grid<'_>, chapter: &str, seed: u64) {
    figure.id = format!("{chapter}-{}", super::file_name(&figure.id));
    figure.origin = format!(
        "Scenario {}; seed {seed}; {}; made by: {}",
        grid.info.name,
        grid.repeats(),
        grid.info.command
    );
}

/// One panel of one figure: how it changes along the main axis where the other axes are as in this setting, or in this
/// setting alone where nothing runs along an axis.
pub(crate) fn one(grid: &Grid<'_>, metric: Metric, flow: &str, setting: usize) -> Option<Figure> {
    match main_axis(grid) {
        Some(axis) => sweep::one(grid, axis, metric, flow, setting),
        None => rows::one(grid, metric, flow, setting),
    }
}

/// The axis that figures run along: loss if it varies, else the first number with the most values.
pub(crate) fn main_axis<'g>(grid: &'g Grid<'_>) -> Option<&'g Axis> {
    let numbers = || grid.axes.iter().filter(|axis| axis.numeric);
    let longest = numbers().map(|axis| axis.values.len()).max()?;
    numbers()
        .find(|axis| axis.is_loss())
        .or_else(|| numbers().find(|axis| axis.values.len() == longest))
}

/// A few settings that show the range: along the main axis the first, the middle and the last one; of all other axes
/// the first value.
pub(crate) fn chosen_settings(grid: &Grid<'_>) -> Vec<usize> {
    let Some(axis) = main_axis(grid) else { return evenly(grid.settings.len(), 3) };
    let others = || grid.axes.iter().filter(|other| other.key != axis.key);
    let base = |setting: &usize| {
        others().all(|other| other.rank(&grid.settings[*setting]).unwrap_or(0) == 0)
    };
    let along: Vec<usize> = (0..grid.settings.len()).filter(base).collect();
    evenly(along.len(), 3).into_iter().map(|i| along[i]).collect()
}

/// The one that shows most: the middle of the chosen.
pub(crate) fn typical_setting(grid: &Grid<'_>) -> Option<usize> {
    let chosen = chosen_settings(grid);
    chosen.get(chosen.len() / 2).copied()
}

/// At most `most` of `count` things, the first and the last among them.
pub(crate) fn evenly(count: usize, most: usize) -> Vec<usize> {
    match count {
        _ if count <= most => (0..count).collect(),
        _ => (0..most).map(|i| i * (count - 1) / (most - 1).max(1)).collect(),
    }
}

/// The legend of links.
pub(crate) fn legend<'l>(links: impl IntoIterator<Item = &'l Link>, line: Line) -> Vec<Entry> {
    let entry =
        |link: &Link| Entry { name: link.name.clone(), style: link.style, line, marked: true };
    links.into_iter().map(entry).collect()
}

/// As a title begins.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What a panel shows: the setting, and the flow where there is more than one.
pub(crate) fn panel_title(grid: &Grid<'_>, setting: &str, flow: &str) -> String {
    let flow = if grid.flows.len() > 1 { flow } else { "" };
    let parts: Vec<_> = [flow, setting].into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::evenly;

    #[test]
    fn a_choice_has_both_ends() {
        assert_eq!(evenly(5, 3), [0, 2, 4]);
        assert_eq!(evenly(2, 3), [0, 1]);
        assert_eq!(evenly(9, 4), [0, 2, 5, 8]);
        assert!(evenly(0, 3).is_empty());
    }
}
