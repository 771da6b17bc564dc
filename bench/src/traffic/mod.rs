// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do a publishing and a subscribing process carry the flows of one measurement?
//!
//! Both are this program started anew with a hidden subcommand, inside a host of the emulated network. They are told
//! what to do in JSON on the command line ([`Load`]) and then by lines on their standard input (`Order`), and answer
//! in JSON lines on their standard output (`Word`). What they note stays in their memory until the run is over.
//!
//! ```text
//!   subscriber   publisher
//!   Ready                      listening
//!                Ready         connected, and the subscriber is known
//!   meter        meter         from here on CPU and memory count
//!   Metering     Metering
//!                              here the network gets its loss and delay
//!   go           go            with the time when the first message is due
//!   Received(n)  Sent(n)       ten times a second
//!                Done          everything has been handed over
//!   stop         stop
//!   Heard        Spoken        all that was noted; both end
//! ```

mod arq;
mod clock;
mod kcp;
mod opening;
mod patterns;
mod payload;
mod publisher;
mod sampler;
mod subscriber;
mod tcp;
mod usage;
mod zenoh_link;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use arq_report::opponent::Carrier;
use arq_report::record::{InFlight, ProcessUse};
use arq_report::scenario::flow::Flow;
use serde::{Deserialize, Serialize};

use crate::delivery::{Departures, Ledger};

pub(crate) use clock::{be_punctual, nanos, now_ns, sleep_until};
use payload::{Payloads, Stamp};
pub(crate) use publisher::limit;
pub use publisher::publish;
pub use subscriber::subscribe;
pub(crate) use usage::process_cpu_s;

/// What both processes are told on their command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Load {
    /// The links that are used, that under test first.
    pub links: Vec<Link>,
    /// The flows in the scenario's order.
    pub flows: Vec<PlannedFlow>,
    /// Where payloads come from.
    pub seed: u64,
    /// How long a session may take to open.
    pub open: Duration,
    /// How long after the last departure of a timetable a message may still come.
    pub grace: Duration,
    /// How long a flow without a timetable may take.
    pub longest: Duration,
}

/// A link between the two processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Link {
    /// Which program carries the messages.
    pub carrier: Carrier,
    /// Where the subscriber listens, and the publisher connects with [`Link::connect`]: a zenoh endpoint, for KCP
    /// `address:port`.
    pub endpoint: String,
    /// What the publisher adds to it.
    #[serde(default)]
    pub connect: String,
    /// zenoh configuration by key path, in JSON5, beyond what every link gets.
    pub zenoh: BTreeMap<String, String>,
}

/// A flow and the link that carries it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlannedFlow {
    /// As the scenario has it.
    pub flow: Flow,
    /// Index into [`Load::links`].
    pub link: usize,
}

impl Load {
    /// The smallest message: number and time of departure.
    pub const MIN_PAYLOAD_BYTES: usize = payload::STAMP_BYTES;

    /// Who can tell of the link under test from inside the publisher.
    fn witness(&self) -> Witness {
        match self.links.first() {
            Some(link) if link.is_tcp() => Witness::Kernel,
            Some(link) if link.is_arq() => Witness::Arq,
            _ => Witness::Nobody,
        }
    }
}

/// Who can tell what is in flight and what was sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Witness {
    /// TCP's counters.
    Kernel,
    /// The link's own statistics.
    Arq,
    Nobody,
}

impl Link {
    /// Whether the kernel's TCP is beneath.
    fn is_tcp(&self) -> bool {
        let protocol = self.endpoint.split('/').next();
        self.carrier == Carrier::Zenoh && matches!(protocol, Some("tcp" | "tls" | "ws" | "wss"))
    }

    fn is_arq(&self) -> bool {
        self.carrier == Carrier::Zenoh && self.endpoint.starts_with("arq/")
    }

    /// Where the publisher connects.
    pub(crate) fn connect_endpoint(&self) -> String {
        let Self { endpoint, connect, .. } = self;
        match (connect.as_str(), endpoint.contains('#')) {
            ("", _) => endpoint.clone(),
            (more, true) => format!("{endpoint};{more}"),
            (more, false) => format!("{endpoint}#{more}"),
        }
    }

    /// Whether it sends again what was lost. Over a link that does not, nothing comes after a moment of silence.
    pub(crate) fn repairs(&self) -> bool {
        let has = |metadata| self.endpoint.contains(metadata);
        match self.endpoint.split('/').next() {
            Some("udp") if self.carrier == Carrier::Zenoh => has("rel=1"),
            Some("quic") if self.carrier == Carrier::Zenoh => !has("rel=0"),
            _ => true,
        }
    }
}

/// What the two processes are told, a line each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Begin to count what you use.
    Meter,
    /// The first message is due at this time of the monotonic clock, nanoseconds.
    Go(u64),
    /// Tell what you have noted, and end.
    Stop,
}

