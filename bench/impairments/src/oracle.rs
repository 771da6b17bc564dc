// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! When could a message arrive at the earliest?
//!
//! Whoever knew all fades and opportunities of a run, and had the path alone, would send each packet of a message at the
//! first moment from which it passes. No protocol over one path is faster.

use std::time::Duration;

use crate::{
    rate::{Opportunities, Rate, OPPORTUNITY_BYTES},
    DelayTrace, Fades,
};

/// One direction, as the oracle sees it.
#[derive(Clone, Debug)]
pub struct Path {
    /// The bottleneck, if there is one.
    pub rate: Option<Rate>,
    /// The fades of the run.
    pub fades: Option<Fades>,
    /// What comes behind.
    pub delay: DelayTrace,
    /// What a packet carries of a message at most, bytes.
    pub payload_bytes: u32,
    /// What the rate counts beside that for each packet, bytes.
    pub header_bytes: u32,
}

impl Path {
    /// The earliest arrival of a message of `bytes` (at least 1) that is handed over at `sent`.
    pub fn earliest_arrival(&mut self, sent: Duration, bytes: u32) -> Duration {
        let packets = bytes.max(1).div_ceil(self.payload_bytes.max(1));
        let on_wire = u64::from(bytes) + u64::from(packets) * u64::from(self.header_bytes);
        let left = match self.rate.take() {
            Some(Rate::Opportunities(opportunities)) => {
                let left = self.use_opportunities(&opportunities, sent, on_wire);
                self.rate = Some(Rate::Opportunities(opportunities));
                left
            }
            rate => {
                self.rate = rate;
                let each = on_wire as f64 * 8.0 / f64::from(packets);
                (0..packets).fold(sent, |at, _| self.packet(at, each))
            }
        };
        self.delay.earliest_arrival(left)
    }

    /// When packets that may begin at `start` have used enough opportunities outside of fades.
    fn use_opportunities(
        &mut self,
        all: &Opportunities,
        start: Duration,
        mut left: u64,
    ) -> Duration {
        let mut index = all.index_from(start);
        loop {
            let at = all.at(index);
            if self.fade_end(at).is_none() {
                left = left.saturating_sub(OPPORTUNITY_BYTES.into());
            }
            if left == 0 {
                return at;
            }
            index += 1;
        }
    }

    /// When a packet that may begin at `start` has left: one that would do so in a fade is timed to leave at its end.
    fn packet(&mut self, start: Duration, bits: f64) -> Duration {
        let done = match &self.rate {
            Some(Rate::Fixed { bps, burst_bytes: 0 }) => {
                start + Duration::from_secs_f64(bits / bps)
            }
            Some(Rate::Trace(trace)) => trace.finish(start, bits),
            // A full bucket delays nothing.
            None | Some(Rate::Fixed { .. } | Rate::Opportunities(_)) => start,
        };
        self.fade_end(done).unwrap_or(done)
    }

    /// The end of the fade at `at`, if it loses everything.
    fn fade_end(&mut self, at: Duration) -> Option<Duration> {
        let fades = self.fades.as_mut().filter(|fades| fades.loses_all())?;
        fades.at(at).map(|fade| fade.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FadeConfig, RateTrace};

    const MS: Duration = Duration::from_millis(1);

    fn path(rate: Rate) -> Path {
        let (payload_bytes, header_bytes) = (1_000, 250);
        Path {
            rate: Some(rate),
            fades: None,
            delay: DelayTrace::constant(20 * MS),
            payload_bytes,
            header_bytes,
        }
    }

    #[test]
    fn an_idle_path_takes_the_time_of_the_bytes() {
        let mut fixed = path(Rate::fixed(1e6));
        assert_eq!(fixed.earliest_arrival(5 * MS, 2_000), 45 * MS);
        let trace = RateTrace::new(10 * MS, [1e6, 0.0], Duration::ZERO).unwrap();
        assert_eq!(path(Rate::Trace(trace)).earliest_arrival(5 * MS, 1_000), 45 * MS);
        let none = Path { rate: None, ..fixed };
        assert_eq!(none.clone().earliest_arrival(5 * MS, 2_000), 25 * MS);
    }

    #[test]
    fn a_message_waits_for_as_many_opportunities_as_it_needs() {
        let trace = Opportunities::new([4, 8, 8, 30], 0).unwrap();
        let mut path = path(Rate::Opportunities(trace));
        assert_eq!(path.earliest_arrival(5 * MS, 200), 28 * MS);
        assert_eq!(path.earliest_arrival(5 * MS, 2_000), 28 * MS, "2,500 bytes in two");
        assert_eq!(path.earliest_arrival(9 * MS, 200), 50 * MS);
        assert_eq!(path.earliest_arrival(5 * MS, 2_600), 50 * MS);
    }

    #[test]
    fn a_fade_is_waited_for_and_no_longer() {
        let config =
            FadeConfig { share: 0.1, mean: 100 * MS, is_regular: true, lost: 1.0, seed: 3 };
        let mut fades = Fades::new(config, 1);
        let fade = (0..2_000).find_map(|ms| fades.at(ms * MS)).unwrap();
        let mut path = Path { fades: Some(fades), ..path(Rate::fixed(1e6)) };
        let sent = fade.start + 10 * MS;
        assert_eq!(path.earliest_arrival(sent, 200), fade.end + 20 * MS);
        assert_eq!(path.earliest_arrival(fade.end, 1_000), fade.end + 30 * MS);
    }
}
