// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What does it cost to hold a thousand links, most of them idle?
//!
//! Two processes of this program, on the loopback of the host they are started on: one listens, one connects, both
//! through zenoh's link manager as a session does, with nothing of zenoh above it. Each side is counted by itself.
//!
//! 1. The busy links open and carry messages: their latency alone. The process has then grown to its working size.
//! 2. The idle links open, one after another. Each carries a few messages both ways and is left alone: what the process
//!    has grown by is theirs, rings and tables that the messages asked for included.
//! 3. For a minute nothing is sent: CPU, wake-ups and datagrams of that minute belong to the idle.
//! 4. The busy links carry the same messages again: their latency beside the idle ones.
//!
//! The outcome is a [`Record`](arq_report::record::Record) like that of any scenario; [`arq_report::check`] takes it up as T10.

mod conduct;
mod process;
mod side;
mod words;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use arq_report::many_links::SCENARIO;
use arq_report::record::Outcome;
use arq_report::results::{Journal, ResultSet, ResultsError};

use crate::environment::environment;

pub use arq_report::many_links::Plan;
pub use process::ManyLinksError;
pub use side::serve;
pub use words::Role;

/// What to type to measure the same again.
fn command(plan: &Plan, repeats: u32) -> String {
    let Plan { link, idle, busy, idle_s, busy_s } = plan;
    format!(
        "arq-bench {SCENARIO} --link {link} --idle {idle} --busy {busy} --idle-s {idle_s} --busy-s {busy_s} --repeats {repeats}"
    )
}

/// Why it could not be measured or kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A process failed.
    #[error(transparent)]
    ManyLinks(#[from] ManyLinksError),
    /// The results cannot be kept.
    #[error(transparent)]
    Results(#[from] ResultsError),
}

/// Measures `repeats` times into `directory`, or goes on there; `program` is this program, `say` hears how it goes.
pub fn measure_into(
    plan: &Plan,
    repeats: u32,
    directory: &Path,
    program: &Path,
    say: &dyn Fn(&str),
) -> Result<ResultSet, Error> {
    let environment = environment(zenoh::GIT_VERSION, &command(plan, repeats), 0);
    let (mut journal, warning) = Journal::open(directory, &environment, &plan.toml())?;
    warning.iter().for_each(|warning| say(warning));
    for repeat in 0..repeats {
        if journal.finished().contains(&(plan.cell(), repeat, 0)) {
            continue;
        }
        let started_unix_s =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        say(&format!("repeat {} of {repeats}", repeat + 1));
        let outcome = match conduct::measure(plan, program, say) {
            Ok(measurement) => Outcome::Measured(Box::new(measurement)),
            Err(error) if error.blames_link() => {
                say(&format!("failed: {error}"));
                Outcome::Failed(error.to_string())
            }
            Err(error) => return Err(error.into()),
        };
        journal.append(&plan.record(repeat, started_unix_s, outcome))?;
    }
    journal.write_sheet()?;
    Ok(ResultSet::read(directory)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_repeats_the_whole_plan() {
        let plan = Plan { link: "arq-tls", idle: 7, busy: 2, idle_s: 30, busy_s: 4 };
        assert_eq!(
            command(&plan, 3),
            "arq-bench many-links --link arq-tls --idle 7 --busy 2 --idle-s 30 --busy-s 4 --repeats 3"
        );
    }
}
