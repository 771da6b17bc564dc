// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How much can the emulator itself carry before it drops anything that it was not asked to drop?

use std::time::Duration;

use super::probe::{Load, Pace, Probe};
use super::row::Row;
use crate::emulator::{EmulatorError, Network};
use crate::wire::{Conditions, Wire};

/// What a scenario may count on.
const PROMISED_MBPS: f64 = 300.0;

/// As a link with segmentation offload sends, which is also what lets one thread offer so much.
const BURST: u16 = 16;

/// Offered rates rise until something is dropped or the sender cannot offer more.
pub(super) fn rows(network: &mut Network, seed: u64) -> Result<Vec<Row>, EmulatorError> {
    let long = climb(network, seed, 1_400, &[100, 200, 310, 400, 500, 700, 900, 1_200])?;
    let short = climb(network, seed, 100, &[10, 20, 40, 60, 80, 120, 160, 240])?;
    let name = |what: &str, limit: &Limit| format!("carried without a drop, {what} ({})", limit.by);
    let mut packets =
        Row::at_least(name("100-byte packets", &short), "packets/s", 0.0, short.packets_per_s);
    packets.asked = "as many as it can".into();
    Ok(vec![
        Row::at_least(name("1,400-byte packets", &long), "Mb/s", PROMISED_MBPS, long.mbps),
        packets,
    ])
}

/// What was reached, and what kept it from more.
struct Limit {
    mbps: f64,
    packets_per_s: f64,
    by: &'static str,
}

fn climb(
    network: &mut Network,
    seed: u64,
    len_bytes: u16,
    steps_mbps: &[u32],
) -> Result<Limit, EmulatorError> {
    let mut best = Limit { mbps: 0.0, packets_per_s: 0.0, by: "limited by the first step" };
    for step in steps_mbps {
        let gap = Duration::from_secs_f64(f64::from(len_bytes) * 8.0 / f64::from(*step) / 1e6);
        let (entered_per_s, is_clean) = offer(network, seed, len_bytes, gap)?;
        if !is_clean {
            best.by = "limited by the emulator";
            return Ok(best);
        }
        let mbps = entered_per_s * f64::from(len_bytes) * 8.0 / 1e6;
        if mbps > best.mbps {
            best = Limit { mbps, packets_per_s: entered_per_s, by: best.by };
        }
        best.by = "limited by the last step";
        if mbps < f64::from(*step) * 0.95 {
            best.by = "limited by the sender";
            return Ok(best);
        }
    }
    Ok(best)
}

/// One second of packets, through a delay as in real use; how many came per second, and whether all left again.
fn offer(
    network: &mut Network,
    seed: u64,
    len_bytes: u16,
    gap: Duration,
) -> Result<(f64, bool), EmulatorError> {
    let forward = Wire { delay_ms: 5.0, ..Wire::default() };
    network.begin(&Conditions { forward, ..Conditions::default() }, seed)?;
    let load = Load {
        packets: (1.0 / gap.as_secs_f64()) as u32,
        len_bytes,
        pace: Pace::Every(gap),
        burst: BURST,
        patience: Duration::from_millis(100),
    };
    Probe::new(network, 0, 1)?.run(load)?;
    let (count, log) = (network.counts(0, 1)?, network.packet_log()?);
    let span_ns = match (log.packets.first(), log.packets.last()) {
        (Some(first), Some(last)) => (last.entered_ns - first.entered_ns) as f64,
        _ => f64::INFINITY,
    };
    let is_clean = count.emulator_overrun == 0
        // More where something else still speaks, a connection of the test before.
        && count.entered_packets >= u64::from(load.packets)
        && count.left_packets == count.entered_packets;
    Ok((count.entered_packets as f64 / span_ns * 1e9, is_clean))
}
