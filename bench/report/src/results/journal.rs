// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How is each result brought to the disk before the next cell begins?

use std::collections::HashSet;
use std::fs::{create_dir_all, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::files::replace;
use super::{is_void, key, read, sheet, Key, ResultSet, ResultsError};
use super::{ENVIRONMENT, RECORDS, SCENARIO, SHEET};
use crate::record::{Environment, Record};

/// A result set that grows; one process at a time holds it.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    /// Where whole records end, bytes.
    end: u64,
    /// Locked.
    file: File,
    finished: HashSet<Key>,
}

impl Journal {
    /// Begins a result set in `directory`, or goes on with the one that is there, if it is of the same run.
    ///
    /// `scenario_toml` is the scenario as it will run, options of the command line included. The warning tells of a
    /// record that was cut off when the run was killed; that cell has to run again.
    pub fn open(
        directory: &Path,
        environment: &Environment,
        scenario_toml: &str,
    ) -> Result<(Self, Option<String>), ResultsError> {
        create_dir_all(directory).map_err(ResultsError::io(directory))?;
        let file = lock(directory)?;
        let (finished, warning) = if directory.join(ENVIRONMENT).exists() {
            let found = ResultSet::read(directory)?;
            same_run(directory, &found, environment, scenario_toml)?;
            (found.finished(), found.warning)
        } else {
            if read::whole_lines(directory)? > 0 {
                let directory = directory.to_owned();
                return Err(ResultsError::NotAResultSet { directory, missing: ENVIRONMENT });
            }
            begin(directory, environment, scenario_toml)?;
            (HashSet::new(), None)
        };
        let end = read::whole_lines(directory)?;
        let mut journal = Self { directory: directory.to_owned(), end, file, finished };
        journal.drop_torn_line()?;
        Ok((journal, warning))
    }

    /// What need not be measured again: cell, repeat and seed of each record, failures too, void ones not.
    pub fn finished(&self) -> &HashSet<Key> {
        &self.finished
    }

    /// Adds a record; when this returns it is on the disk. After an error the file is as it was before.
    pub fn append(&mut self, record: &Record) -> Result<(), ResultsError> {
        let path = self.directory.join(RECORDS);
        let mut line = serde_json::to_vec(record)
            .map_err(|error| ResultsError::io(&path)(std::io::Error::other(error)))?;
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // A line that is half there would be dropped by the reader too; this only keeps the file clean.
            let _ = self.drop_torn_line();
            return Err(ResultsError::io(&path)(error));
        }
        self.end += line.len() as u64;
        if !is_void(record) {
            self.finished.insert(key(record));
        }
        Ok(())
    }

    /// Writes `results.csv` from all records; also wanted when a run is interrupted.
    pub fn write_sheet(&self) -> Result<(), ResultsError> {
        let records = read::result_set(&self.directory)?.records;
        let path = self.directory.join(SHEET);
        let content = sheet::of(&records).map_err(ResultsError::io(&path))?;
        replace(&path, &content).map_err(ResultsError::io(&path))
    }

    fn drop_torn_line(&mut self) -> Result<(), ResultsError> {
        let path = self.directory.join(RECORDS);
        self.file.set_len(self.end).map_err(ResultsError::io(&path))?;
        self.file.seek(SeekFrom::Start(self.end)).map_err(ResultsError::io(&path))?;
        Ok(())
    }
}

fn lock(directory: &Path) -> Result<File, ResultsError> {
    let path = directory.join(RECORDS);
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(false)
        .open(&path)
        .map_err(ResultsError::io(&path))?;
    file.try_lock().map_err(|_| ResultsError::InUse(directory.to_owned()))?;
    Ok(file)
}

/// The environment comes last: a directory that has one has everything.
fn begin(
    directory: &Path,
    environment: &Environment,
    scenario_toml: &str,
) -> Result<(), ResultsError> {
    let path = directory.join(ENVIRONMENT);
    let environment = serde_json::to_vec_pretty(environment)
        .map_err(|error| ResultsError::io(&path)(std::io::Error::other(error)))?;
    let scenario = directory.join(SCENARIO);
    replace(&scenario, scenario_toml.as_bytes()).map_err(ResultsError::io(&scenario))?;
    replace(&path, &environment).map_err(ResultsError::io(&path))
}

/// Results of different scenarios, seeds, programs or machines are not mixed.
fn same_run(
    directory: &Path,
    found: &ResultSet,
    environment: &Environment,
    scenario_toml: &str,
) -> Result<(), ResultsError> {
    let (then, now) = (&found.environment, environment);
    let build = |environment: &Environment| match environment.optimised {
        true => "with optimisation".to_owned(),
        false => "without optimisation".to_owned(),
    };
    let of = |what: &str, then: &str| (then != what).then(|| then.to_owned());
    let differs = [
        (found.scenario_toml != scenario_toml)
            .then(|| "with another scenario (see its scenario.toml)".to_owned()),
        (then.seed != now.seed).then(|| format!("with seed {}", then.seed)),
        of(&now.version, &then.version).map(|version| format!("by arq-bench {version}")),
        of(&now.zenoh, &then.zenoh).map(|version| format!("with zenoh {version}")),
        of(&now.kernel, &then.kernel).map(|kernel| format!("on {kernel}")),
        of(&now.processor, &then.processor).map(|processor| format!("on {processor}")),
        of(&build(now), &build(then)),
    ];
    match differs.into_iter().flatten().next() {
        Some(with) => Err(ResultsError::Different { directory: directory.to_owned(), with }),
        None => Ok(()),
    }
}
