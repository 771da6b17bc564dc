// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! When was this host asleep?
//!
//! On a busy host the process that drives a connection gets no processor for a while, tens or hundreds of
//! milliseconds of a loaded robot or a shared virtual machine. Acknowledgements wait in the socket meanwhile and nothing
//! is sent: taken for time of the path, that is a silence, a long round trip and a low rate. A timer that fires far too
//! late gives such a sleep away, and in the time that counts here there are none.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Timers that fire this much too late are a busy host's, of which the round trip may well tell.
pub(crate) const SHORTEST: Duration = Duration::from_millis(5);
/// A longer sleep is a pause like any other: meanwhile the path may have become another one.
const LONGEST: Duration = Duration::from_secs(1);
/// Sleeps that are told from each other: those of a few round trips.
const MAX_RECENT: usize = 16;

/// The times at which this host was asleep.
#[derive(Debug, Default)]
pub(crate) struct Sleeps {
    /// When each of the last ones began, and its length.
    recent: VecDeque<(Instant, Duration)>,
    /// The length of all earlier ones together.
    earlier: Duration,
}

impl Sleeps {
    /// Nothing happened between `from`, when something was due, and `until`. Returns how long that sleep was, if it was
    /// one.
    pub(crate) fn record(&mut self, from: Instant, until: Instant) -> Option<Duration> {
        let time = until.saturating_duration_since(from);
        if !(SHORTEST..=LONGEST).contains(&time) {
            return None;
        }
        if self.recent.len() == MAX_RECENT {
            self.earlier += self.recent.pop_front().map_or(Duration::ZERO, |(_, time)| time);
        }
        self.recent.push_back((from, time));
        Some(time)
    }

    /// What a clock shows at `at` that stands still while this host sleeps.
    pub(crate) fn awake(&self, at: Instant) -> Instant {
        let before = self.recent.iter().take_while(|&&(from, _)| from < at);
        let asleep = self.earlier + before.map(|&(_, time)| time).sum::<Duration>();
        at.checked_sub(asleep).unwrap_or(at)
    }

    /// How long this host slept since `at`.
    pub(crate) fn since(&self, at: Instant) -> Duration {
        let after = self.recent.iter().rev().take_while(|&&(from, _)| from >= at);
        after.map(|&(_, time)| time).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn t0() -> Instant {
        Instant::now()
    }

    // ARQ-RTT-2
    #[test]
    fn the_clock_stands_still_in_sleeps_and_runs_in_pauses() {
        let (t0, mut sleeps) = (t0(), Sleeps::default());
        assert_eq!(sleeps.record(t0, t0 + 4 * MS), None, "a late timer");
        assert_eq!(sleeps.record(t0, t0 + 1_001 * MS), None, "a pause");
        assert_eq!(sleeps.record(t0 + 10 * MS, t0 + 40 * MS), Some(30 * MS));
        assert_eq!(sleeps.record(t0 + 60 * MS, t0 + 70 * MS), Some(10 * MS));
        for (at, awake) in [(0, 0), (10, 10), (40, 10), (60, 30), (70, 30), (100, 60)] {
            assert_eq!(sleeps.awake(t0 + at * MS), t0 + awake * MS, "{at} ms");
        }
        for (at, asleep) in [(0, 40), (10, 40), (40, 10), (60, 10), (70, 0)] {
            assert_eq!(sleeps.since(t0 + at * MS), asleep * MS, "{at} ms");
        }
    }

    // ARQ-RTT-2
    #[test]
    fn a_host_that_always_sleeps_costs_no_memory_and_its_clock_never_goes_back() {
        let (t0, mut sleeps) = (t0(), Sleeps::default());
        let mut last = t0;
        for n in 0..10_000 {
            let from = t0 + n * 20 * MS;
            sleeps.record(from, from + 10 * MS);
            for at in [from + 10 * MS, from + 20 * MS] {
                assert!(sleeps.awake(at) >= last);
                last = sleeps.awake(at);
            }
        }
        assert_eq!(last, t0 + 100_000 * MS);
        assert_eq!(sleeps.recent.len(), MAX_RECENT);
    }
}
