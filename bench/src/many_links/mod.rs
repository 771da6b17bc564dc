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
//! The outcome is a [`Record`] like that of any scenario; [`crate::check`] takes it up as T10.

mod conduct;
mod process;
mod side;
mod words;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::record::{Cell, Outcome, Record};
use crate::results::{self, Journal, ResultSet, ResultsError};
use crate::scenario::wire::Network;

pub use process::ManyLinksError;
pub use side::serve;
pub use words::Role;

/// The name of the scenario in records, and of its folder.
pub const SCENARIO: &str = "many-links";
/// The axis of its cells that says how many links were idle.
pub const IDLE_LINKS: &str = "idle_links";
/// The link.
const LINK: &str = "arq";

/// How many links, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Links that carry nothing while it counts.
    pub idle: u64,
    /// Links that carry messages.
    pub busy: u64,
    /// How long nothing is sent, seconds.
    pub idle_s: u64,
    /// How long the busy links send, twice, seconds.
    pub busy_s: u64,
}

impl Plan {
    /// What the target T10 names.
    pub const TARGET: Self = Self { idle: 1_000, busy: 100, idle_s: 60, busy_s: 10 };

    fn cell(&self) -> Cell {
        let axis = |name: &str, value: u64| (name.to_owned(), value.to_string());
        let setting = vec![axis(IDLE_LINKS, self.idle), axis("busy_links", self.busy)];
        Cell { link: LINK.to_owned(), setting }
    }

    /// What to type to measure the same again.
    fn command(&self, repeats: u32) -> String {
        let Self { idle, busy, idle_s, busy_s } = self;
        format!(
            "arq-bench {SCENARIO} --idle {idle} --busy {busy} --idle-s {idle_s} --busy-s {busy_s} --repeats {repeats}"
        )
    }

    /// Kept beside the results; two different plans do not mix in one folder.
    pub(crate) fn toml(&self) -> String {
        let Self { idle, busy, idle_s, busy_s } = self;
        format!("idle = {idle}\nbusy = {busy}\nidle_s = {idle_s}\nbusy_s = {busy_s}\n")
    }
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
    let environment = results::environment(zenoh::GIT_VERSION, &plan.command(repeats), 0);
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
        journal.append(&record(plan, repeat, started_unix_s, outcome))?;
    }
    journal.write_sheet()?;
    Ok(ResultSet::read(directory)?)
}

/// A record of a run. Nothing is random in it: the seed is always 0.
pub(crate) fn record(plan: &Plan, repeat: u32, started_unix_s: u64, outcome: Outcome) -> Record {
    Record {
        scenario: SCENARIO.to_owned(),
        cell: plan.cell(),
        repeat,
        seed: 0,
        started_unix_s,
        network: Network::default(),
        outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_repeats_the_whole_plan() {
        let plan = Plan { idle: 7, busy: 2, idle_s: 30, busy_s: 4 };
        assert_eq!(
            plan.command(3),
            "arq-bench many-links --idle 7 --busy 2 --idle-s 30 --busy-s 4 --repeats 3"
        );
    }
}
