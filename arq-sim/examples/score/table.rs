// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The table: means with their standard errors, what misses the target, what differs from the one in git.

use std::{collections::BTreeMap, fmt::Write as _, io, path::Path};

use crate::{
    cells::{Cell, Flows},
    paths::Queue,
    run::Outcome,
};

/// The figures of a cell, in the order of the columns.
const COLUMNS: [&str; 8] =
    ["goodput", "queue_ms", "beacon_ms", "bound_ms", "bytes", "jain", "least", "ours"];
/// What differs by fewer standard errors is chance.
const NOTEWORTHY: f64 = 2.0;
/// A difference below this share of the figure is none, however small the error.
const LEAST_CHANGE: f64 = 0.002;
/// What headers leave of a packet of 1,500 bytes.
const WITHOUT_HEADERS: f64 = 0.955;

/// A mean and its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figure {
    mean: f64,
    error: f64,
}

impl Figure {
    fn of(values: &[f64]) -> Self {
        let values: Vec<_> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = if count > 1.0 { (squares / (count - 1.0) / count).sqrt() } else { 0.0 };
        Self { mean, error }
    }

    /// How many standard errors it lies above another.
    fn above(self, other: Self) -> f64 {
        let difference = self.mean - other.mean;
        if !difference.is_finite() || difference.abs() <= LEAST_CHANGE * other.mean.abs() {
            return 0.0;
        }
        difference / self.error.hypot(other.error).max(1e-9)
    }
}

/// One line.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    figures: [Figure; COLUMNS.len()],
    /// Which of them miss the target.
    misses: [bool; COLUMNS.len()],
}

impl Row {
    pub(crate) fn of(cell: &Cell, outcomes: impl Iterator<Item = Outcome>) -> Self {
        let outcomes: Vec<_> = outcomes.collect();
        let figure =
            |of: fn(&Outcome) -> f64| Figure::of(&outcomes.iter().map(of).collect::<Vec<_>>());
        let figures = [
            figure(|outcome| outcome.goodput),
            figure(|outcome| outcome.queue_ms),
            figure(|outcome| outcome.beacon_ms),
            figure(|outcome| outcome.bound_ms),
            figure(|outcome| outcome.bytes),
            figure(|outcome| outcome.jain),
            figure(|outcome| outcome.least),
            figure(|outcome| outcome.ours),
        ];
        assert!(figures[0].mean <= 1.0, "{}: {} of what passes", cell.name(), figures[0].mean);
        Self { name: cell.name(), figures, misses: misses(cell, &figures.map(|f| f.mean)) }
    }
}

/// Target S1.
fn misses(cell: &Cell, means: &[f64; COLUMNS.len()]) -> [bool; COLUMNS.len()] {
    let [goodput, queue_ms, _, _, bytes, jain, least, ours] = *means;
    let path = &cell.path;
    let product_ms = path.round_trip.as_secs_f64() * 1e3;
    // A full packet each needs its time, too.
    let packets_ms = 4.0 * cell.flows.ours() as f64 * 12.0 / path.mbps();
    let judges_queue = path.is_steady()
        && !cell.flows.has_rival()
        && cell.flows != Flows::BesideShort
        && matches!(path.queue, Queue::Products(_));
    let all_present = cell.flows != Flows::ComeAndGo;
    [
        goodput < 0.9 * WITHOUT_HEADERS,
        judges_queue && queue_ms > product_ms / 2.0 + packets_ms,
        false,
        false,
        bytes > 1.08 / (1.0 - f64::from(path.loss)),
        jain < 0.9,
        all_present && least < 0.25,
        !(0.3..=0.7).contains(&ours) && ours.is_finite(),
    ]
}

/// The table of an earlier run, by the names of its cells; empty if there is none.
pub(crate) fn read(file: &Path) -> BTreeMap<String, [Figure; COLUMNS.len()]> {
    let Ok(mut reader) = csv::Reader::from_path(file) else { return BTreeMap::new() };
    let row = |record: csv::StringRecord| {
        let number = |index: usize| record.get(index)?.parse().ok();
        let figure = |column: usize| Figure {
            mean: number(1 + 2 * column).unwrap_or(f64::NAN),
            error: number(2 + 2 * column).unwrap_or(0.0),
        };
        (record[0].to_owned(), std::array::from_fn(figure))
    };
    reader.records().flatten().map(row).collect()
}

pub(crate) fn write(file: &Path, rows: &[Row]) -> io::Result<()> {
    let mut writer = csv::Writer::from_path(file)?;
    let head = COLUMNS.iter().flat_map(|name| [(*name).to_owned(), format!("{name}_se")]);
    writer.write_record(std::iter::once("cell".to_owned()).chain(head))?;
    for row in rows {
        let figures = row.figures.iter().flat_map(|figure| [figure.mean, figure.error]);
        let text =
            |value: f64| if value.is_finite() { format!("{value:.4}") } else { String::new() };
        writer.write_record(std::iter::once(row.name.clone()).chain(figures.map(text)))?;
    }
    writer.flush()
}

/// For people.
pub(crate) fn render(rows: &[Row], before: &BTreeMap<String, [Figure; COLUMNS.len()]>) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut out = format!("{:width$}", "cell");
    for name in COLUMNS {
        // Writing to a String cannot fail.
        let _ = write!(out, " {:>14}", name);
    }
    out.push_str("  change\n");
    for row in rows {
        let _ = write!(out, "{:width$}", row.name);
        for (index, figure) in row.figures.iter().enumerate() {
            let _ = write!(out, " {:>14}", shown(index, *figure, row.misses[index]));
        }
        let _ = writeln!(out, "  {}", change(row, before.get(&row.name)));
    }
    let missed = |row: &&Row| row.misses.contains(&true);
    let missing = rows.iter().filter(missed).count();
    let _ = writeln!(out, "{missing} of {} cells miss S1", rows.len());
    out
}

fn shown(column: usize, Figure { mean, error }: Figure, misses: bool) -> String {
    if !mean.is_finite() {
        return "-".into();
    }
    let mark = if misses { "!" } else { "" };
    let is_time = COLUMNS[column].ends_with("_ms");
    if is_time {
        format!("{mark}{mean:.1}+-{error:.1}")
    } else {
        format!("{mark}{mean:.3}+-{error:.3}")
    }
}

/// What differs from before by more than chance.
fn change(row: &Row, before: Option<&[Figure; COLUMNS.len()]>) -> String {
    let Some(before) = before else { return "new".into() };
    let each = COLUMNS.iter().zip(row.figures.iter().zip(before));
    let differs = each.filter_map(|(name, (now, then))| {
        let above = now.above(*then);
        (above.abs() > NOTEWORTHY).then(|| format!("{name} {above:+.1}"))
    });
    differs.collect::<Vec<_>>().join(", ")
}
