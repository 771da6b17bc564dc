// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does chance explain? Loss rates and their standard errors.
//!
//! Packets are counted as `f64`, because most counts decay.

use std::ops::RangeInclusive;

/// `lost` as a share of `sent`.
pub(crate) fn share(lost: f64, sent: f64) -> f64 {
    lost / sent.max(1.0)
}

/// The variance of a share that was measured over `packets`.
pub(crate) fn variance(share: f64, packets: f64) -> f64 {
    share * (1.0 - share) / packets.max(1.0)
}

/// The standard error of a share that was measured over `packets`.
pub(crate) fn standard_error(share: f64, packets: f64) -> f64 {
    variance(share, packets).sqrt()
}

/// The least number of losses in a row, within `bounds`, whose probability at a loss rate of `loss` is at most `doubt`.
pub(crate) fn losses_beyond_chance(loss: f64, doubt: f64, bounds: RangeInclusive<u32>) -> u32 {
    let count = (doubt.ln() / loss.clamp(1e-9, 0.999).ln()).ceil();
    // The clamp bounds the cast.
    count.clamp((*bounds.start()).into(), (*bounds.end()).into()) as u32
}
