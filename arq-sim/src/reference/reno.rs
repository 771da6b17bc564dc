// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Slow start and NewReno (RFC 5681, RFC 6928).

use std::time::Duration;

use super::{Ack, Loss, Model};

#[derive(Debug)]
pub(super) struct Reno {
    window: f64,
    threshold: f64,
    /// What was sent before then is answered.
    reduced_at: Duration,
}

impl Reno {
    pub(super) fn new() -> Self {
        Self { window: 10.0, threshold: f64::INFINITY, reduced_at: Duration::ZERO }
    }
}

impl Model for Reno {
    fn on_loss(&mut self, loss: &Loss) {
        if loss.sent_at >= self.reduced_at {
            self.threshold = (self.window / 2.0).max(2.0);
            self.window = self.threshold;
            self.reduced_at = loss.now;
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        let acked = ack.acked as f64;
        let slow_start = self.window < self.threshold;
        self.window += if slow_start { acked } else { acked / self.window };
    }

    fn on_timeout(&mut self) {
        self.threshold = (self.window / 2.0).max(2.0);
        self.window = 1.0;
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn pacing_rate(&self) -> Option<f64> {
        None
    }
}
