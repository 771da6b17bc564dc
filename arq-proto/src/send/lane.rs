// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The messages of one lane, in order, until the peer has them or they are given up.

mod double;
mod expiry;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use bytes::Bytes;
use smallvec::SmallVec;

use super::{
    message::{Message, Sent},
    queue::{Outlet, QueueLimits, Waiting},
};
use crate::{
    fec,
    flow::message_cost,
    histogram::Histogram,
    redundancy::repair::{self, NoAck, Target},
    sent::Content,
    stats::LaneStats,
    symbol::{Symbol, SymbolRef},
    textbook,
    units::{LaneId, MessageSeq, Reliability},
    wire::{
        frame::{Frame, RepairFrame, Shape},
        LANE_MESSAGE_WINDOW,
    },
};

/// The sending side of a lane.
#[derive(Debug)]
pub(crate) struct SendLane {
    id: LaneId,
    /// The number of the first message kept.
    base: MessageSeq,
    messages: VecDeque<Message>,
    /// Most of them at once since the lane was last empty.
    most: usize,
    /// No message below has a symbol to send.
    cursor: MessageSeq,
    /// Messages that have lost symbols since the last [`repair`](SendLane::repair).
    damaged: SmallVec<[MessageSeq; 4]>,
    /// The first message of which no chunk was sent.
    begin: MessageSeq,
    /// Bytes that have not left for the first time.
    unsent_bytes: usize,
    /// Bytes of all messages kept.
    buffered_bytes: usize,
    /// Credit used by messages begun, and granted by the peer; see [`message_cost`].
    credit_used: u64,
    credit: u64,
    /// How long a best-effort message is repaired; `None`: not at all.
    repair_for: Option<Duration>,
    limits: QueueLimits,
    /// Since when the application waits to add a message, until one is taken.
    refused_at: Option<Instant>,
    /// It has heard of room since, and is about to try again.
    is_told: bool,
    /// The next message is a part of what the last one has begun.
    rest_follows: bool,
    /// Since the queue was last empty, something came in parts.
    holds_parts: bool,
    /// The peer should hear that it need not wait for messages below `base`.
    forget_due: bool,
    /// Packets under way that say so.
    forgets_in_flight: u32,
    expired: u64,
    queue_wait: Histogram,
    delivery: Histogram,
}

/// What a message takes beside its bytes: many tiny ones must not fill the memory.
const KEPT_BYTES: usize = size_of::<Message>();
/// An idle lane keeps room for so many at least.
const IDLE_MESSAGES: usize = 16;
/// Bytes that a best-effort lane keeps for repair: it has no credit that would bound them.
const MAX_REPAIRABLE_BYTES: usize = 1 << 20;

/// Whether a lane has something to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// A symbol can leave.
    Ready,
    /// The peer must grant the lane credit, or acknowledge older messages, first.
    NoCredit,
    /// The peer must grant credit to the connection first.
    NoConnectionCredit,
    /// Everything has left.
    Nothing,
}

/// How long a chunk may be, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkLimits {
    /// Of messages that begin.
    pub(crate) new: usize,
    /// Of all: what fits a packet. Messages with longer ones are resegmented.
    pub(crate) most: usize,
    /// Of what is sent again.
    pub(crate) again: usize,
}

impl SendLane {
    pub(crate) fn new(id: LaneId, limits: QueueLimits, repair_for: Option<Duration>) -> Self {
        Self {
            id,
            base: 0,
            messages: VecDeque::new(),
            most: 0,
            cursor: 0,
            damaged: SmallVec::new(),
            begin: 0,
            unsent_bytes: 0,
            buffered_bytes: 0,
            credit_used: 0,
            credit: 0,
            repair_for,
            limits,
            refused_at: None,
            is_told: false,
            rest_follows: false,
            holds_parts: false,
            forget_due: false,
            forgets_in_flight: 0,
            expired: 0,
            queue_wait: Histogram::default(),
            delivery: Histogram::default(),
        }
    }

    fn is_reliable(&self) -> bool {
        self.id.reliability() == Reliability::Reliable
    }

    fn end(&self) -> MessageSeq {
        self.base + self.messages.len() as u64
    }

