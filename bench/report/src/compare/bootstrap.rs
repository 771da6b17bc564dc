// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How sure is a ratio of two medians?
//!
//! The repeats are drawn anew, with replacement, again and again; the middle 95 % of the ratios are the interval. It
//! is as good as its few repeats are: an impression of the spread beside the test, never the test itself.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::summary::Spread;

const DRAWS: usize = 1_000;
/// The same repeats give the same interval.
const SEED: u64 = 1;

/// The interval of b / a; `None` with fewer than two repeats a side and where a lost or zero figure leaves no ratio.
pub(super) fn ratio_of_medians(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    let is_plain =
        |values: &[f64]| values.len() > 1 && values.iter().all(|v| v.is_finite() && *v > 0.0);
    if !is_plain(a) || !is_plain(b) {
        return None;
    }
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut median_again = |values: &[f64]| {
        let drawn = values.iter().map(|_| values[random.next_u32() as usize % values.len()]);
        Spread::of(drawn.collect()).map(|spread| spread.median())
    };
    let mut ratios: Vec<f64> =
        (0..DRAWS).filter_map(|_| Some(median_again(b)? / median_again(a)?)).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios[(share * (DRAWS - 1) as f64).round() as usize];
    Some((at(0.025), at(0.975)))
}
