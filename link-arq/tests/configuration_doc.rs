// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! `docs/configuration.md` names every key with unit, default and range, and no others.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{collections::BTreeMap, fs, path::Path};

use zenoh_link_arq::config::{Key, LinkConfig, Section, Value, KEYS};

/// What a row of the documentation says: unit, default, range.
type Row = [String; 3];

fn text() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    fs::read_to_string(path).unwrap()
}

/// The first cell of a table's row, if it is code, and the others.
fn cells(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut cells = line.strip_prefix('|')?.trim_end_matches('|').split('|').map(str::trim);
    let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
    Some((name, cells.collect()))
}

fn documented() -> BTreeMap<(bool, String), Row> {
    let mut rows = BTreeMap::new();
    let mut section = "";
    let text = text();
    for line in text.lines() {
        section = line.strip_prefix("## ").unwrap_or(section);
        if let Some((name, cells)) = cells(line).filter(|_| section.starts_with("Keys")) {
            let row = [0, 1, 2].map(|cell: usize| cells[cell].to_owned());
            let again = rows.insert((section.contains("metadata"), name.to_owned()), row);
            assert_eq!(again, None, "`{name}` is documented twice");
        }
    }
    rows
}

fn coded() -> BTreeMap<(bool, String), Row> {
    let row =
        |key: &Key| [key.value.unit().to_owned(), key.default.to_owned(), key.value.to_string()];
    KEYS.iter()
        .map(|key| ((key.section == Section::Metadata, key.name.to_owned()), row(key)))
        .collect()
}

/// Whether the key gives what another one, `..._file`, names. The page says of all these together what they are.
fn is_spelled_out(name: &str) -> bool {
    let stem = ["_raw", "_base64"].iter().find_map(|end| name.strip_suffix(end));
    stem.is_some_and(|stem| KEYS.iter().any(|key| key.name == format!("{stem}_file")))
}

#[test]
fn the_documentation_and_the_code_name_the_same_keys() {
    let (documented, coded) = (documented(), coded());
    for (key, row) in &coded {
        let found = documented.get(key);
        assert!(
            found == Some(row) || found.is_none() && is_spelled_out(&key.1),
            "{key:?}: {found:?}"
        );
    }
    assert!(text().contains("`..._raw`") && text().contains("`..._base64`"));
    for key in documented.keys() {
        assert!(coded.contains_key(key), "{key:?} is documented and does not exist");
    }
}

#[test]
fn the_documented_presets_are_those_of_the_code() {
    let parse = |config: &str| {
        let endpoint = format!("arq/localhost:7447#{config}").parse().unwrap();
        LinkConfig::parse(&endpoint).unwrap()
    };
    let preset = KEYS.iter().find(|key| key.name == "preset").unwrap();
    let Value::Word(names) = preset.value else { panic!("presets are words") };
    let text = text();
    let section = text.split_once("## Presets").unwrap().1;
    let documented: Vec<_> = section.lines().filter_map(cells).collect();
    assert_eq!(documented.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
    for (name, cells) in documented {
        let changes = cells[1].replace('`', "").replace(", ", ";");
        assert_eq!(parse(&changes), parse(&format!("preset={name}")), "{name}");
    }
}
