// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How much payload can any scheme get through a channel that erases packets?
//!
//! Rate x (1 - loss) x payload / packet: the capacity of the erasure channel, which neither feedback nor coding
//! exceeds.

use netlab::wire::{Conditions, Loss, Wire};

use super::{is_steady, HEADER_BYTES, PACKET_BYTES};

/// Capacity of the forward direction in Mb/s of payload; `None` without a bottleneck, where events change rate or
/// loss, and for netem's correlated loss, whose long-run share is not the one it is asked for.
pub fn capacity_mbps(network: &Conditions) -> Option<f64> {
    let wire = &network.forward;
    let rate = wire.rate_mbps.filter(|_| is_steady(network))?;
    Some(rate * (1.0 - share_lost(wire.loss)?) * best_packet(wire))
}

fn share_lost(loss: Loss) -> Option<f64> {
    match loss {
        Loss::None => Some(0.0),
        Loss::Random { percent } | Loss::Gilbert { percent, .. } => Some(percent / 100.0),
        Loss::State { enter_percent, leave_percent } if enter_percent > 0.0 => {
            Some(enter_percent / (enter_percent + leave_percent))
        }
        Loss::State { .. } => Some(0.0),
        Loss::Correlated { .. } => None,
    }
}

/// The share of the rate that is payload without a bit error, with packets of the best length: long ones waste less on
/// headers, short ones are hit less often.
fn best_packet(wire: &Wire) -> f64 {
    let longest = wire.mtu_bytes.map_or(PACKET_BYTES, |mtu| f64::from(mtu).min(PACKET_BYTES));
    let intact_share = |bytes: f64| (1.0 - wire.bit_error_rate).powf(8.0 * bytes);
    let yield_of = |bytes: f64| intact_share(bytes) * (bytes - HEADER_BYTES) / bytes;
    (HEADER_BYTES as u32..=longest as u32).map(f64::from).map(yield_of).fold(0.0, f64::max)
}
