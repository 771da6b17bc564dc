// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What is still unsent, in flight or lost of one message: one bit a symbol.

use std::time::Instant;

use bytes::Bytes;
use smallvec::{smallvec, SmallVec};

use crate::{
    fec::MAX_REPAIR_SYMBOLS,
    recovery::confidence::Confidence,
    wire::{
        frame::{ChunkFrame, Shape},
        MAX_CHUNKS, MIN_CHUNK_BYTES,
    },
};

/// What one frame carries of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Symbol {
    /// The chunk with this index.
    Source(u8),
    /// The repair symbol with this index.
    Repair(u8),
}

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
    /// Chunks to be sent again when `to_send` is done, and how often.
    copies: u128,
    copy_rounds: u8,
    sent_once: u128,
    acked: u128,
    /// Chunks of which a transmission may still arrive, and how many may.
    in_flight: u128,
    outstanding: SmallVec<[u8; 64]>,
    /// Repair symbols: to be sent, sent, in flight, acknowledged. Each is sent once.
    repairs_due: u8,
    repairs_sent: u8,
    repairs_in_flight: u128,
    repairs_acked: u128,
}

/// A deficit up to this is repaired by copies, which cost no coding.
const MAX_COPIED: usize = 2;

/// What the lane may need to know of the sending of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// A chunk of so many bytes, for the first time.
    New(usize),
    /// A chunk that was sent before.
    Again,
    /// A repair symbol.
    Repair,
}

