// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Where does `arq/` lose, where is it level, where does it win?
//!
//! What counts as a loss is decided by [`summary::defeats`], for the terminal and the report alike, against every other
//! link. A win must hold by the same measure against the best of them; what is neither is level.

use std::cmp::Ordering;

use super::grid::{Grid, Link};
use super::metric::Metric;
use crate::summary::{self, Defeat, Loss, Spread};

/// One figure of ours beside that of another link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison {
    /// The figure.
    pub(crate) metric: Metric,
    /// Index of the setting.
    pub(crate) setting: usize,
    /// The flow's name.
    pub(crate) flow: String,
    /// Our figure.
    pub(crate) ours: Spread,
    /// The best other link; where we lose, the best of those that beat us.
    pub(crate) rival: String,
    /// Its figure.
    pub(crate) theirs: Spread,
    /// Who is better.
    pub(crate) standing: Standing,
    /// Per cent of the messages that the rival delivered and we did, where it delivered fewer.
    pub(crate) rival_delivers_less: Option<(f64, f64)>,
}

/// How ours stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// The other is better, beyond noise.
    Worse,
    /// Neither is.
    Level,
    /// Ours is better than all, beyond noise, and no run of it failed there.
    Better,
}

impl Comparison {
    /// How many times worse the worse one is; infinite beside a lost rank.
    pub(crate) fn ratio(&self) -> f64 {
        let (ours, theirs) = (self.ours.median(), self.theirs.median());
        let (more, less) = if ours > theirs { (ours, theirs) } else { (theirs, ours) };
        match less > 0.0 {
            true => more / less,
            false => f64::INFINITY,
        }
    }
}

/// The link that stands for us: `arq` as it comes, else the first of ours.
pub(crate) fn our_link(grid: &Grid<'_>) -> Option<usize> {
    let plain = grid.links.iter().position(|link| link.ours && link.name == "arq");
    plain.or_else(|| grid.links.iter().position(|link| link.ours))
}

/// Every comparison that the records allow: losses first, each kind with the widest distance first. Figures of the
/// delivered only are left out: they favour who loses what is late.
pub(crate) fn comparisons(grid: &Grid<'_>) -> Vec<Comparison> {
    let Some(us) = our_link(grid) else { return Vec::new() };
    let name = &grid.links[us].name;
    let mut defeats = summary::defeats(&grid.summaries());
    defeats.retain(|defeat| defeat.ours == *name);
    let mut all = Vec::new();
    for metric in Metric::ALL.into_iter().filter(|metric| !metric.is_of_delivered_only()) {
        for flow in grid.flows_of(metric) {
            let settings = 0..grid.settings.len();
            all.extend(
                settings.filter_map(|setting| compare(grid, us, setting, flow, metric, &defeats)),
            );
        }
    }
    all.sort_by(|a, b| a.standing.cmp(&b.standing).then(b.ratio().total_cmp(&a.ratio())));
    all
}

fn compare(
    grid: &Grid<'_>,
    us: usize,
    setting: usize,
    flow: &str,
    metric: Metric,
    defeats: &[Defeat],
) -> Option<Comparison> {
    let ours = grid.spread(setting, us, flow, metric)?.clone();
    let against = |(link, other): (usize, &Link)| {
        let theirs = grid.spread(setting, link, flow, metric)?.clone();
        let defeat = defeat_by(grid, setting, flow, metric, &other.name, defeats);
        let standing = match (defeat, summary::is_beaten(metric, &theirs, &ours)) {
            (Some(_), _) => Standing::Worse,
            // Of a link that could not run each time the figures say only how it does when it can.
            (None, true) if grid.failed(setting, us) == 0 => Standing::Better,
            (None, _) => Standing::Level,
        };
        Some(Comparison {
            metric,
            setting,
            flow: flow.to_owned(),
            ours: ours.clone(),
            rival: other.name.clone(),
            theirs,
            standing,
            rival_delivers_less: defeat.flatten(),
        })
    };
    let others = grid.links.iter().enumerate().filter(|(_, link)| !link.ours);
    others
        .filter_map(against)
        .min_by(|a, b| strength(a).partial_cmp(&strength(b)).unwrap_or(Ordering::Equal))
}

/// The strongest rival has the least: one that beats us, and not by delivering less, with the best figure.
fn strength(against: &Comparison) -> (Standing, bool, f64) {
    let delivers_less = against.rival_delivers_less.is_some();
    (against.standing, delivers_less, sign(against.metric) * against.theirs.median())
}

/// Whether this link beats us here; inside, what it delivers where that is less.
fn defeat_by(
    grid: &Grid<'_>,
    setting: usize,
    flow: &str,
    metric: Metric,
    rival: &str,
    defeats: &[Defeat],
) -> Option<Option<(f64, f64)>> {
    let here = |defeat: &&Defeat| defeat.rival == rival && defeat.setting == grid.settings[setting];
    defeats.iter().filter(here).find_map(|defeat| match &defeat.loss {
        Loss::Figure { figure, flow: of, they_deliver_less, .. }
            if *figure == metric && of.as_deref().is_none_or(|of| of == flow) =>
        {
            Some(*they_deliver_less)
        }
        Loss::Figure { .. } | Loss::CouldNotRun { .. } => None,
    })
}

fn sign(metric: Metric) -> f64 {
    if metric.more_is_better() {
        -1.0
    } else {
        1.0
    }
}
