// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Figures as people read them: three digits and a unit.

use std::{fmt, time::Duration};

/// A number of bytes in powers of 1,000: `0 B`, `999 B`, `1.5 kB`, `12.3 MB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            bytes @ 0..1_000 => format!("{bytes} B"),
            bytes => {
                let mut scaled = bytes as f64 / 1e3;
                let mut units = ["kB", "MB", "GB", "TB", "PB", "EB"].into_iter();
                // Rounded to one digit it would read 1000.0.
                while scaled >= 999.95 && units.len() > 1 {
                    scaled /= 1e3;
                    units.next();
                }
                format!("{scaled:.1} {}", units.next().unwrap_or_default())
            }
        };
        f.pad(&text)
    }
}

/// A time: `0.05 ms`, `20.1 ms`, `12.3 s`, `2 h 05 min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ms, minutes) = (self.0.as_secs_f64() * 1e3, self.0.as_secs() / 60);
        let text = match self.0.as_secs() {
            0 if self.0.is_zero() => "0 ms".to_owned(),
            0 if ms < 9.995 => format!("{ms:.2} ms"),
            0..10 => format!("{ms:.1} ms"),
            10..600 => format!("{:.1} s", ms / 1e3),
            _ if minutes < 60 => format!("{minutes} min"),
            _ => format!("{} h {:02} min", minutes / 60, minutes % 60),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_at_most_four_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (65_536, "65.5 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (12_345_678, "12.3 MB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
        assert_eq!(format!("{:>8}", Bytes(7)), "     7 B");
    }

    #[test]
    fn times_have_a_unit_that_fits() {
        for (us, text) in [
            (0, "0 ms"),
            (47, "0.05 ms"),
            (9_994, "9.99 ms"),
            (9_996, "10.0 ms"),
            (20_130, "20.1 ms"),
            (1_500_000, "1500.0 ms"),
            (12_340_000, "12.3 s"),
            (600_000_000, "10 min"),
            (7_500_000_000, "2 h 05 min"),
        ] {
            assert_eq!(Time(Duration::from_micros(us)).to_string(), text);
        }
    }
}
