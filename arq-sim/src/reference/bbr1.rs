// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! BBR as Linux has had it since 2016: draft-cardwell-iccrg-bbr-congestion-control-00. Section numbers are its own.

use std::time::Duration;

use fastrand::Rng;

use super::{
    filter::{Aggregation, FullPipe, MaxFilter, Rounds},
    Ack, Model,
};

/// §4.1.1: 2 / ln 2.
const HIGH_GAIN: f64 = 2.885;
/// §4.3.4.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const CWND_GAIN: f64 = 2.0;
const MIN_WINDOW: f64 = 4.0;
/// §4.1.2.1: rounds that a rate is remembered.
const RATE_ROUNDS: u64 = 10;
/// §4.3.5.
const RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Startup,
    Drain,
    ProbeBw { phase: usize, since: Duration },
    ProbeRtt { until: Option<Duration> },
}

#[derive(Debug)]
pub(super) struct Bbr1 {
    state: State,
    rng: Rng,
    rounds: Rounds,
    rate: MaxFilter,
    full: FullPipe,
    filled: bool,
    aggregation: Aggregation,
    min_rtt: Option<(Duration, Duration)>,
    window: f64,
    /// Before ProbeRTT or a time-out.
    prior_window: f64,
}

impl Bbr1 {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            state: State::Startup,
            rng: Rng::with_seed(seed),
            rounds: Rounds::default(),
            rate: MaxFilter::new(RATE_ROUNDS),
            full: FullPipe::default(),
            filled: false,
            aggregation: Aggregation::new(),
            min_rtt: None,
            window: 10.0,
            prior_window: 0.0,
        }
    }

    fn product(&self) -> f64 {
        let rtt = self.min_rtt.map_or(0.0, |(rtt, _)| rtt.as_secs_f64());
        self.rate.max() * rtt
    }

    fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup => HIGH_GAIN,
            State::Drain => 1.0 / HIGH_GAIN,
            State::ProbeBw { phase, .. } => CYCLE[phase],
            State::ProbeRtt { .. } => 1.0,
        }
    }

    fn enter_probe_bw(&mut self, now: Duration) {
        // Any phase but the one that drains.
        let phase = (2 + self.rng.usize(..7)) % 8;
        self.state = State::ProbeBw { phase, since: now };
    }

    fn advance(&mut self, ack: &Ack, round_ended: bool) {
        if self.state == State::Startup && round_ended {
            self.filled |= self.full.on_round(self.rate.max());
            if self.filled {
                self.state = State::Drain;
            }
        }
        if self.state == State::Drain && ack.in_flight as f64 <= self.product() {
            self.enter_probe_bw(ack.now);
        }
        if let State::ProbeBw { phase, since } = self.state {
            let (gain, product) = (CYCLE[phase], self.product());
            let in_flight = ack.in_flight as f64;
            let elapsed = self.min_rtt.is_some_and(|(rtt, _)| ack.now - since > rtt);
            let over = match gain {
                gain if gain > 1.0 => elapsed && (ack.lost > 0 || in_flight >= gain * product),
                gain if gain < 1.0 => elapsed || in_flight <= product,
                _ => elapsed,
            };
            if over {
                self.state = State::ProbeBw { phase: (phase + 1) % 8, since: ack.now };
            }
        }
    }

    fn update_rtt(&mut self, ack: &Ack) {
        let expired = self.min_rtt.is_some_and(|(_, at)| ack.now > at + RTT_WINDOW);
        if let Some(rtt) = ack.rtt {
            if expired || self.min_rtt.is_none_or(|(least, _)| rtt <= least) {
                self.min_rtt = Some((rtt, ack.now));
            }
        }
        if expired && !matches!(self.state, State::ProbeRtt { .. }) {
            self.prior_window = self.window;
            self.state = State::ProbeRtt { until: None };
        }
        if let State::ProbeRtt { until } = &mut self.state {
            match *until {
                None if ack.in_flight as f64 <= MIN_WINDOW => {
                    *until = Some(ack.now + PROBE_RTT_TIME.max(ack.rtt.unwrap_or_default()));
                }
                Some(until) if ack.now >= until => {
                    self.min_rtt = self.min_rtt.map(|(rtt, _)| (rtt, ack.now));
                    self.window = self.window.max(self.prior_window);
                    if self.filled {
                        self.enter_probe_bw(ack.now);
                    } else {
                        self.state = State::Startup;
                    }
                }
                _ => {}
            }
        }
    }
}

impl Model for Bbr1 {
    fn on_ack(&mut self, ack: &Ack) {
        let round_ended = self.rounds.on_ack(ack);
        if let Some(rate) = ack.rate {
            self.rate.update(self.rounds.count, rate);
        }
        self.aggregation.on_ack(ack, self.rate.max(), self.window, self.rounds.count);
        self.advance(ack, round_ended);
        self.update_rtt(ack);
        let gain = if self.filled { CWND_GAIN } else { HIGH_GAIN };
        let target = gain * self.product() + self.aggregation.extra() + 3.0;
        let grown = self.window + ack.acked as f64;
        if self.filled {
            self.window = grown.min(target);
        } else if self.window < target {
            self.window = grown;
        }
        self.window = self.window.max(MIN_WINDOW);
        if matches!(self.state, State::ProbeRtt { .. }) {
            self.window = MIN_WINDOW;
        }
    }

    fn on_timeout(&mut self) {
        self.prior_window = self.prior_window.max(self.window);
        self.window = MIN_WINDOW;
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn pacing_rate(&self) -> Option<f64> {
        // Until there is a rate, the first window leaves at once.
        let rate = self.rate.max();
        (rate > 0.0).then(|| self.pacing_gain() * rate)
    }
}
