// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! BBRv3: draft-ietf-ccwg-bbr, for a flow that always has something to send. Names are the draft's.

use std::time::Duration;

use fastrand::Rng;

use super::{
    filter::{Aggregation, FullPipe, MaxFilter, Rounds},
    Ack, Loss, Model,
};

const STARTUP_GAIN: f64 = 2.77;
const DRAIN_GAIN: f64 = 0.5;
const BETA: f64 = 0.7;
const LOSS_THRESH: f64 = 0.02;
const FULL_LOSS_COUNT: u64 = 6;
const HEADROOM: f64 = 0.15;
const MIN_WINDOW: f64 = 4.0;
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
const PROBE_RTT_GAIN: f64 = 0.5;
/// A flow that came with Reno's growth would probe after so many rounds at the latest.
const MAX_RENO_ROUNDS: f64 = 63.0;

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt { until: Option<Duration> },
}

#[derive(Debug)]
pub(super) struct Bbr3 {
    state: State,
    rng: Rng,
    rounds: Rounds,
    /// Over two cycles of probing, whose number stands for the round.
    max_bw: MaxFilter,
    cycles: u64,
    bw_lo: f64,
    inflight_hi: f64,
    inflight_lo: f64,
    bw_latest: f64,
    inflight_latest: f64,
    loss_in_round: u64,
    acked_in_round: u64,
    full: FullPipe,
    filled: bool,
    aggregation: Aggregation,
    min_rtt: Option<(Duration, Duration)>,
    probed_rtt_at: Duration,
    cycle_at: Duration,
    wait: Duration,
    /// The round in which the state or the cycle began.
    state_round: u64,
    cycle_round: u64,
    up_rounds: u32,
    up_acks: f64,
    window: f64,
}

impl Bbr3 {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            state: State::Startup,
            rng: Rng::with_seed(seed),
            rounds: Rounds::default(),
            max_bw: MaxFilter::new(2),
            cycles: 0,
            bw_lo: f64::INFINITY,
            inflight_hi: f64::INFINITY,
            inflight_lo: f64::INFINITY,
            bw_latest: 0.0,
            inflight_latest: 0.0,
            loss_in_round: 0,
            acked_in_round: 0,
            full: FullPipe::default(),
            filled: false,
            aggregation: Aggregation::new(),
            min_rtt: None,
            probed_rtt_at: Duration::ZERO,
            cycle_at: Duration::ZERO,
            wait: Duration::ZERO,
            state_round: 0,
            cycle_round: 0,
            up_rounds: 0,
            up_acks: 0.0,
            window: 10.0,
        }
    }

    fn bw(&self) -> f64 {
        self.max_bw.max().min(self.bw_lo)
    }

    fn product(&self) -> f64 {
        self.bw() * self.min_rtt.map_or(0.0, |(rtt, _)| rtt.as_secs_f64())
    }

    fn is_probing(&self) -> bool {
        matches!(self.state, State::Startup | State::Refill | State::Up)
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.state_round = self.rounds.count;
    }

    /// BBRStartProbeBW_DOWN.
    fn go_down(&mut self, now: Duration) {
        (self.cycle_at, self.cycle_round) = (now, self.rounds.count);
        self.wait = Duration::from_secs_f64(2.0 + self.rng.f64());
        self.cycles += 1;
        self.max_bw.update(self.cycles, self.bw_latest);
        self.enter(State::Down);
    }

    /// BBRResetLowerBounds, and a round to fill the pipe.
    fn refill(&mut self) {
        (self.bw_lo, self.inflight_lo) = (f64::INFINITY, f64::INFINITY);
        (self.up_rounds, self.up_acks) = (0, 0.0);
        self.enter(State::Refill);
    }

    fn is_time_to_probe(&self, now: Duration) -> bool {
        let rounds = self.rounds.count - self.cycle_round;
        now - self.cycle_at >= self.wait || rounds as f64 >= self.product().min(MAX_RENO_ROUNDS)
    }

    fn on_round(&mut self, now: Duration) {
        match self.state {
            State::Startup => {
                let sent = (self.loss_in_round + self.acked_in_round) as f64;
                let lossy = self.loss_in_round >= FULL_LOSS_COUNT
                    && self.loss_in_round as f64 > LOSS_THRESH * sent;
                if lossy {
                    self.inflight_hi = self.product().max(self.inflight_latest);
                }
                if self.full.on_round(self.max_bw.max()) || lossy {
                    self.filled = true;
                    self.enter(State::Drain);
                }
            }
            State::Refill if self.rounds.count > self.state_round => {
                self.full = FullPipe::default();
                self.enter(State::Up);
            }
            State::Up => {
                self.up_rounds += 1;
                if self.full.on_round(self.bw_latest) {
                    self.go_down(now);
                }
            }
            _ => {}
        }
        // BBRAdaptLowerBoundsFromCongestion.
        if self.loss_in_round > 0 && !self.is_probing() {
            let bw_lo = if self.bw_lo.is_finite() { self.bw_lo } else { self.max_bw.max() };
            let lo = if self.inflight_lo.is_finite() { self.inflight_lo } else { self.window };
            self.bw_lo = self.bw_latest.max(BETA * bw_lo);
            self.inflight_lo = self.inflight_latest.max(BETA * lo);
        }
        (self.loss_in_round, self.acked_in_round) = (0, 0);
        (self.bw_latest, self.inflight_latest) = (0.0, 0.0);
    }

    fn advance(&mut self, ack: &Ack) {
        let (in_flight, product) = (ack.in_flight as f64, self.product());
        match self.state {
            State::Drain if in_flight <= product => self.go_down(ack.now),
            State::Down | State::Cruise if self.is_time_to_probe(ack.now) => self.refill(),
            State::Down if in_flight <= product.min(self.with_headroom()) => {
                self.enter(State::Cruise);
            }
            State::Up => self.raise_inflight_hi(ack),
            _ => {}
        }
    }

    fn with_headroom(&self) -> f64 {
        ((1.0 - HEADROOM) * self.inflight_hi).max(MIN_WINDOW)
    }

    /// BBRProbeInflightHiUpward: as slow start, one more packet in the first round, then two, four.
    fn raise_inflight_hi(&mut self, ack: &Ack) {
        if !self.inflight_hi.is_finite() || self.window < self.inflight_hi {
            return;
        }
        let growth = f64::from(1u32 << self.up_rounds.min(30));
        self.up_acks += ack.acked as f64 * (growth / self.window).min(1.0);
        self.inflight_hi += self.up_acks.floor();
        self.up_acks = self.up_acks.fract();
    }

    fn probe_rtt(&mut self, ack: &Ack) {
        let expired = self.min_rtt.is_some_and(|(_, at)| ack.now > at + MIN_RTT_WINDOW);
        if let Some(rtt) = ack.rtt {
            if expired || self.min_rtt.is_none_or(|(least, _)| rtt <= least) {
                self.min_rtt = Some((rtt, ack.now));
                self.probed_rtt_at = ack.now;
            }
        }
        let is_due = ack.now > self.probed_rtt_at + PROBE_RTT_INTERVAL;
        if is_due && self.filled && !matches!(self.state, State::ProbeRtt { .. }) {
            self.enter(State::ProbeRtt { until: None });
        }
        if let State::ProbeRtt { until } = self.state {
            match until {
                None if ack.in_flight <= self.window() => {
                    self.state = State::ProbeRtt { until: Some(ack.now + PROBE_RTT_TIME) };
                }
                Some(until) if ack.now >= until => {
                    self.probed_rtt_at = ack.now;
                    (self.bw_lo, self.inflight_lo) = (f64::INFINITY, f64::INFINITY);
                    self.go_down(ack.now);
                    self.enter(State::Cruise);
                }
                _ => {}
            }
        }
    }

    fn set_window(&mut self, acked: f64) {
        let gain = match self.state {
            State::Startup | State::Drain => STARTUP_GAIN,
            State::Up => 2.25,
            _ => 2.0,
        };
        let target = gain * self.product() + self.aggregation.extra() + 3.0;
        let grown = self.window + acked;
        if self.filled || self.window < target {
            self.window = if self.filled { grown.min(target) } else { grown };
        }
        let cap = match self.state {
            State::Cruise => self.with_headroom().min(self.inflight_lo),
            State::Down => self.inflight_hi.min(self.inflight_lo),
            State::ProbeRtt { .. } => self.with_headroom().min(self.inflight_lo),
            _ => self.inflight_hi,
        };
        self.window = self.window.min(cap).max(MIN_WINDOW);
    }
}

