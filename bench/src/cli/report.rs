// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! `arq-bench report`: results that are there become a report, one chapter for each set.

use std::path::{Path, PathBuf};

use clap::Args;

use super::CliError;
use crate::report::{self, Input, ScenarioInfo};
use crate::results::ResultSet;
use crate::scenario::{self, Scenario};

/// `arq-bench report`
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Folders of results.
    #[arg(required = true, value_name = "DIR")]
    results: Vec<PathBuf>,
    /// Where the report goes [default: `report` in the first folder].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Writes the report of what is in the folders.
pub(super) fn run(args: &ReportArgs) -> Result<(), CliError> {
    let results: Vec<_> =
        args.results.iter().map(|directory| Results::read(directory)).collect::<Result<_, _>>()?;
    let first = args.results.first().map_or_else(|| Path::new("."), PathBuf::as_path);
    let target = args.out.clone().unwrap_or_else(|| first.join(FOLDER));
    let path = write_to(&target, &results)?;
    println!("report: {}", path.display());
    Ok(())
}

const FOLDER: &str = "report";

/// Writes the report into the folder of the results.
pub(super) fn write(directory: &Path, results: &[Results]) -> Result<PathBuf, CliError> {
    write_to(&directory.join(FOLDER), results)
}

fn write_to(target: &Path, results: &[Results]) -> Result<PathBuf, CliError> {
    let inputs: Vec<_> = results.iter().map(Results::input).collect();
    Ok(report::write(target, &inputs)?)
}

/// A result set and what the report tells of its scenario.
pub(super) struct Results {
    info: ScenarioInfo,
    set: ResultSet,
}

impl Results {
    pub(super) fn of(scenario: &Scenario, set: ResultSet) -> Self {
        Self { info: ScenarioInfo::of(scenario, set.environment.command.clone()), set }
    }

    /// Reads a folder. The scenario is the one that is kept there, whatever has become of the shipped one.
    fn read(directory: &Path) -> Result<Self, CliError> {
        let set = ResultSet::read(directory)?;
        set.warning.iter().for_each(|warning| eprintln!("note: {warning}"));
        let name = set.records.first().map_or("scenario", |record| record.scenario.as_str());
        let scenario = scenario::read(name, &directory.display().to_string(), &set.scenario_toml)?;
        Ok(Self::of(&scenario, set))
    }

    fn input(&self) -> Input<'_> {
        Input {
            scenario: &self.info,
            environment: &self.set.environment,
            records: &self.set.records,
        }
    }
}
