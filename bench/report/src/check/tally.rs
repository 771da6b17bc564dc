// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do many cells make one verdict?

use super::{Outcome, Verdict};
use crate::scenario::{self, Scenario};

/// What was found so far about a target.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Share of what is allowed, and the cell in words.
    worst: Option<(f64, String)>,
    missed: Vec<String>,
    missing: Vec<String>,
}

impl Tally {
    /// The figure may not exceed `allowed`. What was lost is beyond any bound, also beyond that of a rival that lost it
    /// too.
    pub(super) fn at_most(&mut self, what: &str, found: f64, allowed: f64) {
        let is_met = found.is_finite() && found <= allowed;
        let words = format!("{what}: {} of at most {}", number(found), number(allowed));
        self.add(is_met, share(found, allowed), words);
    }

    /// The figure may not fall below `wanted`.
    pub(super) fn at_least(&mut self, what: &str, found: f64, wanted: f64) {
        let is_met = wanted.is_finite() && found >= wanted;
        let words = format!("{what}: {} of at least {}", number(found), number(wanted));
        self.add(is_met, share(wanted, found), words);
    }

    /// A run of ours failed, or something else went wrong that no figure tells.
    pub(super) fn is_missed(&mut self, what: impl Into<String>) {
        self.add(false, f64::INFINITY, what.into());
    }

    /// The shipped scenario of this name.
    pub(super) fn scenario(&mut self, name: &str) -> Option<Scenario> {
        scenario::find(name).map_err(|error| self.is_missing(error.to_string())).ok()
    }

    /// Something that the target names was not measured.
    pub(super) fn is_missing(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.missing.contains(&what) {
            self.missing.push(what);
        }
    }

    fn add(&mut self, is_met: bool, share: f64, words: String) {
        if !is_met {
            self.missed.push(words.clone());
        }
        if self.worst.as_ref().is_none_or(|(worst, _)| share > *worst) {
            self.worst = Some((share, words));
        }
    }

    pub(super) fn verdict(self, target: &'static str, claim: &'static str) -> Verdict {
        let outcome = match (self.missed.is_empty(), self.missing.is_empty(), &self.worst) {
            (false, _, _) => Outcome::Missed,
            (true, true, Some(_)) => Outcome::Met,
            (true, _, _) => Outcome::NotMeasured,
        };
        let (worst_ratio, worst) = self.worst.unzip();
        Verdict {
            target,
            claim,
            outcome,
            worst_ratio,
            worst: worst.unwrap_or_default(),
            missed: self.missed,
            missing: self.missing,
        }
    }
}

/// How much of a bound is used; nothing uses nothing of no bound.
fn share(part: f64, of: f64) -> f64 {
    match (part.is_finite(), part == 0.0) {
        (true, true) => 0.0,
        (true, false) => part / of,
        (false, _) => f64::INFINITY,
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        f64::INFINITY => "lost".to_owned(),
        100.0.. => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}
