// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What would a reader repeat to somebody else? One picture and four sentences: what was sent, on which network, how much
//! better or worse ours was, and what that cost.
//!
//! The figure that is told is the first of [`HEADLINES`] that was measured, in the setting that the report calls typical:
//! chosen before anything is known of who wins. Every outcome has words of its own.

use maud::{html, Markup};
use netlab::expected_share;
use netlab::wire::{Conditions, Loss, Wire};

use super::figures;
use super::grid::Grid;
use super::metric::{Metric, Told as _};
use super::plot::figure::Figure;
use super::units::{digits, Unit};
use super::verdict::{comparisons, our_link, Comparison, Standing};
use crate::scenario::flow::{Flow, Pattern};

/// What an application feels most, first.
const HEADLINES: [Metric; 6] =
    [Metric::P99, Metric::P90, Metric::P50, Metric::Goodput, Metric::Duration, Metric::Share];
/// What a network and a processor are charged.
const COSTS: [Metric; 2] = [Metric::WireBytes, Metric::CpuPerGb];
/// A difference of costs below this share is none.
const AS_MUCH: f64 = 0.05;

/// The head of a scenario.
pub(crate) struct Opening {
    /// The figure that the third sentence is about, in all its settings; none where nothing was measured.
    pub(crate) picture: Option<Figure>,
    /// What, where, how much, for what.
    pub(crate) sentences: [String; 4],
}

/// What one figure of one flow is in one setting.
struct Place<'g> {
    metric: Metric,
    flow: &'g str,
    setting: usize,
}

impl Opening {
    /// Of what was measured.
    pub(crate) fn of(grid: &Grid<'_>) -> Self {
        let place = headline(grid);
        let all = comparisons(grid);
        let picture =
            place.as_ref().and_then(|at| figures::one(grid, at.metric, at.flow, at.setting));
        let is_it = |at: &Place<'_>, comparison: &&Comparison| {
            comparison.metric == at.metric
                && comparison.flow == at.flow
                && comparison.setting == at.setting
        };
        let told = place.as_ref().and_then(|at| all.iter().find(|one| is_it(at, one)));
        let sentences = [
            sent(grid),
            network(grid),
            outcome(grid, &all, place.as_ref(), told),
            costs(grid, place.as_ref(), told),
        ];
        Self { picture, sentences }
    }

    /// As the page shows it.
    pub(crate) fn markup(&self) -> Markup {
        html! {
            @if let Some(picture) = &self.picture { (picture.on_page()) }
            ol.opening { @for sentence in &self.sentences { li { (sentence) } } }
        }
    }
}

/// The first figure that was measured, in the typical setting.
fn headline<'g>(grid: &'g Grid<'_>) -> Option<Place<'g>> {
    let setting = figures::typical_setting(grid)?;
    let links = 0..grid.links.len();
    HEADLINES.into_iter().find_map(|metric| {
        let has = |flow: &&str| {
            links.clone().any(|link| grid.spread(setting, link, flow, metric).is_some())
        };
        let flow = grid.flows_of(metric).into_iter().find(has)?;
        Some(Place { metric, flow, setting })
    })
}

/// "arq, udp and quic each carried messages of 10 KB, 50 a second."
fn sent(grid: &Grid<'_>) -> String {
    let names: Vec<_> = grid.links.iter().map(|link| link.name.clone()).collect();
    let each = if names.len() > 1 { " each" } else { "" };
    let mut alike: Vec<(usize, String)> = Vec::new();
    for flow in grid.flows.iter().filter_map(|flow| of_flow(grid, flow)) {
        match alike.iter_mut().find(|(_, told)| *told == flow) {
            Some((count, _)) => *count += 1,
            None => alike.push((1, flow)),
        }
    }
    if alike.is_empty() {
        return format!("No run over {} counts: nothing was measured.", listed(&names));
    }
    let told = |(count, flow)| match count {
        1 => flow,
        _ => format!("{count} flows of {flow}"),
    };
    let flows: Vec<_> = alike.into_iter().map(told).collect();
    format!("{}{each} carried {}.", listed(&names), listed(&flows))
}

