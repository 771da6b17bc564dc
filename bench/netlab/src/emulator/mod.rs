// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does a network with delay, loss and limits lie beneath every link alike, without netem and without root?
//!
//! Each host is a network namespace as in [`crate::lab`]. Its cable ends in a namespace in the middle, where a packet
//! socket of ours takes every frame and, when its time has come, hands it to the cable of the host that it is for
//! (`ring`). What becomes of a packet is decided by a model without sockets or clocks (`model`); one thread of this
//! process moves the frames (`worker`, `switch`). The sockets are made inside the namespaces and handed to this
//! process, so no helper program runs, and a killed bench leaves nothing behind.
//!
//! Every frame is one packet of a wire: hosts cut offloaded packets before they send them. Only unicast IP passes;
//! neighbours and addresses are fixed, so nothing else is needed, and the kernel's own multicast does not shift the
//! count of packets to which the loss pattern belongs.
//!
//! [`Emulator::Netem`] lets the kernel's netem do the work instead (`netem`), to check one against the other.

mod check;
mod error;
mod frame;
mod log;
mod netem;
mod ring;
pub mod selftest;
mod switch;
mod worker;

use std::ops::Range;
use std::time::Duration;

use crate::lab::{Cabling, Host};
use crate::wire::{Conditions, Wire, WireCount};

use impairments::{recording, Fades};
use netem::Netem;
use ring::Port;
use switch::{Radio, Switch};
use worker::Worker;

pub use error::EmulatorError;
pub use impairments::expected_share;
pub use impairments::Fate;
pub use log::{PacketLog, PacketRecord};
pub use worker::Scheduling;

/// The most interfaces of all hosts of a network.
const MOST_PORTS: u8 = 64;
/// Frames that the rings of all ports have room for together: 400 ms of a full gigabit between two hosts.
const RING_FRAMES: usize = 1 << 15;

/// Hosts in namespaces with the emulator between them. Dropping it ends every process inside and takes it all away.
pub struct Network {
    backend: Backend,
    cabling: Cabling,
    /// What was last asked for, to start its events anew.
    asked: Conditions,
    /// Each interface's own drops when the counts began.
    drops_before: Vec<u64>,
    seed: u64,
}

/// What lies between the cables.
enum Backend {
    Own(Worker),
    Netem(Netem),
}

/// What carries the packets from one host to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emulator {
    /// This crate's own.
    #[default]
    Own,
    /// The kernel's netem, to check one against the other: two hosts, no seed, no events, no packet log.
    Netem,
}

impl Network {
    /// Builds a network of `hosts` hosts (2 to 64) with clean wires and starts it.
    ///
    /// # Errors
    /// When the system refuses namespaces or packet sockets, or lacks a tool; the error says what to do.
    pub fn new(hosts: u8) -> Result<Self, EmulatorError> {
        Self::with(Emulator::Own, hosts)
    }

    /// The same, and those hosts have a second radio: an interface `eth1` with an address of its own, which is used by
    /// what asks for it. [`Network::second_radio`] is its number; at most 64 radios in all.
    ///
    /// # Errors
    /// As [`Network::new`], and where there are not so many hosts.
    pub fn with_second_radios(hosts: u8, second: Range<u8>) -> Result<Self, EmulatorError> {
        Self::build(Emulator::Own, hosts, second)
    }

    /// The same over an emulator of your choice.
    ///
    /// # Errors
    /// As [`Network::new`], and where the kernel has no netem.
    pub fn with(emulator: Emulator, hosts: u8) -> Result<Self, EmulatorError> {
        Self::build(emulator, hosts, 0..0)
    }

    fn build(emulator: Emulator, hosts: u8, second: Range<u8>) -> Result<Self, EmulatorError> {
        let cabling = Cabling::new(hosts, second, MOST_PORTS)?;
        cabling.hosts.iter().try_for_each(Host::disable_segmentation)?;
        let backend = match emulator {
            Emulator::Own => Backend::Own(start_own(&cabling)?),
            Emulator::Netem => Backend::Netem(Netem::start(&cabling)?),
        };
        let mut network =
            Self { backend, cabling, asked: Conditions::default(), drops_before: vec![], seed: 0 };
        network.remember_drops();
        Ok(network)
    }

    /// The host number `index`, from 0.
    ///
    /// # Panics
    /// When the network has no such host.
    pub fn host(&self, index: usize) -> &Host {
        &self.cabling.hosts[index]
    }

    /// The number of a host's second radio, if it has one: in the place of the host's own, it names the radio in
    /// [`Network::set_wire`], [`Network::counts`] and the packet log.
    ///
    /// # Panics
    /// When the network has no such host.
    pub fn second_radio(&self, host: usize) -> Option<usize> {
        self.host(host).second_port()
    }

    /// What the system has allowed the emulator's thread; `None` where netem does the work.
    pub fn scheduling(&self) -> Option<Scheduling> {
        match &self.backend {
            Backend::Own(worker) => Some(worker.scheduling()),
            Backend::Netem(_) => None,
        }
    }

    /// Changes the wire from host `from` to host `to` from now on; what is on its way stays, counts go on.
    ///
    /// # Errors
    /// When no wire can have these figures, its recording cannot be read, or there is none between these hosts.
    pub fn set_wire(&mut self, from: usize, to: usize, wire: &Wire) -> Result<(), EmulatorError> {
        check::wire(wire)?;
        self.require(from, to)?;
        match &self.backend {
            Backend::Own(worker) => {
                let radio = radio(wire, self.seed)?;
                worker.ask(move |switch| switch.set_wire(from, to, radio))
            }
            Backend::Netem(netem) => netem.set_wire(&self.cabling, to, wire),
        }
    }

