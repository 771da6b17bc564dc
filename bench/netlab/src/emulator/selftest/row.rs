// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What was asked of the emulator, what did it do, and is that near enough?

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// What is tested.
    pub name: String,
    /// What was asked for.
    pub asked: String,
    /// What was found.
    pub measured: String,
    /// What may be between them.
    pub allowed: String,
    /// Whether it is; `None` when the test could not be made.
    pub passed: Option<bool>,
}

impl Row {
    /// A figure that may differ from what was asked for by `allowed`.
    pub(super) fn near(name: impl Into<String>, unit: &str, found: Near) -> Self {
        let Near { asked, measured, allowed } = found;
        let digits = digits(allowed);
        Self {
            name: name.into(),
            asked: format!("{asked} {unit}"),
            measured: format!("{measured:.digits$} {unit}"),
            allowed: format!("± {allowed:.digits$}"),
            passed: Some((measured - asked).abs() <= allowed),
        }
    }

    /// A figure that must be what was asked for.
    pub(super) fn exact(name: impl Into<String>, asked: u64, measured: u64) -> Self {
        Self {
            name: name.into(),
            asked: asked.to_string(),
            measured: measured.to_string(),
            allowed: "exact".into(),
            passed: Some(asked == measured),
        }
    }

    /// A figure that must reach what was asked for.
    pub(super) fn at_least(name: impl Into<String>, unit: &str, asked: f64, measured: f64) -> Self {
        Self {
            name: name.into(),
            asked: format!("{asked} {unit}"),
            measured: format!("{measured:.0} {unit}"),
            allowed: "at least".into(),
            passed: Some(measured >= asked),
        }
    }

    /// A test that could not be made.
    pub(super) fn skipped(name: impl Into<String>, why: impl Into<String>) -> Self {
        let none = || "-".to_owned();
        Self {
            name: name.into(),
            asked: none(),
            measured: why.into(),
            allowed: none(),
            passed: None,
        }
    }
}

/// The figures of [`Row::near`].
pub(super) struct Near {
    pub(super) asked: f64,
    pub(super) measured: f64,
    pub(super) allowed: f64,
}

/// Enough digits to see what is allowed.
fn digits(allowed: f64) -> usize {
    if allowed >= 10.0 {
        0
    } else if allowed >= 0.1 {
        2
    } else {
        4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_decides() {
        let row = |measured| Row::near("x", "ms", Near { asked: 10.0, measured, allowed: 0.3 });
        assert_eq!(row(10.29).passed, Some(true));
        assert_eq!(row(9.6).passed, Some(false));
        assert_eq!(Row::exact("x", 3, 4).passed, Some(false));
        assert_eq!(Row::at_least("x", "", 3.0, 4.0).passed, Some(true));
    }
}
