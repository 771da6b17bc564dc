// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does each figure change along an axis: latency against loss, payload against latency, goodput against loss?

use super::{capitalised, evenly, legend, main_axis, panel_title, MOST_PANELS};
use crate::report::axis::Axis;
use crate::report::grid::{Grid, Link};
use crate::report::metric::{Metric, Told as _};
use crate::report::plot::figure::{bound, Figure};
use crate::report::plot::scale::{Scale, Tick};
use crate::report::plot::{Axis as PlotAxis, Line, Marks, Panel, Point, Series};
use crate::report::units::Unit;

/// A figure to be drawn along an axis.
struct Plan<'p> {
    id: &'static str,
    title: &'static str,
    metrics: &'p [Metric],
    scale: Fit,
    bound: Option<&'static str>,
}

/// How the scale of a figure is chosen.
#[derive(Clone, Copy, PartialEq)]
enum Fit {
    /// Always logarithmic.
    Log,
    /// From zero.
    Zero,
    /// From 0 to 100 %.
    All,
    /// From zero, unless the values differ too much for that.
    Either,
}

const PLANS: [Plan<'static>; 9] = [
    Plan {
        id: "latency",
        title: "Latency",
        metrics: &[Metric::P50, Metric::P99],
        scale: Fit::Log,
        bound: Some("ideal ARQ (bound)"),
    },
    Plan {
        id: "goodput",
        title: "Goodput",
        metrics: &[Metric::Goodput],
        scale: Fit::Zero,
        bound: Some("erasure capacity (bound)"),
    },
    Plan {
        id: "duration",
        title: "Duration",
        metrics: &[Metric::Duration],
        scale: Fit::Either,
        bound: None,
    },
    Plan {
        id: "delivered",
        title: "Share delivered",
        metrics: &[Metric::Share],
        scale: Fit::All,
        bound: None,
    },
    Plan {
        id: "overhead",
        title: "Bytes on the wire",
        metrics: &[Metric::WireBytes],
        scale: Fit::Either,
        bound: None,
    },
    Plan {
        id: "packets",
        title: "Packets on the wire",
        metrics: &[Metric::WirePackets],
        scale: Fit::Either,
        bound: None,
    },
    Plan {
        id: "silence",
        title: "Longest silence",
        metrics: &[Metric::Silence],
        scale: Fit::Either,
        bound: None,
    },
    Plan {
        id: "again",
        title: "Retransmissions",
        metrics: &[Metric::Retransmissions],
        scale: Fit::Zero,
        bound: None,
    },
    Plan {
        id: "cpu",
        title: "CPU time",
        metrics: &[Metric::CpuPerGb],
        scale: Fit::Either,
        bound: None,
    },
];

/// One figure for each plan whose figures were measured, along each axis worth a curve.
pub(super) fn figures(grid: &Grid<'_>) -> Vec<Figure> {
    let Some(main) = main_axis(grid) else { return Vec::new() };
    let curves = |axis: &&Axis| axis.key == main.key || (axis.numeric && axis.values.len() > 2);
    let mut figures = Vec::new();
    for axis in grid.axes.iter().filter(curves) {
        let plans = PLANS.iter().take(if axis.key == main.key { PLANS.len() } else { 1 });
        figures.extend(plans.filter_map(|plan| figure(grid, axis, plan)));
    }
    figures
}

/// One figure of one flow along an axis, where the other axes are as in this setting.
pub(super) fn one(
    grid: &Grid<'_>,
    axis: &Axis,
    metric: Metric,
    flow: &str,
    setting: usize,
) -> Option<Figure> {
    let known = PLANS.iter().find(|plan| plan.metrics.contains(&metric))?;
    let plan = Plan { title: metric.title(), metrics: &[metric], ..*known };
    let group = groups(grid, axis).into_iter().find(|(_, settings)| settings.contains(&setting))?;
    let drawn = draw(grid, axis, &plan, metric, flow, &group)?;
    let y = y_axis(&plan, &drawn.values());
    let mut entries = legend(&grid.links, Line::Solid);
    let is_bounded = drawn.series.iter().any(|series| series.line == Line::Dotted);
    entries.extend(plan.bound.filter(|_| is_bounded).map(bound));
    Some(Figure {
        id: "opening".to_owned(),
        title: capitalised(&format!("{} against {}", plan.title, axis.title())),
        caption: caption(&plan, std::slice::from_ref(&drawn)),
        origin: String::new(),
        alt: alt(grid, &plan, &axis.title()),
        legend: entries,
        panels: vec![drawn.panel(grid, axis, &y)],
        paired: false,
    })
}

