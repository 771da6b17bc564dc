// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How are latencies distributed: what share came within a time, and how heavy is the tail?

use super::{chosen_settings, legend, panel_title, MOST_PANELS};
use crate::report::grid::Grid;
use crate::report::metric::Metric;
use crate::report::plot::figure::{bound, Entry, Figure};
use crate::report::plot::scale::Scale;
use crate::report::plot::{Axis, Line, Marks, Panel, Point, Series};
use crate::report::units::Unit;

/// Points of a curve: so many evenly over the messages and as many towards the tail.
const POINTS: usize = 150;

/// What a pair of panels shows.
struct Cell {
    title: String,
    goals_ms: Vec<f64>,
    /// Of the ideal ARQ: milliseconds, and the share that has come by then.
    ideal: Vec<(f64, f64)>,
    /// For each link.
    samples: Vec<Sample>,
}

/// The messages of all repeats of a link in one setting.
struct Sample {
    /// Ascending, of those that arrived.
    latencies_ms: Vec<f64>,
    /// All, lost ones too.
    offered: usize,
}

pub(super) fn figures(grid: &Grid<'_>) -> Option<Figure> {
    let mut cells = Vec::new();
    let settings = chosen_settings(grid);
    for flow in grid.flows_of(Metric::P50) {
        for setting in settings.iter().copied() {
            let samples: Vec<_> =
                (0..grid.links.len()).map(|link| sample(grid, setting, link, flow)).collect();
            if samples.iter().any(|sample| !sample.latencies_ms.is_empty()) {
                let title = panel_title(grid, &grid.describe(setting), flow);
                let ideal = grid.ideal_distribution(setting, flow);
                cells.push(Cell { title, goals_ms: goals_ms(grid, flow), ideal, samples });
            }
        }
    }
    cells.truncate(MOST_PANELS / 2);
    let shown = match (cells.len(), measured_settings(grid)) {
        (few, all) if few < all => format!(" Shown for {few} of {all} settings."),
        _ => String::new(),
    };
    let all: Vec<&Sample> = cells.iter().flat_map(|cell| &cell.samples).collect();
    let ends =
        all.iter().flat_map(|sample| [sample.latencies_ms.first(), sample.latencies_ms.last()]);
    let ideal_words = match cells.iter().any(|cell| !cell.ideal.is_empty()) {
        true => {
            " Dotted: the ideal ARQ, in steps where it has a closed form, else its ranks joined."
        }
        false => "",
    };
    let goals = || cells.iter().flat_map(|cell| &cell.goals_ms);
    let ideals = || cells.iter().filter_map(|cell| cell.ideal.first());
    let earliest = ideals().map(|(latency_ms, _)| *latency_ms);
    let x = Scale::log_around(ends.flatten().chain(goals()).copied().chain(earliest), 1.0);
    let most = all.iter().map(|sample| sample.offered).max()?;
    let panels = cells.iter().flat_map(|cell| [within(grid, cell, x), later(grid, cell, x, most)]);
    let mut entries = legend(&grid.links, Line::Solid);
    entries.extend(ideals().next().map(|_| bound("ideal ARQ (bound)")));
    if goals().next().is_some() {
        entries.push(goal("goal: by then"));
    }
    Some(Figure {
        id: "distribution".to_owned(),
        title: "Distribution of latency".to_owned(),
        caption: format!(
            "All messages of all repeats. \"Arrived\": the share that had arrived within a time; a curve that ends \
             below 100 % lost the rest. \"Tail\": the share that was later than a time, on a logarithmic scale, so \
             that rare delays show; a curve that ends in a flat line lost that share.{ideal_words}{shown}"
        ),
        origin: String::new(),
        alt: "Cumulative distribution of latency and its tail for each link; the percentiles are in the table.".into(),
        legend: entries,
        panels: panels.collect(),
        paired: true,
    })
}

/// In how many settings latencies were measured, each flow counted for itself.
fn measured_settings(grid: &Grid<'_>) -> usize {
    let is_measured = |flow: &str, setting: usize| {
        (0..grid.links.len()).any(|link| grid.spread(setting, link, flow, Metric::P50).is_some())
    };
    let of_flow = |flow| (0..grid.settings.len()).filter(|it| is_measured(flow, *it)).count();
    grid.flows_of(Metric::P50).into_iter().map(of_flow).sum()
}

fn sample(grid: &Grid<'_>, setting: usize, link: usize, flow: &str) -> Sample {
    let messages: Vec<Option<f64>> = grid
        .flow_results(setting, link, flow)
        .flat_map(|(_, result)| result.messages.iter().map(|(_, latency)| *latency))
        .collect();
    let mut latencies_ms: Vec<f64> = messages.iter().flatten().copied().collect();
    latencies_ms.sort_by(f64::total_cmp);
    Sample { latencies_ms, offered: messages.len() }
}

fn within(grid: &Grid<'_>, cell: &Cell, x: Scale) -> Panel {
    let scale = Scale::Linear { from: 0.0, to: 100.0 };
    let y = Axis {
        label: "arrived within".into(),
        scale,
        ticks: scale.ticks(Unit::Percent),
        lost: None,
    };
    let share = |sample: &Sample, i: usize| 100.0 * (i + 1) as f64 / sample.offered as f64;
    panel(grid, "arrived", cell, x, y, share, |come| 100.0 * come)
}

