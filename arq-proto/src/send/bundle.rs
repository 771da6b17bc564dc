// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which small messages may ride along in later packets, until something is heard of them?
//!
//! Where messages follow each other within a round trip, the packet of the next one has room for those before it. A
//! loss then costs the interval between two messages instead of a round trip, and no packet more: redundant bundling
//! for thin streams (Evensen, Petlund, Griwodz, Halvorsen, IEEE Communications Letters 12(4), 2008). Whether it pays
//! is for [`policy`](crate::fec::policy) to say.
//!
//! Candidates are the last 16 messages of one chunk whose frame has at most 512 bytes, of which nothing is known yet,
//! and that last left 0.5 ms ago or earlier: the packets of one tick would be lost together. A best-effort message is
//! one only if it has a deadline, since without it nothing is repaired; none is of a lane in bulk. The packet is
//! filled up to 1,200 bytes, so that a path that drops longer ones does not take the new message, and a message
//! leaves four times in all at most. Where some sendings count as lost, no more are added until it is known what
//! became of the others. Two that a time-out shows to be lost, or one in bursts, are reason enough to repair
//! (ARQ-REP-9).

use std::{collections::VecDeque, time::Instant};

use super::lane::SymbolRef;
use crate::units::LaneId;

/// Frames up to this length ride along: two of them and a new message share a packet.
const MAX_FRAME_BYTES: usize = 512;
/// Where more small messages leave in a round trip, their packets are full anyway.
const MAX_RIDERS: usize = 16;

/// A message of one small chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rider {
    pub(crate) lane: LaneId,
    pub(crate) at: SymbolRef,
    /// When it left for the first time, and for the last.
    pub(crate) sent_at: Instant,
    pub(crate) left_at: Instant,
}

/// The small messages that left last, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Riders(VecDeque<Rider>);

impl Riders {
    /// A message of one chunk left for the first time.
    pub(crate) fn on_sent(&mut self, now: Instant, lane: LaneId, at: SymbolRef) {
        if at.frame_len > MAX_FRAME_BYTES {
            return;
        }
        if self.0.len() == MAX_RIDERS {
            self.0.pop_front();
        }
        self.0.push_back(Rider { lane, at, sent_at: now, left_at: now });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&Rider) -> bool) {
        self.0.retain(keep);
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Rider> {
        self.0.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{symbol::Symbol, units::Reliability};

    // ARQ-REP-9
    #[test]
    fn only_the_last_small_messages_are_remembered() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let now = Instant::now();
        let mut riders = Riders::default();
        let lane = LaneId::new(5, Reliability::Reliable).unwrap();
        let mut send = |seq, frame_len| {
            let at = SymbolRef { seq, cut: 0, symbol: Symbol::Source(0), frame_len };
            riders.on_sent(now, lane, at);
        };
        send(0, MAX_FRAME_BYTES + 1);
        (1..=100).for_each(|seq| send(seq, MAX_FRAME_BYTES));
        let kept: Vec<_> = riders.iter_mut().map(|rider| rider.at.seq).collect();
        let first = 101 - MAX_RIDERS as u64;
        assert_eq!(kept, (first..=100).collect::<Vec<_>>());
    }
}
