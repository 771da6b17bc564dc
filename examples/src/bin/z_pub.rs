// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Publishes a text once a second.

use std::process::ExitCode;
use std::time::Duration;

use arq_examples::{priority, run, say, teach, CommonArgs, Reliability};
use clap::Parser;
use zenoh::key_expr::KeyExpr;
use zenoh::qos::Priority;
use zenoh::Wait;

/// Publishes a text once a second.
#[derive(Parser)]
#[command(version, after_help = teach!("  z_sub -l arq/0.0.0.0:7447\n  z_pub -e arq/127.0.0.1:7447 -p hello"))]
struct Arguments {
    /// The key expression to publish on.
    #[arg(short, long, default_value = "demo/example/zenoh-rs-pub")]
    key: KeyExpr<'static>,
    /// The text to publish.
    #[arg(short, long, default_value = "Pub from Rust!")]
    payload: String,
    /// A text to attach to each publication.
    #[arg(short, long)]
    attach: Option<String>,
    /// Tell when the first subscriber comes and the last one goes.
    #[arg(long)]
    add_matching_listener: bool,
    /// From 1, real-time, to 7, background.
    #[arg(long, default_value = "5", value_parser = priority)]
    priority: Priority,
    /// What zenoh promises about the publications.
    #[arg(long, value_enum, default_value_t)]
    reliability: Reliability,
    /// Send each publication at once instead of waiting for others to share its batch.
    #[arg(long)]
    express: bool,
    #[command(flatten)]
    common: CommonArgs,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(|| publish(&arguments))
}

fn publish(arguments: &Arguments) -> zenoh::Result<()> {
    let Arguments { key, payload, .. } = arguments;
    let session = arguments.common.open()?;
    say!("Declaring Publisher on '{key}'...");
    let publisher = session
        .declare_publisher(key)
        .priority(arguments.priority)
        .reliability(arguments.reliability.into())
        .express(arguments.express)
        .wait()?;
    if arguments.add_matching_listener {
        let tell = |status: zenoh::matching::MatchingStatus| match status.matching() {
            true => say!("Publisher has matching subscribers."),
            false => say!("Publisher has NO MORE matching subscribers."),
        };
        publisher.matching_listener().callback(tell).background().wait()?;
    }
    say!("Press CTRL-C to quit...");
    for index in 0_u32.. {
        std::thread::sleep(Duration::from_secs(1));
        let text = format!("[{index:4}] {payload}");
        say!("Putting Data ('{key}': '{text}')...");
        publisher.put(text).attachment(arguments.attach.clone()).wait()?;
    }
    Ok(())
}
