// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! A vehicle that tells others where it is and what it warns of.

use std::process::ExitCode;

use arq_examples::v2v::vehicle::{self, VehicleArgs};
use arq_examples::{run, teach};
use clap::Parser;

/// A vehicle that tells others where it is (CAM), what it warns of (DENM) and what it sees (CPM).
///
/// Vehicles of one --seed and --vehicles drive through one town; where each is follows from the time of day.
#[derive(Parser)]
#[command(version, after_help = teach!("  v2v_monitor -l 'arq/0.0.0.0:7447#preset=v2v' --vehicles 3\n  v2v_vehicle -v 1 -v 2 -e 'arq/127.0.0.1:7447#preset=v2v' --vehicles 3"))]
struct Arguments {
    #[command(flatten)]
    vehicle: VehicleArgs,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(|| vehicle::run(&arguments.vehicle))
}
