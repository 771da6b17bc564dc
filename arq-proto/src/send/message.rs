// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What is still unsent, in flight or lost of one message: one bit a symbol.
//!
//! What follows from it is decided in [`redundancy`](crate::redundancy), and carried out here. Repair symbols leave in
//! the order of their indices, each once; then lost chunks are sent again.

mod resegment;
mod silent;

use std::time::Instant;

use bytes::Bytes;
use smallvec::{smallvec, SmallVec};

use crate::{
    redundancy::{
        ahead,
        repair::{self, Addition, Out, Target},
    },
    symbol::{Symbol, SymbolSet},
    units::{LaneId, MessageSeq},
    wire::{
        frame::{ChunkFrame, Shape},
        MAX_CHUNKS, MAX_REPAIR_SYMBOLS, MIN_CHUNK_BYTES,
    },
};

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
    /// Chunk sizes of earlier segmentations, the first one first.
    earlier_chunk_bytes: SmallVec<[usize; 2]>,
    /// Chunks to be sent: new ones and lost ones.
    to_send: SymbolSet,
    copies: Copies,
    sent_once: SymbolSet,
    acked: SymbolSet,
    /// Chunks of which a transmission may still arrive, and how many may.
    in_flight: SymbolSet,
    outstanding: SmallVec<[u8; 64]>,
    /// Chunks sent again after a loss: those in flight that are none of them left in the first round.
    sent_again: SymbolSet,
    repairs: Repairs,
    /// How often the only chunk of a small message was bundled into later packets.
    bundled: u8,
    /// What was sent of it left on another path as well, at once.
    is_doubled: bool,
}

/// Chunks to be sent again when those that are to be sent have left, and how often.
#[derive(Debug, Default)]
struct Copies {
    chunks: SymbolSet,
    rounds: u8,
}

/// The repair symbols of a message, each of which is sent once.
#[derive(Debug, Default)]
struct Repairs {
    /// To be sent, and sent: they leave in the order of their indices.
    due: u8,
    sent: u8,
    in_flight: SymbolSet,
    acked: SymbolSet,
    /// The first so many are sent ahead of any loss: they belong to the first round.
    parity: u8,
}

/// What the lane may need to know of the sending of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// A chunk of so many bytes, for the first time.
    New(usize),
    /// A chunk that was sent before.
    Again,
    /// A repair symbol ahead of any loss.
    Parity,
    /// A repair symbol after a loss.
    Repair,
}

impl Sent {
    /// Whether it belongs to a message's first round.
    pub(crate) fn is_of_first_round(self) -> bool {
        matches!(self, Self::New(_) | Self::Parity)
    }
}

