// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does a packet conform to a token bucket?

use std::time::Duration;

use crate::wire::Policer;

/// The tokens of a bucket, which is full at first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TokenBucket {
    /// Bytes at a time; `None` while it has never been used.
    level: Option<(Duration, f64)>,
}

impl TokenBucket {
    /// Takes the tokens for a packet, or says that there are too few.
    pub(super) fn conforms(&mut self, policer: &Policer, now: Duration, len_bytes: u32) -> bool {
        let burst = f64::from(policer.burst_bytes);
        let tokens = self.level.map_or(burst, |(then, left)| {
            let gained = now.saturating_sub(then).as_secs_f64() * policer.rate_mbps * 1e6 / 8.0;
            (left + gained).min(burst)
        });
        let conforms = tokens >= f64::from(len_bytes);
        let left = if conforms { tokens - f64::from(len_bytes) } else { tokens };
        self.level = Some((now, left));
        conforms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_bucket_lets_a_burst_through_and_then_the_rate() {
        let policer = Policer { rate_mbps: 8.0, burst_bytes: 5_000 };
        let mut bucket = TokenBucket::default();
        let at_once = (0..10).filter(|_| bucket.conforms(&policer, Duration::ZERO, 1000)).count();
        assert_eq!(at_once, 5);
        let passed = (1..=10_000)
            .filter(|n| bucket.conforms(&policer, Duration::from_micros(n * 100), 1000))
            .count();
        assert!(
            (999..=1000).contains(&passed),
            "one packet per millisecond in one second: {passed}"
        );
    }
}
