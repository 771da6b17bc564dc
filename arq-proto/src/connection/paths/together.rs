// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Do paths fall silent together?
//!
//! Two interfaces may lead over one radio, one modem or one network, as behind a travel router. Nothing tells but that both
//! fall silent at the same time: then the second one is worth nothing.
//!
//! Requirement, numbered as in `docs/protocol.md` §11.3:
//!
//! - **ARQ-MP-12** Where more than half of the last 32 silences, and of ten at least, were of several paths at once, the
//!   application is told.

use crate::units::Probability;

/// Silences that are remembered. One of several paths together is one.
const REMEMBERED: u32 = 32;
/// With fewer nothing is said.
const KNOWN_AFTER: u32 = 10;

/// The last silences of a connection's paths, the latest one in the lowest bit: was another path silent meanwhile?
#[derive(Debug, Default)]
pub(super) struct Together {
    were_common: u32,
    count: u32,
    is_told: bool,
}

impl Together {
    /// A path has fallen silent while so many others were. Tells whether somebody is to know that they do so together; once.
    pub(super) fn on_silence(&mut self, others: usize) -> bool {
        if others == 0 {
            self.were_common <<= 1;
            self.count = (self.count + 1).min(REMEMBERED);
        } else {
            self.were_common |= 1;
        }
        let is_news = self.share() > Probability::from_f64(0.5) && !self.is_told;
        self.is_told |= is_news;
        is_news
    }

    /// The share of silences that was of several paths; none before there were ten.
    pub(super) fn share(&self) -> Probability {
        if self.count < KNOWN_AFTER {
            return Probability::ZERO;
        }
        Probability::from_f64(f64::from(self.were_common.count_ones()) / f64::from(self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ARQ-MP-12
    #[test]
    fn silences_of_several_paths_are_told_of_once() {
        let mut together = Together::default();
        let told = (0..10).filter(|_| together.on_silence(0) | together.on_silence(1)).count();
        assert_eq!((told, together.share()), (1, Probability::ONE));
        // The last 32 count.
        assert!(!(0..15).any(|_| together.on_silence(0)));
        assert_eq!(together.share(), Probability::from_f64(0.4));
        (0..100).for_each(|_| _ = together.on_silence(0));
        assert_eq!(together.share(), Probability::ZERO);
        // A third path makes no difference.
        (0..32).for_each(|_| _ = [0, 1, 2].map(|others| together.on_silence(others)));
        assert_eq!(together.share(), Probability::ONE);
    }
}