/// One flow over all settings: what varies is told as a range.
fn of_flow(grid: &Grid<'_>, name: &str) -> Option<String> {
    let cells = (0..grid.settings.len()).flat_map(|s| (0..grid.links.len()).map(move |l| (s, l)));
    let flows: Vec<&Flow> = cells
        .filter_map(|(setting, link)| grid.flow_results(setting, link, name).next())
        .map(|(_, result)| &result.flow)
        .collect();
    let first = flows.first()?;
    let payloads = flows.iter().map(|flow| flow.payload_bytes as f64);
    let bytes = range(payloads, |bytes| Unit::Bytes.write(bytes));
    let messages = format!("messages of {bytes}");
    let when = match first.pattern {
        Pattern::Periodic { .. } => {
            let rate = |flow: &&Flow| match flow.pattern {
                Pattern::Periodic { rate_hz, .. } => Some(rate_hz),
                _ => None,
            };
            let rates = range(flows.iter().filter_map(rate), short);
            format!("{messages}, {rates} a second")
        }
        Pattern::Flood { .. } => format!("{messages}, as fast as the link took them"),
        Pattern::Transfer { .. } => {
            format!("{messages}, a fixed number as fast as the link took them")
        }
        Pattern::PingPong { .. } => format!("{messages}, each after the answer to the one before"),
        Pattern::Opening { .. } => {
            format!("a first message of {bytes} in one new session after another")
        }
    };
    let rival = match &first.link {
        Some(link) => format!(" over {link}, as a rival"),
        None => String::new(),
    };
    Some(format!("{when}{rival}"))
}

/// "The emulated network took 0.5 ms one way and lost 0 to 10 % of the packets."
fn network(grid: &Grid<'_>) -> String {
    let mut all: Vec<&Conditions> = Vec::new();
    for (record, _) in grid.all_runs().flat_map(|(.., runs)| &runs.measured) {
        if !all.contains(&&record.network) {
            all.push(&record.network);
        }
    }
    if all.is_empty() {
        return "No network was measured.".to_owned();
    }
    if all.iter().all(|network| network.is_clean()) {
        return "There was no network between them but the loopback of one machine.".to_owned();
    }
    let radios = || all.iter().flat_map(|network| [Some(*network), network.second.as_deref()]);
    let wires = || radios().flatten().flat_map(|radio| [&radio.forward, &radio.backward]);
    let mut words =
        vec![format!("took {} ms one way", range(wires().map(|wire| wire.delay_ms), short))];
    let lost = range(wires().map(|wire| expected_share(&wire.loss) * 100.0), short);
    let bursts = |wire: &Wire| matches!(wire.loss, Loss::Gilbert { .. } | Loss::State { .. });
    let in_bursts = if wires().any(bursts) { " in bursts" } else { "" };
    words.push(format!("lost {lost} % of the packets{in_bursts}"));
    let limit =
        |wire: &Wire| wire.rate_mbps.or_else(|| wire.policer.map(|policer| policer.rate_mbps));
    let rates: Vec<f64> = wires().filter_map(limit).collect();
    if !rates.is_empty() {
        words.push(format!("carried at most {} Mb/s", range(rates.into_iter(), short)));
    }
    let mut named: Vec<_> =
        wires().filter_map(|wire| Some(&wire.recording.as_ref()?.name)).collect();
    named.sort();
    named.dedup();
    if !named.is_empty() {
        words.push(format!("delivered as the recordings {named:?}"));
    }
    if wires().any(|wire| wire.fade.is_some()) {
        words.push("faded by the clock".to_owned());
    }
    if radios().flatten().any(|radio| !radio.events.is_empty()) {
        words.push("changed on the way".to_owned());
    }
    format!("The emulated network between two hosts of one machine {}.", listed(&words))
}

/// How ours stands in the figure that is told, and how often in all settings.
fn outcome(
    grid: &Grid<'_>,
    all: &[Comparison],
    place: Option<&Place<'_>>,
    told: Option<&Comparison>,
) -> String {
    let Some(us) = our_link(grid) else {
        return "None of these links is ours: there is nothing to be better or worse than."
            .to_owned();
    };
    let ours = &grid.links[us].name;
    let Some(Place { metric, flow, setting }) = place else {
        return format!("No run counts, so nothing can be said of {ours}.");
    };
    let (here, title) = (in_setting(grid, *setting), of_what(grid, *metric, flow));
    let Some(comparison) = told else {
        return match grid.spread(*setting, us, flow, *metric) {
            None if grid.failed(*setting, us) > 0 => {
                format!("{here}{ours} could not run: its runs failed.")
            }
            None => format!("{here}no run of {ours} counts, so it is neither better nor worse."),
            Some(found) => format!(
                "{here}the {title} was {} over {ours}; no other link was measured beside it.",
                metric.counts().write(found.median())
            ),
        };
    };
    let write = |value| metric.counts().write(value);
    let (we, they) = (comparison.ours.median(), comparison.theirs.median());
    let rival = &comparison.rival;
    let figures = format!(
        "{here}the {title} was {} over {ours} and {} over {rival}, the best of the others",
        write(we),
        write(they)
    );
    format!("{figures}: {}.{}", judged(grid, comparison, ours), tally(all, comparison))
}

