// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Where does `arq/` lose, where is it level, where does it win?
//!
//! In each setting and flow our link is compared with the best of the others, figure by figure. "Worse" and "better"
//! need a difference of more than 5 % (for latencies also 0.2 ms) and ranges over the repeats that do not overlap;
//! anything less is level. Costs are compared only with links that delivered about as much, since a link that
//! delivers nothing is cheap.

use super::grid::Grid;
use super::metric::Metric;
use super::units::Spread;

/// One figure of ours beside the best of the others.
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
    /// The best other link's name.
    pub(crate) rival: String,
    /// Its figure.
    pub(crate) theirs: Spread,
    /// Who is better.
    pub(crate) standing: Standing,
}

/// How ours stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// The other is better, beyond noise.
    Worse,
    /// Neither is.
    Level,
    /// Ours is better, beyond noise.
    Better,
}

impl Comparison {
    /// How many times worse the worse one is; infinite beside a lost rank.
    pub(crate) fn ratio(&self) -> f64 {
        let (ours, theirs) = (self.ours.median, self.theirs.median);
        let (more, less) = if ours > theirs { (ours, theirs) } else { (theirs, ours) };
        if less > 0.0 {
            more / less
        } else {
            f64::INFINITY
        }
    }
}

/// The figures that are compared.
const COMPARED: [Metric; 9] = [
    Metric::P50,
    Metric::P99,
    Metric::Delivered,
    Metric::Silence,
    Metric::Goodput,
    Metric::Duration,
    Metric::Overhead,
    Metric::CpuPerGb,
    Metric::PeakMemory,
];

/// The link that stands for us: `arq` as it comes, else the first of ours.
pub(crate) fn our_link(grid: &Grid<'_>) -> Option<usize> {
    let plain = grid.links.iter().position(|link| link.ours && link.name == "arq");
    plain.or_else(|| grid.links.iter().position(|link| link.ours))
}

/// Every comparison that the records allow, the worst for us first.
pub(crate) fn comparisons(grid: &Grid<'_>) -> Vec<Comparison> {
    let Some(us) = our_link(grid) else { return Vec::new() };
    let mut all = Vec::new();
    for metric in COMPARED {
        let of_run = Metric::COSTS.contains(&metric);
        for flow in grid.flows.iter().take(if of_run { 1 } else { usize::MAX }) {
            let each = (0..grid.settings.len())
                .filter_map(|setting| compare(grid, us, setting, flow, metric));
            all.extend(each);
        }
    }
    all.sort_by(|a, b| {
        (a.standing, b.ratio())
            .partial_cmp(&(b.standing, a.ratio()))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    all
}

fn compare(
    grid: &Grid<'_>,
    us: usize,
    setting: usize,
    flow: &str,
    metric: Metric,
) -> Option<Comparison> {
    let ours = grid.spread(setting, us, flow, metric)?;
    let share = |link| {
        grid.spread(setting, link, flow, Metric::Delivered).map_or(100.0, |spread| spread.median)
    };
    let comparable =
        |link: &usize| !Metric::COSTS.contains(&metric) || share(*link) >= 0.95 * share(us);
    let others = (0..grid.links.len()).filter(|link| !grid.links[*link].ours).filter(comparable);
    let figures = others.filter_map(|link| Some((link, grid.spread(setting, link, flow, metric)?)));
    let sign = if metric.more_is_better() { -1.0 } else { 1.0 };
    let (rival, theirs) =
        figures.min_by(|(_, a), (_, b)| (sign * a.median).total_cmp(&(sign * b.median)))?;
    let standing = standing(metric, ours, theirs);
    let (flow, rival) = (flow.to_owned(), grid.links[rival].name.clone());
    Some(Comparison { metric, setting, flow, ours, rival, theirs, standing })
}

fn standing(metric: Metric, ours: Spread, theirs: Spread) -> Standing {
    let slack = if metric.unit() == super::units::Unit::Milliseconds { 0.2 } else { 0.0 };
    let beyond = |more: f64, less: f64| more > less * 1.05 + slack;
    let noisy = ours.n > 1 && theirs.n > 1 && ours.overlaps(&theirs);
    let (ours_less, ours_more) =
        (beyond(theirs.median, ours.median), beyond(ours.median, theirs.median));
    match (noisy, ours_less, ours_more) {
        (true, ..) | (_, false, false) => Standing::Level,
        (_, less, _) if less != metric.more_is_better() => Standing::Better,
        _ => Standing::Worse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(values: &[f64]) -> Spread {
        Spread::of(values.iter().copied()).unwrap()
    }

    #[test]
    fn noise_is_level_and_a_lost_rank_is_worst() {
        let p99 =
            |ours: &[f64], theirs: &[f64]| standing(Metric::P99, spread(ours), spread(theirs));
        assert_eq!(p99(&[1.0, 1.0], &[2.0, 2.1]), Standing::Better);
        assert_eq!(p99(&[2.0, 2.1], &[1.0, 1.0]), Standing::Worse);
        assert_eq!(p99(&[1.0, 3.0], &[2.5, 4.0]), Standing::Level);
        assert_eq!(p99(&[1.0, 1.0], &[1.1, 1.15]), Standing::Level);
        assert_eq!(p99(&[f64::INFINITY], &[9_000.0]), Standing::Worse);
        assert_eq!(p99(&[f64::INFINITY], &[f64::INFINITY]), Standing::Level);
    }

    #[test]
    fn more_goodput_is_better() {
        assert_eq!(standing(Metric::Goodput, spread(&[90.0]), spread(&[3.0])), Standing::Better);
        assert_eq!(standing(Metric::Delivered, spread(&[90.0]), spread(&[100.0])), Standing::Worse);
    }
}
