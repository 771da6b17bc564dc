// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! `docs/statistics.md` explains the figures of the code, all of them.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{collections::BTreeSet, fs, path::Path};

use zenoh_link_arq::{
    metrics::VARIABLE,
    statistics::{Figure, FIGURES, LANE_FIGURES, LOG_TARGET, PATH_FIGURES, PROCESS_FIGURES},
};

fn text() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/statistics.md");
    fs::read_to_string(path).unwrap()
}

/// The figures that have a row of their own. Their names hold the unit.
fn documented(text: &str) -> BTreeSet<String> {
    let mut rows = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("| `arq_")) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let name = format!("arq_{}", cells[0].strip_suffix('`').unwrap());
        // What is to be done where a value is not normal may go without saying.
        let [_, normal, _otherwise, ""] = cells[..] else { panic!("`{name}`: {cells:?}") };
        assert!(normal.len() > 10, "`{name}`: {normal}");
        assert!(rows.insert(name.clone()), "`{name}` is explained twice");
    }
    rows
}

fn coded<S>(figures: &[Figure<S>]) -> impl Iterator<Item = String> + '_ {
    figures.iter().map(Figure::exported_name)
}

#[test]
fn every_figure_is_explained_and_every_explained_figure_exists() {
    let figures = coded(FIGURES).chain(coded(LANE_FIGURES)).chain(coded(PATH_FIGURES));
    let figures = figures.chain(coded(PROCESS_FIGURES));
    // No figures of a snapshot: labels alone, and what only some links have.
    let others =
        ["arq_build_info", "arq_link_info", "arq_certificate_expires_seconds", "arq_path_state"];
    let coded: BTreeSet<_> = figures.chain(others.map(str::to_owned)).collect();
    assert_eq!(documented(&text()), coded);
}

#[test]
fn every_figure_that_the_page_mentions_exists() {
    let text = text();
    let known = documented(&text);
    let counters = coded(FIGURES).chain(coded(LANE_FIGURES));
    let totals: Vec<_> = counters
        .filter(|name| name.ends_with("_total"))
        .map(|name| name.replacen("arq_", "arq_process_", 1))
        .collect();
    let mentioned: Vec<_> = text
        .split(|c: char| !c.is_ascii_lowercase() && c != '_')
        .filter(|word| word.starts_with("arq_"))
        .collect();
    assert!(mentioned.len() > known.len());
    for name in mentioned {
        let exists = known.contains(name) || totals.iter().any(|total| total == name);
        // What begins others, and the crate.
        let is_figure = !["arq_process_", "arq_top"].contains(&name);
        assert!(exists || !is_figure, "`{name}` does not exist");
    }
}

/// The names behind `reason=` in the column of the reasons.
#[test]
fn every_reason_is_explained_and_every_explained_reason_exists() {
    let served = zenoh_link_arq::metrics::openmetrics();
    for (label, name) in [
        ("reason", "arq_links_closed_total"),
        ("reason", "arq_handshakes_failed_total"),
        ("result", "arq_handshakes_total"),
    ] {
        let reasons: BTreeSet<_> = served
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(&*format!("{{{label}=\"")))
            .filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()))
            .collect();
        let text = text();
        let (_, table) = text.split_once(&format!("| {label} of `{name}` |")).expect("a table");
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let explained: BTreeSet<_> =
            rows.map(|row| row.split('`').nth(1).expect("a name").to_owned()).collect();
        assert_eq!(explained, reasons, "{name}");
    }
}

#[test]
fn the_switches_and_the_target_are_named() {
    let text = text();
    for name in [VARIABLE, LOG_TARGET, "#metrics=", "#stats_log_ms="] {
        assert!(text.contains(name), "{name}");
    }
}
