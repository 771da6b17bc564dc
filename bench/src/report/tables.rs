// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which tables stand beside the figures?

use maud::{html, Markup};

use super::grid::Grid;
use super::metric::{Metric, Told as _, COSTS, LATENCIES};
use super::units::{digits, Unit};
use crate::scenario::{Figure, Published};
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
                caption { "Median of the repeats, in brackets the least and the greatest. Bold: the best of its setting." }
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
                        td.best[is_best] { (cell(*metric, spread)) }
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

/// The best median as it is written, when the links differ at all.
fn best(grid: &Grid<'_>, setting: usize, flow: &str, metric: Metric) -> Option<String> {
    let medians = (0..grid.links.len())
        .filter_map(|link| Some(grid.spread(setting, link, flow, metric)?.median()));
    let all = Spread::of(medians.collect())?;
    let best = if metric.more_is_better() { all.max() } else { all.min() };
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

/// Published figures with ours beside them.
pub(crate) fn published(grid: &Grid<'_>) -> Markup {
    if grid.info.published.is_empty() {
        return html! {};
    }
    html! {
        h3 { "Published figures and ours" }
        p { "Source: " (grid.info.source) ". Another machine, another network, in part other years: orders of magnitude compare, digits do not. In brackets: ours relative to the published figure." }
        div.scroll tabindex="0" role="region" aria-label="Published figures and ours" { table {
            thead { tr {
                th scope="col" { "setting" } th scope="col" { "published for" } th scope="col" { "figure" } th scope="col" { "published" }
                @for link in &grid.links { th scope="col" { (link.name) } }
            } }
            tbody { @for row in &grid.info.published { @for figure in &row.figures { (published_row(grid, row, figure)) } } }
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

fn published_row(
    grid: &Grid<'_>,
    row: &Published,
    (key, value): &(&'static str, Figure),
) -> Markup {
    let setting = grid
        .settings
        .iter()
        .position(|setting| row.setting.iter().all(|pair| holds(setting, pair)));
    let words: Vec<_> =
        row.setting.iter().map(|(key, value)| super::axis::described(key, value)).collect();
    let known = known_figure(key);
    let unit = known.map_or_else(|| super::axis::unit_of(key), |(_, unit, _)| unit);
    html! {
        tr {
            th scope="row" { (words.join(", ")) }
            td { (row.link) @if !row.note.is_empty() { " (" (row.note) ")" } }
            td { (known.map_or_else(|| spelled(key), |(_, _, words)| words.to_owned())) }
            td { (written(unit, *value)) }
            @for link in 0..grid.links.len() {
                td {
                    @if let Some(ours) = setting.and_then(|setting| ours(grid, setting, link, key)) {
                        (unit.write(ours)) " " span.spread { "(" (relative(unit, ours, *value)) ")" }
                    } @else { "–" }
                }
            }
        }
    }
}

/// Numbers are equal however they are written.
fn holds(setting: &[(String, String)], (key, value): &(String, String)) -> bool {
    let same = |known: &str| match (known.parse::<f64>(), value.parse::<f64>()) {
        (Ok(a), Ok(b)) => a == b,
        _ => known == value,
    };
    setting.iter().any(|(known, text)| known == key && same(text))
}

/// A key of the scenario file without its unit.
fn spelled(key: &str) -> String {
    let words =
        ["_ms", "_percent", "_s"].iter().find_map(|unit| key.strip_suffix(unit)).unwrap_or(key);
    words.replace('_', " ")
}

/// Which of our figures a published one is to be compared with.
fn known_figure(key: &str) -> Option<(Metric, Unit, &'static str)> {
    Some(match key {
        "mean_ms" => (Metric::Mean, Unit::Milliseconds, "mean latency"),
        "median_ms" => (Metric::P50, Unit::Milliseconds, "median latency"),
        "stdev_ms" => (Metric::Deviation, Unit::Milliseconds, "standard deviation"),
        "min_ms" => (Metric::Min, Unit::Milliseconds, "least latency"),
        "max_ms" => (Metric::Max, Unit::Milliseconds, "greatest latency"),
        "p99_gap_ms" => (Metric::GapP99, Unit::Milliseconds, "p99 gap between arrivals"),
        "lost_percent" => (Metric::Share, Unit::Percent, "messages lost"),
        "duration_s" => (Metric::Duration, Unit::Seconds, "duration"),
        "retransmissions" => (Metric::Retransmissions, Unit::Number, "packets sent again"),
        _ => return None,
    })
}

fn ours(grid: &Grid<'_>, setting: usize, link: usize, key: &str) -> Option<f64> {
    let (metric, ..) = known_figure(key)?;
    let value =
        grid.flows.iter().find_map(|flow| grid.spread(setting, link, flow, metric))?.median();
    Some(if key == "lost_percent" { 100.0 - value } else { value })
}

fn written(unit: Unit, figure: Figure) -> String {
    match figure {
        Figure::Exact(value) => unit.write(value),
        Figure::Range(from, to) => format!("{} – {}", unit.write(from), unit.write(to)),
    }
}

/// "−99.7 %", or the difference where the published figure is nothing or already a share.
fn relative(unit: Unit, ours: f64, published: Figure) -> String {
    let published = match published {
        Figure::Exact(value) => value,
        Figure::Range(from, to) if from <= ours && ours <= to => return "within".to_owned(),
        Figure::Range(from, to) => {
            if ours < from {
                from
            } else {
                to
            }
        }
    };
    let sign = |value: f64| if value < 0.0 { "−" } else { "+" };
    let difference = ours - published;
    match unit {
        Unit::Percent => {
            format!("{}{} points", sign(difference), digits(difference.abs()))
        }
        _ if published == 0.0 || !ours.is_finite() => "not comparable".to_owned(),
        _ => {
            let percent = 100.0 * difference / published;
            format!("{}{} %", sign(percent), digits(percent.abs()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_written_with_their_sign() {
        assert_eq!(relative(Unit::Milliseconds, 2.0, Figure::Exact(741.0)), "−99.7 %");
        assert_eq!(relative(Unit::Milliseconds, 15.0, Figure::Exact(10.0)), "+50.0 %");
        assert_eq!(relative(Unit::Percent, 0.0, Figure::Exact(32.7)), "−32.7 points");
        assert_eq!(relative(Unit::Milliseconds, 5.0, Figure::Exact(0.0)), "not comparable");
        assert_eq!(relative(Unit::Seconds, 16.0, Figure::Range(15.0, 17.0)), "within");
        assert_eq!(relative(Unit::Seconds, 34.0, Figure::Range(15.0, 17.0)), "+100 %");
    }

    #[test]
    fn settings_match_by_value() {
        let setting = [("drop_percent".to_owned(), "10".to_owned())];
        assert!(holds(&setting, &("drop_percent".to_owned(), "10.0".to_owned())));
        assert!(!holds(&setting, &("drop_percent".to_owned(), "5".to_owned())));
        assert!(!holds(&setting, &("delay_ms".to_owned(), "10".to_owned())));
    }
}
