// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What has become of the handshakes that this process's listeners were asked for?

use arq_proto::EndpointStats;
use arq_tokio::{Endpoint, Unopened};

use super::reasons::HANDSHAKES;

/// What a listener has counted so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    seen: EndpointStats,
    unopened: Unopened,
}

impl Tally {
    /// A connection of the listener was accepted.
    pub(crate) fn accepted(&self) {
        HANDSHAKES.add("ok", 1);
    }

    /// Adds what `listener` has counted since the last time.
    pub(crate) fn update(&mut self, listener: &Endpoint) {
        self.add(listener.stats(), listener.unopened());
    }

    fn add(&mut self, stats: EndpointStats, unopened: Unopened) {
        for (name, now, before) in [
            ("cookie", stats.challenges_sent, self.seen.challenges_sent),
            ("refused", stats.refused, self.seen.refused),
            ("tls-failed", unopened.failed, self.unopened.failed),
            ("timeout", unopened.timed_out, self.unopened.timed_out),
        ] {
            HANDSHAKES.add(name, now.saturating_sub(before));
        }
        (self.seen, self.unopened) = (stats, unopened);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(name: &str) -> u64 {
        let counts = HANDSHAKES.read();
        counts.into_iter().find(|(known, _)| *known == name).expect("a result").1
    }

    /// No other test of this process has a listener.
    #[test]
    fn what_a_listener_counts_is_added_once() {
        let (mut tally, mut stats) = (Tally::default(), EndpointStats::default());
        (stats.challenges_sent, stats.refused) = (7, 2);
        let mut unopened = Unopened::default();
        (unopened.failed, unopened.timed_out) = (3, 1);
        tally.add(stats, unopened);
        tally.add(stats, unopened);
        stats.refused = 5;
        tally.add(stats, unopened);
        tally.accepted();
        let names = ["ok", "cookie", "tls-failed", "timeout", "refused"];
        assert_eq!(names.map(count), [1, 7, 3, 1, 5]);
    }
}
