// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does chance explain? Shares of packets that are lost, and how uncertain they are.
//!
//! Packets are counted as `f64`: most counts fade.

use std::ops::RangeInclusive;

/// The share of `sent` that `lost` is.
pub(crate) fn share(lost: f64, sent: f64) -> f64 {
    lost / sent.max(1.0)
}

/// The variance of a share of so many packets.
pub(crate) fn variance(share: f64, packets: f64) -> f64 {
    share * (1.0 - share) / packets.max(1.0)
}

/// The standard error of a share of so many packets.
pub(crate) fn standard_error(share: f64, packets: f64) -> f64 {
    variance(share, packets).sqrt()
}

/// The least number of losses in a row that chance does not explain, within `bounds`: with a share `loss` lost, so many
/// happen with a probability of at most `doubt`.
pub(crate) fn losses_beyond_chance(loss: f64, doubt: f64, bounds: RangeInclusive<u32>) -> u32 {
    let count = (doubt.ln() / loss.clamp(1e-9, 0.999).ln()).ceil();
    // The clamp bounds the cast.
    count.clamp((*bounds.start()).into(), (*bounds.end()).into()) as u32
}
