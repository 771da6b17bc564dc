// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does loss grow with the size of packets, and how much?
//!
//! A packet of `x` bytes on the wire survives bit errors with probability `exp(-b x)`, and other losses with one that does not
//! depend on its size: `-ln(1 - p) = a + b x`. This line is fitted to the loss of each size by least squares, weighted by the
//! number of packets.

use super::counts::Counts;

/// A size with fewer packets is ignored.
const LEAST_PACKETS: f64 = 30.0;

/// Loss by size, with the standard error of the slope.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fit {
    /// What does not depend on size, at least 0.
    pub(super) base: f64,
    /// Per byte, at least 0.
    pub(super) slope: f64,
    pub(super) error: f64,
}

impl Fit {
    /// `None` while only one size is known. Losses in bursts, `burst` times as long as by chance, count as that many times
    /// fewer observations.
    pub(super) fn of(counts: &Counts, burst: f64) -> Option<Self> {
        // Weighted by the overall loss, as if size did not matter: a few packets without a loss are no strong
        // evidence.
        let (loss, _) = counts.overall()?;
        let weight_each = (1.0 - loss) / loss.max(2e-3) / burst.max(1.0);
        let points: Vec<Point> = counts
            .sizes()
            .filter(|size| size.packets >= LEAST_PACKETS)
            .map(|size| {
                let loss = (size.lost + 0.5) / (size.packets + 1.0);
                let weight = size.packets * weight_each;
                Point { x: size.mean_bytes, y: -(1.0 - loss.min(0.95)).ln(), weight }
            })
            .collect();
        let sum = |of: &dyn Fn(&Point) -> f64| points.iter().map(|p| p.weight * of(p)).sum::<f64>();
        let weight = sum(&|_| 1.0);
        let (x, y) = (sum(&|p| p.x) / weight, sum(&|p| p.y) / weight);
        let spread = sum(&|p| (p.x - x) * (p.x - x));
        if points.len() < 2 || spread <= 0.0 {
            return None;
        }
        let slope = (sum(&|p| (p.x - x) * (p.y - y)) / spread).max(0.0);
        Some(Self { base: (y - slope * x).max(0.0), slope, error: spread.sqrt().recip() })
    }

    /// The steepest slope that the fit does not rule out; without a fit all loss is due to size.
    pub(super) fn at_worst(counts: &Counts, fit: Option<Self>) -> Option<Self> {
        let (loss, bytes) = counts.overall()?;
        let y = -(1.0 - loss.min(0.95)).ln();
        let pure = y / bytes;
        let slope = fit.map_or(pure, |fit| pure.min(fit.slope + 2.0 * fit.error));
        Some(Self { base: (y - slope * bytes).max(0.0), slope, error: 0.0 })
    }

    /// Bytes on the wire per byte of message that arrives, in chunks of `chunk` bytes whose packets
    /// have `overhead` more.
    pub(super) fn cost(&self, chunk: usize, overhead: usize) -> f64 {
        let wire = (chunk + overhead) as f64;
        wire / chunk as f64 * (self.base + self.slope * wire).exp()
    }
}

struct Point {
    x: f64,
    y: f64,
    weight: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `packets` of each size, of which as many are lost as a bit error rate and a loss say.
    fn counts(sizes: &[u32], packets: u32, bit_errors: f64, loss: f64) -> Counts {
        let mut counts = Counts::default();
        for &size in sizes {
            let lost = 1.0 - (1.0 - loss) * (-8.0 * bit_errors * f64::from(size)).exp();
            for n in 0..packets {
                let before = (f64::from(n) * lost) as u32;
                counts.add(size, (f64::from(n + 1) * lost) as u32 > before);
            }
        }
        counts
    }

    // ARQ-CHK-2
    #[test]
    fn bit_errors_are_told_from_other_loss() {
        let fit = Fit::of(&counts(&[600, 1_200], 4_000, 3e-5, 0.1), 1.0).unwrap();
        assert!((fit.slope / 2.4e-4 - 1.0).abs() < 0.05, "{fit:?}");
        assert!((fit.base - 0.105).abs() < 0.02 && fit.slope > 5.0 * fit.error, "{fit:?}");
        let fit = Fit::of(&counts(&[600, 1_200], 4_000, 0.0, 0.25), 1.0).unwrap();
        assert!(fit.slope < fit.error, "{fit:?}");
        let bursty = Fit::of(&counts(&[600, 1_200], 4_000, 3e-5, 0.1), 9.0).unwrap();
        assert!((bursty.error / fit.error) > 2.0, "bursts are fewer observations");
        assert_eq!(Fit::of(&counts(&[1_200], 4_000, 3e-5, 0.1), 1.0), None);
        assert_eq!(Fit::of(&Counts::default(), 1.0), None);
    }

    // ARQ-CHK-3
    #[test]
    fn the_best_size_is_that_of_the_closed_form() {
        // s* = -h/2 + sqrt(h^2/4 + h / (8 BER)), for h = 58.
        for (bit_errors, best) in [(3e-6, 1_526), (1e-5, 823), (3e-5, 463)] {
            let fit = Fit { base: 0.2, slope: 8.0 * bit_errors, error: 0.0 };
            let cost = |chunk: &usize| fit.cost(*chunk, 58);
            let found = (300..2_000).min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap();
            assert!(found.abs_diff(best) <= 1, "{bit_errors}: {found}");
        }
    }
}
