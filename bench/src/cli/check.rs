// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! `arq-bench check`: are the targets T1 to T12, W1, W2, E1, M1, R1 to R4, S1 and B1 met? What they need and nobody has
//! measured yet is measured first.

use std::path::PathBuf;
use std::time::Duration;

use arq_report::check::{self, Need, Outcome, NEEDS, REPEATS};
use arq_report::many_links::SCENARIO as MANY_LINKS;
use arq_report::record::Record;
use arq_report::results::ResultSet;
use arq_report::scenario::{self, Scenario};
use arq_report::summary;
use clap::Args;

use super::{list, many_links, run, CliError};
use crate::environment::program;
use crate::many_links::Plan;

/// `arq-bench check`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  arq-bench check                     measures all that the targets need, for hours; an interrupted run goes on
  arq-bench check --only goodput      measures one scenario and judges the targets that need it
  arq-bench check --repeats 1         a look at it in a fifth of the time: one hiccup of the machine misses a target
  arq-bench check --judge             judges what is there, measures nothing")]
pub(super) struct CheckArgs {
    /// Where the results are and go, a folder for each scenario.
    #[arg(long, value_name = "DIR", default_value = "arq-bench-results/check")]
    results: PathBuf,
    /// Measure only these scenarios.
    #[arg(long, value_name = "SCENARIOS", value_delimiter = ',')]
    only: Vec<String>,
    /// How often each cell is measured, and must have been to be judged, instead of as often as the scenario says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: Option<u32>,
    /// Decides losses, delays, payloads and the order of the links [default: 1, or that of the results gone on with].
    #[arg(long)]
    seed: Option<u64>,
    /// Measure nothing.
    #[arg(long, conflicts_with = "only")]
    judge: bool,
}

/// Measures what is missing and judges; an error when a target is not met.
pub(super) fn run(args: &CheckArgs) -> Result<(), CliError> {
    let wanted = args.wanted()?;
    let measured = if args.judge { Ok(()) } else { args.measure(&wanted) };
    // What stopped the measuring does not take the verdicts on what was measured before.
    let judged = args.judge_all();
    measured?;
    let unmet = judged?;
    match unmet.is_empty() {
        true => Ok(()),
        false => Err(CliError::Targets(format!("not met: {}", unmet.join(", ")))),
    }
}

impl CheckArgs {
    fn measure(&self, wanted: &[(Need, Scenario)]) -> Result<(), CliError> {
        let all: Duration = wanted.iter().map(|(_, scenario)| scenario.estimated_duration()).sum();
        eprintln!(
            "{} scenarios, about {} where nothing is there yet",
            wanted.len(),
            list::duration(all)
        );
        for (need, scenario) in wanted {
            let directory = self.results.join(need.scenario);
            run::measure_into(scenario, &directory, self.seed, &self.command())?;
        }
        if self.wants_many_links() {
            many_links::measure_target(&self.results, self.repeats())?;
        }
        Ok(())
    }

    /// Judges what is there, and names the targets that are not met.
    fn judge_all(&self) -> Result<Vec<&'static str>, CliError> {
        let results = self.read_all()?;
        if self.repeats() < REPEATS {
            eprintln!("note: medians of fewer than {REPEATS} repeats are worth little");
        }
        let mut verdicts = check::judge(&results, self.repeats());
        verdicts.retain(|verdict| self.decides(verdict.target));
        println!("{}", check::table(&verdicts));
        let records = results.iter().flat_map(|(_, records)| records);
        if let Some(stolen) = summary::stolen(records) {
            eprintln!("note: {stolen}");
        }
        let unmet = verdicts.iter().filter(|verdict| verdict.outcome != Outcome::Met);
        Ok(unmet.map(|verdict| verdict.target).collect())
    }

    /// What to type to go on.
    fn command(&self) -> String {
        let mut command = format!("arq-bench check --results {}", self.results.display());
        if !self.only.is_empty() {
            command.push_str(&format!(" --only {}", self.only.join(",")));
        }
        if let Some(repeats) = self.repeats {
            command.push_str(&format!(" --repeats {repeats}"));
        }
        if let Some(seed) = self.seed {
            command.push_str(&format!(" --seed {seed}"));
        }
        command
    }

    /// Whether what was asked for helps to decide a target.
    fn decides(&self, target: &str) -> bool {
        let asked = |need: &&Need| self.only.iter().any(|name| name == need.scenario);
        let by_scenario =
            NEEDS.iter().filter(asked).flat_map(|need| need.targets).any(|name| *name == target);
        self.only.is_empty() || by_scenario || (target == "T10" && self.wants_many_links())
    }

    /// T10 is no scenario: it needs no network.
    fn wants_many_links(&self) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == MANY_LINKS)
    }

    /// The scenarios to measure, each with the links that a target needs.
    fn wanted(&self) -> Result<Vec<(Need, Scenario)>, CliError> {
        let valid: Vec<_> = NEEDS.iter().map(|need| need.scenario).chain([MANY_LINKS]).collect();
        if let Some(name) = self.only.iter().find(|name| !valid.contains(&name.as_str())) {
            return Err(CliError::Targets(format!(
                "no target needs `{name}`; they need {}",
                valid.join(", ")
            )));
        }
        let is_wanted = |need: &&Need| {
            self.only.is_empty() || self.only.iter().any(|name| name == need.scenario)
        };
        NEEDS.iter().filter(is_wanted).map(|need| Ok((*need, self.scenario(need)?))).collect()
    }

    /// The scenario with the links that its targets compare. Its others cost hours, and decide nothing.
    fn scenario(&self, need: &Need) -> Result<Scenario, CliError> {
        let names: Vec<_> = need.links.iter().map(|link| (*link).to_owned()).collect();
        Ok(scenario::find(need.scenario)?.scaled(1.0, Some(self.repeats()))?.with_links(&names)?)
    }

    fn repeats(&self) -> u32 {
        self.repeats.unwrap_or(REPEATS)
    }

    fn read_all(&self) -> Result<Vec<(String, Vec<Record>)>, CliError> {
        let mut results = Vec::new();
        let mut wanted = Vec::new();
        for need in &NEEDS {
            wanted.push((need.scenario, self.scenario(need)?.text));
        }
        wanted.push((MANY_LINKS, Plan::TARGET.toml()));
        for (name, text) in wanted {
            let directory = self.results.join(name);
            if !directory.exists() {
                continue;
            }
            let found = ResultSet::read(&directory)?;
            if found.environment.version != program() {
                let (name, version) = (directory.display(), &found.environment.version);
                eprintln!("note: {name} was measured by another program, {version}");
            }
            match unfit(&found, &text) {
                Some(why) => eprintln!("note: {} is not judged: {why}", directory.display()),
                None => results.push((name.to_owned(), found.records)),
            }
        }
        Ok(results)
    }
}

