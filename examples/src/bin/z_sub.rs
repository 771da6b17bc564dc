// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Prints everything that is published on a key expression.

use std::process::ExitCode;

use arq_examples::{run, say, teach, CommonArgs};
use clap::Parser;
use zenoh::key_expr::KeyExpr;
use zenoh::sample::Sample;
use zenoh::Wait;

/// Prints everything that is published on a key expression.
#[derive(Parser)]
#[command(version, after_help = teach!("  z_sub -l arq/0.0.0.0:7447\n  z_pub -e arq/127.0.0.1:7447 -p hello"))]
struct Arguments {
    /// The key expression to subscribe to.
    #[arg(short, long, default_value = "demo/example/**")]
    key: KeyExpr<'static>,
    #[command(flatten)]
    common: CommonArgs,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(|| subscribe(&arguments))
}

fn subscribe(arguments: &Arguments) -> zenoh::Result<()> {
    let session = arguments.common.open()?;
    say!("Declaring Subscriber on '{}'...", arguments.key);
    let subscriber = session.declare_subscriber(&arguments.key).wait()?;
    say!("Press CTRL-C to quit...");
    while let Ok(sample) = subscriber.recv() {
        print(&sample);
    }
    Ok(())
}

fn print(sample: &Sample) {
    let text = |bytes: &zenoh::bytes::ZBytes| {
        bytes.try_to_string().map_or_else(|e| e.to_string(), |text| text.into_owned())
    };
    let (kind, key) = (sample.kind(), sample.key_expr());
    let attached = sample.attachment().map(|attached| format!(" ({})", text(attached)));
    let (payload, attached) = (text(sample.payload()), attached.unwrap_or_default());
    say!(">> [Subscriber] Received {kind} ('{key}': '{payload}'){attached}");
}
