// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does one load run over one link: a publisher in one process, a subscriber in another?
//!
//! Both are this program started anew with a hidden subcommand, inside a host of the lab. They are told what to do
//! in JSON on the command line and answer in JSON lines on their standard output. Each ends by itself: the
//! publisher after its last message, the subscriber when its standard input closes.

mod publisher;
mod run;
mod stamp;
mod subscriber;

use std::io::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::delivery::Arrival;

pub use publisher::publish;
pub use run::{run, Progress, TrafficError};
pub use subscriber::subscribe;

/// One load over one link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Load {
    /// Where the subscriber listens and the publisher connects.
    pub endpoint: String,
    /// The bytes of each message.
    pub size_bytes: usize,
    /// Messages per second.
    pub rate: f64,
    /// How many messages.
    pub messages: u64,
    /// How long after the last departure a message may still come.
    pub grace: Duration,
    /// Where the payload bytes come from.
    pub seed: u64,
}

impl Load {
    /// The smallest message: number and time of departure.
    pub const MIN_SIZE_BYTES: usize = stamp::LENGTH;

    /// When message `sequence` is meant to leave, after the first.
    pub fn departure(&self, sequence: u64) -> Duration {
        Duration::from_secs_f64(sequence as f64 / self.rate)
    }

    /// How long the run takes at most, from the first departure.
    pub fn limit(&self) -> Duration {
        self.departure(self.messages) + self.grace
    }
}

/// What the two processes tell the one that started them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    /// Connected and waiting.
    Ready,
    /// The first message is meant to leave at this time of the monotonic clock.
    Started { at_ns: u64 },
    /// So many messages have been handed to zenoh.
    Sent(u64),
    /// So many have come.
    Received(u64),
    /// All that came.
    Arrivals(Vec<Arrival>),
    /// It cannot go on.
    Failed(String),
}

impl Word {
    fn say(&self) {
        let mut out = std::io::stdout().lock();
        // A listener that has gone needs no words: this process ends with it.
        if let Ok(line) = serde_json::to_string(self) {
            let _ = writeln!(out, "{line}").and_then(|()| out.flush());
        }
    }
}

/// Zenoh's settings on both sides: the stock ones, alone on the network, and patient. With the stock lease of 10 s
/// and close time-out of 5 s, heavy loss ends a session over tcp within seconds and there is nothing to compare.
fn session_config(role: &str, endpoint: &str) -> zenoh::Result<zenoh::Config> {
    let mut config = zenoh::Config::default();
    let endpoint = serde_json::to_string(&[endpoint])?;
    for (key, value) in [
        ("listen/endpoints", if role == "listen" { endpoint.as_str() } else { "[]" }),
        ("connect/endpoints", if role == "connect" { endpoint.as_str() } else { "[]" }),
        ("scouting/multicast/enabled", "false"),
        ("scouting/gossip/enabled", "false"),
        ("transport/link/tx/lease", "60000"),
        ("transport/link/tx/queue/congestion_control/block/wait_before_close", "60000000"),
    ] {
        config.insert_json5(key, value)?;
    }
    Ok(config)
}

const KEY: &str = "arq/bench";