/// Why a target cannot be judged by these results.
fn unfit(found: &ResultSet, scenario: &str) -> Option<&'static str> {
    if !found.environment.optimised {
        return Some("it was measured by a program without optimisation");
    }
    let is_other = found.scenario_toml != scenario;
    is_other.then_some("it was measured with another scenario, or other repeats, than asked for")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(only: &[&str]) -> CheckArgs {
        let only = only.iter().map(|name| (*name).to_owned()).collect();
        CheckArgs { results: PathBuf::new(), only, repeats: None, seed: None, judge: false }
    }

    #[test]
    fn every_need_can_be_measured_with_its_links() {
        let wanted = args(&[]).wanted().unwrap();
        assert_eq!(wanted.len(), NEEDS.len());
        for (need, scenario) in wanted {
            let has = |name: &&str| scenario.links.iter().any(|link| link.name == **name);
            assert!(need.links.iter().all(has), "{}", need.scenario);
        }
    }

    #[test]
    fn a_scenario_that_no_target_needs_is_refused_with_those_that_are_needed() {
        let error = args(&["quick"]).wanted().unwrap_err().to_string();
        assert!(error.contains("`quick`") && error.contains("drop-rate"), "{error}");
    }

    #[test]
    fn who_asks_for_some_scenarios_is_told_of_their_targets() {
        let targets = |only: &[&str]| {
            let verdicts = check::judge(&[], REPEATS).into_iter().map(|verdict| verdict.target);
            verdicts.filter(|target| args(only).decides(target)).collect::<Vec<_>>()
        };
        assert_eq!(targets(&[]).len(), 23);
        assert_eq!(targets(&["goodput", MANY_LINKS]), ["T4", "T10", "W2"]);
        assert_eq!(targets(&["drop-rate"]), ["T1", "T3", "T11", "E1"]);
        assert_eq!(targets(&["two-radios"]), ["M1"]);
        assert_eq!(targets(&["recorded", "fades", "thin-radio"]), ["R1", "R2", "R3", "R4"]);
        // Nothing that is judged is left to no scenario.
        let names: Vec<_> = NEEDS.iter().map(|need| need.scenario).chain([MANY_LINKS]).collect();
        assert_eq!(targets(&names).len(), 23);
    }

    #[test]
    fn an_interrupted_check_goes_on_as_a_check() {
        let results = PathBuf::from("there");
        let plain = CheckArgs { results, ..args(&[]) };
        assert_eq!(plain.command(), "arq-bench check --results there");
        let cut =
            CheckArgs { repeats: Some(1), seed: Some(3), ..args(&["goodput", "sack"]) }.command();
        assert!(cut.ends_with(" --only goodput,sack --repeats 1 --seed 3"), "{cut}");
    }

    #[test]
    fn nothing_measured_is_nothing_met() {
        let root = tempfile::tempdir().unwrap();
        let judged = CheckArgs {
            results: root.path().to_owned(),
            only: Vec::new(),
            repeats: None,
            seed: None,
            judge: true,
        };
        let error = run(&judged).unwrap_err().to_string();
        assert!(error.starts_with("not met: T1, T2"), "{error}");
    }
}
