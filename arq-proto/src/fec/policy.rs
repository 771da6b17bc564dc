// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How many repair symbols are worth sending before anything is known to be lost?
//!
//! The marginal-latency rule: symbols save a round trip with the chance that they make up for what is
//! lost, and delay everything behind them by the time that they take to leave. So many are sent as save
//! most. So parity ends by itself where bandwidth is the limit, where little is lost, and where a round
//! trip costs nothing. A budget of bytes bounds it where time on the wire is cheap and bytes are not.
//!
//! Losses come in bursts, against which parity is of no use when they are longer than the block.
//!
//! A small message has few chunks, and parity comes in whole symbols: one more or less is a tenth of
//! the bytes. So it is cut finer where that makes the same protection cheaper.

use std::time::Duration;

use super::channel::{Block, Channel, MAX_LOSSES};
use crate::{
    units::MessageSeq,
    wire::{cursor::varint_len, frame::Shape, MIN_CHUNK_BYTES},
};

/// What one more symbol is weighed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stakes {
    /// What a lost message waits for: a round trip and the time to notice.
    pub(crate) repair_delay: Duration,
    /// The time that a packet takes to leave.
    pub(crate) packet: Duration,
    /// Messages that wait behind this one.
    pub(crate) behind: usize,
}

/// The chance of failure that is good enough.
const ACCEPTED_FAILURE: f64 = 0.006;
/// Losses below this are not worth any byte.
const LEAST_LOSS: f64 = 0.008;
/// Messages up to this length are small: their budget is in bytes, that of larger ones in chunks.
const SMALL_BYTES: usize = 16 << 10;
/// The budget of a small message, beyond what retransmissions would take anyway, as a share of its bytes: less the
/// longer the bursts are.
const SMALL_SHARE: f64 = 0.33;
/// Bytes save little where a repair takes as little time as this: there the share is halved.
const SHORT_REPAIR: Duration = Duration::from_micros(50);
/// The budget of a larger one, as a share of its chunks.
const LARGE_SHARE: f64 = 1.0 / 16.0;
/// Bytes of a packet beside its chunk and its sequence number: IP, UDP, header, frame, tag.
const PACKET_BYTES: usize = 53;
/// What a packet costs beside its bytes, in bytes: the work of both hosts, and airtime.
const PACKET_COST_BYTES: f64 = 20.0;
/// What two chunks that share a packet may have left over: for one, as much is reserved as its frame
/// takes at most.
const SPARE_BYTES: usize = 8;
/// A small message that is lost less often need not ride along.
const MIN_BUNDLING_LOSS: f64 = 0.009;
/// A small message rides along three times at most.
const MAX_SENDINGS: u8 = 4;
/// Messages of one burst do not double each other, nor does one message leave twice in it.
pub(crate) const MIN_BUNDLING_INTERVAL: Duration = Duration::from_micros(500);
/// What a failure costs, as a multiple of the message.
const FAILURE_COST: f64 = 8.0;

/// Repair symbols for `count` chunks, as many per 100. A single chunk is doubled or not: a part of it
/// is of no use.
pub(crate) fn fixed(percent: u8, count: usize) -> usize {
    match count {
        1 => usize::from(percent / 100),
        _ => (count * usize::from(percent)).div_ceil(100),
    }
}

/// Bytes of a packet beside its chunk, the higher the message's number the more.
pub(crate) fn overhead(seq: MessageSeq) -> usize {
    PACKET_BYTES + varint_len(seq)
}