    /// Whether the lane takes a message now. One is always taken, more only while the queue is short. The path is asked
    /// only where that matters.
    pub(crate) fn has_room(&self, now: Instant, outlet: impl FnOnce() -> Outlet) -> bool {
        if self.unsent_bytes == 0 {
            return true;
        }
        let kept = (self.end() - self.begin) as usize * KEPT_BYTES;
        let waiting = Waiting { bytes: self.unsent_bytes + kept, age: self.oldest_unsent_age(now) };
        if self.limits.admits(waiting) {
            return true;
        }
        let (limits, outlet) = (self.limits, outlet());
        let refused =
            self.refused_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.holds_parts && limits.admits_behind_parts(waiting, outlet)
            || self.rest_follows && limits.admits_rest(waiting, outlet)
            || limits.admits_in_silence(waiting, outlet, refused)
    }

    /// Takes a message, for which there is room. `more`: the next one is a part of it.
    pub(crate) fn push(&mut self, now: Instant, data: Bytes, more: bool) {
        let was_empty = self.unsent_bytes == 0;
        self.unsent_bytes += data.len();
        self.buffered_bytes += data.len();
        self.refused_at = None;
        self.rest_follows = more;
        self.holds_parts = more || self.holds_parts && !was_empty;
        let expires_at = if self.is_reliable() { None } else { self.repair_for.map(|t| now + t) };
        self.messages.push_back(Message::new(data, now, expires_at));
        self.most = self.most.max(self.messages.len());
    }

    /// What the last message has begun goes on no more.
    pub(crate) fn drop_rest(&mut self) {
        self.rest_follows = false;
    }

    /// Notes that the application waits.
    pub(crate) fn refuse(&mut self, now: Instant) {
        self.refused_at.get_or_insert(now);
        self.is_told = false;
    }

    /// Whether the application waits to add more.
    pub(crate) fn is_blocked(&self) -> bool {
        self.refused_at.is_some() && !self.is_told
    }

    /// The application was told that there is room.
    pub(crate) fn on_told(&mut self) {
        self.is_told = true;
    }

    pub(crate) fn oldest_unsent_age(&self, now: Instant) -> Duration {
        let oldest = self.messages.iter().skip(self.offset(self.begin.saturating_sub(1)));
        oldest
            .take(2)
            .find(|message| !message.is_sent_once())
            .map_or(Duration::ZERO, |message| now.saturating_duration_since(message.queued_at))
    }

    /// Whether there is a chunk to send, and credit for it.
    pub(crate) fn readiness(&mut self, connection_credit: u64) -> Readiness {
        let (seq, readiness) = self.next_from(self.cursor, connection_credit);
        self.cursor = seq;
        readiness
    }

    /// The first message from `seq` on that has something to send, or may begin.
    fn next_from(&self, seq: MessageSeq, connection_credit: u64) -> (MessageSeq, Readiness) {
        let mut seq = seq.max(self.base);
        while seq < self.begin {
            if !self.messages[self.offset(seq)].is_sent() {
                return (seq, Readiness::Ready);
            }
            seq += 1;
        }
        if seq >= self.end() {
            return (seq, Readiness::Nothing);
        }
        (seq, self.readiness_to_begin(seq, connection_credit))
    }

    /// The next symbol to send of messages from `from` on: the oldest message first, so repairs go before new
    /// data. A message that has not begun needs `connection_credit`.
    pub(crate) fn next_symbol(
        &mut self,
        from: MessageSeq,
        limits: ChunkLimits,
        connection_credit: u64,
    ) -> Option<SymbolRef> {
        let (seq, readiness) = self.next_from(self.cursor.max(from), connection_credit);
        if readiness != Readiness::Ready {
            return None;
        }
        let offset = self.offset(seq);
        let message = &mut self.messages[offset];
        if seq >= self.begin {
            message.begin(limits.new);
        }
        let again = message.next_symbol().is_some_and(|symbol| message.repeats(symbol));
        let most = if again { limits.again } else { limits.most };
        if seq < self.begin && message.is_oversize(most) {
            let unsent = message.unsent_bytes();
            message.resegment(most);
            self.unsent_bytes = self.unsent_bytes - unsent + message.unsent_bytes();
        }
        let (segmentation, symbol) = (message.segmentation(), message.next_symbol()?);
        Some(SymbolRef { seq, segmentation, symbol, frame_len: message.frame_len(seq, symbol) })
    }

