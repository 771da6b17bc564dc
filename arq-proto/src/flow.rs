// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How much may either side send? Credit, counted since the start and only ever raised.
//!
//! A message costs its length plus [`MESSAGE_OVERHEAD_BYTES`], so that a million one-byte messages
//! cannot occupy more memory than the credit says. Only reliable lanes need credit: a best-effort
//! lane drops instead.

use std::time::{Duration, Instant};

use crate::wire::MAX_MESSAGE_BYTES;

/// What a message costs beside its bytes: about what keeping it takes.
pub(crate) const MESSAGE_OVERHEAD_BYTES: u64 = 64;

/// The credit that a message of `len` bytes takes.
pub(crate) const fn message_cost(len: usize) -> u64 {
    len as u64 + MESSAGE_OVERHEAD_BYTES
}

/// Least bytes of reliable messages that a sender keeps for repair; more if its own connection window is larger, whatever the
/// peer grants. It is the default window, so that no peer with defaults is slower for it.
const LEAST_KEPT_BYTES: u64 = 32 << 20;

/// The credit that the peer grants for all reliable lanes together.
#[derive(Debug, Clone)]
pub(crate) struct SendCredit {
    granted: u64,
    used: u64,
    /// The part of it for messages that need not be kept any more.
    settled: u64,
    most_kept: u64,
}

impl SendCredit {
    /// No credit until the handshake grants some. `own_window`: what this side grants the peer.
    pub(crate) fn new(own_window: u64) -> Self {
        Self { granted: 0, used: 0, settled: 0, most_kept: own_window.max(LEAST_KEPT_BYTES) }
    }

    /// The peer grants `granted` bytes since the start.
    pub(crate) fn raise(&mut self, granted: u64) {
        self.granted = self.granted.max(granted);
    }

    /// A message has begun.
    pub(crate) fn spend(&mut self, cost: u64) {
        self.used += cost;
    }

    /// A message that cost as much has arrived, or was given up.
    pub(crate) fn settle(&mut self, cost: u64) {
        self.settled += cost;
    }

    /// Credit for new messages. The peer's grant alone would not bound the memory kept for repair.
    pub(crate) fn available(&self) -> u64 {
        self.granted.min(self.settled + self.most_kept).saturating_sub(self.used)
    }
}

/// The credit that one side grants: a window beyond what its application has taken.
#[derive(Debug, Clone)]
pub(crate) struct Granted {
    window: u64,
    consumed: u64,
    announced: u64,
    /// What was consumed when the credit of the last whole window was announced, and when that was.
    turn: Option<(Instant, u64)>,
}

impl Granted {
    /// The handshake announces the first window.
    pub(crate) fn new(window: u64) -> Self {
        Self { window, consumed: 0, announced: window, turn: None }
    }

    /// The application took a message.
    pub(crate) fn on_consumed(&mut self, cost: u64) {
        self.consumed += cost;
    }

    /// Whether it is worth telling the peer: a quarter of the window is new.
    pub(crate) fn is_due(&self) -> bool {
        self.is_new(4)
    }

    /// The same for a window that several lanes share: a sixteenth is worth it where unread messages (`held`) leave the
    /// peer less than the longest message costs. The peer may wait for just that.
    pub(crate) fn is_due_beside(&self, held: impl FnOnce() -> u64) -> bool {
        let left = |held: u64| self.announced.saturating_sub(self.consumed + held);
        self.is_new(4) || (self.is_new(16) && left(held()) < message_cost(MAX_MESSAGE_BYTES))
    }

    fn is_new(&self, share: u64) -> bool {
        self.consumed + self.window - self.announced >= self.window / share
    }

    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Widens the window, which the next announcement will tell.
    pub(crate) fn widen(&mut self, by: u64) {
        self.window += by;
    }

    /// Whether the application has consumed the last whole window within `time`. To be asked before each announcement.
    pub(crate) fn is_consumed_within(&mut self, now: Instant, time: Duration) -> bool {
        let (since, consumed) = *self.turn.get_or_insert((now, self.consumed));
        if self.consumed - consumed < self.window {
            return false;
        }
        self.turn = Some((now, self.consumed));
        now.saturating_duration_since(since) < time
    }

    /// The credit to announce now.
    pub(crate) fn announce(&mut self) -> u64 {
        self.announced = self.consumed + self.window;
        self.announced
    }

    /// The announcement was lost.
    pub(crate) fn on_lost(&mut self) {
        // Due again, unless the announcement was the first, which the handshake carries.
        self.announced = self.announced.min(self.consumed + self.window - self.window / 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ARQ-FLW-4
    #[test]
    fn a_reader_that_stalls_makes_smaller_steps_of_a_shared_window() {
        let mut granted = Granted::new(256 << 10);
        granted.on_consumed(16 << 10);
        assert!(!granted.is_due() && !granted.is_due_beside(|| 128 << 10));
        assert!(granted.is_due_beside(|| 192 << 10));
        granted.announce();
        assert!(!granted.is_due_beside(|| 256 << 10), "nothing is new");
    }

    // ARQ-FLW-6
    #[test]
    fn a_wider_window_is_news_at_once() {
        let mut granted = Granted::new(1_000);
        granted.widen(300);
        assert!(!granted.is_due(), "less than a quarter");
        granted.widen(200);
        assert!(granted.is_due());
        assert_eq!(granted.announce(), 1_500);
    }

    // ARQ-FLW-7
    #[test]
    fn a_window_may_be_consumed_faster_than_the_path_is_long() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let (t0, ms) = (Instant::now(), Duration::from_millis(1));
        for (each, expected) in [(40 * ms, true), (50 * ms, false)] {
            let mut granted = Granted::new(1_000);
            let turns: Vec<_> = (0..=8)
                .filter(|&quarter| {
                    granted.on_consumed(250);
                    granted.is_consumed_within(t0 + quarter * each, 200 * ms)
                })
                .collect();
            assert_eq!(turns, if expected { vec![4, 8] } else { vec![] }, "{each:?} a quarter");
        }
    }

    // ARQ-FLW-4
    #[test]
    fn credit_is_announced_in_quarters_and_again_when_lost() {
        let mut granted = Granted::new(1_000);
        granted.on_consumed(249);
        assert!(!granted.is_due());
        granted.on_consumed(1);
        assert!(granted.is_due());
        assert_eq!(granted.announce(), 1_250);
        assert!(!granted.is_due());
        granted.on_lost();
        assert!(granted.is_due());
        assert_eq!(granted.announce(), 1_250);
    }
}
