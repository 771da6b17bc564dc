// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does the network do to datagrams just now, and what comes next?

use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;

/// A burst goes on as if a datagram came at least so often: what fades is the radio, also while nobody sends. Of a few
/// datagrams a second a burst of ten would lose all for many seconds.
const FADE_STEP: Duration = Duration::from_millis(20);
/// After so many steps it is as likely as ever that a burst is under way.
const MAX_STEPS: u128 = 1_000;

/// The state of the network, the same in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Weather {
    /// Everything vanishes.
    pub(crate) blackout: bool,
    /// Share lost, `0.0..1.0`.
    pub(crate) loss: f64,
    /// Mean number of datagrams lost in a row; 1 loses each independently.
    pub(crate) burst: f64,
    /// One way.
    pub(crate) delay: Duration,
    /// Up to this is added to the delay of each datagram, so that later ones overtake.
    pub(crate) jitter: Duration,
    /// Share that arrives twice, `0.0..1.0`.
    pub(crate) duplicate: f64,
    /// Share in which a bit is flipped, `0.0..1.0`.
    pub(crate) corrupt: f64,
}

impl Weather {
    /// Nothing is lost, and nothing takes time.
    pub(crate) const CLEAR: Self = Self {
        blackout: false,
        loss: 0.0,
        burst: 1.0,
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        duplicate: 0.0,
        corrupt: 0.0,
    };

    /// What comes next, and for how long. Blackouts are shorter than half the idle time-out of a link and do not follow
    /// each other, so every link and every handshake must outlive them.
    pub(crate) fn next(self, rng: &mut Rng) -> (Self, Duration) {
        let between = |rng: &mut Rng, from: f64, to: f64| from + rng.f64() * (to - from);
        if rng.u8(..8) == 0 && !self.blackout {
            let time = Duration::from_secs_f64(between(rng, 0.3, 4.0));
            return (Self { blackout: true, ..Self::CLEAR }, time);
        }
        let delay = Duration::from_millis(rng.u64(0..=40));
        let weather = Self {
            loss: *rng.choice(&[0.0, 0.01, 0.05, 0.1, 0.25]).unwrap_or(&0.0),
            burst: *rng.choice(&[1.0, 1.0, 3.0, 10.0]).unwrap_or(&1.0),
            delay,
            jitter: if rng.bool() { Duration::ZERO } else { delay.mul_f64(rng.f64() / 2.0) },
            duplicate: *rng.choice(&[0.0, 0.0, 0.05]).unwrap_or(&0.0),
            corrupt: *rng.choice(&[0.0, 0.0, 0.01]).unwrap_or(&0.0),
            ..Self::CLEAR
        };
        (weather, Duration::from_secs_f64(between(rng, 1.0, 8.0)))
    }
}

/// The luck of one direction.
#[derive(Debug)]
pub(crate) struct Luck {
    rng: Rng,
    in_burst: bool,
    /// When the last datagram came.
    last: Option<Instant>,
}

impl Luck {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), in_burst: false, last: None }
    }

    /// The delays after which copies of `datagram` arrive: none if it is lost.
    pub(crate) fn arrivals(
        &mut self,
        now: Instant,
        weather: &Weather,
        datagram: &mut [u8],
    ) -> Vec<Duration> {
        let silence = self.last.replace(now).map_or(Duration::ZERO, |last| now - last);
        let steps = 1 + silence.as_nanos() / FADE_STEP.as_nanos();
        if weather.blackout || self.is_lost(weather, steps.min(MAX_STEPS)) {
            return Vec::new();
        }
        if self.rng.f64() < weather.corrupt {
            if let Some(byte) = self.rng.choice(datagram.iter_mut()) {
                *byte ^= 1 << self.rng.u8(..8);
            }
        }
        let copies = if self.rng.f64() < weather.duplicate { 2 } else { 1 };
        (0..copies).map(|_| weather.delay + weather.jitter.mul_f64(self.rng.f64())).collect()
    }

    /// Gilbert's model: a burst ends with probability 1 / `burst`, and begins as often as makes the
    /// share `loss` in the long run.
    fn is_lost(&mut self, weather: &Weather, steps: u128) -> bool {
        let Weather { loss, burst, .. } = *weather;
        if burst <= 1.0 {
            self.in_burst = false;
            return self.rng.f64() < loss;
        }
        let leave = 1.0 / burst;
        let enter = loss * leave / (1.0 - loss);
        for _ in 0..steps {
            let change = if self.in_burst { leave } else { enter };
            if self.rng.f64() < change {
                self.in_burst = !self.in_burst;
            }
        }
        self.in_burst
    }
}

#[test]
fn the_share_that_is_lost_is_the_one_that_was_asked_for() {
    for (burst, interval_ms) in [(1.0, 0), (3.0, 0), (10.0, 0), (10.0, 50)] {
        let weather = Weather { loss: 0.1, burst, ..Weather::CLEAR };
        let (mut luck, mut now) = (Luck::new(1), Instant::now());
        let mut is_lost = || {
            now += Duration::from_millis(interval_ms);
            luck.arrivals(now, &weather, &mut [0; 8]).is_empty()
        };
        let lost = (0..200_000).filter(|_| is_lost()).count();
        assert!((18_000..22_000).contains(&lost), "bursts of {burst}: {lost} of 200,000");
    }
}
