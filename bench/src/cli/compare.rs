// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Is one result set better than another? What [`arq_report::compare`] says of two folders.

use std::path::{Path, PathBuf};

use arq_report::compare::{compare_sets, table, FIGURES};
use arq_report::results::ResultSet;
use arq_report::summary::Figure;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::Args;

use super::CliError;

/// Two result sets of the same scenario.
#[derive(Args, Clone, Debug)]
pub(super) struct CompareArgs {
    /// The directory of the first result set.
    a: PathBuf,
    /// The directory of the second, which is judged against the first.
    b: PathBuf,
    /// The figures to compare [default: delivered, p50, p99, goodput, duration, wire bytes, packets, CPU].
    #[arg(long = "figure", value_parser = figure())]
    figures: Vec<Figure>,
    /// The chance of one false alarm or more in the whole table, between 0 and 1.
    #[arg(long, default_value_t = 0.05, value_parser = level)]
    level: f64,
}

/// Figures by their names in the results, with hyphens.
fn figure() -> impl TypedValueParser<Value = Figure> {
    let name = |figure: &Figure| figure.key().replace('_', "-");
    let parser = PossibleValuesParser::new(Figure::ALL.iter().map(name));
    parser.try_map(move |text| Figure::ALL.into_iter().find(|f| name(f) == text).ok_or("no figure"))
}

fn level(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(level) if level > 0.0 && level < 1.0 => Ok(level),
        _ => Err("above 0 and below 1".to_owned()),
    }
}

/// Reads both sets, prints the table; whether anything is in both.
pub(super) fn run(args: &CompareArgs) -> Result<bool, CliError> {
    let read = |directory: &Path| {
        let set = ResultSet::read(directory)?;
        set.warning.iter().for_each(|warning| eprintln!("arq-bench: {warning}"));
        Ok::<_, CliError>(set)
    };
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let figures = if args.figures.is_empty() { &FIGURES[..] } else { &args.figures[..] };
    let compared = compare_sets(&a, &b, figures, args.level);
    println!("{}", table(&compared));
    Ok(!compared.rows.is_empty())
}

#[cfg(test)]
mod tests {
    use arq_report::record::{Cell, Environment, Measurement, Outcome, Record};
    use arq_report::results::Journal;

    use super::*;

    #[test]
    fn figures_are_called_as_in_the_results() {
        assert!(Figure::ALL
            .iter()
            .all(|figure| { serde_json::to_value(figure).is_ok_and(|key| key == figure.key()) }));
    }

    #[test]
    fn a_level_out_of_range_names_the_range() {
        assert_eq!(level("0.01"), Ok(0.01));
        for wrong in ["0", "1", "5", "nan", "a"] {
            assert_eq!(level(wrong), Err("above 0 and below 1".to_owned()), "{wrong}");
        }
    }

    fn record(link: &str, p50: f64) -> Record {
        let flow = serde_json::json!({
            "flow": { "name": "data", "payload_bytes": 1, "pattern": "ping-pong", "messages": 9 },
            "offered": 9, "delivered": 9, "duplicates": 0, "out_of_order": 0,
            "longest_silence_ms": 1.0, "duration_s": 1.0, "arrived_bytes": [9],
            "messages": [], "kept_every": 1, "percentiles": { "p50": p50 }, "ideal": null,
        });
        let flows = vec![serde_json::from_value(flow).unwrap()];
        let run = Measurement { flows, ..Measurement::default() };
        Record {
            scenario: "test".to_owned(),
            cell: Cell { link: link.to_owned(), setting: Vec::new() },
            repeat: 0,
            seed: 7,
            started_unix_s: 0,
            network: Default::default(),
            outcome: Outcome::Measured(Box::new(run)),
        }
    }

    #[test]
    fn two_directories_are_read_and_what_both_have_is_told() {
        let parent = tempfile::tempdir().unwrap();
        let write = |name: &str, record: Record| {
            let directory = parent.path().join(name);
            let here = Environment { command: name.to_owned(), ..Environment::default() };
            let (mut journal, _) = Journal::open(&directory, &here, "").unwrap();
            journal.append(&record).unwrap();
            directory
        };
        let a = write("a", record("arq", 1.0));
        let (b, other) = (write("b", record("arq", 2.0)), write("c", record("quic", 2.0)));
        let compared = |b: PathBuf| {
            run(&CompareArgs { a: a.clone(), b, figures: Vec::new(), level: 0.05 }).ok()
        };
        assert_eq!(compared(b), Some(true));
        assert_eq!(compared(other), Some(false));
        assert_eq!(compared(parent.path().join("nowhere")), None);
    }
}
