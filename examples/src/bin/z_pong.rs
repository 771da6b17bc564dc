// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Sends everything back to `z_ping`.

use std::process::ExitCode;

use arq_examples::{run, say, teach, CommonArgs};
use clap::Parser;
use zenoh::qos::CongestionControl;
use zenoh::Wait;

/// Sends everything back to z_ping.
#[derive(Parser)]
#[command(version, after_help = teach!("  z_pong -l arq/0.0.0.0:7447\n  z_ping -e arq/127.0.0.1:7447 -n 1000 64"))]
struct Arguments {
    /// Let each message wait for others to share its batch.
    #[arg(long)]
    no_express: bool,
    #[command(flatten)]
    common: CommonArgs,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(|| pong(&arguments))
}

fn pong(arguments: &Arguments) -> zenoh::Result<()> {
    let session = arguments.common.open()?;
    let publisher = session
        .declare_publisher("test/pong")
        .congestion_control(CongestionControl::Block)
        .express(!arguments.no_express)
        .wait()?;
    let answer = move |sample: zenoh::sample::Sample| {
        if let Err(e) = publisher.put(sample.payload().clone()).wait() {
            eprintln!("cannot answer: {e}");
        }
    };
    session.declare_subscriber("test/ping").callback(answer).background().wait()?;
    say!("Press CTRL-C to quit...");
    loop {
        std::thread::park();
    }
}
