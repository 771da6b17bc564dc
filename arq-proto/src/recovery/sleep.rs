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
/// A host that has slept may do so again. Looking costs it a timer every [`SHORTEST`].
const WATCHED: Duration = Duration::from_secs(1);

/// The times at which this host was asleep.
#[derive(Debug, Default)]
pub(crate) struct Sleeps {
    /// Since when nothing had been read before each of the last ones, and when it ended.
    last: VecDeque<(Instant, Instant)>,
    count: u64,
}

impl Sleeps {
    /// Nothing was read and no timer fired since `driven_at`, although one was `due`. Returns how long after that the
    /// host slept, if it did.
    pub(crate) fn record(
        &mut self,
        driven_at: Instant,
        due: Instant,
        now: Instant,
    ) -> Option<Duration> {
        let asleep = now.saturating_duration_since(due);
        if !(SHORTEST..=LONGEST).contains(&asleep) {
            return None;
        }
        if self.last.len() == MAX_SLEEPS {
            self.last.pop_front();
        }
        self.last.push_back((driven_at, now));
        self.count += 1;
        Some(asleep)
    }

    /// How long at most the answer to what was sent at `sent_at` may have waited for this host.
    pub(crate) fn since(&self, sent_at: Instant) -> Duration {
        let after = self.last.iter().rev().take_while(|&&(_, until)| until > sent_at);
        after.map(|&(since, until)| until - since.max(sent_at)).sum()
    }

    /// Whether the host slept just now.
    pub(crate) fn are_recent(&self, now: Instant) -> bool {
        let last = self.last.back();
        last.is_some_and(|&(_, until)| now.saturating_duration_since(until) < WATCHED)
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
        let at = |ms: u32| t0 + ms * MS;
        assert_eq!(sleeps.record(at(0), at(1), at(5)), None, "a late timer");
        assert_eq!(sleeps.record(at(0), at(1), at(1_002)), None, "a pause");
        assert_eq!(sleeps.record(at(10), at(15), at(40)), Some(25 * MS));
        assert_eq!(sleeps.record(at(60), at(65), at(70)), Some(5 * MS));
        for (sent_at, slept) in [(0, 40), (10, 40), (30, 20), (40, 10), (60, 10), (70, 0)] {
            assert_eq!(sleeps.since(at(sent_at)), slept * MS, "{sent_at} ms");
        }
        assert!(sleeps.are_recent(at(1_069)) && !sleeps.are_recent(at(1_070)));
        for n in 5..10_000 {
            sleeps.record(at(n * 20), at(n * 20), at(n * 20 + 10));
        }
        assert_eq!((sleeps.last.len(), sleeps.count()), (MAX_SLEEPS, 9_997));
    }
}
