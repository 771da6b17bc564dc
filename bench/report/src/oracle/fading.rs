// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! When could messages have arrived at the earliest over a radio that faded as it did in a run?
//!
//! A link that knew the fades would send at once, or, in a fade, at its end. No link over one radio is earlier. It is
//! the oracle of the simulator ([`Path`]) with the fades that the emulator had.

use std::time::Duration;

use impairments::{DelayTrace, Fades, Path};
use netlab::wire::{Conditions, Wire};

use super::{percentiles, timetable, HEADER_BYTES, PACKET_BYTES};
use crate::record::Percentiles;
use crate::scenario::flow::Flow;

/// Latency percentiles of the earliest arrivals of a periodic flow, over all its messages; `None` for other flows, and
/// where more than fades decides when a packet arrives.
///
/// `fades` are those of the forward direction; `first_departure_ns` is when the first message was meant to leave, on
/// their clock.
pub fn through_fades(
    flow: &Flow,
    network: &Conditions,
    fades: &Fades,
    first_departure_ns: u64,
) -> Option<Percentiles> {
    let (rate_hz, messages) = timetable(flow)?;
    if messages == 0 || network.second.is_some() || !network.events.is_empty() {
        return None;
    }
    let mut path = path(&network.forward, fades.clone())?;
    let bytes = u32::try_from(flow.payload_bytes).ok()?;
    let mut latency_ms = |message: u64| {
        let after_ns = (message as f64 * 1e9 / rate_hz) as u64;
        let sent = Duration::from_nanos(first_departure_ns.saturating_add(after_ns));
        (path.earliest_arrival(sent, bytes).saturating_sub(sent)).as_secs_f64() * 1e3
    };
    let mut latencies_ms: Vec<f64> = (0..messages).map(&mut latency_ms).collect();
    latencies_ms.sort_by(f64::total_cmp);
    Some(percentiles(&latencies_ms))
}

/// The forward direction with its fades, as far as its delay is always the same: the emulator asks for fades where a
/// packet enters the queue of a rate and the oracle where it leaves it, so it has no rate either.
fn path(wire: &Wire, fades: Fades) -> Option<Path> {
    let is_steady = wire.fade.is_some()
        && wire.rate_mbps.is_none()
        && wire.recording.is_none()
        && wire.policer.is_none()
        && wire.jitter_ms == 0.0
        && wire.reorder_percent == 0.0;
    is_steady.then(|| Path {
        rate: None,
        fades: Some(fades),
        delay: DelayTrace::constant(Duration::from_secs_f64(wire.delay_ms.max(0.0) / 1e3)),
        payload_bytes: (PACKET_BYTES - HEADER_BYTES) as u32,
        header_bytes: HEADER_BYTES as u32,
    })
}
