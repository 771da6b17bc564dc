// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Is this packet lost, or when will it be?
//!
//! RACK's rule (RFC 8985 §6.2) with packet thresholds (RFC 9002 §6.1): a packet is lost once one
//! sent later was acknowledged and either enough later ones were, or enough time has passed. Both
//! thresholds learn from packets that were declared lost and then acknowledged after all, so a path
//! that reorders is not mistaken for one that loses.

use std::time::{Duration, Instant};

use super::rtt::RttEstimator;

/// The packet threshold of a path that has not been seen to reorder (RFC 9002 §6.1.1).
const MIN_PACKET_THRESHOLD: u64 = 3;
/// On a path that reorders by more than this, only time tells: the distance then grows with the rate.
const MAX_PACKET_THRESHOLD: u64 = 64;
/// The reordering window is at most so many smoothed round trips. RFC 8985 has one; see
/// [`LossDetector::reordering_window`] for why it is not enough.
const MAX_WINDOW_ROUND_TRIPS: u32 = 3;
/// Rounds with losses after which what was learnt about reordering is forgotten (RFC 8985 §6.2.4).
const REORDERING_MEMORY: u32 = 16;

/// The verdict on one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is lost.
    Lost,
    /// It will be, unless it is acknowledged before.
    LostAt(Instant),
}

/// The two thresholds and what they have learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LossDetector {
    packet_threshold: u64,
    reordering: Duration,
    memory: u32,
    /// When the memory fades next.
    round_ends: Option<Instant>,
    granularity: Duration,
}

impl LossDetector {
    /// `granularity`: the resolution of the timers that will act on a verdict.
    #[must_use]
    pub(crate) const fn new(granularity: Duration) -> Self {
        Self {
            packet_threshold: MIN_PACKET_THRESHOLD,
            reordering: Duration::ZERO,
            memory: 0,
            round_ends: None,
            granularity,
        }
    }

    /// Judges a packet sent at `sent_at`, `distance` numbers below the largest acknowledged one.
    #[must_use]
    pub(crate) fn judge(
        &self,
        now: Instant,
        sent_at: Instant,
        distance: u64,
        rtt: &RttEstimator,
    ) -> Verdict {
        if distance >= self.packet_threshold {
            return Verdict::Lost;
        }
        let overdue = sent_at + rtt.conservative() + self.reordering_window(rtt);
        if now >= overdue {
            Verdict::Lost
        } else {
            Verdict::LostAt(overdue)
        }
    }

    /// How much later than expected an acknowledgement may come: an eighth of the round trip, or
    /// what was seen, but at most three more round trips: where delays vary so much, the samples
    /// come from the packets that were ahead, and the smoothed value is theirs.
    #[must_use]
    pub(crate) fn reordering_window(&self, rtt: &RttEstimator) -> Duration {
        let floor = (rtt.smoothed() / 8).max(self.granularity);
        self.reordering.clamp(floor, (rtt.smoothed() * MAX_WINDOW_ROUND_TRIPS).max(floor))
    }

    /// A packet that was declared lost has been acknowledged: `distance` below the largest one
    /// acknowledged when it was given up, `late` after a round trip from its sending.
    pub(crate) fn on_spurious_loss(&mut self, distance: u64, late: Duration) {
        let seen = if distance < MAX_PACKET_THRESHOLD { distance + 1 } else { u64::MAX };
        self.packet_threshold = self.packet_threshold.max(seen);
        self.reordering = self.reordering.max(late * 5 / 4);
        self.memory = REORDERING_MEMORY;
    }

    /// Packets were declared lost: the memory of reordering fades, once in a round trip.
    pub(crate) fn on_loss_event(&mut self, now: Instant, rtt: &RttEstimator) {
        if self.round_ends.is_some_and(|end| now < end) {
            return;
        }
        self.round_ends = Some(now + rtt.smoothed());
        self.memory = self.memory.saturating_sub(1);
        if self.memory == 0 {
            self.packet_threshold = MIN_PACKET_THRESHOLD;
            self.reordering = Duration::ZERO;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn rtt(ms: u32) -> RttEstimator {
        let mut rtt = RttEstimator::default();
        rtt.update(ms * MS, Duration::ZERO);
        rtt
    }

    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn t0() -> Instant {
        Instant::now()
    }

    // ARQ-LOS-1, ARQ-LOS-2
    #[test]
    fn verdicts() {
        let (t0, rtt) = (t0(), rtt(16));
        let fresh = LossDetector::new(MS / 10);
        let mut reordering = fresh;
        reordering.on_spurious_loss(9, 8 * MS);
        // (detector, age in ms, distance below the largest acknowledged, verdict)
        let cases = [
            (fresh, 1, 3, Verdict::Lost),
            (fresh, 1, 2, Verdict::LostAt(t0 + 18 * MS)),
            (fresh, 17, 1, Verdict::LostAt(t0 + 18 * MS)),
            (fresh, 18, 1, Verdict::Lost),
            (reordering, 1, 9, Verdict::LostAt(t0 + 26 * MS)),
            (reordering, 1, 10, Verdict::Lost),
            (reordering, 26, 1, Verdict::Lost),
        ];
        for (detector, age, distance, verdict) in cases {
            assert_eq!(
                detector.judge(t0 + age * MS, t0, distance, &rtt),
                verdict,
                "{age} {distance}"
            );
        }
    }

    // ARQ-LOS-2
    #[test]
    fn reordering_is_forgotten_after_rounds_not_losses() {
        let (t0, rtt, fresh) = (t0(), rtt(16), LossDetector::new(MS));
        let mut detector = fresh;
        detector.on_spurious_loss(1_000, 500 * MS);
        assert_eq!(detector.reordering_window(&rtt), 48 * MS, "at most three round trips");
        let judged = |detector: &LossDetector| detector.judge(t0, t0, 1_000_000, &rtt);
        for round in 0..REORDERING_MEMORY {
            assert_eq!(judged(&detector), Verdict::LostAt(t0 + 64 * MS), "only time tells");
            for loss in 0..100 {
                detector.on_loss_event(t0 + round * 16 * MS + loss * MS / 100, &rtt);
            }
        }
        assert_eq!(judged(&detector), Verdict::Lost);
        assert_eq!(detector.reordering_window(&rtt), fresh.reordering_window(&rtt));
    }
}
