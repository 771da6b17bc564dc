// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! When does a packet leave a recorded radio?

use std::time::Duration;

use crate::rate::OPPORTUNITY_BYTES;
use crate::recording::Recorded;

/// A recorded radio whose opportunities are used one after another, as Mahimahi does: one takes several short packets
/// that wait, or a part of a long one; what nobody waits for is lost.
pub(super) struct Opportune {
    recorded: Recorded,
    /// The opportunity that is used next.
    next: u64,
    /// Its bytes that are not used.
    room: u32,
}

impl Opportune {
    pub(super) fn new(recorded: Recorded) -> Self {
        Self { recorded, next: 0, room: OPPORTUNITY_BYTES }
    }

    /// Begins the recording anew.
    pub(super) fn restart(&mut self) {
        (self.next, self.room) = (0, OPPORTUNITY_BYTES);
    }

    /// When a packet has left whose service may begin at `start`.
    pub(super) fn finish(&mut self, start: Duration, len_bytes: u32) -> Duration {
        let opportunities = &self.recorded.opportunities;
        let first = opportunities.index_from(start);
        if first > self.next {
            (self.next, self.room) = (first, OPPORTUNITY_BYTES);
        }
        let mut left = len_bytes;
        loop {
            let at = opportunities.at(self.next).max(start);
            if left <= self.room {
                self.room -= left;
                return at;
            }
            left -= self.room;
            (self.next, self.room) = (self.next + 1, OPPORTUNITY_BYTES);
        }
    }

    /// What the radio delays at `at` beside the delay of the wire.
    pub(super) fn delay(&self, at: Duration) -> Duration {
        self.recorded.delays.as_ref().map_or(Duration::ZERO, |delays| delays.at(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DelayTrace, Opportunities};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn packets_share_opportunities_and_long_ones_take_several() {
        let opportunities = Opportunities::new([3, 10, 20], 0).unwrap();
        let delays = DelayTrace::new(10 * MS, [MS, 5 * MS], Duration::ZERO);
        let mut radio = Opportune::new(Recorded { opportunities, delays });
        assert_eq!(radio.finish(MS, 600), 3 * MS);
        assert_eq!(radio.finish(3 * MS, 600), 3 * MS, "in the same one");
        assert_eq!(radio.finish(3 * MS, 600), 10 * MS, "begun at 3 ms, done at 10");
        assert_eq!(radio.finish(11 * MS, 1_400), 20 * MS, "what was left at 10 ms is lost");
        assert_eq!(radio.finish(30 * MS, 3_000), 40 * MS, "the recording begins again");
        assert_eq!((radio.delay(9 * MS), radio.delay(12 * MS)), (MS, 5 * MS));
        radio.restart();
        assert_eq!(radio.finish(Duration::ZERO, 100), 3 * MS);
    }
}
