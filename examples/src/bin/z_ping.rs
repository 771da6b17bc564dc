// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Measures round trips to `z_pong`.

use std::fmt::Display;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use arq_examples::{payload, payload_size, priority, run, say, teach, CommonArgs, Reliability};
use clap::Parser;
use zenoh::bytes::ZBytes;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::Wait;

/// Measures round trips to z_pong.
#[derive(Parser)]
#[command(version, after_help = teach!("  z_pong -l arq/0.0.0.0:7447\n  z_ping -e arq/127.0.0.1:7447 -n 1000 64"))]
struct Arguments {
    /// The bytes of each message.
    #[arg(value_parser = payload_size)]
    payload_size: usize,
    /// How long to warm up, in seconds.
    #[arg(short, long, default_value = "1", value_parser = seconds)]
    warmup: Duration,
    /// How many round trips to measure.
    #[arg(short = 'n', long, default_value = "100")]
    samples: usize,
    /// Let each message wait for others to share its batch.
    #[arg(long)]
    no_express: bool,
    /// From 1, real-time, to 7, background.
    #[arg(long, default_value = "5", value_parser = priority)]
    priority: Priority,
    /// What zenoh promises about the messages; a lost best-effort message stops the measurement.
    #[arg(long, value_enum, default_value_t)]
    reliability: Reliability,
    #[command(flatten)]
    common: CommonArgs,
}

/// The first message may leave before z_pong is there: without an answer for so long another follows.
const PATIENCE: Duration = Duration::from_secs(2);
/// A round trip that takes longer has failed.
const LONGEST: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(|| ping(&arguments))
}

fn ping(arguments: &Arguments) -> zenoh::Result<()> {
    let session = arguments.common.open()?;
    let pong = session.declare_subscriber("test/pong").wait()?;
    let publisher = session
        .declare_publisher("test/ping")
        .congestion_control(CongestionControl::Block)
        .priority(arguments.priority)
        .reliability(arguments.reliability.into())
        .express(!arguments.no_express)
        .wait()?;
    let data = ZBytes::from(payload(arguments.payload_size));
    let round_trip = |seq: &dyn Display| -> zenoh::Result<Duration> {
        let sent = Instant::now();
        publisher.put(data.clone()).wait()?;
        let answer = pong.recv_timeout(LONGEST)?;
        answer.ok_or_else(|| format!("seq={seq}: no answer within {LONGEST:?}"))?;
        Ok(sent.elapsed())
    };

    publisher.put(data.clone()).wait()?;
    let mut is_late = false;
    while pong.recv_timeout(PATIENCE)?.is_none() {
        say!("Waiting for z_pong...");
        publisher.put(data.clone()).wait()?;
        is_late = true;
    }
    // One more answer than is waited for, and each would be taken for that to the next message.
    while is_late && pong.recv_timeout(PATIENCE)?.is_some() {}
    say!("Warming up for {:?}...", arguments.warmup);
    let started = Instant::now();
    while started.elapsed() < arguments.warmup {
        round_trip(&"warm-up")?;
    }
    for seq in 0..arguments.samples {
        let (size, rtt) = (arguments.payload_size, round_trip(&seq)?.as_micros());
        say!("{size} bytes: seq={seq} rtt={rtt:?}µs lat={:?}µs", rtt / 2);
    }
    Ok(())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().map_err(|e| e.to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string())
}
