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
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    policer: Policer,
    tokens: f64,
    counted_at: Duration,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(policer: Policer) -> Self {
        Self { policer, tokens: policer.burst_bytes.into(), counted_at: Duration::ZERO }
    }

    /// Takes the tokens for a packet, or says that there are too few.
    pub fn conforms(&mut self, now: Duration, bytes: usize) -> bool {
        let earned = now.saturating_sub(self.counted_at).as_secs_f64();
        let tokens = self.tokens + earned * self.policer.rate_bps as f64 / 8.0;
        let tokens = tokens.min(self.policer.burst_bytes.into());
        let left = tokens - bytes as f64;
        let conforms = left >= 0.0;
        self.tokens = if conforms { left } else { tokens };
        self.counted_at = now;
        conforms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_bucket_lets_a_burst_through_and_then_the_rate() {
        let mut bucket = TokenBucket::new(Policer { rate_bps: 8_000_000, burst_bytes: 5_000 });
        let at_once = (0..10).filter(|_| bucket.conforms(Duration::ZERO, 1_000)).count();
        assert_eq!(at_once, 5);
        let later = |n: u64| Duration::from_micros(n * 100);
        let passed = (1..=10_000).filter(|&n| bucket.conforms(later(n), 1_000)).count();
        assert!((999..=1_000).contains(&passed), "one a millisecond in one second: {passed}");
    }
}
