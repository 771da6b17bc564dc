// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How do chunks, and repair symbols that stand in for some, become one message?
//!
//! Both are copied straight into the message's buffer: a repair symbol waits in the place of a missing chunk. As long as the
//! symbol is of use, there is such a place. So a message takes the same memory whatever arrives, and decoding copies
//! nothing.
//!
//! When the path carries less than before, the sender resegments the message into smaller chunks. Chunks that have arrived
//! stay. A late chunk of an earlier segmentation counts for the bytes that it has.

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

use crate::{
    error::Violation,
    fec,
    symbol::SymbolSet,
    wire::frame::{ChunkFrame, RepairFrame, Shape},
};

/// A message of which some symbols have arrived.
#[derive(Debug)]
pub struct Reassembly {
    /// The chunks, each in its place, up to the last that has arrived; padded to whole chunks once there is a repair
    /// symbol.
    buffer: BytesMut,
    shape: Shape,
    arrived: SymbolSet,
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
        Self::within(BytesMut::with_capacity(buffer_bytes(shape)), shape)
    }

    /// Like [`new`](Self::new), in the memory of an empty `buffer`.
    pub(crate) fn within(buffer: BytesMut, shape: Shape) -> Self {
        let arrived = SymbolSet::EMPTY;
        Self { buffer, shape, arrived, held: SmallVec::new(), recovered: 0 }
    }

    /// Adds a chunk; `Ok(false)` when it was there already.
    ///
    /// # Errors
    /// The chunk gives the message another shape than what came first.
    pub fn insert(&mut self, chunk: &ChunkFrame<'_>) -> Result<bool, Violation> {
        if self.check_shape(chunk.shape())? == Segmentation::Current {
            return Ok(self.place(chunk.index, chunk.data));
        }
        let start = chunk.index * chunk.chunk_bytes;
        let mut new = false;
        let covered = SymbolSet::only(chunk.index).resegment(chunk.shape(), self.shape);
        for index in covered.iter() {
            let first = index * self.shape.chunk_bytes;
            let last = self.shape.message_bytes.min(first + self.shape.chunk_bytes);
            new |= self.place(index, &chunk.data[first - start..last - start]);
        }
        Ok(new)
    }

    /// A chunk of the segmentation in force; `false` when it was there already.
    fn place(&mut self, index: usize, data: &[u8]) -> bool {
        if self.arrived.contains(index) {
            return false;
        }
        self.arrived.insert(index);
        self.vacate(index);
        let start = index * self.shape.chunk_bytes;
        let end = start + data.len();
        // Nearly always the next one: appended, without writing zeros first.
        if start == self.buffer.len() {
            self.buffer.extend_from_slice(data);
        } else {
            self.fill_up_to(end);
            self.buffer[start..end].copy_from_slice(data);
        }
        self.decode_if_enough();
        true
    }

    /// Adds a repair symbol; `Ok(false)` when it was there already, or is not needed any more.
    ///
    /// # Errors
    /// The symbol gives the message another shape than what came first.
    pub fn insert_repair(&mut self, repair: &RepairFrame<'_>) -> Result<bool, Violation> {
        if self.check_shape(repair.shape)? == Segmentation::Earlier {
            return Ok(false);
        }
        // The frame was decoded: the index is below 128.
        let symbol = repair.index as u8;
        if self.held.iter().any(|held| held.symbol == symbol) {
            return Ok(false);
        }
        let Some(place) = self.free_place() else { return Ok(false) };
        self.held.push(Held { symbol, place: place as u8 });
        self.fill_up_to(buffer_bytes(self.shape));
        let start = place * self.shape.chunk_bytes;
        self.buffer[start..start + repair.data.len()].copy_from_slice(repair.data);
        self.decode_if_enough();
        Ok(true)
    }

    /// Which segmentation a symbol belongs to. A later one, which has smaller chunks, takes effect.
    fn check_shape(&mut self, shape: Shape) -> Result<Segmentation, Violation> {
        if shape.message_bytes != self.shape.message_bytes {
            return Err(Violation::MessageShape);
        }
        if shape.chunk_bytes > self.shape.chunk_bytes {
            return Ok(Segmentation::Earlier);
        }
        if shape.chunk_bytes < self.shape.chunk_bytes {
            self.resegment(shape);
        }
        Ok(Segmentation::Current)
    }

    /// Keeps the chunks that are there; the repair symbols are of no use any more.
    fn resegment(&mut self, shape: Shape) {
        self.arrived = self.arrived.resegment(self.shape, shape);
        self.held.clear();
        self.shape = shape;
        // Behind the message there are zeros, whatever waited there.
        self.buffer.truncate(shape.message_bytes);
        self.buffer.resize(buffer_bytes(shape), 0);
    }

    /// Zeros stand for what has not arrived.
    fn fill_up_to(&mut self, bytes: usize) {
        self.buffer.resize(self.buffer.len().max(bytes), 0);
    }

    /// The place of a chunk that has not arrived, in which nothing waits.
    fn free_place(&self) -> Option<usize> {
        let taken: SymbolSet = self.held.iter().map(|held| usize::from(held.place)).collect();
        (SymbolSet::chunks_of(self.shape) - self.arrived - taken).lowest()
    }

    /// Moves the repair symbol that waits in the place of a chunk, if any. The chunk fills that place: only the last one may
    /// be shorter, and its place is taken last, by the symbol that makes them enough.
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
    }

    fn decode_if_enough(&mut self) {
        let count = self.shape.chunk_count();
        if self.held.is_empty() || self.arrived.len() + self.held.len() < count {
            return;
        }
        self.held.sort_unstable_by_key(|held| held.place);
        let symbols: SmallVec<[u8; 8]> = self.held.iter().map(|held| held.symbol).collect();
        let (chunk_bytes, arrived) = (self.shape.chunk_bytes, self.arrived.as_bits());
        fec::decode(&mut self.buffer, chunk_bytes, count, arrived, &symbols);
        self.arrived = SymbolSet::first(count);
        self.recovered = symbols.len() as u8;
        self.held.clear();
    }

    /// Symbols that are missing.
    #[must_use]
    pub(crate) fn missing(&self) -> usize {
        self.shape.chunk_count() - self.arrived.len() - self.held.len()
    }

    /// The first chunk that is missing.
    #[must_use]
    pub fn first_missing(&self) -> usize {
        self.arrived.lowest_missing()
    }

    /// Bytes in front of the first chunk that is missing.
    #[must_use]
    pub fn bytes_in_order(&self) -> usize {
        (self.first_missing() * self.shape.chunk_bytes).min(self.shape.message_bytes)
    }

    /// Whether every chunk is there.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.arrived == SymbolSet::chunks_of(self.shape)
    }

    /// Chunks that were computed instead of received.
    #[must_use]
    pub fn recovered(&self) -> u8 {
        self.recovered
    }

    /// The shape in force.
    #[must_use]
    pub(crate) fn shape(&self) -> Shape {
        self.shape
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
        self.buffer.freeze()
    }
}

