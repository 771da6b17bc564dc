// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does the subscribing process note when each message came?

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use arq_report::opponent::Carrier;
use arq_report::scenario::flow::{Flow, Pattern};
use parking_lot::Mutex;

use super::payload::Payloads;
use super::publisher::CarrierError;
use super::usage::Meter;
use super::{kcp, next_order, tcp, tell_in_background, zenoh_link};
use super::{Heard, Load, Noted, Order, Word};

/// Notes arrivals, as told on standard input, tells them and ends.
pub fn subscribe(load: &Load) {
    match run(load) {
        Ok(()) => {}
        Err(e) => Word::Failed(e.to_string()).say(),
    }
    tcp::abandon();
    // Without the farewells of a session: over a bad network they take long, and nobody waits for them.
    std::process::exit(0)
}

fn run(load: &Load) -> Result<(), CarrierError> {
    let ears: Vec<_> = (0..load.flows.len()).map(|flow| Ear::new(load, flow)).collect();
    let _sessions = listen(load, &ears)?;
    Word::Ready.say();
    if next_order() != Some(Order::Meter) {
        return Ok(());
    }
    let meter = Meter::start();
    Word::Metering.say();
    let Some(Order::Go(first_ns)) = next_order() else { return Ok(()) };
    ears.iter().for_each(|ear| ear.begin(first_ns));
    tell_received(&ears);
    while next_order().is_some_and(|order| order != Order::Stop) {}

    let usage = meter.read(0.0);
    let flows = ears.iter().map(|ear| ear.noted()).collect();
    Word::Heard(Box::new(Heard { flows, usage })).say();
    Ok(())
}

/// What listens ends with the returned value.
fn listen(load: &Load, ears: &[Arc<Ear>]) -> Result<Vec<Box<dyn std::any::Any>>, CarrierError> {
    let listen = |(index, link): (usize, &super::Link)| {
        let ears = ears.iter().filter(|ear| ear.link == index).cloned().collect();
        Ok(match link.carrier {
            Carrier::Zenoh => Box::new(zenoh_link::listen(link, ears)?) as Box<dyn std::any::Any>,
            Carrier::Kcp => Box::new(kcp::listen(link, ears)?),
        })
    };
    load.links.iter().enumerate().map(listen).collect()
}

fn tell_received(ears: &[Arc<Ear>]) {
    let ears = ears.to_vec();
    let received = move || ears.iter().map(|ear| ear.received.load(Ordering::Relaxed)).sum();
    tell_in_background(move || Word::Received(received()));
}

/// Where the messages of one flow arrive.
pub(super) struct Ear {
    pub(super) flow: Flow,
    pub(super) index: usize,
    link: usize,
    payloads: Payloads,
    noted: Mutex<Noted>,
    /// Messages that came, each counted once.
    received: AtomicU64,
}

impl Ear {
    fn new(load: &Load, index: usize) -> Arc<Self> {
        let planned = &load.flows[index];
        Arc::new(Self {
            payloads: Payloads::new(load.seed, index, planned.flow.payload_bytes),
            flow: planned.flow.clone(),
            index,
            link: planned.link,
            noted: Mutex::default(),
            received: AtomicU64::new(0),
        })
    }

    /// Whether each message is sent back.
    pub(super) fn answers(&self) -> bool {
        is_answered(&self.flow)
    }

    /// Notes a message that came in these pieces; its number, unless it is damaged.
    pub(super) fn note<'a>(
        &self,
        pieces: impl Iterator<Item = &'a [u8]>,
        arrived_ns: u64,
    ) -> Option<u64> {
        let mut noted = self.noted.lock();
        let sequence = noted.note(&self.payloads, pieces, arrived_ns);
        self.received.store(noted.ledger.delivered, Ordering::Relaxed);
        sequence
    }

    fn begin(&self, first_ns: u64) {
        let begin_ns = first_ns + (self.flow.start_s * 1e9) as u64;
        self.noted.lock().ledger.begin(begin_ns);
    }

    fn noted(&self) -> Noted {
        self.noted.lock().clone()
    }
}

/// Whether the messages of a flow are sent back: a ping-pong for its own sake, an opening to know when to close.
pub(super) fn is_answered(flow: &Flow) -> bool {
    matches!(flow.pattern, Pattern::PingPong { .. } | Pattern::Opening { .. })
}
