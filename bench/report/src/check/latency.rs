// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Are messages as early as targeted (T1, T2, T3, T7, T8)?

use super::evidence::{delay_ms, drop_percent, of_cell, of_first_flow, of_flow, Evidence, Ground};
use super::{Tally, ARQ, ARQ_NO_FEC, DEFAULTS, STOCK};
use crate::scenario::flow::Priority;
use crate::scenario::Setting;
use crate::summary::{setting_in_words, Figure, FlowSummary, Summary};

pub(super) const DROP_RATE: &str = "drop-rate";
/// A cell of it, with so many messages that chance has little to say about p99.
const ONE_ROUND_TRIP: &str = "one-round-trip";
const PAYLOADS: [usize; 2] = [10_000, 100_000];
const DELAYS_MS: [f64; 2] = [0.5, 10.0];
/// What threads may wait for the processor, milliseconds.
const SCHEDULING_MS: f64 = 1.0;

/// Every payload and delay of the drop-rate experiment at these shares of loss.
pub(super) fn grounds(drops_percent: &'static [f64]) -> impl Iterator<Item = Ground> {
    let payloads = PAYLOADS.into_iter();
    payloads.flat_map(|payload_bytes| DELAYS_MS.map(|delay| (payload_bytes, delay))).flat_map(
        |(payload_bytes, delay_ms)| {
            drops_percent.iter().map(move |drop| Ground {
                drop_percent: *drop,
                delay_ms,
                payload_bytes,
            })
        },
    )
}

/// T1
pub(super) fn near_the_ideal(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    for ground in grounds(&[5.0, 10.0, 15.0, 25.0]) {
        let Some(cell) = evidence.ours_on(&mut tally, DROP_RATE, ARQ_NO_FEC, &ground) else {
            continue;
        };
        let ideal = cell.flows.first().and_then(|flow| flow.ideal.closed_form);
        let Some(ideal) = ideal else {
            tally.is_missing(format!("{}: the ideal", ground.words()));
            continue;
        };
        for (figure, ideal, factor) in
            [(Figure::P50, ideal.p50, 1.15), (Figure::P99, ideal.p99, 1.3)]
        {
            let what = format!("{} {}", ground.words(), figure.name());
            match of_first_flow(cell, figure).zip(ideal) {
                Some((found, ideal)) => tally.at_most(&what, found, factor * ideal + SCHEDULING_MS),
                None => tally.is_missing(what),
            }
        }
    }
    tally
}

/// T2
pub(super) fn within_a_round_trip(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    let ground = Ground { drop_percent: 10.0, delay_ms: 10.0, payload_bytes: 10_000 };
    if let Some(cell) = evidence.ours_on(&mut tally, ONE_ROUND_TRIP, ARQ, &ground) {
        let bounds = [
            (Figure::P99, of_first_flow(cell, Figure::P99), 2.0 * ground.delay_ms),
            (Figure::WireBytes, of_cell(cell, Figure::WireBytes), 1.5),
        ];
        for (figure, found, allowed) in bounds {
            match found {
                Some(found) => tally.at_most(figure.name(), found, allowed),
                None => tally.is_missing(format!("{}, {}", ground.words(), figure.name())),
            }
        }
    }
    tally
}

/// T3
pub(super) fn ahead_of_the_stock_links(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    for ground in grounds(&[0.0, 5.0, 10.0, 15.0, 25.0]) {
        let Some(ours) = evidence.ours_on(&mut tally, DROP_RATE, ARQ, &ground) else { continue };
        // The best of those that happen to be there would be no best.
        let rivals = STOCK.map(|link| evidence.rival_on(&mut tally, DROP_RATE, link, &ground));
        let Some(rivals) = rivals.into_iter().collect::<Option<Vec<_>>>() else { continue };
        for figure in [Figure::P50, Figure::P99] {
            not_later_than_the_best(&mut tally, &rivals, ours, &ground, figure);
        }
        if [10.0, 25.0].contains(&ground.drop_percent) {
            far_ahead(&mut tally, &rivals, ours, &ground);
        }
    }
    tally
}

