// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The messages of one lane, released in order, within a bound on memory.
//!
//! A reliable lane waits for what is missing: the peer repairs it. A best-effort lane waits at most
//! for the hold time that the peer announced, and not at all by default; what is older than a
//! message already released is dropped, since the application must never see an order reversed.
//!
//! Requirements, numbered as in `docs/protocol.md`:
//!
//! - **ARQ-FLW-6** Where repairs hold more than three quarters of a lane's window and the application has taken
//!   everything in order, the receiver doubles it, from what the connection's exceeds eight lane windows (ADR 22).
//! - **ARQ-FLW-7** The same if the application consumes a whole window of a lane within twice the least round
//!   trip.

use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{
    reassembly::{buffer_bytes, Reassembly},
    spare::Spare,
};
use crate::{
    error::Violation,
    flow::message_cost,
    units::{LaneId, MessageSeq, Reliability},
    wire::{
        frame::{ChunkFrame, RepairFrame, Shape},
        LANE_MESSAGE_WINDOW,
    },
};

/// After this silence of a best-effort lane, and its hold time, incomplete messages are abandoned. The packets of a message
/// leave together, but slowly at a low rate: at 16 kbit/s five packets of 1,200 bytes take 3 s; behind a lane that is never
/// empty only one packet in 65 is theirs, and five take this long at 42 kbit/s.
const ABANDON_AFTER: Duration = Duration::from_secs(15);
/// Messages for which an empty queue keeps room.
const KEPT_ROOM: usize = 64;

/// What a packet brought of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReceivedSymbol<'a> {
    /// A chunk, or all of it.
    Source(&'a ChunkFrame<'a>),
    /// A repair symbol.
    Repair(&'a RepairFrame<'a>),
}

impl ReceivedSymbol<'_> {
    pub(crate) const fn lane(&self) -> LaneId {
        match self {
            Self::Source(chunk) => chunk.lane,
            Self::Repair(repair) => repair.lane,
        }
    }

    const fn seq(&self) -> MessageSeq {
        match self {
            Self::Source(chunk) => chunk.seq,
            Self::Repair(repair) => repair.seq,
        }
    }

    const fn shape(&self) -> Shape {
        match self {
            Self::Source(chunk) => chunk.shape(),
            Self::Repair(repair) => repair.shape,
        }
    }

    /// Whether it is all of its message.
    const fn is_whole(&self) -> bool {
        match self {
            Self::Source(chunk) => chunk.data.len() == chunk.message_bytes,
            Self::Repair(_) => false,
        }
    }
}

#[derive(Debug)]
enum Slot {
    /// Only while the first symbol of a message is being put in.
    Empty,
    Partial(Box<Reassembly>),
    Complete(Bytes, Option<Due>),
}

/// What is left of a message's deadline.
#[derive(Debug, Clone, Copy)]
struct Due {
    completed_at: Instant,
    /// Unless it waits for earlier messages.
    expires_at: Instant,
}

impl Due {
    /// When it is too old, if it is released now: the time that it waited for earlier messages does not count (ARQ-BEF-6).
    fn when_released(self, now: Instant, hold: Duration) -> Instant {
        self.expires_at + now.saturating_duration_since(self.completed_at).min(hold)
    }
}

impl Slot {
    fn cost(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Partial(reassembly) => message_cost(reassembly.message_bytes()),
            Self::Complete(message, _) => message_cost(message.len()),
        }
    }
}

/// The receiving side of a lane.
#[derive(Debug)]
pub(crate) struct RecvLane {
    reliable: bool,
    /// The message to be released next.
    next: MessageSeq,
    /// Messages from `next` on of which something is there, in their order. What is not there takes no room and no
    /// time: sequence numbers are the peer's to choose.
    slots: VecDeque<(MessageSeq, Slot)>,
    /// Released, not yet taken by the application, and when each is too old for it.
    ready: VecDeque<(Bytes, Option<Instant>)>,
    /// Cost of everything in `slots` and `ready`.
    held: u64,
    limit: u64,
    hold: Duration,
    /// Best effort: complete messages that wait for an incomplete one before them, and since when, both ascending. A
    /// message that completes before an already waiting one is released with it, and not listed.
    waiting: VecDeque<(MessageSeq, Instant)>,
    /// Best effort: the incomplete ones among `slots`. Searching `slots` for the oldest, once for each
    /// message of a packet of tiny ones, would take too long.
    partials: BTreeSet<MessageSeq>,
    /// Best effort: the last symbol that was kept.
    touched_at: Option<Instant>,
    /// Chunks that were computed from repair symbols.
    recovered: u64,
    /// Messages that were too old when they could be taken.
    stale: u64,
}

