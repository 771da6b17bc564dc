// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do flows share a bottleneck over time?

use super::{evenly, legend, MOST_PANELS};
use crate::record::FlowResult;
use crate::report::grid::{Grid, Link};
use crate::report::metric::Metric;
use crate::report::plot::figure::{bound, Entry, Figure};
use crate::report::plot::scale::Scale;
use crate::report::plot::{Axis, Line, Marks, Panel, Point, Series};
use crate::report::style::{styles, Style};
use crate::report::units::Unit;
use crate::summary::sharing::{contenders, jain_index};

/// `arrived_bytes` counts per 100 ms; a second is what a person calls "now".
const BINS_A_SECOND: usize = 10;

/// One setting in which flows compete.
struct Contest<'a> {
    /// The setting in words.
    words: String,
    /// The first run of each link.
    races: Vec<Race<'a>>,
    /// Nothing exceeds it, Mb/s of payload.
    capacity_mbps: Option<f64>,
}

/// The flows of one run, as they compete.
struct Race<'a> {
    link: &'a Link,
    flows: Vec<&'a FlowResult>,
}

/// Jain's index with a panel for each setting, and for each setting the throughput of its flows.
pub(super) fn figures(grid: &Grid<'_>) -> Vec<Figure> {
    let all: Vec<_> = (0..grid.settings.len()).filter_map(|s| contest(grid, s)).collect();
    let shown: Vec<&Contest<'_>> =
        evenly(all.len(), MOST_PANELS).into_iter().map(|i| &all[i]).collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let note = match all.len() - shown.len() {
        0 => String::new(),
        hidden => {
            format!(" {hidden} of {} settings are left out here; the table has all.", all.len())
        }
    };
    let mut figures: Vec<_> =
        shown.iter().enumerate().map(|(i, contest)| throughput(grid, contest, i)).collect();
    figures.push(jain(grid, &shown, &note));
    figures
}

fn contest<'g>(grid: &'g Grid<'_>, setting: usize) -> Option<Contest<'g>> {
    let race = |(i, link): (usize, &'g Link)| {
        let (_, run) = grid.runs(setting, i)?.measured.first()?;
        let mut flows = contenders(run);
        flows.retain(|flow| !flow.arrived_bytes.is_empty());
        (flows.len() > 1).then_some(Race { link, flows })
    };
    let races: Vec<Race<'_>> = grid.links.iter().enumerate().filter_map(race).collect();
    let flow = &races.first()?.flows[0].flow.name;
    let capacity_mbps = grid.bound(setting, flow, Metric::Goodput);
    Some(Contest { words: grid.describe(setting), races, capacity_mbps })
}

fn throughput(grid: &Grid<'_>, contest: &Contest<'_>, place: usize) -> Figure {
    let Contest { words, races, capacity_mbps } = contest;
    let names = &grid.flows;
    let styles = styles(names);
    let style = |flow: &FlowResult| {
        names.iter().position(|name| *name == flow.flow.name).map(|i| styles[i])
    };
    let (x, until) = time_axis(races);
    let flows = races.iter().flat_map(|race| &race.flows);
    let all_rates = flows.flat_map(|flow| rates(flow).into_iter().map(|(_, rate)| rate));
    let y = Scale::linear_from_zero(all_rates.chain(*capacity_mbps));
    let capacity = bound("erasure capacity (bound)");
    let ceiling = capacity_mbps.map(|mbps| Series {
        name: capacity.name.clone(),
        style: capacity.style,
        line: capacity.line,
        marks: Marks::None,
        points: vec![Point::at(0.0, mbps), Point::at(until, mbps)],
    });
    let line = |flow: &&FlowResult| {
        let points = rates(flow).into_iter().map(|(at, rate)| Point::at(at, rate)).collect();
        let (name, style) = (flow.flow.name.clone(), style(flow)?);
        Some(Series { name, style, line: Line::Solid, marks: Marks::Some(6), points })
    };
    let panel = |race: &Race<'_>| Panel {
        title: race.link.name.clone(),
        x: x.clone(),
        y: Axis {
            label: "throughput, Mb/s".into(),
            scale: y,
            ticks: y.ticks(Unit::MegabitsPerSecond),
            lost: None,
        },
        series: ceiling.iter().cloned().chain(race.flows.iter().filter_map(line)).collect(),
        end_labels: false,
    };
    let entry = |(name, style): (&String, &Style)| Entry {
        name: name.clone(),
        style: *style,
        line: Line::Solid,
        marked: true,
    };
    let entries = names.iter().zip(&styles).map(entry);
    Figure {
        id: match place {
            0 => "throughput-over-time".into(),
            _ => format!("throughput-over-time-{}", place + 1),
        },
        title: format!("Throughput of each flow over time{}", in_brackets(words)),
        caption: format!(
            "First repeat only, {until:.0} s; payload that arrived, mean of each second. Dotted, where a rate is \
             limited: what all flows together cannot exceed, rate × (1 − loss) less headers."
        ),
        origin: String::new(),
        alt: "Throughput of each flow over time, a panel for each link.".into(),
        legend: entries.chain(capacity_mbps.map(|_| capacity.clone())).collect(),
        panels: races.iter().map(panel).collect(),
        paired: false,
    }
}

