// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Counts what `z_pub_thr` gets through.

use std::process::ExitCode;
use std::time::Instant;

use arq_examples::{run, say, teach, CommonArgs};
use clap::Parser;
use zenoh::Wait;

/// Counts what z_pub_thr gets through.
#[derive(Parser)]
#[command(version, after_help = teach!("  z_sub_thr -l arq/0.0.0.0:7447\n  z_pub_thr -e arq/127.0.0.1:7447 1024"))]
struct Arguments {
    /// How many rates to print before the end.
    #[arg(short, long, default_value = "10")]
    samples: u32,
    /// How many messages make one printed rate.
    #[arg(short, long, default_value = "100000", value_parser = clap::value_parser!(u32).range(1..))]
    number: u32,
    #[command(flatten)]
    common: CommonArgs,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(|| count(&arguments))
}

fn count(arguments: &Arguments) -> zenoh::Result<()> {
    let session = arguments.common.open()?;
    // A callback, not a channel: a channel's own queue would be measured too.
    let (told, rates) = std::sync::mpsc::channel();
    let mut round = Round::new(arguments.number);
    let counted = std::sync::Mutex::new(move || round.count());
    let on_sample = move |_| {
        let rate = counted.lock().ok().and_then(|mut count| count());
        if let Some(rate) = rate {
            let _ = told.send(rate);
        }
    };
    session.declare_subscriber("test/thr").callback(on_sample).background().wait()?;
    say!("Press CTRL-C to quit...");
    for rate in rates.iter().take(arguments.samples as usize) {
        say!("{rate} msg/s");
    }
    Ok(())
}

/// The messages that make one rate; the first of them starts the clock.
struct Round {
    length: u32,
    seen: u32,
    started: Instant,
}

impl Round {
    fn new(length: u32) -> Self {
        Self { length, seen: 0, started: Instant::now() }
    }

    /// Counts a message; the rate when the round is full.
    fn count(&mut self) -> Option<f64> {
        if self.seen == 0 {
            self.started = Instant::now();
        }
        self.seen += 1;
        if self.seen <= self.length {
            return None;
        }
        self.seen = 0;
        Some(f64::from(self.length) / self.started.elapsed().as_secs_f64())
    }
}
