// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! When to look for more: after some rounds of cruising, and almost at once where the last probe found much more.

use std::time::Duration;

use super::tuning::{CRUISE_CHOICES, CRUISE_ROUNDS, FOUND_MORE, MIN_CRUISE};
use crate::units::{PacketNumber, Rate};

/// When the next probe is due.
#[derive(Debug, Clone)]
pub(super) struct Probing {
    /// Rounds of this cruise.
    cruise_rounds: u64,
    /// The rate before the last probe.
    before: Option<Rate>,
}

impl Probing {
    pub(super) const fn new() -> Self {
        Self { cruise_rounds: CRUISE_ROUNDS, before: None }
    }

    /// Others may need what a probe would take: no hurry.
    pub(super) fn on_queue(&mut self) {
        self.cruise_rounds = self.cruise_rounds.max(CRUISE_ROUNDS);
    }

    /// The round after the last probe is over, without a queue, and `found` is the rate known now. A path that has
    /// carried what the probe sent in addition may carry much more.
    pub(super) fn on_result(&mut self, found: Rate) {
        if self.before.is_some_and(|before| found >= before.mul_f64(FOUND_MORE)) {
            self.cruise_rounds = 1;
        }
    }

    /// Whether a cruise of so many rounds, which took `time`, was long enough.
    pub(super) fn is_due(&self, rounds: u64, time: Duration) -> bool {
        rounds >= self.cruise_rounds && time >= MIN_CRUISE
    }

    /// A probe begins, at the rate `before` it, with the packet `next`.
    pub(super) fn begin(&mut self, before: Rate, next: PacketNumber) {
        self.before = Some(before);
        // Flows that always probe at the same time never learn of each other. Their packet numbers
        // differ, and that is all the chance that it takes.
        self.cruise_rounds = CRUISE_ROUNDS + next.0 % CRUISE_CHOICES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of the cruise after a probe from 100 kB/s to `found`, which a queue follows or does not.
    fn rounds_after(found: u64, queue: bool) -> u64 {
        let mut probing = Probing::new();
        probing.begin(Rate::from_bytes_per_second(100_000), PacketNumber(0));
        probing.on_result(Rate::from_bytes_per_second(found));
        if queue {
            probing.on_queue();
        }
        let is_due = |rounds: &u64| probing.is_due(*rounds, MIN_CRUISE);
        (1..u64::MAX).find(is_due).expect("some cruise is long enough")
    }

    // ARQ-CC-6
    #[test]
    fn a_probe_that_found_more_is_followed_by_another_at_once_unless_there_is_a_queue() {
        assert_eq!(rounds_after(114_000, false), CRUISE_ROUNDS);
        assert_eq!(rounds_after(116_000, false), 1);
        assert_eq!(rounds_after(125_000, true), CRUISE_ROUNDS);
    }

    // ARQ-CC-6
    #[test]
    fn flows_do_not_probe_in_step_nor_on_short_paths_each_few_milliseconds() {
        let mut probing = Probing::new();
        let lengths = [0, 1, 2, 3, 4].map(|number| {
            probing.begin(Rate::from_bytes_per_second(100_000), PacketNumber(number));
            (1..u64::MAX).find(|&rounds| probing.is_due(rounds, MIN_CRUISE))
        });
        assert_eq!(lengths, [6, 7, 8, 9, 10].map(Some));
        assert!(!probing.is_due(u64::MAX, MIN_CRUISE - Duration::from_millis(1)));
    }
}
