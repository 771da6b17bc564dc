// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Could a difference between two sets of repeats be chance?
//!
//! The repeats are the sample, never the messages of one run: those depend on each other.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// With more values on a side the exact test takes too long, and the normal distribution is near enough.
const EXACT_UP_TO: usize = 20;

/// The two-sided p-value of the Mann-Whitney U test, with any number of ties; `None` without values. Exact for up to
/// twenty values a side, from the normal distribution for more.
///
/// Neither the shape of the distribution nor how late a lost message was plays a part.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let ranks: Vec<usize> = all.iter().map(|value| twice_the_rank(*value, &all)).collect();
    let p_value = if a.len().max(b.len()) > EXACT_UP_TO { approximately } else { exactly };
    Some(p_value(&ranks, a.len()))
}

/// Of all ways to share the ranks out among two groups, the first of `count`, the part in which the rank sum is at least
/// as far from its mean.
fn exactly(ranks: &[usize], count: usize) -> f64 {
    let sum: usize = ranks[..count].iter().sum();
    let ways = ways_to_sum(ranks, count);
    // Twice the mean of the sum of doubled ranks.
    let centre = 2 * count * (ranks.len() + 1);
    let distance = |sum: usize| (2 * sum).abs_diff(centre);
    let extreme = ways.iter().enumerate().filter(|(s, _)| distance(*s) >= distance(sum));
    extreme.map(|(_, ways)| ways).sum::<f64>() / ways.iter().sum::<f64>()
}

/// The same as if the rank sum were normal: its variance is less with ties, and half a rank makes up for its steps.
fn approximately(ranks: &[usize], count: usize) -> f64 {
    let (all, ours) = (ranks.len() as f64, count as f64);
    let sum: usize = ranks[..count].iter().sum();
    let distance = (sum as f64 - ours * (all + 1.0)).abs() / 2.0 - 0.5;
    if distance <= 0.0 {
        return 1.0;
    }
    let tied = |rank: &usize| ranks.iter().filter(|other| *other == rank).count() as f64;
    // Over all groups of t equal values, t^3 - t.
    let ties: f64 = ranks.iter().map(|rank| tied(rank).powi(2) - 1.0).sum();
    let variance = ours * (all - ours) / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    (2.0 * Normal::standard().cdf(-distance / variance.sqrt())).min(1.0)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Both tests of the same values, 20 a side.
    fn both(value: impl Fn(usize) -> f64, shift: f64) -> (f64, f64) {
        let a: Vec<f64> = (0..20).map(&value).collect();
        let all: Vec<f64> = a.iter().copied().chain(a.iter().map(|a| a + shift)).collect();
        let ranks: Vec<usize> = all.iter().map(|value| twice_the_rank(*value, &all)).collect();
        (exactly(&ranks, a.len()), approximately(&ranks, a.len()))
    }

    #[test]
    fn where_the_exact_test_ends_the_approximation_agrees() {
        let apart = |i: usize| i as f64;
        let tied = |i: usize| (i / 3) as f64;
        for (exact, near) in [both(apart, 1.5), both(apart, 3.5), both(tied, 1.0)] {
            assert!(exact > 0.05 && (0.95..1.05).contains(&(near / exact)), "{exact} {near}");
        }
        // Far out it is on the side of caution.
        let (exact, near) = both(apart, 5.5);
        assert!(exact < 0.01 && (1.0..1.15).contains(&(near / exact)), "{exact} {near}");
        assert_eq!(both(|_| 2.0, 0.0), (1.0, 1.0));
    }

    #[test]
    fn hundreds_of_repeats_are_tested_at_once() {
        let ascending: Vec<f64> = (0..1_000).map(f64::from).collect();
        let later: Vec<f64> = ascending.iter().map(|value| value + 300.0).collect();
        assert!(mann_whitney(&ascending, &later).unwrap() < 1e-6);
        assert_eq!(mann_whitney(&ascending, &ascending), Some(1.0));
        let lost = [f64::INFINITY; 21];
        assert_eq!(mann_whitney(&lost, &lost), Some(1.0));
    }
}
