// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does a packet conform to a token bucket? What does not is dropped, and no round trip grows.

use std::time::Duration;

/// The rate that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Bits per second.
    pub rate_bps: u64,
    /// What may pass at once after a pause.
    pub burst_bytes: u32,
}

/// The tokens of a policer, which has all of them at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenBucket {
    /// Bytes at a time; `None` while it has never been used.
    level: Option<(Duration, f64)>,
}

impl TokenBucket {
    /// Takes the tokens for a packet, or says that there are too few.
    pub fn conforms(
        &mut self,
        rate_bps: f64,
        burst_bytes: u32,
        now: Duration,
        len_bytes: u32,
    ) -> bool {
        let burst = f64::from(burst_bytes);
        let tokens = self.level.map_or(burst, |(then, left)| {
            let gained = now.saturating_sub(then).as_secs_f64() * rate_bps / 8.0;
            (left + gained).min(burst)
        });
        let left = tokens - f64::from(len_bytes);
        let conforms = left >= 0.0;
        self.level = Some((now, if conforms { left } else { tokens }));
        conforms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_bucket_lets_a_burst_through_and_then_the_rate() {
        let mut bucket = TokenBucket::default();
        let mut passes = |at| bucket.conforms(8e6, 5_000, Duration::from_micros(at), 1_000);
        assert_eq!((0..10).filter(|_| passes(0)).count(), 5);
        let passed = (1..=10_000).filter(|n| passes(n * 100)).count();
        assert!((999..=1_000).contains(&passed), "one a millisecond in one second: {passed}");
    }
}
