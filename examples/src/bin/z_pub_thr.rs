// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Publishes as fast as it can, for `z_sub_thr`.

use std::process::ExitCode;
use std::time::Instant;

use arq_examples::{payload, payload_size, priority, run, say, teach, CommonArgs, Reliability};
use clap::Parser;
use zenoh::bytes::ZBytes;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::Wait;

/// Publishes as fast as it can, for z_sub_thr.
#[derive(Parser)]
#[command(version, after_help = teach!("  z_sub_thr -l arq/0.0.0.0:7447\n  z_pub_thr -e arq/127.0.0.1:7447 1024"))]
struct Arguments {
    /// The bytes of each message.
    #[arg(value_parser = payload_size)]
    payload_size: usize,
    /// From 1, real-time, to 7, background.
    #[arg(short, long, default_value = "5", value_parser = priority)]
    priority: Priority,
    /// Print the rate.
    #[arg(short = 't', long)]
    print: bool,
    /// How many messages make one printed rate.
    #[arg(short, long, default_value = "100000", value_parser = clap::value_parser!(u32).range(1..))]
    number: u32,
    /// Send each message at once instead of waiting for others to share its batch.
    #[arg(long)]
    express: bool,
    /// What zenoh promises about the messages.
    #[arg(long, value_enum, default_value_t)]
    reliability: Reliability,
    #[command(flatten)]
    common: CommonArgs,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(|| publish(&arguments))
}

fn publish(arguments: &Arguments) -> zenoh::Result<()> {
    let session = arguments.common.open()?;
    let publisher = session
        .declare_publisher("test/thr")
        .congestion_control(CongestionControl::Block)
        .priority(arguments.priority)
        .reliability(arguments.reliability.into())
        .express(arguments.express)
        .wait()?;
    let data = ZBytes::from(payload(arguments.payload_size));
    say!("Press CTRL-C to quit...");
    loop {
        let started = Instant::now();
        for _ in 0..arguments.number {
            publisher.put(data.clone()).wait()?;
        }
        if arguments.print {
            say!("{} msg/s", f64::from(arguments.number) / started.elapsed().as_secs_f64());
        }
    }
}
