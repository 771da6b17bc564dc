// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Messages that leave on two paths at once.
//!
//! A copy that waits for silence is later than the fade of a radio by a round trip and a half. A second copy at once is not, for
//! twice the bytes: so only lanes that the configuration names are doubled, and only while few copies were needless.
//!
//! Requirement, numbered as in `docs/protocol.md` §11.3:
//!
//! - **ARQ-MP-10** What leaves of a doubled lane for the first time leaves on the next best path as well, unless that is a
//!   backup, or more than the share *copies* of the last bytes were needless copies. A message of several chunks gets as many
//!   repair symbols there, so that any of both suffice. Where one of the two paths falls silent, the other's share is not
//!   repeated. What leaves so counts as needless until the first sending is lost.

use std::{collections::VecDeque, time::Instant};

use bytes::Bytes;

use crate::{
    connection::{draft::Draft, timestamps::timestamp_of, Connection},
    sent::Content,
    symbol::{Symbol, SymbolRef},
    units::{LaneId, MessageSeq, PathNumber},
};

/// Symbols that wait for their other path. The oldest ones are given up: what is late there is of no use.
const MOST_WAITING: usize = 64;

/// A symbol that left on one path and is to leave on another.
#[derive(Debug)]
struct Double {
    left_on: PathNumber,
    lane: LaneId,
    at: SymbolRef,
    /// Its frame, where the lane does not keep the message.
    frame: Option<Bytes>,
}

/// Symbols that are to leave on another path than they left on.
#[derive(Debug, Default)]
pub(super) struct Doubles {
    waiting: VecDeque<Double>,
    /// The path beside the primary on which they leave.
    second: Option<PathNumber>,
}

impl Doubles {
    /// The paths that carry both copies from now on.
    pub(super) fn leave_on(&mut self, second: Option<PathNumber>) {
        self.second = second;
    }

    /// A path does not answer: all that left there is repeated elsewhere anyway.
    pub(super) fn on_silence(&mut self, of: PathNumber) {
        self.waiting.retain(|double| double.left_on != of);
    }

    fn are_due_on(&self, path: PathNumber) -> bool {
        self.waiting.iter().any(|double| double.left_on != path)
    }

    fn add(&mut self, double: Double) {
        if self.waiting.len() == MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(double);
    }

    fn take_for(&mut self, path: PathNumber) -> Option<Double> {
        let place = self.waiting.iter().position(|double| double.left_on != path)?;
        self.waiting.remove(place)
    }
}

impl Connection {
    /// A symbol is about to leave: it leaves on another path as well, if its lane is doubled.
    pub(in crate::connection) fn double(&mut self, now: Instant, lane: LaneId, at: SymbolRef) {
        if self.others.is_empty() || !self.doubles(now, lane) {
            return;
        }
        let Self { outgoing, others, path, .. } = self;
        let sending = &outgoing.lanes[lane];
        if !sending.is_new(at) {
            return;
        }
        let frame = (!sending.repairs()).then(|| {
            let mut bytes = Vec::with_capacity(at.frame_len);
            sending.frame(at, &mut outgoing.scratch).encode(&mut bytes);
            bytes.into()
        });
        others.doubles.add(Double { left_on: path.number, lane, at, frame });
    }

    fn doubles(&self, now: Instant, lane: LaneId) -> bool {
        let others = &self.others;
        let is_named =
            self.config.duplicate.as_ref().is_some_and(|named| named.contains(&lane.priority()));
        let percent = f64::from(self.config.copies_percent);
        is_named && others.doubles.second.is_some() && others.copies.share(now) * 100.0 < percent
    }

    /// A symbol is lost: what left beside it was not needless.
    pub(in crate::connection) fn forgive_double(
        &mut self,
        now: Instant,
        lane: LaneId,
        seq: MessageSeq,
        symbol: Symbol,
    ) {
        if self.others.is_empty() {
            return;
        }
        if let Some(bytes) = self.outgoing.lanes[lane].doubled_bytes(seq, symbol) {
            self.others.copies.forgive(now, bytes);
        }
    }

    /// Whether the path that is served is to carry what left on another.
    pub(in crate::connection) fn has_doubles(&self) -> bool {
        self.path.offer.doubles && self.others.doubles.are_due_on(self.path.number)
    }

    /// What left on another path, until the packet is full.
    pub(in crate::connection) fn offer_doubles(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        draft: &mut Draft,
    ) {
        if !self.path.offer.doubles {
            return;
        }
        while let Some(double) = self.others.doubles.take_for(self.path.number) {
            let before = out.len();
            if !self.offer_double(out, draft, &double) {
                if draft.in_flight {
                    self.others.doubles.waiting.push_front(double);
                    return;
                }
                // It fits no packet of this path.
                continue;
            }
            let bytes = (out.len() - before) as u64;
            self.path.needless_bytes += bytes;
            self.others.copies.record(now, bytes, bytes);
        }
    }

    /// Puts a symbol into a packet, unless it is of no use any more; `false` if there is no room for it.
    fn offer_double(&mut self, out: &mut Vec<u8>, draft: &mut Draft, double: &Double) -> bool {
        let Double { lane, at, .. } = *double;
        let Self { outgoing, config, clock, path, .. } = self;
        let sending = &mut outgoing.lanes[lane];
        let at = match &double.frame {
            Some(_) => Some(at),
            None => sending.next_double(at, outgoing.peer_takes_repair),
        };
        let Some(at) = at else { return true };
        let timestamp = match &double.frame {
            Some(_) => None,
            None => timestamp_of(config, clock.epoch, lane, sending, at.seq),
        };
        if draft.len_with(at.frame_len, timestamp) > draft.room(out) {
            return false;
        }
        let content =
            Content::Symbol { lane, seq: at.seq, segmentation: at.segmentation, symbol: at.symbol };
        draft.put_timestamp(out, timestamp);
        match &double.frame {
            Some(frame) => draft.put_encoded(out, frame, content),
            None => draft.put(out, &sending.frame(at, &mut outgoing.scratch), Some(content)),
        }
        if double.frame.is_none() {
            sending.on_doubled(at);
        }
        path.first_round_open = true;
        true
    }
}
