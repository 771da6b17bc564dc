// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How long should the chunks of a message be?
//!
//! A small message has few chunks, and parity comes in whole symbols, each of which may be a tenth of the bytes. Smaller chunks
//! can make the same protection cheaper.

use super::{
    ahead::{overhead, ACCEPTED_FAILURE, SMALL_BYTES},
    channel::Block,
    Redundancy,
};
use crate::{
    units::MessageSeq,
    wire::{frame::Shape, MIN_CHUNK_BYTES},
};

/// What a packet costs beside its bytes, in bytes: the work of both hosts, and airtime.
const PACKET_COST_BYTES: f64 = 20.0;
/// Unused bytes of a packet with two chunks: the largest possible frame header is reserved for each.
const SHARING_SLACK_BYTES: usize = 8;
/// What a failure costs, as a multiple of the message.
const FAILURE_COST: f64 = 8.0;

impl Redundancy {
    /// The chunk size with which a new message and its parity take the fewest bytes: at most `longest`, and at most `base` under
    /// much loss, because few long chunks leave parity less choice than many short ones.
    pub(crate) fn chunk_bytes(
        &self,
        seq: MessageSeq,
        message_bytes: usize,
        longest: usize,
        base: usize,
        bulk: bool,
    ) -> usize {
        if !self.spreads_symbols() || self.is_expensive(bulk) {
            return longest;
        }
        let longest = longest.min(base);
        let fewest = message_bytes.div_ceil(longest.max(1));
        if self.channel.is_bursty() || fewest < 2 || message_bytes > SMALL_BYTES {
            return longest;
        }
        // Two chunks in a packet would be lost together, so each is longer than half of what a packet holds.
        let alone = (2 * message_bytes - 1) / (longest + SHARING_SLACK_BYTES);
        let most = alone.min(message_bytes / usize::from(MIN_CHUNK_BYTES)).max(fewest);
        let shape = |count| Shape { message_bytes, chunk_bytes: message_bytes.div_ceil(count) };
        let cost = |shape| self.cost(shape, overhead(seq));
        let shapes = (fewest..=most).map(shape).map(|shape| (cost(shape), shape.chunk_bytes));
        let best = shapes.min_by(|(a, _), (b, _)| a.total_cmp(b));
        best.map_or(longest, |(_, bytes)| bytes.min(longest))
    }

    /// Whether so much is lost that the symbols of one message should not share a packet.
    pub(crate) fn spreads_symbols(&self) -> bool {
        self.is_auto() && self.channel.is_lossy()
    }

    /// What it costs to send a message of this shape with its parity, in bytes.
    fn cost(&self, shape: Shape, overhead: usize) -> f64 {
        let (budget, mut symbols) = (self.budget(shape, overhead), 0);
        let mut block = Block::of(shape.chunk_count(), self.channel);
        while block.failure(symbols) > ACCEPTED_FAILURE && symbols < budget {
            block.extend();
            symbols += 1;
        }
        let packet = (shape.chunk_bytes + overhead) as f64 + PACKET_COST_BYTES;
        let lacking = (block.failure(symbols) - ACCEPTED_FAILURE).max(0.0);
        let packets = (shape.chunk_count() + symbols) as f64;
        packets * packet + lacking * FAILURE_COST * shape.message_bytes as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::FecConfig, redundancy::Channel};

    /// Its number takes two bytes.
    const SEQ: MessageSeq = 100;

    fn chosen(bytes: usize, percent: u32, run: f64) -> usize {
        Redundancy::over(Channel::of(percent, run)).chunk_bytes(SEQ, bytes, 1_112, 1_112, false)
    }

    // ARQ-REP-7
    #[test]
    fn a_small_message_has_chunks_that_make_its_protection_cheap() {
        for percent in [9, 10, 11, 12] {
            let (failure, share) = first_round(10_000, chosen(10_000, percent, 1.0), percent);
            assert!(failure <= 0.02, "{percent} %: {failure}");
            assert!(share <= 1.53, "{percent} %: {share}");
        }
        // Nothing to gain: no loss, bursts, one packet, a long message.
        for (bytes, percent, run) in
            [(10_000, 0, 1.0), (10_000, 10, 3.0), (1_000, 10, 1.0), (65_535, 10, 1.0)]
        {
            assert_eq!(chosen(bytes, percent, run), 1_112, "{bytes} bytes");
        }
        // No two in a packet, and never below the least chunk.
        for bytes in 1_121..=SMALL_BYTES {
            let chunk = chosen(bytes, 10, 1.0);
            assert!((561..=1_112).contains(&chunk), "{bytes} bytes: chunks of {chunk}");
            let redundancy = Redundancy::over(Channel::of(25, 1.0));
            let chunk = redundancy.chunk_bytes(SEQ, bytes, 900, 1_112, false);
            assert!((512..=900).contains(&chunk), "{bytes} bytes: chunks of {chunk}");
        }
        let sizes = [2_000, 5_000, 10_000, SMALL_BYTES].map(|bytes| chosen(bytes, 10, 1.0));
        assert_eq!(sizes, [667, 834, 715, 964]);
    }

    // ARQ-REP-7
    #[test]
    fn where_parity_is_not_wanted_chunks_are_long() {
        let base = Redundancy::over(Channel::of(10, 1.0));
        let chunk =
            |redundancy: Redundancy, bulk| redundancy.chunk_bytes(SEQ, 9_000, 1_112, 1_112, bulk);
        assert!(chunk(base, false) < 1_000, "as long as nine can be");
        assert_eq!(chunk(base, true), 1_112);
        for other in [
            Redundancy { counts_packets: true, ..base },
            Redundancy { fec: FecConfig::Percent(20), ..base },
            Redundancy { coding: false, ..base },
            Redundancy { channel: Channel::of(0, 1.0), ..base },
        ] {
            assert_eq!(chunk(other, false), 1_112, "{other:?}");
        }
    }

    /// The chance that a message is not complete at once, and its bytes on the wire per byte.
    fn first_round(message_bytes: usize, chunk_bytes: usize, percent: u32) -> (f64, f64) {
        let (shape, channel) = (Shape { message_bytes, chunk_bytes }, Channel::of(percent, 1.0));
        let symbols = Redundancy::over(channel).parity(SEQ, shape, 100, (0, false));
        let count = shape.chunk_count();
        let bytes = (count + symbols) as f64 * (chunk_bytes + overhead(SEQ)) as f64;
        (Block::of(count + symbols, channel).failure(symbols), bytes / message_bytes as f64)
    }
}
