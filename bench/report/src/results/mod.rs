// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How are results kept, so that a run killed half way loses none that was finished?
//!
//! A result set is a directory: `environment.json` (what it was measured on), `scenario.toml` (what was measured),
//! `results.jsonl` (a [`Record`] a line, on the disk before the next cell begins) and `results.csv` (a row for each
//! record and flow, for spreadsheets). [`Journal`] writes one, [`ResultSet`] is one that was read.

pub(crate) mod files;
mod journal;
mod read;
mod sheet;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::record::{Cell, Environment, Outcome, Record};
use crate::summary;

pub use journal::Journal;

const ENVIRONMENT: &str = "environment.json";
const SCENARIO: &str = "scenario.toml";
const RECORDS: &str = "results.jsonl";
const SHEET: &str = "results.csv";

/// A result set that was read.
#[derive(Clone, Debug)]
pub struct ResultSet {
    /// What it was measured on.
    pub environment: Environment,
    /// The scenario as it ran, in TOML.
    pub scenario_toml: String,
    /// In the order in which they were measured; without the void ones that were measured again.
    pub records: Vec<Record>,
    /// What the reader should be told: a last line that was cut off.
    pub warning: Option<String>,
}

/// Names a measurement of a run: what [`Journal::finished`] holds.
pub type Key = (Cell, u32, u64);

impl ResultSet {
    /// Reads a directory. A last line without its end is left out with a warning: the run was killed in it.
    pub fn read(directory: &Path) -> Result<Self, ResultsError> {
        read::result_set(directory)
    }

    /// Whether any run counts. A void one says nothing about any link.
    pub fn is_anything_measured(&self) -> bool {
        let counts = |record: &Record| match &record.outcome {
            Outcome::Measured(_) => !is_void(record),
            Outcome::Failed(_) => false,
        };
        self.records.iter().any(counts)
    }

    /// What need not run again. A cell that failed is among them: that a link cannot do it is a result, and one that is
    /// tried until it succeeds would look better than it is. Who knows better deletes its line. A void one is not: it has
    /// said nothing about the link.
    pub fn finished(&self) -> HashSet<Key> {
        self.records.iter().filter(|record| !is_void(record)).map(key).collect()
    }
}

fn is_void(record: &Record) -> bool {
    match &record.outcome {
        Outcome::Measured(measurement) => summary::is_void(measurement),
        Outcome::Failed(_) => false,
    }
}

fn key(record: &Record) -> Key {
    (record.cell.clone(), record.repeat, record.seed)
}

/// Why results cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The file system refuses.
    #[error("{}: {source}; results that were finished before are kept", path.display())]
    Io {
        /// What could not be read or written.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The directory holds no result set.
    #[error("{} is no result set: it has no {missing}", directory.display())]
    NotAResultSet {
        /// The directory.
        directory: PathBuf,
        /// The file that each set has.
        missing: &'static str,
    },
    /// A file was changed or damaged.
    #[error("{}, line {line}: {reason}; mend or delete that line", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Results of two different runs would be mixed.
    #[error("{} was begun {with}; choose another directory, or delete that one", directory.display())]
    Different {
        /// The directory.
        directory: PathBuf,
        /// What differs.
        with: String,
    },
    /// Another run writes into the directory.
    #[error("another run is writing into {}; wait for it or choose another directory", .0.display())]
    InUse(PathBuf),
}

impl ResultsError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

#[cfg(test)]
mod tests;
