// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How long a round trip takes (RFC 9002 §5, RFC 6298).
//!
//! Packet numbers are never reused, so every sample is clean, retransmissions included.

use std::time::Duration;

use crate::congestion::RttSample;

/// Smoothed estimate of the round-trip time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RttEstimator {
    latest: Duration,
    smoothed: Option<Duration>,
    variation: Duration,
    min: Duration,
}

/// Assumed before the first sample. Smaller than RFC 9002's 333 ms: the handshake, which measures
/// the path, is repeated on a schedule of its own.
const INITIAL_RTT: Duration = Duration::from_millis(100);

impl Default for RttEstimator {
    fn default() -> Self {
        Self { latest: INITIAL_RTT, smoothed: None, variation: INITIAL_RTT / 2, min: Duration::MAX }
    }
}

impl RttEstimator {
    /// Takes a sample, and the time that the peer says it held the acknowledgement back.
    pub(crate) fn update(&mut self, sample: Duration, ack_delay: Duration) {
        self.min = self.min.min(sample);
        // Never below the minimum: a peer that exaggerates its delay gains nothing.
        let adjusted = if sample >= self.min + ack_delay { sample - ack_delay } else { sample };
        self.latest = adjusted;
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(adjusted);
            self.variation = adjusted / 2;
            return;
        };
        self.variation = (self.variation * 3 + smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = Some((smoothed * 7 + adjusted) / 8);
    }

    /// Takes a sample of which up to `slept` may be a sleep of this host: the acknowledgement may have waited in the
    /// socket. Returns the bounds of the round trip.
    pub(crate) fn update_over_sleep(
        &mut self,
        sample: Duration,
        slept: Duration,
        ack_delay: Duration,
    ) -> RttSample {
        let least = sample.saturating_sub(slept);
        let rtt = RttSample { least, most: sample };
        let Some(smoothed) = self.smoothed.filter(|_| !slept.is_zero()) else {
            self.update(sample, ack_delay);
            return RttSample { least: self.latest, most: self.latest };
        };
        // The usual, as far as that is possible. Of much sleep it is no evidence.
        let likely = smoothed.clamp(least, sample);
        if likely != smoothed || slept <= smoothed / 8 {
            self.update(likely, ack_delay);
        } else {
            self.latest = self.latest.clamp(least, sample);
        }
        rtt
    }

    /// Before the first sample: assumes `bound` if that is less than the initial value.
    pub(crate) fn assume_at_most(&mut self, bound: Duration) {
        if self.smoothed.is_none() && bound < self.latest {
            self.latest = bound;
            self.variation = bound / 2;
        }
    }

    /// The path changed: what was learnt does not hold there.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Whether a sample was taken.
    #[must_use]
    pub(crate) const fn is_measured(&self) -> bool {
        self.smoothed.is_some()
    }

    /// The smoothed round-trip time, or the one assumed before the first sample.
    #[must_use]
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(self.latest)
    }

    /// The smallest sample, or the smoothed value before the first one.
    #[must_use]
    pub(crate) fn min(&self) -> Duration {
        if self.is_measured() {
            self.min
        } else {
            self.smoothed()
        }
    }

    /// The mean deviation.
    #[must_use]
    pub(crate) const fn variation(&self) -> Duration {
        self.variation
    }

    /// What loss detection compares with: a round trip that is plausible now.
    #[must_use]
    pub(crate) fn conservative(&self) -> Duration {
        self.smoothed().max(self.latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ARQ-RTT-2
    #[test]
    fn a_sample_over_a_sleep_tells_what_it_must() {
        let ms = Duration::from_millis(1);
        // (sample, slept, latest and smoothed after it), all in ms but the last, in eighths of one.
        for (sample, slept, latest, smoothed) in [
            (220, 200, 20, 160),
            (220, 100, 120, 260),
            (19, 5, 19, 159),
            (21, 2, 20, 160),
            (90, 0, 90, 230),
        ] {
            let mut rtt = RttEstimator::default();
            rtt.update_over_sleep(20 * ms, 10 * ms, Duration::ZERO);
            assert_eq!(rtt.smoothed(), 20 * ms, "the first one is better than none");
            let known = rtt.update_over_sleep(sample * ms, slept * ms, Duration::ZERO);
            assert_eq!(known, RttSample { least: (sample - slept) * ms, most: sample * ms });
            assert_eq!(rtt.latest, latest * ms, "{sample} ms, {slept} asleep");
            assert_eq!(rtt.smoothed(), smoothed * ms / 8, "{sample} ms, {slept} asleep");
        }
    }

    const MS: Duration = Duration::from_millis(1);

    // ARQ-RTT-1
    #[test]
    fn converges_and_keeps_the_minimum() {
        let mut rtt = RttEstimator::default();
        rtt.update(40 * MS, Duration::ZERO);
        assert_eq!((rtt.smoothed(), rtt.variation(), rtt.min()), (40 * MS, 20 * MS, 40 * MS));
        for _ in 0..100 {
            rtt.update(20 * MS, Duration::ZERO);
        }
        assert_eq!(rtt.smoothed().as_millis(), 20);
        assert!(rtt.variation() < MS);
        assert_eq!(rtt.min(), 20 * MS);
    }

    // ARQ-ACK-4
    #[test]
    fn an_exaggerated_ack_delay_is_ignored() {
        let mut rtt = RttEstimator::default();
        rtt.update(20 * MS, Duration::ZERO);
        rtt.update(21 * MS, 15 * MS);
        assert_eq!(rtt.latest, 21 * MS);
        rtt.update(40 * MS, 15 * MS);
        assert_eq!(rtt.latest, 25 * MS);
    }
}
