// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! The commands of the bench.

use std::process::ExitCode;

use arq_bench::demo::DemoArgs;
use arq_bench::traffic::{publish, subscribe, Load};
use clap::{Parser, Subcommand};

/// Measures zenoh's links on networks that lose packets.
#[derive(Parser)]
#[command(
    version,
    after_help = "Start with `arq-bench demo`: under a minute, no root needed where user namespaces are allowed."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows what arrives over udp/, tcp/ and arq/ when the network drops packets.
    Demo(DemoArgs),
    /// The publishing half of a measurement.
    #[command(hide = true)]
    Publish {
        #[arg(value_parser = load)]
        load: Load,
    },
    /// The subscribing half.
    #[command(hide = true)]
    Subscribe {
        #[arg(value_parser = load)]
        load: Load,
    },
}

fn main() -> ExitCode {
    zenoh::init_log_from_env_or("error");
    match Arguments::parse().command {
        Command::Demo(arguments) => arq_bench::demo::run(&arguments),
        Command::Publish { load } => {
            publish(&load);
            ExitCode::SUCCESS
        }
        Command::Subscribe { load } => {
            subscribe(&load);
            ExitCode::SUCCESS
        }
    }
}

fn load(text: &str) -> Result<Load, String> {
    serde_json::from_str(text).map_err(|e| e.to_string())
}
