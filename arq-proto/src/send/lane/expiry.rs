// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Best-effort messages have their time, and the peer hears which ones it need not wait for.

use std::time::Instant;

use super::SendLane;
use crate::units::MessageSeq;

impl SendLane {
    /// Gives up best-effort messages whose time is over.
    pub(crate) fn expire(&mut self, now: Instant) {
        while self
            .messages
            .front()
            .is_some_and(|message| message.expires_at.is_some_and(|at| at <= now))
        {
            if let Some(message) = self.pop_front() {
                self.expired += 1;
                self.unsent_bytes -= message.unsent_bytes();
                self.forget_due = true;
            }
            // What the peer has already does not wait for its own time.
            self.drop_settled(now);
        }
    }

    /// When the oldest best-effort message is to be given up.
    pub(crate) fn expiry(&self) -> Option<Instant> {
        self.messages.front()?.expires_at
    }

    /// The message below which nobody need wait, if the peer should hear it; says so once.
    pub(crate) fn take_forget(&mut self) -> Option<MessageSeq> {
        let due = std::mem::take(&mut self.forget_due);
        self.forgets_in_flight += u32::from(due);
        due.then_some(self.base)
    }

    /// Whether that is worth a packet of its own. As in Nagle's algorithm, not while one is under way: where messages
    /// expire all the time, each would bring a packet that neither window nor pacer stops, and put off the probe of a
    /// path that is silent.
    pub(crate) fn has_urgent_forget(&self) -> bool {
        self.forget_due && self.forgets_in_flight == 0
    }

    /// A packet that said so was acknowledged, or counts as lost.
    pub(crate) fn on_forget_settled(&mut self) {
        // Lost and then acknowledged is settled twice.
        self.forgets_in_flight = self.forgets_in_flight.saturating_sub(1);
    }

    pub(crate) fn expired(&self) -> u64 {
        self.expired
    }
}
