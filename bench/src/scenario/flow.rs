// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What traffic does a scenario send?

use serde::{Deserialize, Serialize};

/// One publisher and its subscriber.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Told in reports; unique in a scenario.
    pub name: String,
    /// The bytes of each message.
    pub payload_bytes: usize,
    /// When messages are sent.
    #[serde(flatten)]
    pub pattern: Pattern,
    /// zenoh's priority.
    #[serde(default)]
    pub priority: Priority,
    /// zenoh's reliability.
    #[serde(default)]
    pub reliability: Reliability,
    /// What zenoh does when the link is busy.
    #[serde(default)]
    pub congestion_control: CongestionControl,
    /// A session, and so a link, of its own (else all flows share one).
    #[serde(default)]
    pub own_session: bool,
    /// It begins so many seconds after the first.
    #[serde(default)]
    pub start_s: f64,
}

/// When messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "pattern", rename_all = "kebab-case")]
pub enum Pattern {
    /// At fixed times, whatever the link does; latency counts from those times.
    Periodic {
        /// Messages per second.
        rate_hz: f64,
        /// How many.
        messages: u64,
    },
    /// As fast as the link takes them, for so many seconds. Goodput is what counts.
    Flood {
        /// How long.
        seconds: f64,
    },
    /// So many messages as fast as the link takes them; how long all take is what counts.
    Transfer {
        /// How many.
        messages: u64,
    },
    /// Each when the answer to the one before has come; latency is the round trip.
    PingPong {
        /// How many.
        messages: u64,
    },
    /// Opens a session, notes how long until the first message came, closes it, again.
    Opening {
        /// How many sessions.
        messages: u64,
    },
}

/// zenoh's priorities that applications may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "zenoh's own names")]
pub enum Priority {
    RealTime,
    InteractiveHigh,
    InteractiveLow,
    DataHigh,
    #[default]
    Data,
    DataLow,
    Background,
}

/// zenoh's reliability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "zenoh's own names")]
pub enum Reliability {
    #[default]
    Reliable,
    BestEffort,
}

/// What zenoh does when the link is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CongestionControl {
    /// The publisher waits, so that what is called offered was really handed over.
    #[default]
    Block,
    /// The message is thrown away.
    Drop,
}
