// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does the rate make the loss, or the medium? And what may be sent meanwhile?
//!
//! A period *loses little* if it loses little more than the medium is known to lose. Otherwise a trial begins: the rate is
//! lowered until the answer is known.
//!
//! | a period | then the limit |
//! |---|---|
//! | loses little | grows, faster after each further one; it stays once where a little was lost |
//! | loses little, and the limit is far above what the controller wants | ends |
//! | loses much, and no trial is under way | becomes 0.92 of the best that arrived (0.8 when the breaker opens) |
//! | loses much in a trial | becomes 0.8 of what arrived |
//! | loses as much as before the trial, though less is sent than arrived then | stays: the medium loses that; ends if no lesser rate has ever lost less |
//!
//! A policer passes the same amount however much is sent. So two periods that both lose much, of which one delivers 2.5
//! times as much as the other, are the medium's doing.

use crate::{chance::standard_error, units::Rate};

/// The lesser rate, as a share of what arrived: in a trial, and before.
const LESS: f64 = 0.8;
const BACK: f64 = 0.92;
/// The loss stayed if the lesser rate loses this share of what was lost before for each packet that arrived.
const STAYED: f64 = 0.6;
/// How much more than the medium's loss is little, of a period that tells much; shorter ones vary more.
const LITTLE: f64 = 0.05;
const LITTLE_PER_ERROR: f64 = 1.5;
/// More arrives, as a multiple of what arrived while more was lost, than a policer with a full bucket passes.
const MORE: f64 = 2.5;
/// Growth after a period that lost little, squared after each further one.
const GROWTH: f64 = 1.15;
const MAX_GROWTH: f64 = 4.0;
/// The limit is of no use if it is so many times what the controller wants.
const UNUSED: f64 = 1.5;
/// The medium's loss comes down by this part of the difference.
const MEDIUM_DECAY: f64 = 0.25;
/// Odds are kept finite.
const LEAST_ARRIVED: f64 = 0.05;

/// A period that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged {
    /// The share lost.
    pub(super) lost: f64,
    pub(super) packets: f64,
    /// What arrived in it, and in the best of the last ones.
    pub(super) arrived: Rate,
    pub(super) best: Rate,
    /// What may always be sent.
    pub(super) least: Rate,
    /// What the controller wants.
    pub(super) wanted: Rate,
}

/// Is less lost at a lesser rate?
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// The share lost before.
    lost: f64,
    /// Whether less is sent than arrived while that was lost: a full bucket may have passed more at first.
    is_below: bool,
}

/// Periods that lost more than the medium does.
#[derive(Debug, Clone, Copy)]
struct Lossy {
    /// The least that arrived in one, and the share that this one lost.
    least: Rate,
    lost: f64,
    /// The most that arrived in one.
    most: Rate,
}

/// The limit of an open breaker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    rate: Rate,
    trial: Option<Trial>,
    /// A lesser rate has lost less.
    fell: bool,
    /// The share that the medium loses.
    medium: f64,
    growth: f64,
    /// The rate stayed after a period that lost a little.
    held: bool,
    lossy: Option<Lossy>,
}

impl Limit {
    /// So much `arrived`, and that share was `lost`.
    pub(super) fn new(arrived: Rate, least: Rate, lost: f64) -> Self {
        Self {
            rate: arrived.mul_f64(LESS).max(least),
            trial: Some(Trial { lost, is_below: false }),
            fell: false,
            medium: 0.0,
            growth: 1.0,
            held: false,
            lossy: None,
        }
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Whether rates are compared.
    pub(super) fn is_tried(&self) -> bool {
        self.trial.is_some()
    }

    /// What the medium loses, if a lesser rate has lost less.
    pub(super) fn medium_loss(&self) -> Option<f64> {
        self.fell.then_some(self.medium)
    }

    /// What follows a period.
    ///
    /// # Errors
    /// No limit is needed: the share that the medium loses.
    pub(super) fn after(mut self, period: Judged) -> Result<Self, f64> {
        let lossy = self.lossy.filter(|lossy| period.arrived > lossy.least.mul_f64(MORE));
        if let Some(Lossy { lost, .. }) = lossy {
            self.medium = self.medium.max(lost);
            self.lossy = None;
        }
        let error = standard_error(self.medium.max(LITTLE), period.packets);
        let little = LITTLE + LITTLE_PER_ERROR * error;
        if period.lost <= self.medium + little {
            return self.after_little(period);
        }
        let Judged { arrived, lost, .. } = period;
        let most = self.lossy.map_or(arrived, |lossy| lossy.most.max(arrived));
        if most > arrived.mul_f64(MORE) {
            // It was not the rate at which that much arrived.
            let rate = most.mul_f64(1.0 / (1.0 - lost).max(LEAST_ARRIVED));
            return Ok(Self { rate, medium: lost, lossy: None, trial: None, growth: 1.0, ..self });
        }
        let least = self.lossy.filter(|lossy| lossy.least < arrived);
        let (least, lost) = least.map_or((arrived, lost), |lossy| (lossy.least, lossy.lost));
        self.lossy = Some(Lossy { least, lost, most });
        self.after_much(period)
    }

    fn after_little(self, period: Judged) -> Result<Self, f64> {
        if self.rate >= period.wanted.mul_f64(UNUSED) {
            return Err(self.medium);
        }
        // A packet more than the medium loses may be chance.
        let held = (period.lost - self.medium) * period.packets >= 1.5 && !self.held;
        let growth = self.growth.powi(if held { 1 } else { 2 }).clamp(GROWTH, MAX_GROWTH);
        let rate = if held { self.rate } else { self.rate.mul_f64(growth) };
        let medium = self.medium - MEDIUM_DECAY * (self.medium - period.lost).max(0.0);
        Ok(Self { rate, growth, held, medium, trial: None, fell: true, ..self })
    }

    fn after_much(self, period: Judged) -> Result<Self, f64> {
        let stayed = self.trial.filter(|trial| odds(period.lost) >= STAYED * odds(trial.lost));
        if stayed.is_some_and(|trial| trial.is_below) {
            return match self.fell {
                true => Ok(Self { medium: period.lost, trial: None, growth: 1.0, ..self }),
                false => Err(period.lost),
            };
        }
        let is_below = self.trial.is_some();
        let arrived =
            if is_below { period.arrived.mul_f64(LESS) } else { period.best.mul_f64(BACK) };
        let sent = arrived.mul_f64(1.0 / (1.0 - self.medium).max(LEAST_ARRIVED));
        let trial = Trial { lost: stayed.map_or(period.lost, |trial| trial.lost), is_below };
        Ok(Self {
            rate: sent.min(self.rate).max(period.least),
            trial: Some(trial),
            growth: 1.0,
            fell: self.fell || is_below && stayed.is_none(),
            ..self
        })
    }
}

/// How many are lost for each that arrives, if this share is lost.
pub(super) fn odds(lost: f64) -> f64 {
    lost / (1.0 - lost).max(LEAST_ARRIVED)
}
