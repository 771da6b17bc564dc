// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does a run end as it began when its program is built anew meanwhile? Can what a link logged of it be drawn?
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod support;

use std::fs::{hard_link, read_dir, read_to_string, remove_file, write, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use arq_report::record::Outcome;
use arq_report::results::ResultSet;
use tempfile::{tempdir_in, TempDir};

use support::{moment, network_or_skip};

/// On the file system of the program, for it is linked to from there.
fn folder() -> TempDir {
    tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The results of a bench whose file is gone before it looks for it.
fn results_without_its_file(folder: &Path, arguments: &[&str]) -> ResultSet {
    let (file, out) = (folder.join("arq-bench"), folder.join("results"));
    hard_link(env!("CARGO_BIN_EXE_arq-bench"), &file).unwrap();
    let program = File::open(&file).unwrap();
    remove_file(&file).unwrap();
    let mut bench = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    let ended = bench.args(arguments).arg("--out").arg(&out).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    ResultSet::read(&out).unwrap()
}

fn is_measured(results: &ResultSet) -> bool {
    matches!(results.records.as_slice(), [record] if matches!(record.outcome, Outcome::Measured(_)))
}

#[test]
fn both_sides_of_many_links_are_the_program_that_was_started() {
    let folder = folder();
    let plan = ["--idle", "1", "--busy", "1", "--idle-s", "1", "--busy-s", "1", "--repeats", "1"];
    let arguments = [&["many-links"][..], &plan].concat();
    let results = results_without_its_file(folder.path(), &arguments);
    assert!(is_measured(&results), "{:?}", results.records);
}

#[test]
fn what_a_link_logged_of_a_run_is_drawn() {
    let folder = folder();
    let (logs, picture) = (folder.path().join("qlog"), folder.path().join("run.svg"));
    let bench = || Command::new(env!("CARGO_BIN_EXE_arq-bench"));
    let mut run = bench();
    run.args(["many-links", "--idle", "1", "--busy", "1", "--idle-s", "1", "--busy-s", "1"]);
    run.args(["--repeats", "1", "--out"]).arg(folder.path().join("results"));
    let ended = run.env("QLOGDIR", &logs).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let log = read_dir(&logs).unwrap().next().unwrap().unwrap().path();
    let ended = bench().arg("qlog").arg(&log).arg("-o").arg(&picture).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let picture = read_to_string(&picture).unwrap();
    for words in ["packet number", "Round trip", "In flight, window", "Sent, pacing"] {
        assert!(picture.contains(words), "{words}");
    }
}

#[test]
fn both_sides_of_a_cell_are_the_program_that_was_started() {
    let Some(network) = network_or_skip("both_sides_of_a_cell", 2) else { return };
    drop(network);
    let folder = folder();
    let file = folder.path().join("moment.toml");
    write(&file, moment(r#"["arq"]"#, 1)).unwrap();
    let results = results_without_its_file(folder.path(), &["run", file.to_str().unwrap()]);
    assert!(is_measured(&results), "{:?}", results.records);
}