fn later(grid: &Grid<'_>, cell: &Cell, x: Scale, most: usize) -> Panel {
    let scale = Scale::Log { from: 0.9 / most as f64, to: 1.0 };
    let mut y = Axis {
        label: "share later than".into(),
        scale,
        ticks: scale.ticks(Unit::Share),
        lost: None,
    };
    for tick in &mut y.ticks {
        tick.label = Unit::Percent.tick(tick.value * 100.0);
    }
    // The last of all has nobody behind it: its share is drawn at half a message.
    let share = |sample: &Sample, i: usize| {
        let behind = sample.offered - i - 1;
        if behind == 0 {
            0.5 / sample.offered as f64
        } else {
            behind as f64 / sample.offered as f64
        }
    };
    panel(grid, "tail", cell, x, y, share, |come| 1.0 - come)
}

fn panel(
    grid: &Grid<'_>,
    what: &str,
    cell: &Cell,
    x: Scale,
    y: Axis,
    share: impl Fn(&Sample, usize) -> f64,
    of_ideal: impl Fn(f64) -> f64,
) -> Panel {
    let (_, end) = x.ends();
    let curve = |sample: &Sample| {
        let at = |i: usize| Point::at(sample.latencies_ms[i], share(sample, i));
        let mut points: Vec<Point> = ranks(sample.latencies_ms.len()).into_iter().map(at).collect();
        let lost = sample.offered > sample.latencies_ms.len();
        if let (true, Some(last)) = (lost, points.last().cloned()) {
            points.push(Point { x: end, ..last });
        }
        points
    };
    let series =
        grid.links.iter().zip(&cell.samples).filter(|(_, sample)| !sample.latencies_ms.is_empty());
    let series = series.map(|(link, sample)| Series {
        name: link.name.clone(),
        style: link.style,
        line: Line::Solid,
        marks: Marks::Some(8),
        points: curve(sample),
    });
    let goals = cell.goals_ms.iter().map(|goal| goal_line(*goal, y.scale));
    let ideal = ideal_line(cell, x, y.scale, of_ideal);
    let series = goals.chain(ideal).chain(series).collect();
    let title = match cell.title.as_str() {
        "" => what.to_owned(),
        title => format!("{what}: {title}"),
    };
    let x =
        Axis { label: "latency".into(), scale: x, ticks: x.ticks(Unit::Milliseconds), lost: None };
    Panel { title, x, y, series, end_labels: false }
}

/// The times within which the application needs the messages of a flow.
fn goals_ms(grid: &Grid<'_>, flow: &str) -> Vec<f64> {
    let of_flow = grid.info.goals.iter().filter(|goal| goal.flow == flow);
    of_flow.filter_map(|goal| goal.within_ms).collect()
}

fn goal_line(goal_ms: f64, y: Scale) -> Series {
    let (from, to) = y.ends();
    let Entry { name, style, line, .. } = goal("goal");
    let points = vec![Point::at(goal_ms, from), Point::at(goal_ms, to)];
    Series { name, style, line, marks: Marks::None, points }
}

/// Dashed: what is dotted is a bound.
fn goal(name: &str) -> Entry {
    Entry { line: Line::Dashed, ..bound(name) }
}

/// The ideal ARQ as far as the panel reaches.
fn ideal_line(cell: &Cell, x: Scale, y: Scale, of_ideal: impl Fn(f64) -> f64) -> Option<Series> {
    let (_, end) = x.ends();
    let (lowest, _) = y.ends();
    let is_beyond = |(at, share): &(f64, f64)| *at > end || of_ideal(*share) < lowest;
    // The first beyond is drawn at the edge.
    let reach = cell.ideal.iter().position(is_beyond).map_or(cell.ideal.len(), |at| at + 1);
    let known = &cell.ideal[..reach];
    let thin = known.len().div_ceil(2 * POINTS).max(1);
    let kept = known.first().into_iter().chain(known.chunks(thin).filter_map(<[_]>::last));
    let points = kept.map(|(at, share)| Point::at(*at, of_ideal(*share)));
    let Entry { name, style, line, .. } = bound("ideal ARQ");
    let series = Series { name, style, line, marks: Marks::None, points: points.collect() };
    (!series.points.is_empty()).then_some(series)
}

/// Which of `count` sorted values to draw: evenly over all, and denser towards the last.
fn ranks(count: usize) -> Vec<usize> {
    let evenly = (0..POINTS).map(|i| i * count.saturating_sub(1) / (POINTS - 1));
    let behind = |i: usize| (count as f64).powf(i as f64 / (POINTS - 1) as f64).round() as usize;
    let tail = (0..POINTS).map(|i| count.saturating_sub(behind(i)));
    let mut ranks: Vec<usize> = evenly.chain(tail).filter(|rank| *rank < count).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

#[cfg(test)]
mod tests {
    use super::ranks;

    #[test]
    fn few_ranks_hold_both_ends_and_the_tail() {
        assert!(ranks(0).is_empty());
        assert_eq!(ranks(1), [0]);
        assert_eq!(ranks(4), [0, 1, 2, 3]);
        let many = ranks(1_000_000);
        assert!(many.len() <= 300);
        assert_eq!((many[0], many[many.len() - 1]), (0, 999_999));
        assert!(
            many.iter().filter(|rank| **rank >= 999_000).count() > 30,
            "the last thousandth is drawn in detail"
        );
    }
}
