// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! `arq-bench run` and `arq-bench quick`: from a scenario's name to the path of its report.

use std::path::{Path, PathBuf};

use arq_report::results::ResultSet;
use arq_report::scenario::{self, Scenario};
use arq_report::summary;
use clap::Args;

use super::campaign::Campaign;
use super::report::{self, Results};
use super::CliError;
use crate::links;

/// Where results go when nothing else is said, below the current directory.
const RESULTS: &str = "arq-bench-results";
const DEFAULT_SEED: u64 = 1;

/// `arq-bench run`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  arq-bench run drop-rate                          the whole experiment; `list` tells how long it takes
  arq-bench run drop-rate --links arq,tcp-bbr      only these links
  arq-bench run goodput --repeats 1 --scale 0.2    a look at it: a fifth of the messages, once
  arq-bench run ./my-scenario.toml                 your own: docs/benchmarking.md shows how to write it
  arq-bench run drop-rate --out DIR                goes on with what was interrupted in DIR")]
pub(super) struct RunArgs {
    /// A scenario of `arq-bench list`, or the path of a file.
    scenario: String,
    #[command(flatten)]
    options: Options,
}

/// `arq-bench quick`
#[derive(Debug, Args)]
pub(super) struct QuickArgs {
    #[command(flatten)]
    options: Options,
}

/// What both take.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Options {
    /// Only these links, by their names in bench/links.toml.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    links: Vec<String>,
    /// How often each cell is measured, instead of as often as the scenario says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: Option<u32>,
    /// That many times the messages (or the time) of the scenario. Events and starts of flows keep their times.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = scale)]
    scale: f64,
    /// Decides losses, delays, payloads and the order of the links [default: 1, or that of the run gone on with].
    #[arg(long)]
    seed: Option<u64>,
    /// Where the results go; a run that was interrupted there goes on [default: the next free folder below
    /// arq-bench-results].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (0.001..=1000.0).contains(&factor) => Ok(factor),
        _ => Err("0.001 to 1000".to_owned()),
    }
}

/// Runs the named scenario.
pub(super) fn run(args: &RunArgs) -> Result<(), CliError> {
    run_scenario(&scenario::find(&args.scenario)?, &args.scenario, &args.options)
}

/// Runs the quick comparison.
pub(super) fn quick(args: &QuickArgs) -> Result<(), CliError> {
    const QUICK: &str = "quick";
    run_scenario(&scenario::find(QUICK)?, QUICK, &args.options)
}

fn run_scenario(scenario: &Scenario, named: &str, options: &Options) -> Result<(), CliError> {
    let campaign = options.campaign(scenario, named)?;
    links::check(&campaign.scenario)?;
    announce(&campaign);
    let results = campaign.run()?;
    if results.records.is_empty() {
        return Err(CliError::NothingMeasured);
    }
    let anything = results.is_anything_measured();
    show(&results);
    let report = report::write(&campaign.directory, &[Results::of(&campaign.scenario, results)])?;
    println!("results: {}\nreport:  {}", campaign.directory.display(), report.display());
    match anything {
        true => Ok(()),
        false => Err(CliError::NothingMeasured),
    }
}

/// Measures a scenario as it is into `directory`, or goes on there; `go_on` is what to type after an interruption.
pub(super) fn measure_into(
    scenario: &Scenario,
    directory: &Path,
    seed: Option<u64>,
    go_on: &str,
) -> Result<ResultSet, CliError> {
    let campaign = campaign_into(scenario, directory, seed, go_on);
    announce(&campaign);
    Ok(campaign.run()?)
}

/// The links of the scenario have been chosen; the command tells of them all the same.
fn campaign_into(
    scenario: &Scenario,
    directory: &Path,
    seed: Option<u64>,
    go_on: &str,
) -> Campaign {
    let links = scenario.links.iter().map(|link| link.name.clone()).collect();
    let out = Some(directory.to_owned());
    let options = Options { links, repeats: None, scale: 1.0, seed, out };
    let campaign = options.campaign_of(scenario.clone(), &scenario.name);
    Campaign { go_on: go_on.to_owned(), ..campaign }
}

impl Options {
    fn campaign(&self, scenario: &Scenario, named: &str) -> Result<Campaign, CliError> {
        let mut scenario = scenario.clone();
        if !self.links.is_empty() {
            scenario = scenario.with_links(&self.links)?;
        }
        if self.scale != 1.0 || self.repeats.is_some() {
            scenario = scenario.scaled(self.scale, self.repeats)?;
        }
        Ok(self.campaign_of(scenario, named))
    }

