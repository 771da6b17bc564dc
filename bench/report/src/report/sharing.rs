// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How was each bottleneck shared, over all repeats?

use maud::{html, Markup};

use super::grid::Grid;
use crate::record::{FlowResult, Measurement};
use crate::summary::sharing::{bytes_together, contenders, jain_index, share_beside_rivals};
use crate::summary::Spread;

/// A figure of the flows that compete in a run.
struct Figure {
    title: &'static str,
    /// What is counted, and what a good value is.
    meaning: &'static str,
    of: fn(&[&FlowResult]) -> Option<f64>,
    write: fn(f64) -> String,
}

/// Three digits behind the point: 0.996 is not 1.
const FAIRNESS: Figure = Figure {
    title: "Fairness",
    meaning: "Jain's index of what arrived of each flow while all of them were sending: 1 when all got the same, 1/n \
              when one of n got everything.",
    of: |flows| jain_index(&bytes_together(flows)?),
    write: |index| format!("{index:.3}"),
};
const SHARE: Figure = Figure {
    title: "Share beside a rival",
    meaning: "Per cent of what arrived while all flows were sending that went to the link above the column; the rest \
              went to the rival. 50 is an equal's.",
    of: share_beside_rivals,
    write: |share| format!("{:.0}", 100.0 * share),
};

/// Each figure in each setting over each link; nothing where no flows compete.
pub(crate) fn tables(grid: &Grid<'_>) -> Markup {
    html! { @for figure in [&FAIRNESS, &SHARE] { (table(grid, figure)) } }
}

fn table(grid: &Grid<'_>, figure: &Figure) -> Markup {
    let links = 0..grid.links.len();
    let cell = |setting, link| spread(grid, setting, link, figure);
    let row = |setting| (setting, links.clone().map(|link| cell(setting, link)).collect());
    let all: Vec<(usize, Vec<Option<Spread>>)> = (0..grid.settings.len()).map(row).collect();
    let rows: Vec<_> = all.iter().filter(|(_, cells)| cells.iter().any(Option::is_some)).collect();
    html! {
        @if !rows.is_empty() {
            h3 { (figure.title) }
            p { (figure.meaning) " Median of all repeats, in brackets the least and the greatest." }
            div.scroll tabindex="0" role="region" aria-label=(figure.title) { table {
                thead { tr { th scope="col" { "setting" } @for link in &grid.links { th scope="col" { (link.name) } } } }
                tbody { @for (setting, cells) in rows {
                    tr {
                        th scope="row" { (grid.describe(*setting)) }
                        @for cell in cells { td { (written(cell.as_ref(), figure.write)) } }
                    }
                } }
            } }
        }
    }
}

fn spread(grid: &Grid<'_>, setting: usize, link: usize, figure: &Figure) -> Option<Spread> {
    let runs = &grid.runs(setting, link)?.measured;
    let of_run = |run: &Measurement| (figure.of)(&contenders(run));
    Spread::of(runs.iter().filter_map(|(_, run)| of_run(run)).collect())
}

fn written(value: Option<&Spread>, write: fn(f64) -> String) -> Markup {
    html! {
        @match value {
            None => { "–" }
            Some(value) => {
                (write(value.median())) " "
                span.spread { "(" (write(value.min())) "–" (write(value.max())) ")" }
            }
        }
    }
}