impl Message {
    pub(crate) fn new(data: Bytes, now: Instant, expires_at: Option<Instant>) -> Self {
        Self {
            data,
            queued_at: now,
            expires_at,
            chunk_bytes: 0,
            to_send: 1,
            copies: 0,
            copy_rounds: 0,
            sent_once: 0,
            acked: 0,
            in_flight: 0,
            outstanding: SmallVec::new(),
            repairs_due: 0,
            repairs_sent: 0,
            repairs_in_flight: 0,
            repairs_acked: 0,
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

    /// How it was cut.
    pub(crate) fn shape(&self) -> Shape {
        Shape { message_bytes: self.len(), chunk_bytes: self.chunk_bytes }
    }

    fn chunk_count(&self) -> usize {
        self.shape().chunk_count()
    }

    /// The next symbol to send, if any.
    pub(crate) fn next_symbol(&self) -> Option<Symbol> {
        if self.to_send != 0 {
            // At most 128 chunks.
            Some(Symbol::Source(self.to_send.trailing_zeros() as u8))
        } else {
            (self.repairs_due > 0).then_some(Symbol::Repair(self.repairs_sent))
        }
    }

    /// Length of a chunk, in bytes.
    pub(crate) fn chunk_len(&self, index: usize) -> usize {
        self.chunk_bytes.min(self.len() - index * self.chunk_bytes)
    }

    /// Bytes that the frame of a symbol takes in a packet.
    pub(crate) fn frame_len(&self, seq: u64, symbol: Symbol) -> usize {
        let (index, len) = match symbol {
            Symbol::Source(index) => (index, self.chunk_len(index.into())),
            Symbol::Repair(index) => (index, self.chunk_bytes),
        };
        ChunkFrame::overhead(seq, self.len(), self.chunk_bytes, index.into()) + len
    }

    /// The message's bytes.
    pub(crate) fn data(&self) -> &[u8] {
        &self.data
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

    pub(crate) fn on_sent(&mut self, symbol: Symbol) -> Sent {
        match symbol {
            Symbol::Source(index) => self.on_chunk_sent(index.into()),
            Symbol::Repair(index) => {
                self.repairs_due -= 1;
                self.repairs_sent = index + 1;
                self.repairs_in_flight |= 1 << index;
                Sent::Repair
            }
        }
    }

    fn on_chunk_sent(&mut self, index: usize) -> Sent {
        let bit = 1 << index;
        self.to_send &= !bit;
        if self.to_send == 0 && self.copy_rounds > 0 {
            self.copy_rounds -= 1;
            self.to_send = self.copies & !self.acked;
        }
        let again = self.sent_once & bit != 0;
        self.sent_once |= bit;
        self.in_flight |= bit;
        self.outstanding[index] = self.outstanding[index].saturating_add(1);
        if again {
            Sent::Again
        } else {
            Sent::New(self.chunk_len(index))
        }
    }

    pub(crate) fn on_acked(&mut self, symbol: Symbol) {
        if self.was_given_up(symbol) {
            // It has arrived after all: one symbol less is needed in its place.
            self.repairs_due = self.repairs_due.saturating_sub(1);
        }
        match symbol {
            Symbol::Source(index) => {
                self.acked |= 1 << index;
                self.to_send &= !self.acked;
                self.forget_transmission(index.into());
            }
            Symbol::Repair(index) => {
                self.repairs_acked |= 1 << index;
                self.repairs_in_flight &= !self.repairs_acked;
            }
        }
        if self.is_delivered() {
            self.to_send = 0;
            self.copy_rounds = 0;
            self.repairs_due = 0;
        }
    }

    fn was_given_up(&self, symbol: Symbol) -> bool {
        match symbol {
            Symbol::Source(index) => self.lost() >> index & 1 == 1,
            Symbol::Repair(index) => {
                (self.repairs_in_flight | self.repairs_acked) >> index & 1 == 0
            }
        }
    }

    /// A transmission was lost.
    pub(crate) fn on_lost(&mut self, symbol: Symbol) {
        match symbol {
            Symbol::Source(index) => self.forget_transmission(index.into()),
            Symbol::Repair(index) => self.repairs_in_flight &= !(1 << index),
        }
    }

    fn forget_transmission(&mut self, index: usize) {
        let count = &mut self.outstanding[index];
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.in_flight &= !(1 << index);
        }
    }

    /// Chunks that were sent, did not arrive as far as we know, and will not.
    fn lost(&self) -> u128 {
        self.sent_once & !(self.acked | self.in_flight | self.to_send)
    }

    /// Symbols without which the receiver cannot complete the message.
    fn deficit(&self) -> usize {
        let arrived = self.acked.count_ones() + self.repairs_acked.count_ones();
        self.chunk_count().saturating_sub(arrived as usize)
    }

    /// Symbols that may still arrive, those to be sent included.
    fn expected(&self) -> usize {
        let chunks = (self.in_flight | self.to_send) & !self.acked;
        let repairs = self.repairs_in_flight.count_ones() + u32::from(self.repairs_due);
        (chunks.count_ones() + repairs) as usize
    }

    /// Whether the sending of `symbol` ends the first round.
    pub(crate) fn is_last_of_first_round(&self, symbol: Symbol) -> bool {
        let Symbol::Source(index) = symbol else { return false };
        lowest_bits(self.chunk_count()) & !self.sent_once == 1 << index
    }

    /// Before any loss is known, or as far as it is: sends so many symbols more than the deficit.
    /// A message that cannot be coded is sent again as a whole, so many times.
    pub(crate) fn protect(&mut self, parity: usize) {
        if parity == 0 || self.is_delivered() {
            return;
        }
        if !self.shape().is_codable() {
            self.to_send = lowest_bits(self.chunk_count()) & !self.acked;
            self.copies = self.to_send;
            self.copy_rounds = (parity - 1).min(usize::from(u8::MAX)) as u8;
            return;
        }
        let wanted = (self.deficit() + parity).saturating_sub(self.expected());
        let left = MAX_REPAIR_SYMBOLS - usize::from(self.repairs_sent + self.repairs_due);
        self.repairs_due += wanted.min(left) as u8;
    }

    /// After losses: sends again what is lost, as a plain ARQ does.
    pub(crate) fn repair_plainly(&mut self) {
        if !self.is_delivered() {
            self.to_send |= self.lost();
        }
    }

    /// After losses: sends as many symbols as make it likely that the message is completed.
    pub(crate) fn repair(&mut self, confidence: Confidence) {
        let deficit = self.deficit();
        let (wanted, expected) = (confidence.symbols_for(deficit), self.expected());
        if deficit == 0 || expected >= wanted {
            return;
        }
        let lost = self.lost();
        let known = lost.count_ones() as usize == deficit;
        if (known && deficit <= MAX_COPIED) || !self.shape().is_codable() {
            self.to_send |= lost;
            self.copies = lost;
            // The first round is in `to_send`.
            self.copy_rounds = if known { (confidence.symbols_for(1) - 1) as u8 } else { 0 };
            return;
        }
        let left = MAX_REPAIR_SYMBOLS - usize::from(self.repairs_sent + self.repairs_due);
        let coded = (wanted - expected).min(left);
        self.repairs_due += coded as u8;
        if expected + coded < deficit {
            // All symbols of the code are used up.
            self.to_send |= lost;
        }
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.has_begun() && self.next_symbol().is_none()
    }

    /// Whether every chunk has left at least once.
    pub(crate) fn is_sent_once(&self) -> bool {
        self.has_begun() && self.sent_once == lowest_bits(self.chunk_count())
    }

    /// Whether the receiver has the message, or all that it takes to compute it.
    pub(crate) fn is_delivered(&self) -> bool {
        self.has_begun() && self.deficit() == 0
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
    use crate::{wire::MAX_MESSAGE_BYTES, Probability};

    fn message(len: usize, max_chunk: usize) -> Message {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let now = Instant::now();
        let mut message = Message::new(Bytes::from(vec![7; len]), now, None);
        message.begin(max_chunk);
        message
    }

    fn confidence(percent: u32) -> Confidence {
        Confidence::new(Probability::from_ppm(percent * 10_000), false)
    }

    /// Sends everything that is to be sent.
    fn send_all(message: &mut Message) -> Vec<Symbol> {
        std::iter::from_fn(|| {
            let symbol = message.next_symbol()?;
            message.on_sent(symbol);
            Some(symbol)
        })
        .collect()
    }

    proptest! {
        // ARQ-MSG-1
        #[test]
        fn chunks_cover_the_message(len in 1..=MAX_MESSAGE_BYTES, max_chunk in 512_usize..9_000) {
            let mut message = message(len, max_chunk);
            let mut covered = 0;
            while let Some(Symbol::Source(index)) = message.next_symbol() {
                let chunk_len = message.chunk_len(index.into());
                prop_assert!(chunk_len <= max_chunk.max(len.min(512)));
                prop_assert_eq!(message.on_sent(Symbol::Source(index)), Sent::New(chunk_len));
                covered += chunk_len;
            }
            prop_assert_eq!(covered, len);
            prop_assert!(message.is_sent_once() && message.unsent_bytes() == 0);
        }

        /// Whatever is lost and acknowledged, in whatever order: something is on its way or to be
        /// sent until the receiver has enough, and then nothing more is sent.
        // ARQ-REP-1
        #[test]
        fn a_message_is_repaired_until_it_can_be_completed(
            len in 1..=MAX_MESSAGE_BYTES,
            percent in 1_u32..50,
            plainly in any::<bool>(),
            fates in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..600),
        ) {
            let mut message = message(len, 1_100);
            let mut in_flight = send_all(&mut message);
            let mut fates = fates.into_iter();
            while !message.is_delivered() {
                prop_assert!(!in_flight.is_empty(), "nothing is on its way");
                // In the end, everything arrives.
                let (at, lost) = fates
                    .next()
                    .map_or((0, false), |(which, lost)| (which.index(in_flight.len()), lost));
                let symbol = in_flight.remove(at);
                if lost {
                    message.on_lost(symbol);
                    if plainly {
                        message.repair_plainly();
                    } else {
                        message.repair(confidence(percent));
                    }
                } else {
                    message.on_acked(symbol);
                }
                in_flight.extend(send_all(&mut message));
            }
            prop_assert_eq!(message.next_symbol(), None);
        }
    }

    // ARQ-LOS-4, ARQ-LOS-5
    #[test]
    fn a_chunk_is_repeated_only_when_no_transmission_of_it_is_left() {
        let mut message = message(1_000, 512);
        let [first, second] = [Symbol::Source(0), Symbol::Source(1)];
        assert_eq!(send_all(&mut message), [first, second]);
        message.on_lost(first);
        message.repair_plainly();
        assert_eq!(message.next_symbol(), Some(first));
        assert_eq!(message.on_sent(first), Sent::Again);
        // A second copy, as a probe sends it.
        message.on_sent(first);
        message.on_lost(first);
        message.repair_plainly();
        assert_eq!(message.next_symbol(), None, "the other copy may arrive");
        message.on_acked(first);
        message.on_lost(first);
        message.repair_plainly();
        assert_eq!(message.next_symbol(), None, "it has arrived");
        message.on_acked(second);
        assert!(message.is_delivered());
    }

    // ARQ-REP-2, ARQ-REP-3
    #[test]
    fn small_deficits_are_copied_and_larger_ones_coded() {
        let mut message = message(10_000, 1_112);
        let sent = send_all(&mut message);
        // One is lost, the rest has arrived: copies of it, one for each round.
        sent[1..].iter().for_each(|&symbol| message.on_acked(symbol));
        message.on_lost(sent[0]);
        message.repair(confidence(10));
        assert_eq!(send_all(&mut message), [sent[0]; 2]);
        message.on_acked(sent[0]);
        assert!(message.is_delivered());

        // Three are lost, six have arrived: five symbols, of which three arrive in 99 of 100 cases.
        let mut message = self::message(10_000, 1_112);
        let sent = send_all(&mut message);
        sent[3..].iter().for_each(|&symbol| message.on_acked(symbol));
        sent[..3].iter().for_each(|&symbol| message.on_lost(symbol));
        message.repair(confidence(10));
        let repairs = send_all(&mut message);
        assert_eq!(repairs, [0, 1, 2, 3, 4].map(Symbol::Repair));
        // One more loss changes nothing: enough are still on their way, with what is known now.
        message.on_acked(repairs[0]);
        message.on_acked(repairs[1]);
        message.on_lost(repairs[2]);
        message.repair(confidence(10));
        assert_eq!(send_all(&mut message), []);
        message.on_acked(repairs[3]);
        assert!(message.is_delivered());
    }

    // ARQ-REP-5
    #[test]
    fn parity_follows_the_chunks_and_covers_what_is_lost_of_them() {
        let mut message = message(10_000, 1_112);
        let sent = send_all(&mut message);
        message.protect(4);
        let parity = send_all(&mut message);
        assert_eq!(parity, [0, 1, 2, 3].map(Symbol::Repair));
        // Two are lost: enough is on its way.
        sent[..2].iter().for_each(|&symbol| message.on_lost(symbol));
        sent[2..].iter().for_each(|&symbol| message.on_acked(symbol));
        message.repair(confidence(10));
        assert_eq!(message.next_symbol(), None);
        parity[..2].iter().for_each(|&symbol| message.on_acked(symbol));
        assert!(message.is_delivered());
    }

    // ARQ-REP-5
    #[test]
    fn a_message_of_one_chunk_is_doubled_instead() {
        let mut message = message(300, 1_112);
        assert!(message.is_last_of_first_round(Symbol::Source(0)));
        assert_eq!(send_all(&mut message), [Symbol::Source(0)]);
        message.protect(1);
        assert_eq!(send_all(&mut message), [Symbol::Source(0)]);
        message.on_lost(Symbol::Source(0));
        message.repair_plainly();
        assert_eq!(message.next_symbol(), None, "the copy may arrive");
    }

    // ARQ-LOS-5
    #[test]
    fn a_loss_that_was_none_takes_its_repair_back() {
        let mut message = message(10_000, 1_112);
        let sent = send_all(&mut message);
        sent.iter().for_each(|&symbol| message.on_lost(symbol));
        message.repair(Confidence::new(Probability::ZERO, true));
        sent[..4].iter().for_each(|&symbol| message.on_acked(symbol));
        assert_eq!(send_all(&mut message).len(), 5, "nine chunks, four of them were late");
    }

    // ARQ-REP-3
    #[test]
    fn the_last_repair_symbol_is_followed_by_copies() {
        let mut message = message(10_000, 1_112);
        let mut sent = send_all(&mut message);
        for _ in 0..40 {
            for symbol in std::mem::take(&mut sent) {
                message.on_lost(symbol);
            }
            message.repair(confidence(10));
            sent = send_all(&mut message);
            assert!(sent.len() >= 9, "{sent:?}");
        }
        assert!(sent.iter().all(|symbol| matches!(symbol, Symbol::Source(_))));
    }
}