    /// Of a scenario that is cut down already.
    fn campaign_of(&self, scenario: Scenario, named: &str) -> Campaign {
        let directory = match &self.out {
            Some(directory) => directory.clone(),
            None => next_free(Path::new(RESULTS), &scenario.name),
        };
        let seed = self.seed.or_else(|| seed_in(&directory)).unwrap_or(DEFAULT_SEED);
        let command = self.command(named, seed);
        let go_on = format!("{command} --out {}", directory.display());
        Campaign { scenario, directory, seed, command, go_on }
    }

    /// What to type to measure the same again.
    fn command(&self, scenario: &str, seed: u64) -> String {
        let mut command = format!("arq-bench run {scenario} --seed {seed}");
        if !self.links.is_empty() {
            command.push_str(&format!(" --links {}", self.links.join(",")));
        }
        if let Some(repeats) = self.repeats {
            command.push_str(&format!(" --repeats {repeats}"));
        }
        if self.scale != 1.0 {
            command.push_str(&format!(" --scale {}", self.scale));
        }
        command
    }
}

fn announce(campaign: &Campaign) {
    let Campaign { scenario, directory, seed, .. } = campaign;
    let links: Vec<_> = scenario.links.iter().map(|link| link.name.as_str()).collect();
    eprintln!(
        "{}: {}\n{} over {}; {} runs, about {}; seed {seed}; results in {}",
        scenario.title,
        scenario.question,
        scenario.name,
        links.join(", "),
        scenario.schedule(*seed).len(),
        super::list::duration(scenario.estimated_duration()),
        directory.display()
    );
    if cfg!(debug_assertions) {
        eprintln!(
            "note: built without optimisation; figures are worth little (cargo run --release)"
        );
    }
}

fn show(results: &ResultSet) {
    let summaries = summary::of(&results.records);
    println!("{}", summary::table(&summaries));
    if results.is_anything_measured() {
        println!("{}\n", summary::in_short(&summaries));
    }
    if let Some(stolen) = summary::stolen(&results.records) {
        println!("{stolen}\n");
    }
    // Only one scenario runs TCP with and without selective acknowledgement.
    let rows = summary::retransmissions::rows(&summaries);
    rows.iter().filter(|row| row.without_sack.is_some()).for_each(|row| println!("{row}"));
}

/// The first folder of this scenario that does not exist yet.
fn next_free(root: &Path, scenario: &str) -> PathBuf {
    let numbered = |number: u32| root.join(format!("{scenario}-{number:03}"));
    (1..).map(numbered).find(|path| !path.exists()).unwrap_or_else(|| root.join(scenario))
}

/// The seed of the results that are in `directory`.
fn seed_in(directory: &Path) -> Option<u64> {
    ResultSet::read(directory).ok().map(|results| results.environment.seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_numbered_and_none_is_taken_twice() {
        let root = tempfile::tempdir().unwrap();
        let first = next_free(root.path(), "quick");
        assert!(first.ends_with("quick-001"));
        std::fs::create_dir(first).unwrap();
        assert!(next_free(root.path(), "quick").ends_with("quick-002"));
        assert!(next_free(root.path(), "drop-rate").ends_with("drop-rate-001"));
    }

    #[test]
    fn the_command_repeats_what_was_asked() {
        let options = Options {
            links: vec!["arq".to_owned(), "udp".to_owned()],
            repeats: Some(2),
            scale: 0.5,
            ..Options::default()
        };
        assert_eq!(
            options.command("drop-rate", 7),
            "arq-bench run drop-rate --seed 7 --links arq,udp --repeats 2 --scale 0.5"
        );
        let plain = Options { scale: 1.0, ..Options::default() };
        assert_eq!(plain.command("quick", 1), "arq-bench run quick --seed 1");
    }

    #[test]
    fn what_a_check_measures_can_be_typed_and_gone_on_with() {
        let root = tempfile::tempdir().unwrap();
        let links = vec!["arq".to_owned(), "udp".to_owned()];
        let whole = scenario::find("ping-pong").unwrap();
        let chosen = whole.with_links(&links).unwrap();
        let check = campaign_into(&chosen, root.path(), None, "arq-bench check");
        assert_eq!(check.command, "arq-bench run ping-pong --seed 1 --links arq,udp");
        assert_eq!(check.go_on, "arq-bench check");
        // To the letter: results of another scenario are not gone on with.
        let out = Some(root.path().to_owned());
        let options = Options { links, scale: 1.0, out, ..Options::default() };
        let typed = options.campaign(&whole, "ping-pong").unwrap();
        assert_eq!(typed.scenario.text, check.scenario.text);
        let words = format!("{} --out {}", check.command, root.path().display());
        assert_eq!(typed.go_on, words);
    }

    #[test]
    fn a_scale_out_of_range_names_the_range() {
        assert_eq!(scale("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "1e9", "much"] {
            assert_eq!(scale(wrong), Err("0.001 to 1000".to_owned()));
        }
    }
}
