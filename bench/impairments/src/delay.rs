// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How long is a packet under way behind the bottleneck?

use std::{fmt, sync::Arc, time::Duration};

/// A delay that changes each `step`; after the last value the first one comes again.
#[derive(Clone, PartialEq, Eq)]
pub struct DelayTrace {
    step: Duration,
    delays: Arc<[Duration]>,
    offset: Duration,
}

/// A recording is long: not all of it is shown.
impl fmt::Debug for DelayTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, step) = (self.delays.len(), self.step);
        write!(f, "DelayTrace({count} steps of {step:?}, from {:?} on)", self.offset)
    }
}

impl DelayTrace {
    /// `delays` holds the delay of each `step`; the run begins at `offset`. `None` if there are no values.
    pub fn new(
        step: Duration,
        delays: impl Into<Arc<[Duration]>>,
        offset: Duration,
    ) -> Option<Self> {
        let delays = delays.into();
        let is_valid = !step.is_zero() && !delays.is_empty();
        is_valid.then_some(Self { step, delays, offset })
    }

    /// Always the same.
    pub fn constant(delay: Duration) -> Self {
        Self { step: Duration::from_secs(1), delays: Arc::new([delay]), offset: Duration::ZERO }
    }

    /// How long the recording is.
    pub fn period(&self) -> Duration {
        // No recording has more steps.
        self.step * self.delays.len() as u32
    }

    /// The same recording from another place on.
    #[must_use]
    pub fn starting_at(&self, offset: Duration) -> Self {
        Self { offset, ..self.clone() }
    }

    /// The earliest arrival of what may begin its way at `at` or later: where the delay falls, who waits may come sooner.
    pub fn earliest_arrival(&self, at: Duration) -> Duration {
        let (mut begin, mut earliest) = (at, at + self.at(at));
        while begin < earliest {
            earliest = earliest.min(begin + self.at(begin));
            let steps = (begin + self.offset).as_nanos() / self.step.as_nanos() + 1;
            let next = (steps * self.step.as_nanos()) as u64;
            begin = Duration::from_nanos(next) - self.offset;
        }
        earliest
    }

    /// The delay of what begins its way at `at`.
    pub fn at(&self, at: Duration) -> Duration {
        let steps = (at + self.offset).as_nanos() / self.step.as_nanos();
        self.delays[(steps % self.delays.len() as u128) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_follows_the_file() {
        const MS: Duration = Duration::from_millis(1);
        let trace = DelayTrace::new(10 * MS, [12 * MS, 60 * MS, 14 * MS], 10 * MS).unwrap();
        let at = [0, 9, 10, 20, 30].map(|ms| trace.at(ms * MS).as_millis());
        assert_eq!(at, [60, 60, 14, 12, 60]);
        let earliest = [0, 3, 9, 10].map(|ms| trace.earliest_arrival(ms * MS).as_millis());
        assert_eq!(earliest, [24, 24, 24, 24], "who waits for the next step comes at 10 + 14 ms");
        assert_eq!(DelayTrace::new(10 * MS, [], MS), None);
        assert_eq!(DelayTrace::constant(MS).at(5 * MS), MS);
    }
}
