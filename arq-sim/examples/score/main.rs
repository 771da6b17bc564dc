// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does a congestion controller make of every kind of path, alone and beside others?
//!
//! One table decides about the controllers' rules: paths x flows x seeds, in virtual time. `--help` says how to read it.

#![allow(clippy::unwrap_used, reason = "a program for developers, which ends where it fails")]

mod cells;
mod paths;
mod run;
mod table;

use std::{path::PathBuf, process::ExitCode};

use arq_proto::CongestionConfig;
use arq_sim::parallel;
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use cells::Cell;
use run::Outcome;
use table::Row;

/// Which controller is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Controller {
    Tolerant,
    Cubic,
    Aimd,
}

impl Controller {
    fn config(self) -> CongestionConfig {
        match self {
            Self::Tolerant => CongestionConfig::Tolerant,
            Self::Cubic => CongestionConfig::Cubic,
            Self::Aimd => CongestionConfig::Aimd,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Tolerant => "tolerant",
            Self::Cubic => "cubic",
            Self::Aimd => "aimd",
        }
    }
}

/// Judges a congestion controller on some 60 paths, alone and beside others, in virtual time.
///
/// A cell is a path and who is on it. `20M 20ms q1 5% | 4`: 20 Mb/s, a round trip of 20 ms, a queue of one product of
/// both, 5 % of all packets lost in each direction; four flows of ours. The others: `c` one of ours beside a CUBIC flow,
/// `v1` and `v3` beside a model of BBRv1 and BBRv3, `s` beside short flows that take a fifth of the rate, `x` four of
/// ours of which two come and go, `8u` eight with round trips of one to two times the path's.
///
/// Every flow of ours sends bulk without end (priority Data); the first also a beacon of 300 bytes each 50 ms (RealTime).
#[derive(Debug, Parser)]
#[command(after_long_help = "\
COLUMNS (means over the seeds, +- the standard error):
  goodput  bytes of use of all flows, as a share of what the path delivers: rate x (1 - loss), or the recording's
           opportunities. Headers count against it: 0.95 is all there is.
  queue    99th percentile of the time in the bottleneck's queue and on the wire, ms.
  beacon   99th percentile of the beacon's latency, ms; `bound`: the oracle's, who knows all fades and opportunities and
           has the path alone.
  bytes    bytes of UDP payload that ours sent for each byte of use that arrived.
  jain     Jain's index of our flows; `least`: the least flow's goodput as a share of an equal one; `ours`: our share of
           the goodput of all.
  !        the figure misses target S1: goodput 0.9 (of what headers leave), bytes 1.08 / (1 - loss), jain 0.9, least
           0.25, queue half a product where no other keeps it full and no recording stalls, ours 0.3 to 0.7 beside one.
  change   what differs from the table in git by more than two standard errors of the difference, in such errors.

EXAMPLES:
  score                       the whole table for `tolerant`, compared with arq-sim/score-tolerant.csv
  score --only taxi           the cells whose names contain it
  score --seeds 2 --only c    quick and rough
  score --cc cubic --write    renews arq-sim/score-cubic.csv
  ARQ_TRACES=../traces score  with recordings that are not part of the project")]
struct Arguments {
    /// Only cells whose name contains this; may be given several times.
    #[arg(long, value_name = "SUBSTRING")]
    only: Vec<String>,
    /// Runs of each cell.
    #[arg(long, default_value_t = 8, value_name = "N")]
    seeds: u64,
    /// The controller of our flows.
    #[arg(long, value_enum, default_value = "tolerant")]
    cc: Controller,
    /// Writes the table to the file in git (all cells and seeds, please).
    #[arg(long)]
    write: bool,
    /// Names the cells and ends.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let chosen = |cell: &Cell| {
        arguments.only.is_empty() || arguments.only.iter().any(|part| cell.name().contains(part))
    };
    let cells: Vec<_> = cells::all().into_iter().filter(chosen).collect();
    if arguments.list || cells.is_empty() {
        cells.iter().for_each(|cell| println!("{}", cell.name()));
        return if arguments.list { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(format!("score-{}.csv", arguments.cc.name()));
    let before = table::read(&file);
    let rows = rows(&cells, &arguments);
    print!("{}", table::render(&rows, &before));
    if arguments.write {
        table::write(&file, &rows).unwrap();
        println!("written to {}", file.display());
    }
    ExitCode::SUCCESS
}

/// Runs every cell with every seed on all processors.
fn rows(cells: &[Cell], arguments: &Arguments) -> Vec<Row> {
    let seeds = arguments.seeds.max(1);
    let mut runs: Vec<_> =
        (0..cells.len()).flat_map(|cell| (1..=seeds).map(move |seed| (cell, seed))).collect();
    // Long ones first, so that no processor is idle at the end.
    runs.sort_by_key(|&(cell, _)| std::cmp::Reverse(cells[cell].packets()));
    let bar = ProgressBar::new(runs.len() as u64).with_style(
        ProgressStyle::with_template("{elapsed_precise} {wide_bar} {pos}/{len} runs, {eta} left")
            .unwrap(),
    );
    let outcomes = parallel::map(&runs, |&(cell, seed)| {
        let outcome = run::run(&cells[cell], seed, arguments.cc.config());
        bar.inc(1);
        (cell, seed, outcome)
    });
    bar.finish_and_clear();
    let mut by_cell: Vec<Vec<(u64, Outcome)>> = vec![Vec::new(); cells.len()];
    for (cell, seed, outcome) in outcomes {
        by_cell[cell].push((seed, outcome));
    }
    let row = |(cell, mut outcomes): (&Cell, Vec<(u64, Outcome)>)| {
        outcomes.sort_by_key(|(seed, _)| *seed);
        Row::of(cell, outcomes.into_iter().map(|(_, outcome)| outcome))
    };
    cells.iter().zip(by_cell).map(row).collect()
}
