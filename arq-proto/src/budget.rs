// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What may pass an interface whose bytes cost money.
//!
//! A token bucket that holds what the rate earns in an hour. What is kept of it is the time at which it is full again, so
//! nothing is rounded in the sender's favour, however often it is asked.

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use crate::units::Rate;

/// What a full bucket holds, as the time in which it is earned.
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
/// What a peer sends beyond the budget is owed, up to this.
const MOST_OWED: Duration = HOUR;

/// A budget of bytes, headers of IP and UDP included, shared by all connections that pass through an interface: a clone is
/// the same budget. An hour's worth may be used at once.
#[derive(Debug, Clone)]
pub struct Budget {
    rate: Rate,
    base: Instant,
    /// When nothing is missing any more, in nanoseconds after `base`.
    full_at: Arc<AtomicU64>,
}

impl PartialEq for Budget {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.full_at, &other.full_at)
    }
}

impl Eq for Budget {}

impl Budget {
    /// The least rate that makes sense, in bits per second: the questions whether a path lives take a tenth of it.
    pub const MIN_RATE_BPS: u64 = 1_000;

    /// A budget that earns so many bits per second, rounded down to whole bytes, and is full. A rate below
    /// [`Self::MIN_RATE_BPS`] counts as that.
    #[must_use]
    pub fn new(rate_bps: u64, now: Instant) -> Self {
        let rate = Rate::from_bits_per_second(rate_bps.max(Self::MIN_RATE_BPS));
        Self { rate, base: now, full_at: Arc::default() }
    }

    /// Bytes that are left.
    #[must_use]
    pub fn left_bytes(&self, now: Instant) -> u64 {
        self.rate.bytes_in(self.left(now))
    }

    /// The same as the time in which they were earned, an hour at most.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        HOUR.saturating_sub(Duration::from_nanos(self.missing(now, self.load())))
    }

    /// Takes the bytes of up to `most` packets of `bytes`; returns of how many.
    pub(crate) fn take(&self, now: Instant, bytes: u64, most: usize) -> usize {
        let each = self.nanos_for(bytes).max(1);
        let mut taken = 0;
        self.update(now, |missing| {
            let left = nanos(HOUR).saturating_sub(missing);
            taken = (left / each).min(most as u64);
            missing + taken * each
        });
        taken as usize
    }

    /// Gives back what was taken of so many packets of `bytes`, but for what was `used`.
    pub(crate) fn give_back(&self, now: Instant, packets: usize, bytes: u64, used: u64) {
        let taken = packets as u64 * self.nanos_for(bytes).max(1);
        let unused = taken.saturating_sub(self.nanos_for(used));
        self.update(now, |missing| missing.saturating_sub(unused));
    }

    /// Takes what has passed already, whether it is there or not.
    pub(crate) fn charge(&self, now: Instant, bytes: u64) {
        let passed = self.nanos_for(bytes);
        let most = nanos(HOUR + MOST_OWED);
        self.update(now, |missing| missing.saturating_add(passed).min(most));
    }

    fn nanos_for(&self, bytes: u64) -> u64 {
        nanos(self.rate.time_for(bytes))
    }

    fn load(&self) -> u64 {
        self.full_at.load(Ordering::Relaxed)
    }

    fn missing(&self, now: Instant, full_at: u64) -> u64 {
        full_at.saturating_sub(nanos(now.saturating_duration_since(self.base)))
    }

    fn update(&self, now: Instant, mut change: impl FnMut(u64) -> u64) {
        let since_base = nanos(now.saturating_duration_since(self.base));
        let mut before = self.load();
        loop {
            let after = since_base.saturating_add(change(self.missing(now, before)));
            match self.full_at.compare_exchange_weak(
                before,
                after,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(changed) => before = changed,
            }
        }
    }
}

/// Of less than 500 years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: Duration = Duration::from_secs(1);

    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn t0() -> Instant {
        Instant::now()
    }

    // ARQ-MP-11
    #[test]
    fn no_more_passes_than_an_hours_worth_and_the_rate() {
        for rate_bps in [1_000, 16_000, 1_234_567] {
            let start = t0();
            let budget = Budget::new(rate_bps, start);
            let hour = rate_bps / 8 * 3_600;
            assert_eq!(budget.left_bytes(start), hour);
            let mut sent = 0;
            for ms in 0..600_000_u64 {
                let now = start + Duration::from_millis(ms);
                // More is asked for than leaves.
                let packets = budget.take(now, 1_228, 10);
                let used = (packets as u64 * 1_228).saturating_sub(ms % 700);
                budget.give_back(now, packets, 1_228, used);
                sent += used;
                assert!(sent <= hour + rate_bps / 8 * ms.div_ceil(1_000), "{sent} after {ms} ms");
            }
            let earned = hour + rate_bps / 8 * 600;
            assert!(sent > earned - 2 * 1_228, "{sent} of {earned}");
        }
    }

    // ARQ-MP-11
    #[test]
    fn clones_are_one_budget_and_what_passed_beyond_it_is_owed() {
        let start = t0();
        let budget = Budget::new(16_000, start);
        let same = budget.clone();
        assert_eq!(budget, same);
        assert_ne!(budget, Budget::new(16_000, start));
        same.charge(start, 7_000_000);
        assert_eq!(budget.left_bytes(start), 200_000);
        assert_eq!(budget.take(start, 1_000, usize::MAX), 200);
        same.charge(start, 20_000);
        assert_eq!(budget.left_bytes(start + 10 * SEC), 0);
        assert_eq!(budget.left_bytes(start + 11 * SEC), 2_000);
        // A flood is not owed for ever, and a pause earns an hour's worth.
        (0..1_000).for_each(|_| budget.charge(start, 1 << 20));
        assert_eq!(budget.take(start + HOUR, 1_000, 1), 0);
        assert_eq!(budget.left_bytes(start + 2 * HOUR), 7_200_000);
        assert_eq!(budget.left_bytes(start + 9 * HOUR), 7_200_000);
    }
}
