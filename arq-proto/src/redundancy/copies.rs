// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How often does a small urgent message leave at once?
//!
//! A command that follows the last one after several round trips finds no later packet for its copies ([`bundle`]), and its
//! repair takes a round trip. On a slow radio that also carries images, the bytes of a few copies are small beside those
//! of the images. So a message of one small chunk leaves as often as makes it likely that one sending arrives (ARQ-REP-10).
//!
//! What pays is the bulk of less urgent lanes: each large frame of it permits a quarter of its bytes as copies. An
//! application with small messages alone sends none. Neither does one whose bulk never ends, as copies would take from its
//! goodput for good. Bursts of losses take what leaves together, so where they do, no copies are sent.
//!
//! [`bundle`]: super::bundle

use super::{ahead::ACCEPTED_FAILURE, bundle::MAX_FRAME_BYTES, Redundancy};
use crate::units::LaneId;

/// Beyond two copies each saves less than 2 % of the messages a repair, even where a quarter is lost.
const MAX_COPIES: usize = 2;
/// The bytes of large frames that permit one byte of copies.
const BULK_PER_COPY: usize = 4;
/// What permits copies after bulk has ended, in bytes: two copies of eight messages, which is what 30 Hz send in a quarter
/// of a second.
const MAX_BUDGET: usize = 16 * MAX_FRAME_BYTES;
/// Second copies leave so many bytes to the first ones of four messages, which save several times as much.
const KEPT_FOR_FIRST: usize = MAX_BUDGET / 4;

/// What copies may take.
#[derive(Debug, Default)]
pub(crate) struct CopyBudget {
    bytes: usize,
    /// The lane of the bulk that has permitted them.
    bulk: Option<LaneId>,
}

impl CopyBudget {
    /// A frame of a chunk left for the first time, of a message that no application waits behind.
    pub(crate) fn on_sent(&mut self, lane: LaneId, frame_len: usize) {
        if frame_len > MAX_FRAME_BYTES {
            self.bytes = (self.bytes + frame_len / BULK_PER_COPY).min(MAX_BUDGET);
            self.bulk = Some(lane);
        }
    }

    /// Takes the bytes of up to `wanted` copies of a small frame; returns of how many.
    pub(crate) fn take(&mut self, lane: LaneId, frame_len: usize, wanted: usize) -> usize {
        let is_urgent = self.bulk.is_some_and(|bulk| lane.priority() < bulk.priority());
        if !is_urgent || frame_len > MAX_FRAME_BYTES {
            return 0;
        }
        let kept = |copies| if copies > 1 { KEPT_FOR_FIRST } else { 0 };
        let is_allowed = |&copies: &usize| copies * frame_len + kept(copies) <= self.bytes;
        let copies = (1..=wanted).take_while(is_allowed).count();
        self.bytes -= copies * frame_len;
        copies
    }
}

impl Redundancy {
    /// Copies that make it likely enough that a message of one packet arrives without a repair.
    pub(crate) fn copies(&self) -> usize {
        if !self.may_bundle() || self.counts_packets || self.channel.is_bursty() {
            return 0;
        }
        let (loss, goes_on) = (self.channel.calm.as_f64(), self.channel.goes_on());
        let all_lost = |copies: usize| loss * goes_on.powi(copies as i32);
        (0..MAX_COPIES).find(|&copies| all_lost(copies) <= ACCEPTED_FAILURE).unwrap_or(MAX_COPIES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{redundancy::Channel, units::Reliability};

    fn lane(priority: u8) -> LaneId {
        LaneId::new(priority, Reliability::Reliable).unwrap()
    }

    // ARQ-REP-10
    #[test]
    fn as_many_copies_as_make_a_repair_unlikely() {
        let copies = |percent, run| Redundancy::over(Channel::of(percent, run)).copies();
        assert_eq!([0, 1, 5, 12, 25].map(|percent| copies(percent, 1.0)), [0, 1, 1, 2, 2]);
        assert_eq!(copies(12, 3.0), 0, "a burst takes them all");
        let redundancy = Redundancy::over(Channel::of(12, 1.0));
        let counting = Redundancy { counts_packets: true, ..redundancy };
        assert_eq!(counting.copies(), 0, "packets are what is scarce");
    }

    // ARQ-REP-10
    #[test]
    fn less_urgent_bulk_permits_a_quarter_of_its_bytes() {
        let mut budget = CopyBudget::default();
        assert_eq!(budget.take(lane(1), 300, 2), 0, "no bulk was sent");
        (0..100).for_each(|_| budget.on_sent(lane(1), MAX_FRAME_BYTES));
        assert_eq!(budget.take(lane(1), 300, 2), 0, "small messages are no bulk");
        (0..2).for_each(|_| budget.on_sent(lane(5), 1_200));
        assert_eq!([2; 3].map(|wanted| budget.take(lane(1), 250, wanted)), [1, 1, 0]);
        (0..1_000).for_each(|_| budget.on_sent(lane(5), 1_200));
        assert_eq!(budget.take(lane(5), 300, 2), 0, "it is no more urgent");
        assert_eq!(budget.take(lane(1), MAX_FRAME_BYTES + 1, 2), 0, "it is not small");
        let left = [2; 11].map(|wanted| budget.take(lane(1), MAX_FRAME_BYTES, wanted));
        assert_eq!(left, [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 0], "bulk of long ago permits no more");
    }
}
