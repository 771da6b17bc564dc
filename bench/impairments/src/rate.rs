// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! When has a server sent so many bytes, when it begins at some time?

use std::{fmt, sync::Arc, time::Duration};

/// What one delivery opportunity of a recording carries, bytes of IP packets (Mahimahi's unit).
pub const OPPORTUNITY_BYTES: u32 = 1_500;

/// How fast a link sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    /// Always as fast; what was not used before lets up to `burst_bytes` pass at once (a token bucket that shapes). 0 is
    /// a plain server.
    Fixed {
        /// Bits per second, above 0.
        bps: f64,
        /// The bucket.
        burst_bytes: u32,
    },
    /// As it was recorded.
    Trace(RateTrace),
    /// At recorded moments, and at no other time.
    Opportunities(Opportunities),
}

impl Rate {
    /// A plain server of `bps` bits per second.
    pub const fn fixed(bps: f64) -> Self {
        Self::Fixed { bps, burst_bytes: 0 }
    }

    /// The bytes that pass at most from `from` to `to`, beside a bucket.
    pub fn capacity_bytes(&self, from: Duration, to: Duration) -> f64 {
        match self {
            Self::Fixed { bps, .. } => bps / 8.0 * to.saturating_sub(from).as_secs_f64(),
            Self::Trace(trace) => trace.bits_between(from, to) / 8.0,
            Self::Opportunities(opportunities) => {
                let count = opportunities.index_from(to) - opportunities.index_from(from);
                count as f64 * f64::from(OPPORTUNITY_BYTES)
            }
        }
    }
}

/// A rate that changes each so often; after the last value the first one comes again.
#[derive(Clone, Debug, PartialEq)]
pub struct RateTrace {
    step: Duration,
    bps: Arc<[f64]>,
    offset: Duration,
}

impl RateTrace {
    /// `bps` holds bits per second for each `step`; the run begins at `offset`. `None` if nothing would ever pass.
    pub fn new(step: Duration, bps: impl Into<Arc<[f64]>>, offset: Duration) -> Option<Self> {
        let bps = bps.into();
        let passes = !step.is_zero() && bps.iter().any(|&bps| bps > 0.0);
        passes.then_some(Self { step, bps, offset })
    }

    /// The rate of each step.
    pub fn bits_per_second(&self) -> &[f64] {
        &self.bps
    }

    /// The rate at `at`, and when it changes.
    fn at(&self, at: Duration) -> (f64, Duration) {
        let since = at + self.offset;
        let steps = since.as_nanos() / self.step.as_nanos();
        let bps = self.bps[(steps % self.bps.len() as u128) as usize];
        let next = Duration::from_nanos(((steps + 1) * self.step.as_nanos()) as u64);
        (bps, next - self.offset)
    }

    /// When `bits` have passed that begin at `start`.
    pub fn finish(&self, start: Duration, bits: f64) -> Duration {
        let (mut at, mut left) = (start, bits);
        loop {
            let (bps, until) = self.at(at);
            let passed = bps * (until - at).as_secs_f64();
            if passed >= left {
                return at + Duration::from_secs_f64(left / bps);
            }
            (at, left) = (until, left - passed);
        }
    }

    fn bits_between(&self, from: Duration, to: Duration) -> f64 {
        let (mut at, mut bits) = (from, 0.0);
        while at < to {
            let (bps, until) = self.at(at);
            let until = until.min(to);
            bits += bps * (until - at).as_secs_f64();
            at = until;
        }
        bits
    }
}

/// Moments at which up to [`OPPORTUNITY_BYTES`] leave the queue: Mahimahi's recordings. What is not used is lost. The
/// last moment is also the zero of the repetition, as in Mahimahi.
#[derive(Clone, PartialEq, Eq)]
pub struct Opportunities {
    ms: Arc<[u32]>,
    offset_ms: u64,
}

/// A recording is long: not all of it is shown.
impl fmt::Debug for Opportunities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, period) = (self.ms.len(), self.period());
        write!(f, "Opportunities({count} in {period:?}, from {} ms on)", self.offset_ms)
    }
}

