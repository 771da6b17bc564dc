// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Where on an axis does a value stand, and which values are written beside it?

use crate::report::units::Unit;

/// How values become places between 0 (left or bottom) and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// Equal steps.
    Linear {
        /// At place 0.
        from: f64,
        /// At place 1.
        to: f64,
    },
    /// Equal ratios; both ends are above 0.
    Log {
        /// At place 0.
        from: f64,
        /// At place 1.
        to: f64,
    },
}

impl Scale {
    /// From 0 to a round value at or above every value.
    pub(crate) fn linear_from_zero(values: impl IntoIterator<Item = f64>) -> Self {
        let top = finite(values).fold(0.0, f64::max);
        let top = if top > 0.0 { top } else { 1.0 };
        Self::Linear { from: 0.0, to: (top / step(top)).ceil() * step(top) }
    }

    /// Round values around all that are above 0; at least `decades` decades, so that noise does not look like a cliff.
    pub(crate) fn log_around(values: impl IntoIterator<Item = f64>, decades: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in finite(values).filter(|value| *value > 0.0) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        let missing = (decades - (high / low).log10()).max(0.0);
        let widen = 10_f64.powf(missing / 2.0);
        Self::Log { from: round_down(low / widen / 1.05), to: round_up(high * widen * 1.05) }
    }

    /// From and to.
    pub(crate) fn ends(&self) -> (f64, f64) {
        let (Self::Linear { from, to } | Self::Log { from, to }) = *self;
        (from, to)
    }

    /// The place of a value; beyond 0 to 1 when it lies outside.
    pub(crate) fn place(&self, value: f64) -> f64 {
        match *self {
            Self::Linear { from, to } => (value - from) / (to - from),
            Self::Log { from, to } => (value.max(from * 1e-3) / from).ln() / (to / from).ln(),
        }
    }

    /// Values to be written beside the axis, at most about eight.
    pub(crate) fn ticks(&self, unit: Unit) -> Vec<Tick> {
        let values = match *self {
            Self::Linear { from, to } => linear_ticks(from, to),
            Self::Log { from, to } => log_ticks(from, to),
        };
        values.into_iter().map(|value| Tick { value, label: unit.tick(value) }).collect()
    }
}

/// A value written beside an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    /// Where.
    pub(crate) value: f64,
    /// What is written.
    pub(crate) label: String,
}

fn finite(values: impl IntoIterator<Item = f64>) -> impl Iterator<Item = f64> {
    values.into_iter().filter(|value| value.is_finite())
}

/// 1, 2 or 5 times a power of ten: a fourth to a tenth of the range.
fn step(range: f64) -> f64 {
    let power = 10_f64.powf((range / 4.0).log10().floor());
    [5.0, 2.0, 1.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step <= range / 4.0)
        .unwrap_or(power)
}

fn linear_ticks(from: f64, to: f64) -> Vec<f64> {
    let step = step(to - from);
    let first = (from / step).ceil() as i64;
    let last = (to / step + 1e-9).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

/// Powers of ten; with 2 and 5 between them while there is room, every second or third power when there is not.
fn log_ticks(from: f64, to: f64) -> Vec<f64> {
    let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let decades = (to / from).log10();
    let factors: &[f64] = if decades <= 2.3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = ((decades / 7.0).ceil() as i32).max(1);
    let powers = (first..=last).filter(|power| power.rem_euclid(every) == 0);
    let values =
        powers.flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)));
    values.filter(|value| *value >= from * 0.999 && *value <= to * 1.001).collect()
}

fn round_down(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|round| *round <= value * 1.000_001)
        .unwrap_or(power)
}

fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|round| *round >= value)
        .unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_round_and_hold_every_value() {
        assert_eq!(
            Scale::linear_from_zero([3.0, 97.0, f64::INFINITY]),
            Scale::Linear { from: 0.0, to: 100.0 }
        );
        assert_eq!(Scale::linear_from_zero([]), Scale::Linear { from: 0.0, to: 1.0 });
        let Scale::Log { from, to } = Scale::log_around([1.2, 4_321.0, f64::INFINITY, 0.0], 1.0)
        else {
            panic!("a logarithmic scale")
        };
        assert!((from - 1.0).abs() < 1e-9 && (to - 5_000.0).abs() < 1e-6, "{from} to {to}");
    }

    #[test]
    fn a_flat_line_still_gets_its_decades() {
        let Scale::Log { from, to } = Scale::log_around([7.0, 7.0], 1.0) else {
            panic!("a logarithmic scale")
        };
        assert!(to / from >= 10.0, "{from} to {to}");
    }

    #[test]
    fn places_run_from_zero_to_one() {
        let log = Scale::Log { from: 1.0, to: 100.0 };
        assert!((log.place(10.0) - 0.5).abs() < 1e-9);
        assert!(log.place(0.0).is_finite(), "zero has no logarithm but must have a place");
        assert!((Scale::Linear { from: 0.0, to: 4.0 }.place(3.0) - 0.75).abs() < 1e-9);
    }

    #[test]
    fn ticks_are_few_and_inside() {
        for (from, to) in [(1.0, 10.0), (0.5, 20_000.0), (1e-5, 1.0), (3.0, 7.0)] {
            let ticks = log_ticks(from, to);
            assert!(ticks.len() <= 8 && !ticks.is_empty(), "{from} to {to}: {ticks:?}");
            assert!(ticks.iter().all(|tick| *tick >= from * 0.999 && *tick <= to * 1.001));
        }
        assert_eq!(linear_ticks(0.0, 100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
    }
}
