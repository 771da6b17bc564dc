// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The tuner against channels with bit errors and without.

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use super::*;

const MESSAGE_BYTES: usize = 14_000;

/// A channel, and messages that are cut as the tuner says and repeated until they have arrived.
struct Run {
    tuner: ChunkTuner,
    largest: usize,
    rng: ChaCha8Rng,
    wire_bytes: f64,
    message_bytes: f64,
}

impl Run {
    fn new(largest: usize, seed: u64) -> Self {
        Self {
            tuner: ChunkTuner::default(),
            largest,
            rng: ChaCha8Rng::seed_from_u64(seed),
            wire_bytes: 0.0,
            message_bytes: 0.0,
        }
    }

    fn messages(&mut self, count: usize, bit_errors: f64, loss: f64) {
        for _ in 0..count {
            let chunk = self.tuner.chunk_bytes(self.largest);
            assert!((512..=self.largest).contains(&chunk), "{chunk}");
            let mut left = MESSAGE_BYTES.div_ceil(chunk);
            self.tuner.on_chunk(Symbol::Source(0), chunk);
            let wire = chunk + OVERHEAD_BYTES;
            let survives = (1.0 - loss) * (-8.0 * bit_errors * wire as f64).exp();
            while left > 0 {
                self.wire_bytes += wire as f64;
                let lost = self.rng.next_u32() as f64 / f64::from(u32::MAX) >= survives;
                self.tuner.on_settled(wire as u32 - BELOW_BYTES, lost);
                left -= usize::from(!lost);
                self.tuner.decide(self.largest, 1.0);
            }
            self.message_bytes += MESSAGE_BYTES as f64;
        }
    }

    fn cost(&self) -> f64 {
        self.wire_bytes / self.message_bytes
    }
}

// ARQ-CHK-1
#[test]
fn loss_that_does_not_depend_on_size_changes_nothing() {
    for loss in [0.0, 0.01, 0.1, 0.25, 0.4] {
        for largest in [1_160, 1_430, 8_930] {
            for seed in 0..10 {
                let mut run = Run::new(largest, seed);
                run.messages(2_000, 0.0, loss);
                let size = run.tuner.chosen;
                assert_eq!(size, None, "loss {loss}, largest {largest}, seed {seed}");
                let always_largest = (largest + OVERHEAD_BYTES) as f64 / largest as f64
                    * (MESSAGE_BYTES.div_ceil(largest) * largest) as f64
                    / MESSAGE_BYTES as f64
                    / (1.0 - loss);
                let extra = run.cost() / always_largest;
                assert!(extra < 1.04, "loss {loss}, largest {largest}, seed {seed}: {extra}");
            }
        }
    }
}

// ARQ-CHK-2, ARQ-CHK-3
#[test]
fn bit_errors_lower_the_size_and_their_end_raises_it() {
    for (bit_errors, loss, sizes) in
        [(1e-4, 0.0, 512..641), (3e-5, 0.0, 512..801), (3e-5, 0.1, 512..801)]
    {
        for seed in 0..10 {
            let mut run = Run::new(1_430, seed);
            run.messages(600, bit_errors, loss);
            let size = run.tuner.chosen;
            let case = format!("{bit_errors}, {loss}, seed {seed}");
            assert!(size.is_some_and(|size| sizes.contains(&size)), "{case}: {size:?}");
            let (before, wire) = (run.message_bytes, run.wire_bytes);
            run.messages(400, bit_errors, loss);
            let cost = (run.wire_bytes - wire) / (run.message_bytes - before);
            let fit = Fit { base: -(1.0_f64 - loss).ln(), slope: 8.0 * bit_errors, error: 0.0 };
            let largest = fit.cost(1_430, OVERHEAD_BYTES);
            assert!(cost < 0.97 * largest, "{case}: {cost}, where {largest} is the largest's");
            run.messages(800, 0.0, loss);
            assert_eq!(run.tuner.chosen, None, "{case}: the way back");
        }
    }
}

// ARQ-CHK-3
#[test]
fn few_bit_errors_are_not_worth_a_change() {
    for seed in 0..10 {
        let mut run = Run::new(1_430, seed);
        run.messages(2_000, 1e-6, 0.05);
        assert_eq!((run.tuner.chosen, run.tuner.changes), (None, 0), "seed {seed}");
    }
}

// ARQ-CHK-1
#[test]
fn one_message_in_sixteen_is_tried_where_it_could_pay_and_none_elsewhere() {
    let mut run = Run::new(1_160, 1);
    run.messages(50, 0.0, 0.05);
    assert!(run.tuner.explore.is_none(), "5 % cannot be worth it");
    let mut run = Run::new(1_160, 1);
    run.messages(20, 0.0, 0.3);
    let tried = (0..160).filter(|_| {
        run.tuner.on_chunk(Symbol::Source(0), 1_000);
        run.tuner.chunk_bytes(1_160) < 1_160
    });
    assert_eq!(tried.count(), 10);
}

proptest! {
    /// Whatever is reported: a size within bounds, a state that does not grow, the same for the same.
    // ARQ-CHK-1
    #[test]
    fn any_history_gives_a_size_within_bounds(
        history in prop::collection::vec((1_u32..70_000, any::<bool>(), 1_u8..60), 0..200),
        largest in 512_usize..65_000,
        run in 1.0_f64..100.0,
    ) {
        let mut tuner = ChunkTuner::default();
        for (bytes, lost, times) in history {
            for _ in 0..times {
                tuner.on_settled(bytes, lost);
            }
            tuner.on_chunk(Symbol::Source(0), largest);
            tuner.decide(largest, run);
            let size = tuner.chunk_bytes(largest);
            prop_assert!((512..=largest).contains(&size), "{size}");
            prop_assert_eq!(tuner.chunk_bytes(512), 512);
        }
    }
}
