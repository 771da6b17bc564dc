// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! When was this host asleep?
//!
//! On a busy host the process that drives a connection gets no processor for a while: tens or hundreds of milliseconds
//! on a loaded robot or a shared virtual machine. Acknowledgements wait in the socket meanwhile and nothing is sent.
//! Taken for what the path does, that is a silence, a long round trip and a low rate. A timer that fires far too late
//! gives such a sleep away.
//!
//! An acknowledgement may have waited in the socket during the sleep before it was read, and during earlier ones, as
//! far back as the host was awake for less than 5 ms after each of them. So the round trip lies between the sample
//! less that wait and the sample. The value in this interval that is closest to the smoothed round trip is taken. If
//! that is the smoothed value itself, and the wait exceeds an eighth of it, the sample teaches nothing (ARQ-RTT-2).
//!
//! The timers of probes and of lost packets stand still during a sleep. The first sleep since an acknowledgement
//! brought news also delays the probes by its length, one PTO at most: the peer may live on the same host
//! (ARQ-PTO-8).

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Timers that fire a little too late are a busy host's, of which the round trip may well tell.
pub(crate) const MIN_SLEEP: Duration = Duration::from_millis(5);
/// A longer sleep is a pause like any other: meanwhile the path may have become another one.
const MAX_SLEEP: Duration = Duration::from_secs(1);
/// Sleeps that are remembered: those of a round trip or two.
const MAX_SLEEPS: usize = 16;
/// A host that has slept may do so again. Looking costs it a timer every [`MIN_SLEEP`].
const WATCHED: Duration = Duration::from_secs(1);

/// A sleep of this host.
#[derive(Debug, Clone, Copy)]
struct Sleep {
    /// Nothing was read since then.
    driven_at: Instant,
    /// Something was to be done then.
    due: Instant,
    until: Instant,
}

/// The times at which this host was asleep.
#[derive(Debug, Default)]
pub(crate) struct Sleeps {
    last: VecDeque<Sleep>,
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
        if !(MIN_SLEEP..=MAX_SLEEP).contains(&asleep) {
            return None;
        }
        if self.last.len() == MAX_SLEEPS {
            self.last.pop_front();
        }
        self.last.push_back(Sleep { driven_at, due, until: now });
        self.count += 1;
        Some(asleep)
    }

    /// How long at most the answer to what was sent at `sent_at`, read now, may have waited for this host: since the
    /// sleeps from which it has hardly been awake. In [`MIN_SLEEP`] it would have read what waited.
    pub(crate) fn unread_since(&self, sent_at: Instant, now: Instant) -> Duration {
        let mut awake_until = now;
        self.after(sent_at)
            .take_while(|sleep| {
                let awake = awake_until.saturating_duration_since(sleep.until);
                awake_until = sleep.driven_at;
                awake < MIN_SLEEP
            })
            .map(|sleep| sleep.until - sleep.driven_at.max(sent_at))
            .sum()
    }

    /// How long this host was asleep since then, for certain.
    pub(crate) fn asleep_since(&self, at: Instant) -> Duration {
        self.after(at).map(|sleep| sleep.until - sleep.due.max(at)).sum()
    }

    fn after(&self, at: Instant) -> impl Iterator<Item = &Sleep> {
        self.last.iter().rev().take_while(move |sleep| sleep.until > at)
    }

    /// Whether the host slept just now.
    pub(crate) fn are_recent(&self, now: Instant) -> bool {
        let last = self.last.back();
        last.is_some_and(|sleep| now.saturating_duration_since(sleep.until) < WATCHED)
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
    fn what_waited_is_read_soon_after_a_sleep() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let (t0, mut sleeps) = (Instant::now(), Sleeps::default());
        let at = |ms: u32| t0 + ms * MS;
        for (driven_at, due, until) in [(0, 5, 20), (25, 30, 40), (44, 45, 60)] {
            assert!(sleeps.record(at(driven_at), at(due), at(until)).is_some());
        }
        for (sent_at, now, unread) in [
            // Awake for 4 ms between the second and the third, for 5 ms before that.
            (0, 64, 16 + 15),
            (30, 60, 16 + 10),
            (50, 61, 10),
            (60, 64, 0),
            (0, 65, 0),
        ] {
            assert_eq!(
                sleeps.unread_since(at(sent_at), at(now)),
                unread * MS,
                "{sent_at} to {now} ms"
            );
        }
    }

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
        for (sent_at, unread, asleep) in
            [(0, 10, 30), (10, 10, 30), (30, 10, 15), (40, 10, 5), (60, 10, 5), (70, 0, 0)]
        {
            assert_eq!(sleeps.unread_since(at(sent_at), at(70)), unread * MS, "{sent_at} ms");
            assert_eq!(sleeps.asleep_since(at(sent_at)), asleep * MS, "{sent_at} ms");
        }
        assert!(sleeps.are_recent(at(1_069)) && !sleeps.are_recent(at(1_070)));
        for n in 5..10_000 {
            sleeps.record(at(n * 20), at(n * 20), at(n * 20 + 10));
        }
        assert_eq!((sleeps.last.len(), sleeps.count()), (MAX_SLEEPS, 9_997));
    }
}
