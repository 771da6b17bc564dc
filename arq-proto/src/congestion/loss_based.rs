// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What the controllers have in common that take every loss for congestion: how far a window may grow, and which losses
//! a reduction answers.

use std::time::Instant;

use super::{AckSample, CeSample, LossSample};
use crate::{sent::LossCause, units::PacketNumber};

/// The first and the least window (RFC 9002 §7.2).
pub(super) const INITIAL_PACKETS: u64 = 10;
pub(super) const MIN_WINDOW_PACKETS: u64 = 2;
/// A window that is used but for so many packets is full: as many the pacer lets out at once.
const PACED_PACKETS: u64 = 5;

/// How far a window may grow when so much was in flight (RFC 9002 §7.8): a window that was not used says nothing
/// about the path. In slow start it is the half of it that must be used, as it doubles in a round trip; later
/// four fifths, or all but a few packets, as the pacer holds some back.
pub(super) fn growth_limit(sample: &AckSample, mtu: u64, slow_start: bool) -> u64 {
    let used = sample.in_flight_bytes;
    if slow_start {
        2 * used
    } else {
        (used + used / 4).max(used + PACED_PACKETS * mtu)
    }
}

/// The last reduction, and the losses that it answers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecoveryPeriod {
    /// Losses of packets sent before this belong to the reduction already made.
    start: Option<Instant>,
    /// The first packet that it may have been made for: those lost before it had a reduction of their own.
    first: PacketNumber,
    /// Packets of it that have not arrived after all.
    missing: u64,
    /// The first packet that is not lost yet.
    next: PacketNumber,
}

impl RecoveryPeriod {
    /// Whether the reduction answers what becomes of packets sent then.
    pub(super) fn covers(&self, sent_at: Instant) -> bool {
        self.start.is_some_and(|start| sent_at <= start)
    }

    /// Whether the loss calls for a reduction.
    pub(super) fn on_loss(&mut self, sample: &LossSample) -> bool {
        // A time-out alone proves no congestion; silence does, and has a call of its own.
        if sample.cause == LossCause::Timeout {
            return false;
        }
        let new = !self.covers(sample.sent_at);
        if new {
            self.start = Some(sample.now);
            // Losses are noticed in the order of sending.
            self.first = self.next.min(sample.largest);
            self.missing = 0;
        }
        self.missing += sample.packets;
        self.next = self.next.max(sample.largest.next());
        new
    }

    /// Whether the marks call for a reduction. If they belong to one that was made, that is no longer for losses alone,
    /// which may prove spurious.
    pub(super) fn on_ce(&mut self, sample: &CeSample) -> bool {
        let new = !self.covers(sample.sent_at);
        if new {
            self.start = Some(sample.now);
        }
        self.missing = 0;
        new
    }

    /// Whether the reduction proves unfounded: everything that it was made for has arrived (RFC 9438 §4.9.2). It then
    /// covers nothing any more.
    pub(super) fn on_spurious_loss(&mut self, sample: &LossSample) -> bool {
        // A time-out reduced nothing, so it says nothing about a reduction.
        let counts = sample.cause == LossCause::Gap && sample.largest >= self.first;
        if !counts || self.missing == 0 {
            return false;
        }
        self.missing = self.missing.saturating_sub(sample.packets);
        if self.missing == 0 {
            self.start = None;
        }
        self.missing == 0
    }

    /// What was lost so far had its answer, for good.
    pub(super) fn close(&mut self) {
        (self.start, self.missing) = (None, 0);
    }
}
