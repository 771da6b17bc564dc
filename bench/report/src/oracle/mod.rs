// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What could the best possible retransmitting link have done on this network?
//!
//! The *ideal selective repeat* sends a message at once, learns of a lost packet one round trip after sending it, and
//! sends it again in that very moment; only data are ever lost, acknowledgements never; nothing else is in its way.
//! [`closed_form()`] is its latency on a network as it was set, [`genie()`] through the losses that a run really had, and
//! [`capacity_mbps`] what any scheme, redundancy included, can get through a channel that erases packets. Where the radio
//! fades by the clock, [`through_fades`] is when a message could arrive at all.
//!
//! Each leaves out whatever would only make the ideal later (a queue, the transmission time of repeats, lost
//! acknowledgements, the messages before), so that it stays a bound. A link with redundancy may be better than the
//! ideal selective repeat: that is what redundancy is for.

mod capacity;
mod closed_form;
mod fading;
mod genie;

use impairments::Fades;
use netlab::wire::{Change, Conditions, Wire};

use crate::record::{nearest_rank, Ideal, Percentiles};
use crate::scenario::flow::{Flow, Pattern};

pub use capacity::capacity_mbps;
pub use closed_form::{closed_form, closed_form_steps};
pub use fading::through_fades;
pub use genie::{genie, Passage};

/// IP packets of an Ethernet.
const PACKET_BYTES: f64 = 1_500.0;
/// What the bound allows a packet to carry beside the message: the headers of IPv4 and UDP, and 20 bytes to number and
/// to check it. TCP without options carries 8 bytes more and zenoh's framing takes them back; each of the compared
/// links carries less.
const HEADER_BYTES: f64 = 48.0;

/// The bounds beside a flow: of what can be bounded on this network, `None` for the rest.
///
/// `log` holds what entered the forward direction of the run, ascending in time, with times since the network's clock
/// began, and `fades` those of that direction; `first_departure_ns` is when the flow's first message was meant to leave,
/// on that clock.
pub fn ideal(
    flow: &Flow,
    network: &Conditions,
    log: &[Passage],
    fades: Option<&Fades>,
    first_departure_ns: u64,
) -> Ideal {
    if !is_one_plain_radio(network) {
        let this_run =
            fades.and_then(|fades| through_fades(flow, network, fades, first_departure_ns));
        return Ideal { this_run, ..Ideal::default() };
    }
    Ideal {
        closed_form: closed_form(flow, network),
        this_run: genie(flow, network, log, first_departure_ns),
        capacity_mbps: capacity_mbps(network),
    }
}

/// Of ascending latencies.
fn percentiles(latencies_ms: &[f64]) -> Percentiles {
    let rank = |percent| nearest_rank(latencies_ms, latencies_ms.len(), percent);
    Percentiles {
        mean_of_delivered: Some(latencies_ms.iter().sum::<f64>() / latencies_ms.len() as f64),
        p50: rank(50.0),
        p90: rank(90.0),
        p99: rank(99.0),
        p99_9: rank(99.9),
        max: rank(100.0),
    }
}

/// How many packets a message takes at least.
fn packets(payload_bytes: usize, wire: &Wire) -> usize {
    let packet = wire.mtu_bytes.map_or(PACKET_BYTES, |mtu| f64::from(mtu).min(PACKET_BYTES));
    let payload = (packet - HEADER_BYTES).max(1.0);
    ((payload_bytes as f64 / payload).ceil() as usize).max(1)
}

/// How long a bottleneck takes to send one of the `packets` of a message, milliseconds: their even share of all bytes.
fn packet_time_ms(payload_bytes: usize, packets: usize, wire: &Wire) -> f64 {
    let bytes = payload_bytes as f64 / packets as f64 + HEADER_BYTES;
    wire.rate_mbps.map_or(0.0, |rate| bytes * 8.0 / (rate * 1e3))
}

/// Whether a bound is known: fades hit by the clock, recordings by theirs, and who has two radios may choose.
fn is_one_plain_radio(network: &Conditions) -> bool {
    let is_plain = |wire: &Wire| wire.fade.is_none() && wire.recording.is_none();
    network.second.is_none() && is_plain(&network.forward) && is_plain(&network.backward)
}

/// Whether what was set for loss, delay and rate holds throughout, blackouts apart.
fn is_steady(network: &Conditions) -> bool {
    is_one_plain_radio(network)
        && network.events.iter().all(|event| match event.change {
            Change::Blackout => true,
            Change::LossPercent(_) | Change::DelayMs(_) | Change::RateMbps(_) => false,
        })
}

/// The rate and number of a flow whose latency counts from a timetable; of the others there is none to bound.
fn timetable(flow: &Flow) -> Option<(f64, u64)> {
    match flow.pattern {
        Pattern::Periodic { rate_hz, messages } => Some((rate_hz, messages)),
        Pattern::Flood { .. }
        | Pattern::Transfer { .. }
        | Pattern::PingPong { .. }
        | Pattern::Opening { .. } => None,
    }
}

#[cfg(test)]
mod tests;
