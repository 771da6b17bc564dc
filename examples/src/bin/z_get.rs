// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Asks a question and prints every reply.

use std::process::ExitCode;
use std::time::Duration;

use arq_examples::{run, say, teach, CommonArgs};
use clap::{Parser, ValueEnum};
use zenoh::bytes::ZBytes;
use zenoh::query::{QueryTarget, Reply, Selector};
use zenoh::Wait;

/// Asks a question and prints every reply.
#[derive(Parser)]
#[command(version, after_help = teach!("  z_queryable -l arq/0.0.0.0:7447\n  z_get -e arq/127.0.0.1:7447 -p 'who is there?'"))]
struct Arguments {
    /// What to ask for: a key expression, with ?parameters if wanted.
    #[arg(short, long, default_value = "demo/example/**")]
    selector: Selector<'static>,
    /// A text to send with the query.
    #[arg(short, long)]
    payload: Option<String>,
    /// Who is to answer.
    #[arg(short, long, value_enum, default_value_t, ignore_case = true)]
    target: Target,
    /// How long to wait for replies, in milliseconds.
    #[arg(short = 'o', long, default_value = "10000")]
    timeout: u64,
    #[command(flatten)]
    common: CommonArgs,
}

/// Which of the matching queryables a query goes to.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Target {
    /// The best placed one.
    #[default]
    #[value(alias = "BEST_MATCHING")]
    BestMatching,
    /// Every one.
    All,
    /// Those that say that they are complete.
    #[value(alias = "ALL_COMPLETE")]
    AllComplete,
}

impl From<Target> for QueryTarget {
    fn from(target: Target) -> Self {
        match target {
            Target::BestMatching => Self::BestMatching,
            Target::All => Self::All,
            Target::AllComplete => Self::AllComplete,
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(|| get(&arguments))
}

fn get(arguments: &Arguments) -> zenoh::Result<()> {
    let session = arguments.common.open()?;
    say!("Sending Query '{}'...", arguments.selector);
    let query = session
        .get(&arguments.selector)
        .target(arguments.target.into())
        .timeout(Duration::from_millis(arguments.timeout));
    let replies = match &arguments.payload {
        Some(payload) => query.payload(payload).wait()?,
        None => query.wait()?,
    };
    while let Ok(reply) = replies.recv() {
        print(&reply);
    }
    session.close().wait()
}

fn print(reply: &Reply) {
    let text = |bytes: &ZBytes| {
        bytes.try_to_string().map_or_else(|e| e.to_string(), |text| text.into_owned())
    };
    match reply.result() {
        Ok(sample) => {
            say!(">> Received ('{}': '{}')", sample.key_expr(), text(sample.payload()))
        }
        Err(error) => say!(">> Received (ERROR: '{}')", text(error.payload())),
    }
}
