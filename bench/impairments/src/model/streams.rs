// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which chance decides the fate of the k-th packet?
//!
//! Each direction and each kind of fault has a random stream of its own, and every stream advances once for every
//! packet that enters, whatever becomes of it. So the k-th packet of a direction meets the same chances in every run
//! with the same seed, whatever the timing, and to switch one fault on does not change another.

use rand::Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

/// The streams of one direction.
pub(super) struct Streams {
    loss: ChaCha8Rng,
    bit_error: ChaCha8Rng,
    duplicate: ChaCha8Rng,
    reorder: ChaCha8Rng,
    jitter: ChaCha8Rng,
}

/// The chances of one packet; all but `jitter` are uniform in [0, 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Chances {
    pub(super) loss: f64,
    pub(super) bit_error: f64,
    pub(super) duplicate: f64,
    pub(super) reorder: f64,
    /// Standard normal.
    pub(super) jitter: f64,
}

impl Streams {
    /// The streams of direction number `direction` under `seed`.
    pub(super) fn new(seed: u64, direction: u32) -> Self {
        let stream = |fault: u64| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            random.set_stream(u64::from(direction) << 8 | fault);
            random
        };
        Self {
            loss: stream(0),
            bit_error: stream(1),
            duplicate: stream(2),
            reorder: stream(3),
            jitter: stream(4),
        }
    }

    /// The chances of the next packet.
    pub(super) fn next(&mut self) -> Chances {
        Chances {
            loss: self.loss.gen(),
            bit_error: self.bit_error.gen(),
            duplicate: self.duplicate.gen(),
            reorder: self.reorder.gen(),
            jitter: self.jitter.sample(StandardNormal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_direction_name_one_sequence() {
        let take = |seed, direction| {
            let mut streams = Streams::new(seed, direction);
            (0..100).map(|_| streams.next()).collect::<Vec<_>>()
        };
        assert_eq!(take(7, 1), take(7, 1));
        assert_ne!(take(7, 1), take(8, 1));
        assert_ne!(take(7, 1), take(7, 2));
    }

    #[test]
    fn the_streams_of_one_direction_differ() {
        let chances = Streams::new(7, 1).next();
        let mut uniform =
            [chances.loss, chances.bit_error, chances.duplicate, chances.reorder].map(f64::to_bits);
        uniform.sort_unstable();
        assert!(uniform.windows(2).all(|pair| pair[0] != pair[1]), "{chances:?}");
    }
}
