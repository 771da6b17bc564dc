// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does a result set survive what happens to runs: kills, full disks, second runs?

use std::fmt::Display;
use std::fs::{read, read_to_string, write};
use std::io::Write as _;

use netlab::wire::Conditions;
use nix::mount::{mount, MsFlags};
use nix::sched::{unshare, CloneFlags};
use tempfile::tempdir;

use super::*;
use crate::record::Measurement;
use crate::report::sample;

const SCENARIO_TOML: &str = "title = \"Test\"\n";

fn record(link: &str, repeat: u32) -> Record {
    let flow = serde_json::json!({
        "flow": { "name": "data", "payload_bytes": 10_000, "pattern": "flood", "seconds": 1.0 },
        "offered": 10, "delivered": 9, "duplicates": 0, "out_of_order": 0,
        "longest_silence_ms": 12.5, "duration_s": 1.0, "arrived_bytes": [90_000],
        "messages": [[0.0, 1.5], [20.0, null]], "kept_every": 1,
        "percentiles": { "p50": 1.5 }, "ideal": { "capacity_mbps": 97.5 },
    });
    let flows = vec![serde_json::from_value(flow).unwrap()];
    let measurement = Measurement { flows, ..Measurement::default() };
    Record {
        scenario: "test".to_owned(),
        cell: Cell {
            link: link.to_owned(),
            setting: vec![("drop_percent".to_owned(), "10".to_owned())],
        },
        repeat,
        seed: 7,
        started_unix_s: 1_700_000_000,
        network: Conditions::default(),
        outcome: Outcome::Measured(Box::new(measurement)),
    }
}

fn failed(link: &str, repeat: u32) -> Record {
    Record { outcome: Outcome::Failed("no session, \"sorry\"".to_owned()), ..record(link, repeat) }
}

fn void(link: &str, repeat: u32) -> Record {
    let mut record = record(link, repeat);
    if let Outcome::Measured(measurement) = &mut record.outcome {
        measurement.forward.emulator_overrun = 1;
    }
    record
}

fn here() -> Environment {
    Environment { command: "arq-bench run test".to_owned(), seed: 7, ..sample::environment() }
}

fn open(directory: &Path) -> Journal {
    Journal::open(directory, &here(), SCENARIO_TOML).unwrap().0
}

#[test]
fn what_was_appended_is_read_back_and_need_not_be_measured_again() {
    let directory = tempdir().unwrap();
    let set = directory.path().join("deep/down");
    let mut journal = open(&set);
    for record in [record("arq", 0), failed("tcp", 0)] {
        journal.append(&record).unwrap();
    }
    let finished = journal.finished().clone();
    drop(journal);
    let found = ResultSet::read(&set).unwrap();
    assert_eq!(found.records, [record("arq", 0), failed("tcp", 0)]);
    assert_eq!((found.environment, found.scenario_toml.as_str()), (here(), SCENARIO_TOML));
    assert_eq!(found.warning, None);
    // Nobody is tried again until luck has it.
    assert_eq!(finished, HashSet::from([key(&record("arq", 0)), key(&record("tcp", 0))]));
    assert_eq!(open(&set).finished(), &finished);
}

#[test]
fn a_void_run_is_measured_again_and_the_sound_one_takes_its_place() {
    let directory = tempdir().unwrap();
    let mut journal = open(directory.path());
    for record in [void("arq", 0), record("arq", 1), void("tcp", 0)] {
        journal.append(&record).unwrap();
    }
    let sound = HashSet::from([key(&record("arq", 1))]);
    assert_eq!(journal.finished(), &sound);
    drop(journal);
    let mut journal = open(directory.path());
    assert_eq!(journal.finished(), &sound);
    for record in [record("arq", 0), void("tcp", 0)] {
        journal.append(&record).unwrap();
    }
    drop(journal);
    let records = ResultSet::read(directory.path()).unwrap().records;
    assert_eq!(records, [record("arq", 1), record("arq", 0), void("tcp", 0)]);
    assert_eq!(read_to_string(directory.path().join(RECORDS)).unwrap().lines().count(), 5);
}

