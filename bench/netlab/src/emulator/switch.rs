// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do frames pass from port to port through the models?

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use impairments::recording::Recorded;
use impairments::{Fades, Model};
use nix::time::{clock_gettime, ClockId};

use super::frame::{Frame, Received};
use super::log::{Entry, Journal, PacketLog};
use super::ring::Port;
use crate::wire::{Conditions, Wire, WireCount};

/// Frames that are taken from a port before the others have their turn.
const BATCH: usize = 64;
/// Frames on their way at most on one wire: 100 Mb/s through 10 s, or 256 MB of memory.
const MOST_IN_FLIGHT: usize = 1 << 17;
/// A packet that leaves so long after its time is counted.
const LATE: Duration = Duration::from_millis(1);

/// The ports, a model for each ordered pair of them, and the journal.
pub(super) struct Switch {
    ports: Vec<Port>,
    /// From host `i` to host `j` at `i * ports + j`.
    models: Vec<Model<Travelling>>,
    journal: Journal,
    /// The port of host 0's second radio, while it is in use.
    second: Option<usize>,
    /// For each port: what its ring had no room for, what was no wire-sized packet, what could not be sent.
    faults: Vec<PortFaults>,
    /// Wires that refused a packet because too many were in flight.
    flight_overruns: Vec<u64>,
    /// Packets of each wire that left late.
    late: Vec<u64>,
    /// Zero of the models' time, on the kernel's monotonic clock.
    epoch: Duration,
    /// When everything was last set to its beginning, on that clock.
    began: Duration,
    departing: Vec<Vec<Travelling>>,
}

/// A wire, and the recording that it names.
#[derive(Clone)]
pub(super) struct Radio {
    pub(super) wire: Wire,
    pub(super) recorded: Option<Recorded>,
}

/// A frame on its way.
#[derive(Clone)]
struct Travelling {
    frame: Frame,
    entry: Entry,
}

/// What went wrong at a port, packets.
#[derive(Clone, Copy, Default)]
struct PortFaults {
    received: u64,
    sent: u64,
}

impl Switch {
    pub(super) fn new(ports: Vec<Port>) -> Self {
        let count = ports.len();
        let model = |index: usize| {
            let (from, to) = (index / count, index % count);
            let radio = from.min(to) * count + from.max(to);
            // There are at most 64 ports.
            Model::new(index as u32, radio as u32)
        };
        let (now, epoch) = (Duration::ZERO, monotonic());
        Self {
            models: (0..count * count).map(model).collect(),
            journal: Journal::new(now),
            second: None,
            faults: vec![PortFaults::default(); count],
            flight_overruns: vec![0; count * count],
            late: vec![0; count * count],
            departing: (0..count).map(|_| Vec::new()).collect(),
            ports,
            epoch,
            began: epoch,
        }
    }

    /// The time that the models know.
    pub(super) fn now(&self) -> Duration {
        monotonic().saturating_sub(self.epoch)
    }

    /// When everything was last set to its beginning, on the kernel's monotonic clock.
    pub(super) fn began(&self) -> Duration {
        self.began
    }

    /// The fades of a wire since then.
    pub(super) fn fades(&self, from: usize, to: usize) -> Option<Fades> {
        self.models[self.wire(from, to)].fades()
    }

    pub(super) fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Takes what has arrived, at most a batch from each port.
    pub(super) fn receive(&mut self) {
        let clock = Clock { monotonic: self.now(), real: since_1970() };
        for from in 0..self.ports.len() {
            for _ in 0..BATCH {
                match self.ports[from].receive() {
                    None => break,
                    Some(Received::Other) => {}
                    Some(Received::Oversized) => self.faults[from].received += 1,
                    Some(Received::Packet { frame, arrived }) => {
                        self.accept(from, frame, clock.monotonic_at(arrived));
                    }
                }
            }
        }
    }

    fn accept(&mut self, from: usize, frame: Frame, now: Duration) {
        let Some(to) = frame.destination().filter(|to| *to < self.ports.len() && *to != from)
        else {
            return;
        };
        let index = self.wire(from, to);
        let model = &mut self.models[index];
        if model.in_flight() >= MOST_IN_FLIGHT {
            self.flight_overruns[index] += 1;
            return;
        }
        let (len, entry) = (frame.ip_len(), self.journal.next());
        let fate = model.push(now, len, Travelling { frame, entry });
        // There are at most 64 hosts.
        self.journal.enter(now, (from as u8, to as u8), len, fate);
    }

