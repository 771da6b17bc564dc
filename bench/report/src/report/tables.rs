// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which tables stand beside the figures?

use maud::{html, Markup};

use super::grid::Grid;
use super::metric::{Metric, Told as _, COSTS, LATENCIES};
use super::units::digits;
use crate::summary::retransmissions::{self, Row};
use crate::summary::Spread;

/// A longer table is folded on a screen (never in print).
const FOLD_ROWS: usize = 40;

/// Every figure of every cell: median, and least to greatest over the repeats.
pub(crate) fn results(grid: &Grid<'_>) -> Markup {
    let flows: Vec<&str> = grid.flows.iter().map(String::as_str).collect();
    let metrics: Vec<Metric> = columns(grid);
    let rows = flows.len() * grid.settings.len() * grid.links.len();
    let table = html! {
        div.scroll tabindex="0" role="region" aria-label={ "Results of " (grid.info.title) } {
            table {
                caption { "Median of the repeats, in brackets the least and the greatest. Bold: the best of its setting, among the links of which no run failed there." }
                thead { tr {
                    th scope="col" { "setting" }
                    th scope="col" { "link" }
                    th scope="col" { "runs" }
                    @for metric in &metrics { th scope="col" title=(metric.title()) { (metric.name()) } }
                } }
                @for flow in &flows {
                    @for setting in 0..grid.settings.len() { (setting_rows(grid, setting, flow, &metrics)) }
                }
            }
        }
    };
    html! {
        @if rows > FOLD_ROWS { details { summary { "Show all " (rows) " rows" } (table) } }
        @else { (table) }
    }
}

/// The columns for which any flow has a figure.
fn columns(grid: &Grid<'_>) -> Vec<Metric> {
    let others = [Metric::Goodput, Metric::Duration, Metric::Share, Metric::Silence];
    let all = LATENCIES.into_iter().chain(others).chain(COSTS);
    all.filter(|metric| grid.flows.iter().any(|flow| grid.has(flow, *metric))).collect()
}

fn setting_rows(grid: &Grid<'_>, setting: usize, flow: &str, metrics: &[Metric]) -> Markup {
    let links: Vec<usize> =
        (0..grid.links.len()).filter(|link| grid.runs(setting, *link).is_some()).collect();
    let name = super::figures::panel_title(grid, &grid.describe(setting), flow);
    let bound: Vec<Option<f64>> =
        metrics.iter().map(|metric| grid.bound(setting, flow, *metric)).collect();
    let best: Vec<Option<String>> =
        metrics.iter().map(|metric| best(grid, setting, flow, *metric)).collect();
    html! {
        tbody {
            @for (i, link) in links.iter().enumerate() {
                tr {
                    th scope="row" { @if i == 0 { (name) } @else { span.visually-hidden { (name) } } }
                    th scope="row" { (grid.links[*link].name) }
                    td { (runs(grid, setting, *link)) }
                    @for (metric, best) in metrics.iter().zip(&best) {
                        @let spread = grid.spread(setting, *link, flow, *metric);
                        @let is_best = spread.is_some_and(|spread| Some(metric.counts().write(spread.median())) == *best);
                        td.best[is_best && grid.failed(setting, *link) == 0] { (cell(*metric, spread)) }
                    }
                }
            }
            @if bound.iter().any(Option::is_some) {
                tr.bound {
                    th scope="row" { span.visually-hidden { (name) } }
                    th scope="row" { "bound" }
                    td {}
                    @for (metric, bound) in metrics.iter().zip(&bound) {
                        td { @if let Some(bound) = bound { (metric.counts().write(*bound)) } }
                    }
                }
            }
        }
    }
}

fn cell(metric: Metric, spread: Option<&Spread>) -> Markup {
    html! {
        @match spread {
            None => { "–" }
            Some(spread) => {
                (metric.counts().write(spread.median()))
                @if let Some(range) = metric.counts().write_range(spread) { " " span.spread { (range) } }
            }
        }
    }
}

