// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How much was in flight over time, and how wide was the window?

use super::{chosen_settings, MOST_PANELS};
use crate::record::InFlight;
use crate::report::grid::{Grid, Link};
use crate::report::plot::figure::{Entry, Figure};
use crate::report::plot::scale::Scale;
use crate::report::plot::{Axis, Line, Marks, Panel, Point, Series};
use crate::report::style::{Mark, Shape, Style, GREY};
use crate::report::units::Unit;

/// Points of a trace at most.
const MOST_POINTS: usize = 600;

pub(super) fn figures(grid: &Grid<'_>) -> Option<Figure> {
    let mut traces: Vec<(String, &Link, &[InFlight])> = Vec::new();
    for setting in chosen_settings(grid) {
        for (i, link) in grid.links.iter().enumerate() {
            let Some(trace) = trace(grid, setting, i) else { continue };
            traces.push(([link.name.clone(), grid.describe(setting)].join(", "), link, trace));
        }
    }
    traces.truncate(MOST_PANELS);
    let shown = match recorded(grid) {
        all if all > traces.len() => format!(", and {} of {all} traces", traces.len()),
        _ => String::new(),
    };
    let readings = || traces.iter().flat_map(|(.., trace)| *trace);
    let until = readings().map(|reading| reading.at_s).fold(0.0, f64::max);
    readings().next()?;
    let x = Scale::Linear { from: 0.0, to: until.max(1e-3) };
    let greatest = |reading: &InFlight| reading.bytes.max(reading.window_bytes.unwrap_or(0)) as f64;
    let panel = |(title, link, trace): &(String, &Link, &[InFlight])| {
        let y = Scale::linear_from_zero(trace.iter().map(greatest));
        Panel {
            title: title.trim_end_matches(", ").to_owned(),
            x: Axis {
                label: "time, s".into(),
                scale: x,
                ticks: x.ticks(Unit::Seconds),
                lost: None,
            },
            y: Axis {
                label: "bytes in flight".into(),
                scale: y,
                ticks: y.ticks(Unit::Bytes),
                lost: None,
            },
            series: vec![
                series("window", Style { colour: GREY, ..link.style }, Line::Dashed, trace, |r| {
                    r.window_bytes
                }),
                series("in flight", link.style, Line::Solid, trace, |r| Some(r.bytes)),
            ],
            end_labels: false,
        }
    };
    let mark = Mark { shape: Shape::Circle, filled: true };
    let entry = |name: &str, colour, line| Entry {
        name: name.into(),
        style: Style { colour, mark },
        line,
        marked: false,
    };
    Some(Figure {
        id: "in-flight".into(),
        title: "Bytes in flight over time".into(),
        caption: format!(
            "First repeat only{shown}. The line in the link's colour is what was sent and not yet acknowledged; the \
             grey dashes are the congestion window. Each panel has a scale of its own. Links that do not tell are not \
             drawn."
        ),
        origin: String::new(),
        alt: "Bytes in flight and congestion window over time, a panel for each link and setting.".into(),
        legend: vec![
            entry("in flight", "#000000", Line::Solid),
            entry("congestion window", GREY, Line::Dashed),
        ],
        panels: traces.iter().map(panel).collect(),
        paired: false,
    })
}

/// What the first run of a link in a setting tells.
fn trace<'g>(grid: &'g Grid<'_>, setting: usize, link: usize) -> Option<&'g [InFlight]> {
    let (_, run) = grid.runs(setting, link)?.measured.first()?;
    (run.in_flight.len() > 1).then_some(run.in_flight.as_slice())
}

/// How many links tell, each setting counted for itself.
fn recorded(grid: &Grid<'_>) -> usize {
    let links = |setting| (0..grid.links.len()).map(move |link| (setting, link));
    let all = (0..grid.settings.len()).flat_map(links);
    all.filter(|(setting, link)| trace(grid, *setting, *link).is_some()).count()
}

fn series(
    name: &str,
    style: Style,
    line: Line,
    trace: &[InFlight],
    value: impl Fn(&InFlight) -> Option<u64>,
) -> Series {
    let run = trace.len().div_ceil(MOST_POINTS).max(1);
    let point = |reading: &InFlight| Some(Point::at(reading.at_s, value(reading)? as f64));
    let points = trace.iter().step_by(run).filter_map(point).collect();
    Series { name: name.to_owned(), style, line, marks: Marks::None, points }
}
