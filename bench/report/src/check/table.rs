// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How are the verdicts shown in a terminal?

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};

use super::{Outcome, Verdict};

/// How many cells of one target are listed.
const LISTED: usize = 10;
/// Longer words are broken into lines.
const WIDTH: u16 = 120;

/// A row for each target, and beneath it every cell that is beyond its bound or not there.
pub fn table(verdicts: &[Verdict]) -> String {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table.set_header(["target", "claim", "", "share of the bound", "worst"]);
    table.add_rows(verdicts.iter().map(row));
    let details = verdicts.iter().flat_map(details);
    [table.to_string()].into_iter().chain(details).collect::<Vec<_>>().join("\n")
}

fn row(verdict: &Verdict) -> [String; 5] {
    let outcome = match verdict.outcome {
        Outcome::Met => "met",
        Outcome::Missed => "MISSED",
        Outcome::NotMeasured => "not measured",
    };
    let ratio = verdict.worst_ratio.map_or_else(String::new, |ratio| match ratio.is_finite() {
        true => format!("{ratio:.2}"),
        false => "beyond any".to_owned(),
    });
    let (target, claim) = (verdict.target.to_owned(), verdict.claim.to_owned());
    [target, claim, outcome.to_owned(), ratio, verdict.worst.clone()]
}

fn details(verdict: &Verdict) -> Vec<String> {
    let listed = |words: &'static str, cells: &[String]| {
        let line = move |cell: &String| format!("{} {words}: {cell}", verdict.target);
        let more = cells.len().saturating_sub(LISTED);
        let rest = (more > 0).then(|| format!("{} {words}: and {more} more", verdict.target));
        cells.iter().take(LISTED).map(line).chain(rest).collect::<Vec<_>>()
    };
    [listed("missed", &verdict.missed), listed("not measured", &verdict.missing)].concat()
}
