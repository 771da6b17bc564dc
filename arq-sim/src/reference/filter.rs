// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What both BBRs measure: rounds, maxima, and how far acknowledgements come in bunches.

use std::{collections::VecDeque, time::Duration};

use super::Ack;

/// The maximum over the last so many rounds.
#[derive(Debug, Clone)]
pub(super) struct MaxFilter {
    rounds: u64,
    /// Falling values with the round of each.
    values: VecDeque<(u64, f64)>,
}

impl MaxFilter {
    pub(super) fn new(rounds: u64) -> Self {
        Self { rounds, values: VecDeque::new() }
    }

    pub(super) fn update(&mut self, round: u64, value: f64) {
        while self.values.back().is_some_and(|&(_, last)| last <= value) {
            self.values.pop_back();
        }
        self.values.push_back((round, value));
        while self.values.front().is_some_and(|&(of, _)| of + self.rounds <= round) {
            self.values.pop_front();
        }
    }

    pub(super) fn max(&self) -> f64 {
        self.values.front().map_or(0.0, |&(_, value)| value)
    }
}

/// Round trips, counted by what was delivered.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rounds {
    pub(super) count: u64,
    next_delivered: u64,
}

impl Rounds {
    /// Whether a round has ended.
    pub(super) fn on_ack(&mut self, ack: &Ack) -> bool {
        let ended = ack.prior_delivered >= self.next_delivered;
        if ended {
            self.count += 1;
            self.next_delivered = ack.delivered;
        }
        ended
    }
}

/// Whether start-up has filled the pipe: three rounds without a quarter more.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FullPipe {
    rate: f64,
    rounds: u32,
}

impl FullPipe {
    pub(super) fn on_round(&mut self, rate: f64) -> bool {
        if rate >= 1.25 * self.rate {
            *self = Self { rate, rounds: 0 };
            return false;
        }
        self.rounds += 1;
        self.rounds >= 3
    }
}

/// Packets that were acknowledged beyond what the rate explains.
#[derive(Debug, Clone)]
pub(super) struct Aggregation {
    since: Duration,
    acked: f64,
    extra: MaxFilter,
}

impl Aggregation {
    pub(super) fn new() -> Self {
        Self { since: Duration::ZERO, acked: 0.0, extra: MaxFilter::new(10) }
    }

    pub(super) fn on_ack(&mut self, ack: &Ack, rate: f64, window: f64, round: u64) {
        let expected = rate * (ack.now - self.since).as_secs_f64();
        if self.acked <= expected {
            (self.since, self.acked) = (ack.now, 0.0);
        }
        self.acked += ack.acked as f64;
        let expected = rate * (ack.now - self.since).as_secs_f64();
        self.extra.update(round, (self.acked - expected).clamp(0.0, window));
    }

    pub(super) fn extra(&self) -> f64 {
        self.extra.max()
    }
}
