// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How long has a datagram waited in this host before it was read?
//!
//! A stalled process leaves datagrams in the kernel's buffer and reads them later as if they had just come. A best-effort
//! message with a deadline carries a timestamp: when the peer's application handed it over. The two hosts' clocks are not
//! synchronised, but the least difference between timestamp and arrival over a few seconds is the clocks' offset plus the
//! shortest one-way delay (as in LEDBAT, RFC 6817). What exceeds it is waiting time. Only waiting in this host counts, and
//! no more of it than this host has stalled: so a slower path, a drifting clock, or a clock that stops while its host is
//! suspended makes no message old.

use std::time::{Duration, Instant};

/// The least difference is taken over one to two of these periods.
const PERIOD: Duration = Duration::from_secs(2);
/// After a stall the backlog is read within this time, or within the stall's length if that is shorter.
const MAX_BACKLOG: Duration = Duration::from_secs(1);
/// Stalls are watched for while the newest timestamp is younger than this.
const WATCHED: Duration = Duration::from_secs(1);
/// Shortest interval of that watch.
const MIN_WATCH: Duration = Duration::from_millis(5);
/// Bits of a time on the wire.
const TIME_BITS: u32 = 24;

/// A stall, and the time to read what came during it.
#[derive(Debug, Clone, Copy)]
struct Backlog {
    /// Before the sleep nothing was left unread.
    since: Instant,
    until: Instant,
}

/// What the peer's clock says about the age of what is read.
#[derive(Debug)]
pub(crate) struct Ages {
    /// The peer's deadline; zero if it has none.
    deadline: Duration,
    epoch: Instant,
    /// The peer's newest time, in milliseconds.
    newest: Option<i64>,
    heard_at: Option<Instant>,
    /// The least difference between the two clocks in this period and in the one before, in milliseconds.
    least: [i64; 2],
    period_since: Instant,
    backlog: Option<Backlog>,
}

