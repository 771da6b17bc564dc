// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How is a result set shown in a terminal?

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::spread::written;
use super::{too_few_messages, Figure, FlowSummary, Summary};

/// What a terminal has room for; the report has the rest.
const SHOWN: [Figure; 12] = [
    Figure::Share,
    Figure::P50,
    Figure::P99,
    Figure::Max,
    Figure::Goodput,
    Figure::Duration,
    Figure::Retransmissions,
    Figure::Needless,
    Figure::WireBytes,
    Figure::WirePackets,
    Figure::CpuPerGb,
    Figure::MachineCpuPerGb,
];

/// A row for each setting, link and flow: medians, with the range over the repeats in brackets; beside them the ideal
/// selective repeat and the channel's capacity. Beneath it what failed, what is void, and for which ranks there are too
/// few messages.
pub fn table(summaries: &[Summary]) -> String {
    let shown = Columns::of(summaries);
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(shown.header());
    for group in summaries.chunk_by(same_setting) {
        for summary in group {
            table.add_rows(shown.rows(summary));
        }
        table.add_rows(shown.ideal_rows(group));
    }
    for column in table.column_iter_mut().skip(shown.axes.len() + 1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut notes: Vec<_> = summaries.iter().flat_map(notes).collect();
    let too_few = too_few_messages(summaries, &SHOWN);
    notes.extend(too_few.map(|ranks| format!("too few messages in a run, so not told: {ranks}")));
    [&[table.to_string()], notes.as_slice()].concat().join("\n")
}

fn same_setting(a: &Summary, b: &Summary) -> bool {
    a.scenario == b.scenario && a.cell.setting == b.cell.setting
}

/// The columns that have anything to show.
struct Columns {
    axes: Vec<String>,
    has_flows: bool,
    figures: Vec<Figure>,
}

impl Columns {
    fn of(summaries: &[Summary]) -> Self {
        let mut axes: Vec<String> = Vec::new();
        for (axis, _) in summaries.iter().flat_map(|summary| &summary.cell.setting) {
            if !axes.contains(axis) {
                axes.push(axis.clone());
            }
        }
        let has = |figure: &Figure| {
            summaries.iter().any(|summary| {
                summary.figures.contains_key(figure)
                    || summary.flows.iter().any(|flow| flow.figures.contains_key(figure))
            })
        };
        Self {
            axes,
            has_flows: summaries.iter().any(|summary| summary.flows.len() > 1),
            figures: SHOWN.into_iter().filter(has).collect(),
        }
    }

    fn header(&self) -> Vec<String> {
        let mut header = self.axes.clone();
        header.push("link".to_owned());
        header.extend(self.has_flows.then(|| "flow".to_owned()));
        let named =
            |figure: &Figure| format!("{} {}", figure.name(), figure.unit()).trim().to_owned();
        header.extend(self.figures.iter().map(named));
        header
    }

    fn rows(&self, summary: &Summary) -> Vec<Vec<String>> {
        if summary.repeats == 0 {
            let mut row = self.beginning(summary, &summary.cell.link, "");
            row.push("no result".to_owned());
            return vec![row];
        }
        let row = |(place, flow): (usize, &FlowSummary)| {
            let mut row = self.beginning(summary, &summary.cell.link, &flow.flow.name);
            row.extend(self.figures.iter().map(|figure| {
                // What belongs to the whole link stands in the row of its first flow.
                let of_cell = summary.figures.get(figure).filter(|_| place == 0);
                let spread = flow.figures.get(figure).or(of_cell);
                spread.map_or_else(String::new, ToString::to_string)
            }));
            row
        };
        summary.flows.iter().enumerate().map(row).collect()
    }

    /// The bounds are the same for all links of a setting.
    fn ideal_rows(&self, group: &[Summary]) -> Vec<Vec<String>> {
        let Some(summary) = group.iter().find(|summary| summary.repeats > 0) else {
            return Vec::new();
        };
        let row = |flow: &FlowSummary| {
            let bounds: Vec<_> = self.figures.iter().map(|figure| bound(flow, *figure)).collect();
            bounds.iter().any(Option::is_some).then(|| {
                let mut row = self.beginning(summary, "(ideal)", &flow.flow.name);
                row.extend(bounds.into_iter().map(|bound| bound.map_or_else(String::new, written)));
                row
            })
        };
        summary.flows.iter().filter_map(row).collect()
    }

    fn beginning(&self, summary: &Summary, link: &str, flow: &str) -> Vec<String> {
        let setting = &summary.cell.setting;
        let value = |axis: &String| {
            let found = setting.iter().find(|(key, _)| key == axis);
            found.map_or_else(String::new, |(_, value)| value.clone())
        };
        let mut row: Vec<_> = self.axes.iter().map(value).collect();
        row.push(link.to_owned());
        row.extend(self.has_flows.then(|| flow.to_owned()));
        row
    }
}

/// What no link without redundancy can better, and what no link at all can.
fn bound(flow: &FlowSummary, figure: Figure) -> Option<f64> {
    match figure {
        _ if flow.short_ranks.contains_key(&figure) => None,
        Figure::P50 => flow.ideal.closed_form?.p50,
        Figure::P99 => flow.ideal.closed_form?.p99,
        Figure::Goodput => flow.ideal.capacity_mbps.filter(|_| flow.figures.contains_key(&figure)),
        _ => None,
    }
}

fn notes(summary: &Summary) -> Vec<String> {
    let who = format!("{} ({})", summary.cell.link, summary.setting());
    let failed = summary.failures.iter().map(|reason| format!("{who} failed: {reason}"));
    let void = (summary.voided > 0)
        .then(|| format!("{who}: {} runs void, the emulator could not keep up", summary.voided));
    failed.chain(void).collect()
}
