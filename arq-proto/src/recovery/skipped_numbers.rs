// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which packet numbers are never sent? A peer that acknowledges what it has not seen, to be sent more, gives itself away
//! with one of them (RFC 9000 §21.4).

use std::collections::VecDeque;

use rand_core::RngCore;

use crate::units::PacketNumber;

/// The first one comes after 64 to 127 packets, the next after twice as many, and so on until the distance stays: who
/// invents acknowledgements is caught after some thousand packets, however old the connection is.
const FIRST_DISTANCE: u64 = 64;
const MAX_DISTANCE: u64 = 4_096;
/// Of an honest peer no acknowledgement is so old that it names one further back.
const MAX_REMEMBERED: usize = 64;

/// The packet numbers that are skipped.
#[derive(Debug)]
pub(crate) struct SkippedNumbers {
    next: PacketNumber,
    distance: u64,
    /// The last ones, the oldest first.
    past: VecDeque<u64>,
}

impl SkippedNumbers {
    /// Draws the first one.
    pub(crate) fn new(rng: &mut impl RngCore) -> Self {
        let first = FIRST_DISTANCE + rng.next_u64() % FIRST_DISTANCE;
        Self { next: PacketNumber(first), distance: FIRST_DISTANCE, past: VecDeque::new() }
    }

    /// Whether `number` is to be skipped; if so, draws the next one.
    pub(crate) fn take(&mut self, number: PacketNumber, rng: &mut impl RngCore) -> bool {
        if number != self.next {
            return false;
        }
        if self.past.len() == MAX_REMEMBERED {
            self.past.pop_front();
        }
        self.past.push_back(number.0);
        self.distance = (2 * self.distance).min(MAX_DISTANCE);
        self.next.0 += self.distance + rng.next_u64() % self.distance;
        true
    }

    /// Whether a number from `start` to `end` was skipped.
    pub(crate) fn includes_any(&self, start: u64, end: u64) -> bool {
        let first = self.past.partition_point(|&number| number < start);
        self.past.get(first).is_some_and(|&number| number <= end)
    }
}
