// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What do the figures say in plain words: first where we lose, then where we win, then what they do not tell?

use std::collections::BTreeMap;

use maud::{html, Markup};
use netlab::wire::Loss;

use super::grid::Grid;
use super::metric::{Metric, Told as _, COSTS};
use super::units::{digits, Unit};
use super::verdict::{comparisons, our_link, Comparison, Standing};
use crate::summary;

/// Rows for each figure in which ours loses; the rest are counted, and all are in the table of the scenario.
const MOST_ROWS: usize = 4;

/// The verdict over one scenario.
pub(crate) fn verdict(grid: &Grid<'_>) -> Markup {
    let unmeasured = grid.unmeasured_links();
    html! {
        @if !unmeasured.is_empty() {
            p.warning { "Without a run, and so in no comparison: " (unmeasured.join(", ")) ". The run said why, or has not come to it." }
        }
        (won_and_lost(grid))
    }
}

fn won_and_lost(grid: &Grid<'_>) -> Markup {
    let Some(us) = our_link(grid) else {
        return html! { p { "None of the links measured here is ours: there is nothing to be won or lost." } };
    };
    let name = &grid.links[us].name;
    let all = comparisons(grid);
    let failures = our_failures(grid, us);
    if all.is_empty() && failures.is_empty() {
        return html! { p { "No other link was measured beside " b { (name) } ": these figures show how it behaves, not whether it is better." } };
    }
    let of = |standing| {
        all.iter().filter(|comparison| comparison.standing == standing).collect::<Vec<_>>()
    };
    let (worse, level, better) = (of(Standing::Worse), of(Standing::Level), of(Standing::Better));
    let one_repeat = all.iter().all(|comparison| comparison.ours.values().len() < 2);
    html! {
        @if one_repeat {
            p.warning { "Each cell was run once. Without repeats there is no telling noise from difference: read what follows as hints." }
        }
        p {
            b { (name) } " against the best other link, figure by figure: worse in " b { (worse.len()) }
            ", level in " (level.len()) ", better in " (better.len()) " of " (all.len()) " comparisons."
        }
        h4 { "Where " (name) " loses" }
        @if worse.is_empty() && failures.is_empty() { p { "In none of the figures measured here." } }
        @else { (losses(grid, &failures, &worse, &all)) }
        @if !level.is_empty() { h4 { "Where it is level" } p { (counted(&level)) "." } }
        h4 { "Where it wins" }
        @if better.is_empty() { p { "In none of the figures measured here." } }
        @else { ul { @for (metric, of_metric) in by_metric(&better) { li { (wins(grid, metric, &of_metric)) } } } }
    }
}

/// One line for the report's summary.
pub(crate) fn in_one_line(grid: &Grid<'_>) -> String {
    let all = comparisons(grid);
    let count = |standing| all.iter().filter(|comparison| comparison.standing == standing).count();
    let worst = all.iter().find(|comparison| comparison.standing == Standing::Worse);
    let words = match (all.is_empty(), worst) {
        (true, _) => "no comparison with another link".to_owned(),
        (_, Some(worst)) => format!(
            "worse in {}, level in {}, better in {}; worst: {}, {}",
            count(Standing::Worse),
            count(Standing::Level),
            count(Standing::Better),
            worst.metric.title(),
            sentence(grid, worst)
        ),
        (_, None) => format!(
            "worse in none, level in {}, better in {}",
            count(Standing::Level),
            count(Standing::Better)
        ),
    };
    format!("{words}{}{}", failed_runs(grid), without_a_run(grid))
}

/// "; without a run: tcp-bbr".
fn without_a_run(grid: &Grid<'_>) -> String {
    let names = grid.unmeasured_links();
    if names.is_empty() {
        return String::new();
    }
    format!("; without a run: {}", names.join(", "))
}

