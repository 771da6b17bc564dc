// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Chunks to one message: received straight into the message's buffer, one bit a chunk.

use bytes::Bytes;

use crate::{error::Violation, send::message::lowest_bits, wire::frame::ChunkFrame};

/// A message of which some chunks have arrived.
#[derive(Debug)]
pub struct Reassembly {
    buffer: Vec<u8>,
    chunk_bytes: usize,
    arrived: u128,
}

impl Reassembly {
    /// For the message that `chunk` belongs to. Allocates as much as the frame says, at most
    /// [`MAX_MESSAGE_BYTES`](crate::MAX_MESSAGE_BYTES); the caller checks the credit first.
    #[must_use]
    pub fn new(chunk: &ChunkFrame<'_>) -> Self {
        Self { buffer: vec![0; chunk.message_bytes], chunk_bytes: chunk.chunk_bytes, arrived: 0 }
    }

    fn chunk_count(&self) -> usize {
        self.buffer.len().div_ceil(self.chunk_bytes)
    }

    /// Adds a chunk; `Ok(false)` when it was there already.
    ///
    /// # Errors
    /// The chunk gives the message another length or chunk size than the first one did.
    pub fn insert(&mut self, chunk: &ChunkFrame<'_>) -> Result<bool, Violation> {
        if chunk.message_bytes != self.buffer.len() || chunk.chunk_bytes != self.chunk_bytes {
            return Err(Violation::MessageShape);
        }
        let bit = 1_u128 << chunk.index;
        if self.arrived & bit != 0 {
            return Ok(false);
        }
        let start = chunk.index * self.chunk_bytes;
        self.buffer[start..start + chunk.data.len()].copy_from_slice(chunk.data);
        self.arrived |= bit;
        Ok(true)
    }

    /// The first chunk that is missing.
    #[must_use]
    pub fn first_missing(&self) -> usize {
        self.arrived.trailing_ones() as usize
    }

    /// Whether every chunk has arrived.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.arrived == lowest_bits(self.chunk_count())
    }

    /// Length of the message, in bytes.
    #[must_use]
    pub fn message_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The message.
    #[must_use]
    pub fn into_message(self) -> Bytes {
        debug_assert!(self.is_complete());
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
            let mut reassembly = Reassembly::new(&chunk(&message, chunk_bytes, 0));
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

    // ARQ-MSG-4
    #[test]
    fn chunks_that_disagree_are_refused() {
        let message = [1; 2_000];
        let mut reassembly = Reassembly::new(&chunk(&message, 1_000, 0));
        assert_eq!(reassembly.insert(&chunk(&message, 600, 0)), Err(Violation::MessageShape));
        assert_eq!(
            reassembly.insert(&chunk(&message[..1_999], 1_000, 0)),
            Err(Violation::MessageShape)
        );
    }
}
