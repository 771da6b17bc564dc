// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Warnings about peers, at a bounded rate: peers must not fill the log.

use std::time::{Duration, Instant};

/// Shortest time between two lines: a refused peer tries again and again.
const INTERVAL: Duration = Duration::from_secs(60);

/// A warning that is told at once, and then once a minute at most.
#[derive(Debug, Default)]
pub(super) struct Warning {
    told_at: Option<Instant>,
    untold: u64,
}

impl Warning {
    /// Counts a reason to warn. `Some` if it is due: how many before it were not logged.
    pub(super) fn tell(&mut self, now: Instant) -> Option<u64> {
        if self.told_at.is_some_and(|at| now < at + INTERVAL) {
            self.untold += 1;
            return None;
        }
        self.told_at = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_and_then_one_a_minute_with_the_number_of_the_others() {
        let (start, mut warning) = (Instant::now(), Warning::default());
        let told =
            [0, 1, 59, 60, 61, 200, 201].map(|s| warning.tell(start + Duration::from_secs(s)));
        assert_eq!(told, [Some(0), None, None, Some(2), None, Some(1), None]);
    }
}