/// "; failed runs: 2 of arq, 1 of quic".
fn failed_runs(grid: &Grid<'_>) -> String {
    let settings = 0..grid.settings.len();
    let words = grid.links.iter().enumerate().filter_map(|(link, known)| {
        let runs: usize = settings.clone().map(|setting| grid.failed(setting, link)).sum();
        (runs > 0).then(|| format!("{runs} of {}", known.name))
    });
    let words: Vec<_> = words.collect();
    if words.is_empty() {
        return String::new();
    }
    format!("; failed runs: {}", words.join(", "))
}

/// Setting, how many runs of ours failed there, and why the first did.
fn our_failures<'g>(grid: &'g Grid<'_>, us: usize) -> Vec<(String, usize, &'g str)> {
    let failed = grid.all_runs().filter(|(_, link, runs)| *link == us && !runs.failed.is_empty());
    let row = |(setting, _, runs): (usize, usize, &'g super::grid::Runs<'_>)| {
        let (_, why) = runs.failed[0];
        (grid.describe(setting), runs.failed.len(), why)
    };
    failed.map(row).collect()
}

/// For each figure in how many settings it is worse, and the worst of them; runs that failed before all.
fn losses(
    grid: &Grid<'_>,
    failures: &[(String, usize, &str)],
    worse: &[&Comparison],
    all: &[Comparison],
) -> Markup {
    let us = our_link(grid).map_or("ours", |us| grid.links[us].name.as_str());
    html! {
        div.scroll tabindex="0" role="region" aria-label={ "Where " (us) " loses" } { table.losses {
            thead { tr {
                th scope="col" { "figure" } th scope="col" { "worse in" } th scope="col" { "setting" }
                th scope="col" { (us) } th scope="col" { "other" } th scope="col" { "its figure" } th scope="col" { "apart" }
            } }
            @if !failures.is_empty() { tbody { @for (setting, runs, why) in failures {
                tr { th scope="row" { "could not run" } td { (runs) " runs" } td.text { (setting) } td.text colspan="4" { (why) } }
            } } }
            @for (metric, of_metric) in by_metric(worse) { tbody { (losses_in(grid, metric, &of_metric, all)) } }
        } }
    }
}

/// The rows of one figure, the widest distance first.
fn losses_in(grid: &Grid<'_>, metric: Metric, worse: &[&Comparison], all: &[Comparison]) -> Markup {
    let compared = all.iter().filter(|comparison| comparison.metric == metric).count();
    let more = worse.len().saturating_sub(MOST_ROWS);
    let rows = worse.len().min(MOST_ROWS) + usize::from(more > 0);
    let unit = metric.counts();
    html! {
        @for (i, one) in worse.iter().take(MOST_ROWS).enumerate() { tr {
            @if i == 0 {
                th scope="rowgroup" rowspan=(rows) { (metric.title()) }
                td rowspan=(rows) { (worse.len()) " of " (compared) }
            }
            td.text { (place(grid, one)) }
            td { (unit.write_spread(&one.ours)) }
            td.text { (one.rival) }
            td { (unit.write_spread(&one.theirs)) }
            td { (apart(one)) }
        } }
        @if more > 0 { tr { td.text colspan="5" { "and " (more) " more, less far apart" } } }
    }
}

/// How many times, and what is to be said for ours all the same.
fn apart(comparison: &Comparison) -> String {
    let times = match comparison.ratio() {
        ratio if ratio.is_finite() => format!("{} times", digits(ratio)),
        _ => "beyond any factor".to_owned(),
    };
    match comparison.rival_delivers_less {
        Some((they, we)) => {
            let share = |value| Unit::Percent.write(value);
            format!("{times}; it delivers {}, ours {}", share(they), share(we))
        }
        None => times,
    }
}

