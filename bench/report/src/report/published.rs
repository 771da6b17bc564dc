// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do our figures stand beside those that others published?

use maud::{html, Markup};

use super::grid::Grid;
use super::metric::Metric;
use super::units::{digits, Unit};
use crate::scenario::{Figure, Published};

/// Published figures with ours beside them.
pub(crate) fn table(grid: &Grid<'_>) -> Markup {
    let published = &grid.info.published;
    let scale = grid.info.extent.scale;
    let is_shown = |key: &str| scale == 1.0 || !is_total(key);
    let figures = || published.iter().flat_map(|row| row.figures.iter().map(move |it| (row, it)));
    let shown: Vec<_> = figures().filter(|(_, (key, _))| is_shown(key)).collect();
    if published.is_empty() {
        return html! {};
    }
    html! {
        h3 { "Published figures and ours" }
        p { "Source: " (grid.info.source) ". Another machine, another network, in part other years: orders of magnitude compare, digits do not. In brackets: ours relative to the published figure." }
        @if !shown.is_empty() {
            div.scroll tabindex="0" role="region" aria-label="Published figures and ours" { table {
                thead { tr {
                    th scope="col" { "setting" } th scope="col" { "published for" } th scope="col" { "figure" } th scope="col" { "published" }
                    @for link in &grid.links { th scope="col" { (link.name) } }
                } }
                tbody { @for (row, figure) in &shown { (rows(grid, row, figure)) } }
            } }
        }
        @if shown.len() < figures().count() {
            p { "Totals (durations, packets sent again) are left out: the source has them of the whole experiment, and here a run has " (scale) " times its messages." }
        }
    }
}

/// Whether it grows with the messages of a run.
fn is_total(key: &str) -> bool {
    matches!(key, "duration_s" | "retransmissions")
}

/// A row for each setting that the published figure belongs to, so that none of ours is passed over; one without ours
/// where no such setting was measured.
fn rows(grid: &Grid<'_>, published: &Published, figure: &(&'static str, Figure)) -> Markup {
    let is_its = |setting: &usize| {
        published.setting.iter().all(|pair| holds(&grid.settings[*setting], pair))
    };
    let settings: Vec<usize> = (0..grid.settings.len()).filter(is_its).collect();
    html! {
        @for setting in &settings { (row(grid, published, figure, Some(*setting))) }
        @if settings.is_empty() { (row(grid, published, figure, None)) }
    }
}

fn row(
    grid: &Grid<'_>,
    published: &Published,
    (key, value): &(&'static str, Figure),
    setting: Option<usize>,
) -> Markup {
    let known = known_figure(key);
    let unit = known.map_or_else(|| super::axis::unit_of(key), |(_, unit, _)| unit);
    // The source does not tell flows apart; the scenario's first that has such a figure stands for it.
    let flow = known.and_then(|(metric, ..)| grid.flows.iter().find(|flow| grid.has(flow, metric)));
    let flow = flow.map_or("", String::as_str);
    let ours = |link| ours(grid, setting?, link, flow, key);
    html! {
        tr {
            th scope="row" { (super::figures::panel_title(grid, &words(grid, published, setting), flow)) }
            td { (published.link) @if !published.note.is_empty() { " (" (published.note) ")" } }
            td { (known.map_or_else(|| spelled(key), |(_, _, words)| words.to_owned())) }
            td { (written(unit, *value)) }
            @for link in 0..grid.links.len() {
                td {
                    @if let Some(ours) = ours(link) {
                        (unit.write(ours)) " " span.spread { "(" (relative(unit, ours, *value)) ")" }
                    } @else { "–" }
                }
            }
        }
    }
}

/// What the source says of its setting, then what it does not say and we have measured.
fn words(grid: &Grid<'_>, published: &Published, setting: Option<usize>) -> String {
    let of_source = published.setting.iter().map(|(key, value)| super::axis::described(key, value));
    let unsaid = |key: &str| published.setting.iter().all(|(said, _)| said != key);
    let axes = grid.axes.iter().filter(|axis| unsaid(&axis.key));
    let of_ours = axes.filter_map(|axis| axis.describe(&grid.settings[setting?]));
    of_source.chain(of_ours).collect::<Vec<_>>().join(", ")
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

fn ours(grid: &Grid<'_>, setting: usize, link: usize, flow: &str, key: &str) -> Option<f64> {
    let (metric, ..) = known_figure(key)?;
    let value = grid.spread(setting, link, flow, metric)?.median();
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
    use crate::report::sample::{environment, info, Sample};
    use crate::report::Input;

    #[test]
    fn totals_stand_beside_totals_of_the_same_scale_only() {
        let records = Sample { repeats: 1, delays: vec![0.5], ..Sample::drop_rate() }.records(1);
        let environment = environment();
        let page = |scale: f64| {
            let mut scenario = info("sample");
            scenario.extent.scale = scale;
            let totals =
                [("duration_s", Figure::Exact(4.0)), ("retransmissions", Figure::Exact(9.0))];
            scenario.published[0].figures.extend(totals);
            let input = Input { scenario: &scenario, environment: &environment, records: &records };
            table(&Grid::of(&input)).into_string()
        };
        let has = |page: &str| {
            ["mean latency", "duration</td>", "packets sent again</td>"].map(|it| page.contains(it))
        };
        assert_eq!(has(&page(1.0)), [true; 3]);
        assert!(!page(1.0).contains("left out"));
        assert_eq!(has(&page(0.1)), [true, false, false]);
        assert!(page(0.1).contains("here a run has 0.1 times its messages"));
    }

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
