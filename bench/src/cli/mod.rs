// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What can be asked of the bench on the command line?

mod campaign;
mod check;
mod compare;
mod emulator;
mod list;
mod many_links;
mod progress;
mod qlog;
mod report;
mod run;
mod selftest;

use std::process::ExitCode;

use arq_report::report::ReportError;
use arq_report::results::ResultsError;
use arq_report::scenario::ScenarioError;
use clap::{Parser, Subcommand};

use crate::links::FlawedLink;
use crate::many_links::Role;
use crate::traffic::{self, Load};

use campaign::CampaignError;
use emulator::NetworkError;

/// Compares zenoh's links, side by side, on networks that delay, lose and limit packets.
#[derive(Parser)]
#[command(
    version,
    after_help = "\
Start with `arq-bench quick`: a minute, no root needed where the kernel allows user namespaces.
The network is emulated beneath all links alike, on this machine; `arq-bench selftest` shows how exactly.
docs/benchmarking.md tells how to read the results and how to write a scenario of your own."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The quick comparison: 10 KB messages over arq, tcp, udp and quic while 0, 5 and 10 % of the packets are lost.
    Quick(run::QuickArgs),
    /// Measures a scenario, shows a table and writes the report.
    Run(run::RunArgs),
    /// What can be measured, and how long it takes.
    List(list::ListArgs),
    /// Writes the report of results that are there.
    Report(report::ReportArgs),
    /// Which figures of two result sets differ, and how surely?
    Compare(compare::CompareArgs),
    /// Judges the project's targets T1 to T12, W1, W2, E1, M1, R1 to R4, S1 and B1; the exit status tells whether all are met.
    Check(check::CheckArgs),
    /// What do a thousand links cost one process, most of them idle?
    ManyLinks(many_links::ManyLinksArgs),
    /// Draws what one side of a link did, from the qlog that QLOGDIR has brought.
    Qlog(qlog::QlogArgs),
    /// How exactly does the emulated network do what it is asked?
    Selftest(selftest::SelfTestArgs),
    /// The publishing half of a measurement.
    #[command(hide = true)]
    Publish {
        #[arg(value_parser = load)]
        load: Load,
    },
    /// One of the two processes of `many-links`.
    #[command(hide = true)]
    ManyLinksSide { role: Role },
    /// The subscribing half.
    #[command(hide = true)]
    Subscribe {
        #[arg(value_parser = load)]
        load: Load,
    },
}

/// This program, to be started anew. A path would name whatever has been built there since, and a run takes hours. Not
/// the link of this very process, which nobody may follow from inside a user namespace: `self` is the child itself,
/// which is still this program when it opens it.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Why a command failed, in words for the one who typed it.
#[derive(Debug, thiserror::Error)]
enum CliError {
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Campaign(#[from] CampaignError),
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error(transparent)]
    ManyLinks(#[from] crate::many_links::Error),
    #[error("not one run could be measured; the reasons are above")]
    NothingMeasured,
    #[error("{0}")]
    Targets(String),
    #[error("{0}")]
    Qlog(String),
    #[error(transparent)]
    Link(#[from] FlawedLink),
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// What was printed says it.
    #[error("not passed")]
    NotPassed,
}

/// Of a command that prints its verdict itself.
fn passed(passed: Result<bool, CliError>) -> Result<(), CliError> {
    passed?.then_some(()).ok_or(CliError::NotPassed)
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    zenoh::init_log_from_env_or("error");
    let done = match Arguments::parse().command {
        Command::Quick(args) => run::quick(&args),
        Command::Run(args) => run::run(&args),
        Command::List(args) => list::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Compare(args) => passed(compare::run(&args)),
        Command::Check(args) => check::run(&args),
        Command::ManyLinks(args) => many_links::run(&args),
        Command::ManyLinksSide { role } => {
            crate::many_links::serve(role);
            Ok(())
        }
        Command::Qlog(args) => qlog::run(&args),
        Command::Selftest(args) => passed(selftest::run(&args).map_err(CliError::from)),
        Command::Publish { load } => {
            traffic::publish(&load);
            Ok(())
        }
        Command::Subscribe { load } => {
            traffic::subscribe(&load);
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(CliError::NotPassed) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn load(text: &str) -> Result<Load, String> {
    serde_json::from_str(text).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