/// Which segmentation of a message a symbol belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Segmentation {
    /// The one that holds.
    Current,
    /// One with larger chunks.
    Earlier,
}

/// Room for the chunks, padded to whole ones if repair symbols may come.
pub(crate) fn buffer_bytes(shape: Shape) -> usize {
    if shape.is_codable() {
        shape.chunk_count() * shape.chunk_bytes
    } else {
        shape.message_bytes
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
            let buffer = reassembly.buffer.capacity();
            let mut seen = std::collections::BTreeSet::new();
            for pick in picks.into_iter().chain(0..=255) {
                let complete = seen.len() >= count;
                prop_assert_eq!(reassembly.is_complete(), complete);
                prop_assert_eq!(reassembly.missing(), count.saturating_sub(seen.len()));
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
            prop_assert_eq!(reassembly.buffer.capacity(), buffer, "symbols wait in place");
            prop_assert_eq!(&reassembly.into_message()[..], &message[..]);
        }
    }

    proptest! {
        /// Chunks and repair symbols of several cuts, mixed: the message is right, and with all chunks
        /// of the last segmentation it is there.
        // ARQ-MSG-6
        #[test]
        fn a_message_may_be_cut_anew_on_its_way(
            len in 3_000..=MAX_MESSAGE_BYTES,
            sizes in prop::collection::vec(512_usize..9_000, 2..4),
            picks in prop::collection::vec((any::<u8>(), any::<u8>()), 0..400),
        ) {
            let message: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            let shapes: Vec<Shape> = sizes
                .iter()
                .map(|&size| chunk(&message, len.div_ceil(len.div_ceil(size)).max(512), 0).shape())
                .collect();
            let mut reassembly = Reassembly::new(shapes[0]);
            let insert = |reassembly: &mut Reassembly, shape: Shape, pick: u8| {
                let index = usize::from(pick & 127);
                if pick >= 128 && shape.is_codable() {
                    let mut data = Vec::new();
                    fec::encode(&message, shape.chunk_bytes, index, &mut data);
                    let lane = LaneId::all().next().unwrap();
                    let repair = RepairFrame { lane, seq: 0, shape, index, data: &data };
                    reassembly.insert_repair(&repair).unwrap();
                } else {
                    let index = index % shape.chunk_count();
                    reassembly.insert(&chunk(&message, shape.chunk_bytes, index)).unwrap();
                }
            };
            for (which, pick) in picks {
                let shape = shapes[usize::from(which) % shapes.len()];
                insert(&mut reassembly, shape, pick);
                if reassembly.is_complete() {
                    break;
                }
            }
            let last = *shapes.iter().min_by_key(|shape| shape.chunk_bytes).unwrap();
            for index in 0..last.chunk_count() {
                if !reassembly.is_complete() {
                    insert(&mut reassembly, last, index as u8);
                }
            }
            prop_assert!(reassembly.is_complete());
            prop_assert_eq!(&reassembly.into_message()[..], &message[..]);
        }
    }

    // ARQ-MSG-6
    #[test]
    fn what_is_there_survives_resegmentation() {
        let message: Vec<u8> = (0..9_000).map(|n| (n % 251) as u8).collect();
        let mut reassembly = Reassembly::new(chunk(&message, 3_000, 0).shape());
        assert_eq!(reassembly.insert(&chunk(&message, 3_000, 0)), Ok(true));
        assert_eq!(reassembly.insert(&chunk(&message, 1_000, 2)), Ok(false), "there already");
        assert_eq!(reassembly.insert(&chunk(&message, 1_000, 3)), Ok(true));
        assert_eq!(reassembly.bytes_in_order(), 4_000);
        assert_eq!(reassembly.insert(&chunk(&message, 3_000, 2)), Ok(true), "late, but of use");
        assert_eq!(reassembly.insert(&chunk(&message, 3_000, 2)), Ok(false));
        assert_eq!(reassembly.insert(&chunk(&message, 1_000, 4)), Ok(true));
        assert_eq!(reassembly.insert(&chunk(&message, 9_000, 0)), Ok(true), "all of it");
        assert_eq!(&reassembly.into_message()[..], &message[..]);
    }

    // ARQ-MSG-4
    #[test]
    fn chunks_that_disagree_are_refused() {
        let message = [1; 2_000];
        let mut reassembly = Reassembly::new(chunk(&message, 1_000, 0).shape());
        let other = chunk(&message[..1_999], 1_000, 0);
        assert_eq!(reassembly.insert(&other), Err(Violation::MessageShape));
        let (lane, shape) = (other.lane, other.shape());
        let repair = RepairFrame { lane, seq: 0, shape, index: 0, data: other.data };
        assert_eq!(reassembly.insert_repair(&repair), Err(Violation::MessageShape));
    }
}