impl Opportunities {
    /// Milliseconds that do not fall, the last one above 0, of which the run begins at `offset_ms`. `None` otherwise.
    pub fn new(ms: impl Into<Arc<[u32]>>, offset_ms: u64) -> Option<Self> {
        let ms = ms.into();
        let rises = ms.windows(2).all(|pair| pair[0] <= pair[1]);
        let is_valid = rises && ms.last().is_some_and(|&last| last > 0);
        is_valid.then_some(Self { ms, offset_ms })
    }

    /// How long the recording is.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms())
    }

    /// The same recording from another place on.
    #[must_use]
    pub fn starting_at(&self, offset_ms: u64) -> Self {
        Self { ms: Arc::clone(&self.ms), offset_ms }
    }

    fn period_ms(&self) -> u64 {
        self.ms.last().map_or(1, |&last| u64::from(last))
    }

    /// The time of opportunity number `index`, counted from the first repetition's beginning.
    pub fn at(&self, index: u64) -> Duration {
        let each = self.ms.len() as u64;
        let ms = index / each * self.period_ms() + u64::from(self.ms[(index % each) as usize]);
        Duration::from_millis(ms.saturating_sub(self.offset_ms))
    }

    /// The first opportunity at `time` or later.
    pub fn index_from(&self, time: Duration) -> u64 {
        let each = self.ms.len() as u64;
        let ms = time.as_nanos().div_ceil(1_000_000) as u64 + self.offset_ms;
        // The last moment of one repetition is the first one of the next.
        let mut lap = (ms / self.period_ms()).saturating_sub(1);
        loop {
            let begins = lap * self.period_ms();
            let before = self.ms.partition_point(|&at| begins + u64::from(at) < ms) as u64;
            if before < each {
                return lap * each + before;
            }
            lap += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn opportunities_are_where_the_file_has_them_and_wrap() {
        let trace = Opportunities::new([3, 3, 10, 20], 0).unwrap();
        let times: Vec<_> = (0..10).map(|index| trace.at(index).as_millis()).collect();
        assert_eq!(times, [3, 3, 10, 20, 23, 23, 30, 40, 43, 43]);
        for (ms, index) in [(0, 0), (3, 0), (4, 2), (10, 2), (11, 3), (20, 3), (21, 4), (41, 8)] {
            assert_eq!(trace.index_from(ms * MS), index, "from {ms} ms");
        }
        assert_eq!(trace.index_from(3 * MS + Duration::from_nanos(1)), 2, "it is over");
        let later = trace.starting_at(4);
        let from = later.index_from(Duration::ZERO);
        assert_eq!((from, later.at(from), later.at(from + 2)), (2, 6 * MS, 19 * MS));
        let bytes = Rate::Opportunities(trace).capacity_bytes(3 * MS, 23 * MS);
        assert_eq!(bytes, 6_000.0, "its end does not belong to a span");
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        assert_eq!(Opportunities::new([], 0), None);
        assert_eq!(Opportunities::new([0, 0], 0), None);
        assert_eq!(Opportunities::new([5, 4], 0), None);
        assert_eq!(RateTrace::new(SECOND, [0.0, 0.0], Duration::ZERO), None);
        assert_eq!(RateTrace::new(Duration::ZERO, [1.0], Duration::ZERO), None);
    }

    #[test]
    fn a_rate_changes_with_its_second_and_an_outage_delays() {
        let trace = RateTrace::new(SECOND, [1e6, 0.0, 2e6], Duration::ZERO).unwrap();
        assert_eq!(trace.finish(Duration::ZERO, 5e5), 500 * MS);
        assert_eq!(trace.finish(500 * MS, 1e6), 2_250 * MS);
        assert_eq!(trace.finish(2_500 * MS, 2e6), 4 * SECOND, "and begins again");
        assert_eq!(trace.bits_between(500 * MS, 3_500 * MS), 3e6);
        let later = RateTrace::new(SECOND, [1e6, 0.0, 2e6], 1_500 * MS).unwrap();
        assert_eq!(later.finish(Duration::ZERO, 2e6), 1_500 * MS);
    }
}