    fn readiness_to_begin(&self, seq: MessageSeq, connection_credit: u64) -> Readiness {
        let cost = message_cost(self.messages[self.offset(seq)].len());
        let may_begin = seq < self.base + LANE_MESSAGE_WINDOW
            && match self.is_reliable() {
                true => self.credit_used + cost <= self.credit,
                false => self.buffered_bytes - self.unsent_bytes <= MAX_REPAIRABLE_BYTES,
            };
        if !may_begin {
            Readiness::NoCredit
        } else if self.is_reliable() && cost > connection_credit {
            Readiness::NoConnectionCredit
        } else {
            Readiness::Ready
        }
    }

    /// What it means that no ACK about a message came, although the ACK of later packets may still tell what it lacks.
    /// `chance`: losses are independent.
    pub(crate) fn without_ack(&self, seq: MessageSeq, chance: Option<Target>) -> NoAck {
        match self.message(seq) {
            Some(message) if self.repairs() => repair::without_ack(&message.out(), chance),
            _ => NoAck::Wait,
        }
    }

    /// When the application handed over a message.
    pub(crate) fn handed_over_at(&self, seq: MessageSeq) -> Instant {
        self.messages[self.offset(seq)].queued_at
    }

    /// The frame of a symbol; a repair symbol is computed into `scratch`.
    pub(crate) fn frame<'a>(&'a self, at: SymbolRef, scratch: &'a mut Vec<u8>) -> Frame<'a> {
        let message = &self.messages[self.offset(at.seq)];
        match at.symbol {
            Symbol::Source(index) => Frame::Chunk(message.chunk(self.id, at.seq, index.into())),
            Symbol::Repair(index) => {
                let (shape, index) = (message.shape(), usize::from(index));
                scratch.clear();
                fec::encode(message.data(), shape.chunk_bytes, index, scratch);
                Frame::Repair(RepairFrame {
                    lane: self.id,
                    seq: at.seq,
                    shape,
                    index,
                    data: scratch,
                })
            }
        }
    }

    /// The message that a symbol ends the first round of, if parity may follow: how many chunks and
    /// bytes it has. `coding`: the peer takes repair symbols.
    pub(crate) fn first_round_ends(&self, at: SymbolRef, coding: bool) -> Option<Shape> {
        let message = &self.messages[self.offset(at.seq)];
        let shape = message.shape();
        let ends = message.is_last_of_first_round(at.symbol);
        (ends && (coding || shape.chunk_count() == 1)).then_some(shape)
    }

    /// How often a message of one chunk left of which nothing is known yet, if it would be repaired. None in bulk:
    /// another round delays nobody.
    pub(crate) fn unacked_sendings(&self, seq: MessageSeq) -> Option<u8> {
        let message = self.message(seq).filter(|_| self.repairs() && !self.is_blocked())?;
        message.unacked_sendings()
    }

    /// Whether a message is not known to be delivered, and would be repaired.
    pub(crate) fn is_unacked(&self, seq: MessageSeq) -> bool {
        self.repairs() && self.message(seq).is_some_and(|message| !message.is_delivered())
    }

    /// Whether a message of one chunk may leave again in a fade, however often it left. None in bulk.
    pub(crate) fn may_repeat(&self, seq: MessageSeq) -> bool {
        self.is_unacked(seq)
            && !self.is_blocked()
            && self.message(seq).is_some_and(Message::may_repeat)
    }

    /// A message of one chunk left again in a later packet.
    pub(crate) fn on_bundled(&mut self, seq: MessageSeq) {
        if let Some(message) = self.message_mut(seq) {
            message.on_bundled();
        }
    }

    /// Messages behind those begun, and whether the application waits to add more.
    pub(crate) fn backlog(&self) -> (usize, bool) {
        ((self.end() - self.begin) as usize, self.is_blocked())
    }

