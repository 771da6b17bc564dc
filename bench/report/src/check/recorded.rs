// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Is a link in time on radios that were recorded, or are slow (R1, R2, R4), and small messages cheap (B1)?

use super::evidence::{drop_percent, of_cell, of_first_flow, of_flow, Evidence};
use super::{Tally, ARQ};
use crate::summary::{Figure, Summary};

const RECORDED: &str = "recorded";
const THIN: &str = "thin-radio";
const COMMANDS: &str = "commands";
/// The stock links that keep what is reliable.
const RELIABLE: [&str; 3] = ["tcp-cubic", "tcp-bbr", "quic"];

/// What a cell of [`RECORDED`] has beside its first flow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    Video,
    Bulk,
}

impl Beside {
    fn of(cell: &Summary) -> Self {
        match cell.flows.get(1).map(|flow| flow.flow.name.as_str()) {
            Some("video") => Self::Video,
            Some(_) => Self::Bulk,
            None => Self::Nothing,
        }
    }
}

/// A setting of [`RECORDED`]: ours, and the stock links where the targets name them.
struct Radio<'a> {
    what: String,
    ours: &'a Summary,
    rivals: Vec<&'a Summary>,
}

/// All settings in the order of the scenario: of each radio the beacon alone comes right before the one beside bulk.
fn radios<'a>(evidence: &'a Evidence<'_>, tally: &mut Tally) -> Vec<Radio<'a>> {
    let mut radios = Vec::new();
    for (what, ours) in evidence.all_ours(tally, RECORDED) {
        let is_it = |cell: &Summary| cell.cell.setting == ours.cell.setting;
        let rivals = match Beside::of(ours) {
            Beside::Nothing => Vec::new(),
            Beside::Video | Beside::Bulk => RELIABLE
                .into_iter()
                .filter_map(|link| evidence.rival(tally, RECORDED, link, &what, is_it))
                .collect(),
        };
        radios.push(Radio { what, ours, rivals });
    }
    radios
}

/// R1
pub(super) fn commands_in_time(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    let (mut ours_in_all, mut best_in_all) = (0.0, 0.0);
    let radios = radios(evidence, &mut tally);
    for Radio { what, ours, rivals } in
        radios.iter().filter(|radio| Beside::of(radio.ours) == Beside::Video)
    {
        for figure in [Figure::P50, Figure::P99] {
            let best =
                rivals.iter().filter_map(|cell| of_first_flow(cell, figure)).reduce(f64::min);
            let Some((found, best)) = of_first_flow(ours, figure).zip(best) else {
                tally.is_missing(format!("{what}: {}", figure.name()));
                continue;
            };
            tally.at_most(
                &format!("{what}, {} beside the best", figure.name()),
                found,
                1.05 * best,
            );
            (ours_in_all, best_in_all) = (ours_in_all + found, best_in_all + best);
        }
        match of_cell(ours, Figure::WireBytes) {
            Some(found) => tally.at_most(&format!("{what}, bytes per byte"), found, 1.15),
            None => tally.is_missing(format!("{what}: bytes")),
        }
    }
    if best_in_all > 0.0 {
        tally.at_most("the sum of all", ours_in_all, 0.8 * best_in_all);
    }
    tally
}

/// R2
pub(super) fn beacons_in_time(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    let radios = radios(evidence, &mut tally);
    for [alone, beside] in
        radios.windows(2).filter_map(|pair| <&[Radio<'_>; 2]>::try_from(pair).ok())
    {
        let kinds = [alone, beside].map(|radio| Beside::of(radio.ours));
        if kinds != [Beside::Nothing, Beside::Bulk] {
            continue;
        }
        let p99s = [alone, beside].map(|radio| of_first_flow(radio.ours, Figure::P99));
        match p99s {
            [Some(alone), Some(found)] => {
                tally.at_most(
                    &format!("{}, p99 beside the beacon alone", beside.what),
                    found,
                    1.5 * alone,
                );
            }
            _ => tally.is_missing(format!("{}: p99", beside.what)),
        }
        let goodput = |cell: &Summary| of_flow(cell.flows.get(1)?, Figure::Goodput);
        let best = beside.rivals.iter().filter_map(|cell| goodput(cell)).reduce(f64::max);
        match goodput(beside.ours).zip(best) {
            Some((found, best)) => {
                tally.at_least(
                    &format!("{}, Mb/s beside the best", beside.what),
                    found,
                    0.9 * best,
                );
            }
            None => tally.is_missing(format!("{}: goodput", beside.what)),
        }
    }
    tally
}

/// R4
pub(super) fn urgent_on_a_thin_radio(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    let what = "an urgent message beside large ones";
    if let Some(cell) = evidence.ours(&mut tally, THIN, ARQ, what, |_| true) {
        match of_first_flow(cell, Figure::P99) {
            Some(found) => tally.at_most("p99, ms", found, 15.0),
            None => tally.is_missing("thin-radio: p99"),
        }
    }
    tally
}

/// B1
pub(super) fn small_messages_are_cheap(evidence: &Evidence<'_>) -> Tally {
    /// What commands took at the 99th percentile when the target was set, ms, and 5 %.
    const P99_MS: f64 = 70.0 * 1.05;
    let mut tally = Tally::default();
    for (percent, most) in [(0.0, 1.7), (10.0, 2.5)] {
        let what = format!("commands at {percent} %");
        let is_it = |cell: &Summary| drop_percent(&cell.network) == Some(percent);
        let Some(cell) = evidence.ours(&mut tally, COMMANDS, ARQ, &what, is_it) else { continue };
        match of_cell(cell, Figure::WireBytes) {
            Some(found) => tally.at_most(&format!("{what}, bytes per byte"), found, most),
            None => tally.is_missing(format!("{what}: bytes")),
        }
        match of_first_flow(cell, Figure::P99) {
            Some(found) => tally.at_most(&format!("{what}, p99, ms"), found, P99_MS),
            None => tally.is_missing(format!("{what}: p99")),
        }
    }
    tally
}