impl Model for Bbr3 {
    /// BBRHandleLostPacket.
    fn on_loss(&mut self, loss: &Loss) {
        self.loss_in_round += 1;
        let tx_in_flight = loss.tx_in_flight as f64;
        let too_high = loss.lost_since as f64 > LOSS_THRESH * tx_in_flight;
        if self.state == State::Up && too_high {
            self.inflight_hi = tx_in_flight.max(BETA * self.product().min(self.window));
            self.go_down(loss.now);
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.acked_in_round += ack.acked;
        if let Some(rate) = ack.rate {
            self.bw_latest = self.bw_latest.max(rate);
            self.max_bw.update(self.cycles, rate);
        }
        let delivered = (ack.delivered - ack.prior_delivered) as f64;
        self.inflight_latest = self.inflight_latest.max(delivered);
        self.aggregation.on_ack(ack, self.max_bw.max(), self.window, self.rounds.count);
        if self.rounds.on_ack(ack) {
            self.on_round(ack.now);
        }
        self.advance(ack);
        self.probe_rtt(ack);
        self.set_window(ack.acked as f64);
    }

    fn on_timeout(&mut self) {
        self.window = MIN_WINDOW;
    }

    fn window(&self) -> u64 {
        let probing_rtt = matches!(self.state, State::ProbeRtt { .. });
        let window = if probing_rtt {
            self.window.min(PROBE_RTT_GAIN * self.product())
        } else {
            self.window
        };
        window.max(MIN_WINDOW) as u64
    }

    fn pacing_rate(&self) -> Option<f64> {
        let gain = match self.state {
            State::Startup => STARTUP_GAIN,
            State::Drain => DRAIN_GAIN,
            State::Down => 0.9,
            State::Up => 1.25,
            State::Cruise | State::Refill | State::ProbeRtt { .. } => 1.0,
        };
        let bw = self.bw();
        // The draft's margin of 1 %.
        (bw > 0.0).then_some(0.99 * gain * bw)
    }
}
