// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Is as much carried, at as little cost, as targeted (T4, T5, T6)?

use super::evidence::{delay_ms, drop_percent, of_cell, of_first_flow, Evidence};
use super::{Tally, ARQ};
use crate::scenario::flow::Pattern;
use crate::summary::{Figure, Summary};

/// T4
pub(super) fn near_the_capacity(evidence: &Evidence<'_>) -> Tally {
    const RATE_MBPS: f64 = 100.0;
    let mut tally = Tally::default();
    for percent in [0.0, 1.0, 5.0, 10.0, 25.0] {
        let what = format!("100 Mb/s, 20 ms round trip, {percent} %");
        let cell = evidence.ours(&mut tally, "goodput", ARQ, &what, |cell| {
            let network = &cell.network;
            network.forward.rate_mbps == Some(RATE_MBPS)
                && delay_ms(network) == Some(10.0)
                && drop_percent(network) == Some(percent)
        });
        let Some(cell) = cell else { continue };
        match of_first_flow(cell, Figure::Goodput) {
            Some(found) => tally.at_least(&what, found, 0.9 * RATE_MBPS * (1.0 - percent / 100.0)),
            None => tally.is_missing(format!("goodput, {what}: no flood")),
        }
    }
    tally
}

/// T5, first stage
pub(super) fn fast_on_loopback(evidence: &Evidence<'_>) -> Tally {
    beside(
        evidence,
        &[("quic", 3.0), ("udp-rel", 3.0), ("tcp-cubic", 0.7)],
        |cell| of_first_flow(cell, Figure::Goodput),
        Tally::at_least,
    )
}

/// T5, second stage
pub(super) fn as_fast_as_tcp(evidence: &Evidence<'_>) -> Tally {
    let goodput = |cell: &Summary| of_first_flow(cell, Figure::Goodput);
    beside(evidence, &[("tcp-cubic", 1.0)], goodput, Tally::at_least)
}

/// T6: of the loopback's floods of 1 MB messages; says nothing of small messages, nor of what repair costs.
pub(super) fn thrifty(evidence: &Evidence<'_>) -> Tally {
    let cpu = |cell: &Summary| of_cell(cell, Figure::CpuPerGb);
    beside(evidence, &[("tcp-cubic", 1.5), ("quic", 0.5)], cpu, Tally::at_most)
}

/// Holds a figure of the loopback scenario against so many times that of each rival.
fn beside(
    evidence: &Evidence<'_>,
    rivals: &[(&str, f64)],
    figure: impl Fn(&Summary) -> Option<f64>,
    hold: fn(&mut Tally, &str, f64, f64),
) -> Tally {
    const SCENARIO: &str = "loopback";
    let mut tally = Tally::default();
    let is_it = |cell: &Summary| {
        let flow = cell.flows.first().map(|flow| &flow.flow);
        drop_percent(&cell.network) == Some(0.0)
            && flow.is_none_or(|flow| {
                flow.payload_bytes == 1_000_000 && matches!(flow.pattern, Pattern::Flood { .. })
            })
    };
    let what = "1 MB messages";
    let Some(ours) = evidence.ours(&mut tally, SCENARIO, ARQ, what, is_it) else { return tally };
    for (link, factor) in rivals {
        let Some(theirs) = evidence.rival(&mut tally, SCENARIO, link, what, is_it) else {
            continue;
        };
        match figure(ours).zip(figure(theirs)) {
            Some((ours, theirs)) => {
                hold(&mut tally, &format!("{factor} x {link}"), ours, factor * theirs);
            }
            None => tally.is_missing(format!("{SCENARIO}, {link}: the figure")),
        }
    }
    tally
}
