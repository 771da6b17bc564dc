// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How many repair symbols are worth sending before anything is known to be lost?
//!
//! The marginal-latency rule: one more symbol saves a round trip with the chance that it is the one
//! that was lacking, and delays everything behind it by the time that it takes to leave. It is worth
//! sending while the first outweighs the second. So parity ends by itself where bandwidth is the
//! limit, where little is lost, and where a round trip costs nothing.
//!
//! Losses come in bursts, against which parity is of no use when they are longer than the block.
//! The chances are those of a Gilbert channel with the measured loss and burst length, computed
//! exactly, one symbol at a time.

use std::time::Duration;

use crate::{units::Probability, wire::frame::Shape};

/// What the path does to packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Channel {
    /// Share that is lost.
    pub(crate) loss: Probability,
    /// Mean number lost in a row.
    pub(crate) mean_run: f64,
}

/// What one more symbol is weighed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stakes {
    /// What a lost message waits for: a round trip and the time to notice.
    pub(crate) round: Duration,
    /// The time that a packet takes to leave.
    pub(crate) packet: Duration,
    /// Messages that wait behind this one.
    pub(crate) behind: usize,
}

/// The chance of failure that is good enough.
const ENOUGH: f64 = 0.009;
/// Losses below this are not worth any byte.
const LEAST_LOSS: f64 = 0.008;
/// The budget, beyond what retransmissions would take anyway: a third of a small message, a
/// sixteenth of a larger one, and less the longer the bursts are.
const SMALL_BYTES: usize = 16 << 10;
const SMALL_SHARE: f64 = 1.0 / 3.0;
const LARGE_SHARE: f64 = 1.0 / 32.0;
/// Losses of a block that are told apart.
const MAX_LOSSES: usize = 64;

/// Repair symbols for `count` chunks, as many per 100. A single chunk is doubled or not: a part of it
/// is of no use.
pub(crate) fn fixed(percent: u8, count: usize) -> usize {
    match count {
        1 => usize::from(percent / 100),
        _ => (count * usize::from(percent)).div_ceil(100),
    }
}

/// Repair symbols that are worth sending with a message.
pub(crate) fn auto(shape: Shape, channel: Channel, stakes: Stakes) -> usize {
    let count = shape.chunk_count();
    let loss = channel.loss.as_f64();
    // Longer than chance alone makes them. Bursts of a quarter of the block leave little to repair
    // with, and nothing to wait for.
    let burst = (channel.mean_run * (1.0 - loss)).max(1.0);
    if loss < LEAST_LOSS || burst > (count as f64 / 4.0).max(1.5) {
        return 0;
    }
    let price = stakes.packet.as_secs_f64() * (1 + stakes.behind) as f64;
    let price = price / stakes.round.as_secs_f64().max(1e-6);
    // So much is retransmitted anyway.
    let expected = count as f64 * loss / (1.0 - loss);
    let share = if shape.message_bytes <= SMALL_BYTES { SMALL_SHARE } else { LARGE_SHARE };
    // Both are below 200.
    let budget = (expected + count as f64 * share / burst) as usize;
    let mut block = Block::new(loss, channel.mean_run);
    (0..count).for_each(|_| block.extend());
    let mut failure = block.failure(0);
    for symbols in 0..budget.min(MAX_LOSSES - 1) {
        block.extend();
        let next = block.failure(symbols + 1);
        let price = if (symbols as f64) < expected { price / 2.0 } else { price };
        if failure <= ENOUGH || failure - next <= price {
            return symbols;
        }
        failure = next;
    }
    budget.min(MAX_LOSSES - 1)
}

/// How many of the packets sent so far are lost: the chance of each number, by the fate of the last
/// packet.
struct Block {
    after_arrival: [f64; MAX_LOSSES],
    after_loss: [f64; MAX_LOSSES],
    /// Chances of a loss after an arrival and after a loss.
    begins: f64,
    goes_on: f64,
    sent: usize,
}

impl Block {
    fn new(loss: f64, mean_run: f64) -> Self {
        // Runs shorter than chance alone makes them are chance.
        let goes_on = (1.0 - 1.0 / mean_run.max(1.0)).max(loss);
        let begins = loss * (1.0 - goes_on) / (1.0 - loss);
        let (mut after_arrival, mut after_loss) = ([0.0; MAX_LOSSES], [0.0; MAX_LOSSES]);
        (after_arrival[0], after_loss[0]) = (1.0 - loss, loss);
        Self { after_arrival, after_loss, begins, goes_on, sent: 0 }
    }

    /// One more packet.
    fn extend(&mut self) {
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
    fn failure(&self, losses: usize) -> f64 {
        let fewer = self.after_arrival[..=losses].iter().chain(&self.after_loss[..=losses]);
        1.0 - fewer.sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn auto_parity(count: usize, percent: u32, mean_run: f64, packet: Duration) -> usize {
        let channel = Channel { loss: Probability::from_ppm(percent * 10_000), mean_run };
        let stakes = Stakes { round: 22 * MS, packet, behind: 0 };
        auto(Shape { message_bytes: count * 1_112, chunk_bytes: 1_112 }, channel, stakes)
    }

    // ARQ-REP-5
    #[test]
    fn independent_losses_are_binomial() {
        let mut block = Block::new(0.1, 1.0);
        (0..13).for_each(|_| block.extend());
        // P[Bin(13, 0.1) > 4] and > 0, by an independent program.
        assert!((block.failure(4) - 0.006_460).abs() < 1e-5, "{}", block.failure(4));
        assert!((block.failure(0) - (1.0 - 0.9_f64.powi(13))).abs() < 1e-9);
    }

    #[test]
    fn bursts_keep_the_share_of_loss() {
        let mut block = Block::new(0.1, 5.0);
        (0..60).for_each(|_| block.extend());
        let chances = block.after_arrival.iter().zip(&block.after_loss).enumerate();
        let mean: f64 = chances.map(|(lost, (a, l))| lost as f64 * (a + l)).sum();
        assert!((mean - 6.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn parity_follows_loss_bursts_and_price() {
        let fast = Duration::from_micros(70);
        // Nothing without loss; more with more of it, within the budget.
        let by_loss = [1, 2, 5, 10, 25].map(|percent| auto_parity(9, percent, 1.0, fast));
        assert_eq!(by_loss, [1, 2, 3, 4, 6]);
        assert_eq!(auto_parity(9, 0, 1.0, fast), 0);
        assert_eq!(auto_parity(57, 10, 1.0, fast), 8);
        // None for a single packet: it would double it.
        assert_eq!(auto_parity(1, 10, 1.0, fast), 0);
        // None against fades longer than a quarter of the block.
        assert_eq!(auto_parity(9, 10, 3.0, fast), 0);
        // None where the symbol takes as long as it saves.
        assert_eq!(auto_parity(9, 10, 1.0, 22 * MS), 0);
    }

    #[test]
    fn a_percentage_is_a_percentage() {
        assert_eq!([fixed(99, 1), fixed(100, 1)], [0, 1]);
        assert_eq!([fixed(20, 10), fixed(25, 57), fixed(100, 128)], [2, 15, 128]);
    }
}
