// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which scenarios come with the program, and what is meant by a name that none has?

use std::path::Path;

use netlab::wire::Conditions;

use super::error::{Problem, ScenarioError};
use super::file::ScenarioFile;
use super::Scenario;

/// The shipped files are part of the program. `include_str!` rather than a crate that embeds a folder: the compiler
/// then knows of each file, and builds anew when one changes.
macro_rules! shipped {
    ($($path:literal,)*) => {
        &[$(($path, include_str!(concat!("../../scenarios/", $path, ".toml"))),)*]
    };
}

/// Path below `bench/scenarios` without extension, and text.
const SHIPPED: &[(&str, &str)] = shipped![
    "quick",
    "drop-rate",
    "drop-rate-narrow",
    "drop-rate-drop",
    "large-drop",
    "drop-rate-500kb",
    "one-round-trip",
    "payload",
    "arq-schemes",
    "sack",
    "window-vs-aimd",
    "reliable-sheet",
    "shared-bottleneck",
    "goodput",
    "goodput-long",
    "loopback",
    "fast-wire",
    "mixed-priority",
    "commands",
    "best-effort",
    "ping-pong",
    "opening",
    "blackout",
    "two-radios",
    "recorded",
    "fades",
    "thin-radio",
    "bit-errors",
    "chunk",
    "fairness",
    "fairness-cubic",
    "beside-cubic",
    "beside-bbr",
    "presets/highway-near",
    "presets/highway-edge",
    "presets/urban-crossing",
    "presets/tunnel",
    "presets/cell-5g",
    "presets/cell-lte-edge",
    "presets/wifi-robot",
    "presets/wifi-burst",
    "presets/wifi-bad",
    "presets/leo-sat",
    "presets/geo-sat",
    "presets/lan-drop",
];

/// How alike a name must be to be proposed, 0 to 1 (Jaro-Winkler).
const ALIKE: f64 = 0.75;
const PROPOSALS: usize = 3;

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// All shipped scenarios, experiments before presets.
pub fn all() -> Vec<Scenario> {
    let parse = |(path, text): &(&str, &str)| Scenario::parse(name_of(path), name_of(path), text);
    SHIPPED.iter().map(parse).collect::<Result<_, _>>().expect("a test reads every one of them")
}

/// The shipped scenario of this name, or the one in this file.
///
/// # Errors
/// Says what is wrong with the file and where, or which names resemble the one given.
pub fn find(name_or_path: &str) -> Result<Scenario, ScenarioError> {
    if let Some((path, text)) = SHIPPED.iter().find(|(path, _)| name_of(path) == name_or_path) {
        return Scenario::parse(name_of(path), name_of(path), text);
    }
    let path = Path::new(name_or_path);
    if path.extension().is_some() || path.components().count() > 1 {
        return load(path);
    }
    Err(ScenarioError::Unknown { name: name_or_path.to_owned(), nearest: nearest(name_or_path) })
}

/// The scenario in this text, which lies beside results or elsewhere; errors call it `origin`.
///
/// # Errors
/// Says what is wrong with it and where.
pub fn read(name: &str, origin: &str, text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(name, origin, text)
}

fn load(path: &Path) -> Result<Scenario, ScenarioError> {
    let text = std::fs::read_to_string(path)
        .map_err(|reason| ScenarioError::Unreadable { path: path.to_owned(), reason })?;
    let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
    Scenario::parse(&name, &path.to_string_lossy(), &text)
}

fn nearest(name: &str) -> Vec<String> {
    let likeness = |candidate: &str| strsim::jaro_winkler(name, candidate);
    let mut names: Vec<&str> = SHIPPED.iter().map(|(path, _)| name_of(path)).collect();
    names.retain(|candidate| likeness(candidate) >= ALIKE);
    names.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
    names.into_iter().take(PROPOSALS).map(str::to_owned).collect()
}

/// The network of the preset of this name.
pub(super) fn preset_network(name: &str) -> Result<Conditions, Problem> {
    let presets =
        || SHIPPED.iter().filter_map(|(path, text)| Some((path.strip_prefix("presets/")?, text)));
    let Some((_, text)) = presets().find(|(preset, _)| *preset == name) else {
        return Err(Problem::Name {
            place: "network.preset",
            name: name.to_owned(),
            valid: presets().map(|(preset, _)| preset.to_owned()).collect(),
        });
    };
    let file: ScenarioFile = toml::from_str(text).expect("a test reads every one of them");
    file.network.alone()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_file_of_the_folder_is_shipped() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
        let stems = |folder: &Path, prefix: &str| -> Vec<String> {
            let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let files = files.filter(|path| path.extension().is_some_and(|end| end == "toml"));
            let stem = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
            files.map(|path| format!("{prefix}{}", stem(&path))).collect()
        };
        let mut found = stems(&folder, "");
        found.extend(stems(&folder.join("presets"), "presets/"));
        let shipped: BTreeSet<_> = SHIPPED.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), shipped);
    }

    #[test]
    fn names_are_unique_without_their_folder() {
        let names: BTreeSet<_> = SHIPPED.iter().map(|(path, _)| name_of(path)).collect();
        assert_eq!(names.len(), SHIPPED.len());
    }

    #[test]
    fn a_name_with_a_slip_is_answered_with_what_was_meant() {
        let error = find("drop-rat").unwrap_err().to_string();
        assert!(error.contains("did you mean `drop-rate`"), "{error}");
        let error = find("zzz").unwrap_err().to_string();
        assert!(!error.contains("did you mean") && error.contains("arq-bench list"), "{error}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = find("./nowhere/mine.toml").unwrap_err();
        assert!(error.to_string().starts_with("./nowhere/mine.toml: "), "{error}");
    }
}