impl Ages {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            deadline: Duration::ZERO,
            epoch: now,
            newest: None,
            heard_at: None,
            least: [i64::MAX; 2],
            period_since: now,
            backlog: None,
        }
    }

    pub(crate) fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// A message was handed over at `ms` by the peer's clock. Returns how long it has waited here, unread;
    /// `None` if the peer has no deadline.
    pub(crate) fn on_timestamp(&mut self, now: Instant, ms: u32) -> Option<Duration> {
        if self.deadline.is_zero() {
            return None;
        }
        let sent = self.expand(ms);
        self.newest = self.newest.max(Some(sent));
        self.heard_at = Some(now);
        let difference = millis(now.saturating_duration_since(self.epoch)).saturating_sub(sent);
        if now.saturating_duration_since(self.period_since) >= PERIOD {
            self.least = [i64::MAX, self.least[0]];
            self.period_since = now;
        }
        self.least[0] = self.least[0].min(difference);
        let Some(Backlog { since, .. }) = self.backlog.filter(|backlog| now < backlog.until) else {
            return Some(Duration::ZERO);
        };
        let late = difference.saturating_sub(self.least[0].min(self.least[1]));
        let late = Duration::from_millis(u64::try_from(late).unwrap_or(0));
        Some(late.min(now.saturating_duration_since(since)))
    }

    /// The time with these low bits that is nearest to the newest one.
    fn expand(&self, ms: u32) -> i64 {
        let Some(newest) = self.newest else { return ms.into() };
        let ahead = i64::from(ms).wrapping_sub(newest) << (64 - TIME_BITS) >> (64 - TIME_BITS);
        newest.saturating_add(ahead)
    }

    /// This host was not driven since `driven_at`, although something was due.
    pub(crate) fn on_awake(&mut self, driven_at: Instant, now: Instant) {
        let asleep = now.saturating_duration_since(driven_at);
        // Nothing grows too old in less.
        if self.deadline.is_zero() || asleep <= self.deadline {
            return;
        }
        // The clocks' difference is as well known as before.
        self.period_since = (self.period_since + asleep).min(now);
        let open = self.backlog.filter(|backlog| driven_at < backlog.until);
        let since = open.map_or(driven_at, |backlog| backlog.since);
        self.backlog = Some(Backlog { since, until: now + asleep.min(MAX_BACKLOG) });
    }

    /// When to look for a stall: other timers may be further ahead than the deadline.
    pub(crate) fn watch_deadline(&self, now: Instant) -> Option<Instant> {
        let heard_at = self.heard_at.filter(|&at| now < at + WATCHED)?;
        Some(heard_at.max(now) + (self.deadline / 2).max(MIN_WATCH))
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn ages() -> (Ages, Instant) {
        let t0 = Instant::now();
        let mut ages = Ages::new(t0);
        ages.set_deadline(200 * MS);
        (ages, t0)
    }

    // ARQ-BEF-7
    #[test]
    fn what_waited_for_a_sleeping_host_is_as_old_as_its_wait() {
        for clock in [0_u32, 5_000_000, (1 << 24) - 2_000] {
            let (mut ages, t0) = ages();
            let read = |ages: &mut Ages, sent: u32, at: u32| {
                let waited = ages.on_timestamp(t0 + at * MS, (clock + sent) % (1 << 24));
                waited.unwrap().as_millis()
            };
            for n in 0..50 {
                // 20 to 24 ms on the way.
                assert_eq!(read(&mut ages, n * 20, n * 20 + 20 + n % 5), 0, "awake");
            }
            ages.on_awake(t0 + 1_000 * MS, t0 + 8_000 * MS);
            for (sent, waited) in
                [(980, 7_000), (1_000, 6_980), (7_780, 200), (7_980, 0), (7_990, 0)]
            {
                assert_eq!(read(&mut ages, sent, 8_000), waited, "{sent}");
            }
            // Another little sleep does not hide what waited through the first one.
            ages.on_awake(t0 + 8_000 * MS, t0 + 8_250 * MS);
            assert_eq!(read(&mut ages, 2_000, 8_250), 6_240);
            assert_eq!(read(&mut ages, 2_000, 8_499), 6_489);
            assert_eq!(read(&mut ages, 2_000, 8_500), 0, "what waited is read by now");
            assert_eq!(read(&mut ages, 2_000, 9_300), 0, "nothing waits that long");
        }
    }

    // ARQ-BEF-7
    #[test]
    fn a_slower_path_and_a_suspended_peer_make_nothing_old() {
        let (mut ages, t0) = ages();
        for n in 0..50 {
            ages.on_timestamp(t0 + n * 20 * MS, n * 20);
        }
        // From now on 3 s later, whatever the reason.
        for n in 50..500 {
            assert_eq!(ages.on_timestamp(t0 + (n * 20 + 3_000) * MS, n * 20), Some(Duration::ZERO));
        }
        // A sleep of 250 ms cannot have kept anything for longer; what it did keep is known soon enough.
        let woke = 13_000;
        ages.on_awake(t0 + (woke - 250) * MS, t0 + woke * MS);
        let waited = ages.on_timestamp(t0 + woke * MS, woke - 3_000);
        assert_eq!(waited, Some(Duration::ZERO));
    }

    /// The offset of the clocks is not learned from what waited.
    // ARQ-BEF-7
    #[test]
    fn each_of_two_long_sleeps_makes_what_waited_old() {
        let (mut ages, t0) = ages();
        ages.on_timestamp(t0 + 20 * MS, 0);
        ages.on_awake(t0 + 100 * MS, t0 + 7_100 * MS);
        assert_eq!(ages.on_timestamp(t0 + 7_100 * MS, 80), Some(7_000 * MS));
        ages.on_awake(t0 + 7_200 * MS, t0 + 10_200 * MS);
        assert_eq!(ages.on_timestamp(t0 + 10_200 * MS, 8_180), Some(2_000 * MS));
    }

    // ARQ-BEF-7
    #[test]
    fn a_sleep_counts_if_it_is_longer_than_the_deadline_and_from_its_own_start() {
        let (mut ages, t0) = ages();
        ages.on_timestamp(t0, 0);
        ages.on_awake(t0, t0 + 200 * MS);
        assert_eq!(ages.on_timestamp(t0 + 200 * MS, 0), Some(Duration::ZERO));
        ages.on_awake(t0 + 200 * MS, t0 + 401 * MS);
        assert_eq!(ages.on_timestamp(t0 + 401 * MS, 0), Some(201 * MS));
        // What waited is read for as long again; then another sleep begins.
        ages.on_awake(t0 + 602 * MS, t0 + 902 * MS);
        assert_eq!(ages.on_timestamp(t0 + 902 * MS, 0), Some(300 * MS));
    }

    // ARQ-BEF-7
    #[test]
    fn stalls_are_looked_for_within_half_the_deadline_of_what_was_heard() {
        let (mut ages, t0) = ages();
        assert_eq!(ages.watch_deadline(t0), None, "nothing was heard");
        ages.on_timestamp(t0, 0);
        assert_eq!(ages.watch_deadline(t0), Some(t0 + 100 * MS));
        assert_eq!(ages.watch_deadline(t0 + 999 * MS), Some(t0 + 1_099 * MS));
        assert_eq!(ages.watch_deadline(t0 + 1_000 * MS), None);
        ages.set_deadline(4 * MS);
        assert_eq!(ages.watch_deadline(t0), Some(t0 + 5 * MS));
    }
}
