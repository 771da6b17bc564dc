// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What arrives over `udp/`, `tcp/` and `arq/` when the network drops packets? One command, one table.

mod args;
mod delivery;
mod run;
mod table;
mod verdict;

use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::lab::{Lab, LabError};
use crate::measure::{MeasureError, Progress};

pub use args::DemoArgs;
use args::Link;
use delivery::Delivery;

/// One link at one loss rate.
#[derive(Clone, Debug)]
struct Cell {
    link: Link,
    drop_percent: f64,
}

/// What became of a cell.
struct Outcome {
    cell: Cell,
    /// The share of packets that really was dropped, and the summary; or why the cell could not run.
    result: Result<(f64, Delivery), MeasureError>,
}

/// Runs the demonstration; exit code 1 when a cell could not run.
pub fn run(args: &DemoArgs) -> ExitCode {
    let lab = match prepare(args) {
        Ok(lab) => lab,
        Err(e) => {
            eprintln!("error: {e}");
            return ExitCode::FAILURE;
        }
    };
    println!("{}", introduction(args));
    let mut outcomes: Vec<_> = args
        .shuffled_cells()
        .into_iter()
        .enumerate()
        .map(|(index, cell)| measure(&lab, args, index, cell))
        .collect();
    outcomes.sort_by_key(|outcome| position(args, &outcome.cell));
    println!("\n{}\n\n{}", table::of(&outcomes), verdict::of(&outcomes));
    if outcomes.iter().any(|outcome| outcome.result.is_err()) {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn prepare(args: &DemoArgs) -> Result<Lab, LabError> {
    let lab = Lab::new(2)?;
    for host in [0, 1] {
        lab.host(host).set_tcp_congestion_control(&args.tcp_control)?;
    }
    Ok(lab)
}

fn introduction(args: &DemoArgs) -> String {
    format!(
        "{} messages of {} bytes, {} a second, from one host to another; each of their IP packets is dropped with the\n\
         probability below, in both directions, beneath every link. No added delay. tcp/ runs the kernel's {}.\n\
         Reliable, congestion control Block, stock settings but for patience (lease and close time-out 60 s).\n\
         Latency counts from the moment when a message was meant to leave; what has not come {:?} after the last\n\
         departure is lost. Payload and order of the rows from seed {}.\n",
        args.messages(),
        args.size,
        args.rate,
        args.tcp_control,
        args.grace(),
        args.seed
    )
}

fn measure(lab: &Lab, args: &DemoArgs, index: usize, cell: Cell) -> Outcome {
    // A port of its own for each cell: no packet of the one before can reach it.
    let port = 7447 + u16::try_from(index).unwrap_or(0);
    let bar = progress_bar(&cell, args.messages());
    let show = |progress: Progress| {
        bar.set_message(format!("{} sent", progress.sent));
        bar.set_position(progress.received);
    };
    let delivery = run::run(lab, args, &cell.link, port, cell.drop_percent / 100.0, &show);
    bar.finish();
    if bar.is_hidden() {
        // No terminal, no bar: say at least that this one is done.
        eprintln!("{}: {} of {} arrived", bar.prefix(), bar.position(), args.messages());
    }
    let result = delivery.and_then(|delivery| {
        let (a, b) = (lab.host(0).packet_count()?, lab.host(1).packet_count()?);
        Ok(((a + b).drop_share(), delivery))
    });
    Outcome { cell, result }
}

fn progress_bar(cell: &Cell, messages: u64) -> ProgressBar {
    let template = "{prefix:<22} {bar:30} {pos:>5}/{len} arrived, {msg}";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let prefix = format!("{} at {} % drop", cell.link, cell.drop_percent);
    ProgressBar::new(messages).with_style(style).with_prefix(prefix)
}

/// Where a cell stands in the table: by loss, then in the order in which the links were named.
fn position(args: &DemoArgs, cell: &Cell) -> (usize, usize) {
    let drop = args.drop.iter().position(|percent| *percent == cell.drop_percent);
    let link = args.links.iter().position(|link| *link == cell.link);
    (drop.unwrap_or(usize::MAX), link.unwrap_or(usize::MAX))
}

impl DemoArgs {
    fn shuffled_cells(&self) -> Vec<Cell> {
        let cell = |drop_percent| move |link: &Link| Cell { link: link.clone(), drop_percent };
        let mut cells: Vec<_> =
            self.drop.iter().flat_map(|&percent| self.links.iter().map(cell(percent))).collect();
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        for last in (1..cells.len()).rev() {
            cells.swap(last, random.next_u32() as usize % (last + 1));
        }
        cells
    }
}
