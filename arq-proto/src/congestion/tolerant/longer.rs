// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Is what looks like a queue a path that has become longer?
//!
//! Both make round trips longer than the least one known. A queue of ours goes when we send less; one that others keep
//! full stays, as a longer path does. So that is a guess, and a wrong one costs others: who takes their queue for path
//! takes their loss for the medium's. What speaks for a longer path is counted until anything speaks against it, and then
//! the least round trip is measured anew.
//!
//! Much less is enough after a *leap*: a queue takes rounds to grow to several times the path, since nobody more than
//! doubles what he sends in a round trip. A vehicle that leaves its cable for a radio sees a hundred times the least round
//! trip from one packet to the next. A burst may leap as well; it is gone when the least round trip is measured.

use std::time::Duration;

use super::{
    path::MinRtt,
    tuning::{ECHO_ROUNDS, STANDING, TWICE},
};

/// What speaks for a longer path.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Longer {
    /// Reductions since the last round without a queue.
    queued: u8,
    /// Rounds since one in which some packet did not wait, whatever the jitter.
    waiting: u64,
    /// Reductions since round trips have leapt far above the least one, where they are since.
    leapt: Option<u8>,
}

impl Longer {
    /// A round that had a queue, or not, and whose quickest packet, if any was measured, took `rtt`.
    pub(super) fn on_round(&mut self, queue: bool, rtt: Option<Duration>, least: &MinRtt) {
        if !queue {
            self.queued = 0;
        }
        let Some(rtt) = rtt else { return };
        let waited = least.may_show_queue(rtt);
        self.waiting = if waited { self.waiting.saturating_add(1) } else { 0 };
        let leaps = self.waiting <= ECHO_ROUNDS;
        self.leapt = self.leapt.or_else(|| leaps.then_some(0)).filter(|_| least.is_far_below(rtt));
    }

    /// The rate is reduced for a queue.
    pub(super) fn on_reduction(&mut self) {
        self.queued = self.queued.saturating_add(1);
        self.leapt = self.leapt.map(|reductions| reductions.saturating_add(1));
    }

    /// The path seems to have become slower, too. If it was not, its window would not hold what a longer one needs.
    pub(super) fn on_slowdown(&mut self) {
        self.leapt = self.leapt.map(|_| TWICE);
    }

    /// The least round trip was measured: what spoke for that is settled. A queue that stood before it has still not leapt.
    pub(super) fn settle(&mut self) {
        *self = Self { waiting: self.waiting, ..Self::default() };
    }

    /// Whether to measure the least round trip anew.
    pub(super) fn is_likely(&self) -> bool {
        self.queued >= STANDING || self.leapt.is_some_and(|reductions| reductions >= TWICE)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn least(rtt: Duration) -> MinRtt {
        let mut least = MinRtt::new();
        least.update(Instant::now(), rtt);
        least
    }

    /// After how many reductions, each of them behind one of these rounds, a longer path is likely.
    fn reductions_over(rounds: &[(bool, Option<Duration>)]) -> Option<usize> {
        let (mut longer, least) = (Longer::default(), least(10 * MS));
        let all = rounds.iter().chain(rounds.last().into_iter().cycle());
        all.take(20).position(|&(queue, rtt)| {
            longer.on_round(queue, rtt, &least);
            longer.on_reduction();
            longer.is_likely()
        })
    }

    // ARQ-CC-6
    #[test]
    fn a_leap_takes_two_reductions_and_a_queue_that_has_grown_seven() {
        let [clear, near, far] =
            [(false, 10), (true, 20), (true, 42)].map(|(q, ms)| (q, Some(ms * MS)));
        for (rounds, expected) in [
            (&[clear, near][..], Some(6)),
            (&[clear, far], Some(2)),
            (&[clear, near, far], Some(3)),
            // In two rounds it might have grown.
            (&[clear, near, near, far], Some(6)),
            (&[clear, far, near, far], Some(6)),
            // Nothing was measured: that says nothing.
            (&[clear, (true, None), far], Some(3)),
            // Jitter seems to explain it: it is far all the same.
            (&[clear, (false, Some(42 * MS))], Some(2)),
            (&[clear, (false, Some(11 * MS))], None),
        ] {
            assert_eq!(reductions_over(rounds), expected, "{rounds:?}");
        }
    }

    // ARQ-CC-6
    #[test]
    fn a_queue_that_outlasts_a_measurement_has_not_leapt() {
        let (mut longer, least) = (Longer::default(), least(10 * MS));
        for rtt in [20, 25, 30, 35, 42] {
            longer.on_round(true, Some(rtt * MS), &least);
        }
        longer.settle();
        for reduction in 1..=7 {
            longer.on_round(true, Some(42 * MS), &least);
            longer.on_reduction();
            assert_eq!(longer.is_likely(), reduction == 7, "after {reduction}");
        }
    }

    // ARQ-CC-6
    #[test]
    fn what_has_leapt_and_seems_slower_is_measured_at_once() {
        for (rtt, expected) in [(30 * MS, false), (50 * MS, true)] {
            let (mut longer, least) = (Longer::default(), least(10 * MS));
            longer.on_round(false, Some(10 * MS), &least);
            longer.on_round(true, Some(rtt), &least);
            longer.on_slowdown();
            assert_eq!(longer.is_likely(), expected, "{rtt:?}");
        }
    }
}