/// What a chunk brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// Nothing new.
    Duplicate,
    /// A piece.
    Stored,
    /// The first message that the application can take since it last found none.
    Readable,
    /// A best-effort lane is full.
    Dropped,
}

impl RecvLane {
    pub(crate) fn new(id: LaneId, limit: u64) -> Self {
        Self {
            reliable: id.reliability() == Reliability::Reliable,
            next: 0,
            slots: VecDeque::new(),
            ready: VecDeque::new(),
            held: 0,
            limit,
            hold: Duration::ZERO,
            waiting: VecDeque::new(),
            partials: BTreeSet::new(),
            touched_at: None,
            recovered: 0,
            stale: 0,
        }
    }

    /// How long later best-effort messages wait for an earlier one.
    pub(crate) fn set_hold(&mut self, hold: Duration) {
        self.hold = hold;
    }

    /// The message to be released next, and the bytes of it that are there without a hole.
    pub(crate) fn next_in_order(&self) -> (MessageSeq, usize) {
        let there = match self.slots.front() {
            Some((seq, Slot::Partial(reassembly))) if *seq == self.next => {
                reassembly.bytes_in_order()
            }
            _ => 0,
        };
        (self.next, there)
    }

    /// Takes a symbol. `waited`: how long it has waited in this host, if its message has a deadline.
    pub(crate) fn on_symbol(
        &mut self,
        now: Instant,
        symbol: ReceivedSymbol<'_>,
        waited: Option<Duration>,
        spare: &mut Spare,
    ) -> Result<Received, Violation> {
        if symbol.seq() < self.next {
            return Ok(Received::Duplicate);
        }
        let had_none = self.ready.is_empty();
        let received = self.store(now, symbol, waited, spare)?;
        let readable = had_none && !self.ready.is_empty();
        Ok(if readable { Received::Readable } else { received })
    }

    fn store(
        &mut self,
        now: Instant,
        symbol: ReceivedSymbol<'_>,
        waited: Option<Duration>,
        spare: &mut Spare,
    ) -> Result<Received, Violation> {
        let seq = symbol.seq();
        if seq - self.next >= LANE_MESSAGE_WINDOW {
            if self.reliable {
                return Err(Violation::MessageWindow);
            }
            // The peer gave up messages that far back long ago.
            self.skip_to(now, seq + 1 - LANE_MESSAGE_WINDOW);
        }
        let offset = match self.position(seq) {
            Ok(offset) => offset,
            Err(_) => {
                let may_open = self.reliable || symbol.is_whole() || spare.may_open();
                if !may_open || !self.reserve(now, symbol)? {
                    // Complete messages may have waited for those that were given up for it.
                    self.release(now);
                    return Ok(Received::Dropped);
                }
                // Making room may have moved it.
                let offset = self.position(seq).unwrap_or_else(|offset| offset);
                self.slots.insert(offset, (seq, Slot::Empty));
                offset
            }
        };
        let slot = &mut self.slots[offset].1;
        match fill(slot, symbol, now, spare)? {
            None => return Ok(Received::Duplicate),
            Some(recovered) => self.recovered += u64::from(recovered),
        }
        let is_complete = matches!(slot, Slot::Complete(..));
        if let (Slot::Complete(_, due), Some(waited), false) = (slot, waited, self.reliable) {
            let expires_at = now + self.hold.saturating_sub(waited);
            *due = Some(Due { completed_at: now, expires_at });
        }
        if !self.reliable {
            self.touched_at = Some(now);
            if is_complete {
                self.partials.remove(&seq);
            } else {
                self.partials.insert(seq);
            }
            if is_complete && self.waiting.back().is_none_or(|(last, _)| *last < seq) {
                self.waiting.push_back((seq, now));
            }
        }
        // With a hold time, complete messages may have waited for those that were given up to make room.
        if is_complete || !self.hold.is_zero() {
            self.release(now);
        }
        Ok(Received::Stored)
    }

