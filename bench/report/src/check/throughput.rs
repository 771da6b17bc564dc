// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Is as much carried, at as little cost, as targeted (T4, T5, T6, W1, W2, E1)?

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

/// The floods of 1 MB messages of a scenario without loss.
const LOOPBACK: Floods =
    Floods { scenario: "loopback", link: ARQ, payload_bytes: 1_000_000, drop_percent: 0.0 };
const FAST_WIRE: Floods = Floods { scenario: "fast-wire", ..LOOPBACK };

/// T5, first stage
pub(super) fn fast_on_loopback(evidence: &Evidence<'_>) -> Tally {
    let rivals = [("quic", 3.0), ("udp-rel", 3.0), ("tcp-cubic", 0.7)];
    let mut tally = Tally::default();
    LOOPBACK.beside(evidence, &mut tally, &rivals, goodput, Tally::at_least);
    tally
}

/// T5, second stage
pub(super) fn as_fast_as_tcp(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    LOOPBACK.beside(evidence, &mut tally, &[("tcp-cubic", 1.0)], goodput, Tally::at_least);
    tally
}

/// T6: of the loopback's floods of 1 MB messages; says nothing of small messages, nor of what repair costs.
pub(super) fn thrifty(evidence: &Evidence<'_>) -> Tally {
    let rivals = [("tcp-cubic", 1.5), ("quic", 0.5)];
    let mut tally = Tally::default();
    LOOPBACK.beside(evidence, &mut tally, &rivals, cpu, Tally::at_most);
    tally
}

/// W1
pub(super) fn fast_on_a_wire(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    let faster = [("quic", 1.3), ("tcp-cubic", 0.8)];
    FAST_WIRE.beside(evidence, &mut tally, &faster, goodput, Tally::at_least);
    FAST_WIRE.beside(evidence, &mut tally, &[("tcp-cubic", 1.3)], machine_cpu, Tally::at_most);
    tally
}

/// W2
pub(super) fn thrifty_on_a_wire(evidence: &Evidence<'_>) -> Tally {
    let mut tally = Tally::default();
    for drop_percent in [0.0, 10.0] {
        let floods =
            Floods { scenario: "goodput", link: ARQ, payload_bytes: 100_000, drop_percent };
        let rivals = [("tcp-bbr", 1.2), ("quic", 0.5)];
        floods.beside(evidence, &mut tally, &rivals, machine_cpu, Tally::at_most);
    }
    tally
}

/// Of E1
pub(super) fn sealed_on_loopback(evidence: &Evidence<'_>, tally: &mut Tally, link: &'static str) {
    let floods = Floods { link, ..LOOPBACK };
    floods.beside(evidence, tally, &[(ARQ, 0.7), ("quic", 2.0)], goodput, Tally::at_least);
    floods.beside(evidence, tally, &[(ARQ, 1.4)], cpu, Tally::at_most);
}

fn goodput(cell: &Summary) -> Option<f64> {
    of_first_flow(cell, Figure::Goodput)
}

fn cpu(cell: &Summary) -> Option<f64> {
    of_cell(cell, Figure::CpuPerGb)
}

/// Much of TCP runs in the kernel, outside of both processes.
fn machine_cpu(cell: &Summary) -> Option<f64> {
    of_cell(cell, Figure::MachineCpuPerGb)
}

/// A cell of a scenario of floods.
struct Floods {
    scenario: &'static str,
    /// Which of ours.
    link: &'static str,
    payload_bytes: usize,
    drop_percent: f64,
}

impl Floods {
    fn is_of(&self, cell: &Summary) -> bool {
        let flow = cell.flows.first().map(|flow| &flow.flow);
        drop_percent(&cell.network) == Some(self.drop_percent)
            && flow.is_none_or(|flow| {
                flow.payload_bytes == self.payload_bytes
                    && matches!(flow.pattern, Pattern::Flood { .. })
            })
    }

    /// Holds a figure of ours against so many times that of each rival.
    fn beside(
        &self,
        evidence: &Evidence<'_>,
        tally: &mut Tally,
        rivals: &[(&str, f64)],
        figure: impl Fn(&Summary) -> Option<f64>,
        hold: fn(&mut Tally, &str, f64, f64),
    ) {
        let Self { scenario, link: ours, payload_bytes, drop_percent } = self;
        let of = if *ours == ARQ { String::new() } else { format!("{ours}, ") };
        let what = format!("{of}{payload_bytes} bytes, {drop_percent} %");
        let is_it = |cell: &Summary| self.is_of(cell);
        let Some(ours) = evidence.ours(tally, scenario, ours, &what, is_it) else { return };
        for (link, factor) in rivals {
            let Some(theirs) = evidence.rival(tally, scenario, link, &what, is_it) else {
                continue;
            };
            match figure(ours).zip(figure(theirs)) {
                Some((ours, theirs)) => {
                    let name = format!("{what}, {factor} x {link}");
                    hold(tally, &name, ours, factor * theirs);
                }
                None => tally.is_missing(format!("{scenario}, {link}: the figure")),
            }
        }
    }
}
