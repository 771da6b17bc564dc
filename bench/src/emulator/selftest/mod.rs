// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does the emulator do what it was asked for, on this machine, today?
//!
//! Everything is measured from outside, at sockets in the hosts, and compared with what was asked for, never with what
//! the emulator says of itself, but where the emulator's own word is what is tested.

mod limit;
mod loss;
mod probe;
mod row;
mod timing;
mod tools;

use std::process::ExitCode;
use std::time::Instant;

use clap::Args;

use super::{EmulatorError, Network, Scheduling};

pub use row::Row;

/// What `arq-bench selftest` can be told.
#[derive(Args, Clone, Copy, Debug)]
pub struct SelfTestArgs {
    /// Packets for each loss model and direction (1,000 or more); other tests scale with it.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    pub packets: u32,
    /// The first of the two seeds that are tried.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Tests the emulator and prints a table; exit code 1 when a test failed or could not be made at all.
pub fn run(args: &SelfTestArgs) -> ExitCode {
    let began = Instant::now();
    let rows = match test_all(args) {
        Ok(rows) => rows,
        Err(e) => {
            eprintln!("error: {e}");
            return ExitCode::FAILURE;
        }
    };
    println!("{}", row::table(&rows));
    println!("{}", summary(&rows, began.elapsed().as_secs()));
    if rows.iter().any(|row| row.passed == Some(false)) {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The tests by what they are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Which packets are lost.
    Loss,
    /// When they come, how fast, how often and in which order.
    Timing,
    /// What `ping` and `iperf3` see.
    Tools,
    /// What the emulator can carry.
    Limit,
}

impl Section {
    const ALL: [Self; 4] = [Self::Loss, Self::Timing, Self::Tools, Self::Limit];

    /// Makes the tests of this section on a network of two hosts.
    pub fn test(
        self,
        network: &mut Network,
        args: &SelfTestArgs,
    ) -> Result<Vec<Row>, EmulatorError> {
        match self {
            Self::Loss => loss::rows(network, args.packets, args.seed),
            Self::Timing => timing::rows(network, args.packets, args.seed),
            Self::Tools => tools::rows(network, args.seed),
            Self::Limit => limit::rows(network, args.seed),
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Timing => "delay, rate, duplication and order",
            Self::Tools => "ping and iperf3",
            Self::Limit => "its own limit",
        }
    }
}

fn test_all(args: &SelfTestArgs) -> Result<Vec<Row>, EmulatorError> {
    let mut network = Network::new(2)?;
    eprintln!("the emulator's thread: {}", describe(network.scheduling()));
    let mut rows = Vec::new();
    for (index, section) in Section::ALL.into_iter().enumerate() {
        eprintln!("{} of {}: {} …", index + 1, Section::ALL.len(), section.title());
        rows.extend(section.test(&mut network, args)?);
    }
    Ok(rows)
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
