// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which size is asked about next, and when is the answer known? (RFC 8899 §5.3)
//!
//! The largest first: it is often right, and then one probe was enough. After that the middle between
//! what passes and the least size that was lost. A lost probe alone proves nothing on a path that
//! loses anyway, so it only directs the search; what ends it is the next size up, lost so often that
//! chance does not explain it.

use smallvec::SmallVec;

use super::ladder;
use crate::{chance::losses_beyond_chance, units::Probability};

/// The accepted chance that random loss makes a path look smaller than it is.
const FALSE_LIMIT: f64 = 1e-4;
/// `MAX_PROBES` of RFC 8899 §5.1.2: the least number, on a path that loses nothing.
const LEAST_PROBES: u32 = 3;
/// At the largest loss that is estimated, one half.
const MOST_PROBES: u32 = 14;
/// Bytes of probes in one search, in largest sizes: with more the search ends with what it has found.
const BUDGET: u32 = 16;

/// How many probes of a size must be lost before it is taken for too large.
pub(super) fn probes_needed(loss: Probability) -> u32 {
    losses_beyond_chance(loss.as_f64(), FALSE_LIMIT, LEAST_PROBES..=MOST_PROBES)
}

/// A search under way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Search {
    /// Sizes of which probes were lost, and how many.
    lost: SmallVec<[(u16, u8); 4]>,
    bytes: u32,
}

impl Search {
    /// One that has used up its budget.
    pub(super) fn over() -> Self {
        Self { bytes: u32::MAX, ..Self::default() }
    }

    /// The next size to ask about, above `low` which passes; `None` when the search is over.
    pub(super) fn next(&self, low: u16, ceiling: u16, loss: Probability) -> Option<u16> {
        if low >= ceiling || self.bytes >= BUDGET * u32::from(ceiling) {
            return None;
        }
        let suspects = self.lost.iter().filter(|(size, _)| *size > low);
        let Some(&(suspect, lost)) = suspects.min_by_key(|(size, _)| *size) else {
            return Some(ceiling);
        };
        let below: SmallVec<[u16; 24]> =
            ladder::between(low, suspect).filter(|&size| size < suspect).collect();
        match below.get(below.len() / 2) {
            Some(&middle) => Some(middle),
            None => (u32::from(lost) < probes_needed(loss)).then_some(suspect),
        }
    }

    pub(super) fn on_sent(&mut self, size: u16) {
        self.bytes = self.bytes.saturating_add(size.into());
    }

    pub(super) fn on_lost(&mut self, size: u16) {
        match self.lost.iter_mut().find(|(other, _)| *other == size) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => self.lost.push((size, 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(percent: u32) -> Probability {
        Probability::from_ppm(percent * 10_000)
    }

    // ARQ-MTU-3
    #[test]
    fn random_loss_asks_for_more_probes() {
        let by_loss = [0, 1, 5, 10, 25, 50].map(|loss| probes_needed(percent(loss)));
        assert_eq!(by_loss, [3, 3, 4, 4, 7, 14]);
    }

    /// Searches a path that carries `path` bytes and loses nothing else; the sizes asked about.
    fn asked(path: u16, ceiling: u16) -> (u16, Vec<u16>) {
        let (mut search, mut low, mut asked) = (Search::default(), 1_200, Vec::new());
        while let Some(size) = search.next(low, ceiling, percent(1)) {
            asked.push(size);
            search.on_sent(size);
            if size <= path {
                low = size;
            } else {
                search.on_lost(size);
            }
        }
        (low, asked)
    }

    // ARQ-MTU-2, ARQ-MTU-3
    #[test]
    fn every_path_is_found_within_the_budget() {
        assert_eq!(asked(1_452, 1_452), (1_452, vec![1_452]));
        let ethernet = vec![8_972, 1_464, 7_952, 4_052, 2_276, 1_472, 2_276, 2_276];
        assert_eq!(asked(1_472, 8_972), (1_472, ethernet));
        for ceiling in [1_300, 1_472, 8_972, 65_507] {
            for path in ladder::between(1_199, ceiling) {
                let (found, asked) = asked(path, ceiling);
                assert_eq!(found, path, "of {ceiling}");
                assert!(asked.len() <= 12, "{path} of {ceiling}: {asked:?}");
                let bytes: u32 = asked.iter().map(|&size| u32::from(size)).sum();
                assert!(bytes <= 7 * u32::from(ceiling), "{path} of {ceiling}: {bytes} bytes");
            }
        }
    }

    // ARQ-MTU-3
    #[test]
    fn a_search_that_never_succeeds_ends_with_its_budget() {
        let mut search = Search::default();
        let mut bytes = 0;
        while let Some(size) = search.next(1_200, 1_452, Probability::from_ppm(1_000_000)) {
            search.on_sent(size);
            bytes += u32::from(size);
        }
        assert!(bytes <= (BUDGET + 1) * 1_452, "{bytes}");
    }
}
