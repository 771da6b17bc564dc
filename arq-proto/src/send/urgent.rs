// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does an urgent lane live, so that less urgent bulk should leave the network's queue short?
//!
//! A packet that has left cannot be overtaken: a burst of bulk delays an urgent message behind it by its time on the
//! slowest link, whatever its priority.

use std::time::{Duration, Instant};

use super::lane::SendLane;
use crate::{per_lane::PerLane, redundancy::bundle::MAX_FRAME_BYTES, units::LaneId};

/// A lane lives for so long after a small message: one that sends less than once a second seldom meets bulk.
const LIFETIME: Duration = Duration::from_secs(1);

/// The most urgent lane that has sent small messages.
#[derive(Debug, Default)]
pub(crate) struct UrgentLane(Option<(LaneId, Instant)>);

impl UrgentLane {
    /// A frame of a message's only chunk left for the first time.
    pub(crate) fn on_sent(&mut self, now: Instant, lane: LaneId, frame_len: usize) {
        let is_more_urgent = self.alive(now).is_none_or(|urgent| lane <= urgent);
        if frame_len <= MAX_FRAME_BYTES && is_more_urgent {
            self.0 = Some((lane, now));
        }
    }

    /// Whether `next` is to leave in short bursts, for the sake of a more urgent lane. Not if its application waits for room:
    /// then bulk is sent without end, and what limits it is its rate.
    pub(crate) fn is_ahead_of(
        &self,
        now: Instant,
        next: LaneId,
        lanes: &PerLane<SendLane>,
    ) -> bool {
        let is_ahead = self.alive(now).is_some_and(|lane| lane.priority() < next.priority());
        is_ahead && !lanes[next].is_blocked()
    }

    fn alive(&self, now: Instant) -> Option<LaneId> {
        let (lane, sent_at) = self.0?;
        (now.saturating_duration_since(sent_at) < LIFETIME).then_some(lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::Config, send::queue::QueueLimits, units::Reliability};

    fn lane(priority: u8) -> LaneId {
        LaneId::new(priority, Reliability::Reliable).unwrap()
    }

    // ARQ-CC-14
    #[test]
    fn bulk_yields_to_a_more_urgent_lane_that_lives_unless_it_never_ends() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        let limits = QueueLimits::new(&Config::default().validate().unwrap());
        let mut lanes = PerLane::new(|id| SendLane::new(id, limits, None));
        let mut urgent = UrgentLane::default();
        urgent.on_sent(t0, lane(1), MAX_FRAME_BYTES + 1);
        assert!(!urgent.is_ahead_of(t0, lane(5), &lanes), "a large message is not urgent");
        urgent.on_sent(t0, lane(1), 300);
        urgent.on_sent(t0, lane(5), 300);
        let ahead = |lanes: &_, next, after| urgent.is_ahead_of(t0 + after, lane(next), lanes);
        assert!(ahead(&lanes, 5, LIFETIME / 2) && !ahead(&lanes, 5, LIFETIME));
        assert!(!ahead(&lanes, 1, Duration::ZERO) && !ahead(&lanes, 0, Duration::ZERO));
        lanes[lane(5)].refuse(t0);
        assert!(!ahead(&lanes, 5, Duration::ZERO), "its application waits for room");
    }
}
