// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Has the path become slower?
//!
//! The estimate is a maximum over many rounds, and a round lasts as long as the queue: a sender that
//! waited until the old rate is forgotten would fill the queue of a radio that fell to a tenth for
//! seconds. A longer path looks the same at first, since it delivers a window less often. But the
//! window grows with the round trip, and that tells them apart: of more in flight a longer path
//! delivers more, a slower one as much as before, later.

use super::{
    rounds::Round,
    tuning::{AS_MUCH, HOLD_BACK_GAIN, PROBE_GAIN},
};
use crate::units::Rate;

/// The last round, if it was slow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slowdown {
    last: Option<Slow>,
}

#[derive(Debug, Clone, Copy)]
struct Slow {
    rate: Rate,
    /// What was sent, in bytes: a round trip before, all that was in flight.
    sent: u64,
}

impl Slowdown {
    /// Takes a round with a queue, which has carried `rate` where `expected` was sent on purpose; `product` is that of
    /// the estimate and the least round trip, in bytes. Returns the rate of the path if it has become slower.
    pub(super) fn on_round(
        &mut self,
        round: &Round,
        rate: Rate,
        expected: Rate,
        product: u64,
    ) -> Option<Rate> {
        let last = self.last.take();
        let sent = round.sent_bytes();
        // Who sends less than the path could carry learns nothing of it.
        let is_slow = sent >= product && rate < expected.mul_f64(HOLD_BACK_GAIN);
        if !is_slow || round.slept {
            return None;
        }
        self.last = Some(Slow { rate, sent });
        let last = last?;
        let is_more_in_flight = sent as f64 >= last.sent as f64 * PROBE_GAIN;
        let is_as_much = rate <= last.rate.mul_f64(AS_MUCH);
        if !is_more_in_flight || !is_as_much {
            return None;
        }
        self.last = None;
        Some(rate.max(last.rate))
    }

    /// A round without a queue: nothing is slow.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Rate = Rate::from_bytes_per_second(12_500_000);
    const PRODUCT: u64 = 250_000;

    /// Rounds of so many bytes, carried at this rate. Returns what the last one tells.
    fn verdict(rounds: &[(u64, u64)]) -> Option<u64> {
        let mut slowdown = Slowdown::default();
        let mut last = None;
        for &(bytes, rate) in rounds {
            let mut round = Round::default();
            round.bytes = bytes;
            let rate = Rate::from_bytes_per_second(rate);
            last = slowdown.on_round(&round, rate, KNOWN, PRODUCT).map(Rate::bytes_per_second);
        }
        last
    }

    // ARQ-CC-6
    #[test]
    fn more_in_flight_tells_a_slower_path_from_a_longer_one() {
        for (rounds, expected) in [
            // A tenth of the rate, whatever is in flight.
            (&[(500_000, 1_250_000), (750_000, 1_250_000)][..], Some(1_250_000)),
            (&[(500_000, 1_300_000), (750_000, 1_250_000)], Some(1_300_000)),
            // Four times as long: the window decides.
            (&[(500_000, 6_250_000), (750_000, 9_300_000)], None),
            // Nothing was tried.
            (&[(500_000, 1_250_000), (510_000, 1_250_000)], None),
            (&[(500_000, 1_250_000)], None),
            // A flow that has joined, and an application that sends little.
            (&[(500_000, 10_000_000), (750_000, 10_000_000)], None),
            (&[(20_000, 1_000_000), (30_000, 1_000_000)], None),
            // In between it was fast.
            (&[(500_000, 1_250_000), (600_000, 12_000_000), (750_000, 1_250_000)], None),
        ] {
            assert_eq!(verdict(rounds), expected, "{rounds:?}");
        }
    }
}
