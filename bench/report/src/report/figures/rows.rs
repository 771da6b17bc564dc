// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do links compare where nothing runs along an axis: one row for each link?

use super::{capitalised, evenly, panel_title, MOST_PANELS};
use crate::report::grid::Grid;
use crate::report::metric::{Metric, Told as _};
use crate::report::plot::figure::{bound, Entry, Figure};
use crate::report::plot::scale::{Scale, Tick};
use crate::report::plot::{Axis, Line, Marks, Panel, Point, Series};
use crate::report::style::{Mark, Shape, Style, GREY};
use crate::report::units::Unit;

/// One row for each link: its figures on a common scale, and what bounds them.
pub(super) fn figures(grid: &Grid<'_>) -> Vec<Figure> {
    let latency = figure(grid, "latency", "Latency", &[Metric::P50, Metric::P99, Metric::Max]);
    let single = [
        ("goodput", "Goodput", Metric::Goodput),
        ("duration", "Time until all had arrived", Metric::Duration),
        ("delivered", "Share delivered", Metric::Share),
        ("overhead", "Bytes on the wire per byte delivered", Metric::WireBytes),
        ("packets", "Packets sent forward per message delivered", Metric::WirePackets),
        ("cpu", "CPU seconds per GB delivered", Metric::CpuPerGb),
    ];
    let others = single
        .iter()
        .filter_map(|(id, title, metric)| figure(grid, id, title, std::slice::from_ref(metric)));
    latency.into_iter().chain(others).collect()
}

/// A row for each link in one setting.
pub(super) fn one(grid: &Grid<'_>, metric: Metric, flow: &str, setting: usize) -> Option<Figure> {
    let title = capitalised(metric.title());
    of_cells(grid, "opening", &title, &[metric], &[(setting, flow)])
}

fn figure(grid: &Grid<'_>, id: &str, title: &str, metrics: &[Metric]) -> Option<Figure> {
    let mut cells: Vec<(usize, &str)> = Vec::new();
    for flow in grid.flows_of(metrics[0]) {
        cells.extend((0..grid.settings.len()).map(|setting| (setting, flow)));
    }
    of_cells(grid, id, title, metrics, &cells)
}

fn of_cells(
    grid: &Grid<'_>,
    id: &str,
    title: &str,
    metrics: &[Metric],
    cells: &[(usize, &str)],
) -> Option<Figure> {
    let all = cells.len();
    let cells: Vec<_> = evenly(all, MOST_PANELS).into_iter().map(|i| cells[i]).collect();
    let mut values: Vec<f64> =
        cells.iter().flat_map(|(setting, flow)| values(grid, *setting, flow, metrics)).collect();
    if values.is_empty()
        || (metrics == [Metric::Share] && values.iter().all(|value| *value == 100.0))
    {
        return None;
    }
    let bounds = |(setting, flow): &(usize, &str)| bounds(grid, *setting, flow, metrics);
    let bounds: Vec<f64> = cells.iter().flat_map(bounds).map(|(_, value)| value).collect();
    let is_bounded = !bounds.is_empty();
    values.extend(bounds);
    let x = x_axis(metrics[0], &values);
    let shown = if all > cells.len() {
        format!(" {} of {all} panels are shown; the table has all.", cells.len())
    } else {
        String::new()
    };
    Some(Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: format!(
            "Median of the repeats.{}{shown}",
            if is_bounded { " Dotted lines: the bound." } else { "" }
        ),
        origin: String::new(),
        alt: format!(
            "{title}: a row for each link. The figures are in the table of this scenario."
        ),
        legend: legend(grid, metrics, is_bounded),
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

/// The bound of each figure that has one, with the figure's place.
fn bounds(grid: &Grid<'_>, setting: usize, flow: &str, metrics: &[Metric]) -> Vec<(usize, f64)> {
    let bound = |(m, metric): (usize, &Metric)| Some((m, grid.bound(setting, flow, *metric)?));
    metrics.iter().enumerate().filter_map(bound).collect()
}

/// What the bound is called beside its row, and in the legend.
fn bound_names(metric: Metric) -> (&'static str, &'static str) {
    match metric {
        Metric::Goodput => ("capacity", "erasure capacity (bound)"),
        _ => ("ideal ARQ", "ideal ARQ (bound)"),
    }
}

fn panel(grid: &Grid<'_>, setting: usize, flow: &str, metrics: &[Metric], x: &Axis) -> Panel {
    let bounds = bounds(grid, setting, flow, metrics);
    let rows = (grid.links.len() + usize::from(!bounds.is_empty())) as f64;
    let height = |link: usize| rows - 1.0 - link as f64;
    let (bottom, top) = (-0.7, rows - 0.3);
    let scale = Scale::Linear { from: bottom, to: top };
    let (bound_name, _) = bound_names(metrics[0]);
    let names = grid.links.iter().map(|link| link.name.as_str());
    let names = names.chain((!bounds.is_empty()).then_some(bound_name));
    let ticks = names.enumerate().map(|(i, name)| Tick { value: height(i), label: name.into() });
    let y = Axis { label: String::new(), scale, ticks: ticks.collect(), lost: None };
    // A line through all rows and a mark in its own, the last.
    let of_bound = |(m, value): &(usize, f64)| {
        let Entry { name, style, line, .. } = bound(bound_name);
        let tip = format!("{name}: {} {}", metrics[*m].name(), metrics[*m].counts().write(*value));
        let through = vec![Point::at(*value, bottom), Point::at(*value, top)];
        let mark = vec![Point { tip, ..Point::at(*value, 0.0) }];
        let own = Style { mark: MARKS[*m], ..style };
        [
            Series { name: name.clone(), style, line, marks: Marks::None, points: through },
            Series { name, style: own, line: Line::None, marks: Marks::All, points: mark },
        ]
    };
    let mut series: Vec<Series> = bounds.iter().flat_map(of_bound).collect();
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
    let title = match (title.is_empty(), metrics) {
        (true, [one]) => one.title().to_owned(),
        _ => title,
    };
    Panel { title, x: x.clone(), y, series, end_labels: false }
}

/// For the median, the tail and the end: rows already tell the links apart.
const MARKS: [Mark; 3] = [
    Mark { shape: Shape::Circle, filled: true },
    Mark { shape: Shape::Diamond, filled: false },
    Mark { shape: Shape::Plus, filled: true },
];

fn legend(grid: &Grid<'_>, metrics: &[Metric], is_bounded: bool) -> Vec<Entry> {
    let (_, bound_name) = bound_names(metrics[0]);
    let entry = |(metric, mark): (&Metric, Mark)| Entry {
        name: metric.title().to_owned(),
        style: Style { colour: GREY, mark },
        line: Line::None,
        marked: true,
    };
    let is_there =
        |(metric, _): &(&Metric, Mark)| grid.flows.iter().any(|flow| grid.has(flow, **metric));
    let entries = metrics.iter().zip(MARKS).filter(is_there).map(entry);
    entries.chain(is_bounded.then(|| bound(bound_name))).collect()
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
