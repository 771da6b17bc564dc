// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What do two links make of the same traffic on the same bad radio? The program `v2v_demo`.
//!
//! For each link a stage is set: an emulated network where every vehicle has a host of its own, a `v2v_monitor` in
//! the first, a `v2v_vehicle` in each other. Both stages have the same world, so the same vehicles are at the same
//! places at the same time, and the same [`radio`](super::radio) below. The director moves the radio with the
//! vehicles and makes one [`View`] of all, ten times a second; the server shows it as a page.

mod director;
mod link;
mod server;
mod stage;
mod view;

use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::monitor::{self, MonitorArgs};
use super::radio::Impairment;
use super::stop::{Stop, StopArgs};
use super::vehicle::{self, VehicleArgs};
use super::world::WorldArgs;
use crate::say;

pub use director::Controls;
use director::Director;
pub use link::{choose, Against, Contender};
use server::Shared;
pub use stage::{Stage, StageError};
pub use view::{LinkView, RadioUse, TownMap, VehicleView, View};

/// Vehicles that talk over a lossy radio: arq/ beside a link of stock zenoh, on a page in your browser.
#[derive(Parser, Debug)]
#[command(version, after_help = HELP, override_usage = "v2v_demo [OPTIONS]", disable_help_subcommand = true)]
pub struct DemoArgs {
    #[command(flatten)]
    world: WorldArgs,
    /// The link that arq/ is shown beside.
    #[arg(long, value_enum, default_value_t)]
    against: Against,
    /// Seals what arq/ sends: TLS with a certificate of an authority that this run makes and forgets.
    #[arg(long)]
    secure: bool,
    /// Where the page is served.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8088")]
    page: SocketAddr,
    /// Packets lost beside those that distance loses, per cent (0 to 60).
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    drop: f64,
    /// The least mean length of a burst of losses, packets (1 to 20).
    #[arg(long, value_name = "PACKETS", default_value_t = 1.0)]
    burst: f64,
    /// Added to the radio's delay in each direction, milliseconds (0 to 200).
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    delay: f64,
    /// Radios fade: all is lost for a second on the mean, a fifth of the time.
    #[arg(long)]
    fades: bool,
    /// Radios of each vehicle; arq/ uses both at once (paths=eth0,eth1), the other link the first.
    #[arg(long, value_name = "1|2", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    radios: u8,
    /// Pictures that every vehicle but the monitored one sends beside its messages, kilobits per second.
    #[arg(long, value_name = "KBPS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    camera: u32,
    #[command(flatten)]
    stop: StopArgs,
    #[command(subcommand)]
    role: Option<Role>,
}

/// The parts that this program plays inside the emulated network.
#[derive(Subcommand, Debug)]
enum Role {
    #[command(hide = true)]
    Vehicle(Box<VehicleArgs>),
    #[command(hide = true)]
    Monitor(Box<MonitorArgs>),
}

/// The emulated network has 64 radios, of which the monitor's vehicle takes one.
const MOST_WITH_TWO_RADIOS: u32 = 32;

const HELP: &str = "\
Examples:
  v2v_demo                                   arq/ beside tcp/, nine vehicles, http://127.0.0.1:8088
  v2v_demo --drop 20 --burst 4               a worse radio from the start; sliders on the page change it
  v2v_demo --against quic --vehicles 20      another opponent, more traffic
  v2v_demo --secure --against quic           both links sealed, with certificates of this run
  v2v_demo --fades --radios 2                radios that fade: one stops the beacons, two do not; switches on the page
  v2v_demo --duration 60 --page 127.0.0.1:0  a minute, on any free port

Every vehicle is a zenoh session in a network namespace of its own; packets are lost below every link alike, by
distance (0.5 % up to 200 m, 6 % at 350 m, 62 % at 500 m). Linux; no root where user namespaces are allowed.
The parts can be run by hand: v2v_vehicle --help, v2v_monitor --help.";

/// Runs the demo, or the part of it that was asked for.
pub fn main() -> ExitCode {
    let args = DemoArgs::parse();
    crate::run(move || match &args.role {
        Some(Role::Vehicle(vehicle)) => vehicle::run(vehicle),
        Some(Role::Monitor(monitor)) => monitor::run(monitor),
        None => demo(&args),
    })
}

fn demo(args: &DemoArgs) -> zenoh::Result<()> {
    let added = Impairment {
        drop_percent: args.drop,
        burst_packets: args.burst,
        delay_ms: args.delay,
        fades: args.fades,
        second: args.radios == 2,
    };
    let added = added.check().map_err(|error| format!("{error} (--drop, --burst, --delay)"))?;
    if args.radios == 2 && args.world.vehicles > MOST_WITH_TWO_RADIOS {
        return Err(format!("--radios 2 takes at most {MOST_WITH_TWO_RADIOS} --vehicles").into());
    }
    let controls = Controls::new(added);
    // What can fail at once comes before what takes seconds.
    let listener = bind(args.page)?;
    let page = listener.local_addr()?;
    let stop = Stop::listen(&args.stop)?;
    say!("Setting up {} vehicles on two emulated radios...", args.world.vehicles);
    let stages = choose(args.against, args.secure, args.radios)?
        .into_iter()
        .map(|contender| Stage::set(contender, args.world))
        .collect::<Result<Vec<_>, _>>()?;
    let director = Director::start(stages, args.world, &added, args.camera)?;
    let (views, shown) = view::channel();
    let server = server::start(listener, Shared::new(controls.clone(), shown, args.radios)?)?;
    say!("The page is at http://{page} (Ctrl-C ends the demo).");
    let directed = director.direct(&controls, &views, &stop);
    stop.now();
    drop(views);
    let _ = server.join();
    directed
}

fn bind(page: SocketAddr) -> zenoh::Result<TcpListener> {
    TcpListener::bind(page).map_err(|e| {
        format!("the page cannot be served at {page}: {e}. Choose another with --page 127.0.0.1:0 (any free port)")
            .into()
    })
}
