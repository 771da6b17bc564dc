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
    /// Something was lost, if only by what is known so far.
    loses: bool,
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
            loses: false,
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
            self.loses = true;
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

    /// Whether anything was lost, or seems to be.
    pub(crate) fn loses(&self) -> bool {
        self.loses
    }

    /// A packet seems to be lost: its fate is recorded later, when that of all before it is known.
    pub(crate) fn on_first_sign(&mut self) {
        self.loses = true;
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

    /// The same of one of several paths. Until something of it seems lost it passes for no worse than all of them together:
    /// what the first messages of a connection have paid for on one path, the first ones on the next do not pay for again.
    /// A path that does lose more costs one message a round trip by that.
    #[must_use]
    pub(crate) fn calm_beside<'a>(&self, others: impl Iterator<Item = &'a Self>) -> Probability {
        let own = self.calm();
        if self.loses {
            return own;
        }
        own.min(others.fold(*self, Self::together).calm())
    }

    /// As if the packets of both had taken one path. What is assumed before anything was seen counts once.
    fn together(self, other: &Self) -> Self {
        let lost = self.slow * self.known + other.slow * other.known - PRIOR * PRIOR_PACKETS;
        let known = self.known + other.known - PRIOR_PACKETS;
        let slow = lost.max(0.0) / known;
        // Where nothing was lost the fast average is of what was assumed.
        let fast = [&self, other].into_iter().filter(|loss| loss.loses).map(|loss| loss.fast);
        let (fast, loses) = (fast.fold(0.0, f64::max), self.loses || other.loses);
        Self { fast, slow, known: known.min(SLOW), loses, ..self }
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

    // ARQ-REP-6
    #[test]
    fn a_path_that_loses_nothing_passes_for_no_worse_than_all_together() {
        let after = |packets| {
            let mut loss = PathLoss::default();
            (0..packets).for_each(|_| loss.record(false));
            loss
        };
        let beside = |path: &PathLoss, others: &[PathLoss]| path.calm_beside(others.iter());
        let new = PathLoss::default();
        assert_eq!(beside(&new, &[]), new.calm());
        assert_eq!(beside(&new, &[new, new]), new.calm(), "what is assumed counts once");
        assert!(beside(&new, &[after(5_000)]) < Probability::from_f64(0.006));
        // Packets count, whichever path they took.
        let [parts, whole] = [beside(&after(100), &[after(60), after(40)]), after(200).calm()];
        assert!((parts.as_f64() - whole.as_f64()).abs() < 1e-5, "{parts}, {whole}");
        // One that loses more tells nothing of the next.
        let mut poor = after(0);
        (0..500).for_each(|n| poor.record(n % 5 == 0));
        assert_eq!(beside(&new, &[poor]), new.calm());
        assert_eq!(beside(&after(300), &[poor]), after(300).calm());
        // The first sign of a loss is enough, and so is what was lost long ago.
        for mut path in [after(0), after(1_000)] {
            path.on_first_sign();
            assert_eq!(beside(&path, &[after(5_000)]), path.calm());
        }
        assert_eq!(beside(&poor, &[after(5_000)]), poor.calm());
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
