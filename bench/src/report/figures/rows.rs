// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do links compare where nothing runs along an axis: one row for each link?

use super::{evenly, panel_title, MOST_PANELS};
use crate::report::grid::Grid;
use crate::report::metric::{Metric, Told as _};
use crate::report::plot::figure::{Entry, Figure};
use crate::report::plot::scale::{Scale, Tick};
use crate::report::plot::{Axis, Line, Marks, Panel, Point, Series};
use crate::report::style::{Mark, Shape, Style, GREY};
use crate::report::units::Unit;

/// One row for each link: its figures on a common scale.
pub(super) fn figures(grid: &Grid<'_>) -> Vec<Figure> {
    let latency = figure(grid, "latency", "Latency", &[Metric::P50, Metric::P99, Metric::Max]);
    let single = [
        ("goodput", "Goodput", Metric::Goodput),
        ("duration", "Time until all had arrived", Metric::Duration),
        ("delivered", "Share delivered", Metric::Share),
        ("overhead", "Bytes on the wire per byte delivered", Metric::WireBytes),
        ("cpu", "CPU seconds per GB delivered", Metric::CpuPerGb),
    ];
    let others = single
        .iter()
        .filter_map(|(id, title, metric)| figure(grid, id, title, std::slice::from_ref(metric)));
    latency.into_iter().chain(others).collect()
}

fn figure(grid: &Grid<'_>, id: &str, title: &str, metrics: &[Metric]) -> Option<Figure> {
    let mut cells: Vec<(usize, &str)> = Vec::new();
    for flow in grid.flows_of(metrics[0]) {
        cells.extend((0..grid.settings.len()).map(|setting| (setting, flow)));
    }
    let all = cells.len();
    let cells: Vec<_> = evenly(all, MOST_PANELS).into_iter().map(|i| cells[i]).collect();
    let values: Vec<f64> =
        cells.iter().flat_map(|(setting, flow)| values(grid, *setting, flow, metrics)).collect();
    if values.is_empty()
        || (metrics == [Metric::Share] && values.iter().all(|value| *value == 100.0))
    {
        return None;
    }
    let x = x_axis(metrics[0], &values);
    let shown = if all > cells.len() {
        format!(" {} of {all} panels are shown; the table has all.", cells.len())
    } else {
        String::new()
    };
    Some(Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: format!("Median of the repeats.{shown}"),
        origin: String::new(),
        alt: format!(
            "{title}: a row for each link. The figures are in the table of this scenario."
        ),
        legend: legend(metrics),
        panels: cells
            .iter()
            .map(|(setting, flow)| panel(grid, *setting, flow, metrics, &x))
            .collect(),
        paired: false,
    })
}

fn values(grid: &Grid<'_>, setting: usize, flow: &str, metrics: &[Metric]) -> Vec<f64> {
    let links = 0..grid.links.len();
    let of_link =
        |link| metrics.iter().filter_map(move |metric| grid.spread(setting, link, flow, *metric));
    links.flat_map(of_link).map(|spread| spread.median()).collect()
}

fn panel(grid: &Grid<'_>, setting: usize, flow: &str, metrics: &[Metric], x: &Axis) -> Panel {
    let rows = grid.links.len() as f64;
    let height = |link: usize| rows - 1.0 - link as f64;
    let scale = Scale::Linear { from: -0.7, to: rows - 0.3 };
    let ticks = grid
        .links
        .iter()
        .enumerate()
        .map(|(i, link)| Tick { value: height(i), label: link.name.clone() });
    let y = Axis { label: String::new(), scale, ticks: ticks.collect(), lost: None };
    let mut series = Vec::new();
    for (i, link) in grid.links.iter().enumerate() {
        let points: Vec<(usize, Point)> = metrics
            .iter()
            .enumerate()
            .filter_map(|(m, metric)| {
                let spread = grid.spread(setting, i, flow, *metric)?;
                let tip = format!(
                    "{}: {} {}",
                    link.name,
                    metric.name(),
                    metric.counts().write_spread(spread)
                );
                Some((m, Point { x: spread.median(), y: height(i), range: None, tip }))
            })
            .collect();
        let line = points.iter().map(|(_, point)| point.clone()).collect();
        let joined = Series {
            name: link.name.clone(),
            style: link.style,
            line: Line::Solid,
            marks: Marks::None,
            points: line,
        };
        series.push(joined);
        series.extend(points.into_iter().map(|(m, point)| Series {
            name: link.name.clone(),
            style: Style { mark: MARKS[m], ..link.style },
            line: Line::None,
            marks: Marks::All,
            points: vec![point],
        }));
    }
    let title = panel_title(grid, &grid.describe(setting), flow);
    let title = if title.is_empty() { metrics[0].title().to_owned() } else { title };
    Panel { title, x: x.clone(), y, series, end_labels: false }
}

/// For the median, the tail and the end: rows already tell the links apart.
const MARKS: [Mark; 3] = [
    Mark { shape: Shape::Circle, filled: true },
    Mark { shape: Shape::Diamond, filled: false },
    Mark { shape: Shape::Plus, filled: true },
];

fn legend(metrics: &[Metric]) -> Vec<Entry> {
    let entry = |(metric, mark): (&Metric, Mark)| Entry {
        name: metric.title().to_owned(),
        style: Style { colour: GREY, mark },
        line: Line::None,
        marked: true,
    };
    metrics.iter().zip(MARKS).map(entry).collect()
}

fn x_axis(metric: Metric, values: &[f64]) -> Axis {
    let scale = match metric.counts() {
        Unit::Percent => Scale::Linear { from: 0.0, to: 100.0 },
        Unit::MegabitsPerSecond => Scale::linear_from_zero(values.iter().copied()),
        _ => Scale::log_around(values.iter().copied(), 1.0),
    };
    let beyond = match metric.counts() {
        Unit::Milliseconds => "lost",
        Unit::Seconds => "never",
        _ => "none",
    };
    let lost = values.iter().any(|value| value.is_infinite()).then_some(beyond);
    let label = match metric.counts() {
        Unit::Milliseconds => "latency".to_owned(),
        Unit::MegabitsPerSecond => format!("{}, Mb/s", metric.title()),
        Unit::Seconds => format!("{}, s", metric.title()),
        _ => metric.title().to_owned(),
    };
    Axis { label, scale, ticks: scale.ticks(metric.counts()), lost }
}