    /// A symbol left, and `parity` more shall follow ahead of any loss. Returns what it was, and the
    /// connection's credit that it takes.
    pub(crate) fn on_sent(&mut self, now: Instant, at: SymbolRef, parity: usize) -> (Sent, u64) {
        let offset = self.offset(at.seq);
        let mut cost = 0;
        if at.seq >= self.begin {
            self.begin = at.seq + 1;
            let waited = now.saturating_duration_since(self.messages[offset].queued_at);
            self.queue_wait.add(waited);
            if self.is_reliable() {
                cost = message_cost(self.messages[offset].len());
                self.credit_used += cost;
            }
        }
        let sent = self.messages[offset].on_sent(at.symbol);
        if let Sent::New(bytes) = sent {
            self.unsent_bytes -= bytes;
        }
        self.messages[offset].protect(parity);
        self.drop_settled(now);
        (sent, cost)
    }

    /// A symbol arrived. Returns the connection's credit that was taken for what need not be kept any more.
    pub(crate) fn on_acked(
        &mut self,
        now: Instant,
        seq: MessageSeq,
        segmentation: u8,
        symbol: Symbol,
    ) -> u64 {
        let Some(message) = self.message_mut(seq) else { return 0 };
        message.on_acked(segmentation, symbol);
        let cost = self.drop_settled(now);
        if self.is_reliable() {
            cost
        } else {
            0
        }
    }

    /// A symbol was lost; [`repair`](Self::repair) follows when all that was lost at once is known.
    pub(crate) fn on_lost(&mut self, seq: MessageSeq, segmentation: u8, symbol: Symbol) {
        if let Some(message) = self.message_mut(seq) {
            message.on_lost(segmentation, symbol);
            if !self.damaged.contains(&seq) {
                self.damaged.push(seq);
            }
        }
    }

    /// Decides what to send in place of what was lost; tells whether there is anything.
    /// `coding`: the peer takes repair symbols.
    pub(crate) fn repair(&mut self, target: Target, coding: bool) -> bool {
        let target = target.in_bulk(self.is_blocked());
        let repairs = self.repairs();
        let mut any = false;
        for seq in std::mem::take(&mut self.damaged) {
            let Some(message) = self.message_mut(seq).filter(|_| repairs) else { continue };
            if coding {
                message.repair(target);
            } else {
                message.add(textbook::REPAIR);
            }
            if !message.is_sent() {
                any = true;
                self.cursor = self.cursor.min(seq);
            }
        }
        any
    }

    /// The ACK of a message is lost: sends up to `most` repair symbols beside what is in flight of it. Returns how
    /// many.
    pub(crate) fn on_ack_lost(&mut self, seq: MessageSeq, target: Target, most: usize) -> usize {
        let target = target.in_bulk(self.is_blocked());
        let repairs = self.repairs();
        let Some(message) = self.message_mut(seq).filter(|_| repairs) else { return 0 };
        let symbols = message.on_ack_lost(target, most);
        if symbols > 0 {
            self.cursor = self.cursor.min(seq);
        }
        symbols
    }

    /// These symbols of a message are on a path that is silent: sends others in their place. They may still arrive.
    /// `coding`: the peer takes repair symbols. Tells whether there is anything to send.
    pub(crate) fn move_message(
        &mut self,
        seq: MessageSeq,
        silent: &[Symbol],
        coding: bool,
    ) -> bool {
        let repairs = self.repairs();
        let Some(message) = self.message_mut(seq).filter(|_| repairs) else { return false };
        message.on_silence(silent, coding);
        let moves = !message.is_sent();
        if moves {
            self.cursor = self.cursor.min(seq);
        }
        moves
    }

    /// Something of a message was lost, while this is out of it on silent paths: nobody waits for that. Tells whether there is
    /// anything to send.
    pub(crate) fn do_without(&mut self, seq: MessageSeq, out: &[Content], coding: bool) -> bool {
        let repairs = self.repairs();
        let Some(message) = self.message_mut(seq).filter(|_| repairs) else { return false };
        message.do_without(out, coding);
        let sends = !message.is_sent();
        if sends {
            self.cursor = self.cursor.min(seq);
        }
        sends
    }

