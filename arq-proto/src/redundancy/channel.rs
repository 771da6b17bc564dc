// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How many packets of a block does the path lose?
//!
//! The probabilities are those of a Gilbert channel with the measured loss and burst length, computed exactly, one packet at a
//! time.

use crate::units::Probability;

/// The loss of the path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Channel {
    /// Loss rate, an upper estimate: for repairs, which too low an estimate would cost a round trip.
    pub(crate) upper: Probability,
    /// Loss rate for parity: not too low for a few packets.
    pub(crate) calm: Probability,
    /// Mean loss rate: for many packets.
    pub(crate) mean: Probability,
    /// Mean number lost in a row.
    pub(crate) mean_run: f64,
    /// Something was lost, or seems to be: the rates are more than what is assumed at first.
    pub(crate) loses: bool,
}

/// Bursts longer than this are not chance.
const BURSTY: f64 = 1.5;
/// Bursts longer than this take most of what is bundled into the next packets, too.
const LONG_BURSTS: f64 = 2.0;
/// Losses below this are not worth any byte.
const LEAST_LOSS: f64 = 0.008;

impl Channel {
    /// Each packet is lost with this probability.
    pub(crate) const fn independent(loss: Probability) -> Self {
        Self { upper: loss, calm: loss, mean: loss, mean_run: 1.0, loses: true }
    }

    /// Mean run of losses, as a multiple of that of independent losses.
    pub(super) fn burst_factor(self) -> f64 {
        (self.mean_run * (1.0 - self.calm.as_f64())).max(1.0)
    }

    /// The probability of a loss after a loss; at least that of independent losses.
    pub(super) fn goes_on(self) -> f64 {
        (1.0 - 1.0 / self.mean_run.max(1.0)).max(self.calm.as_f64())
    }

    /// Whether losses come in bursts.
    pub(super) fn is_bursty(self) -> bool {
        self.burst_factor() > BURSTY
    }

    /// Whether bursts are so long that copies in the next packets are mostly lost with the first one.
    pub(super) fn has_long_bursts(self) -> bool {
        self.burst_factor() > LONG_BURSTS
    }

    /// Whether so much is lost that messages should not depend on few packets.
    pub(super) fn is_lossy(self) -> bool {
        self.calm.as_f64() >= LEAST_LOSS
    }

    #[cfg(test)]
    pub(super) fn of(percent: u32, mean_run: f64) -> Self {
        let loss = Probability::from_ppm(percent * 10_000);
        Self { upper: loss, calm: loss, mean: loss, mean_run, loses: true }
    }
}

/// Losses of a block that are told apart.
pub(super) const MAX_LOSSES: usize = 64;

/// How many of the packets sent so far are lost: the chance of each number, by the fate of the last
/// packet.
pub(super) struct Block {
    after_arrival: [f64; MAX_LOSSES],
    after_loss: [f64; MAX_LOSSES],
    /// Chances of a loss after an arrival and after a loss.
    begins: f64,
    goes_on: f64,
    sent: usize,
}

impl Block {
    /// `count` packets.
    pub(super) fn of(count: usize, channel: Channel) -> Self {
        let mut block = Self::new(channel);
        (0..count).for_each(|_| block.extend());
        block
    }

    fn new(channel: Channel) -> Self {
        let (loss, goes_on) = (channel.calm.as_f64(), channel.goes_on());
        let begins = loss * (1.0 - goes_on) / (1.0 - loss);
        let (mut after_arrival, mut after_loss) = ([0.0; MAX_LOSSES], [0.0; MAX_LOSSES]);
        (after_arrival[0], after_loss[0]) = (1.0 - loss, loss);
        Self { after_arrival, after_loss, begins, goes_on, sent: 0 }
    }

    /// One more packet.
    pub(super) fn extend(&mut self) {
        self.sent += 1;
        for lost in (0..MAX_LOSSES.min(self.sent + 1)).rev() {
            let (arrival, loss) = (self.after_arrival[lost], self.after_loss[lost]);
            self.after_arrival[lost] = arrival * (1.0 - self.begins) + loss * (1.0 - self.goes_on);
            self.after_loss[lost] = match lost.checked_sub(1) {
                None => 0.0,
                Some(fewer) => {
                    self.after_arrival[fewer] * self.begins + self.after_loss[fewer] * self.goes_on
                }
            };
        }
    }

    /// The chance that more than `losses` are lost.
    pub(super) fn failure(&self, losses: usize) -> f64 {
        let fewer = self.after_arrival[..=losses].iter().chain(&self.after_loss[..=losses]);
        1.0 - fewer.sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ARQ-REP-5
    #[test]
    fn independent_losses_are_binomial() {
        let mut block = Block::new(Channel::of(10, 1.0));
        (0..13).for_each(|_| block.extend());
        // P[Bin(13, 0.1) > 4] and > 0, by an independent program.
        assert!((block.failure(4) - 0.006_460).abs() < 1e-5, "{}", block.failure(4));
        assert!((block.failure(0) - (1.0 - 0.9_f64.powi(13))).abs() < 1e-9);
    }

    #[test]
    fn bursts_keep_the_share_of_loss() {
        let mut block = Block::new(Channel::of(10, 5.0));
        (0..60).for_each(|_| block.extend());
        let chances = block.after_arrival.iter().zip(&block.after_loss).enumerate();
        let mean: f64 = chances.map(|(lost, (a, l))| lost as f64 * (a + l)).sum();
        assert!((mean - 6.0).abs() < 0.01, "{mean}");
    }
}
