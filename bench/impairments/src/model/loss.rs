// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Is the next packet lost?
//!
//! The models with memory start in the state that the long run would find them in, so that a short run is not
//! kinder than a long one. netem's correlated loss is reproduced as netem has it, and that is less loss than it says:
//! each outcome is `(1 - c) x uniform + c x the outcome before`, which lies nearer to the middle than a uniform
//! number does. `loss 25% 25%` loses 16.7 % of the packets, in netem and here; [`expected_share`] says how much.

use rand::Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::wire::Loss;

/// What the models remember from one packet to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossState {
    /// Gilbert's: whether the last packet met the bad state; `None` before the first.
    bad: Option<bool>,
    /// netem's: the last outcome.
    outcome: Option<f64>,
}

impl LossState {
    /// Whether the packet with this `chance` (uniform in [0, 1)) is lost.
    pub(super) fn is_lost(&mut self, loss: &Loss, chance: f64) -> bool {
        match *loss {
            Loss::None => false,
            Loss::Random { percent } => chance < percent / 100.0,
            Loss::Correlated { percent, correlation_percent } => {
                let correlation = correlation_percent / 100.0;
                let outcome = self
                    .outcome
                    .map_or(chance, |last| (1.0 - correlation) * chance + correlation * last);
                self.outcome = Some(outcome);
                outcome < percent / 100.0
            }
            Loss::Gilbert { .. } | Loss::State { .. } => self.walk(chain(loss), chance),
        }
    }

    fn walk(&mut self, chain: Chain, chance: f64) -> bool {
        let bad = match self.bad {
            None => chance < chain.share(),
            Some(false) => chance < chain.enter,
            Some(true) => chance >= chain.leave,
        };
        self.bad = Some(bad);
        bad
    }
}

/// A chain of two states: the chances per packet to enter and to leave the one that loses.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Chain {
    enter: f64,
    leave: f64,
}

impl Chain {
    /// The long-run share of packets in the bad state.
    fn share(self) -> f64 {
        if self.enter == 0.0 {
            return 0.0;
        }
        self.enter / (self.enter + self.leave)
    }

    /// The chain with this share lost and this chance to leave. Where bursts so short cannot lose so much (a share
    /// above L / (L + 1)), they become longer.
    fn with_share(share: f64, leave: f64) -> Self {
        if share >= 1.0 {
            return Self { enter: 1.0, leave: 0.0 };
        }
        let enter = leave * share / (1.0 - share);
        if enter <= 1.0 {
            return Self { enter, leave };
        }
        Self { enter: 1.0, leave: (1.0 - share) / share }
    }
}

fn chain(loss: &Loss) -> Chain {
    match *loss {
        Loss::Gilbert { percent, burst_packets } => {
            Chain::with_share(percent / 100.0, 1.0 / burst_packets)
        }
        Loss::State { enter_percent, leave_percent } => {
            Chain { enter: enter_percent / 100.0, leave: leave_percent / 100.0 }
        }
        Loss::None | Loss::Random { .. } | Loss::Correlated { .. } => {
            Chain { enter: expected_share(loss), leave: 1.0 }
        }
    }
}

/// The share of packets that the model loses in the long run, 0 to 1.
pub fn expected_share(loss: &Loss) -> f64 {
    match *loss {
        Loss::None => 0.0,
        Loss::Random { percent } => percent / 100.0,
        Loss::Correlated { percent, correlation_percent } => {
            let (p, c) = (percent / 100.0, correlation_percent / 100.0);
            if (c..=1.0 - c).contains(&p) {
                // The mean over the last outcome, whose own mean is a half.
                return (p - c / 2.0) / (1.0 - c);
            }
            simulated_share(loss)
        }
        Loss::Gilbert { .. } | Loss::State { .. } => chain(loss).share(),
    }
}

