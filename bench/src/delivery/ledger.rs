// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How is each arrival noted in bounded time and memory?

use serde::{Deserialize, Serialize};

use super::KEPT_AT_MOST;

/// The width of the bins of [`Ledger::arrived_bytes`].
const BIN_NS: u64 = 100_000_000;
/// No run sends so many messages: a higher number is not one of ours.
const MESSAGES_AT_MOST: u64 = 1 << 32;

/// What came of one flow; written in the order of arrival.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ledger {
    first_ns: Option<u64>,
    /// Messages that came, each counted once.
    pub delivered: u64,
    /// Copies beyond the first.
    pub duplicates: u64,
    /// First copies that came after a message of a higher number.
    pub out_of_order: u64,
    /// Payload per 100 ms from the beginning of the flow.
    pub arrived_bytes: Vec<u64>,
    /// The last arrival.
    pub last_ns: Option<u64>,
    /// The longest time between two arrivals, or from the beginning to the first.
    longest_gap_ns: u64,
    highest: Option<u64>,
    /// Intended departure and arrival.
    pub arrivals: Thinned<(u64, u64)>,
    #[serde(skip)]
    seen: Seen,
}

/// A number that no message of this run has.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("message number {0} was never sent")]
pub struct NotOurs(pub u64);

impl Ledger {
    /// A flow that begins at this time of the monotonic clock; nothing has come.
    pub fn new(first_ns: u64) -> Self {
        Self { first_ns: Some(first_ns), ..Self::default() }
    }

    /// The flow begins at this time. A message that came before anybody said so has told when it was meant to leave,
    /// and that stands.
    pub(crate) fn begin(&mut self, first_ns: u64) {
        self.first_ns.get_or_insert(first_ns);
    }

    /// Notes the arrival of `bytes` of payload.
    pub fn note(
        &mut self,
        sequence: u64,
        intended_ns: u64,
        arrived_ns: u64,
        bytes: usize,
    ) -> Result<(), NotOurs> {
        if sequence >= MESSAGES_AT_MOST {
            return Err(NotOurs(sequence));
        }
        let first_ns = *self.first_ns.get_or_insert(intended_ns);
        let heard_ns = self.last_ns.unwrap_or(first_ns);
        self.longest_gap_ns = self.longest_gap_ns.max(arrived_ns.saturating_sub(heard_ns));
        self.last_ns = Some(arrived_ns.max(heard_ns));
        if !self.seen.insert(sequence) {
            self.duplicates += 1;
            return Ok(());
        }
        self.delivered += 1;
        self.out_of_order += u64::from(self.highest > Some(sequence));
        self.highest = self.highest.max(Some(sequence));
        self.add_bytes(arrived_ns.saturating_sub(first_ns), bytes);
        self.arrivals.push(sequence, (intended_ns, arrived_ns));
        Ok(())
    }

    /// The longest gap between arrivals, counted from the beginning, and to the last departure at least: a link that
    /// falls silent for good is silent until the end.
    pub fn longest_silence_ns(&self, first_ns: u64, last_departure_ns: u64) -> u64 {
        let heard_ns = self.last_ns.unwrap_or(first_ns);
        self.longest_gap_ns.max(last_departure_ns.saturating_sub(heard_ns))
    }

    fn add_bytes(&mut self, after_ns: u64, bytes: usize) {
        let bin = (after_ns / BIN_NS) as usize;
        if self.arrived_bytes.len() <= bin {
            self.arrived_bytes.resize(bin + 1, 0);
        }
        self.arrived_bytes[bin] += bytes as u64;
    }
}

/// Values by message number: all of them, or those of every second, fourth, … message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Thinned<T> {
    every: u64,
    kept: Vec<(u64, T)>,
}

impl<T> Default for Thinned<T> {
    fn default() -> Self {
        Self { every: 1, kept: Vec::new() }
    }
}

impl<T: Copy> Thinned<T> {
    /// Keeps the value, if its number is among those that are kept.
    pub fn push(&mut self, number: u64, value: T) {
        if !number.is_multiple_of(self.every) {
            return;
        }
        if self.kept.len() >= KEPT_AT_MOST {
            self.every *= 2;
            self.kept.retain(|(number, _)| number % self.every == 0);
        }
        if number.is_multiple_of(self.every) {
            self.kept.push((number, value));
        }
    }

    /// Every how many numbers one is kept: a power of two.
    pub fn every(&self) -> u64 {
        self.every
    }

    /// The value of a number; the values must have been pushed in the order of their numbers.
    pub(super) fn get(&self, number: u64) -> Option<&T> {
        let at = self.kept.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        self.kept.get(at).map(|(_, value)| value)
    }

    /// What was pushed last.
    pub(super) fn last(&self) -> Option<&T> {
        self.kept.last().map(|(_, value)| value)
    }

    /// By ascending number.
    pub(super) fn to_sorted(&self) -> Vec<(u64, T)> {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable_by_key(|(number, _)| *number);
        sorted
    }
}

/// Which numbers have come: a bit for each up to the highest.
#[derive(Clone, Debug, Default)]
struct Seen(Vec<u64>);

impl Seen {
    /// Whether it was not there yet.
    fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_and_disorder_are_counted_and_the_first_copy_decides() {
        let mut ledger = Ledger::new(0);
        for (sequence, arrived) in [(0, 1), (2, 2), (1, 3), (0, 90), (3, 91)] {
            ledger.note(sequence, 0, arrived, 10).unwrap();
        }
        assert_eq!((ledger.delivered, ledger.duplicates, ledger.out_of_order), (4, 1, 1));
        assert_eq!(ledger.arrivals.to_sorted()[0], (0, (0, 1)));
        assert_eq!(ledger.arrived_bytes, [40]);
        assert_eq!(ledger.note(1 << 40, 0, 99, 10), Err(NotOurs(1 << 40)));
    }

    #[test]
    fn bytes_are_counted_where_they_arrive() {
        let mut ledger = Ledger::new(1_000);
        ledger.note(0, 0, 1_000 + BIN_NS - 1, 10).unwrap();
        ledger.note(1, 0, 1_000 + BIN_NS, 20).unwrap();
        ledger.note(2, 0, 1_000 + 3 * BIN_NS, 40).unwrap();
        assert_eq!(ledger.arrived_bytes, [10, 20, 0, 40]);
    }

    #[test]
    fn memory_is_bounded_and_what_is_kept_depends_on_numbers_alone() {
        let total = 3 * KEPT_AT_MOST as u64;
        let mut forward = Thinned::default();
        (0..total).for_each(|number| forward.push(number, number));
        let mut backward = Thinned::default();
        (0..total).rev().for_each(|number| backward.push(number, number));
        assert_eq!((forward.every(), forward.to_sorted().len()), (4, total as usize / 4));
        assert_eq!(forward.to_sorted(), backward.to_sorted());
        assert_eq!(forward.get(8), Some(&8));
        assert_eq!(forward.get(9), None);
    }

    #[test]
    fn what_is_told_to_another_process_is_the_same_there() {
        let mut ledger = Ledger::new(5);
        ledger.note(3, 6, 7, 8).unwrap();
        let told: Ledger = serde_json::from_str(&serde_json::to_string(&ledger).unwrap()).unwrap();
        assert_eq!((told.delivered, told.last_ns), (1, Some(7)));
        assert_eq!(told.arrivals.to_sorted(), [(3, (6, 7))]);
    }
}
