// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do zenoh sessions carry the flows?

use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arq_report::scenario::flow::{self, Flow};
use zenoh::pubsub::Publisher;
use zenoh::qos::{CongestionControl, Priority, Reliability};
use zenoh::sample::Sample;
use zenoh::{Session, Wait};

use super::clock::now_ns;
use super::patterns::Outlet;
use super::publisher::{CarrierError, FlowLog};
use super::subscriber::Ear;
use super::Link;

/// Which side of the link a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Listen,
    Connect,
}

/// Opens a session to the subscriber and an outlet for each of the flows.
pub(super) fn connect(
    link: &Link,
    flows: &[(usize, Arc<FlowLog>)],
    patience: Duration,
) -> Result<Vec<Box<dyn Outlet>>, CarrierError> {
    let session = zenoh::open(config(link, Side::Connect)?).wait()?;
    let outlet = |(_, log): &(usize, Arc<FlowLog>)| {
        let outlet = ZenohOutlet::open(&session, log)?;
        outlet.wait_for_subscriber(patience)?;
        Ok(Box::new(outlet) as Box<dyn Outlet>)
    };
    flows.iter().map(outlet).collect()
}

/// Opens the listening session and notes what comes; ends with the returned session.
pub(super) fn listen(link: &Link, ears: Vec<Arc<Ear>>) -> Result<Session, CarrierError> {
    let session = zenoh::open(config(link, Side::Listen)?).wait()?;
    for ear in ears {
        let key = key(ear.index);
        let back = match ear.answers() {
            true => Some(publisher(&session, &ear.flow, answer_key(ear.index))?),
            false => None,
        };
        let note = move |sample: Sample| {
            let arrived_ns = now_ns();
            let payload = sample.payload();
            let intact = ear.note(payload.slices(), arrived_ns).is_some();
            if let Some(back) = back.as_ref().filter(|_| intact) {
                // What cannot be answered is a lost answer, and is counted as one.
                let _ = back.put(payload.clone()).wait();
            }
        };
        session.declare_subscriber(key).callback(note).background().wait()?;
    }
    Ok(session)
}

/// The way of one flow through a session.
pub(super) struct ZenohOutlet {
    publisher: Publisher<'static>,
    answers: Receiver<u64>,
    /// Everything above ends with it.
    session: Session,
}

impl ZenohOutlet {
    /// On a session of its own, which is opened first.
    pub(super) fn open_session(link: &Link, log: &Arc<FlowLog>) -> Result<Self, CarrierError> {
        let session = zenoh::open(config(link, Side::Connect)?).wait()?;
        Self::open(&session, log)
    }

    fn open(session: &Session, log: &Arc<FlowLog>) -> Result<Self, CarrierError> {
        let (answered, answers) = channel();
        if log.is_answered() {
            let noting = Arc::clone(log);
            let note = move |sample: Sample| {
                let arrived_ns = now_ns();
                if let Some(sequence) = noting.note_answer(sample.payload().slices(), arrived_ns) {
                    // Whoever no longer waits for it needs no answer.
                    let _ = answered.send(sequence);
                }
            };
            let key = answer_key(log.index);
            session.declare_subscriber(key).callback(note).background().wait()?;
        }
        let publisher = publisher(session, &log.flow, key(log.index))?;
        Ok(Self { publisher, answers, session: session.clone() })
    }

    /// Returns when the subscriber is known here.
    pub(super) fn wait_for_subscriber(&self, patience: Duration) -> Result<(), CarrierError> {
        let deadline = Instant::now() + patience;
        let changes = self.publisher.matching_listener().wait()?;
        while !self.publisher.matching_status().wait()?.matching() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("no session with the subscriber within {patience:?}").into());
            }
            changes.recv_timeout(left)?;
        }
        Ok(())
    }

    /// Says farewell to the subscriber.
    pub(super) fn close(self) -> Result<(), CarrierError> {
        self.session.close().wait()
    }
}

