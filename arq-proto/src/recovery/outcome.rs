// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What became of packets, as far as it was found out at once.

use std::time::Duration;

use crate::{
    sent::{Content, Settled},
    units::Rate,
};

/// What follows from an acknowledgement or a timer, in the order of sending. Its buffers are used again if it is given
/// back to [`Recovery::recycle`](super::Recovery::recycle).
#[derive(Debug, Default)]
#[must_use = "lanes learn from it what became of what they sent"]
pub(crate) struct Outcome {
    pub(crate) acked: Vec<Content>,
    pub(crate) lost: Vec<Content>,
    /// Of packets that may have arrived: their ACK is lost.
    pub(crate) suspect: Vec<Content>,
    /// What is lost was not told by an acknowledgement.
    pub(crate) by_time_out: bool,
    /// Something was acknowledged for the first time.
    pub(crate) answers: bool,
    /// How long the largest packet of it waited for that, if the answer took its path.
    pub(crate) delay: Option<Duration>,
    /// Bytes acknowledged, and those of packets whose contents also left on another path.
    pub(crate) acked_bytes: u64,
    pub(crate) needless_bytes: u64,
    /// The circuit breaker has opened: what may leave in a second.
    pub(crate) limited_to: Option<Rate>,
    /// Packets whose fate is final.
    pub(crate) settled: Vec<Settled>,
}

impl Outcome {
    pub(super) fn clear(&mut self) {
        self.acked.clear();
        self.lost.clear();
        self.suspect.clear();
        self.by_time_out = false;
        self.answers = false;
        self.delay = None;
        self.acked_bytes = 0;
        self.needless_bytes = 0;
        self.limited_to = None;
        self.settled.clear();
    }
}
