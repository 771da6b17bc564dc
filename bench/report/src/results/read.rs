// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How is a result set read, and what of it may be missing?

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;

use super::{is_void, key, ResultSet, ResultsError, ENVIRONMENT, RECORDS, SCENARIO};
use crate::record::{Environment, Record};

pub(super) fn result_set(directory: &Path) -> Result<ResultSet, ResultsError> {
    let scenario_toml = text(directory, SCENARIO)?;
    let environment = environment(directory)?;
    let (records, warning) = records(directory)?;
    Ok(ResultSet { environment, scenario_toml, records, warning })
}

/// Where the last whole line of the records ends, bytes.
pub(super) fn whole_lines(directory: &Path) -> Result<u64, ResultsError> {
    let content = bytes(directory, RECORDS)?;
    Ok(content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at as u64 + 1))
}

fn environment(directory: &Path) -> Result<Environment, ResultsError> {
    let content = text(directory, ENVIRONMENT)?;
    serde_json::from_str(&content).map_err(|error| ResultsError::Damaged {
        path: directory.join(ENVIRONMENT),
        line: error.line(),
        reason: error.to_string(),
    })
}

fn records(directory: &Path) -> Result<(Vec<Record>, Option<String>), ResultsError> {
    let content = bytes(directory, RECORDS)?;
    let whole = whole_lines(directory)? as usize;
    let path = directory.join(RECORDS);
    let warning = (whole < content.len()).then(|| {
        format!(
            "{}: the last line was cut off and is left out; that cell runs again",
            path.display()
        )
    });
    let record = |(index, line): (usize, &[u8])| {
        serde_json::from_slice(line).map_err(|error| ResultsError::Damaged {
            path: path.clone(),
            line: index + 1,
            reason: error.to_string(),
        })
    };
    let lines = content[..whole].split_inclusive(|byte| *byte == b'\n');
    let records: Result<_, _> = lines.enumerate().map(record).collect();
    Ok((without_repeated(records?), warning))
}

/// Without the void runs in whose place a later one stands.
fn without_repeated(records: Vec<Record>) -> Vec<Record> {
    let mut later = HashSet::new();
    let is_kept = |record: &Record| later.insert(key(record)) || !is_void(record);
    let mut kept: Vec<_> = records.into_iter().rev().filter(is_kept).collect();
    kept.reverse();
    kept
}

fn text(directory: &Path, name: &'static str) -> Result<String, ResultsError> {
    String::from_utf8(bytes(directory, name)?).map_err(|error| ResultsError::Damaged {
        path: directory.join(name),
        line: 1,
        reason: error.to_string(),
    })
}

fn bytes(directory: &Path, name: &'static str) -> Result<Vec<u8>, ResultsError> {
    let path = directory.join(name);
    std::fs::read(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            ResultsError::NotAResultSet { directory: directory.to_owned(), missing: name }
        }
        _ => ResultsError::io(&path)(error),
    })
}
