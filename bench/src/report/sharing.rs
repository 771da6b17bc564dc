// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How evenly was each bottleneck shared, over all repeats?

use maud::{html, Markup};

use super::grid::Grid;
use crate::record::Measurement;
use crate::summary::sharing::{bytes_together, contenders, jain_index};
use crate::summary::Spread;

/// Jain's index in each setting over each link; nothing where no flows compete.
pub(crate) fn table(grid: &Grid<'_>) -> Markup {
    let links = 0..grid.links.len();
    let row = |setting| (setting, links.clone().map(|link| index(grid, setting, link)).collect());
    let all: Vec<(usize, Vec<Option<Spread>>)> = (0..grid.settings.len()).map(row).collect();
    let rows: Vec<_> = all.iter().filter(|(_, cells)| cells.iter().any(Option::is_some)).collect();
    html! {
        @if !rows.is_empty() {
            h3 { "Fairness" }
            p { "Jain's index of what arrived of each flow while all of them were sending: 1 when all got the same, 1/n when one of n got everything. Median of all repeats, in brackets the least and the greatest." }
            div.scroll tabindex="0" role="region" aria-label="Fairness" { table {
                thead { tr { th scope="col" { "setting" } @for link in &grid.links { th scope="col" { (link.name) } } } }
                tbody { @for (setting, cells) in rows {
                    tr {
                        th scope="row" { (grid.describe(*setting)) }
                        @for cell in cells { td { (written(cell.as_ref())) } }
                    }
                } }
            } }
        }
    }
}

fn index(grid: &Grid<'_>, setting: usize, link: usize) -> Option<Spread> {
    let runs = &grid.runs(setting, link)?.measured;
    Spread::of(runs.iter().filter_map(|(_, run)| of_run(run)).collect())
}

fn of_run(run: &Measurement) -> Option<f64> {
    jain_index(&bytes_together(&contenders(run))?)
}

/// Three digits behind the point: 0.996 is not 1.
fn written(index: Option<&Spread>) -> Markup {
    html! {
        @match index {
            None => { "–" }
            Some(index) => {
                (format!("{:.3}", index.median())) " "
                span.spread { "(" (format!("{:.3}–{:.3}", index.min(), index.max())) ")" }
            }
        }
    }
}
