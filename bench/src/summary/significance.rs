// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Could a difference between two sets of repeats be chance?
//!
//! The repeats are the sample, never the messages of one run: those depend on each other.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The two-sided p-value of the Mann-Whitney U test, exact for any number of ties; `None` without values.
///
/// Of all ways to share the values out among two groups of these sizes, the part in which the rank sum is at least as
/// far from its mean. Neither the shape of the distribution nor how late a lost message was plays a part.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let ranks: Vec<usize> = all.iter().map(|value| twice_the_rank(*value, &all)).collect();
    let sum: usize = ranks[..a.len()].iter().sum();
    let ways = ways_to_sum(&ranks, a.len());
    // Twice the mean of the sum of doubled ranks.
    let centre = 2 * a.len() * (all.len() + 1);
    let distance = |sum: usize| (2 * sum).abs_diff(centre);
    let extreme = ways.iter().enumerate().filter(|(s, _)| distance(*s) >= distance(sum));
    Some(extreme.map(|(_, ways)| ways).sum::<f64>() / ways.iter().sum::<f64>())
}

/// Equal values share the mean of their ranks; doubled, that is whole.
fn twice_the_rank(value: f64, all: &[f64]) -> usize {
    let below = all.iter().filter(|other| **other < value).count();
    let equal = all.iter().filter(|other| **other == value).count();
    2 * below + equal + 1
}

/// For each sum, in how many ways `count` of the ranks make it.
fn ways_to_sum(ranks: &[usize], count: usize) -> Vec<f64> {
    let most: usize = ranks.iter().sum();
    let mut ways = vec![vec![0.0; most + 1]; count + 1];
    ways[0][0] = 1.0;
    for &rank in ranks {
        for chosen in (1..=count).rev() {
            for sum in (rank..=most).rev() {
                ways[chosen][sum] += ways[chosen - 1][sum - rank];
            }
        }
    }
    ways.swap_remove(count)
}

/// Welch's t-test: whether two means differ, whatever the variances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Welch {
    /// How many standard errors the first mean lies above the second.
    pub t: f64,
    /// Degrees of freedom.
    pub degrees: f64,
    /// Two-sided.
    pub p_value: f64,
}

/// `None` of fewer than two values a side, of infinite ones, and where neither side varies.
pub fn welch(a: &[f64], b: &[f64]) -> Option<Welch> {
    let ((mean_a, error_a), (mean_b, error_b)) =
        (mean_and_squared_error(a)?, mean_and_squared_error(b)?);
    let error = error_a + error_b;
    if error == 0.0 {
        return None;
    }
    let t = (mean_a - mean_b) / error.sqrt();
    let part = |error: f64, values: &[f64]| error * error / (values.len() - 1) as f64;
    let degrees = error * error / (part(error_a, a) + part(error_b, b));
    let distribution = StudentsT::new(0.0, 1.0, degrees).ok()?;
    Some(Welch { t, degrees, p_value: 2.0 * distribution.cdf(-t.abs()) })
}

/// The mean and the square of its standard error.
fn mean_and_squared_error(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    if values.len() < 2 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, squares / (count - 1.0) / count))
}

/// Holm's correction: the same p-values, adjusted so that the chance of even one false alarm among all of them stays
/// below the level that they are held against.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut least: f64 = 0.0;
    for (place, index) in order.into_iter().enumerate() {
        least = least.max(p_values[index] * (p_values.len() - place) as f64).min(1.0);
        adjusted[index] = least;
    }
    adjusted
}
