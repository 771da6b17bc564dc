// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How do chunks, and repair symbols that stand in for some, become one message?
//!
//! Both are received straight into the message's buffer: a repair symbol waits in the place of a
//! chunk that is missing, of which there is always one left while the symbol is of any use. So a
//! message takes the same memory whatever arrives, and decoding copies nothing.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::{
    error::Violation,
    fec,
    send::message::lowest_bits,
    wire::frame::{ChunkFrame, RepairFrame, Shape},
};

/// A message of which some symbols have arrived.
#[derive(Debug)]
pub struct Reassembly {
    /// The chunks, each in its place; padded to whole chunks if repair symbols may come.
    buffer: Vec<u8>,
    shape: Shape,
    arrived: u128,
    /// Repair symbols, and the place in which each waits.
    held: SmallVec<[Held; 8]>,
    recovered: u8,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    symbol: u8,
    place: u8,
}

impl Reassembly {
    /// For a message of this shape. Allocates as much as the shape says, at most
    /// [`MAX_MESSAGE_BYTES`](crate::MAX_MESSAGE_BYTES) and some padding; the caller checks the
    /// credit first.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        let bytes = if shape.is_codable() {
            shape.chunk_count() * shape.chunk_bytes
        } else {
            shape.message_bytes
        };
        Self { buffer: vec![0; bytes], shape, arrived: 0, held: SmallVec::new(), recovered: 0 }
    }

    /// Adds a chunk; `Ok(false)` when it was there already.
    ///
    /// # Errors
    /// The chunk gives the message another shape than what came first.
    pub fn insert(&mut self, chunk: &ChunkFrame<'_>) -> Result<bool, Violation> {
        self.check_shape(chunk.shape())?;
        let bit = 1_u128 << chunk.index;
        if self.arrived & bit != 0 {
            return Ok(false);
        }
        self.arrived |= bit;
        self.vacate(chunk.index);
        let start = chunk.index * self.shape.chunk_bytes;
        self.buffer[start..start + chunk.data.len()].copy_from_slice(chunk.data);
        self.decode_if_enough();
        Ok(true)
    }

    /// Adds a repair symbol; `Ok(false)` when it was there already, or is not needed any more.
    ///
    /// # Errors
    /// The symbol gives the message another shape than what came first.
    pub fn insert_repair(&mut self, repair: &RepairFrame<'_>) -> Result<bool, Violation> {
        self.check_shape(repair.shape)?;
        // The frame was decoded: the index is below 128.
        let symbol = repair.index as u8;
        if self.held.iter().any(|held| held.symbol == symbol) {
            return Ok(false);
        }
        let Some(place) = self.free_place() else { return Ok(false) };
        self.held.push(Held { symbol, place: place as u8 });
        let start = place * self.shape.chunk_bytes;
        self.buffer[start..start + repair.data.len()].copy_from_slice(repair.data);
        self.decode_if_enough();
        Ok(true)
    }

    fn check_shape(&self, shape: Shape) -> Result<(), Violation> {
        if shape == self.shape {
            Ok(())
        } else {
            Err(Violation::MessageShape)
        }
    }

    /// The place of a chunk that has not arrived, in which nothing waits.
    fn free_place(&self) -> Option<usize> {
        let taken = self.held.iter().fold(self.arrived, |mask, held| mask | 1 << held.place);
        fec::bits(lowest_bits(self.shape.chunk_count()) & !taken).next()
    }

    /// Moves the repair symbol that waits in the place of a chunk, if any, and clears the place.
    fn vacate(&mut self, place: usize) {
        let Some(index) = self.held.iter().position(|held| usize::from(held.place) == place) else {
            return;
        };
        let size = self.shape.chunk_bytes;
        let free = self.free_place();
        debug_assert!(free.is_some(), "as many symbols as chunks would have been decoded");
        if let Some(free) = free {
            self.held[index].place = free as u8;
            self.buffer.copy_within(place * size..(place + 1) * size, free * size);
        }
        // The last chunk does not fill its place.
        self.buffer[place * size..(place + 1) * size].fill(0);
    }

    fn decode_if_enough(&mut self) {
        let count = self.shape.chunk_count();
        if self.held.is_empty() || self.arrived.count_ones() as usize + self.held.len() < count {
            return;
        }
        self.held.sort_unstable_by_key(|held| held.place);
        let symbols: SmallVec<[u8; 8]> = self.held.iter().map(|held| held.symbol).collect();
        fec::decode(&mut self.buffer, self.shape.chunk_bytes, count, self.arrived, &symbols);
        self.arrived = lowest_bits(count);
        self.recovered = symbols.len() as u8;
        self.held.clear();
    }

    /// The first chunk that is missing.
    #[must_use]
    pub fn first_missing(&self) -> usize {
        self.arrived.trailing_ones() as usize
    }

    /// Whether every chunk is there.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.arrived == lowest_bits(self.shape.chunk_count())
    }

    /// Chunks that were computed instead of received.
    #[must_use]
    pub fn recovered(&self) -> u8 {
        self.recovered
    }

    /// Length of the message, in bytes.
    #[must_use]
    pub fn message_bytes(&self) -> usize {
        self.shape.message_bytes
    }

    /// The message.
    #[must_use]
    pub fn into_message(mut self) -> Bytes {
        debug_assert!(self.is_complete());
        self.buffer.truncate(self.shape.message_bytes);
        self.buffer.into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{wire::MAX_MESSAGE_BYTES, LaneId};

    fn chunk(message: &[u8], chunk_bytes: usize, index: usize) -> ChunkFrame<'_> {
        let start = index * chunk_bytes;
        let end = message.len().min(start + chunk_bytes);
        ChunkFrame {
            lane: LaneId::all().next().unwrap(),
            seq: 0,
            message_bytes: message.len(),
            chunk_bytes,
            index,
            data: &message[start..end],
        }
    }

    proptest! {
        // ARQ-MSG-3
        #[test]
        fn any_order_and_any_repetition_gives_the_message(
            len in 1..=MAX_MESSAGE_BYTES,
            chunk_bytes in 512_usize..9_000,
            picks in prop::collection::vec(any::<prop::sample::Index>(), 0..300),
        ) {
            let message: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            let chunk_bytes = chunk_bytes.min(len);
            let count = len.div_ceil(chunk_bytes);
            let mut reassembly = Reassembly::new(chunk(&message, chunk_bytes, 0).shape());
            let mut seen = std::collections::BTreeSet::new();
            for index in picks.iter().map(|pick| pick.index(count)).chain(0..count) {
                prop_assert_eq!(reassembly.is_complete(), seen.len() == count);
                let new = reassembly.insert(&chunk(&message, chunk_bytes, index)).unwrap();
                prop_assert_eq!(new, seen.insert(index));
                let missing = (0..count).find(|index| !seen.contains(index)).unwrap_or(count);
                prop_assert_eq!(reassembly.first_missing(), missing);
            }
            prop_assert!(reassembly.is_complete());
            prop_assert_eq!(&reassembly.into_message()[..], &message[..]);
        }
    }

    proptest! {
        /// Chunks and repair symbols in any order: the message is there with as many different ones
        /// as it has chunks, never before, and it is right.
        // ARQ-FEC-2, ARQ-FEC-5
        #[test]
        fn any_symbols_in_any_order_give_the_message(
            len in 1_025..=MAX_MESSAGE_BYTES,
            chunks in 2_usize..=128,
            picks in prop::collection::vec(any::<u8>(), 1..600),
        ) {
            let message: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            let chunk_bytes = len.div_ceil(chunks).max(512);
            let shape = chunk(&message, chunk_bytes, 0).shape();
            let count = shape.chunk_count();
            prop_assert!(shape.is_codable());
            let mut reassembly = Reassembly::new(shape);
            let buffer = reassembly.buffer.len();
            let mut seen = std::collections::BTreeSet::new();
            for pick in picks.into_iter().chain(0..=255) {
                let complete = seen.len() >= count;
                prop_assert_eq!(reassembly.is_complete(), complete);
                let index = usize::from(pick & 127);
                let new = if pick >= 128 {
                    let mut data = Vec::new();
                    fec::encode(&message, chunk_bytes, index, &mut data);
                    let lane = LaneId::all().next().unwrap();
                    let repair = RepairFrame { lane, seq: 0, shape, index, data: &data };
                    reassembly.insert_repair(&repair).unwrap()
                } else if index < count {
                    reassembly.insert(&chunk(&message, chunk_bytes, index)).unwrap()
                } else {
                    continue;
                };
                prop_assert_eq!(new, !complete && seen.insert(pick));
            }
            prop_assert_eq!(reassembly.buffer.len(), buffer, "symbols wait in place");
            prop_assert_eq!(&reassembly.into_message()[..], &message[..]);
        }
    }

    // ARQ-MSG-4
    #[test]
    fn chunks_that_disagree_are_refused() {
        let message = [1; 2_000];
        let mut reassembly = Reassembly::new(chunk(&message, 1_000, 0).shape());
        assert_eq!(reassembly.insert(&chunk(&message, 600, 0)), Err(Violation::MessageShape));
        let other = chunk(&message[..1_999], 1_000, 0);
        assert_eq!(reassembly.insert(&other), Err(Violation::MessageShape));
        let (lane, shape) = (other.lane, other.shape());
        let repair = RepairFrame { lane, seq: 0, shape, index: 0, data: other.data };
        assert_eq!(reassembly.insert_repair(&repair), Err(Violation::MessageShape));
    }
}