/// Repair symbols that are worth sending with a message whose packets have so much [`overhead`]. None for a single
/// chunk, which they would double.
pub(crate) fn auto(shape: Shape, overhead: usize, channel: Channel, stakes: Stakes) -> usize {
    let count = shape.chunk_count();
    let loss = channel.loss.as_f64();
    // Bursts of a quarter of the block leave little to repair with, and nothing to wait for.
    let fades = channel.burst() > (count as f64 / 4.0).max(1.5);
    if count < 2 || loss < LEAST_LOSS || fades {
        return 0;
    }
    let price = stakes.packet.as_secs_f64() * (1 + stakes.behind) as f64;
    let price = price / stakes.repair_delay.as_secs_f64().max(1e-6);
    // So much is retransmitted anyway.
    let expected = (count as f64 * loss / (1.0 - loss)).ceil();
    let mut block = Block::of(count, channel);
    let unprotected = block.failure(0);
    let (mut failure, mut cost) = (unprotected, 0.0);
    let (mut best, mut most_saved) = (0, 0.0);
    for symbols in 1..=budget(shape, overhead, channel, stakes.repair_delay) {
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

/// Whether small messages ride along at all: not where hardly anything is lost, nor where bursts outlast all sendings.
pub(crate) fn may_bundle(channel: Channel) -> bool {
    channel.loss.as_f64() > MIN_BUNDLING_LOSS && channel.burst() <= f64::from(MAX_SENDINGS)
}

/// Whether a small message that left so often, `age` ago for the first time, is worth its bytes in a packet that
/// leaves anyway. `stakes`: what it waits for if it is lost, and the time that its frame takes.
pub(crate) fn bundles(channel: Channel, stakes: Stakes, sendings: u8, age: Duration) -> bool {
    let (loss, goes_on) = (channel.loss.as_f64(), channel.goes_on());
    let lost = loss * goes_on.powi(i32::from(sendings) - 1);
    let saved = lost * (1.0 - goes_on) * stakes.repair_delay.saturating_sub(age).as_secs_f64();
    let worthwhile = lost > MIN_BUNDLING_LOSS && saved > stakes.packet.as_secs_f64();
    may_bundle(channel) && sendings < MAX_SENDINGS && worthwhile
}

/// Whether so much is lost that messages should not depend on few packets.
pub(crate) fn expects_loss(channel: Channel) -> bool {
    channel.loss.as_f64() >= LEAST_LOSS
}

/// Bytes of a chunk, at most `max_chunk_bytes`, with which a message and its parity take least.
pub(crate) fn chunk_bytes(
    message_bytes: usize,
    max_chunk_bytes: usize,
    overhead: usize,
    channel: Channel,
    repair_delay: Duration,
) -> usize {
    let fewest = message_bytes.div_ceil(max_chunk_bytes.max(1));
    let protects = expects_loss(channel) && !channel.is_bursty();
    if !protects || fewest < 2 || message_bytes > SMALL_BYTES {
        return max_chunk_bytes;
    }
    // Two in a packet would be lost together: not more chunks than leave each longer than half of what a packet holds.
    let alone = (2 * message_bytes - 1) / (max_chunk_bytes + SPARE_BYTES);
    let most = alone.min(message_bytes / usize::from(MIN_CHUNK_BYTES)).max(fewest);
    let shape = |count| Shape { message_bytes, chunk_bytes: message_bytes.div_ceil(count) };
    let cost = |shape| cost(shape, overhead, channel, repair_delay);
    let shapes = (fewest..=most).map(shape).map(|shape| (cost(shape), shape.chunk_bytes));
    let best = shapes.min_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map_or(max_chunk_bytes, |(_, bytes)| bytes.min(max_chunk_bytes))
}

/// What it costs to send a message cut like this with its parity, in bytes.
fn cost(shape: Shape, overhead: usize, channel: Channel, repair_delay: Duration) -> f64 {
    let count = shape.chunk_count();
    let (budget, mut symbols) = (budget(shape, overhead, channel, repair_delay), 0);
    let mut block = Block::of(count, channel);
    while block.failure(symbols) > ACCEPTED_FAILURE && symbols < budget {
        block.extend();
        symbols += 1;
    }
    let packet = (shape.chunk_bytes + overhead) as f64 + PACKET_COST_BYTES;
    let lacking = (block.failure(symbols) - ACCEPTED_FAILURE).max(0.0);
    (count + symbols) as f64 * packet + lacking * FAILURE_COST * shape.message_bytes as f64
}

/// Repair symbols that the bytes allow, below [`MAX_LOSSES`].
fn budget(shape: Shape, overhead: usize, channel: Channel, repair_delay: Duration) -> usize {
    let count = shape.chunk_count();
    let symbols = if shape.message_bytes <= SMALL_BYTES {
        let worth = repair_delay.as_secs_f64() / (repair_delay + SHORT_REPAIR).as_secs_f64();
        let share = 1.0 + SMALL_SHARE * worth / channel.burst();
        let bytes = shape.message_bytes as f64 * share / (1.0 - channel.loss.as_f64());
        bytes / (shape.chunk_bytes + overhead) as f64 - count as f64
    } else {
        let loss = channel.mean.as_f64();
        count as f64 * (loss / (1.0 - loss) + LARGE_SHARE / channel.burst())
    };
    // The clamp bounds the cast.
    symbols.clamp(0.0, (MAX_LOSSES - 1) as f64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Probability;

    const MS: Duration = Duration::from_millis(1);
    const FAST: Duration = Duration::from_micros(70);
    const OVERHEAD: usize = PACKET_BYTES + 2;

    fn channel(percent: u32, mean_run: f64) -> Channel {
        let loss = Probability::from_ppm(percent * 10_000);
        Channel { loss, mean: loss, mean_run }
    }

    fn auto_parity(count: usize, percent: u32, mean_run: f64, packet: Duration) -> usize {
        let stakes = Stakes { repair_delay: 22 * MS, packet, behind: 0 };
        let shape = Shape { message_bytes: count * 1_112, chunk_bytes: 1_112 };
        auto(shape, OVERHEAD, channel(percent, mean_run), stakes)
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

    // ARQ-REP-9
    #[test]
    fn small_messages_ride_along_while_that_saves_more_than_it_takes() {
        let stakes = Stakes { repair_delay: 75 * MS, packet: MS / 5, behind: 0 };
        let rides =
            |percent, run, sendings, age| bundles(channel(percent, run), stakes, sendings, age);
        // Not without loss; the more often the likelier all of them are lost.
        assert!(!rides(0, 1.0, 1, 20 * MS));
        let times = |percent, run| {
            (1..10).take_while(|&n| rides(percent, run, n, 20 * MS * u32::from(n))).count()
        };
        assert_eq!([times(1, 1.0), times(10, 1.0), times(25, 1.0), times(5, 2.4)], [1, 2, 2, 2]);
        // Not once a repair is as soon, nor where bytes are slow.
        assert!(!rides(10, 1.0, 1, 75 * MS));
        let slow = Stakes { packet: 20 * MS, ..stakes };
        assert!(!bundles(channel(10, 1.0), slow, 1, 20 * MS));
        // Nor where bursts outlast them.
        assert!(rides(10, 4.0, 1, 20 * MS) && !rides(10, 5.0, 1, 20 * MS));
    }

    // ARQ-REP-7
    #[test]
    fn a_small_message_is_cut_so_that_its_protection_is_cheap() {
        let cut = |bytes, percent, run| {
            bytes_of_first_round(
                bytes,
                chunk_bytes(bytes, 1_112, OVERHEAD, channel(percent, run), 22 * MS),
                percent,
            )
        };
        for percent in [9, 10, 11, 12] {
            let (failure, share) = cut(10_000, percent, 1.0);
            assert!(failure <= 0.02, "{percent} %: {failure}");
            assert!(share <= 1.53, "{percent} %: {share}");
        }
        // Nothing to gain: no loss, bursts, one packet, a long message.
        for (bytes, percent, run) in
            [(10_000, 0, 1.0), (10_000, 10, 3.0), (1_000, 10, 1.0), (65_535, 10, 1.0)]
        {
            assert_eq!(
                chunk_bytes(bytes, 1_112, OVERHEAD, channel(percent, run), 22 * MS),
                1_112,
                "{bytes} bytes"
            );
        }
        // Never below the least chunk.
        for bytes in 1_113..=SMALL_BYTES {
            let chunk = chunk_bytes(bytes, 1_112, OVERHEAD, channel(10, 1.0), 22 * MS);
            assert!((512..=1_112).contains(&chunk), "{bytes} bytes: chunks of {chunk}");
        }
    }

    /// The chance that a message is not complete at once, and its bytes on the wire per byte.
    fn bytes_of_first_round(message_bytes: usize, chunk_bytes: usize, percent: u32) -> (f64, f64) {
        let (shape, channel) = (Shape { message_bytes, chunk_bytes }, channel(percent, 1.0));
        let stakes = Stakes { repair_delay: 22 * MS, packet: FAST, behind: 0 };
        let (count, symbols) = (shape.chunk_count(), auto(shape, OVERHEAD, channel, stakes));
        let bytes = (count + symbols) as f64 * (chunk_bytes + OVERHEAD) as f64;
        (Block::of(count + symbols, channel).failure(symbols), bytes / message_bytes as f64)
    }

    // ARQ-REP-6
    #[test]
    fn a_short_round_is_worth_fewer_bytes() {
        let shape = Shape { message_bytes: 10_000, chunk_bytes: 834 };
        let symbols = |round| budget(shape, OVERHEAD, channel(10, 1.0), round);
        let rounds = [22 * MS, 50 * MS / 1_000, Duration::ZERO];
        assert_eq!(rounds.map(symbols), [4, 2, 0]);
    }

    #[test]
    fn a_percentage_is_a_percentage() {
        assert_eq!([fixed(99, 1), fixed(100, 1)], [0, 1]);
        assert_eq!([fixed(20, 10), fixed(25, 57), fixed(100, 128)], [2, 15, 128]);
    }
}
