// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What are the two processes told, and what do they answer? A line of JSON each, an answer to every order.

use serde::{Deserialize, Serialize};

use crate::delivery::Ledger;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// Listens and accepts.
    Listen,
    /// Connects.
    Connect,
}

impl Role {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Listen => "listen",
            Self::Connect => "connect",
        }
    }
}

/// An order. Links are numbered as they were opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// Listen on a port of the loopback with these keys, `#` included; answered by `Endpoint`.
    Listen { keys: String },
    /// Open so many links to an endpoint, one after another; answered by `Opened`.
    Open { endpoint: String, links: u64 },
    /// Wait until the links from these addresses have been accepted, and number them in this order.
    Accept { from: Vec<String> },
    /// Send a few messages over each link from this one on, and wait for each to come back.
    Call { first: u64 },
    /// Send back what comes over those links.
    Answer { first: u64 },
    /// Begin to note what comes over the first so many links.
    Hear { links: u64 },
    /// Send messages of this length over the first so many links in turn; answered by `Sent`.
    Send { links: u64, messages: u64, rate_hz: f64, bytes: usize },
    /// Tell what was noted since `Hear`, once so many messages have come, or none came for a while.
    Heard { messages: u64 },
    /// Tell what the process holds and has used so far.
    Count,
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    Done,
    Endpoint(String),
    /// The addresses of the new links' sockets.
    Opened(Vec<String>),
    /// When the first message was due, nanoseconds of the machine's monotonic clock.
    Sent(u64),
    Heard(Box<Ledger>),
    Counted(Count),
    Failed(String),
}

/// What a process holds and has used since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Count {
    pub(super) resident_bytes: u64,
    pub(super) cpu_s: f64,
    /// Times that a thread went to sleep of its own accord: as often as it was woken.
    pub(super) sleeps: u64,
    /// Associations that live.
    pub(super) links: u64,
    pub(super) packets_sent: u64,
    pub(super) ptos: u64,
    pub(super) retransmitted: u64,
}