/// The best median as it is written, when the links differ at all. That of a link of which a run failed leaves out what
/// it could not do.
fn best(grid: &Grid<'_>, setting: usize, flow: &str, metric: Metric) -> Option<String> {
    let median = |link| Some(grid.spread(setting, link, flow, metric)?.median());
    let links = || 0..grid.links.len();
    let all = Spread::of(links().filter_map(median).collect())?;
    let sound = links().filter(|link| grid.failed(setting, *link) == 0).filter_map(median);
    let sound = Spread::of(sound.collect())?;
    let best = if metric.more_is_better() { sound.max() } else { sound.min() };
    let write = |value| metric.counts().write(value);
    (write(all.min()) != write(all.max()) && best.is_finite()).then(|| write(best))
}

/// How many runs count; failed and void ones are named.
fn runs(grid: &Grid<'_>, setting: usize, link: usize) -> Markup {
    let Some(runs) = grid.runs(setting, link) else { return html! {} };
    html! {
        (runs.measured.len())
        @if !runs.failed.is_empty() { span.bad { ", " (runs.failed.len()) " failed" } }
        @if !runs.void.is_empty() { span.bad { ", " (runs.void.len()) " void" } }
    }
}

/// What did not run and what does not count, each with its reason.
pub(crate) fn failures(grid: &Grid<'_>) -> Markup {
    let bad =
        || grid.all_runs().filter(|(.., runs)| !runs.failed.is_empty() || !runs.void.is_empty());
    if bad().next().is_none() {
        return html! {};
    }
    html! {
        h3 { "Failed and void runs" }
        p { "A failed run is a result and is counted against its link. A void run is one in which the emulator itself could not keep up; it enters no figure." }
        div.scroll tabindex="0" role="region" aria-label="Failed and void runs" { table {
            thead { tr { th scope="col" { "setting" } th scope="col" { "link" } th scope="col" { "repeat" } th scope="col" { "what happened" } } }
            tbody {
                @for (setting, link, runs) in bad() {
                    @for (record, why) in &runs.failed {
                        tr { td { (grid.describe(setting)) } td { (grid.links[link].name) } td { (record.repeat) } td.text { "failed: " (why) } }
                    }
                    @for record in &runs.void {
                        tr { td { (grid.describe(setting)) } td { (grid.links[link].name) } td { (record.repeat) } td.text { "void: the emulator dropped packets of its own" } }
                    }
                }
            }
        } }
    }
}

/// The test that the published experiment on selective acknowledgement reported, where its two links were measured.
pub(crate) fn selective_acknowledgement(grid: &Grid<'_>) -> Markup {
    let rows = retransmissions::rows(&grid.summaries());
    if !rows.iter().any(|row| row.with_sack.is_some() && row.without_sack.is_some()) {
        return html! {};
    }
    let mean = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), digits);
    let setting = |row: &Row| grid.settings.iter().position(|setting| *setting == row.setting);
    html! {
        h3 { "Does selective acknowledgement spare retransmissions?" }
        p { "Means over the repeats, and Welch's t-test of with against without, as the published experiment reported it." }
        div.scroll tabindex="0" role="region" aria-label="Retransmissions with and without selective acknowledgement" { table {
            thead { tr {
                th scope="col" { "setting" } th scope="col" { "with SACK" } th scope="col" { "without" }
                th scope="col" { "t" } th scope="col" { "degrees of freedom" } th scope="col" { "p" } th scope="col" { "arq" }
            } }
            tbody { @for row in &rows {
                tr {
                    th scope="row" { @if let Some(setting) = setting(row) { (grid.describe(setting)) } }
                    td { (mean(row.with_sack)) } td { (mean(row.without_sack)) }
                    @match &row.test {
                        Some(test) => { td { (digits(test.t)) } td { (digits(test.degrees)) } td { (digits(test.p_value)) } }
                        None => { td colspan="3" { "too few repeats to test" } }
                    }
                    td { (mean(row.arq)) }
                }
            } }
        } }
    }
}
