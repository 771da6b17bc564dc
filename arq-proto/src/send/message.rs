// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What is still unsent, in flight or lost of one message: one bit a chunk.

use std::time::Instant;

use bytes::Bytes;
use smallvec::{smallvec, SmallVec};

use crate::wire::{frame::ChunkFrame, MAX_CHUNKS, MIN_CHUNK_BYTES};

/// A message on its way.
#[derive(Debug)]
pub(crate) struct Message {
    data: Bytes,
    /// When the application handed it over.
    pub(crate) queued_at: Instant,
    /// When to give it up.
    pub(crate) expires_at: Option<Instant>,
    /// Zero until the first chunk is sent: the size in force then holds for all of them.
    chunk_bytes: usize,
    /// Chunks to be sent: new ones and lost ones.
    to_send: u128,
    sent_once: u128,
    acked: u128,
    /// Transmissions of each chunk that may still arrive.
    outstanding: SmallVec<[u8; 64]>,
}

/// What the lane may need to know of the sending of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkSent {
    pub(crate) bytes: usize,
    pub(crate) retransmission: bool,
}

impl Message {
    pub(crate) fn new(data: Bytes, now: Instant, expires_at: Option<Instant>) -> Self {
        Self {
            data,
            queued_at: now,
            expires_at,
            chunk_bytes: 0,
            to_send: 1,
            sent_once: 0,
            acked: 0,
            outstanding: SmallVec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.chunk_bytes != 0
    }

    /// Cuts the message: into as few chunks as fit `max_chunk_bytes`, all about equal, so that no
    /// small last one takes a packet of its own and segmentation offload has equal segments. May be
    /// repeated until the first chunk has left.
    pub(crate) fn begin(&mut self, max_chunk_bytes: usize) {
        debug_assert_eq!(self.sent_once, 0);
        let max = max_chunk_bytes.max(MIN_CHUNK_BYTES.into());
        let count = self.len().div_ceil(max);
        self.chunk_bytes = if count == 1 {
            self.len()
        } else {
            self.len().div_ceil(count).max(MIN_CHUNK_BYTES.into())
        };
        let count = self.chunk_count();
        debug_assert!(count <= MAX_CHUNKS);
        self.to_send = lowest_bits(count);
        self.outstanding = smallvec![0; count];
    }

    fn chunk_count(&self) -> usize {
        self.len().div_ceil(self.chunk_bytes)
    }

    /// The next chunk to send, if any.
    pub(crate) fn next_index(&self) -> Option<usize> {
        (self.to_send != 0).then(|| self.to_send.trailing_zeros() as usize)
    }

    /// Length of a chunk, in bytes.
    pub(crate) fn chunk_len(&self, index: usize) -> usize {
        self.chunk_bytes.min(self.len() - index * self.chunk_bytes)
    }

    /// Bytes that the frame of a chunk takes in a packet.
    pub(crate) fn frame_len(&self, seq: u64, index: usize) -> usize {
        ChunkFrame::overhead(seq, self.len(), self.chunk_bytes, index) + self.chunk_len(index)
    }

    /// What the frame of a chunk says.
    pub(crate) fn chunk(&self, lane: crate::LaneId, seq: u64, index: usize) -> ChunkFrame<'_> {
        let start = index * self.chunk_bytes;
        ChunkFrame {
            lane,
            seq,
            message_bytes: self.len(),
            chunk_bytes: self.chunk_bytes,
            index,
            data: &self.data[start..start + self.chunk_len(index)],
        }
    }

    pub(crate) fn on_sent(&mut self, index: usize) -> ChunkSent {
        let bit = 1 << index;
        self.to_send &= !bit;
        let retransmission = self.sent_once & bit != 0;
        self.sent_once |= bit;
        self.outstanding[index] = self.outstanding[index].saturating_add(1);
        ChunkSent { bytes: self.chunk_len(index), retransmission }
    }

    pub(crate) fn on_acked(&mut self, index: usize) {
        let bit = 1 << index;
        self.acked |= bit;
        self.to_send &= !bit;
        self.forget_transmission(index);
    }

    /// A transmission was lost: the chunk is to be sent again, unless another one may yet arrive.
    /// Tells whether it is.
    pub(crate) fn on_lost(&mut self, index: usize) -> bool {
        let bit = 1 << index;
        if self.forget_transmission(index) > 0 || self.acked & bit != 0 {
            return false;
        }
        self.to_send |= bit;
        true
    }

    fn forget_transmission(&mut self, index: usize) -> u8 {
        let count = &mut self.outstanding[index];
        *count = count.saturating_sub(1);
        *count
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.has_begun() && self.to_send == 0
    }

    /// Whether every chunk has left at least once.
    pub(crate) fn is_sent_once(&self) -> bool {
        self.has_begun() && self.sent_once == lowest_bits(self.chunk_count())
    }

    pub(crate) fn is_acked(&self) -> bool {
        self.has_begun() && self.acked == lowest_bits(self.chunk_count())
    }

    /// Bytes that have not left for the first time.
    pub(crate) fn unsent_bytes(&self) -> usize {
        if !self.has_begun() {
            return self.len();
        }
        let unsent = lowest_bits(self.chunk_count()) & !self.sent_once;
        (0..self.chunk_count())
            .filter(|index| unsent >> index & 1 == 1)
            .map(|index| self.chunk_len(index))
            .sum()
    }
}

/// A mask of the lowest `count` bits, `count <= 128`.
pub(crate) const fn lowest_bits(count: usize) -> u128 {
    if count >= 128 {
        u128::MAX
    } else {
        (1 << count) - 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::MAX_MESSAGE_BYTES;

    fn message(len: usize, max_chunk: usize) -> Message {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let now = Instant::now();
        let mut message = Message::new(Bytes::from(vec![7; len]), now, None);
        message.begin(max_chunk);
        message
    }

    proptest! {
        // ARQ-MSG-1
        #[test]
        fn chunks_cover_the_message(len in 1..=MAX_MESSAGE_BYTES, max_chunk in 512_usize..9_000) {
            let mut message = message(len, max_chunk);
            let mut covered = 0;
            while let Some(index) = message.next_index() {
                prop_assert!(message.chunk_len(index) <= max_chunk.max(len.min(512)));
                covered += message.on_sent(index).bytes;
            }
            prop_assert_eq!(covered, len);
            prop_assert!(message.is_sent_once() && message.unsent_bytes() == 0);
        }
    }

    // ARQ-LOS-4, ARQ-LOS-5
    #[test]
    fn a_chunk_is_repeated_only_when_no_transmission_of_it_is_left() {
        let mut message = message(1_000, 512);
        assert!(!message.on_sent(0).retransmission);
        message.on_sent(1);
        assert!(message.on_lost(0));
        assert_eq!(message.next_index(), Some(0));
        assert!(message.on_sent(0).retransmission);
        // A second copy, as a probe sends it.
        message.on_sent(0);
        assert!(!message.on_lost(0), "the other copy may arrive");
        message.on_acked(0);
        assert!(!message.on_lost(0), "it has arrived");
        message.on_acked(1);
        assert!(message.is_acked());
    }
}
