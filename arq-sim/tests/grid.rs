// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Has a change moved goodput or latency anywhere? The grid in git says how it was.

use std::{fs, path::Path};

#[test]
fn the_grid_is_as_it_was() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/goodput_grid.md");
    let now = arq_sim::grid::render();
    if std::env::var_os("ARQ_UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &now).unwrap();
        return;
    }
    let before = fs::read_to_string(&path).unwrap_or_default();
    let changed: Vec<_> = diff(&before, &now).collect();
    assert!(
        changed.is_empty(),
        "the grid has changed; if that is meant to be, run with ARQ_UPDATE_SNAPSHOTS=1\n{}",
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
