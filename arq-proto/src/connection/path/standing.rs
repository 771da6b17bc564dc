// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How far the opening of a path is, and what each side wishes to have it used for.

use std::time::{Duration, Instant};

use crate::{admission::MAX_AMPLIFICATION, wire::frame::PathUse};

/// Questions are repeated after as long as was asked for already, as HELLO is, but within these bounds.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
const MAX_INTERVAL: Duration = Duration::from_secs(10);

/// Whether a path can be used.
#[derive(Debug)]
pub(crate) enum Standing {
    /// The peer was asked for it, or asks, and has not shown yet that it receives there.
    Opening(Opening),
    /// It was shown to work in both directions.
    Open,
}

/// The question that opens a path, and its answer.
#[derive(Debug)]
pub(crate) struct Opening {
    token: u64,
    since: Instant,
    asked_at: Option<Instant>,
    asked: u32,
    due: bool,
    /// Bytes that came from where the peer is, and that were sent there; `None` where its address is known to be its.
    bytes: Option<(u64, u64)>,
}

impl Opening {
    /// This side opens the path.
    pub(crate) fn asking(now: Instant, token: u64) -> Self {
        Self { token, since: now, asked_at: None, asked: 0, due: true, bytes: None }
    }

    /// The peer opens it.
    pub(crate) fn answering(now: Instant, token: u64) -> Self {
        Self { bytes: Some((0, 0)), due: false, ..Self::asking(now, token) }
    }

    /// Whether this side opens the path.
    pub(crate) fn is_asking(&self) -> bool {
        self.bytes.is_none()
    }

    pub(crate) fn on_received(&mut self, bytes: u64) {
        if let Some((received, _)) = &mut self.bytes {
            *received += bytes;
        }
    }

    /// Another address asks for the path: what the first one may be sent, it may not.
    pub(crate) fn on_other_address(&mut self) {
        self.bytes = self.bytes.map(|_| (0, 0));
    }

    /// The question is to be sent now.
    pub(crate) fn ask(&mut self) {
        self.due = true;
    }

    /// It is urgent: the question is asked as often as at first.
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.since = now;
        self.due = true;
    }

    /// The question is to be sent now, unless it was a moment ago.
    pub(crate) fn ask_if_overdue(&mut self, now: Instant) {
        self.due |= self.asked_at.is_none_or(|at| now >= at + MIN_INTERVAL);
    }

    pub(crate) fn asked(&self) -> u32 {
        self.asked
    }

    /// The token of the question, if a packet of so many bytes with it is to leave now.
    pub(crate) fn take_due(&mut self, now: Instant, packet_bytes: u64) -> Option<u64> {
        if !self.due {
            return None;
        }
        self.due = false;
        if let Some((received, sent)) = &mut self.bytes {
            if *sent + packet_bytes > MAX_AMPLIFICATION * *received {
                return None;
            }
            *sent += packet_bytes;
        }
        self.asked_at = Some(now);
        self.asked += 1;
        Some(self.token)
    }

    /// When the question is repeated, after `now`.
    pub(crate) fn next(&self, now: Instant) -> Instant {
        let waited = now.saturating_duration_since(self.since);
        now + waited.clamp(MIN_INTERVAL, MAX_INTERVAL)
    }

    /// Whether `token` answers the question. If that was asked once, the time since then is a round trip.
    pub(crate) fn is_answered_by(&self, token: u64) -> bool {
        self.token == token && self.asked > 0
    }

    pub(crate) fn round_trip(&self, now: Instant) -> Option<Duration> {
        let asked_at = self.asked_at.filter(|_| self.asked == 1)?;
        Some(now.saturating_duration_since(asked_at))
    }
}

/// What one side wishes to have a path used for, by what it said last.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) wish: PathUse,
    /// Later ones have larger numbers: frames may overtake each other.
    pub(crate) sequence: u64,
    /// The peer is to hear of it.
    pub(crate) due: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    // ARQ-MP-3
    #[test]
    fn an_address_that_has_not_answered_is_sent_three_times_as_much_at_most() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        let mut opening = Opening::answering(t0, 7);
        let asked = |opening: &mut Opening| {
            (0..10)
                .filter(|_| {
                    opening.ask();
                    opening.take_due(t0, 1_200).is_some()
                })
                .count()
        };
        assert_eq!(asked(&mut opening), 0);
        opening.on_received(1_200);
        assert_eq!(asked(&mut opening), 3);
        opening.on_other_address();
        assert_eq!(asked(&mut opening), 0);
        assert_eq!(opening.round_trip(t0 + MS), None, "of which of them?");
        assert!(opening.is_answered_by(7) && !opening.is_answered_by(8));
        // Who opens it asks for as long as it likes, and ever more seldom.
        let opening = Opening::asking(t0, 7);
        let waits = [0, 50, 150, 2_000, 60_000].map(|ms| opening.next(t0 + ms * MS) - ms * MS - t0);
        assert_eq!(waits, [50, 50, 150, 2_000, 10_000].map(|ms| ms * MS));
        assert!(!opening.is_answered_by(7), "before it was asked");
    }
}
