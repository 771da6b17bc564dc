// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How many repair symbols are worth sending ahead of any loss?
//!
//! The marginal-latency rule: symbols save a round trip with the probability that they make up for the losses, and delay
//! everything behind them by their time on the wire. The number that saves most is sent. So there is no parity where bandwidth
//! is the limit, where little is lost, or where a round trip costs nothing. A byte budget bounds it where time on the wire is
//! cheap.
//!
//! Parity is of no use against bursts of losses longer than the block.

use std::time::Duration;

use super::{
    channel::{Block, MAX_LOSSES},
    repair::{Addition, Out},
    Redundancy,
};
use crate::{
    config::FecConfig,
    units::MessageSeq,
    wire::{cursor::varint_len, frame::Shape},
};

/// The accepted probability that parity does not suffice.
pub(super) const ACCEPTED_FAILURE: f64 = 0.006;
/// Messages up to this length are small: their budget is in bytes, that of larger ones in chunks.
pub(super) const SMALL_BYTES: usize = 16 << 10;
/// The budget of a small message, as a share of its bytes, beyond what retransmissions take anyway. Longer bursts reduce it.
const SMALL_SHARE: f64 = 0.33;
/// The share is halved where a repair takes no longer than this.
const SHORT_REPAIR: Duration = Duration::from_micros(50);
/// The budget of a larger one, as a share of its chunks.
const LARGE_SHARE: f64 = 1.0 / 16.0;
/// Bytes of a packet beside its chunk and its sequence number: IP, UDP, header, frame, tag.
const PACKET_BYTES: usize = 53;

impl Redundancy {
    /// Repair symbols to follow the last chunk of a message, in packets of `packet_bytes`, with `behind` messages waiting
    /// behind it.
    pub(crate) fn parity(
        &self,
        seq: MessageSeq,
        shape: Shape,
        packet_bytes: usize,
        (behind, bulk): (usize, bool),
    ) -> usize {
        match self.fec {
            FecConfig::Off => 0,
            FecConfig::Percent(percent) => fixed(percent, shape.chunk_count()),
            FecConfig::Auto if self.is_expensive(bulk) => 0,
            FecConfig::Auto => {
                let send_time = self.rate.time_for(packet_bytes as u64);
                let delay = send_time.as_secs_f64() * (1 + behind) as f64;
                self.worthwhile_parity(shape, overhead(seq), delay)
            }
        }
    }

    /// The number that saves most time, if each delays everything behind it by `delay` seconds. None for a single chunk, which
    /// would be doubled.
    fn worthwhile_parity(&self, shape: Shape, overhead: usize, delay: f64) -> usize {
        let (channel, count) = (self.channel, shape.chunk_count());
        // Bursts of a quarter of the block leave little to repair with, and nothing to wait for.
        let fades = channel.burst_factor() > (count as f64 / 4.0).max(1.5);
        if count < 2 || !channel.is_lossy() || fades {
            return 0;
        }
        let price = delay / self.repair_delay.as_secs_f64().max(1e-6);
        // What is retransmitted anyway.
        let loss = channel.calm.as_f64();
        let expected = (count as f64 * loss / (1.0 - loss)).ceil();
        let mut block = Block::of(count, channel);
        let unprotected = block.failure(0);
        let (mut failure, mut cost) = (unprotected, 0.0);
        let (mut best, mut most_saved) = (0, 0.0);
        for symbols in 1..=self.budget(shape, overhead) {
            if failure <= ACCEPTED_FAILURE {
                break;
            }
            block.extend();
            failure = block.failure(symbols);
            cost += if symbols as f64 <= expected { price / 2.0 } else { price };
            // The first symbols of a long message save nothing alone: only their sum counts.
            let saved = unprotected - failure - cost;
            if saved > most_saved {
                (best, most_saved) = (symbols, saved);
            }
        }
        best
    }

    /// Repair symbols that the bytes allow, below [`MAX_LOSSES`].
    pub(super) fn budget(&self, shape: Shape, overhead: usize) -> usize {
        let (channel, count) = (self.channel, shape.chunk_count());
        let symbols = if shape.message_bytes <= SMALL_BYTES {
            let delay = self.repair_delay;
            let worth = delay.as_secs_f64() / (delay + SHORT_REPAIR).as_secs_f64();
            let share = 1.0 + SMALL_SHARE * worth / channel.burst_factor();
            let bytes = shape.message_bytes as f64 * share / (1.0 - channel.calm.as_f64());
            bytes / (shape.chunk_bytes + overhead) as f64 - count as f64
        } else {
            let loss = channel.mean.as_f64();
            count as f64 * (loss / (1.0 - loss) + LARGE_SHARE / channel.burst_factor())
        };
        // The clamp bounds the cast.
        symbols.clamp(0.0, (MAX_LOSSES - 1) as f64) as usize
    }
}

/// Bytes of a packet beside its chunk: they grow with the message's number.
pub(super) fn overhead(seq: MessageSeq) -> usize {
    PACKET_BYTES + varint_len(seq)
}

/// Repair symbols for `count` chunks, as many per 100. A single chunk is doubled or not: a part of it
/// is of no use.
fn fixed(percent: u8, count: usize) -> usize {
    match count {
        1 => usize::from(percent / 100),
        _ => (count * usize::from(percent)).div_ceil(100),
    }
}