/// "arq was 8.2 times better".
fn judged(grid: &Grid<'_>, comparison: &Comparison, ours: &str) -> String {
    let by = match comparison.ratio() {
        ratio if ratio.is_finite() => format!("{} times ", digits(ratio)),
        _ => String::new(),
    };
    let failed = grid.failed(comparison.setting, our_link(grid).unwrap_or(0));
    let less = match comparison.rival_delivers_less {
        Some(_) => ", which delivered less",
        None => "",
    };
    match comparison.standing {
        Standing::Better => format!("{ours} was {by}better"),
        Standing::Worse => format!("{ours} was {by}worse than {}{less}", comparison.rival),
        Standing::Level if failed > 0 => {
            format!("{ours} wins nothing there, for {failed} of its runs failed")
        }
        Standing::Level => "no difference beyond noise".to_owned(),
    }
}

/// " Over all 3 settings it was better in 2, level in 1, worse in none."
fn tally(all: &[Comparison], told: &Comparison) -> String {
    let same = || all.iter().filter(|one| one.metric == told.metric && one.flow == told.flow);
    let count = |standing| match same().filter(|one| one.standing == standing).count() {
        0 => "none".to_owned(),
        some => some.to_string(),
    };
    match same().count() {
        0 | 1 => String::new(),
        settings => format!(
            " Over all {settings} settings it was better in {}, level in {}, worse in {}.",
            count(Standing::Better),
            count(Standing::Level),
            count(Standing::Worse)
        ),
    }
}

/// What the same link in the same setting costs, beside the same rival.
fn costs(grid: &Grid<'_>, place: Option<&Place<'_>>, told: Option<&Comparison>) -> String {
    let (Some(us), Some(Place { setting, flow, .. })) = (our_link(grid), place) else {
        return "What it cost was not measured.".to_owned();
    };
    let ours = &grid.links[us].name;
    let rival = told.and_then(|told| grid.links.iter().position(|link| link.name == told.rival));
    let cost = |metric: Metric| {
        let spread = |link| Some(grid.spread(*setting, link, flow, metric)?.median());
        let we = spread(us)?;
        let they = rival.and_then(spread);
        let beside = match (they, rival) {
            (Some(they), Some(rival)) => beside(we, they, &grid.links[rival].name),
            _ => String::new(),
        };
        Some(format!("{} {}{beside}", metric.counts().write(we), metric.title()))
    };
    let costs: Vec<_> = COSTS.into_iter().filter_map(cost).collect();
    match costs.is_empty() {
        true => "What it cost was not measured.".to_owned(),
        false => format!("For that {ours} took {}.", listed(&costs)),
    }
}

/// " (24 % more than udp)".
fn beside(we: f64, they: f64, rival: &str) -> String {
    if !we.is_finite() || !they.is_finite() || they <= 0.0 {
        return format!(" (nothing over {rival} to compare it with)");
    }
    let share = we / they;
    let words = match share {
        _ if (share - 1.0).abs() <= AS_MUCH => "as much as".to_owned(),
        2.0.. => format!("{} times as much as", digits(share)),
        1.0.. => format!("{:.0} % more than", (share - 1.0) * 100.0),
        _ => format!("{:.0} % less than", (1.0 - share) * 100.0),
    };
    format!(" ({words} {rival})")
}

/// "At 5 % lost, "; nothing where there is one setting only.
fn in_setting(grid: &Grid<'_>, setting: usize) -> String {
    match grid.describe(setting).as_str() {
        "" => String::new(),
        words => format!("At {words}, "),
    }
}

fn of_what(grid: &Grid<'_>, metric: Metric, flow: &str) -> String {
    match grid.flows.len() {
        0 | 1 => metric.title().to_owned(),
        _ => format!("{} of {flow}", metric.title()),
    }
}

/// The least and the greatest, once where they are one.
fn range(values: impl Iterator<Item = f64>, write: impl Fn(f64) -> String) -> String {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        (least, most) = (least.min(value), most.max(value));
    }
    match least == most {
        true => write(least),
        false => format!("{} to {}", write(least), write(most)),
    }
}

/// "a, b and c".
fn listed(words: &[String]) -> String {
    match words {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

/// As a scenario has it: no zeros behind the point.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
