// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How much does a lane take before it is sent?
//!
//! A new message waits behind all that is queued, so it is taken while the queue is short, in bytes and in time. The rest of
//! a message in several parts is another matter: an application that drops rather than waits drops all of it when one part
//! finds no room, and the parts before were sent for nothing. So the rest is taken as far as the path carries it within
//! [`LONGEST`].

use std::time::Duration;

use crate::{config::ValidConfig, units::Rate};

/// The bound in bytes, unless the configuration has another.
const BYTES: usize = 256 << 10;
/// Longest time that a new message waits for the rest of an earlier one. zenoh ends a session whose messages wait for five
/// seconds.
const LONGEST: Duration = Duration::from_secs(1);
/// A peer counts as silent after probes have been unanswered for this long.
const SILENCE: Duration = Duration::from_millis(1_500);

/// The bounds of a lane's queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueLimits {
    /// A bound for all that waits, whatever the path carries.
    bytes: Option<usize>,
    /// A new message is refused while an older one waits.
    age: Duration,
    /// A bound for what waits in all lanes before the rest of a message is taken.
    all_lanes: usize,
}

/// What waits in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Bytes, and what is kept of each message.
    pub(crate) bytes: usize,
    /// How long the oldest has waited.
    pub(crate) age: Duration,
}

/// What the connection knows of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outlet {
    /// What it carries.
    pub(crate) rate: Rate,
    /// For how long probes have been unanswered.
    pub(crate) silence: Duration,
    /// Bytes that wait in all lanes.
    pub(crate) queued_bytes: usize,
}

impl QueueLimits {
    pub(crate) fn new(config: &ValidConfig) -> Self {
        Self {
            bytes: config.queue_bytes.map(|bytes| bytes as usize),
            age: config.queue_age,
            all_lanes: config.connection_window_bytes as usize,
        }
    }

    /// Whether a message may begin, whatever the path is like.
    pub(crate) fn admits(&self, waiting: Waiting) -> bool {
        waiting.bytes < self.bytes.unwrap_or(BYTES) && waiting.age < self.age
    }

    /// Whether a message may begin behind one that came in parts. The last part of that one may be as old as the path took
    /// for the others, and yet leaves soon.
    pub(crate) fn admits_behind_parts(&self, waiting: Waiting, outlet: Outlet) -> bool {
        let soon = outlet.rate.bytes_in(self.age);
        outlet.silence.is_zero()
            && waiting.bytes < self.bytes.unwrap_or(BYTES)
            && (waiting.bytes as u64) < soon
    }

    /// Whether the rest of a message is taken.
    pub(crate) fn admits_rest(&self, waiting: Waiting, outlet: Outlet) -> bool {
        let carried = usize::try_from(outlet.rate.bytes_in(LONGEST)).unwrap_or(usize::MAX);
        waiting.bytes < self.bytes.unwrap_or_else(|| carried.max(BYTES))
            && outlet.queued_bytes < self.all_lanes
    }

    /// Whether a message is taken although the lane is full, after it was refused for `refused`. While the peer is silent one is
    /// taken now and then: an application that waits for room would otherwise take a pause of the peer for its end.
    pub(crate) fn admits_in_silence(
        &self,
        waiting: Waiting,
        outlet: Outlet,
        refused: Duration,
    ) -> bool {
        outlet.silence >= SILENCE && refused >= SILENCE && self.admits_rest(waiting, outlet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const MS: Duration = Duration::from_millis(1);
    const MBPS: u64 = 1_000_000;

    fn limits(bytes: Option<u32>) -> QueueLimits {
        let config = Config { queue_bytes: bytes, ..Config::default() };
        QueueLimits::new(&config.validate().unwrap())
    }

    fn waiting(kb: usize, age_ms: u32) -> Waiting {
        Waiting { bytes: kb * 1_000, age: age_ms * MS }
    }

    fn outlet(mbps: u64, silence_ms: u32) -> Outlet {
        let rate = Rate::from_bits_per_second(mbps * MBPS);
        Outlet { rate, silence: silence_ms * MS, queued_bytes: 0 }
    }

    #[test]
    fn what_begins_waits_behind_little() {
        let auto = limits(None);
        assert!(auto.admits(waiting(262, 99)));
        assert!(!auto.admits(waiting(263, 0)), "too much");
        assert!(!auto.admits(waiting(1, 100)), "too old");
        let given = limits(Some(10_000));
        assert!(given.admits(waiting(9, 99)) && !given.admits(waiting(10, 0)));
    }

    #[test]
    fn the_end_of_a_long_message_leaves_soon_however_old_it_is() {
        let auto = limits(None);
        assert!(auto.admits_behind_parts(waiting(200, 400), outlet(20, 0)));
        assert!(!auto.admits_behind_parts(waiting(200, 400), outlet(15, 0)), "107 ms");
        assert!(!auto.admits_behind_parts(waiting(250, 400), outlet(20, 0)), "100 ms");
        assert!(!auto.admits_behind_parts(waiting(200, 400), outlet(20, 1)), "nothing leaves");
        assert!(!limits(Some(200_000)).admits_behind_parts(waiting(200, 400), outlet(20, 0)));
    }

    #[test]
    fn the_rest_of_a_message_may_take_a_second() {
        let auto = limits(None);
        assert!(auto.admits_rest(waiting(12_499, 400), outlet(100, 0)));
        assert!(!auto.admits_rest(waiting(12_500, 0), outlet(100, 0)));
        assert!(auto.admits_rest(waiting(262, 9_000), outlet(1, 0)), "as what begins");
        assert!(!auto.admits_rest(waiting(263, 0), outlet(1, 0)));
        let full = Outlet { queued_bytes: 32 << 20, ..outlet(100, 0) };
        assert!(!auto.admits_rest(waiting(1, 0), full), "all lanes together");
        let given = limits(Some(100_000));
        assert!(given.admits_rest(waiting(99, 0), outlet(1, 0)));
        assert!(!given.admits_rest(waiting(100, 0), outlet(100, 0)));
    }

    #[test]
    fn silence_lets_in_one_now_and_then() {
        let (auto, waits) = (limits(None), waiting(10, 5_000));
        assert!(auto.admits_in_silence(waits, outlet(1, 1_500), 1_500 * MS));
        assert!(!auto.admits_in_silence(waits, outlet(1, 1_499), 1_500 * MS));
        assert!(!auto.admits_in_silence(waits, outlet(1, 1_500), 1_499 * MS));
        assert!(!auto.admits_in_silence(waiting(263, 0), outlet(1, 1_500), 1_500 * MS));
    }
}
