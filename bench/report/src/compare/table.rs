// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How is a comparison shown in a terminal?

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};

use super::{Compared, Comparison, Judgement};
use crate::summary::Figure;

/// Longer words are broken into lines.
const WIDTH: u16 = 140;

/// The table, how many differ beyond chance, and what could not be compared.
pub fn of(compared: &Compared) -> String {
    let mut parts = Vec::new();
    if compared.rows.is_empty() {
        parts.push("The two sets have no cell in common.".to_owned());
    } else {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
        table.set_header(["cell", "figure", "first", "second", "ratio (95 %)", "p", "second is"]);
        table.add_rows(compared.rows.iter().map(row));
        parts.extend([table.to_string(), count(&compared.rows)]);
    }
    parts.extend(compared.notes.iter().cloned());
    parts.join("\n")
}

fn row(row: &Comparison) -> Vec<String> {
    let setting = row.cell.setting.iter().map(|(axis, value)| format!("{axis} {value}"));
    let cell: Vec<_> = [row.scenario.clone()]
        .into_iter()
        .chain(setting)
        .chain([row.cell.link.clone()])
        .chain(row.flow.clone())
        .collect();
    let interval =
        row.interval.map_or_else(String::new, |(low, high)| format!(" ({low:.2} to {high:.2})"));
    let ratio =
        row.ratio.map_or_else(|| "none".to_owned(), |ratio| format!("{ratio:.2}{interval}"));
    vec![
        cell.join(", "),
        format!("{} {}", row.figure.name(), row.figure.unit()).trim().to_owned(),
        row.a.to_string(),
        row.b.to_string(),
        ratio,
        row.p_value.map_or_else(|| "too few repeats".to_owned(), |p| format!("{p:.3}")),
        words(row.figure, row.judgement).to_owned(),
    ]
}

fn words(figure: Figure, judgement: Judgement) -> &'static str {
    let is_speed = !matches!(
        figure,
        Figure::Share
            | Figure::WireBytes
            | Figure::WirePackets
            | Figure::CpuPerGb
            | Figure::MachineCpuPerGb
            | Figure::PeakMemory
            | Figure::Retransmissions
            | Figure::Needless
    );
    match (judgement, is_speed) {
        (Judgement::Better, true) => "faster",
        (Judgement::Worse, true) => "slower",
        (Judgement::Better, false) => "better",
        (Judgement::Worse, false) => "worse",
        (Judgement::NoSignificantDifference, _) => "no significant difference",
        (Judgement::CannotTell, _) => "cannot tell",
    }
}

fn count(rows: &[Comparison]) -> String {
    let of = |judgement| rows.iter().filter(|row| row.judgement == judgement).count();
    format!(
        "Of {} figures the second set is better in {} and worse in {} beyond chance; p is corrected for their number.",
        rows.len(),
        of(Judgement::Better),
        of(Judgement::Worse)
    )
}
