// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does the publishing process open its sessions, keep every flow going, and tell what it did?

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

use arq_report::opponent::Carrier;
use arq_report::scenario::flow::{Flow, Pattern};
use parking_lot::Mutex;

use super::clock::nanos;
use super::patterns::{self, Outlet};
use super::payload::Payloads;
use super::sampler::Sampler;
use super::subscriber::is_answered;
use super::usage::Meter;
use super::{arq, kcp, next_order, tcp, tell_in_background, zenoh_link, Witness};
use super::{Load, Noted, Order, PlannedFlow, Spoken, Word};
use crate::delivery::{Departures, Thinned};

/// Why a link could not be opened or used, in the words of whoever carries the messages.
pub(super) type CarrierError = Box<dyn std::error::Error + Send + Sync>;

/// Publishes the flows of `load`, as told on standard input, and ends.
pub fn publish(load: &Load) {
    match run(load) {
        Ok(()) => {}
        Err(e) => Word::Failed(e.to_string()).say(),
    }
    tcp::abandon();
    // Without the farewells of a session: over a bad network they take long, and nobody waits for them.
    std::process::exit(0)
}

fn run(load: &Load) -> Result<(), CarrierError> {
    let logs: Vec<_> =
        load.flows.iter().enumerate().map(|(i, f)| FlowLog::new(load, i, f)).collect();
    let outlets = open(load, &logs)?;
    Word::Ready.say();
    if next_order() != Some(Order::Meter) {
        return Ok(());
    }
    let meter = Meter::start();
    let again = retransmissions(load.witness());
    Word::Metering.say();
    let Some(Order::Go(first_ns)) = next_order() else { return Ok(()) };
    let sampler = Sampler::start(load, first_ns);
    start_flows(load, &logs, outlets, first_ns);
    tell_sent(&logs);
    while next_order().is_some_and(|order| order != Order::Stop) {}

    let samples = sampler.samples();
    let usage = meter.read(samples.own_cpu_s);
    let again =
        retransmissions(load.witness()).zip(again).map(|(now, then)| now.saturating_sub(then));
    let of = |witness| again.filter(|_| load.witness() == witness);
    let spoken = Spoken {
        departures: logs.iter().map(|log| log.departures(first_ns)).collect(),
        answers: logs.iter().map(|log| log.answers()).collect(),
        usage,
        tcp_retransmissions: of(Witness::Kernel),
        arq_retransmissions: of(Witness::Arq),
        needless_percent: arq::needless_percent(),
        in_flight: samples.in_flight,
    };
    Word::Spoken(Box::new(spoken)).say();
    Ok(())
}

/// What has been sent again so far, if anybody can tell.
fn retransmissions(witness: Witness) -> Option<u64> {
    match witness {
        Witness::Kernel => tcp::retransmitted_segments(),
        Witness::Arq => Some(arq::repairs()),
        Witness::Nobody => None,
    }
}

/// An outlet for each flow; none for a flow that opens its sessions itself.
fn open(load: &Load, logs: &[Arc<FlowLog>]) -> Result<Vec<Option<Box<dyn Outlet>>>, CarrierError> {
    let mut outlets: Vec<Option<Box<dyn Outlet>>> = load.flows.iter().map(|_| None).collect();
    for session in sessions(load) {
        let link = &load.links[session.link];
        let flows: Vec<_> =
            session.flows.iter().map(|&flow| (flow, Arc::clone(&logs[flow]))).collect();
        let opened = match link.carrier {
            Carrier::Zenoh => zenoh_link::connect(link, &flows, load.open)?,
            Carrier::Kcp => kcp::connect(link, &flows, load.open)?,
        };
        for (flow, outlet) in session.flows.into_iter().zip(opened) {
            outlets[flow] = Some(outlet);
        }
    }
    Ok(outlets)
}

/// The flows that share a session, by index.
#[derive(Debug, PartialEq, Eq)]
struct Session {
    link: usize,
    flows: Vec<usize>,
}

/// One session for each link, and one for each flow that wants its own.
fn sessions(load: &Load) -> Vec<Session> {
    let mut sessions: Vec<Session> = Vec::new();
    let mut shared = std::collections::BTreeMap::new();
    for (index, PlannedFlow { flow, link }) in load.flows.iter().enumerate() {
        if matches!(flow.pattern, Pattern::Opening { .. }) {
            continue;
        }
        match shared.get(link) {
            Some(&session) if !flow.own_session => {
                let Session { flows, .. } = &mut sessions[session];
                flows.push(index);
            }
            _ => {
                if !flow.own_session {
                    shared.insert(*link, sessions.len());
                }
                sessions.push(Session { link: *link, flows: vec![index] });
            }
        }
    }
    sessions
}

fn start_flows(
    load: &Load,
    logs: &[Arc<FlowLog>],
    outlets: Vec<Option<Box<dyn Outlet>>>,
    first_ns: u64,
) {
    let left = Arc::new(AtomicUsize::new(outlets.len()));
    for (log, outlet) in logs.iter().zip(outlets) {
        log.begin_answers(first_ns);
        let (log, left, logs) = (Arc::clone(log), Arc::clone(&left), logs.to_vec());
        let link = load.links[log.link].clone();
        let open = load.open;
        std::thread::spawn(move || {
            let mut outlet = outlet;
            let done = match &mut outlet {
                Some(outlet) => patterns::run(&log, outlet.as_mut(), first_ns),
                None => super::opening::run(&log, &link, first_ns, open),
            };
            match done {
                Err(e) => Word::Failed(format!("flow `{}`: {e}", log.flow.name)).say(),
                Ok(()) if left.fetch_sub(1, Ordering::AcqRel) == 1 => {
                    Word::Done(logs.iter().map(|log| log.offered()).collect()).say();
                }
                Ok(()) => {}
            }
            // The session lives on until the process ends: the subscriber still waits for what is on its way.
            loop {
                std::thread::park();
            }
        });
    }
}

