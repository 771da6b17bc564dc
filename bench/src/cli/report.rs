// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! `arq-bench report`: results that are there become a report, one chapter for each set.

use std::path::{Path, PathBuf};

use arq_report::many_links::SCENARIO as MANY_LINKS;
use arq_report::report::{self, Input, ScenarioInfo};
use arq_report::results::ResultSet;
use arq_report::scenario::{self, Scenario};
use clap::Args;

use super::CliError;

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
    let results = read_all(&args.results)?;
    let first = args.results.first().map_or_else(|| Path::new("."), PathBuf::as_path);
    let target = args.out.clone().unwrap_or_else(|| first.join(FOLDER));
    let path = write_to(&target, &results)?;
    println!("report: {}", path.display());
    Ok(())
}

const FOLDER: &str = "report";

/// What a report can tell of; `check/*` has more.
fn read_all(directories: &[PathBuf]) -> Result<Vec<Results>, CliError> {
    directories.iter().filter_map(|directory| Results::read(directory).transpose()).collect()
}

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

    /// Reads a folder. The scenario is the one that is kept there, whatever has become of the shipped one; `None` of
    /// what was no scenario.
    fn read(directory: &Path) -> Result<Option<Self>, CliError> {
        let set = ResultSet::read(directory)?;
        if set.environment.command.split_whitespace().nth(1) == Some(MANY_LINKS) {
            let folder = directory.display();
            eprintln!("note: {folder} is left out: {MANY_LINKS} is no scenario and has no figures");
            return Ok(None);
        }
        set.warning.iter().for_each(|warning| eprintln!("note: {warning}"));
        let name = set.records.first().map_or("scenario", |record| record.scenario.as_str());
        let scenario = scenario::read(name, &directory.display().to_string(), &set.scenario_toml)?;
        Ok(Some(Self::of(&scenario, set)))
    }

    fn input(&self) -> Input<'_> {
        Input {
            scenario: &self.info,
            environment: &self.set.environment,
            records: &self.set.records,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::environment;
    use crate::many_links::Plan;
    use arq_report::record::Outcome;
    use arq_report::results::Journal;

    #[test]
    fn many_links_are_left_out_of_a_report_over_all_of_a_check() {
        let root = tempfile::tempdir().unwrap();
        let begin = |name: &str, command: &str, text: &str| {
            let directory = root.path().join(name);
            let (journal, _) =
                Journal::open(&directory, &environment("1.10.2", command, 1), text).unwrap();
            (directory, journal)
        };
        let (many, mut journal) = begin(MANY_LINKS, "arq-bench many-links --idle 1", "idle = 1\n");
        journal.append(&Plan::TARGET.record(0, 0, Outcome::Measured(Box::default()))).unwrap();
        let shipped = scenario::find("quick").unwrap();
        let (quick, _) = begin("quick", "arq-bench run quick --seed 1", &shipped.text);
        let results = read_all(&[many, quick]).unwrap();
        let titles: Vec<_> = results.iter().map(|results| &results.info.title).collect();
        assert_eq!(titles, [&shipped.title]);
    }
}
