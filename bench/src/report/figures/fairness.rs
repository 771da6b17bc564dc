// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do flows share a bottleneck over time?

use super::{legend, typical_setting};
use crate::record::FlowResult;
use crate::report::grid::{Grid, Link};
use crate::report::plot::figure::{Entry, Figure};
use crate::report::plot::scale::Scale;
use crate::report::plot::{Axis, Line, Marks, Panel, Point, Series};
use crate::report::style::styles;
use crate::report::units::Unit;
use crate::scenario::flow::Pattern;

/// `arrived_bytes` counts per 100 ms; a second is what a person calls "now".
const BINS_A_SECOND: usize = 10;

/// The flows of one run, as they compete.
struct Race<'a> {
    link: &'a Link,
    flows: Vec<&'a FlowResult>,
}

pub(super) fn figures(grid: &Grid<'_>) -> Vec<Figure> {
    let Some(setting) = typical_setting(grid) else { return Vec::new() };
    let races: Vec<Race<'_>> = grid
        .links
        .iter()
        .enumerate()
        .filter_map(|(i, link)| race(grid, setting, i, link))
        .collect();
    if races.is_empty() {
        return Vec::new();
    }
    let where_ = grid.describe(setting);
    let words = if where_.is_empty() { String::new() } else { format!(" ({where_})") };
    vec![throughput(grid, &races, &words), jain(&races, &words)]
}

/// The first run with two or more flows that want all they can get.
fn race<'g>(grid: &Grid<'g>, setting: usize, i: usize, link: &'g Link) -> Option<Race<'g>> {
    let (_, run) = grid.runs(setting, i)?.measured.first()?;
    let greedy = |flow: &&FlowResult| {
        matches!(flow.flow.pattern, Pattern::Flood { .. } | Pattern::Transfer { .. })
    };
    let flows: Vec<_> =
        run.flows.iter().filter(greedy).filter(|flow| !flow.arrived_bytes.is_empty()).collect();
    (flows.len() > 1).then_some(Race { link, flows })
}

fn throughput(grid: &Grid<'_>, races: &[Race<'_>], words: &str) -> Figure {
    let names = grid.flows.clone();
    let styles = styles(&names);
    let style = |flow: &FlowResult| {
        names.iter().position(|name| *name == flow.flow.name).map(|i| styles[i])
    };
    let (x, until) = time_axis(races);
    let all_rates = races
        .iter()
        .flat_map(|race| &race.flows)
        .flat_map(|flow| rates(flow).into_iter().map(|(_, rate)| rate));
    let y = Scale::linear_from_zero(all_rates);
    let panel = |race: &Race<'_>| Panel {
        title: race.link.name.clone(),
        x: x.clone(),
        y: Axis {
            label: "throughput, Mb/s".into(),
            scale: y,
            ticks: y.ticks(Unit::MegabitsPerSecond),
            lost: None,
        },
        series: race
            .flows
            .iter()
            .filter_map(|flow| {
                let points =
                    rates(flow).into_iter().map(|(at, rate)| Point::at(at, rate)).collect();
                let (name, style) = (flow.flow.name.clone(), style(flow)?);
                Some(Series { name, style, line: Line::Solid, marks: Marks::Some(6), points })
            })
            .collect(),
        end_labels: false,
    };
    let entry = |(name, style): (&String, &_)| Entry {
        name: name.clone(),
        style: *style,
        line: Line::Solid,
        marked: true,
    };
    Figure {
        id: "throughput-over-time".into(),
        title: format!("Throughput of each flow over time{words}"),
        caption: format!("First repeat, {until:.0} s; payload that arrived, mean of each second."),
        origin: String::new(),
        alt: "Throughput of each flow over time, a panel for each link.".into(),
        legend: names.iter().zip(&styles).map(entry).collect(),
        panels: races.iter().map(panel).collect(),
        paired: false,
    }
}

fn jain(races: &[Race<'_>], words: &str) -> Figure {
    let (x, _) = time_axis(races);
    let scale = Scale::Linear { from: 0.0, to: 1.0 };
    let series = races.iter().map(|race| Series {
        name: race.link.name.clone(),
        style: race.link.style,
        line: Line::Solid,
        marks: Marks::Some(6),
        points: jain_over_time(&race.flows)
            .into_iter()
            .map(|(at, index)| Point::at(at, index))
            .collect(),
    });
    let series: Vec<_> = series.filter(|series| !series.points.is_empty()).collect();
    Figure {
        id: "fairness-over-time".into(),
        title: format!("Jain's fairness index over time{words}"),
        caption: "1 when all flows that are running get the same, 1/n when one of n gets everything; mean of each \
                  second, while at least two flows run."
            .into(),
        origin: String::new(),
        alt: "Jain's fairness index over time for each link.".into(),
        legend: legend(races.iter().map(|race| race.link), Line::Solid),
        panels: vec![Panel {
            title: "all flows that are running".to_owned(),
            x,
            y: Axis { label: "Jain's index".into(), scale, ticks: scale.ticks(Unit::Number), lost: None },
            series,
            end_labels: true,
        }],
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
fn jain_over_time(flows: &[&FlowResult]) -> Vec<(f64, f64)> {
    let of_flows: Vec<Vec<(f64, f64)>> = flows.iter().map(|flow| rates(flow)).collect();
    let until = of_flows.iter().flatten().map(|(at, _)| at.ceil() as usize).max().unwrap_or(0);
    let shares = |second: usize| {
        let inside = |at: f64| at >= second as f64 && at < (second + 1) as f64;
        let of_flow = |rates: &Vec<(f64, f64)>| {
            rates.iter().find(|(at, _)| inside(*at)).map(|(_, rate)| *rate)
        };
        of_flows.iter().filter_map(of_flow).collect::<Vec<f64>>()
    };
    let index = |second: usize| Some((second as f64 + 0.5, jain_index(&shares(second))?));
    (0..until).filter_map(index).collect()
}

/// (Σx)² / (n Σx²); `None` for fewer than two flows or when none got anything.
fn jain_index(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (shares.len() > 1 && squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::jain_index;

    #[test]
    fn the_index_is_one_for_equals_and_one_nth_for_one_taker() {
        assert_eq!(jain_index(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain_index(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[8.0]), None);
        assert_eq!(jain_index(&[0.0, 0.0]), None);
    }
}