/// The flow, where there are several and it has the figure, and the setting.
fn place(grid: &Grid<'_>, comparison: &Comparison) -> String {
    let of_flow = grid.flows.len() > 1 && !COSTS.contains(&comparison.metric);
    let flow = if of_flow { comparison.flow.as_str() } else { "" };
    let setting = grid.describe(comparison.setting);
    let parts: Vec<&str> =
        [flow, setting.as_str()].into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

/// "10 KB, 0 % lost: p99 is 1.9 ms over arq, 1.2 ms over tcp-bbr (1.6 times)."
fn sentence(grid: &Grid<'_>, comparison: &Comparison) -> String {
    let Comparison { metric, ours, rival, theirs, .. } = comparison;
    let unit = metric.counts();
    let times = match comparison.ratio() {
        ratio if ratio.is_finite() => format!(" ({} times)", digits(ratio)),
        _ => String::new(),
    };
    let us = our_link(grid).map_or("ours", |us| grid.links[us].name.as_str());
    let (ours, theirs) = (unit.write_spread(ours), unit.write_spread(theirs));
    let less = match comparison.rival_delivers_less {
        Some((they, we)) => {
            let share = |value| Unit::Percent.write(value);
            format!("; but {rival} delivers {} and {us} {}", share(they), share(we))
        }
        None => String::new(),
    };
    format!(
        "{}{ours} over {us}, {theirs} over {rival}{times}{less}",
        prefix(&place(grid, comparison))
    )
}

fn prefix(place: &str) -> String {
    if place.is_empty() {
        String::new()
    } else {
        format!("{place}: ")
    }
}

/// "p50 in 3, p99 in 2".
fn counted(comparisons: &[&Comparison]) -> String {
    let parts = by_metric(comparisons);
    let words: Vec<_> =
        parts.iter().map(|(metric, of)| format!("{} in {}", metric.title(), of.len())).collect();
    words.join(", ")
}

fn by_metric<'c>(comparisons: &[&'c Comparison]) -> BTreeMap<Metric, Vec<&'c Comparison>> {
    let mut by: BTreeMap<Metric, Vec<&Comparison>> = BTreeMap::new();
    for comparison in comparisons {
        by.entry(comparison.metric).or_default().push(comparison);
    }
    by
}

/// "99th percentile: better in 8, 3.1 to 40 times. The greatest: …".
fn wins(grid: &Grid<'_>, metric: Metric, comparisons: &[&Comparison]) -> String {
    let words =
        format!("{}: better in {}{}", metric.title(), comparisons.len(), times(comparisons));
    let finite = comparisons.iter().filter(|comparison| comparison.ratio().is_finite());
    match finite.max_by(|a, b| a.ratio().total_cmp(&b.ratio())) {
        Some(greatest) => format!("{words}. Furthest apart: {}.", sentence(grid, greatest)),
        None => format!("{words}."),
    }
}

/// ", 3.1 to 40 times; in 2 of them the other one lost that rank".
fn times(comparisons: &[&Comparison]) -> String {
    let ratios = || {
        comparisons.iter().map(|comparison| comparison.ratio()).filter(|ratio| ratio.is_finite())
    };
    let (least, most) = (ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max));
    let (least, most, lost) = (digits(least), digits(most), comparisons.len() - ratios().count());
    let range = match lost == comparisons.len() {
        true => String::new(),
        false if least == most => format!(", {most} times"),
        false => format!(", {least} to {most} times"),
    };
    match lost {
        0 => range,
        _ => format!("{range}; in {lost} of them beyond any factor, one of the two having none or a lost rank"),
    }
}

