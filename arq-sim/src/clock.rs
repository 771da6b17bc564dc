// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What time is it? Whatever the events say: nothing here waits, and nobody else is asked.
//!
//! The core takes `Instant`s, and the only way to make one is to read the real clock. It is read
//! once, at the start; everything after is an offset from there, and only offsets are recorded.

use std::time::{Duration, Instant};

/// The time of a simulated world.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    base: Instant,
    now: Instant,
}

impl Clock {
    /// A clock at offset zero.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "reading the real clock should be visible")]
    pub fn new() -> Self {
        let base = Instant::now();
        Self { base, now: base }
    }

    /// The virtual time, as the core wants it.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Time since the start of the world.
    #[must_use]
    pub fn offset(&self) -> Duration {
        self.now - self.base
    }

    /// `instant` as time since the start of the world.
    #[must_use]
    pub fn offset_of(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.base)
    }

    /// Moves forward to `instant`; never backwards.
    pub fn advance_to(&mut self, instant: Instant) {
        self.now = self.now.max(instant);
    }
}
