// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Is the radio in a fade now, and is a packet lost in it?
//!
//! Fades go by the clock, as those of radios do: a chain that steps once a packet (Gilbert's) ends a burst the sooner
//! the more is sent.

use std::{ops::Range, time::Duration};

use rand::Rng;
use rand_chacha::{rand_core::SeedableRng, ChaCha8Rng};

/// When a radio fades, and what it loses then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FadeConfig {
    /// The share of the time in fades, 0 to below 1.
    pub share: f64,
    /// How long a fade lasts on the mean.
    pub mean: Duration,
    /// Whether fades come each `mean / share`, all of the same length, instead of by chance (both spells exponential).
    pub is_regular: bool,
    /// The share of packets lost in a fade, 0 to 1.
    pub lost: f64,
    /// Decides when the fades are. Two directions with the same seed fade together.
    pub seed: u64,
}

/// The fades of a run, found as they are asked for.
#[derive(Debug, Clone)]
pub struct Fades {
    config: FadeConfig,
    spells: Vec<Range<Duration>>,
    /// Up to here they are known.
    known_to: Duration,
    times: ChaCha8Rng,
    losses: ChaCha8Rng,
}

impl Fades {
    /// Fades as `config` says; `seed` decides which packets are lost where not all are.
    pub fn new(config: FadeConfig, seed: u64) -> Self {
        let mut losses = ChaCha8Rng::seed_from_u64(seed);
        losses.set_stream(1);
        let times = ChaCha8Rng::seed_from_u64(config.seed);
        let mut fades =
            Self { config, spells: Vec::new(), known_to: Duration::ZERO, times, losses };
        // The run begins somewhere in a good spell.
        fades.known_to = fades.good_spell().mul_f64(fades.times.gen());
        fades
    }

    /// Whether a packet that is on the air at `at` is lost.
    pub fn is_lost(&mut self, at: Duration) -> bool {
        self.at(at).is_some() && (self.loses_all() || self.losses.gen::<f64>() < self.config.lost)
    }

    /// Whether nothing passes in a fade.
    pub fn loses_all(&self) -> bool {
        self.config.lost >= 1.0
    }

    /// The fade at `at`, if there is one.
    pub fn at(&mut self, at: Duration) -> Option<Range<Duration>> {
        if self.config.share <= 0.0 {
            return None;
        }
        while self.known_to <= at {
            let start = self.known_to;
            let end = start + self.bad_spell();
            self.spells.push(start..end);
            self.known_to = end + self.good_spell();
        }
        let index = self.spells.partition_point(|spell| spell.end <= at);
        self.spells.get(index).filter(|spell| spell.contains(&at)).cloned()
    }

    /// The fades that begin before `end`, in their order.
    pub fn until(&mut self, end: Duration) -> &[Range<Duration>] {
        self.at(end);
        &self.spells[..self.spells.partition_point(|spell| spell.start < end)]
    }

    fn bad_spell(&mut self) -> Duration {
        self.config.mean.mul_f64(self.spread())
    }

    fn good_spell(&mut self) -> Duration {
        let share = self.config.share.clamp(1e-9, 1.0);
        self.config.mean.mul_f64((1.0 - share) / share * self.spread())
    }

    /// Exponential with a mean of 1, or 1.
    fn spread(&mut self) -> f64 {
        if self.config.is_regular {
            return 1.0;
        }
        -(1.0 - self.times.gen::<f64>()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const FADES: FadeConfig = FadeConfig {
        share: 0.05,
        mean: Duration::from_millis(40),
        is_regular: false,
        lost: 1.0,
        seed: 7,
    };

    fn lost_share(fades: &mut Fades, every: Duration, packets: u32) -> f64 {
        let lost = (0..packets).filter(|&n| fades.is_lost(every * n)).count();
        lost as f64 / f64::from(packets)
    }

    #[test]
    fn the_share_and_the_length_are_those_asked_for() {
        let mut fades = Fades::new(FADES, 1);
        let share = lost_share(&mut fades, MS, 4_000_000);
        assert!((share - 0.05).abs() < 0.003, "{share}");
        let total: Duration = fades.spells.iter().map(|spell| spell.end - spell.start).sum();
        let mean = total / fades.spells.len() as u32;
        assert!((mean.as_secs_f64() / 0.04 - 1.0).abs() < 0.05, "{mean:?}");
        let partly = FadeConfig { lost: 0.6, ..FADES };
        let share = lost_share(&mut Fades::new(partly, 1), MS, 4_000_000);
        assert!((share - 0.03).abs() < 0.002, "{share}");
    }

    #[test]
    fn more_packets_do_not_shorten_a_fade() {
        let seen = |every| {
            lost_share(
                &mut Fades::new(FADES, 1),
                every,
                (400_000 * MS).div_duration_f64(every) as u32,
            )
        };
        let (many, few) = (seen(MS), seen(20 * MS));
        assert!((many - few).abs() < 0.004, "{many} and {few}");
    }

    #[test]
    fn directions_fade_together_if_they_have_one_seed() {
        let fades_at = |config, seed| {
            let mut fades = Fades::new(config, seed);
            (0..100_000).map(|ms| fades.at(ms * MS).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(fades_at(FADES, 1), fades_at(FADES, 2));
        assert_ne!(fades_at(FADES, 1), fades_at(FadeConfig { seed: 8, ..FADES }, 1));
    }

    #[test]
    fn a_list_has_all_that_begin_before_its_end() {
        let mut fades = Fades::new(FADES, 1);
        let end = 60_000 * MS;
        let listed = fades.until(end).to_vec();
        let mut asked: Vec<_> = (0..600_000).filter_map(|n| fades.at(MS * n / 10)).collect();
        asked.dedup();
        assert!(listed.len() > 50 && listed.iter().all(|fade| fade.start < end));
        assert!(asked.iter().all(|fade| listed.contains(fade)), "{asked:?}");
        let half = fades.until(end / 2).to_vec();
        assert!(half.len() < listed.len() && listed.starts_with(&half));
        assert!(Fades::new(FadeConfig { share: 0.0, ..FADES }, 1).until(end).is_empty());
    }

    #[test]
    fn regular_fades_come_each_period() {
        let config = FadeConfig { share: 0.1, mean: 400 * MS, is_regular: true, ..FADES };
        let mut fades = Fades::new(config, 1);
        fades.at(60_000 * MS);
        let starts: Vec<_> = fades.spells.iter().map(|spell| spell.start).collect();
        for pair in starts.windows(2) {
            let off = (pair[1] - pair[0]).abs_diff(4_000 * MS);
            assert!(off < MS, "{pair:?}");
        }
    }
}