fn figure(grid: &Grid<'_>, axis: &Axis, plan: &Plan<'_>) -> Option<Figure> {
    let mut cells = cells(grid, axis, plan);
    let all: usize = cells.iter().map(Vec::len).sum();
    let chosen = evenly(cells.len(), MOST_PANELS / plan.metrics.len());
    let paired = plan.metrics.len() == 2 && chosen.iter().all(|i| cells[*i].len() == 2);
    let kept: Vec<Drawn> = chosen.into_iter().flat_map(|i| std::mem::take(&mut cells[i])).collect();
    if kept.is_empty() {
        return None;
    }
    let values: Vec<f64> = kept.iter().flat_map(Drawn::values).collect();
    let y = y_axis(plan, &values);
    let mut entries = legend(&grid.links, Line::Solid);
    let bounded =
        kept.iter().any(|drawn| drawn.series.iter().any(|series| series.line == Line::Dotted));
    if let (true, Some(name)) = (bounded, plan.bound) {
        entries.push(bound(name));
    }
    let shown = match all - kept.len() {
        0 => String::new(),
        hidden => format!(" {hidden} of {all} panels are left out here; the table has all."),
    };
    Some(Figure {
        id: format!("{}-{}", plan.id, axis.key.replace('_', "-")),
        title: format!("{} against {}", plan.title, axis.title()),
        caption: format!("{}{shown}", caption(plan, &kept)),
        origin: String::new(),
        alt: alt(grid, plan, &axis.title()),
        legend: entries,
        panels: kept.into_iter().map(|drawn| drawn.panel(grid, axis, &y)).collect(),
        paired,
    })
}

/// For each flow and group of settings its panels, one for each of the plan's figures.
fn cells(grid: &Grid<'_>, axis: &Axis, plan: &Plan<'_>) -> Vec<Vec<Drawn>> {
    let mut cells = Vec::new();
    for flow in grid.flows_of(plan.metrics[0]) {
        for group in groups(grid, axis) {
            let panels = plan
                .metrics
                .iter()
                .filter_map(|metric| draw(grid, axis, plan, *metric, flow, &group));
            cells.push(panels.filter(|drawn| !drawn.says_nothing(plan)).collect::<Vec<_>>());
        }
    }
    cells.retain(|panels| !panels.is_empty());
    cells
}

/// Settings that differ in this axis alone, with their words.
fn groups(grid: &Grid<'_>, axis: &Axis) -> Vec<(String, Vec<usize>)> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for setting in 0..grid.settings.len() {
        let others = grid.axes.iter().filter(|other| other.key != axis.key);
        let words: Vec<_> =
            others.filter_map(|other| other.describe(&grid.settings[setting])).collect();
        let words = words.join(", ");
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, settings)) => settings.push(setting),
            None => groups.push((words, vec![setting])),
        }
    }
    groups
}

/// A panel before the scales are known.
#[derive(Default)]
struct Drawn {
    title: String,
    subtitle: &'static str,
    series: Vec<Series>,
}

fn draw(
    grid: &Grid<'_>,
    axis: &Axis,
    plan: &Plan<'_>,
    metric: Metric,
    flow: &str,
    (words, settings): &(String, Vec<usize>),
) -> Option<Drawn> {
    let x = |setting: usize| axis.number(&grid.settings[setting]);
    // Beside the median.
    let is_tail = metric == Metric::P99 && plan.metrics.len() > 1;
    let line = if is_tail { Line::Dashed } else { Line::Solid };
    let mut series = Vec::new();
    if let Some(name) = plan.bound {
        let points =
            settings.iter().filter_map(|s| Some(Point::at(x(*s)?, grid.bound(*s, flow, metric)?)));
        let entry = bound(name);
        let points: Vec<_> = points.collect();
        series.push(Series {
            name: "ideal".into(),
            style: entry.style,
            line: Line::Dotted,
            marks: Marks::None,
            points,
        });
    }
    for (i, link) in grid.links.iter().enumerate() {
        let point = |setting: &usize| {
            let spread = grid.spread(*setting, i, flow, metric)?;
            let tip = format!(
                "{}, {}: {}",
                link.name,
                grid.describe(*setting),
                metric.counts().write_spread(spread)
            );
            Some(Point {
                x: x(*setting)?,
                y: spread.median(),
                range: Some((spread.min(), spread.max())),
                tip,
            })
        };
        let points = settings.iter().filter_map(point).collect();
        series.push(Series {
            name: link.name.clone(),
            style: link.style,
            line,
            marks: Marks::All,
            points,
        });
    }
    series.retain(|series| !series.points.is_empty());
    let subtitle = if plan.metrics.len() > 1 { metric.name() } else { "" };
    let title = panel_title(grid, words, flow);
    series.iter().any(|series| series.line != Line::Dotted).then_some(Drawn {
        title,
        subtitle,
        series,
    })
}

impl Drawn {
    fn values(&self) -> Vec<f64> {
        let of_point = |point: &Point| {
            [Some(point.y), point.range.map(|(low, _)| low), point.range.map(|(_, high)| high)]
        };
        self.series
            .iter()
            .flat_map(|series| series.points.iter().flat_map(of_point))
            .flatten()
            .collect()
    }

    /// A panel in which every message came, or nothing was sent again, is a sentence and not a picture.
    fn says_nothing(&self, plan: &Plan<'_>) -> bool {
        let values = self.values();
        match plan.id {
            "delivered" => values.iter().all(|value| *value == 100.0),
            "again" => values.iter().all(|value| *value == 0.0),
            _ => false,
        }
    }

