// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! `arq-bench selftest`: does the emulated network do what it was asked for, on this machine, today?

use std::time::Instant;

use clap::Args;
use comfy_table::{presets, Table};
use netlab::selftest::{Plan, Row, Section};
use netlab::Scheduling;

use super::emulator::{network, NetworkError};

/// `arq-bench selftest`
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct SelfTestArgs {
    /// Packets for each loss model and direction (1,000 or more); other tests scale with it.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    packets: u32,
    /// The first of the two seeds that are tried.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Tests the emulator and prints a table; whether nothing failed.
pub(super) fn run(args: &SelfTestArgs) -> Result<bool, NetworkError> {
    let began = Instant::now();
    let rows = test_all(Plan { packets: args.packets, seed: args.seed })?;
    println!("{}", table(&rows));
    println!("{}", summary(&rows, began.elapsed().as_secs()));
    Ok(rows.iter().all(|row| row.passed != Some(false)))
}

fn test_all(plan: Plan) -> Result<Vec<Row>, NetworkError> {
    let mut network = network(&netlab::wire::Conditions::default())?;
    eprintln!("the emulator's thread: {}", describe(network.scheduling()));
    let mut rows = Vec::new();
    for (index, section) in Section::ALL.into_iter().enumerate() {
        eprintln!("{} of {}: {} …", index + 1, Section::ALL.len(), section.title());
        rows.extend(section.test(&mut network, &plan)?);
    }
    Ok(rows)
}

/// The rows as a table for people.
fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["test", "asked", "measured", "allowed", ""]);
    for row in rows {
        let verdict = match row.passed {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "SKIPPED",
        };
        table.add_row([&row.name, &row.asked, &row.measured, &row.allowed, verdict]);
    }
    table
}

fn summary(rows: &[Row], seconds: u64) -> String {
    let count = |verdict| rows.iter().filter(|row| row.passed == verdict).count();
    let (passed, failed, skipped) = (count(Some(true)), count(Some(false)), count(None));
    let mut text = format!("{passed} passed, {failed} failed, {skipped} skipped, in {seconds} s");
    if failed > 0 {
        text.push_str("\nIf only times failed: is the machine busy with something else?");
    }
    text
}

fn describe(scheduling: Option<Scheduling>) -> &'static str {
    match scheduling {
        None => "none, the kernel's netem is tested: rows that need a seed or a packet log must fail",
        Some(Scheduling::RealTime) => "real time, before all ordinary threads",
        Some(Scheduling::Nice) => "preferred by nice",
        Some(Scheduling::Ordinary) => "ordinary (real time needs root or `ulimit -r`): departures may be late on a busy machine",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_test_cannot_be_taken_for_a_passed_one() {
        let none = || "-".to_owned();
        let measured = "not installed".to_owned();
        let skipped =
            Row { name: "iperf3".into(), asked: none(), measured, allowed: none(), passed: None };
        let table = table(&[skipped]).to_string();
        assert!(table.contains("SKIPPED") && table.contains("not installed"), "{table}");
    }
}
