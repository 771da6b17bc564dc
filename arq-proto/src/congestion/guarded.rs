// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Any controller, with a circuit breaker before it.

use std::time::{Duration, Instant};

use super::{breaker::Breaker, AckSample, Controller, LossSample, SentSample};
use crate::{sent::Settled, units::Rate};

/// A controller and its [`Breaker`].
#[derive(Debug)]
pub(super) struct Guarded<C> {
    inner: C,
    breaker: Breaker,
    smoothed_rtt: Duration,
}

impl<C: Controller> Guarded<C> {
    /// For datagrams of `mtu` bytes.
    pub(super) const fn new(inner: C, mtu: u16) -> Self {
        Self { inner, breaker: Breaker::new(mtu), smoothed_rtt: Duration::ZERO }
    }

    /// The rate of the controller, or of its window.
    fn wanted(&self) -> Option<Rate> {
        self.inner.pacing_rate().or_else(|| {
            let window = self.inner.window();
            Rate::over(window + window / 4, self.smoothed_rtt)
        })
    }
}

impl<C: Controller> Controller for Guarded<C> {
    fn on_time(&mut self, now: Instant) {
        self.inner.on_time(now);
    }

    fn on_sent(&mut self, sample: &SentSample) {
        self.breaker.on_sent(sample);
        // What the breaker holds back says nothing about the path.
        let held_back = self.breaker.holds_back(sample.now, sample.app_limited);
        let app_limited = sample.app_limited || held_back;
        self.inner.on_sent(&SentSample { app_limited, ..*sample });
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.smoothed_rtt = sample.smoothed_rtt;
        self.breaker.on_rtt(sample.smoothed_rtt);
        let app_limited = sample.app_limited || self.breaker.is_behind();
        self.inner.on_ack(&AckSample { app_limited, ..*sample });
    }

    fn on_settled(&mut self, now: Instant, packet: &Settled) {
        let wanted = self.breaker.limit().and_then(|_| self.wanted());
        self.breaker.on_settled(now, packet, wanted);
        self.inner.on_settled(now, packet);
    }

    fn on_loss(&mut self, sample: &LossSample) {
        self.inner.on_loss(sample);
    }

    fn on_spurious_loss(&mut self, sample: &LossSample) {
        self.inner.on_spurious_loss(sample);
    }

    fn on_sleep(&mut self) {
        self.inner.on_sleep();
    }

    fn on_silence(&mut self) {
        self.breaker.on_silence();
        self.inner.on_silence();
    }

    fn on_path_change(&mut self) {
        self.breaker.forget();
        self.inner.on_path_change();
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.breaker.on_mtu(mtu);
        self.inner.on_mtu(mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        match self.breaker.limit() {
            None => self.inner.pacing_rate(),
            Some(limit) => Some(self.wanted().map_or(limit, |wanted| wanted.min(limit))),
        }
    }

    fn carried_rate(&self) -> Option<Rate> {
        match (self.inner.carried_rate(), self.breaker.limit()) {
            (Some(carried), Some(limit)) => Some(carried.min(limit)),
            (carried, limit) => carried.or(limit),
        }
    }

    fn burst(&self) -> u64 {
        if self.breaker.limit().is_some() {
            0
        } else {
            self.inner.burst()
        }
    }

    fn tries_rates(&self) -> bool {
        self.breaker.tries_rates()
    }

    fn is_limited(&self) -> bool {
        self.breaker.is_limited()
    }

    fn times_opened(&self) -> u64 {
        self.breaker.times_opened()
    }
}