    /// Where a message is, or would be.
    fn position(&self, seq: MessageSeq) -> Result<usize, usize> {
        // Nearly always the newest.
        match self.slots.back() {
            Some((last, _)) if *last >= seq => self.slots.binary_search_by_key(&seq, |slot| slot.0),
            _ => Err(self.slots.len()),
        }
    }

    /// Reserves memory for a new message.
    fn reserve(&mut self, now: Instant, symbol: ReceivedSymbol<'_>) -> Result<bool, Violation> {
        let cost = message_cost(symbol.shape().message_bytes);
        if self.held + cost > self.limit {
            if self.reliable {
                return Err(Violation::Credit);
            }
            self.drop_stale(now);
            self.drop_oldest_partials(now, symbol.seq(), cost);
        }
        if self.held + cost > self.limit {
            return Ok(false);
        }
        self.held += cost;
        Ok(true)
    }

    /// Best effort: newer messages are worth more than old incomplete ones.
    fn drop_oldest_partials(&mut self, now: Instant, before: MessageSeq, cost: u64) {
        while self.held + cost > self.limit {
            let Some(&seq) = self.partials.range(..before).next() else { return };
            self.skip_to(now, seq + 1);
        }
    }

    /// Releases what is in order, or has waited long enough.
    fn release(&mut self, now: Instant) {
        while let Some(&(seq, _)) =
            self.waiting.front().filter(|(_, since)| *since + self.hold <= now)
        {
            self.skip_to(now, seq + 1);
        }
        while matches!(self.slots.front(), Some((seq, Slot::Complete(..))) if *seq == self.next) {
            self.skip_to(now, self.next + 1);
        }
    }

    /// The first message of which nothing is there, nor of any behind it.
    fn end(&self) -> MessageSeq {
        self.slots.back().map_or(self.next, |(seq, _)| seq + 1)
    }

    /// Releases the complete messages below `seq`, and gives the others up.
    fn skip_to(&mut self, now: Instant, seq: MessageSeq) {
        while self.slots.front().is_some_and(|(first, _)| *first < seq) {
            match self.slots.pop_front() {
                Some((_, Slot::Complete(message, due))) => {
                    let expires_at = due.map(|due| due.when_released(now, self.hold));
                    self.ready.push_back((message, expires_at));
                }
                Some((seq, slot)) => {
                    self.held -= slot.cost();
                    self.partials.remove(&seq);
                }
                None => {}
            }
        }
        self.next = self.next.max(seq);
        while self.waiting.front().is_some_and(|(first, _)| *first < self.next) {
            self.waiting.pop_front();
        }
        give_back(&mut self.slots);
        give_back(&mut self.waiting);
    }

    /// The peer has given up everything below `below`. Tells whether a message became readable.
    pub(crate) fn on_forget(&mut self, now: Instant, below: MessageSeq) -> bool {
        if self.reliable || below <= self.next {
            return false;
        }
        let had_none = self.ready.is_empty();
        self.skip_to(now, below);
        self.release(now);
        had_none && !self.ready.is_empty()
    }

    /// When the wait for an incomplete message ends: for the sake of those behind it, or because
    /// the lane has fallen silent.
    pub(crate) fn hold_deadline(&self) -> Option<Instant> {
        if let Some((_, since)) = self.waiting.front() {
            return Some(*since + self.hold);
        }
        let touched_at = self.touched_at.filter(|_| !self.slots.is_empty())?;
        Some(touched_at + self.hold + ABANDON_AFTER)
    }