/// What follows the last chunk: `parity` symbols more than are missing. A message that cannot be coded is sent again as a
/// whole, `parity` times.
pub(crate) fn addition(out: &Out, parity: usize) -> Addition {
    if !out.shape.is_codable() {
        return Addition::Unacked(parity);
    }
    let symbols = (out.missing + parity).saturating_sub(out.expected).min(out.unused);
    Addition::Coded { symbols, and_lost: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        redundancy::Channel,
        units::{Probability, Rate},
    };

    const MS: Duration = Duration::from_millis(1);
    const FAST: Duration = Duration::from_micros(70);
    const OVERHEAD: usize = 55;

    fn auto_parity(count: usize, percent: u32, mean_run: f64, send_time: Duration) -> usize {
        let shape = Shape { message_bytes: count * 1_112, chunk_bytes: 1_112 };
        let redundancy = Redundancy::over(Channel::of(percent, mean_run));
        redundancy.worthwhile_parity(shape, OVERHEAD, send_time.as_secs_f64())
    }

    // ARQ-REP-6
    #[test]
    fn parity_follows_loss_bursts_and_price() {
        // Nothing without loss; more with more of it, within the budget.
        let by_loss = [1, 2, 5, 10, 25].map(|percent| auto_parity(9, percent, 1.0, FAST));
        assert_eq!(by_loss, [1, 2, 2, 3, 6]);
        assert_eq!(auto_parity(9, 0, 1.0, FAST), 0);
        // The first symbols of a long message save nothing: enough of them do.
        assert_eq!(auto_parity(57, 10, 1.0, FAST), 9);
        assert_eq!(auto_parity(57, 14, 1.0, MS / 4), 12);
        // None for a single packet: it would double it.
        assert_eq!(auto_parity(1, 10, 1.0, FAST), 0);
        // None against fades longer than a quarter of the block.
        assert_eq!(auto_parity(9, 10, 3.0, FAST), 0);
        // None where the symbol takes as long as it saves.
        assert_eq!(auto_parity(9, 10, 1.0, 22 * MS), 0);
    }

    // ARQ-REP-6
    #[test]
    fn losses_too_few_or_in_a_short_burst_are_told_apart() {
        let parity = |count: usize, channel| {
            let shape = Shape { message_bytes: count * 1_112, chunk_bytes: 1_112 };
            Redundancy::over(channel).worthwhile_parity(shape, OVERHEAD, FAST.as_secs_f64())
        };
        let independent = |ppm| Channel::independent(Probability::from_ppm(ppm));
        assert_eq!(parity(57, independent(7_000)), 0, "not worth any byte");
        assert_ne!(parity(57, independent(9_000)), 0);
        assert_eq!(parity(1, independent(500_000)), 0, "never for a single chunk");
        assert_eq!(parity(2, independent(250_000)), 1);
        assert_ne!(
            parity(9, Channel::of(10, 2.2)),
            0,
            "a burst shorter than a quarter of nine chunks"
        );
    }

    /// Symbols that make up for a retransmission cost half, ten of them here: from a price on, none are sent.
    // ARQ-REP-6
    #[test]
    fn a_symbol_that_replaces_a_retransmission_costs_half() {
        let parity = |micros| auto_parity(57, 14, 1.0, Duration::from_micros(micros));
        let ends = (1..10_000).step_by(10).find(|&micros| parity(micros) == 0);
        assert_eq!(ends, Some(2_931));
    }

    // ARQ-REP-6
    #[test]
    fn a_symbol_delays_every_message_behind_it() {
        let shape = Shape { message_bytes: 10_000, chunk_bytes: 1_112 };
        let redundancy = Redundancy::over(Channel::of(10, 1.0));
        let at = |rate: u64, behind, bulk| {
            let rate = Rate::from_bytes_per_second(rate);
            Redundancy { rate, ..redundancy }.parity(100, shape, 1_200, (behind, bulk))
        };
        let rates = [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000];
        for (rate, behind) in rates.into_iter().flat_map(|rate| [1, 2, 3, 9].map(|n| (rate, n))) {
            let slower = rate / (1 + behind as u64);
            assert_eq!(at(rate, behind, false), at(slower, 0, false), "{behind} behind at {rate}");
        }
        assert_eq!(rates.map(|rate| at(rate, 3, false)), [0, 0, 1, 2, 3]);
        assert_eq!(at(10_000_000, 0, true), 0, "another round trip delays nobody");
        let counting = Redundancy { counts_packets: true, ..redundancy };
        assert_eq!(counting.parity(100, shape, 1_200, (0, false)), 0, "packets are what is scarce");
    }

    // ARQ-REP-6
    #[test]
    fn bursts_take_from_the_budget() {
        let budget = |message_bytes: usize, chunk_bytes: usize, run: f64| {
            let shape = Shape { message_bytes, chunk_bytes };
            Redundancy::over(Channel::of(10, run)).budget(shape, OVERHEAD)
        };
        assert_eq!([1.0, 2.0].map(|run| budget(10_000, 834, run)), [4, 2]);
        assert_eq!([1.0, 2.0].map(|run| budget(65_535, 1_112, run)), [10, 8]);
        assert_eq!([0, 100].map(overhead), [54, 55]);
    }

    // ARQ-REP-6
    #[test]
    fn a_short_round_is_worth_fewer_bytes() {
        let shape = Shape { message_bytes: 10_000, chunk_bytes: 834 };
        let redundancy = Redundancy::over(Channel::of(10, 1.0));
        let symbols =
            |repair_delay| Redundancy { repair_delay, ..redundancy }.budget(shape, OVERHEAD);
        let rounds = [22 * MS, 50 * MS / 1_000, Duration::ZERO];
        assert_eq!(rounds.map(symbols), [4, 2, 0]);
    }

    #[test]
    fn a_percentage_is_a_percentage() {
        assert_eq!([fixed(99, 1), fixed(100, 1)], [0, 1]);
        assert_eq!([fixed(20, 10), fixed(25, 57), fixed(100, 128)], [2, 15, 128]);
    }
}
