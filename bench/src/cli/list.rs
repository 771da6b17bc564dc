// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! `arq-bench list`: what can be measured, how long does it take, and which links are there?

use std::time::Duration;

use arq_report::opponent;
use arq_report::scenario::{self, keys, Scenario};
use clap::Args;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};

/// `arq-bench list`
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only the links that scenarios can name.
    #[arg(long)]
    links: bool,
    /// The keys of a scenario file, as tables in Markdown.
    #[arg(long, conflicts_with = "links")]
    keys: bool,
    /// Prints the file of this scenario, to begin your own with.
    #[arg(conflicts_with_all = ["links", "keys"])]
    scenario: Option<String>,
}

/// Prints what was asked for.
pub(super) fn run(args: &ListArgs) -> Result<(), super::CliError> {
    if let Some(name) = &args.scenario {
        print!("{}", scenario::find(name)?.text);
        return Ok(());
    }
    match (args.links, args.keys) {
        (true, _) => println!("{}", links()),
        (false, true) => print!("{}", scenario_keys()),
        (false, false) => println!("{}", scenarios(&scenario::all())),
    }
    Ok(())
}

fn scenario_keys() -> String {
    let section =
        |table: keys::Table| format!("### `{}`\n\n{}\n", table.heading(), table.markdown());
    keys::Table::ALL.into_iter().map(section).collect()
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    table
}

fn scenarios(all: &[Scenario]) -> Table {
    let mut table = table(&["scenario", "what it answers", "runs", "about"]);
    for scenario in all {
        let runs = scenario.cells().len() * scenario.repeats as usize;
        table.add_row([
            scenario.name.clone(),
            scenario.question.clone(),
            runs.to_string(),
            duration(scenario.estimated_duration()),
        ]);
    }
    table
}

fn links() -> Table {
    let mut table = table(&["link", "locator", "what it is"]);
    for link in opponent::all() {
        table.add_row([link.name, link.endpoint, link.about]);
    }
    table
}

/// A duration as people say it.
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..=5_999 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_said_as_people_do() {
        let said = |seconds| duration(Duration::from_secs(seconds));
        assert_eq!(
            (said(95), said(100), said(7_200)),
            ("95 s".into(), "2 min".into(), "2.0 h".into())
        );
    }

    #[test]
    fn every_key_of_every_table_is_listed() {
        let listed = scenario_keys();
        for table in keys::Table::ALL {
            assert!(listed.contains(&format!("### `{}`\n", table.heading())));
            assert!(table.keys().all(|key| listed.contains(&format!("| `{}` |", key.name))));
        }
    }

    #[test]
    fn every_scenario_and_every_link_is_listed() {
        let listed = scenarios(&scenario::all()).to_string();
        assert!(scenario::all().iter().all(|scenario| listed.contains(&scenario.name)));
        let listed = links().to_string();
        assert!(opponent::all().iter().all(|link| listed.contains(&link.name)));
    }
}
