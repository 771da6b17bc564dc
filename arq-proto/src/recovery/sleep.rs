// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! When was this host asleep?
//!
//! On a busy host the process that drives a connection gets no processor for a while: tens or hundreds of milliseconds
//! on a loaded robot or a shared virtual machine. Acknowledgements wait in the socket meanwhile and nothing is sent.
//! Taken for what the path does, that is a silence, a long round trip and a low rate. A timer that fires far too late
//! gives such a sleep away.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Timers that fire a little too late are a busy host's, of which the round trip may well tell.
pub(crate) const SHORTEST: Duration = Duration::from_millis(5);
/// A longer sleep is a pause like any other: meanwhile the path may have become another one.
const LONGEST: Duration = Duration::from_secs(1);
/// Sleeps that are remembered: those of a round trip or two.
const MAX_SLEEPS: usize = 16;

/// The times at which this host was asleep.
#[derive(Debug, Default)]
pub(crate) struct Sleeps {
    /// When each of the last ones began, and its length.
    last: VecDeque<(Instant, Duration)>,
    count: u64,
}

impl Sleeps {
    /// Nothing happened between `from`, when something was due, and `until`. Returns how long that sleep was, if it was
    /// one.
    pub(crate) fn record(&mut self, from: Instant, until: Instant) -> Option<Duration> {
        let time = until.saturating_duration_since(from);
        if !(SHORTEST..=LONGEST).contains(&time) {
            return None;
        }
        if self.last.len() == MAX_SLEEPS {
            self.last.pop_front();
        }
        self.last.push_back((from, time));
        self.count += 1;
        Some(time)
    }

    /// How long this host slept since `at`.
    pub(crate) fn since(&self, at: Instant) -> Duration {
        let after = self.last.iter().rev().take_while(|&&(from, _)| from >= at);
        after.map(|&(_, time)| time).sum()
    }

    /// How often it slept.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    // ARQ-RTT-2
    #[test]
    fn sleeps_are_neither_late_timers_nor_pauses() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let (t0, mut sleeps) = (Instant::now(), Sleeps::default());
        assert_eq!(sleeps.record(t0, t0 + 4 * MS), None, "a late timer");
        assert_eq!(sleeps.record(t0, t0 + 1_001 * MS), None, "a pause");
        assert_eq!(sleeps.record(t0 + 10 * MS, t0 + 40 * MS), Some(30 * MS));
        assert_eq!(sleeps.record(t0 + 60 * MS, t0 + 70 * MS), Some(10 * MS));
        for (at, slept) in [(0, 40), (10, 40), (40, 10), (60, 10), (70, 0)] {
            assert_eq!(sleeps.since(t0 + at * MS), slept * MS, "{at} ms");
        }
        for n in 5..10_000 {
            sleeps.record(t0 + n * 20 * MS, t0 + n * 20 * MS + 10 * MS);
        }
        assert_eq!((sleeps.last.len(), sleeps.count()), (MAX_SLEEPS, 9_997));
    }
}
