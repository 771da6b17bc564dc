// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A window that never moves: right where the capacity is known and private, and nowhere else.

use super::{AckSample, CeSample, Controller, LossSample, SentSample};

/// A constant window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Constant {
    window_bytes: u64,
}

impl Constant {
    /// `window_bytes` in flight, always.
    #[must_use]
    pub(super) const fn new(window_bytes: u64) -> Self {
        Self { window_bytes }
    }
}

impl Controller for Constant {
    fn on_sent(&mut self, _: &SentSample) {}
    fn on_ack(&mut self, _: &AckSample) {}
    fn on_loss(&mut self, _: &LossSample) {}
    fn on_ce(&mut self, _: &CeSample) {}
    fn on_spurious_loss(&mut self, _: &LossSample) {}
    fn on_silence(&mut self) {}
    fn on_path_change(&mut self) {}

    fn window(&self) -> u64 {
        self.window_bytes
    }
}
