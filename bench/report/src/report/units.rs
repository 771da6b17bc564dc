// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How is a figure written for people?

use crate::summary::Spread;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Milliseconds; infinity is a lost message.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Per cent.
    Percent,
    /// 10^6 bits per second.
    MegabitsPerSecond,
    /// Bytes.
    Bytes,
    /// 2^20 bytes.
    Mebibytes,
    /// A share of 1.
    Share,
    /// A pure number.
    Number,
}

impl Unit {
    /// In a sentence or a table cell: three significant digits and the unit.
    pub(crate) fn write(self, value: f64) -> String {
        if !value.is_finite() {
            return if self == Self::Milliseconds { "lost" } else { "none" }.to_owned();
        }
        let text = match self {
            Self::Milliseconds if value.abs() >= 1_000.0 => {
                format!("{} s", digits(value / 1_000.0))
            }
            Self::Milliseconds => format!("{} ms", digits(value)),
            Self::Seconds => format!("{} s", digits(value)),
            Self::Percent => format!("{} %", percent(value)),
            Self::MegabitsPerSecond => format!("{} Mb/s", digits(value)),
            Self::Bytes => bytes(value),
            Self::Mebibytes => format!("{} MiB", digits(value)),
            Self::Share => digits(value),
            Self::Number => digits(value),
        };
        text.replace(' ', NO_BREAK)
    }

    /// Beside an axis, where room is scarce and values are round.
    pub(crate) fn tick(self, value: f64) -> String {
        match self {
            Self::Milliseconds if value != 0.0 && value < 1.0 => {
                format!("{} µs", plain(value * 1_000.0))
            }
            Self::Milliseconds if value >= 1_000.0 => format!("{} s", plain(value / 1_000.0)),
            Self::Milliseconds => format!("{} ms", plain(value)),
            Self::Bytes => bytes(value),
            Self::Seconds
            | Self::MegabitsPerSecond
            | Self::Number
            | Self::Share
            | Self::Mebibytes => plain(value),
            Self::Percent => format!("{} %", plain(value)),
        }
    }

    /// Median and range over repeats: `2.4 ms (2.3–2.9)`; without a range when there is none.
    pub(crate) fn write_spread(self, spread: &Spread) -> String {
        let median = self.write(spread.median());
        match self.write_range(spread) {
            Some(range) => format!("{median} {range}"),
            None => median,
        }
    }

    /// Least and greatest: `(2.3–2.9)`; `None` when they are written alike.
    pub(crate) fn write_range(self, spread: &Spread) -> Option<String> {
        let (low, high) = (self.write(spread.min()), self.write(spread.max()));
        let (number, unit) = low.rsplit_once(NO_BREAK).unwrap_or((&low, ""));
        match high.rsplit_once(NO_BREAK) {
            _ if low == high => None,
            Some((high, other)) if unit == other => Some(format!("({number}–{high})")),
            _ => Some(format!("({low}–{high})")),
        }
    }
}

/// A number and its unit stay on one line.
const NO_BREAK: &str = "\u{a0}";

/// Three significant digits, never in powers of ten; thousands set apart.
pub(crate) fn digits(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 999.5 => thousands(value),
        _ if size >= 99.95 => format!("{value:.0}"),
        _ if size >= 9.995 => format!("{value:.1}"),
        _ if size >= 0.995 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// 100 only when it is really all.
fn percent(value: f64) -> String {
    match value {
        100.0 | 0.0 => format!("{value:.0}"),
        _ if value > 99.99 && value < 100.0 => "> 99.99".to_owned(),
        _ if value > 0.0 && value < 0.01 => "< 0.01".to_owned(),
        _ if (99.0..100.0).contains(&value) => format!("{value:.2}"),
        _ => digits(value),
    }
}

fn thousands(value: f64) -> String {
    let text = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (i, digit) in text.chars().enumerate() {
        if i > 0 && (text.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if value < 0.0 {
        out.insert(0, '-');
    }
    out
}

/// Decimal units, as networks are told.
fn bytes(value: f64) -> String {
    match value {
        _ if value >= 1e9 => format!("{} GB", plain_digits(value / 1e9)),
        _ if value >= 1e6 => format!("{} MB", plain_digits(value / 1e6)),
        _ if value >= 1e3 => format!("{} KB", plain_digits(value / 1e3)),
        _ => format!("{value:.0} B"),
    }
}

/// Round values without zeros behind the point, others with three digits.
fn plain_digits(value: f64) -> String {
    let text = digits(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn plain(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match value.abs() >= 1_000.0 {
        true => thousands(value),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spaced(text: String) -> String {
        text.replace(NO_BREAK, " ")
    }

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let ms = |value| spaced(Unit::Milliseconds.write(value));
        assert_eq!(
            [ms(0.512), ms(2.4567), ms(34.56), ms(657.4)],
            ["0.512 ms", "2.46 ms", "34.6 ms", "657 ms"]
        );
        assert_eq!([ms(2_633.0), ms(22_000.0), ms(f64::INFINITY)], ["2.63 s", "22.0 s", "lost"]);
        assert_eq!(digits(33_523.4), "33,523");
        assert_eq!(spaced(Unit::Bytes.write(10_000.0)), "10 KB");
        assert_eq!(spaced(Unit::Bytes.write(1_448.0)), "1.45 KB");
    }

    #[test]
    fn all_means_all() {
        let percent = |value| spaced(Unit::Percent.write(value));
        assert_eq!(
            [percent(100.0), percent(99.999), percent(99.95)],
            ["100 %", "> 99.99 %", "99.95 %"]
        );
        assert_eq!([percent(0.0), percent(0.001), percent(49.2)], ["0 %", "< 0.01 %", "49.2 %"]);
    }

    #[test]
    fn ticks_are_short() {
        let tick = |value| Unit::Milliseconds.tick(value);
        assert_eq!(
            [tick(0.5), tick(1.0), tick(200.0), tick(10_000.0)],
            ["500 µs", "1 ms", "200 ms", "10 s"]
        );
        assert_eq!(Unit::Share.tick(0.001), "0.001");
    }

    #[test]
    fn a_spread_tells_its_range_and_its_lost_ranks() {
        let written = |values: &[f64]| {
            spaced(Unit::Milliseconds.write_spread(&Spread::of(values.to_vec()).unwrap()))
        };
        assert_eq!(written(&[3.0, f64::INFINITY, 1.0]), "3.00 ms (1.00 ms–lost)");
        assert_eq!(written(&[1.0, 2.0]), "1.50 ms (1.00–2.00)");
        assert_eq!(written(&[1.0, 1.0]), "1.00 ms");
        assert_eq!(written(&[1.0]), "1.00 ms");
    }
}
