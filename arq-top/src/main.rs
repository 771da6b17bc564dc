// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Shows the `arq/` links of a running process: once as a table, live in the terminal, or in zenoh's admin space.

mod app;
mod figures;
mod history;
mod once;
mod publish;
mod scrape;
mod view;

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use figures::Order;
use scrape::Endpoint;

const TEACH: &str = "\
Switch the statistics on in the process to watch (any that uses arq/ links, an unmodified zenohd too), by a locator
or by the environment; a port alone is one of 127.0.0.1:
  zenohd -l 'arq/0.0.0.0:7447#metrics=9464'
  ZENOH_ARQ_METRICS=9464 z_pong -l arq/0.0.0.0:7447
Then:
  arq-top 9464                     live: q quits, s sorts by the next column, up and down choose a link
  arq-top --once 9464              a table of plain numbers, for scripts
  arq-top --publish 9464           the links of a router on this host in zenoh's admin space: @/ZID/arq/link/*
  ssh -L 9464:127.0.0.1:9464 robot and arq-top 9464 show a process on another host.

What each figure means, and what to do when it is not as it should be: docs/statistics.md";

/// Shows the arq/ links of a running process.
#[derive(Parser)]
#[command(name = "arq-top", version, after_help = TEACH)]
struct Arguments {
    /// Where the process serves its statistics: a port of this host, HOST:PORT, or a URL.
    #[arg(default_value = "9464", env = "ZENOH_ARQ_METRICS", hide_env_values = true)]
    endpoint: Endpoint,
    /// Print a table of what stands there now, and end.
    #[arg(long)]
    once: bool,
    /// Show the links in the admin space of the process, a zenoh node that listens at LOCATOR [default:
    /// tcp/localhost:7447], until the program is ended.
    #[arg(
        long,
        value_name = "LOCATOR",
        conflicts_with = "once",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "tcp/localhost:7447"
    )]
    publish: Option<String>,
    /// Which column orders the links.
    #[arg(long, value_enum, default_value_t)]
    sort: Order,
    /// Seconds between two looks, 0.2 to 3600.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    // Also for the live view: whoever mistypes the port should read why, not see an empty screen.
    let first = arguments.endpoint.scrape()?;
    if arguments.once {
        let table = once::table(&first, arguments.sort);
        return match std::io::stdout().write_all(table.as_bytes()) {
            // Who reads the first lines only is content.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        };
    }
    if let Some(locator) = &arguments.publish {
        return publish::run(&arguments.endpoint, locator, arguments.interval)
            .map_err(|error| format!("{locator}: {error}").into());
    }
    if !std::io::stdout().is_terminal() {
        return Err("the live view needs a terminal: --once prints a table".into());
    }
    Ok(app::run(&arguments.endpoint, arguments.interval, arguments.sort, first)?)
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.2..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "0.2 to 3600 seconds".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn arguments_are_consistent_and_intervals_sane() {
        Arguments::command().debug_assert();
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "nan", "1e9", "soon"] {
            assert!(interval(bad).is_err(), "{bad}");
        }
    }
}