#[test]
fn a_line_that_was_cut_off_is_dropped_with_a_warning_and_measured_again() {
    let directory = tempdir().unwrap();
    let records = directory.path().join(RECORDS);
    let mut journal = open(directory.path());
    journal.append(&record("arq", 0)).unwrap();
    journal.append(&record("arq", 1)).unwrap();
    drop(journal);
    let whole = read(&records).unwrap();
    let second = whole.len() / 2;
    for cut in [second + 1, second + 40, whole.len() - 1] {
        write(&records, &whole[..cut]).unwrap();
        let found = ResultSet::read(directory.path()).unwrap();
        assert_eq!(found.records, [record("arq", 0)], "cut at {cut}");
        assert!(found.warning.unwrap().contains("cut off"));
        let (mut journal, warning) =
            Journal::open(directory.path(), &here(), SCENARIO_TOML).unwrap();
        assert!(warning.is_some() && journal.finished().len() == 1);
        journal.append(&record("arq", 1)).unwrap();
        drop(journal);
        assert_eq!(read(&records).unwrap(), whole, "cut at {cut}");
    }
}

#[test]
fn damage_elsewhere_is_an_error_that_names_the_line() {
    let directory = tempdir().unwrap();
    let mut journal = open(directory.path());
    for repeat in 0..3 {
        journal.append(&record("arq", repeat)).unwrap();
    }
    drop(journal);
    let records = directory.path().join(RECORDS);
    let damaged = read_to_string(&records).unwrap().replacen("\"repeat\":1", "\"repeat\":x", 1);
    write(&records, damaged).unwrap();
    let words = ResultSet::read(directory.path()).unwrap_err().to_string();
    assert!(words.contains("results.jsonl, line 2: expected value"), "{words}");
    // And going on would hide it.
    assert!(Journal::open(directory.path(), &here(), SCENARIO_TOML).is_err());
}

#[test]
fn a_run_of_another_kind_is_not_mixed_in() {
    let directory = tempdir().unwrap();
    drop(open(directory.path()));
    let refused = |environment: &Environment, scenario: &str| {
        Journal::open(directory.path(), environment, scenario).unwrap_err().to_string()
    };
    let words = refused(&here(), "title = \"Other\"\n");
    assert!(words.contains("another scenario") && words.contains("delete"), "{words}");
    let words = refused(&Environment { seed: 8, ..here() }, SCENARIO_TOML);
    assert!(words.contains("begun with seed 7"), "{words}");
    let older = Environment { kernel: "Linux 2.4".to_owned(), ..here() };
    assert!(refused(&older, SCENARIO_TOML).contains("begun on Linux"));
    let other_build = Environment { optimised: !here().optimised, ..here() };
    assert!(refused(&other_build, SCENARIO_TOML).contains("optimisation"));
    // A busier machine or another command line is the same run.
    let busier = Environment { load: 99.0, command: "again".to_owned(), ..here() };
    assert!(Journal::open(directory.path(), &busier, SCENARIO_TOML).is_ok());
}

#[test]
fn two_runs_do_not_write_into_one_directory() {
    let directory = tempdir().unwrap();
    let first = open(directory.path());
    let second = Journal::open(directory.path(), &here(), SCENARIO_TOML);
    assert!(matches!(second, Err(ResultsError::InUse(_))));
    drop(first);
    open(directory.path());
}

#[test]
fn a_directory_without_results_says_so() {
    let directory = tempdir().unwrap();
    let words = ResultSet::read(directory.path()).unwrap_err().to_string();
    assert!(words.contains("is no result set: it has no scenario.toml"), "{words}");
}

#[test]
fn records_without_an_environment_are_not_taken_over() {
    let directory = tempdir().unwrap();
    open(directory.path()).append(&record("arq", 0)).unwrap();
    std::fs::remove_file(directory.path().join(ENVIRONMENT)).unwrap();
    let words = Journal::open(directory.path(), &here(), SCENARIO_TOML).unwrap_err().to_string();
    assert!(words.contains("has no environment.json"), "{words}");
}

/// Mounts a file system of this size over `directory`, for the calling thread only.
fn mount_small_disk(directory: &Path, bytes: usize) -> nix::Result<()> {
    let nothing = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
    let size = format!("size={bytes}");
    mount(Some("tmpfs"), directory, Some("tmpfs"), MsFlags::empty(), Some(size.as_str()))
}