impl Outlet for ZenohOutlet {
    fn send(&mut self, payload: Vec<u8>) -> Result<(), CarrierError> {
        self.publisher.put(payload).wait()
    }

    fn answers(&self) -> Option<&Receiver<u64>> {
        Some(&self.answers)
    }
}

fn publisher(
    session: &Session,
    flow: &Flow,
    key: String,
) -> Result<Publisher<'static>, CarrierError> {
    session
        .declare_publisher(key)
        .priority(priority(flow.priority))
        .reliability(match flow.reliability {
            flow::Reliability::Reliable => Reliability::Reliable,
            flow::Reliability::BestEffort => Reliability::BestEffort,
        })
        .congestion_control(match flow.congestion_control {
            flow::CongestionControl::Block => CongestionControl::Block,
            flow::CongestionControl::Drop => CongestionControl::Drop,
        })
        .wait()
}

fn priority(priority: flow::Priority) -> Priority {
    match priority {
        flow::Priority::RealTime => Priority::RealTime,
        flow::Priority::InteractiveHigh => Priority::InteractiveHigh,
        flow::Priority::InteractiveLow => Priority::InteractiveLow,
        flow::Priority::DataHigh => Priority::DataHigh,
        flow::Priority::Data => Priority::Data,
        flow::Priority::DataLow => Priority::DataLow,
        flow::Priority::Background => Priority::Background,
    }
}

fn key(flow: usize) -> String {
    format!("arq/bench/{flow}")
}

fn answer_key(flow: usize) -> String {
    format!("arq/bench/{flow}/answer")
}

/// Zenoh's settings on both sides: the stock ones, alone on the network, and patient. With the stock lease of 10 s
/// and close time-out of 5 s, heavy loss ends a session over tcp within seconds and there is nothing to compare.
fn config(link: &Link, side: Side) -> Result<zenoh::Config, CarrierError> {
    let mut config = zenoh::Config::default();
    let endpoints = match side {
        Side::Listen => [link.endpoint.clone()],
        Side::Connect => [link.connect_endpoint()],
    };
    let endpoint = serde_json::to_string(&endpoints)?;
    let endpoint_on = |wanted| if side == wanted { endpoint.as_str() } else { "[]" };
    let ours = [
        ("listen/endpoints", endpoint_on(Side::Listen)),
        ("connect/endpoints", endpoint_on(Side::Connect)),
        ("scouting/multicast/enabled", "false"),
        ("scouting/gossip/enabled", "false"),
        // Without a wait for peers that nobody looks for: it would add up to 500 ms to an opening. Whether the
        // subscriber is known is asked of the publisher itself.
        ("open/return_conditions/connect_scouted", "false"),
        ("transport/shared_memory/enabled", "false"),
        ("transport/link/tx/lease", "60000"),
        ("transport/link/tx/queue/congestion_control/block/wait_before_close", "60000000"),
    ];
    let links = link.zenoh.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    for (key, value) in ours.into_iter().chain(links) {
        config
            .insert_json5(key, value)
            .map_err(|e| format!("zenoh refuses its configuration `{key}: {value}`: {e}"))?;
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arq_report::opponent::Carrier;

    fn link(zenoh: &[(&str, &str)]) -> Link {
        let zenoh = zenoh.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Link {
            carrier: Carrier::Zenoh,
            endpoint: "tcp/[::1]:7".to_owned(),
            connect: String::new(),
            zenoh: zenoh.collect(),
        }
    }

    #[test]
    fn a_links_own_settings_come_last_and_a_wrong_one_is_named() {
        let patient = config(&link(&[("transport/link/tx/lease", "7")]), Side::Listen).unwrap();
        assert_eq!(patient.get_json("transport/link/tx/lease").unwrap(), "7");
        assert_eq!(patient.get_json("listen/endpoints").unwrap(), r#"["tcp/[::1]:7"]"#);
        let error = config(&link(&[("transport/lnk", "1")]), Side::Listen).unwrap_err();
        assert!(error.to_string().contains("transport/lnk: 1"), "{error}");
    }
}