fn tell_sent(logs: &[Arc<FlowLog>]) {
    let logs = logs.to_vec();
    let sent = move || logs.iter().map(|log| log.sent.load(Ordering::Relaxed)).sum();
    tell_in_background(move || Word::Sent(sent()));
}

/// What is known of one flow while it runs.
pub(super) struct FlowLog {
    pub(super) flow: Flow,
    pub(super) index: usize,
    pub(super) link: usize,
    pub(super) payloads: Payloads,
    /// How long after the flow's begin it may go on, nanoseconds.
    pub(super) limit_ns: u64,
    sent: AtomicU64,
    noted: Mutex<Thinned<u64>>,
    answers: Mutex<Noted>,
}

impl FlowLog {
    fn new(load: &Load, index: usize, planned: &PlannedFlow) -> Arc<Self> {
        let PlannedFlow { flow, link } = planned.clone();
        Arc::new(Self {
            payloads: Payloads::new(load.seed, index, flow.payload_bytes),
            limit_ns: nanos(limit(load, &flow)),
            index,
            link,
            flow,
            sent: AtomicU64::new(0),
            noted: Mutex::default(),
            answers: Mutex::default(),
        })
    }

    /// Whether each message is sent back.
    pub(super) fn is_answered(&self) -> bool {
        is_answered(&self.flow)
    }

    /// When the flow begins.
    pub(super) fn begin_ns(&self, first_ns: u64) -> u64 {
        first_ns + (self.flow.start_s * 1e9) as u64
    }

    /// A message is about to be handed over whose time nobody knew before.
    pub(super) fn note_departure(&self, sequence: u64, now_ns: u64) {
        self.noted.lock().push(sequence, now_ns);
    }

    /// So many have been handed over.
    pub(super) fn set_sent(&self, messages: u64) {
        self.sent.store(messages, Ordering::Relaxed);
    }

    fn begin_answers(&self, first_ns: u64) {
        let mut answers = self.answers.lock();
        answers.ledger.begin(self.begin_ns(first_ns));
    }

    /// The answer to a message has come; its number, unless it is damaged.
    pub(super) fn note_answer<'a>(
        &self,
        pieces: impl Iterator<Item = &'a [u8]>,
        arrived_ns: u64,
    ) -> Option<u64> {
        let mut noted = self.answers.lock();
        noted.note(&self.payloads, pieces, arrived_ns)
    }

    /// Messages that were meant to be sent, those for which no time was left included; a flood is meant to send what
    /// the link takes.
    fn offered(&self) -> u64 {
        match self.flow.pattern {
            Pattern::Periodic { messages, .. }
            | Pattern::Transfer { messages }
            | Pattern::PingPong { messages }
            | Pattern::Opening { messages } => messages,
            Pattern::Flood { .. } => self.sent.load(Ordering::Relaxed),
        }
    }

    fn departures(&self, first_ns: u64) -> Departures {
        let noted = self.noted.lock().clone();
        Departures { offered: self.offered(), first_ns: self.begin_ns(first_ns), noted }
    }

    fn answers(&self) -> Option<Noted> {
        let answers = || self.answers.lock().clone();
        matches!(self.flow.pattern, Pattern::PingPong { .. }).then(answers)
    }
}

/// How long a flow takes at most, from its begin.
pub(crate) fn limit(load: &Load, flow: &Flow) -> std::time::Duration {
    let seconds = std::time::Duration::from_secs_f64;
    match flow.pattern {
        Pattern::Periodic { rate_hz, messages } => seconds(messages as f64 / rate_hz) + load.grace,
        Pattern::Flood { seconds: flooded } => seconds(flooded) + load.grace,
        Pattern::Transfer { .. } | Pattern::PingPong { .. } | Pattern::Opening { .. } => {
            load.longest
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(flows: Vec<PlannedFlow>) -> Load {
        let second = std::time::Duration::from_secs(1);
        Load { links: Vec::new(), flows, seed: 1, open: second, grace: second, longest: second }
    }

    #[test]
    fn what_there_was_no_time_for_was_offered_too() {
        let offered = |pattern: &str| {
            let text = format!(r#"{{"name":"f","payload_bytes":16,"pattern":{pattern}}}"#);
            let flow = PlannedFlow { flow: serde_json::from_str(&text).unwrap(), link: 0 };
            let log = FlowLog::new(&load(Vec::new()), 0, &flow);
            log.set_sent(2);
            log.departures(0).offered
        };
        assert_eq!(offered(r#""opening","messages":5"#), 5);
        assert_eq!(offered(r#""ping-pong","messages":5"#), 5);
        assert_eq!(offered(r#""flood","seconds":1.0"#), 2);
    }

    #[test]
    fn flows_share_a_session_unless_they_want_their_own() {
        let flow = |own_session: bool, link: usize| {
            let text = format!(
                r#"{{"name":"f","payload_bytes":16,"pattern":"transfer","messages":1,"own_session":{own_session}}}"#
            );
            PlannedFlow { flow: serde_json::from_str(&text).unwrap(), link }
        };
        let load = load(vec![flow(true, 0), flow(false, 0), flow(false, 1), flow(false, 0)]);
        let session = |link, flows: &[usize]| Session { link, flows: flows.to_vec() };
        assert_eq!(sessions(&load), [session(0, &[0]), session(0, &[1, 3]), session(1, &[2])]);
    }
}
