// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! When was each message late, and when did silence set in?

use std::collections::BTreeSet;

use super::{panel_title, typical_setting, MOST_PANELS};
use crate::record::FlowResult;
use crate::report::grid::{Grid, Link};
use crate::report::metric::Metric;
use crate::report::plot::figure::{bound, Entry, Figure};
use crate::report::plot::scale::Scale;
use crate::report::plot::{Axis, Line, Marks, Panel, Point, Series};
use crate::report::units::Unit;

/// Dots of a panel at most.
const MOST_DOTS: usize = 1_000;

pub(super) fn figures(grid: &Grid<'_>) -> Option<Figure> {
    let setting = typical_setting(grid)?;
    let mut cells: Vec<(&str, &Link, &FlowResult)> = Vec::new();
    for flow in grid.flows_of(Metric::P50) {
        for (i, link) in grid.links.iter().enumerate() {
            let first = grid.flow_results(setting, i, flow).map(|(_, result)| result).next();
            cells.extend(
                first
                    .filter(|result| !result.messages.is_empty())
                    .map(|result| (flow, link, result)),
            );
        }
    }
    let all = cells.len();
    cells.truncate((MOST_PANELS / grid.links.len()).max(1) * grid.links.len());
    let messages = || cells.iter().flat_map(|(.., result)| &result.messages);
    let lost = messages().any(|(_, latency)| latency.is_none()).then_some("lost");
    let until = messages().map(|(at_ms, _)| at_ms / 1e3).fold(0.0, f64::max);
    messages().next()?;
    let x = Scale::Linear { from: 0.0, to: until.max(1e-3) };
    let bounds = |flow: &str| -> Vec<(Metric, f64)> {
        let ranks = [Metric::P50, Metric::P99].into_iter();
        ranks.filter_map(|rank| Some((rank, grid.bound(setting, flow, rank)?))).collect()
    };
    let all_bounds: Vec<(Metric, f64)> = cells.iter().flat_map(|(flow, ..)| bounds(flow)).collect();
    let latencies = messages().filter_map(|(_, latency)| *latency);
    let y = Scale::log_around(latencies.chain(all_bounds.iter().map(|(_, ms)| *ms)), 1.0);
    let ranks: BTreeSet<Metric> = all_bounds.iter().map(|(rank, _)| *rank).collect();
    let ranks: Vec<&str> = ranks.into_iter().map(Metric::name).collect();
    let ideal = bound(&format!("{} of the ideal ARQ (bound)", ranks.join(" and ")));
    let bound_line = |(_, ms): (Metric, f64)| {
        let Entry { name, style, line, .. } = ideal.clone();
        let (from, to) = x.ends();
        let points = vec![Point::at(from, ms), Point::at(to, ms)];
        Series { name, style, line, marks: Marks::None, points }
    };
    let panel = |(flow, link, result): &(&str, &Link, &FlowResult)| Panel {
        title: panel_title(grid, &link.name, flow),
        x: Axis {
            label: "meant to leave at, s".into(),
            scale: x,
            ticks: x.ticks(Unit::Seconds),
            lost: None,
        },
        y: Axis { label: "latency".into(), scale: y, ticks: y.ticks(Unit::Milliseconds), lost },
        series: bounds(flow).into_iter().map(bound_line).chain([dots(link, result)]).collect(),
        end_labels: false,
    };
    let where_ = grid.describe(setting);
    let setting_words = if where_.is_empty() { String::new() } else { format!(" ({where_})") };
    let one_of = match grid.settings.len() {
        1 => String::new(),
        all => format!(" This setting is one of {all}."),
    };
    let more = if all > cells.len() { " Flows beyond these are in the table." } else { "" };
    Some(Figure {
        id: "over-time".to_owned(),
        title: format!("Latency over time{setting_words}"),
        caption: format!(
            "Each dot is a message of the first repeat; those that never came are strokes on the strip \"lost\". At \
             most {MOST_DOTS} messages a panel: of neighbours the latest and every lost run is kept.{one_of}{more}"
        ),
        origin: String::new(),
        alt: "Latency of each message over the time at which it was meant to leave, a panel for each link.".to_owned(),
        legend: if ranks.is_empty() { Vec::new() } else { vec![ideal.clone()] },
        panels: cells.iter().map(panel).collect(),
        paired: false,
    })
}

fn dots(link: &Link, result: &FlowResult) -> Series {
    Series {
        name: link.name.clone(),
        style: link.style,
        line: Line::None,
        marks: Marks::Dots,
        points: thinned(&result.messages),
    }
}

/// Of each run of neighbours the latest one: what was late or lost is never thinned away.
fn thinned(messages: &[(f64, Option<f64>)]) -> Vec<Point> {
    let of_message = |(at_ms, latency): &(f64, Option<f64>)| {
        Point::at(at_ms / 1e3, latency.unwrap_or(f64::INFINITY))
    };
    let run = messages.len().div_ceil(MOST_DOTS).max(1);
    let latest =
        |run: &[(f64, Option<f64>)]| run.iter().map(of_message).max_by(|a, b| a.y.total_cmp(&b.y));
    messages.chunks(run).filter_map(latest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_what_was_late_or_lost() {
        let mut messages: Vec<_> = (0..100_000).map(|i| (f64::from(i), Some(1.0))).collect();
        messages[777].1 = Some(900.0);
        messages[55_555].1 = None;
        let points = thinned(&messages);
        assert!(points.len() <= MOST_DOTS);
        assert!(points.iter().any(|point| point.y == 900.0));
        assert!(points.iter().any(|point| point.y.is_infinite()));
    }
}