fn in_brackets(words: &str) -> String {
    match words {
        "" => String::new(),
        words => format!(" ({words})"),
    }
}

fn jain(grid: &Grid<'_>, contests: &[&Contest<'_>], note: &str) -> Figure {
    let scale = Scale::Linear { from: 0.0, to: 1.0 };
    let line = |race: &Race<'_>| Series {
        name: race.link.name.clone(),
        style: race.link.style,
        line: Line::Solid,
        marks: Marks::Some(6),
        points: jain_over_time(&race.flows),
    };
    let panel = |contest: &&Contest<'_>| Panel {
        title: match contest.words.as_str() {
            "" => "all flows that are running".to_owned(),
            words => words.to_owned(),
        },
        x: time_axis(&contest.races).0,
        y: Axis {
            label: "Jain's index".into(),
            scale,
            ticks: scale.ticks(Unit::Number),
            lost: None,
        },
        series: contest.races.iter().map(line).filter(|line| !line.points.is_empty()).collect(),
        end_labels: true,
    };
    let races = |link: &&Link| {
        contests.iter().flat_map(|contest| &contest.races).any(|race| race.link.name == link.name)
    };
    Figure {
        id: "fairness-over-time".into(),
        title: "Jain's fairness index over time".into(),
        caption: format!(
            "First repeat only; the table \"Fairness\" is of all. 1 when all flows that are running get the same, 1/n \
             when one of n gets everything; mean of each second, while at least two flows run.{note}"
        ),
        origin: String::new(),
        alt: "Jain's fairness index over time for each link, a panel for each setting.".into(),
        legend: legend(grid.links.iter().filter(races), Line::Solid),
        panels: contests.iter().map(panel).collect(),
        paired: false,
    }
}

fn time_axis(races: &[Race<'_>]) -> (Axis, f64) {
    let flows = races.iter().flat_map(|race| &race.flows);
    let end = |flow: &&FlowResult| {
        flow.flow.start_s + flow.arrived_bytes.len() as f64 / BINS_A_SECOND as f64
    };
    let until = flows.map(end).fold(1.0, f64::max);
    let scale = Scale::Linear { from: 0.0, to: until };
    (Axis { label: "time, s".into(), scale, ticks: scale.ticks(Unit::Seconds), lost: None }, until)
}

/// Mb/s of each whole second, at its middle.
fn rates(flow: &FlowResult) -> Vec<(f64, f64)> {
    let seconds = flow.arrived_bytes.chunks_exact(BINS_A_SECOND).enumerate();
    let rate = |bins: &[u64]| bins.iter().sum::<u64>() as f64 * 8e-6;
    seconds.map(|(i, bins)| (flow.flow.start_s + i as f64 + 0.5, rate(bins))).collect()
}

/// Jain's index of the flows that run, for each second in which at least two do.
fn jain_over_time(flows: &[&FlowResult]) -> Vec<Point> {
    let of_flows: Vec<Vec<(f64, f64)>> = flows.iter().map(|flow| rates(flow)).collect();
    let until = of_flows.iter().flatten().map(|(at, _)| at.ceil() as usize).max().unwrap_or(0);
    let shares = |second: usize| {
        let inside = |at: f64| at >= second as f64 && at < (second + 1) as f64;
        let of_flow = |rates: &Vec<(f64, f64)>| {
            rates.iter().find(|(at, _)| inside(*at)).map(|(_, rate)| *rate)
        };
        of_flows.iter().filter_map(of_flow).collect::<Vec<f64>>()
    };
    let index = |second: usize| Some(Point::at(second as f64 + 0.5, jain_index(&shares(second))?));
    (0..until).filter_map(index).collect()
}
