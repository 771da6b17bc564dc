// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Answers every query on a key expression with the same text.

use std::process::ExitCode;

use arq_examples::{run, say, teach, CommonArgs};
use clap::Parser;
use zenoh::key_expr::KeyExpr;
use zenoh::query::Query;
use zenoh::Wait;

/// Answers every query on a key expression with the same text.
#[derive(Parser)]
#[command(version, after_help = teach!("  z_queryable -l arq/0.0.0.0:7447\n  z_get -e arq/127.0.0.1:7447 -p 'who is there?'"))]
struct Arguments {
    /// The key expression to answer for.
    #[arg(short, long, default_value = "demo/example/zenoh-rs-queryable")]
    key: KeyExpr<'static>,
    /// The text to answer with.
    #[arg(short, long, default_value = "Queryable from Rust!")]
    payload: String,
    /// Say that nobody else needs to be asked.
    #[arg(long)]
    complete: bool,
    #[command(flatten)]
    common: CommonArgs,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(|| serve(&arguments))
}

fn serve(arguments: &Arguments) -> zenoh::Result<()> {
    let session = arguments.common.open()?;
    say!("Declaring Queryable on '{}'...", arguments.key);
    let queryable =
        session.declare_queryable(&arguments.key).complete(arguments.complete).wait()?;
    say!("Press CTRL-C to quit...");
    while let Ok(query) = queryable.recv() {
        print(&query);
        query.reply(&arguments.key, &arguments.payload).wait()?;
    }
    Ok(())
}

fn print(query: &Query) {
    let payload = match query.payload().map(|payload| payload.try_to_string()) {
        Some(Ok(text)) => format!(" with payload '{text}'"),
        Some(Err(e)) => format!(" with payload ({e})"),
        None => String::new(),
    };
    say!(">> [Queryable ] Received Query '{}'{payload}", query.selector());
}
