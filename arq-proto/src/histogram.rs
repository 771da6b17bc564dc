// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How long does it take, and how often?

use std::{sync::Arc, time::Duration};

/// Times, counted in buckets: the bound of each is twice that of the one before. Clones share the counts until one of them
/// counts further, so a snapshot copies none. Nothing is allocated before the first time is counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram(Option<Arc<Counts>>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Counts {
    /// The last is for what is longer than all bounds.
    buckets: [u64; Histogram::BOUNDS + 1],
    sum: Duration,
}

impl Histogram {
    /// How many buckets have a bound.
    pub const BOUNDS: usize = 16;
    /// The bound of the first: the last one is that of 8.192 s.
    const FIRST_US: u64 = 250;

    pub(crate) fn add(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let doublings = u64::BITS - (us.saturating_sub(1) / Self::FIRST_US).leading_zeros();
        let counts = Arc::make_mut(self.0.get_or_insert_default());
        counts.buckets[(doublings as usize).min(Self::BOUNDS)] += 1;
        counts.sum = counts.sum.saturating_add(time);
    }

    /// The bound of each bucket, and how many times are in it, and in none before. That of the last is `Duration::MAX`.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let bounds = (0..Self::BOUNDS).map(|at| Duration::from_micros(Self::FIRST_US << at));
        bounds.chain([Duration::MAX]).zip(self.counts())
    }

    /// How many times were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// All of them together.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.0.as_ref().map_or(Duration::ZERO, |counts| counts.sum)
    }

    fn counts(&self) -> [u64; Self::BOUNDS + 1] {
        self.0.as_ref().map_or([0; Self::BOUNDS + 1], |counts| counts.buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_whose_bound_it_does_not_exceed() {
        for (us, bucket) in [
            (0, 0),
            (250, 0),
            (251, 1),
            (500, 1),
            (501, 2),
            (1_000, 2),
            (20_000, 7),
            (8_192_000, 15),
            (8_192_001, 16),
        ] {
            let mut histogram = Histogram::default();
            histogram.add(Duration::from_micros(us));
            assert_eq!(histogram.counts()[bucket], 1, "{us} us");
        }
        let mut longest = Histogram::default();
        longest.add(Duration::MAX);
        longest.add(Duration::MAX);
        assert_eq!((longest.count(), longest.sum()), (2, Duration::MAX));
    }

    #[test]
    fn buckets_have_bounds() {
        let mut histogram = Histogram::default();
        [1, 3, 3, 9_000].into_iter().for_each(|ms| histogram.add(Duration::from_millis(ms)));
        let used: Vec<_> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
        let bounds = [Duration::from_millis(1), Duration::from_millis(4), Duration::MAX];
        assert_eq!(used, bounds.into_iter().zip([1, 2, 1]).collect::<Vec<_>>());
        assert_eq!(histogram.buckets().nth(15), Some((Duration::from_millis(8_192), 0)));
        assert_eq!((histogram.count(), histogram.sum()), (4, Duration::from_millis(9_007)));
    }
}
