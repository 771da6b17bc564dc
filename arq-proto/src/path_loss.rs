// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does a path lose, and how bunched?
//!
//! There is one observer for each direction. The sender's learns of each packet whose fate is final, in the order of
//! sending, so it does not matter how many packets one acknowledgement covers. Its feed has these views:
//!
//! | view | sees of each packet | and |
//! |---|---|---|
//! | redundancy, repairs, time-outs | | [`upper`](PathLoss::upper), [`calm`](PathLoss::calm), [`mean`](PathLoss::mean), [`mean_run`](PathLoss::mean_run) |
//! | [`path_mtu`](crate::path_mtu) | its size, whether it was filled up | `upper` |
//! | [`chunk_size`](crate::chunk_size) | its size | `mean_run` |
//! | [`batches`](crate::batches) | the burst in which it left | |
//!
//! Two exponential averages, a fast and a slow one; their maximum plus one standard error is the
//! loss. It errs upwards: too low an estimate costs a round trip, too high a one only bytes.

use crate::{chance::standard_error, units::Probability};

/// Packets over which the two averages reach back.
const FAST: f64 = 32.0;
const SLOW: f64 = 512.0;
/// Assumed before anything was seen, with the weight of so many packets.
const PRIOR: f64 = 0.02;
const PRIOR_PACKETS: f64 = 16.0;
const MIN: f64 = 0.01;
const MAX: f64 = 0.5;

/// What one direction of a path loses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PathLoss {
    fast: f64,
    slow: f64,
    /// Packets that the averages rest on, the assumed ones included, up to [`SLOW`].
    known: f64,
    losses: f64,
    runs: f64,
    previous_lost: bool,
}

impl Default for PathLoss {
    fn default() -> Self {
        Self {
            fast: PRIOR,
            slow: PRIOR,
            known: PRIOR_PACKETS,
            losses: 0.0,
            runs: 0.0,
            previous_lost: false,
        }
    }
}

impl PathLoss {
    /// The fate of the next packet, in the order of sending as far as it is known.
    pub(crate) fn record(&mut self, lost: bool) {
        let sample = f64::from(u8::from(lost));
        self.known = (self.known + 1.0).min(SLOW);
        self.fast += (sample - self.fast) / self.known.min(FAST);
        self.slow += (sample - self.slow) / self.known;
        if lost {
            self.losses += 1.0;
            if !self.previous_lost {
                self.runs += 1.0;
            }
        }
        // Old runs fade, so that the burst length follows the path.
        if self.runs >= 64.0 {
            self.runs /= 2.0;
            self.losses /= 2.0;
        }
        self.previous_lost = lost;
    }

    /// The upper estimate, `1 %..=50 %`.
    #[must_use]
    pub(crate) fn upper(&self) -> Probability {
        let mean = self.fast.max(self.slow);
        Probability::from_f64((mean + standard_error(mean, self.known)).clamp(MIN, MAX))
    }

    /// A calmer estimate, for what is sent ahead of any loss: a quarter of the way from the slow
    /// average to the fast one if that is higher, and no least value. As if one packet more had been
    /// lost (Laplace's rule): the first messages of a connection must not pay for what is not known
    /// yet, and after some three hundred packets that arrived it is forgotten.
    #[must_use]
    pub(crate) fn calm(&self) -> Probability {
        let mean = self.slow + (self.fast - self.slow).max(0.0) / 4.0 + 1.0 / self.known;
        Probability::from_f64((mean + standard_error(mean, self.known)).min(MAX))
    }

    /// The slow average alone: what to expect of many packets.
    #[must_use]
    pub(crate) fn mean(&self) -> Probability {
        Probability::from_f64(self.slow.min(MAX))
    }

    /// Mean number of packets lost in a row; 1 before any loss.
    #[must_use]
    pub(crate) fn mean_run(&self) -> f64 {
        if self.runs == 0.0 {
            1.0
        } else {
            self.losses / self.runs
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ARQ-REP-6
    #[test]
    fn the_calm_estimate_forgets_and_does_not_jump() {
        let mut loss = PathLoss::default();
        (0..5_000).for_each(|n| loss.record(n % 10 == 0));
        let before = loss.calm().as_f64();
        (0..8).for_each(|_| loss.record(true));
        let (calm, upper) = (loss.calm().as_f64(), loss.upper().as_f64());
        assert!(calm - before < 0.12 && upper - before > 0.15, "{before} {calm} {upper}");
        (0..5_000).for_each(|_| loss.record(false));
        assert!(loss.calm() < Probability::from_f64(0.005));
    }

    // ARQ-REP-6
    #[test]
    fn who_knows_nothing_expects_loss_for_some_three_hundred_packets() {
        let mut loss = PathLoss::default();
        assert!((0.1..0.2).contains(&loss.calm().as_f64()), "{}", loss.calm());
        let mut packets = 0;
        while loss.calm() > Probability::from_f64(0.008) {
            loss.record(false);
            packets += 1;
        }
        assert!((200..400).contains(&packets), "{packets}");
        // What is lost early counts at once.
        let mut loss = PathLoss::default();
        (0..40).for_each(|n| loss.record(n % 10 == 5));
        assert!((0.07..0.11).contains(&loss.mean().as_f64()), "{}", loss.mean());
    }

    // ARQ-LOS-3
    #[test]
    fn follows_the_loss_from_above_and_sees_bursts() {
        let mut regular = PathLoss::default();
        let mut bursty = PathLoss::default();
        for n in 0..10_000 {
            regular.record(n % 10 == 0);
            bursty.record(n % 100 < 10);
        }
        assert!((0.1..0.16).contains(&regular.upper().as_f64()), "{}", regular.upper());
        assert!((regular.mean_run() - 1.0).abs() < 0.01);
        assert!((bursty.mean_run() - 10.0).abs() < 0.5);
        for _ in 0..5_000 {
            regular.record(false);
        }
        assert_eq!(regular.upper(), Probability::from_f64(MIN));
    }
}
