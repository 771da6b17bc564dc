// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Tables that are kept in git.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{fs, path::Path};

/// Compares a table with the one in git, line by line; `ARQ_UPDATE_SNAPSHOTS=1` writes it instead.
pub(crate) fn assert_snapshot(name: &str, now: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(name);
    if std::env::var_os("ARQ_UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, now).unwrap();
        return;
    }
    let before = fs::read_to_string(&path).unwrap_or_default();
    let changed: Vec<_> = diff(&before, now).collect();
    assert!(
        changed.is_empty(),
        "{name} has changed; if that is meant to be, run with ARQ_UPDATE_SNAPSHOTS=1\n{}",
        changed.join("\n")
    );
}

fn diff<'a>(before: &'a str, now: &'a str) -> impl Iterator<Item = String> + 'a {
    let lines = before.lines().count().max(now.lines().count());
    let line = |text: &'a str, n: usize| text.lines().nth(n).unwrap_or("");
    (0..lines)
        .map(move |n| (line(before, n), line(now, n)))
        .filter(|(before, now)| before != now)
        .map(|(before, now)| format!("- {before}\n+ {now}"))
}