impl Message {
    pub(crate) fn new(data: Bytes, now: Instant, expires_at: Option<Instant>) -> Self {
        Self {
            data,
            queued_at: now,
            expires_at,
            chunk_bytes: 0,
            earlier_chunk_bytes: SmallVec::new(),
            to_send: SymbolSet::first(1),
            copies: Copies::default(),
            sent_once: SymbolSet::EMPTY,
            acked: SymbolSet::EMPTY,
            in_flight: SymbolSet::EMPTY,
            outstanding: SmallVec::new(),
            sent_again: SymbolSet::EMPTY,
            repairs: Repairs::default(),
            bundled: 0,
            is_doubled: false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.chunk_bytes != 0
    }

    /// Segments the message: into as few chunks as fit `max_chunk_bytes`, all about equal, so that no
    /// small last one takes a packet of its own and segmentation offload has equal segments. May be
    /// repeated until the first chunk has left.
    pub(crate) fn begin(&mut self, max_chunk_bytes: usize) {
        debug_assert!(self.sent_once.is_empty());
        self.chunk_bytes = chunk_bytes_for(self.len(), max_chunk_bytes);
        let count = self.chunk_count();
        debug_assert!(count <= MAX_CHUNKS);
        self.to_send = SymbolSet::first(count);
        self.outstanding = smallvec![0; count];
    }

    /// How it is segmented.
    pub(crate) fn shape(&self) -> Shape {
        Shape { message_bytes: self.len(), chunk_bytes: self.chunk_bytes }
    }

    fn chunk_count(&self) -> usize {
        self.shape().chunk_count()
    }

    fn all_chunks(&self) -> SymbolSet {
        SymbolSet::chunks_of(self.shape())
    }

    /// The next symbol to send, if any.
    pub(crate) fn next_symbol(&self) -> Option<Symbol> {
        if let Some(index) = self.to_send.lowest() {
            // At most 128 chunks.
            Some(Symbol::Source(index as u8))
        } else {
            (self.repairs.due > 0).then_some(Symbol::Repair(self.repairs.sent))
        }
    }

    /// Length of a chunk, in bytes.
    pub(crate) fn chunk_len(&self, index: usize) -> usize {
        self.chunk_bytes.min(self.len() - index * self.chunk_bytes)
    }

    /// Bytes that the frame of a symbol takes in a packet.
    pub(crate) fn frame_len(&self, seq: MessageSeq, symbol: Symbol) -> usize {
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
    pub(crate) fn chunk(&self, lane: LaneId, seq: MessageSeq, index: usize) -> ChunkFrame<'_> {
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
                self.repairs.due -= 1;
                self.repairs.sent = index + 1;
                self.repairs.in_flight.insert(index.into());
                if index < self.repairs.parity {
                    Sent::Parity
                } else {
                    Sent::Repair
                }
            }
        }
    }

    fn on_chunk_sent(&mut self, index: usize) -> Sent {
        self.to_send.remove(index);
        self.begin_next_copies();
        let again = self.sent_once.contains(index);
        self.sent_once.insert(index);
        self.in_flight.insert(index);
        self.outstanding[index] = self.outstanding[index].saturating_add(1);
        if again {
            self.sent_again.insert(index);
            Sent::Again
        } else {
            Sent::New(self.chunk_len(index))
        }
    }

    /// How often a message of one chunk left, if each of these transmissions may still arrive and none is a repair.
    pub(crate) fn unacked_sendings(&self) -> Option<u8> {
        let sendings = self.bundled.saturating_add(1);
        let untouched = (self.acked | self.to_send | self.sent_again).is_empty();
        (untouched && self.outstanding.as_slice() == [sendings]).then_some(sendings)
    }

    /// Whether it has one chunk, which has left and is not to be sent by itself.
    pub(crate) fn may_repeat(&self) -> bool {
        let has_left = self.is_sent_once() && self.to_send.is_empty();
        has_left && self.chunk_count() == 1
    }

    /// The only chunk left in a later packet with others.
    pub(crate) fn on_bundled(&mut self) {
        if let [outstanding] = self.outstanding.as_mut_slice() {
            *outstanding = outstanding.saturating_add(1);
            self.bundled = self.bundled.saturating_add(1);
            // All transmissions before may have been lost.
            self.in_flight.insert(0);
        }
    }

    /// What leaves on another path beside `symbol`: a repair symbol of its own, since any that arrive complete the message,
    /// or the same again. `None`: that is not needed any more.
    pub(crate) fn next_double(&self, symbol: Symbol, coding: bool) -> Option<Symbol> {
        let Symbol::Source(index) = symbol else { return None };
        if self.is_delivered() || self.acked.contains(index.into()) {
            return None;
        }
        let unused = usize::from(self.repairs.sent + self.repairs.due) < MAX_REPAIR_SYMBOLS;
        let codes = coding && self.shape().is_codable() && unused;
        Some(if codes { Symbol::Repair(self.repairs.sent) } else { symbol })
    }

    /// The [next double](Self::next_double) left.
    pub(crate) fn on_doubled(&mut self, symbol: Symbol) {
        self.is_doubled = true;
        match (symbol, self.outstanding.as_mut_slice()) {
            (Symbol::Repair(index), _) => {
                self.repairs.sent = index + 1;
                self.repairs.in_flight.insert(index.into());
            }
            (Symbol::Source(_), [_]) => self.on_bundled(),
            (Symbol::Source(index), outstanding) => {
                let count = &mut outstanding[usize::from(index)];
                *count = count.saturating_add(1);
                self.in_flight.insert(index.into());
            }
        }
    }

    /// Whether it left on two paths at once.
    pub(crate) fn is_doubled(&self) -> bool {
        self.is_doubled
    }

    /// Whether this chunk has not left yet.
    pub(crate) fn is_new(&self, symbol: Symbol) -> bool {
        matches!(symbol, Symbol::Source(index) if !self.sent_once.contains(index.into()))
    }

    /// Whether it is sent in place of something that was lost.
    pub(crate) fn repeats(&self, symbol: Symbol) -> bool {
        match symbol {
            Symbol::Source(index) => self.sent_once.contains(index.into()),
            Symbol::Repair(index) => index >= self.repairs.parity,
        }
    }

    /// A symbol arrived; `segmentation` is [`segmentation`](Self::segmentation) at its sending.
    pub(crate) fn on_acked(&mut self, segmentation: u8, symbol: Symbol) {
        if segmentation != self.segmentation() {
            return self.on_earlier_acked(segmentation, symbol);
        }
        if self.was_given_up(symbol) {
            // It has arrived after all: one symbol less is needed in its place.
            self.repairs.due = self.repairs.due.saturating_sub(1);
        }
        match symbol {
            Symbol::Source(index) => {
                self.acked.insert(index.into());
                self.to_send -= self.acked;
                self.forget_transmission(index.into());
            }
            Symbol::Repair(index) => {
                self.repairs.acked.insert(index.into());
                self.repairs.in_flight.remove(index.into());
            }
        }
        self.stop_if_delivered();
    }

    /// A round of copies begins when what is left of the one before has left, or has arrived.
    fn begin_next_copies(&mut self) {
        while self.to_send.is_empty() && self.copies.rounds > 0 {
            self.copies.rounds -= 1;
            self.to_send = self.copies.chunks - self.acked;
        }
    }

    fn stop_if_delivered(&mut self) {
        if self.is_delivered() {
            self.to_send = SymbolSet::EMPTY;
            self.copies.rounds = 0;
            self.repairs.due = 0;
        }
        self.begin_next_copies();
    }

    fn was_given_up(&self, symbol: Symbol) -> bool {
        match symbol {
            Symbol::Source(index) => self.lost().contains(index.into()),
            Symbol::Repair(index) => {
                !(self.repairs.in_flight | self.repairs.acked).contains(index.into())
            }
        }
    }

    /// A transmission was lost. Those of an earlier segmentation are as good as lost since then.
    pub(crate) fn on_lost(&mut self, segmentation: u8, symbol: Symbol) {
        if segmentation != self.segmentation() {
            return;
        }
        match symbol {
            Symbol::Source(index) => self.forget_transmission(index.into()),
            Symbol::Repair(index) => self.repairs.in_flight.remove(index.into()),
        }
    }

    fn forget_transmission(&mut self, index: usize) {
        let count = &mut self.outstanding[index];
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.in_flight.remove(index);
        }
    }

    /// Chunks that were sent, did not arrive as far as we know, and will not.
    fn lost(&self) -> SymbolSet {
        self.sent_once - (self.acked | self.in_flight | self.to_send)
    }

    /// Symbols without which the receiver cannot complete the message.
    fn missing(&self) -> usize {
        self.chunk_count().saturating_sub(self.acked.len() + self.repairs.acked.len())
    }

    /// Symbols that may still arrive, those to be sent included.
    fn expected(&self) -> usize {
        let chunks = (self.in_flight | self.to_send) - self.acked;
        chunks.len() + self.repairs.in_flight.len() + usize::from(self.repairs.due)
    }

    /// Those of them that belong to the first round.
    fn expected_of_first_round(&self) -> usize {
        let again = self.sent_again | (self.to_send & self.sent_once);
        let chunks = (self.in_flight | self.to_send) - (self.acked | again);
        let Repairs { due, sent, in_flight, parity, .. } = self.repairs;
        let parity_in_flight = in_flight & SymbolSet::first(parity.into());
        let parity_due = due.min(parity.saturating_sub(sent));
        chunks.len() + parity_in_flight.len() + usize::from(parity_due)
    }

    /// Whether the sending of `symbol` ends the first round.
    pub(crate) fn is_last_of_first_round(&self, symbol: Symbol) -> bool {
        let Symbol::Source(index) = symbol else { return false };
        self.all_chunks() - self.sent_once == SymbolSet::only(index.into())
    }

    /// What is out of it. The message has begun.
    pub(crate) fn out(&self) -> Out {
        let outstanding = self.outstanding.first().copied().unwrap_or(0);
        Out {
            shape: self.shape(),
            missing: self.missing(),
            expected: self.expected(),
            expected_of_first_round: self.expected_of_first_round(),
            in_flight: self.symbols_in_flight(),
            lost: self.lost().len(),
            unused: MAX_REPAIR_SYMBOLS - usize::from(self.repairs.sent + self.repairs.due),
            lost_sendings: self.bundled.saturating_add(1).saturating_sub(outstanding),
            is_repaired: !(self.sent_again | self.to_send).is_empty(),
            has_left: self.is_sent_once() && self.to_send.is_empty(),
            is_heard_of: !(self.acked.is_empty() && self.repairs.acked.is_empty()),
        }
    }

    /// Ahead of any loss, or as far as it is known: sends so many symbols more than are missing.
    pub(crate) fn protect(&mut self, parity: usize) {
        if parity > 0 && !self.is_delivered() {
            self.add(ahead::addition(&self.out(), parity));
            self.repairs.parity = self.repairs.sent + self.repairs.due;
        }
    }

    /// After losses: sends what is to be sent in their place.
    pub(crate) fn repair(&mut self, target: Target) {
        self.add(repair::after_loss(&self.out(), target));
    }

    /// The ACK that would have told of the first round is lost: sends up to `most` repair symbols. Returns how many.
    pub(crate) fn on_ack_lost(&mut self, target: Target, most: usize) -> usize {
        let symbols = repair::after_lost_ack(&self.out(), target, most);
        self.add(Addition::Coded { symbols, and_lost: false });
        symbols
    }

    /// These symbols in flight are on a path that is silent, and may still arrive: sends others in their place.
    pub(crate) fn on_silence(&mut self, silent: &[Symbol], coding: bool) {
        if self.is_doubled {
            // The others do not wait for these: as long as they are out, they suffice.
            let segmentation = self.segmentation();
            silent.iter().for_each(|symbol| self.on_lost(segmentation, *symbol));
            return self.add(repair::instead_of(&self.out(), 0, coding));
        }
        match repair::instead_of(&self.out(), silent.len(), coding) {
            // Which chunks are on which path is not known. These are few. Repair symbols may stand in for lost ones.
            Addition::Unacked(times) => {
                self.copy((self.in_flight - self.acked) | self.lost(), times);
            }
            addition => self.add(addition),
        }
    }

    /// Sends so much beside what is out.
    pub(crate) fn add(&mut self, addition: Addition) {
        match addition {
            Addition::Nothing => {}
            Addition::Unacked(times) => self.copy(self.all_chunks() - self.acked, times),
            Addition::Lost(times) => self.copy(self.lost(), times),
            Addition::Coded { symbols, and_lost } => {
                // At most 128.
                self.repairs.due += symbols as u8;
                if and_lost {
                    self.to_send |= self.lost();
                }
            }
        }
    }

    /// These chunks are sent so many times, one after the other.
    fn copy(&mut self, chunks: SymbolSet, times: usize) {
        if chunks.is_empty() {
            // Copies that are still to leave are not called back.
            return;
        }
        self.to_send |= chunks;
        // The first round is in `to_send`.
        let rounds = times.saturating_sub(1).min(usize::from(u8::MAX)) as u8;
        self.copies = Copies { chunks, rounds };
    }

    /// Symbols of which a transmission may still arrive.
    pub(crate) fn symbols_in_flight(&self) -> usize {
        self.in_flight.len() + self.repairs.in_flight.len()
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.next_symbol().is_none()
    }

    /// Whether every chunk has left at least once.
    pub(crate) fn is_sent_once(&self) -> bool {
        self.has_begun() && self.sent_once == self.all_chunks()
    }

    /// Whether the receiver has the message, or all that it takes to compute it.
    pub(crate) fn is_delivered(&self) -> bool {
        self.has_begun() && self.missing() == 0
    }

    /// Bytes that have not left for the first time.
    pub(crate) fn unsent_bytes(&self) -> usize {
        if !self.has_begun() {
            return self.len();
        }
        let unsent = self.all_chunks() - self.sent_once;
        unsent.iter().map(|index| self.chunk_len(index)).sum()
    }
}

/// The chunk size that makes as few chunks as fit `max` bytes, all about equal.
fn chunk_bytes_for(len: usize, max: usize) -> usize {
    let least = usize::from(MIN_CHUNK_BYTES);
    match len.div_ceil(max.max(least)) {
        1 => len,
        count => len.div_ceil(count).max(least),
    }
}

#[cfg(test)]
mod tests;