fn not_later_than_the_best(
    tally: &mut Tally,
    rivals: &[&Summary],
    ours: &Summary,
    ground: &Ground,
    figure: Figure,
) {
    let what = format!("{} {} beside the best", ground.words(), figure.name());
    match of_first_flow(ours, figure).zip(earliest(rivals, &STOCK, figure)) {
        Some((found, best)) => tally.at_most(&what, found, 1.05 * best),
        None => tally.is_missing(what),
    }
}

fn far_ahead(tally: &mut Tally, rivals: &[&Summary], ours: &Summary, ground: &Ground) {
    let demands: [(&str, &[&str], f64); 2] =
        [("each stock default", &DEFAULTS, 10.0), ("the best stock link", &STOCK, 3.0)];
    for (whom, links, factor) in demands {
        let what = format!("{} p99, {factor} x below {whom}", ground.words());
        let p99 = of_first_flow(ours, Figure::P99);
        match p99.zip(earliest(rivals, links, Figure::P99)) {
            Some((found, theirs)) => tally.at_most(&what, found, theirs / factor),
            None => tally.is_missing(what),
        }
    }
}

/// The figure of that one of these links which is the earliest.
fn earliest(rivals: &[&Summary], links: &[&str], figure: Figure) -> Option<f64> {
    let cells = rivals.iter().filter(|cell| links.contains(&cell.cell.link.as_str()));
    cells.filter_map(|cell| of_first_flow(cell, figure)).reduce(f64::min)
}

/// T7
pub(super) fn urgent_first(evidence: &Evidence<'_>) -> Tally {
    const SCENARIO: &str = "mixed-priority";
    let mut tally = Tally::default();
    let beacon = |cell: &Summary| -> Option<f64> {
        of_flow(cell.flows.iter().find(is_beacon)?, Figure::P99)
    };
    let at_ten_percent = |cell: &Summary| drop_percent(&cell.network) == Some(10.0);
    let alone = evidence.ours(&mut tally, SCENARIO, ARQ, "the beacon alone at 10 %", |cell| {
        at_ten_percent(cell) && cell.flows.len() == 1
    });
    let beside =
        evidence.ours(&mut tally, SCENARIO, ARQ, "the beacon beside 100 KB at 10 %", |cell| {
            at_ten_percent(cell) && cell.flows.iter().any(is_bulk)
        });
    if let Some((alone, beside)) = alone.zip(beside) {
        match beacon(alone).zip(beacon(beside)) {
            // Nothing is said by a beacon that is lost even alone.
            Some((alone, _)) if alone.is_infinite() => {
                tally.is_missed("p99 of the beacon alone: lost");
            }
            Some((alone, beside)) => tally.at_most("p99 of the beacon", beside, 1.2 * alone),
            None => tally.is_missing("mixed-priority: a flow of 300 bytes at RealTime"),
        }
    }
    tally
}

fn is_beacon(flow: &&FlowSummary) -> bool {
    flow.flow.payload_bytes == 300 && flow.flow.priority == Priority::RealTime
}

fn is_bulk(flow: &FlowSummary) -> bool {
    flow.flow.payload_bytes == 100_000 && flow.flow.priority == Priority::Data
}

/// T8
pub(super) fn quick_to_answer(evidence: &Evidence<'_>) -> Tally {
    const SCENARIO: &str = "ping-pong";
    let mut tally = Tally::default();
    let Some(scenario) = tally.scenario(SCENARIO) else { return tally };
    let is_asked =
        |setting: &Setting| setting.cell.link == ARQ && drop_percent(&setting.network) == Some(0.0);
    for Setting { cell, network, .. } in scenario.cells().into_iter().filter(is_asked) {
        let delay_ms = delay_ms(&network).unwrap_or(0.0);
        let what = format!("{} ({delay_ms} ms)", setting_in_words(&cell.setting));
        let same = |other: &Summary| other.cell.setting == cell.setting;
        let ours = evidence.ours(&mut tally, SCENARIO, ARQ, &what, same);
        let theirs = evidence.rival(&mut tally, SCENARIO, "udp", &what, same);
        let p50 = |cell: &Summary| of_first_flow(cell, Figure::P50);
        if let Some((ours, theirs)) = ours.and_then(p50).zip(theirs.and_then(p50)) {
            tally.at_most(&format!("p50 of {what}"), ours, 1.1 * theirs);
        }
    }
    tally
}
