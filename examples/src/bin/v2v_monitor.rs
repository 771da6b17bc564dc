// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What a vehicle knows of the others, from what arrives.

use std::process::ExitCode;

use arq_examples::v2v::monitor::{self, MonitorArgs};
use arq_examples::{run, teach};
use clap::Parser;

/// What a vehicle knows of the others: the age of its information, beacons late or lost, hazards, collisions ahead.
///
/// Vehicles of one --seed and --vehicles drive through one town; where each is follows from the time of day.
#[derive(Parser)]
#[command(version, after_help = teach!("  v2v_monitor -l 'arq/0.0.0.0:7447#preset=v2v' --vehicles 3\n  v2v_vehicle -v 1 -v 2 -e 'arq/127.0.0.1:7447#preset=v2v' --vehicles 3"))]
struct Arguments {
    #[command(flatten)]
    monitor: MonitorArgs,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(|| monitor::run(&arguments.monitor))
}
