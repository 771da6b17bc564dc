// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! HyStart++ (RFC 9406): leaves slow start when the round-trip time rises, before packets are lost.

use std::time::Duration;

use super::AckSample;
use crate::units::PacketNumber;

/// RFC 9406 §4.3.
const MIN_RTT_THRESHOLD: Duration = Duration::from_millis(4);
const MAX_RTT_THRESHOLD: Duration = Duration::from_millis(16);
const SAMPLES_PER_ROUND: u32 = 8;
const CSS_ROUNDS: u32 = 5;
/// Growth in conservative slow start is a quarter of that in slow start.
const CSS_GROWTH_DIVISOR: u64 = 4;

/// Which part of slow start a connection is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlowStartPhase {
    SlowStart,
    /// The round trip had risen above what it was before; if it falls below again, that was noise.
    Conservative {
        baseline: Duration,
        rounds_left: u32,
    },
    Done,
}

/// The state of HyStart++.
#[derive(Debug, Clone, Copy)]
pub(super) struct HyStart {
    phase: SlowStartPhase,
    last_round_min: Option<Duration>,
    round_min: Option<Duration>,
    samples: u32,
    round_end: PacketNumber,
    newest_sent: PacketNumber,
}

impl HyStart {
    pub(super) const fn new() -> Self {
        Self {
            phase: SlowStartPhase::SlowStart,
            last_round_min: None,
            round_min: None,
            samples: 0,
            round_end: PacketNumber(0),
            newest_sent: PacketNumber(0),
        }
    }

    pub(super) fn on_sent(&mut self, number: PacketNumber) {
        self.newest_sent = number;
    }

    /// By how much to divide the growth of slow start, or `None` after it. It ends at `threshold`, once that is known.
    pub(super) fn slow_start<T: PartialOrd + Copy>(
        &mut self,
        window: T,
        threshold: &mut Option<T>,
        sample: &AckSample,
    ) -> Option<u64> {
        // HyStart++ is for the first slow start alone (RFC 9406 §4.3): the next one knows where to end.
        if let Some(threshold) = *threshold {
            return (window < threshold).then_some(1);
        }
        let divisor = self.on_ack(sample.largest, sample.rtt.map(|rtt| rtt.least));
        if divisor.is_none() {
            *threshold = Some(window);
        }
        divisor
    }

    /// Takes an acknowledgement and its round-trip sample, if it gave one; returns by how much to divide the growth of slow start, or `None`
    /// when slow start is over.
    fn on_ack(&mut self, largest: PacketNumber, rtt: Option<Duration>) -> Option<u64> {
        if let Some(rtt) = rtt {
            self.samples += 1;
            self.round_min = Some(self.round_min.map_or(rtt, |min| min.min(rtt)));
            self.look_for_queue();
        }
        if largest >= self.round_end {
            self.start_round();
        }
        match self.phase {
            SlowStartPhase::SlowStart => Some(1),
            SlowStartPhase::Conservative { .. } => Some(CSS_GROWTH_DIVISOR),
            SlowStartPhase::Done => None,
        }
    }

    fn look_for_queue(&mut self) {
        let (Some(round_min), true) = (self.round_min, self.samples >= SAMPLES_PER_ROUND) else {
            return;
        };
        match self.phase {
            SlowStartPhase::SlowStart => {
                let Some(last) = self.last_round_min else { return };
                let threshold = (last / 8).clamp(MIN_RTT_THRESHOLD, MAX_RTT_THRESHOLD);
                if round_min >= last + threshold {
                    self.phase = SlowStartPhase::Conservative {
                        baseline: round_min,
                        rounds_left: CSS_ROUNDS,
                    };
                }
            }
            SlowStartPhase::Conservative { baseline, .. } if round_min < baseline => {
                self.phase = SlowStartPhase::SlowStart;
            }
            SlowStartPhase::Conservative { .. } | SlowStartPhase::Done => {}
        }
    }

    fn start_round(&mut self) {
        self.round_end = self.newest_sent.next();
        self.last_round_min = self.round_min.take().or(self.last_round_min);
        self.samples = 0;
        if let SlowStartPhase::Conservative { rounds_left, .. } = &mut self.phase {
            *rounds_left = rounds_left.saturating_sub(1);
            if *rounds_left == 0 {
                self.phase = SlowStartPhase::Done;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Rounds of ten packets, each with the given round-trip time; returns the divisor after each.
    fn run(rtts_ms: &[u32]) -> Vec<Option<u64>> {
        let mut hystart = HyStart::new();
        let mut number = PacketNumber(0);
        rtts_ms
            .iter()
            .map(|&rtt| {
                let first = number;
                for _ in 0..10 {
                    hystart.on_sent(number);
                    number = number.next();
                }
                (first.0..number.0).map(|n| hystart.on_ack(PacketNumber(n), Some(rtt * MS))).last()
            })
            .map(Option::flatten)
            .collect()
    }

    #[test]
    fn a_rising_round_trip_ends_slow_start_after_five_rounds() {
        let divisors = run(&[20, 20, 30, 31, 32, 33, 34, 35]);
        assert_eq!(divisors[1], Some(1));
        assert_eq!(divisors[2], Some(CSS_GROWTH_DIVISOR));
        assert_eq!(divisors[7], None);
    }

    #[test]
    fn a_single_bump_does_not() {
        let divisors = run(&[20, 20, 30, 20, 20, 20, 20, 20, 20, 20]);
        assert_eq!(divisors[2], Some(CSS_GROWTH_DIVISOR));
        assert_eq!(divisors[9], Some(1));
    }
}