    /// Sends what is due.
    pub(super) fn release(&mut self) {
        let now = self.now();
        let hosts = self.ports.len();
        for (index, model) in self.models.iter_mut().enumerate() {
            if model.deadline().is_some_and(|due| due <= now) {
                while let Some(departure) = model.poll(now) {
                    self.late[index] += u64::from(now > departure.due + LATE);
                    self.departing[index % hosts].push(departure.packet);
                }
            }
        }
        for (to, departing) in self.departing.iter_mut().enumerate() {
            if departing.is_empty() {
                continue;
            }
            let now = monotonic().saturating_sub(self.epoch);
            departing.iter().for_each(|packet| self.journal.leave(packet.entry, now));
            let frames: Vec<_> = departing.iter().map(|packet| &packet.frame).collect();
            self.faults[to].sent += self.ports[to].send(&frames) as u64;
            departing.clear();
        }
    }

    /// When the next packet is due.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.models.iter().filter_map(Model::deadline).min()
    }

    pub(super) fn set_wire(&mut self, from: usize, to: usize, radio: Radio) {
        let index = self.wire(from, to);
        self.models[index].set_wire(radio.wire, radio.recorded);
    }

    /// Sets the wires between host 0 and the others of so many hosts, there and back, for each port of host 0, and
    /// everything to its beginning, with nothing on the way.
    pub(super) fn begin(
        &mut self,
        network: &Conditions,
        hosts: usize,
        of_ports: &[(usize, [Radio; 2])],
        seed: u64,
    ) {
        while self.ports.iter().any(Port::is_readable) {
            self.receive();
        }
        self.models.iter_mut().for_each(Model::clear);
        for (port, [forward, backward]) in of_ports {
            for other in 1..hosts {
                self.set_wire(*port, other, forward.clone());
                self.set_wire(other, *port, backward.clone());
            }
        }
        self.second = of_ports.get(1).map(|(port, _)| *port);
        self.restart(network, seed);
    }

    /// Sets the events' clock, the counts, the journal and the random streams to their beginning.
    pub(super) fn restart(&mut self, network: &Conditions, seed: u64) {
        let (now, ports) = (self.now(), self.ports.len());
        let of_second = network.second.as_ref().map(|second| &second.events);
        for (index, model) in self.models.iter_mut().enumerate() {
            let touches = |port: usize| index / ports == port || index % ports == port;
            let events = match (touches(0), self.second.filter(|port| touches(*port))) {
                (true, _) => Some(&network.events),
                (false, Some(_)) => of_second,
                (false, None) => None,
            };
            model.restart(now, seed, events.cloned().unwrap_or_default());
        }
        self.collect_overruns();
        self.faults.fill(PortFaults::default());
        self.flight_overruns.fill(0);
        self.late.fill(0);
        self.journal.restart(now);
        self.began = self.epoch + now;
    }

    /// What has happened on a wire since the beginning.
    pub(super) fn count(&mut self, from: usize, to: usize) -> WireCount {
        self.collect_overruns();
        let index = self.wire(from, to);
        let mut count = self.models[index].count();
        // Which wire a packet was for that never came in is not known: every wire that it may have been for is void.
        count.emulator_overrun =
            self.flight_overruns[index] + self.faults[from].received + self.faults[to].sent;
        count.late = self.late[index];
        count
    }

    /// What the journal holds, once.
    pub(super) fn take_log(&mut self) -> PacketLog {
        self.journal.take()
    }

    fn collect_overruns(&mut self) {
        for (faults, port) in self.faults.iter_mut().zip(&self.ports) {
            faults.received += port.overruns();
        }
    }

    fn wire(&self, from: usize, to: usize) -> usize {
        from * self.ports.len() + to
    }
}

/// Both clocks at one moment: the kernel's time stamps are in the one that people read, the models' time is in the one
/// that never jumps.
struct Clock {
    monotonic: Duration,
    real: Duration,
}

impl Clock {
    /// The monotonic time of something that has just happened.
    fn monotonic_at(&self, real: Duration) -> Duration {
        // Frames may arrive while we read: those are not older than the reading.
        self.monotonic.saturating_sub(self.real.saturating_sub(real))
    }
}

/// The clock that all processes of the machine share and nobody sets.
fn monotonic() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default()
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_stamp_of_the_other_clock_keeps_its_age() {
        let s = Duration::from_secs;
        let clock = Clock { monotonic: s(100), real: s(1_000_000) };
        assert_eq!(clock.monotonic_at(s(999_997)), s(97));
        assert_eq!(clock.monotonic_at(s(1_000_001)), s(100), "not in the future");
    }
}
