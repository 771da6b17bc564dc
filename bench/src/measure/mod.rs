// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does one link do with one load on one network? One cell of a scenario, once.
//!
//! The subscriber runs in host 1 and listens, the publisher in host 0 and connects. Sessions open over a network that
//! loses nothing but is as slow and as narrow as it will be: a session that was opened over a fast one would believe
//! in its round-trip time for a while (bbr for ten seconds) and take the delay for trouble. Then the network gets its
//! faults, and the first message is due. Whatever goes wrong, both processes are ended, kernel settings are put back,
//! and the network is there for the next cell.
//!
//! A network that asks for nothing is the loopback of host 1, where both processes run then: the emulator would be the
//! slowest part of it. Nothing is counted on a wire that is none.

pub mod certificates;
mod conduct;
mod error;
mod kernel;
mod plan;
mod process;
mod processors;
mod quiet;

use std::path::Path;
use std::time::Duration;

use arq_report::opponent::Opponent;
use arq_report::record::{FlowResult, Measurement};
use arq_report::scenario::flow::Flow;
use netlab::wire::{Conditions, WireCount};
use netlab::{EmulatorError, Network};

use crate::delivery::flow_result;
use crate::traffic::{Heard, Load, Noted, Spoken};

use conduct::{conduct, Commands};
pub use error::{MeasureError, Who};
use kernel::KernelSettings;
use plan::Plan;
use processors::Processors;
use quiet::{faultless, wait_for_silence};

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The link.
    pub opponent: &'a Opponent,
    /// The links that a flow may name as its own.
    pub opponents: &'a [Opponent],
    /// The load.
    pub flows: &'a [Flow],
    /// What the network does from the first message on.
    pub network: &'a Conditions,
    /// Decides losses, delays and payloads.
    pub seed: u64,
    /// How long is waited for what.
    pub patience: Patience,
    /// Where the subscriber listens; the links of flows with their own listen at the ports after it. A cell that
    /// shares no port with the one before cannot meet its packets.
    pub port: u16,
    /// This program, which is started anew as publisher and as subscriber.
    pub program: &'a Path,
}

/// How long is waited for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a session to open.
    pub open: Duration,
    /// For a message, after the last departure of a timetable or a flood.
    pub grace: Duration,
    /// For the end of a flow without a timetable (transfer, ping-pong, opening).
    pub longest: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            open: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            longest: Duration::from_secs(120),
        }
    }
}

/// How far a cell is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What it is doing.
    pub phase: Phase,
    /// Messages handed over.
    pub sent: u64,
    /// Messages that came.
    pub received: u64,
    /// Messages that will be sent, where that is known.
    pub offered: Option<u64>,
    /// Since the first message was due.
    pub elapsed: Duration,
    /// What `elapsed` can become at most.
    pub at_most: Duration,
}

/// What a cell is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Sessions open.
    #[default]
    Opening,
    /// Messages travel.
    Running,
    /// Both processes tell what they noted.
    Collecting,
}

/// Measures one cell.
pub fn measure(
    network: &mut Network,
    job: &Job<'_>,
    on_progress: &dyn Fn(Progress),
) -> Result<Measurement, MeasureError> {
    let plan = Plan::of(job, network.host(1))?;
    network.begin(&faultless(job.network), job.seed)?;
    let hosts = [network.host(0), network.host(1)];
    let settings = KernelSettings::apply(hosts, &plan.opponents)?;
    let measured = run(network, job, &plan.load, on_progress);
    let restored = settings.restore([network.host(0), network.host(1)]);
    let measured = measured?;
    restored?;
    Ok(measured)
}

fn run(
    network: &mut Network,
    job: &Job<'_>,
    load: &Load,
    on_progress: &dyn Fn(Progress),
) -> Result<Measurement, MeasureError> {
    let publisher_host = if job.network.is_clean() { 1 } else { 0 };
    let commands = Commands {
        subscriber: network.host(1).command(job.program),
        publisher: network.host(publisher_host).command(job.program),
    };
    let mut began = None;
    let mut begin = || {
        wait_for_silence(network, job.network)?;
        began = Processors::now();
        Ok(network.begin(job.network, job.seed)?)
    };
    let (spoken, heard) = conduct(commands, load, &mut begin, on_progress)?;
    let processors = began.zip(Processors::now());
    let [forward, backward] = counts(network)?;
    let first_message_ms =
        network.began()?.and_then(|began| first_message_ms(load, &spoken, began));
    Ok(Measurement {
        flows: flow_results(load, &spoken, &heard)?,
        forward,
        backward,
        publisher: spoken.usage,
        subscriber: heard.usage,
        tcp_retransmissions: spoken.tcp_retransmissions,
        arq_retransmissions: spoken.arq_retransmissions,
        needless_percent: spoken.needless_percent,
        in_flight: spoken.in_flight,
        stolen_percent: processors.map(|(before, after)| after.stolen_percent_since(before)),
        machine_cpu_s: processors.map(|(before, after)| after.busy_since(before).as_secs_f64()),
        first_message_ms,
        fades_ms: Vec::new(),
        many_links: None,
    })
}

/// When the first message of all was due, since the network began; a flow may begin `start_s` later.
fn first_message_ms(load: &Load, spoken: &Spoken, began: Duration) -> Option<f64> {
    let (planned, departures) = load.flows.first().zip(spoken.departures.first())?;
    let due = Duration::from_nanos(departures.first_ns);
    Some(due.saturating_sub(began).as_secs_f64() * 1e3 - planned.flow.start_s * 1e3)
}

/// What has crossed the network there and back, by all radios of the publisher.
pub fn counts(network: &mut Network) -> Result<[WireCount; 2], EmulatorError> {
    let mut all = [network.counts(0, 1)?, network.counts(1, 0)?];
    if let Some(second) = network.second_radio(0) {
        all[0] = all[0] + network.counts(second, 1)?;
        all[1] = all[1] + network.counts(1, second)?;
    }
    Ok(all)
}

/// The flows in their order.
fn flow_results(
    load: &Load,
    spoken: &Spoken,
    heard: &Heard,
) -> Result<Vec<FlowResult>, MeasureError> {
    let flows = load.flows.iter().map(|planned| &planned.flow);
    flows
        .enumerate()
        .map(|(index, flow)| {
            let (arrived, answered) = (&heard.flows[index], &spoken.answers[index]);
            undamaged(flow, answered.iter().chain([arrived]))?;
            // A ping-pong is over where it began.
            let noted = answered.as_ref().unwrap_or(arrived);
            Ok(flow_result(flow, &spoken.departures[index], &noted.ledger))
        })
        .collect()
}

/// A damaged message makes the whole cell worthless.
fn undamaged<'a>(flow: &Flow, noted: impl Iterator<Item = &'a Noted>) -> Result<(), MeasureError> {
    noted.filter(|noted| noted.damaged > 0).try_for_each(|noted| {
        Err(MeasureError::Damaged {
            flow: flow.name.clone(),
            messages: noted.damaged,
            first: noted.damage.clone().unwrap_or_default(),
        })
    })
}