/// What the figures do not tell, from what they hold.
pub(crate) fn not_measured(grids: &[&Grid<'_>], slow_build: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if slow_build {
        notes.push("The program was built without optimisation: times, CPU and throughput are those of a slow build and say nothing about a release.".to_owned());
    }
    let has =
        |metric| grids.iter().any(|grid| grid.flows.iter().any(|flow| grid.has(flow, metric)));
    let absent = [
        Metric::Goodput,
        Metric::WirePackets,
        Metric::Retransmissions,
        Metric::CpuPerGb,
        Metric::PeakMemory,
    ];
    for metric in absent.into_iter().filter(|metric| !has(*metric)) {
        notes.push(format!("Not measured in these scenarios: {}.", metric.title()));
    }
    notes.extend(too_few_messages(grids));
    notes.extend(held_up(grids));
    let runs = || grids.iter().flat_map(|grid| grid.all_runs().map(|(.., runs)| runs));
    notes
        .extend(summary::stolen(runs().flat_map(|runs| &runs.measured).map(|(record, _)| *record)));
    if runs().any(|runs| runs.measured.len() + runs.failed.len() < 5) {
        notes.push("Some cells have fewer than five counted repeats; their ranges are wider in truth than they look.".to_owned());
    }
    let networks =
        || runs().flat_map(|runs| runs.measured.iter().map(|(record, _)| &record.network));
    if networks()
        .any(|network| matches!(network.forward.loss, Loss::Gilbert { .. } | Loss::State { .. }))
    {
        notes.push(
            "The mean length of loss bursts is a choice of ours and not a measurement of a radio."
                .to_owned(),
        );
    }
    notes.push("Two hosts of one kernel on an emulated wire: no radio, no driver, no second hop, no mobility. Real links lose in ways that no preset holds.".to_owned());
    notes.push(
        "Idle links, thousands of links in one process and energy are not measured here."
            .to_owned(),
    );
    notes
}

/// In how many runs the emulator was late.
fn held_up(grids: &[&Grid<'_>]) -> Option<String> {
    let runs =
        || grids.iter().flat_map(|grid| grid.all_runs()).flat_map(|(.., runs)| &runs.measured);
    let late = runs().filter(|(_, run)| summary::was_held_up(run)).count();
    (late > 0).then(|| {
        format!(
            "The machine was busy: in {late} of {} runs more than 1 % of the packets left the emulated network over 1 ms \
             late, and latencies there are too high.",
            runs().count()
        )
    })
}

/// Which ranks are left out.
fn too_few_messages(grids: &[&Grid<'_>]) -> Option<String> {
    let ranks = |grid: &&Grid<'_>| {
        let ranks = summary::too_few_messages(&grid.summaries(), &Metric::ALL)?;
        Some(if grids.len() > 1 { format!("{}: {ranks}", grid.info.name) } else { ranks })
    };
    let ranks: Vec<_> = grids.iter().filter_map(ranks).collect();
    (!ranks.is_empty()).then(|| {
        format!(
            "Too few messages in a run of some flows for these ranks: {}. They would be the greatest figure of all \
             under another name and are left out of tables, figures and comparisons; p90 takes {} messages a run, p99 {}, \
             p99.9 {}.",
            ranks.join(". "),
            summary::least_messages(90.0),
            summary::least_messages(99.0),
            digits(summary::least_messages(99.9) as f64),
        )
    })
}

/// What must be said aloud beside any figure of this kind.
pub(crate) fn said_aloud(grids: &[&Grid<'_>]) -> Vec<String> {
    let records =
        || grids.iter().flat_map(|grid| grid.all_runs().flat_map(|(.., runs)| &runs.measured));
    let rtt =
        |network: &netlab::wire::Conditions| network.forward.delay_ms + network.backward.delay_ms;
    let longest = records().map(|(record, _)| rtt(&record.network)).fold(0.0, f64::max);
    let here = match longest > 0.0 {
        true => format!(" The longest round trip here is {} ms before queues.", digits(longest)),
        false => String::new(),
    };
    vec![
        format!("A repair costs at least one round trip. A budget of 3 to 10 ms cannot be met by retransmission where the round trip exceeds it; redundancy sent ahead can.{here}"),
        "Real CAM and BSM messages are broadcast, without acknowledgement. zenoh over a unicast link stands for sidelink unicast or vehicle-to-network traffic, not for those.".to_owned(),
        "Wi-Fi repeats frames on its own and hides part of a radio's loss. What is called loss here is what is left for the IP layer.".to_owned(),
    ]
}