/// Where the chance of a loss is cut off at 0 or 1 for some last outcomes, no short formula holds.
fn simulated_share(loss: &Loss) -> f64 {
    const PACKETS: u32 = 1_000_000;
    let (mut random, mut state) = (ChaCha8Rng::seed_from_u64(0), LossState::default());
    let lost = (0..PACKETS).filter(|_| state.is_lost(loss, random.gen())).count();
    lost as f64 / f64::from(PACKETS)
}

/// The same model with another share lost: bursts keep their length.
pub(super) fn with_percent(loss: &Loss, percent: f64) -> Loss {
    match *loss {
        Loss::None | Loss::Random { .. } => Loss::Random { percent },
        Loss::Correlated { correlation_percent, .. } => {
            Loss::Correlated { percent, correlation_percent }
        }
        Loss::Gilbert { burst_packets, .. } => Loss::Gilbert { percent, burst_packets },
        Loss::State { leave_percent, .. } => {
            let chain = Chain::with_share(percent / 100.0, leave_percent / 100.0);
            Loss::State { enter_percent: chain.enter * 100.0, leave_percent: chain.leave * 100.0 }
        }
    }
}

/// The share that an event's ramp starts from: the model's own.
pub(super) fn percent_of(loss: &Loss) -> f64 {
    match *loss {
        Loss::None => 0.0,
        Loss::Random { percent }
        | Loss::Correlated { percent, .. }
        | Loss::Gilbert { percent, .. } => percent,
        Loss::State { .. } => expected_share(loss) * 100.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::streams::Streams;

    const PACKETS: usize = 1_000_000;

    fn pattern(loss: &Loss) -> Vec<bool> {
        let (mut streams, mut state) = (Streams::new(1, 0), LossState::default());
        (0..PACKETS).map(|_| state.is_lost(loss, streams.next().loss)).collect()
    }

    fn share(pattern: &[bool]) -> f64 {
        pattern.iter().filter(|lost| **lost).count() as f64 / pattern.len() as f64
    }

    fn mean_burst(pattern: &[bool]) -> f64 {
        let bursts = pattern.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        share(pattern) * pattern.len() as f64 / bursts as f64
    }

    #[test]
    fn every_model_loses_the_share_that_it_says() {
        let models = [
            Loss::None,
            Loss::Random { percent: 10.0 },
            Loss::Correlated { percent: 25.0, correlation_percent: 25.0 },
            Loss::Correlated { percent: 10.0, correlation_percent: 25.0 },
            Loss::Gilbert { percent: 10.0, burst_packets: 5.0 },
            Loss::Gilbert { percent: 62.0, burst_packets: 1.0 },
            Loss::State { enter_percent: 1.0, leave_percent: 5.0 },
        ];
        for model in models {
            let (found, expected) = (share(&pattern(&model)), expected_share(&model));
            assert!((found - expected).abs() < 0.004, "{model:?}: {found} for {expected}");
        }
    }

    #[test]
    fn bursts_have_the_length_that_was_asked_for() {
        for length in [1.0, 3.0, 20.0] {
            let found =
                mean_burst(&pattern(&Loss::Gilbert { percent: 10.0, burst_packets: length }));
            assert!((found / length - 1.0).abs() < 0.03, "{found} for {length}");
        }
    }

    #[test]
    fn another_share_keeps_the_bursts() {
        let state = with_percent(&Loss::State { enter_percent: 1.0, leave_percent: 25.0 }, 20.0);
        let pattern = pattern(&state);
        assert!((share(&pattern) - 0.2).abs() < 0.004);
        assert!((mean_burst(&pattern) / 4.0 - 1.0).abs() < 0.03);
    }

    #[test]
    fn the_extremes_are_exact() {
        for (percent, expected) in [(0.0, 0.0), (100.0, 1.0)] {
            for loss in [
                Loss::Random { percent },
                Loss::Gilbert { percent, burst_packets: 4.0 },
                with_percent(&Loss::State { enter_percent: 1.0, leave_percent: 5.0 }, percent),
            ] {
                assert_eq!(share(&pattern(&loss)), expected, "{loss:?}");
            }
        }
    }
}
