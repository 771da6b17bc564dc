// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Where does `arq/` lose?
//!
//! In every setting each link of ours is held against each other link, in each figure: [`defeats`] are those in which
//! the other is better by more than noise. Nothing corrects for how many comparisons there are, so that a defeat is
//! told too often rather than too seldom.

use std::fmt;

use super::significance::mann_whitney;
use super::{setting_in_words, Figure, Figures, FlowSummary, Spread, Summary};

/// A setting in which a link of ours is beaten.
#[derive(Clone, Debug, PartialEq)]
pub struct Defeat {
    /// The scenario's name.
    pub scenario: String,
    /// The values of its axes.
    pub setting: Vec<(String, String)>,
    /// The link of ours.
    pub ours: String,
    /// Who is better.
    pub rival: String,
    /// In what.
    pub loss: Loss,
}

/// In what a link of ours is beaten.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// In a figure.
    Figure {
        /// Which.
        figure: Figure,
        /// The flow, if it is the figure of one and there are several.
        flow: Option<String>,
        /// Ours.
        our: Spread,
        /// Theirs.
        their: Spread,
        /// The chance of such a difference without a reason; `None` with too few repeats to tell.
        p_value: Option<f64>,
        /// Per cent of the messages that the rival delivered and we did, if it delivered fewer.
        they_deliver_less: Option<(f64, f64)>,
    },
    /// Ours could not run, the rival could.
    CouldNotRun {
        /// Why.
        reason: String,
    },
}

/// Relative difference of medians below which nothing is a defeat.
const NOISE_SHARE: f64 = 0.05;
/// With fewer repeats a side no difference can be significant; then the ranges must not overlap.
const ENOUGH_FOR_A_TEST: usize = 4;
const SIGNIFICANT: f64 = 0.05;

/// Every defeat of a link of ours, in the order of the summaries. With four repeats a side or more the difference
/// must be significant (Mann-Whitney, p < 0.05), with fewer the ranges must not overlap; and in any case the medians
/// must differ by more than 5 %, and by more than the figure's noise. Figures of the delivered only are left out: they favour who loses
/// what is late.
pub fn defeats(summaries: &[Summary]) -> Vec<Defeat> {
    let mut found = Vec::new();
    for ours in summaries.iter().filter(|summary| summary.is_ours()) {
        let same_setting = |other: &&Summary| {
            !other.is_ours()
                && other.scenario == ours.scenario
                && other.cell.setting == ours.cell.setting
        };
        for rival in summaries.iter().filter(same_setting) {
            found.extend(losses(ours, rival).into_iter().map(|loss| Defeat {
                scenario: ours.scenario.clone(),
                setting: ours.cell.setting.clone(),
                ours: ours.cell.link.clone(),
                rival: rival.cell.link.clone(),
                loss,
            }));
        }
    }
    found
}

fn losses(ours: &Summary, rival: &Summary) -> Vec<Loss> {
    let mut losses = Vec::new();
    if ours.failures.len() > rival.failures.len() {
        losses.push(Loss::CouldNotRun { reason: ours.failures[0].clone() });
    }
    let delivered = |summary: &Summary| {
        let shares = summary.flows.iter().filter_map(|flow| flow.figures.get(&Figure::Share));
        shares.map(Spread::median).fold(100.0, f64::min)
    };
    let (they, we) = (delivered(rival), delivered(ours));
    let deliver_less = (they < we).then_some((they, we));
    losses.extend(in_figures(&ours.figures, &rival.figures, None, deliver_less));
    for (our, their) in ours.flows.iter().zip(&rival.flows) {
        // A flow with a link of its own is no achievement of the link under test.
        if our.flow.link.is_none() {
            let name = (ours.flows.len() > 1).then(|| our.flow.name.clone());
            losses.extend(in_figures(&our.figures, &their.figures, name, share_below(our, their)));
        }
    }
    losses
}

fn share_below(our: &FlowSummary, their: &FlowSummary) -> Option<(f64, f64)> {
    let share = |flow: &FlowSummary| flow.figures.get(&Figure::Share).map(Spread::median);
    let (we, they) = (share(our)?, share(their)?);
    (they < we).then_some((they, we))
}

fn in_figures(
    ours: &Figures,
    theirs: &Figures,
    flow: Option<String>,
    they_deliver_less: Option<(f64, f64)>,
) -> Vec<Loss> {
    let compared = ours.iter().filter(|(figure, _)| !figure.is_of_delivered_only());
    let pairs = compared.filter_map(|(figure, our)| Some((*figure, our, theirs.get(figure)?)));
    let beaten = pairs.filter(|(figure, our, their)| is_beaten(*figure, our, their));
    let loss = |(figure, our, their): (Figure, &Spread, &Spread)| Loss::Figure {
        figure,
        flow: flow.clone(),
        p_value: p_value(our, their),
        our: our.clone(),
        their: their.clone(),
        they_deliver_less,
    };
    beaten.map(loss).collect()
}

/// Whether `their` is better than `our`: by more than 5 %, by more than the figure's noise, and by more than chance.
pub(crate) fn is_beaten(figure: Figure, our: &Spread, their: &Spread) -> bool {
    let is_clear = match figure.more_is_better() {
        true => is_later(their.median(), our.median(), figure),
        false => is_later(our.median(), their.median(), figure),
    };
    let apart = our.min() > their.max() || our.max() < their.min();
    is_clear && p_value(our, their).map_or(apart, |p| p < SIGNIFICANT)
}

/// Whether `worse` exceeds `better` by more than noise.
fn is_later(worse: f64, better: f64, figure: Figure) -> bool {
    let level = (better * (1.0 + NOISE_SHARE)).max(better + figure.noise());
    better < f64::INFINITY && worse > level
}

fn p_value(our: &Spread, their: &Spread) -> Option<f64> {
    let enough = our.values().len().min(their.values().len()) >= ENOUGH_FOR_A_TEST;
    enough.then(|| mann_whitney(our.values(), their.values()))?
}

impl fmt::Display for Defeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, ours, rival, .. } = self;
        let setting = setting_in_words(&self.setting);
        let separator = if setting.is_empty() { "" } else { ", " };
        write!(f, "{scenario}{separator}{setting}: ")?;
        let Loss::Figure { figure, flow, our, their, p_value, they_deliver_less } = &self.loss
        else {
            let Loss::CouldNotRun { reason } = &self.loss else { return Ok(()) };
            return write!(f, "{ours} could not run, {rival} could: {reason}");
        };
        write!(f, "{ours} loses to {rival} in {}", figure.name())?;
        if let Some(flow) = flow {
            write!(f, " of {flow}")?;
        }
        write!(f, ": {our} against {their} {}", figure.unit())?;
        match p_value {
            Some(p) => write!(f, " (p = {p:.3})")?,
            None => write!(f, " (too few repeats to rule out chance)")?,
        }
        if let Some((they, we)) = they_deliver_less {
            write!(f, "; but it delivers {they:.1} % against {we:.1} %")?;
        }
        Ok(())
    }
}