    fn panel(self, grid: &Grid<'_>, axis: &Axis, y: &PlotAxis) -> Panel {
        let x = x_axis(axis);
        let title = match (self.subtitle, self.title.as_str()) {
            ("", "") => String::new(),
            (subtitle, "") => subtitle.to_owned(),
            ("", title) => title.to_owned(),
            (subtitle, title) => format!("{subtitle}: {title}"),
        };
        let series =
            self.series.into_iter().map(|series| dodged(series, &grid.links, x.scale)).collect();
        Panel { title, x, y: y.clone(), series, end_labels: true }
    }
}

/// Moves a link's marks a little to its own side, so that equal values (lost ones above all) do not hide each other.
fn dodged(mut series: Series, links: &[Link], scale: Scale) -> Series {
    let Some(i) = links.iter().position(|link| link.name == series.name) else { return series };
    let aside = (i as f64 - (links.len() - 1) as f64 / 2.0) * 0.01;
    for point in &mut series.points {
        point.x = match scale {
            Scale::Linear { from, to } => point.x + aside * (to - from),
            Scale::Log { from, to } => point.x * (to / from).powf(aside),
        };
    }
    series
}

fn x_axis(axis: &Axis) -> PlotAxis {
    let values: Vec<f64> = axis.values.iter().filter_map(|value| value.parse().ok()).collect();
    let (low, high) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
    let log = low > 0.0 && high / low >= 20.0;
    let scale = match log {
        true => {
            let room = (high / low).powf(0.08);
            Scale::Log { from: low / room, to: high * room }
        }
        false => {
            let room = (high - low) * 0.08;
            Scale::Linear { from: low - room, to: high + room }
        }
    };
    let ticks = values
        .iter()
        .map(|value| Tick { value: *value, label: axis.unit().tick(*value) })
        .collect();
    PlotAxis { label: axis.label(), scale, ticks, lost: None }
}

fn y_axis(plan: &Plan<'_>, values: &[f64]) -> PlotAxis {
    let metric = plan.metrics[0];
    let all = || values.iter().copied();
    let finite = || all().filter(|value| value.is_finite() && *value > 0.0);
    let far_apart = finite().fold(0.0, f64::max) > 20.0 * finite().fold(f64::INFINITY, f64::min);
    let scale = match plan.scale {
        Fit::All => Scale::Linear { from: 0.0, to: 100.0 },
        Fit::Log => Scale::log_around(all(), 1.0),
        Fit::Either if far_apart => Scale::log_around(all(), 1.0),
        Fit::Zero | Fit::Either => Scale::linear_from_zero(all()),
    };
    let beyond = match plan.id {
        "latency" => "lost",
        "duration" => "never",
        _ => "none",
    };
    let lost = values.iter().any(|value| value.is_infinite()).then_some(beyond);
    let label = match (plan.id, metric.counts()) {
        ("latency", _) => "latency".to_owned(),
        (_, Unit::MegabitsPerSecond) => format!("{}, Mb/s", metric.title()),
        (_, Unit::Seconds) => format!("{}, s", metric.title()),
        _ => metric.title().to_owned(),
    };
    PlotAxis { label, scale, ticks: scale.ticks(metric.counts()), lost }
}

fn caption(plan: &Plan<'_>, drawn: &[Drawn]) -> String {
    let lines = match drawn.iter().any(|drawn| drawn.subtitle == Metric::P99.name()) {
        true => " Solid: p50; dashed: p99.",
        false => "",
    };
    let what = match plan.id {
        "latency" => "Latency from the moment a message was meant to leave. A message that never came is later than \
                      any other: a rank that falls on one is drawn on the strip \"lost\".",
        "goodput" => "Payload that arrived, per second. The bound is rate × (1 − loss).",
        "duration" => "From the first message to the arrival of the last; \"never\" when not all arrived.",
        "delivered" => "Messages that arrived, of those that were meant to be sent.",
        "overhead" => "All IP packets that both hosts sent, in bytes, for each byte of payload that arrived; \"none\" when \
                       nothing did.",
        "packets" => "IP packets that the publisher's host sent, for the first time, again or ahead, for each message that \
                      arrived; \"none\" when none did. A radio is charged for each, however short.",
        "silence" => "The longest time without any arrival while messages were due.",
        "again" => "Counted by the link, for TCP by the kernel; a link that does not tell is not drawn.",
        _ => "Of both processes together, user and system.",
    };
    format!("{what}{lines} Marks: median of the repeats; whiskers: least to greatest. Links stand side by side at each value.")
}

fn alt(grid: &Grid<'_>, plan: &Plan<'_>, against: &str) -> String {
    let links: Vec<_> = grid.links.iter().map(|link| link.name.as_str()).collect();
    format!(
        "{} against {against} for {}. The figures are in the table of this scenario.",
        plan.title,
        links.join(", ")
    )
}
