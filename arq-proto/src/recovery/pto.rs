// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! When to probe a silent tail.
//!
//! RFC 9002 doubles the probe time-out each time. Under random loss that is wrong: at 25 % loss both
//! ways a probe round trip fails with a chance of 44 %, and doubling turns bad luck into p99s of
//! twenty round trips. So the interval stays flat for as many probes as bad luck alone may take
//! (up to a chance of 1 in 1,000), and only then backs off.

use std::time::Duration;

use super::rtt::RttEstimator;
use crate::{chance::losses_beyond_chance, units::Probability};

/// Probes beyond bad luck are no longer explained by the measured loss.
const BAD_LUCK: f64 = 0.001;
/// Most probes at the flat interval.
const MAX_FLAT: u32 = 12;
/// Silence for which the interval stays short, so that service is resumed soon after a gap.
const SHORT_SILENCE: Duration = Duration::from_secs(5);
const MIN_SHORT_CAP: Duration = Duration::from_millis(250);
/// The least interval before the first probe where nothing in flight would be repaired, such as PINGs. Nobody waits for
/// their answers, and a busy host is late with them.
pub(crate) const MIN_PING_INTERVAL: Duration = Duration::from_millis(250);
/// The least interval (RFC 9002's kGranularity, §6.1.2). On a loopback or a wire, where it is longer than a round trip,
/// hosts under load answer late more often than a packet is lost.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// The longest interval.
const LONG_CAP: Duration = Duration::from_secs(1);

/// The interval without back-off: no ack-delay term, because the last packet of a flight asks for
/// an immediate acknowledgement.
#[must_use]
pub(crate) fn base(rtt: &RttEstimator, granularity: Duration) -> Duration {
    let usual = rtt.smoothed() + (rtt.variation() * 4).max(granularity);
    usual.max(MIN_INTERVAL)
}

/// How many probes in a row may fail by bad luck, when `forward` and `reverse` are the shares lost.
#[must_use]
pub(crate) fn flat_count(forward: Probability, reverse: Probability) -> u32 {
    let fails = 1.0 - (1.0 - forward.as_f64()) * (1.0 - reverse.as_f64());
    losses_beyond_chance(fails, BAD_LUCK, 1..=MAX_FLAT)
}

/// The interval before probe number `count` (from 0), after `silence` without an answer.
#[must_use]
pub(crate) fn interval(base: Duration, count: u32, flat: u32, silence: Duration) -> Duration {
    let doublings = (count + 1).saturating_sub(flat).min(16);
    let backed_off = base.saturating_mul(1 << doublings);
    let cap = if silence < SHORT_SILENCE {
        MIN_SHORT_CAP.max(base.saturating_mul(4)).min(LONG_CAP)
    } else {
        LONG_CAP
    };
    // Never below the base: a path slower than the cap must not be flooded.
    backed_off.min(cap).max(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    // ARQ-PTO-1
    #[test]
    fn a_busy_host_is_not_taken_for_a_loss_on_the_shortest_paths() {
        for (rtt_us, expected_us) in [(20, 1_000), (300, 1_000), (900, 1_000), (1_000, 1_100)] {
            let mut rtt = RttEstimator::default();
            let sample = Duration::from_micros(rtt_us);
            (0..100).for_each(|_| rtt.update(sample, Duration::ZERO));
            let base = base(&rtt, Duration::from_micros(100));
            assert_eq!(base, Duration::from_micros(expected_us), "round trip of {rtt_us} µs");
        }
    }

    // ARQ-PTO-4
    #[test]
    fn flat_counts_follow_from_the_loss() {
        for (percent, expected) in [(0, 1), (1, 2), (5, 3), (10, 5), (25, 9), (50, 12), (100, 12)] {
            let loss = Probability::from_ppm(percent * 10_000);
            assert_eq!(flat_count(loss, loss), expected, "{percent} %");
        }
    }

    // ARQ-PTO-4
    #[test]
    fn intervals() {
        // (base ms, count, flat, silence ms) -> ms
        for (base, count, flat, silence, expected) in [
            (30, 0, 5, 0, 30),
            (30, 4, 5, 120, 30),
            (30, 5, 5, 150, 60),
            (30, 6, 5, 210, 120),
            (30, 9, 5, 1_000, 250),
            (30, 12, 5, 6_000, 1_000),
            (200, 9, 5, 1_000, 800),
            (2_000, 9, 5, 9_000, 2_000),
        ] {
            assert_eq!(
                interval(base * MS, count, flat, silence * MS),
                expected * MS,
                "base {base} count {count}"
            );
        }
    }
}
