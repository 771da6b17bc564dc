// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How are the results of many links kept, most of them idle? Like those of a scenario, with an outcome of their own.

use netlab::wire::Conditions;

use crate::record::{Cell, Outcome, Record};

/// The name of the scenario in records, and of its folder.
pub const SCENARIO: &str = "many-links";
/// The axis of its cells that says how many links were idle.
pub const IDLE_LINKS: &str = "idle_links";
/// The links that can be measured: in clear, and secured by each way.
pub const LINKS: [&str; 4] = ["arq", "arq-tls", "arq-mtls", "arq-psk"];

/// How many links, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// One of [`LINKS`].
    pub link: &'static str,
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
    pub const TARGET: Self =
        Self { link: LINKS[0], idle: 1_000, busy: 100, idle_s: 60, busy_s: 10 };

    /// The cell of its records.
    pub fn cell(&self) -> Cell {
        let axis = |name: &str, value: u64| (name.to_owned(), value.to_string());
        let setting = vec![axis(IDLE_LINKS, self.idle), axis("busy_links", self.busy)];
        Cell { link: self.link.to_owned(), setting }
    }

    /// Kept beside the results; two different plans do not mix in one folder.
    pub fn toml(&self) -> String {
        let Self { link, idle, busy, idle_s, busy_s } = self;
        format!("link = \"{link}\"\nidle = {idle}\nbusy = {busy}\nidle_s = {idle_s}\nbusy_s = {busy_s}\n")
    }

    /// A record of a run. Nothing is random in it: the seed is always 0.
    pub fn record(&self, repeat: u32, started_unix_s: u64, outcome: Outcome) -> Record {
        Record {
            scenario: SCENARIO.to_owned(),
            cell: self.cell(),
            repeat,
            seed: 0,
            started_unix_s,
            network: Conditions::default(),
            outcome,
        }
    }
}