    /// Sets both directions between host 0 and every other host and starts everything anew: nothing is on its way, the
    /// counts, the packet log and the clock of the events are at zero, and the random streams at the start of `seed`.
    ///
    /// [`Conditions::second`] is the second radio of host 0.
    ///
    /// # Errors
    /// When no network can have these figures, or a recording cannot be read.
    pub fn begin(&mut self, network: &Conditions, seed: u64) -> Result<(), EmulatorError> {
        check::network(network)?;
        if network.second.is_some() && self.second_radio(0).is_none() {
            return Err(EmulatorError::NoSecondRadio);
        }
        (self.asked, self.seed) = (network.clone(), seed);
        match &mut self.backend {
            Backend::Own(worker) => {
                let (hosts, port) = (self.cabling.hosts.len(), self.cabling.hosts[0].second_port());
                let first = [radio(&network.forward, seed)?, radio(&network.backward, seed)?];
                let mut of_ports = vec![(0, first)];
                if let Some((second, port)) = network.second.as_ref().zip(port) {
                    let wires = [radio(&second.forward, seed)?, radio(&second.backward, seed)?];
                    of_ports.push((port, wires));
                }
                let network = network.clone();
                worker.ask(move |switch| switch.begin(&network, hosts, &of_ports, seed))?;
            }
            Backend::Netem(netem) => netem.begin(&self.cabling, network)?,
        }
        self.remember_drops();
        Ok(())
    }

    /// Starts the counts, the packet log, the clock of the events and the random streams anew, and leaves the wires and
    /// what is on its way as they are: for the moment of the first message, when a session is already open.
    ///
    /// # Errors
    /// When the emulator has ended.
    pub fn restart(&mut self, seed: u64) -> Result<(), EmulatorError> {
        match &mut self.backend {
            Backend::Own(worker) => {
                let network = self.asked.clone();
                worker.ask(move |switch| switch.restart(&network, seed))?;
            }
            Backend::Netem(netem) => netem.restart(&self.cabling)?,
        }
        self.remember_drops();
        Ok(())
    }

    /// What has crossed from host `from` to host `to` since [`Network::begin`] or [`Network::restart`].
    ///
    /// # Errors
    /// When there is no wire between these hosts.
    pub fn counts(&mut self, from: usize, to: usize) -> Result<WireCount, EmulatorError> {
        self.require(from, to)?;
        let mut count = match &self.backend {
            Backend::Own(worker) => worker.ask(move |switch| switch.count(from, to))?,
            Backend::Netem(netem) => netem.count(&self.cabling, to)?,
        };
        let drops = self.interface_drops();
        for port in [from, to] {
            count.emulator_overrun += drops[port].saturating_sub(self.drops_before[port]);
        }
        Ok(count)
    }

    /// Every packet since [`Network::begin`] or [`Network::restart`], or since this was last asked. The zero of its
    /// times stays where it was.
    ///
    /// # Errors
    /// With [`Emulator::Netem`], which keeps none.
    pub fn packet_log(&mut self) -> Result<PacketLog, EmulatorError> {
        match &self.backend {
            Backend::Own(worker) => worker.ask(Switch::take_log),
            Backend::Netem(_) => Err(EmulatorError::NotWithNetem("packet log")),
        }
    }

    /// When [`Network::begin`] or [`Network::restart`] last set the clock of events and fades to zero, on the kernel's
    /// monotonic clock (`CLOCK_MONOTONIC`); `None` where netem does the work.
    ///
    /// # Errors
    /// When the emulator has ended.
    pub fn began(&self) -> Result<Option<Duration>, EmulatorError> {
        match &self.backend {
            Backend::Own(worker) => worker.ask(|switch| Some(switch.began())),
            Backend::Netem(_) => Ok(None),
        }
    }

    /// The fades from host `from` to host `to`, with times since [`Network::began`]; `None` where nothing fades.
    ///
    /// # Errors
    /// When there is no wire between these hosts, or the emulator has ended.
    pub fn fades(&self, from: usize, to: usize) -> Result<Option<Fades>, EmulatorError> {
        self.require(from, to)?;
        match &self.backend {
            Backend::Own(worker) => worker.ask(move |switch| switch.fades(from, to)),
            Backend::Netem(_) => Ok(None),
        }
    }

    fn remember_drops(&mut self) {
        self.drops_before = self.interface_drops();
    }

    /// Of each port.
    fn interface_drops(&self) -> Vec<u64> {
        let interfaces = self.cabling.interfaces();
        interfaces.map(|(host, _, interface)| host.interface_drops(interface)).collect()
    }

    fn require(&self, from: usize, to: usize) -> Result<(), EmulatorError> {
        let hosts = self.cabling.ports();
        if from == to || from >= hosts || to >= hosts {
            return Err(EmulatorError::NoSuchWire { from, to, hosts });
        }
        Ok(())
    }
}

/// A wire with what it names, read.
fn radio(wire: &Wire, seed: u64) -> Result<Radio, EmulatorError> {
    let load = |asked| recording::load(asked, seed);
    let recorded = wire.recording.as_ref().map(load).transpose()?;
    Ok(Radio { wire: wire.clone(), recorded })
}

fn start_own(cabling: &Cabling) -> Result<Worker, EmulatorError> {
    let frames = RING_FRAMES / cabling.ports();
    let ports = (0..cabling.ports())
        .map(|index| Port::open(&cabling.middle, index, frames))
        .collect::<Result<Vec<_>, _>>()?;
    Worker::start(Switch::new(ports))
}
