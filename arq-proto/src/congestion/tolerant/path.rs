// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How fast and how long is the path? A windowed maximum of rates, the least round trip, and how much round trips vary
//! without a queue.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::tuning::{
    CONFIRMED_WITHIN, FAR, HOST_DELAY, JITTER_SAMPLES, MIN_RTT_LIFETIME, MOST_TURNS, RATE_ROUNDS,
    SAME_WITHIN, TIMER_DELAY,
};
use crate::units::Rate;

/// The largest rate of the last rounds.
#[derive(Debug, Clone)]
pub(super) struct MaxRate {
    /// Rounds that the path decided.
    path_rounds: u64,
    /// Falling rates, each with the number of such rounds when it was measured.
    rates: VecDeque<(u64, Rate)>,
}

impl MaxRate {
    pub(super) const fn new() -> Self {
        Self { path_rounds: 0, rates: VecDeque::new() }
    }

    /// What is left of the measurements before a long pause.
    pub(super) fn restarted_at(rate: Rate) -> Self {
        Self { path_rounds: 0, rates: VecDeque::from([(0, rate)]) }
    }

    pub(super) fn get(&self) -> Option<Rate> {
        self.rates.front().map(|&(_, rate)| rate)
    }

    /// Whether the path has decided any round: until then, the rate may be that of a small message.
    pub(super) const fn is_of_path(&self) -> bool {
        self.path_rounds > 0
    }

    /// A round that the path decided: older ones are forgotten by and by, and so the maximum may fall.
    pub(super) fn on_path_round(&mut self, rate: Rate) {
        self.path_rounds += 1;
        self.insert(rate);
        let oldest = self.path_rounds.saturating_sub(RATE_ROUNDS);
        while self.rates.front().is_some_and(|&(round, _)| round < oldest) {
            self.rates.pop_front();
        }
    }

    /// The path has at least this rate: what an application that pauses, a burst or a round that is not over can show.
    /// Never that it has less, and nothing becomes older.
    pub(super) fn raise_to(&mut self, rate: Rate) {
        if self.get().unwrap_or_default() < rate {
            self.insert(rate);
        }
    }

    /// The path has this rate, whatever was measured.
    pub(super) fn replace(&mut self, rate: Rate) {
        self.rates.clear();
        self.insert(rate);
    }

    fn insert(&mut self, rate: Rate) {
        while self.rates.back().is_some_and(|&(_, last)| last <= rate) {
            self.rates.pop_back();
        }
        self.rates.push_back((self.path_rounds, rate));
    }
}

/// The least round trip.
#[derive(Debug, Clone, Copy)]
pub(super) struct MinRtt {
    value: Option<Duration>,
    confirmed_at: Option<Instant>,
    jitter: Jitter,
}

impl MinRtt {
    pub(super) const fn new() -> Self {
        Self { value: None, confirmed_at: None, jitter: Jitter::NONE }
    }

    pub(super) const fn get(&self) -> Option<Duration> {
        self.value
    }

    pub(super) fn update(&mut self, now: Instant, sample: Duration) {
        self.jitter.update(sample);
        let value = self.value.map_or(sample, |value| value.min(sample));
        self.value = Some(value);
        if sample <= value + value / CONFIRMED_WITHIN + TIMER_DELAY {
            self.confirmed_at = Some(now);
        }
    }

    /// Measured with little in flight: the old value no longer holds.
    pub(super) fn replace(&mut self, now: Instant, value: Duration) {
        (self.value, self.confirmed_at) = (Some(value), Some(now));
    }

    /// Whether it must be measured anew.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.confirmed_at.is_some_and(|at| now.saturating_duration_since(at) > MIN_RTT_LIFETIME)
    }

    /// By how much the least round trip of a round exceeds the least one of all without a queue.
    pub(super) fn jitter(&self) -> Duration {
        self.jitter.most()
    }

    /// Whether packets waited somewhere, if this was the quickest of a round.
    pub(super) fn shows_queue(&self, rtt: Duration) -> bool {
        self.may_show_queue(rtt.saturating_sub(self.jitter()))
    }

    /// Whether they may have waited: jitter excuses nothing.
    pub(super) fn may_show_queue(&self, rtt: Duration) -> bool {
        self.value.zip(self.queue_shown_from()).is_some_and(|(min, wait)| rtt > min + wait)
    }

    /// Whether this round trip is several times the least one.
    pub(super) fn is_far_below(&self, rtt: Duration) -> bool {
        self.value.is_some_and(|min| rtt > FAR * min + HOST_DELAY)
    }

    /// The least wait that tells a queue from what hosts add.
    pub(super) fn queue_shown_from(&self) -> Option<Duration> {
        self.value.map(|min| min / SAME_WITHIN + HOST_DELAY)
    }
}

/// How much round trips vary on a path whatever we send.
///
/// A queue makes them longer step by step, and then shorter; jitter does not know which way it went the last time. So
/// what counts is a *turn*: a step that goes the other way than the one before, by the smaller of both.
#[derive(Debug, Clone, Copy)]
struct Jitter {
    last: Option<Duration>,
    /// By how much the last sample differed from the one before, and which way.
    step: Duration,
    was_up: bool,
    samples: u32,
    /// The mean turn.
    mean: Duration,
}

impl Jitter {
    const NONE: Self =
        Self { last: None, step: Duration::ZERO, was_up: false, samples: 0, mean: Duration::ZERO };

    fn update(&mut self, sample: Duration) {
        let Some(last) = self.last.replace(sample) else { return };
        let (step, is_up) = (sample.abs_diff(last), sample > last);
        let turn = if is_up == self.was_up { Duration::ZERO } else { step.min(self.step) };
        (self.step, self.was_up) = (step, is_up);
        self.samples = (self.samples + 1).min(JITTER_SAMPLES);
        self.mean = (self.mean * (self.samples - 1) + turn) / self.samples;
    }

    fn most(&self) -> Duration {
        self.mean * MOST_TURNS
    }
}
