// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What does a vehicle know of the others, from what arrives? The program `v2v_monitor`.

mod awareness;
mod book;
mod encounters;
mod hazards;
mod report;

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use parking_lot::Mutex;
use zenoh::sample::{Locality, Sample};
use zenoh::{Session, Wait};

use super::clock;
use super::stop::{Stop, StopArgs};
use super::traffic::parse_key;
use super::vehicle::{check_vehicle, Fleet};
use super::world::{World, WorldArgs};
use crate::{say, CommonArgs};

pub use awareness::{Awareness, Deadlines, Known};
pub use book::Book;
pub use encounters::{approach, believed_approach, Approach, EncounterBook, Encounters};
pub use hazards::{HazardBook, HazardCount, HazardEntry};
pub use report::{
    time, Ages, Collision, Report, Shown, VehicleReport, Warning, WarningKind, STALE_MS,
};

/// A report is made so often.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// One of so many is printed for people.
const PRINT_EVERY: u64 = 10;

/// The arguments of `v2v_monitor`.
#[derive(Args, Clone, Debug)]
pub struct MonitorArgs {
    /// The vehicle that it rides in.
    #[arg(short, long, default_value_t = 0)]
    pub vehicle: u32,
    /// Publish the messages of that vehicle, too.
    #[arg(long)]
    pub publish: bool,
    /// Print each report (ten a second) as a line of JSON.
    #[arg(long)]
    pub json: bool,
    /// The name of the link in reports [default: the first endpoint].
    #[arg(long)]
    pub link: Option<String>,
    #[command(flatten)]
    world: WorldArgs,
    #[command(flatten)]
    stop: StopArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Runs until it is stopped.
pub fn run(args: &MonitorArgs) -> zenoh::Result<()> {
    check_vehicle(args.vehicle, &args.world)?;
    let stop = Stop::listen(&args.stop)?;
    let world = World::new(args.world);
    let session = stop.while_opening(|| args.common.open_silently())?;
    let link = args.link.clone().unwrap_or_else(|| first_endpoint(&args.common));
    let book = Arc::new(Mutex::new(Book::new(world.clone(), args.vehicle, link, clock::now())));
    listen(&session, &book)?;
    let fleet = match args.publish {
        true => Some(Fleet::start(&session, &world, &[args.vehicle], 0, &stop)?),
        false => None,
    };
    if !args.json {
        say!("Listening for v2v/*/*. Press CTRL-C to stop.");
    }
    tell(&book, args.json, &stop);
    stop.now();
    if let Some(fleet) = fleet {
        fleet.join();
    }
    session.close().wait()
}

/// Notes what the other vehicles say.
fn listen(session: &Session, book: &Arc<Mutex<Book>>) -> zenoh::Result<()> {
    let book = Arc::clone(book);
    let note = move |sample: Sample| {
        let arrived = clock::now();
        let Some((vehicle, kind)) = parse_key(sample.key_expr().as_str()) else {
            return;
        };
        let payload = sample.payload().to_bytes();
        let stamp = sample.attachment().map(|stamp| stamp.to_bytes()).unwrap_or_default();
        let mut book = book.lock();
        book.hear(vehicle, kind, &payload, &stamp, arrived);
    };
    let subscriber = session.declare_subscriber("v2v/*/*").allowed_origin(Locality::Remote);
    subscriber.callback(note).background().wait()
}

/// Prints reports until it is time to stop, or nobody reads them any more.
fn tell(book: &Mutex<Book>, json: bool, stop: &Stop) {
    let mut due = Instant::now();
    loop {
        due += REPORT_EVERY;
        if stop.wait_for(due.saturating_duration_since(Instant::now())) {
            return;
        }
        // A machine that was asleep does not catch up.
        due = due.max(Instant::now().checked_sub(REPORT_EVERY).unwrap_or(due));
        let report = book.lock().report(clock::now());
        let words = match json {
            true => serde_json::to_string(&report).unwrap_or_default() + "\n",
            false if report.number.is_multiple_of(PRINT_EVERY) => on_the_screen(&report),
            false => continue,
        };
        let mut out = std::io::stdout().lock();
        if out.write_all(words.as_bytes()).and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

/// A report in the place of the one before, where there is a screen.
fn on_the_screen(report: &Report) -> String {
    // While nobody was heard, what stands there may say why.
    let clears = report.vehicles.iter().any(|vehicle| vehicle.age_ms.is_some());
    let begin = if clears && std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    format!("{begin}{report}\n")
}

fn first_endpoint(common: &CommonArgs) -> String {
    let endpoints = common.listen.iter().chain(&common.connect);
    endpoints.map(String::as_str).next().unwrap_or("zenoh").to_owned()
}
