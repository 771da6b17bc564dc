// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How far do the repeats of a figure lie apart?

use std::fmt;

/// One figure over the repeats of a cell, at least one. Infinite is what was lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Ascending.
    values: Vec<f64>,
}

impl Spread {
    /// From how many repeats on quartiles mean anything.
    const ENOUGH_FOR_QUARTILES: usize = 5;

    /// `None` of no values.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then_some(Self { values })
    }

    /// The figure of each repeat, ascending.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The middle one, or the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Of the best or worst repeat, as the figure has it.
    pub fn min(&self) -> f64 {
        self.values[0]
    }

    /// Of the worst or best repeat, as the figure has it.
    pub fn max(&self) -> f64 {
        self.values[self.values.len() - 1]
    }

    /// The lower and the upper quartile, of five repeats or more.
    pub fn quartiles(&self) -> Option<(f64, f64)> {
        let enough = self.values.len() >= Self::ENOUGH_FOR_QUARTILES;
        enough.then(|| (self.quantile(0.25), self.quantile(0.75)))
    }

    /// Linear between the two nearest values.
    fn quantile(&self, q: f64) -> f64 {
        let place = q * (self.values.len() - 1) as f64;
        let (below, above) = (place.floor() as usize, place.ceil() as usize);
        let (low, high) = (self.values[below], self.values[above]);
        // Two infinite ones have no difference.
        if low == high {
            return low;
        }
        low + (high - low) * (place - below as f64)
    }
}

/// Median and range, if there is one to be seen: `7.50 (7.10 to 8.00)`.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, min, max] = [self.median(), self.min(), self.max()].map(written);
        f.write_str(&median)?;
        if min != max {
            write!(f, " ({min} to {max})")?;
        }
        Ok(())
    }
}

/// A figure with three digits that count.
pub(crate) fn written(value: f64) -> String {
    match value.abs() {
        f64::INFINITY => "lost".to_owned(),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
