// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The driver and the socket know nothing of zenoh.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    fs,
    path::{Path, PathBuf},
};

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn the_shell_does_not_name_zenoh() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = [sources(&src.join("driver")), sources(&src.join("socket"))].concat();
    assert!(files.len() >= 7, "{files:?}");
    for file in files {
        assert!(!fs::read_to_string(&file).unwrap().contains("zenoh"), "{}", file.display());
    }
}
