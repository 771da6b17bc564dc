// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which packet numbers have arrived: a short list of ranges with a bounded length.

use std::{collections::VecDeque, ops::RangeInclusive};

/// A set of numbers kept as disjoint ranges in ascending order. New numbers mostly extend the last
/// range, so inserting is O(1) there and O(log n) elsewhere (plus moving the ranges behind it).
#[derive(Debug, Clone, Default)]
pub struct RangeSet {
    ranges: VecDeque<(u64, u64)>,
}

impl RangeSet {
    /// Adds a number; `false` when it was there already.
    pub fn insert(&mut self, n: u64) -> bool {
        // The index of the first range that ends at or after n - 1: the one n may touch.
        let at = self.ranges.partition_point(|&(_, end)| end.saturating_add(1) < n);
        match self.ranges.get(at).copied() {
            Some((start, end)) if start <= n && n <= end => return false,
            Some((start, end)) if end + 1 == n => {
                self.ranges[at] = (start, n);
                self.join(at);
            }
            Some((start, end)) if n + 1 == start => self.ranges[at] = (n, end),
            _ => self.ranges.insert(at, (n, n)),
        }
        true
    }

    /// Whether `n` is in the set.
    #[must_use]
    pub fn contains(&self, n: u64) -> bool {
        let at = self.ranges.partition_point(|&(_, end)| end < n);
        self.ranges.get(at).is_some_and(|&(start, _)| start <= n)
    }

    /// Forgets the lowest ranges until at most `most` are left: the newest information is the one
    /// that the peer still needs. Tells the number below which everything is forgotten, if any is.
    pub fn trim(&mut self, most: usize) -> Option<u64> {
        let excess = self.ranges.len().saturating_sub(most);
        let last = self.ranges.drain(..excess).next_back();
        last.map(|(_, end)| end + 1)
    }

    /// Forgets every number below `floor`.
    pub fn remove_below(&mut self, floor: u64) {
        while let Some(front) = self.ranges.front_mut() {
            if front.1 >= floor {
                front.0 = front.0.max(floor);
                break;
            }
            self.ranges.pop_front();
        }
    }

    /// The largest number.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        self.ranges.back().map(|&(_, end)| end)
    }

    /// The ranges, the highest first.
    pub fn iter_descending(&self) -> impl ExactSizeIterator<Item = RangeInclusive<u64>> + '_ {
        self.ranges.iter().rev().map(|&(start, end)| start..=end)
    }

    /// Number of ranges.
    #[must_use]
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    /// Whether nothing is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    fn join(&mut self, at: usize) {
        let Some(&(start, end)) = self.ranges.get(at + 1) else { return };
        if self.ranges[at].1 + 1 == start {
            self.ranges[at].1 = end;
            self.ranges.remove(at + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn numbers(set: &RangeSet) -> BTreeSet<u64> {
        set.iter_descending().flatten().collect()
    }

    // ARQ-NUM-4
    #[test]
    fn the_lowest_range_goes_first_when_full() {
        let mut set = RangeSet::default();
        for n in [1, 5, 9] {
            assert!(set.insert(n));
        }
        assert_eq!(set.trim(3), None);
        assert_eq!(set.trim(2), Some(2));
        assert_eq!(numbers(&set), BTreeSet::from([5, 9]));
    }

    proptest! {
        #[test]
        fn behaves_like_a_set(inserts in prop::collection::vec(0_u64..200, 0..300), floor in 0_u64..220) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            for n in inserts {
                prop_assert_eq!(set.insert(n), model.insert(n));
                prop_assert_eq!(set.max(), model.last().copied());
            }
            prop_assert_eq!(numbers(&set), model.clone());
            set.remove_below(floor);
            model.retain(|&n| n >= floor);
            prop_assert_eq!(numbers(&set), model.clone());
            for n in 0..220 {
                prop_assert_eq!(set.contains(n), model.contains(&n));
            }
            // Ranges are maximal: no two of them touch.
            let ranges: Vec<_> = set.iter_descending().collect();
            for pair in ranges.windows(2) {
                prop_assert!(pair[1].end() + 1 < *pair[0].start());
            }
        }
    }
}