/// Says that a test could not run; where everything has to run, that is a failure.
fn skipped(test: &str, why: impl Display) {
    // Past the capture of the test harness, so that nobody takes a skipped test for a passed one.
    let _ = writeln!(io::stderr(), "\n*** SKIPPED {test}: {why}\n");
    assert!(
        std::env::var_os("ARQ_REQUIRE_LAB").is_none(),
        "ARQ_REQUIRE_LAB is set, so a skipped test is a failed one"
    );
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing_that_was_finished() {
    let fill_it = || {
        let directory = tempdir().unwrap();
        if let Err(error) = mount_small_disk(directory.path(), 64 << 10) {
            return skipped("a_full_disk", format!("a small disk needs root: {error}"));
        }
        let mut journal = open(directory.path());
        let mut kept = Vec::new();
        let error = loop {
            let next = record("arq", kept.len() as u32);
            match journal.append(&next) {
                Ok(()) => kept.push(next),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("results.jsonl: No space left on device"), "{error}");
        assert!(kept.len() > 10 && journal.finished().len() == kept.len());
        assert!(journal.write_sheet().unwrap_err().to_string().contains("results.csv: No space"));
        drop(journal);
        let found = ResultSet::read(directory.path()).unwrap();
        assert_eq!((found.records, found.warning), (kept, None));
        // Space that was given back is used again.
        let content = read(directory.path().join(RECORDS)).unwrap();
        write(directory.path().join(RECORDS), &content[..content.len() / 2]).unwrap();
        open(directory.path()).append(&record("arq", 1_000)).unwrap();
        nix::mount::umount(directory.path()).unwrap();
    };
    // A thread of its own: what it mounts goes when it ends.
    std::thread::spawn(fill_it).join().unwrap();
}

#[test]
fn where_no_directory_can_be_the_error_names_it() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("file");
    write(&file, "").unwrap();
    let words = Journal::open(&file.join("set"), &here(), SCENARIO_TOML).unwrap_err().to_string();
    assert!(words.contains("file/set: Not a directory"), "{words}");
}

#[test]
fn the_sheet_has_a_row_for_each_flow_and_each_failure() {
    let directory = tempdir().unwrap();
    let mut journal = open(directory.path());
    journal.append(&record("arq", 0)).unwrap();
    journal.append(&failed("tcp", 0)).unwrap();
    journal.write_sheet().unwrap();
    let mut reader = csv::Reader::from_path(directory.path().join(SHEET)).unwrap();
    let header = reader.headers().unwrap().clone();
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    let field = |row: usize, name: &str| {
        let column = header.iter().position(|column| column == name).expect("a column");
        rows[row][column].to_owned()
    };
    assert_eq!(rows.len(), 2);
    assert_eq!((field(0, "drop_percent"), field(0, "p50_ms")), ("10".into(), "1.5".into()));
    // The rank of p99 is lost: no figure, not a zero.
    assert_eq!((field(0, "p99_ms"), field(0, "capacity_mbps")), (String::new(), "97.5".into()));
    assert_eq!((field(0, "failure"), field(0, "delivered")), (String::new(), "9".into()));
    assert_eq!(field(1, "failure"), "no session, \"sorry\"");
}

#[test]
fn new_columns_stand_behind_those_of_old_and_are_empty_where_nobody_counted() {
    let mut counted = record("arq", 0);
    if let Outcome::Measured(measurement) = &mut counted.outcome {
        measurement.forward.entered_packets = 19;
        measurement.stolen_percent = Some(12.5);
        measurement.needless_percent = Some(3.5);
        measurement.machine_cpu_s = Some(7.5);
    }
    let sheet = sheet::of(&[counted, record("udp", 0)]).unwrap();
    let mut reader = csv::Reader::from_reader(sheet.as_slice());
    let names: Vec<_> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let columns = [5, 4, 3, 2, 1].map(|from_the_end| names.len() - from_the_end);
    assert_eq!(
        columns.map(|column| names[column].as_str()),
        [
            "forward_wire_packets",
            "backward_wire_packets",
            "stolen_percent",
            "needless_percent",
            "machine_cpu_s"
        ]
    );
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    let fields = |row: usize| columns.map(|column| rows[row][column].to_owned());
    assert_eq!(fields(0), ["19", "0", "12.5", "3.5", "7.5"]);
    assert_eq!(fields(1), ["", "", "", "", ""]);
}

#[test]
fn what_the_emulator_has_spoilt_is_not_measured() {
    let is_measured = |record: Record| {
        let set = ResultSet {
            environment: Environment::default(),
            scenario_toml: String::new(),
            records: vec![record],
            warning: None,
        };
        set.is_anything_measured()
    };
    assert!(is_measured(record("arq", 0)));
    assert!(!is_measured(void("arq", 0)));
    assert!(!is_measured(failed("arq", 0)));
}