    /// Whether so much of every message under way is in flight that it cannot all be lost by `chance`; `None` if there
    /// is no such message, or nothing is repaired.
    pub(crate) fn has_enough_in_flight(&self, chance: Target) -> Option<bool> {
        if !self.repairs() {
            return None;
        }
        let begun = self.messages.range(..self.offset(self.begin));
        begun
            .filter(|message| !message.is_delivered())
            .map(|message| chance.is_sure_of_one_of(message.symbols_in_flight()))
            .reduce(|all, enough| all && enough)
    }

    /// The message that begins with the next symbol of those from `from` on, if one does, and its bytes.
    pub(crate) fn begins_next(
        &self,
        from: MessageSeq,
        connection_credit: u64,
    ) -> Option<(MessageSeq, usize)> {
        let (seq, readiness) = self.next_from(self.cursor.max(from), connection_credit);
        let begins = readiness == Readiness::Ready && seq >= self.begin;
        begins.then(|| (seq, self.messages[self.offset(seq)].len()))
    }

    /// Raises the credit. A lower one is old news: frames may overtake each other.
    pub(crate) fn set_credit(&mut self, bytes: u64) {
        self.credit = self.credit.max(bytes);
    }

    /// Whether a message has begun whose delivery the lane waits for.
    pub(crate) fn awaits_delivery(&self) -> bool {
        self.is_reliable() && self.begin > self.base
    }

    /// Whether everything has arrived or was given up.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn unsent_bytes(&self) -> usize {
        self.unsent_bytes
    }

    /// Bytes that wait to leave, for the first time or as the repair that is next.
    pub(crate) fn to_send_bytes(&self) -> u64 {
        let repair = self.message(self.cursor).filter(|_| self.cursor < self.begin);
        let repair = repair.and_then(|message| {
            let symbol = message.next_symbol()?;
            Some(message.frame_len(self.cursor, symbol))
        });
        (self.unsent_bytes + repair.unwrap_or(0)) as u64
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    pub(crate) fn fill(&self, stats: &mut LaneStats) {
        stats.queue_wait = self.queue_wait.clone();
        stats.delivery = self.delivery.clone();
    }

    /// Drops everything: the connection is over.
    pub(crate) fn clear(&mut self) {
        while self.pop_front().is_some() {}
        self.unsent_bytes = 0;
        self.damaged.clear();
        self.forget_due = false;
    }

    /// Messages leave from the front once nothing more is to be done for them. Returns what they cost.
    fn drop_settled(&mut self, now: Instant) -> u64 {
        let mut cost = 0;
        let repairs = self.repairs();
        while let Some(front) = self.messages.front() {
            let settled = if repairs { front.is_delivered() } else { front.is_sent() };
            if !settled {
                break;
            }
            if repairs {
                self.delivery.add(now.saturating_duration_since(front.queued_at));
            }
            cost += message_cost(front.len());
            // What left of it on two paths may complete it before all of it has left on one.
            self.unsent_bytes -= front.unsent_bytes();
            self.pop_front();
        }
        cost
    }

    fn pop_front(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.base += 1;
        self.cursor = self.cursor.max(self.base);
        self.begin = self.begin.max(self.base);
        self.buffered_bytes -= message.len();
        if self.messages.is_empty() {
            self.give_back();
        }
        Some(message)
    }

    /// Gives memory back that was not used since the lane was last empty, as the ledger of packets does.
    fn give_back(&mut self) {
        let most = std::mem::take(&mut self.most).max(IDLE_MESSAGES);
        if most < self.messages.capacity() / 4 {
            self.messages.shrink_to(2 * most);
        }
    }

    fn offset(&self, seq: MessageSeq) -> usize {
        usize::try_from(seq.saturating_sub(self.base)).unwrap_or(usize::MAX)
    }

    /// Whether what was lost is sent again.
    pub(crate) fn repairs(&self) -> bool {
        self.is_reliable() || self.repair_for.is_some()
    }

    fn message(&self, seq: MessageSeq) -> Option<&Message> {
        let offset = usize::try_from(seq.checked_sub(self.base)?).ok()?;
        self.messages.get(offset)
    }

    fn message_mut(&mut self, seq: MessageSeq) -> Option<&mut Message> {
        let offset = usize::try_from(seq.checked_sub(self.base)?).ok()?;
        self.messages.get_mut(offset)
    }
}

#[cfg(test)]
mod tests;