/// What the two processes tell.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    Ready,
    Metering,
    /// So many messages have been handed over.
    Sent(u64),
    /// So many have come, each counted once.
    Received(u64),
    /// Every flow has been handed over, in these numbers.
    Done(Vec<u64>),
    Spoken(Box<Spoken>),
    Heard(Box<Heard>),
    /// It cannot go on.
    Failed(String),
}

/// What the publisher has noted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Spoken {
    /// One for each flow.
    pub(crate) departures: Vec<Departures>,
    /// The answers that came, for the flows that have any.
    pub(crate) answers: Vec<Option<Noted>>,
    pub(crate) usage: ProcessUse,
    /// Of the publisher's kernel, where the link under test is over TCP.
    pub(crate) tcp_retransmissions: Option<u64>,
    /// Of the publisher's side, where the link under test is `arq/`.
    pub(crate) arq_retransmissions: Option<u64>,
    /// Of the publisher's side, where it leads over several paths.
    pub(crate) needless_percent: Option<f64>,
    pub(crate) in_flight: Vec<InFlight>,
}

/// What the subscriber has noted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Heard {
    /// One for each flow.
    pub(crate) flows: Vec<Noted>,
    pub(crate) usage: ProcessUse,
}

/// The messages of one flow that came.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Noted {
    pub(crate) ledger: Ledger,
    /// Messages that were not as they were sent.
    pub(crate) damaged: u64,
    /// What was wrong with the first of them.
    pub(crate) damage: Option<String>,
}

impl Noted {
    /// Notes a message that came in these pieces; its number, unless it is damaged.
    fn note<'a>(
        &mut self,
        payloads: &Payloads,
        pieces: impl Iterator<Item = &'a [u8]>,
        arrived_ns: u64,
    ) -> Option<u64> {
        let noted = payloads.check(pieces).map_err(|e| e.to_string()).and_then(|stamp| {
            let Stamp { sequence, intended_ns } = stamp;
            let noted = self.ledger.note(sequence, intended_ns, arrived_ns, payloads.bytes());
            noted.map(|()| sequence).map_err(|e| e.to_string())
        });
        match noted {
            Ok(sequence) => Some(sequence),
            Err(e) => {
                self.damaged += 1;
                self.damage.get_or_insert(e);
                None
            }
        }
    }
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

/// The next order; `None` when whoever gives them has gone.
fn next_order() -> Option<Order> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).unwrap_or(0);
    (read > 0).then(|| serde_json::from_str(&line).ok()).flatten()
}

/// Tells a number ten times a second, in a thread of its own.
fn tell_in_background(word: impl Fn() -> Word + Send + 'static) {
    const TELL: Duration = Duration::from_millis(100);
    std::thread::spawn(move || loop {
        std::thread::sleep(TELL);
        word().say();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(carrier: Carrier, endpoint: &str) -> Link {
        Link {
            carrier,
            endpoint: endpoint.to_owned(),
            connect: String::new(),
            zenoh: BTreeMap::new(),
        }
    }

    #[test]
    fn it_is_known_what_a_link_stands_on() {
        let zenoh = |endpoint| link(Carrier::Zenoh, endpoint);
        let repairing = ["tcp/a:1", "udp/a:1?rel=1", "quic/a:1", "ws/a:1", "arq/a:1"];
        assert!(repairing.iter().all(|endpoint| zenoh(endpoint).repairs()));
        assert!(!["udp/a:1", "quic/a:1?rel=0"].iter().any(|endpoint| zenoh(endpoint).repairs()));
        assert!(link(Carrier::Kcp, "a:1").repairs() && !link(Carrier::Kcp, "a:1").is_tcp());
        assert!(zenoh("tls/a:1").is_tcp() && !zenoh("quic/a:1").is_tcp());
        assert!(zenoh("arq/a:1").is_arq() && !zenoh("udp/a:1?rel=1").is_arq());
    }

    #[test]
    fn the_publisher_adds_its_own_to_the_locator() {
        let connects = |endpoint: &str, connect: &str| {
            let connect = connect.to_owned();
            Link { connect, ..link(Carrier::Zenoh, endpoint) }.connect_endpoint()
        };
        assert_eq!(connects("arq/a:1", ""), "arq/a:1");
        assert_eq!(connects("arq/a:1", "paths=b,c"), "arq/a:1#paths=b,c");
        assert_eq!(connects("arq/a:1#fec=off", "paths=b,c"), "arq/a:1#fec=off;paths=b,c");
    }

    #[test]
    fn a_damaged_message_is_no_arrival_and_is_remembered() {
        let payloads = Payloads::new(1, 0, 100);
        let mut message = payloads.make(Stamp { sequence: 7, intended_ns: 5 });
        let mut noted = Noted::default();
        assert_eq!(noted.note(&payloads, std::iter::once(message.as_slice()), 9), Some(7));
        message[50] ^= 1;
        assert_eq!(noted.note(&payloads, std::iter::once(message.as_slice()), 9), None);
        assert_eq!((noted.ledger.delivered, noted.damaged), (1, 1));
        assert!(noted.damage.unwrap().contains("message 7"));
    }
}