    /// Ends the wait if it is time. Tells whether a message became readable.
    pub(crate) fn on_hold_deadline(&mut self, now: Instant) -> bool {
        if self.hold_deadline().is_none_or(|deadline| deadline > now) {
            return false;
        }
        let had_none = self.ready.is_empty();
        if self.waiting.is_empty() {
            // Nothing waits behind them, and nothing more comes.
            self.skip_to(now, self.end());
        }
        self.release(now);
        had_none && !self.ready.is_empty()
    }

    /// The connection ends: what a best-effort lane holds back can be read now. Tells whether a
    /// message became readable.
    pub(crate) fn end_hold(&mut self, now: Instant) -> bool {
        if self.reliable {
            return false;
        }
        let had_none = self.ready.is_empty();
        self.skip_to(now, self.end());
        had_none && !self.ready.is_empty()
    }

    /// Drops what the application has not taken in time.
    fn drop_stale(&mut self, now: Instant) {
        let is_stale = |expires_at: Option<Instant>| expires_at.is_some_and(|at| at <= now);
        while self.ready.front().is_some_and(|(_, expires_at)| is_stale(*expires_at)) {
            if let Some((message, _)) = self.ready.pop_front() {
                self.held -= message_cost(message.len());
                self.stale += 1;
            }
        }
        give_back(&mut self.ready);
    }

    /// The next message that is not too old, and the credit that it gives back.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(Bytes, u64)> {
        self.drop_stale(now);
        let (message, _) = self.ready.pop_front()?;
        give_back(&mut self.ready);
        let cost = message_cost(message.len());
        self.held -= cost;
        Some((message, if self.reliable { cost } else { 0 }))
    }

    /// Cost of everything kept.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Messages that were dropped since the application did not take them before their deadline.
    pub(crate) fn stale(&self) -> u64 {
        self.stale
    }

    /// Chunks that were computed from repair symbols instead of received.
    pub(crate) fn recovered(&self) -> u64 {
        self.recovered
    }

    /// Whether missing repairs will soon stop the peer: three quarters of the window are held, and the application has taken
    /// all that is in order.
    pub(crate) fn is_held_up(&self) -> bool {
        self.reliable && self.ready.is_empty() && self.held > self.limit / 4 * 3
    }

    /// The lane may hold more.
    pub(crate) fn widen(&mut self, by: u64) {
        self.limit += by;
    }

    /// Credit in use: what counts against the connection's window.
    pub(crate) fn credited(&self) -> u64 {
        if self.reliable {
            self.held
        } else {
            0
        }
    }
}

/// Shrinks a queue that is empty again: after thousands of tiny messages it would waste memory, in each of sixteen lanes.
fn give_back<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() {
        queue.shrink_to(KEPT_ROOM);
    }
}

/// Puts a symbol into a slot; `None` when it brought nothing, else how many chunks were computed.
fn fill(
    slot: &mut Slot,
    symbol: ReceivedSymbol<'_>,
    now: Instant,
    spare: &mut Spare,
) -> Result<Option<u8>, Violation> {
    if let (Slot::Empty, ReceivedSymbol::Source(chunk)) = (&slot, symbol) {
        if symbol.is_whole() {
            let mut message = spare.take(now, chunk.message_bytes);
            message.extend_from_slice(chunk.data);
            *slot = Slot::Complete(message.freeze(), None);
            return Ok(Some(0));
        }
    }
    if matches!(slot, Slot::Empty) {
        let shape = symbol.shape();
        let buffer = spare.take(now, buffer_bytes(shape));
        *slot = Slot::Partial(Box::new(Reassembly::within(buffer, shape)));
    }
    let Slot::Partial(reassembly) = slot else { return Ok(None) };
    let new = match symbol {
        ReceivedSymbol::Source(chunk) => reassembly.insert(chunk)?,
        ReceivedSymbol::Repair(repair) => reassembly.insert_repair(repair)?,
    };
    if !new {
        return Ok(None);
    }
    let recovered = reassembly.recovered();
    if reassembly.is_complete() {
        if let Slot::Partial(reassembly) = std::mem::replace(slot, Slot::Empty) {
            *slot = Slot::Complete(reassembly.into_message(), None);
        }
    }
    Ok(Some(recovered))
}

#[cfg(test)]
mod tests;
