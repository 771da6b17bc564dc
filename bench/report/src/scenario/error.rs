// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Why can a scenario not be used, and what would make it usable?

use std::path::PathBuf;

use super::flow::PatternError;
use crate::opponent::UnknownLink;

/// A scenario cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// No shipped scenario has this name.
    #[error(
        "there is no scenario `{name}`{}; `arq-bench list` shows all, and a file of your own is \
         named by its path, such as ./{name}.toml",
        did_you_mean(nearest)
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// What resembles it.
        nearest: Vec<String>,
    },
    /// The file cannot be read.
    #[error("{}: {reason}", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        reason: std::io::Error,
    },
    /// Not TOML, an unknown key or a value of the wrong type. The text shows the line.
    #[error("{file}: {reason}")]
    Syntax {
        /// The scenario's name or path.
        file: String,
        /// What and where.
        #[source]
        reason: Box<toml::de::Error>,
    },
    /// It can be read and makes no sense.
    #[error("{file}: {problem}")]
    Invalid {
        /// The scenario's name or path.
        file: String,
        /// Why.
        #[source]
        problem: Problem,
    },
}

fn did_you_mean(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        names => format!(", did you mean {}?", quoted(names)),
    }
}

/// Names for an error text.
pub fn quoted<S: AsRef<str>>(names: &[S]) -> String {
    names.iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(", ")
}

/// What makes no sense in a scenario.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// A number out of its bounds.
    #[error("`{key} = {value}` is out of range: {min} to {max} {unit}")]
    OutOfRange {
        /// The path of the key.
        key: String,
        /// What was given.
        value: f64,
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
        /// What is counted.
        unit: &'static str,
    },
    /// A list without entries.
    #[error("`{0}` is empty: give at least one")]
    Empty(&'static str),
    /// Two things of one name.
    #[error("`{name}` stands twice in `{list}`")]
    Twice {
        /// Where.
        list: &'static str,
        /// The name.
        name: String,
    },
    /// A link that is in no list.
    #[error(transparent)]
    Link(#[from] UnknownLink),
    /// A name that nothing here has.
    #[error("`{place} = {name}`: there is none, the names here are {}", quoted(valid))]
    Name {
        /// The key.
        place: &'static str,
        /// What was given.
        name: String,
        /// What would do.
        valid: Vec<String>,
    },
    /// A case or sweep changes what the flow's pattern does not have.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A sweep of a flow where several could be meant.
    #[error("`sweep.{0}` could change several flows: name one with `sweep.flow`")]
    WhichFlow(&'static str),
    /// The two-state model of netem has no share to set.
    #[error("loss model `state` has no share to set: use `gilbert` where the share lost varies")]
    ShareOfState,
    /// A burst so short that the share cannot be reached.
    #[error(
        "gilbert loss of {percent} % needs bursts of at least {} packets, not {burst_packets}",
        (percent / (100.0 - percent) * 100.0).ceil() / 100.0
    )]
    Burst {
        /// The share lost.
        percent: f64,
        /// The mean length of a burst.
        burst_packets: f64,
    },
    /// Packets to hold back, for no time.
    #[error("`reorder_percent` without `reorder_hold_ms`: how long are those packets held back?")]
    Hold,
    /// An event that ends before it begins, or lasts beyond its next occurrence.
    #[error("the event at {at_s} s ends at {until_s} s: not after its beginning, or after it comes again")]
    EventTimes {
        /// When it begins.
        at_s: f64,
        /// When it ends.
        until_s: f64,
    },
    /// A blackout that begins again where it ends.
    #[error(
        "the event at {at_s} s is a blackout that never ends: it comes again as soon as it is over"
    )]
    DarkForEver {
        /// When it begins.
        at_s: f64,
    },
    /// A link that would count as ours in one place and not in another.
    #[error("link `{name}` has `ours = {ours}`: a link that speaks our protocol is called `arq-...`, and no other is")]
    Ours {
        /// Its name.
        name: String,
        /// What it says of itself.
        ours: bool,
    },
    /// A scale that leaves out what the scenario is about.
    #[error("at scale {factor} the traffic is over before {what} at {at_s} s; {least} is the least that reaches it")]
    Scale {
        /// So many times the messages.
        factor: f64,
        /// What does not happen.
        what: String,
        /// When it would.
        at_s: f64,
        /// At how many times the messages it does.
        least: f64,
    },
    /// A second radio with a second radio.
    #[error("`network.second` cannot have a `second`: the publisher has two radios at most")]
    ThirdRadio,
    /// A preset that names a preset.
    #[error("a preset's own network cannot name a preset")]
    NestedPreset,
    /// A goal of both kinds or of none.
    #[error("goal for `{0}`: give either `percent` and `within_ms`, or `longest_silence_ms`")]
    Goal(String),
    /// The file cannot be written as TOML again.
    #[error("it cannot be written: {0}")]
    Written(#[from] toml::ser::Error),
}
