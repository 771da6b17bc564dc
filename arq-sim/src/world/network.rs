// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Radios, and the way of a datagram: past the tap, onto the wire, to its arrival or its end, and into the log.

use std::{net::SocketAddr, sync::Arc};

use arq_proto::{ConnectionHandle, SocketId};
use bytes::Bytes;

use super::{events::Action, WireId, World};
use crate::{
    host::{ConnId, HostConfig, HostId, Outgoing},
    log::{Entry, LoggedFate},
    tap::Verdict,
    wire::{Datagram, Fate, Passage},
};

impl World {
    /// Gives a host another radio, with wires of its own. Its connections call that by the socket returned by
    /// [`Self::socket_of`].
    pub fn add_radio(&mut self, host: HostId, name: &'static str, address: SocketAddr) -> HostId {
        let radio = self.add_host(HostConfig::new(name, address));
        self.hosts[host.0].radios.push(radio);
        // A handful.
        let socket = SocketId(self.hosts[host.0].radios.len() as u8);
        self.hosts[radio.0].endpoint = None;
        self.hosts[radio.0].owner = Some((host, socket));
        radio
    }

    /// The socket of a radio.
    #[must_use]
    pub fn socket_of(&self, radio: HostId) -> SocketId {
        self.hosts[radio.0].owner.map(|(_, socket)| socket).unwrap_or_default()
    }

    /// What a host's socket stands for.
    fn radio(&self, host: HostId, socket: SocketId) -> HostId {
        let place = usize::from(socket.0).checked_sub(1);
        place.and_then(|place| self.hosts[host.0].radios.get(place)).copied().unwrap_or(host)
    }

    /// Sends what a host wants sent.
    pub(super) fn dispatch(&mut self, from: HostId, outgoing: Vec<Outgoing>) {
        // A host that does not set the field does not read it either.
        let has_ecn = self.hosts[from.0].config.has_ecn;
        for Outgoing { socket, to, ecn, bytes, vanishes } in outgoing {
            let ecn = ecn.filter(|_| has_ecn);
            let from = self.radio(from, socket);
            let source = self.address(from);
            let exchange = self.exchanged.entry((from, to)).or_default();
            exchange.sent_bytes += bytes.len() as u64;
            let datagram = Datagram { from: source, to, ecn, bytes: Bytes::from(bytes) };
            if vanishes {
                self.record(&Passage { datagram, fate: Fate::BatchLost });
                continue;
            }
            if let Some(datagram) = self.pass_tap(datagram) {
                self.enter_wire(from, datagram);
            }
        }
    }

    /// What the tap leaves of a datagram.
    fn pass_tap(&mut self, mut datagram: Datagram) -> Option<Datagram> {
        let Some(tap) = &mut self.tap else { return Some(datagram) };
        let mut forged = Vec::new();
        let verdict = tap.inspect(self.clock.offset(), &datagram, &mut forged);
        forged.into_iter().for_each(|forged| self.forge(forged));
        match verdict {
            Verdict::Pass => Some(datagram),
            Verdict::Replace(bytes) => {
                datagram.bytes = Bytes::from(bytes);
                Some(datagram)
            }
            Verdict::Withhold => {
                self.record(&Passage { datagram, fate: Fate::Withheld });
                None
            }
        }
    }

    fn enter_wire(&mut self, from: HostId, datagram: Datagram) {
        let Some(to) = self.host_at(datagram.to).map(HostId) else {
            return self.record(&Passage { datagram, fate: Fate::NoSuchHost });
        };
        let now = self.clock.now();
        let Some(&wire) = self.routes.get(&(from, to)) else {
            return self.record(&Passage { datagram, fate: Fate::NoSuchHost });
        };
        let mut out = Vec::new();
        self.wires[wire.0].push(now, datagram, &mut out);
        self.settle(wire, out);
    }

    /// Lets out what a wire has held back until now.
    pub(super) fn release(&mut self, id: WireId) {
        let now = self.clock.now();
        let wire = &mut self.wires[id.0];
        if wire.next_release().is_none_or(|at| at > now) {
            return;
        }
        let mut out = Vec::new();
        wire.pull(now, &mut out);
        self.settle(id, out);
    }

    /// A connection gets what arrived for it.
    pub(super) fn hand_over(
        &mut self,
        host: HostId,
        handle: ConnectionHandle,
        datagram: &Datagram,
        socket: SocketId,
    ) {
        let clock = self.clock;
        let id = ConnId { host, handle, life: self.hosts[host.0].life };
        let config = &self.hosts[host.0].config;
        let (to, ecn) = (config.local_ip, datagram.ecn.filter(|_| config.has_ecn));
        if let Some(conn) = self.live_conn(id) {
            conn.watch.on_datagrams(&clock, 1);
            let bytes = &mut datagram.bytes.to_vec();
            let received = arq_proto::Datagram::new(datagram.from, to, bytes);
            let received = received.through(socket).with_ecn(ecn);
            conn.connection.handle_datagrams(clock.now(), [received]);
            if !(self.hosts[host.0].config.reads_together && self.more_arrives(datagram)) {
                self.service(id);
            }
        } else {
            let what = format!("routed to {handle:?}, which was removed or never existed");
            self.note(host, Err(what));
        }
    }

    /// Records fates, schedules arrivals and the next release.
    fn settle(&mut self, wire: WireId, passages: Vec<Passage>) {
        for passage in passages {
            self.record(&passage);
            if let Fate::Arrives(at) | Fate::ArrivesDamaged(at) = passage.fate {
                self.events.schedule(at, Action::Arrive(passage.datagram));
            }
        }
        if let Some(at) = self.wires[wire.0].next_release() {
            self.events.schedule(at, Action::Release { wire });
        }
    }

    fn record(&mut self, passage: &Passage) {
        if !self.is_logged {
            return;
        }
        let now = self.clock.now();
        let fate = match passage.fate {
            Fate::Arrives(at) => LoggedFate::Arrives(at - now),
            Fate::ArrivesDamaged(at) => LoggedFate::ArrivesDamaged(at - now),
            Fate::Lost => LoggedFate::Vanishes("lost"),
            Fate::QueueFull => LoggedFate::Vanishes("dropped, queue full"),
            Fate::Policed => LoggedFate::Vanishes("dropped by the policer"),
            Fate::Blackout => LoggedFate::Vanishes("lost in a blackout"),
            Fate::TooLong => LoggedFate::Vanishes("longer than the MTU"),
            Fate::NoSuchHost => LoggedFate::Vanishes("nobody there"),
            Fate::BatchLost => LoggedFate::Vanishes("lost with its batch"),
            Fate::Capable => LoggedFate::Vanishes("capable of ECN"),
            Fate::Withheld => LoggedFate::Vanishes("withheld"),
        };
        let Datagram { from, to, bytes, .. } = &passage.datagram;
        let first = bytes.first().copied().unwrap_or_default();
        let (from, to) = (self.name_of(*from), self.name_of(*to));
        let entry = Entry { at: self.clock.offset(), from, to, bytes: bytes.len(), first, fate };
        self.log.record(entry, bytes);
    }

    fn name_of(&self, address: SocketAddr) -> Arc<str> {
        let host = self.hosts.iter().find(|host| host.config.address == address);
        host.map_or_else(|| address.to_string().into(), |host| host.name.clone())
    }
}
