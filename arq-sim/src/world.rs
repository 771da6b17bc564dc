// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The world: hosts, wires between them, and events in the order of their time.
//!
//! Everything follows from one seed: two runs of the same world record the same packets at the same
//! offsets.

mod events;
mod guests;
mod network;
mod processor;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

use arq_proto::{Connect, Connection, Endpoint, Routed, SocketId};
use bytes::Bytes;
use fastrand::Rng;
use thiserror::Error;

use crate::{
    app::{App, AppPlan},
    host::{Conn, ConnId, Host, HostConfig, HostId, Outgoing},
    log::PacketLog,
    tap::{Forged, Tap},
    wire::{Datagram, Wire, WireConfig},
    Clock,
};

use events::{Action, Events};

/// Datagrams that are kept for ladders.
const LOG_ENTRIES: usize = 4_096;

/// Why a run ended without what it waited for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Halt {
    /// The time was up.
    #[error("nothing of it after {0:?} of virtual time")]
    Limit(Duration),
    /// Nothing will ever happen again.
    #[error("at {0:?} no event was left")]
    Idle(Duration),
    /// A rule was broken.
    #[error("at {at:?}, {host}: {what}")]
    Broken {
        /// When.
        at: Duration,
        /// Where.
        host: String,
        /// Which.
        what: String,
    },
}

/// A wire of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WireId(usize);

/// Bytes of UDP payload between a host and an address, whoever is behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exchange {
    /// What the host received.
    pub received_bytes: u64,
    /// What the host sent there.
    pub sent_bytes: u64,
}

/// Hosts, wires and time.
pub struct World {
    clock: Clock,
    rng: Rng,
    hosts: Vec<Host>,
    wires: Vec<Wire>,
    /// Which wire leads from one host to another; several may share one.
    routes: BTreeMap<(HostId, HostId), WireId>,
    events: Events,
    log: PacketLog,
    /// Whether datagrams are recorded at all.
    is_logged: bool,
    exchanged: BTreeMap<(HostId, SocketAddr), Exchange>,
    tap: Option<Box<dyn Tap>>,
    broken: Option<Halt>,
}

impl World {
    /// An empty world.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            clock: Clock::new(),
            rng: Rng::with_seed(seed),
            hosts: Vec::new(),
            wires: Vec::new(),
            routes: BTreeMap::new(),
            events: Events::default(),
            log: PacketLog::new(LOG_ENTRIES),
            is_logged: true,
            exchanged: BTreeMap::new(),
            tap: None,
            broken: None,
        }
    }

    /// Adds a host.
    pub fn add_host(&mut self, config: HostConfig) -> HostId {
        let id = HostId(self.hosts.len());
        let seed = self.rng.u64(..);
        self.hosts.push(Host::new(id, config, seed, &self.clock));
        id
    }

    /// Ends the log and its hash: whoever runs hours of many flows reads neither.
    pub fn stop_log(&mut self) {
        self.is_logged = false;
    }

    /// Lays (or changes) the wire from one host to another, in this direction only.
    pub fn lay_wire(&mut self, from: HostId, to: HostId, config: WireConfig) {
        let start = self.clock.now() - self.clock.offset();
        let seed = self.rng.u64(..);
        let wire = Wire::new(config, seed, start);
        let id = self.free_wire();
        self.routes.insert((from, to), id);
        match self.wires.get_mut(id.0) {
            Some(free) => *free = wire,
            None => self.wires.push(wire),
        }
    }

    /// A wire that leads nowhere and is empty, or a new one: hours of changes do not pile up wires.
    fn free_wire(&self) -> WireId {
        let is_free = |id: &WireId| {
            self.wires[id.0].next_release().is_none() && !self.routes.values().any(|r| r == id)
        };
        (0..self.wires.len()).map(WireId).find(is_free).unwrap_or(WireId(self.wires.len()))
    }

    /// What `from` sends to `to` passes the wire that leads from `with.0` to `with.1` as well:
    /// they share its rate and queue.
    ///
    /// # Panics
    /// There is no such wire: a mistake in a test.
    pub fn share_wire(&mut self, from: HostId, to: HostId, with: (HostId, HostId)) {
        let wire = *self.routes.get(&with).expect("a wire to share");
        self.routes.insert((from, to), wire);
    }

    /// The wire from one host to another.
    #[must_use]
    pub fn wire(&self, from: HostId, to: HostId) -> Option<&Wire> {
        self.routes.get(&(from, to)).map(|wire| &self.wires[wire.0])
    }

    /// The same, to ask for what it has counted.
    pub fn wire_mut(&mut self, from: HostId, to: HostId) -> Option<&mut Wire> {
        self.routes.get(&(from, to)).map(|wire| &mut self.wires[wire.0])
    }

    /// Sees, and may change, every datagram before it enters a wire.
    pub fn set_tap(&mut self, tap: impl Tap + 'static) {
        self.tap = Some(Box::new(tap));
    }

    /// Opens a connection; `plan` is what the application does on it.
    ///
    /// # Panics
    /// The host has vanished: a mistake in a test.
    pub fn connect(
        &mut self,
        from: HostId,
        to: HostId,
        connect: impl Into<Connect>,
        plan: AppPlan,
    ) -> ConnId {
        let connect = connect.into();
        let config = connect.config.clone();
        let remote = self.address(to);
        let now = self.clock.now();
        let host = &mut self.hosts[from.0];
        let endpoint = host.endpoint.as_mut().expect("the host is there");
        let (handle, connection) = endpoint.connect(now, remote, connect);
        host.insert(handle, connection, config, plan);
        let id = ConnId { host: from, handle, life: host.life };
        self.service(id);
        id
    }

    /// The current address of a host.
    #[must_use]
    pub fn address(&self, host: HostId) -> SocketAddr {
        self.hosts[host.0].config.address
    }

    /// A connection, also one that has ended; `None` when its host was restarted since.
    #[must_use]
    pub fn get(&self, id: ConnId) -> Option<&Conn> {
        let host = &self.hosts[id.host.0];
        host.conns.get(&id.handle).filter(|_| host.life == id.life)
    }

    /// A connection.
    ///
    /// # Panics
    /// Its host was restarted since: a mistake in a test.
    #[must_use]
    pub fn conn(&self, id: ConnId) -> &Conn {
        self.get(id).expect("a connection of a host that was not restarted")
    }

    /// Connections that a host accepted, the oldest first.
    #[must_use]
    pub fn accepted(&self, host: HostId) -> &[ConnId] {
        &self.hosts[host.0].accepted
    }

    /// The endpoint of a host.
    ///
    /// # Panics
    /// The host has vanished: a mistake in a test.
    #[must_use]
    pub fn endpoint(&mut self, host: HostId) -> &mut Endpoint {
        self.hosts[host.0].endpoint.as_mut().expect("the host is there")
    }

    /// Uses a connection as its application would, then drives it; that of a frozen host when it wakes.
    pub fn with_conn<T>(
        &mut self,
        id: ConnId,
        action: impl FnOnce(&Clock, &mut Connection, &mut App) -> T,
    ) -> T {
        let conn = self.hosts[id.host.0].conns.get_mut(&id.handle);
        let conn = conn.expect("a connection of a host that was not restarted");
        let result = action(&self.clock, &mut conn.connection, &mut conn.app);
        self.service(id);
        result
    }

    /// The host gets another address, and what is on its way to the old one is lost: a NAT has
    /// forgotten the mapping.
    pub fn rebind(&mut self, host: HostId, address: SocketAddr) {
        self.hosts[host.0].config.address = address;
    }

    /// The host's process is killed and started again at the same address.
    pub fn restart(&mut self, host: HostId) {
        self.hosts[host.0].restart(&self.clock);
    }

    /// The host gets no processor for so long: what arrives waits in its socket, its timers and its application fire
    /// when it wakes, after it has read what waits.
    pub fn freeze(&mut self, host: HostId, time: Duration) {
        let until = Some(self.clock.now() + time);
        let frozen = &mut self.hosts[host.0].frozen_until;
        *frozen = until.max(*frozen);
    }

    /// The host is gone without a word.
    pub fn vanish(&mut self, host: HostId) {
        self.hosts[host.0].endpoint = None;
    }

    /// A datagram out of nowhere.
    pub fn forge(&mut self, forged: Forged) {
        let Forged { from, to, after, bytes } = forged;
        let at = self.clock.now() + after;
        self.events.schedule(
            at,
            Action::Arrive(Datagram { from, to, ecn: None, bytes: Bytes::from(bytes) }),
        );
    }

    /// The time.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.clock.offset()
    }

    /// What travelled.
    #[must_use]
    pub fn log(&self) -> &PacketLog {
        &self.log
    }

    /// Bytes between a host and an address.
    #[must_use]
    pub fn exchanged(&self, host: HostId, with: SocketAddr) -> Exchange {
        self.exchanged.get(&(host, with)).copied().unwrap_or_default()
    }

    /// Bytes between a host and every address it ever heard of or sent to.
    pub fn exchanges(&self, host: HostId) -> impl Iterator<Item = (SocketAddr, Exchange)> + '_ {
        self.exchanged.iter().filter(move |((h, _), _)| *h == host).map(|((_, a), e)| (*a, *e))
    }

    /// Runs until `done` (asked after every event), for at most `limit` of virtual time; returns
    /// the time it took.
    ///
    /// # Errors
    /// The time is up, nothing is left to happen, or a rule was broken.
    pub fn run_until(
        &mut self,
        limit: Duration,
        mut done: impl FnMut(&Self) -> bool,
    ) -> Result<Duration, Halt> {
        let start = self.now();
        while !done(self) {
            let left = (start + limit).saturating_sub(self.now());
            self.run_one(left).map_err(|halt| match halt {
                Halt::Limit(_) => Halt::Limit(limit),
                other => other,
            })?;
        }
        Ok(self.now() - start)
    }

    /// Lets the next event happen, if it does so within `limit`.
    ///
    /// # Errors
    /// It does not, or a rule was broken.
    pub fn run_one(&mut self, limit: Duration) -> Result<(), Halt> {
        let end = self.clock.now() + limit;
        match self.events.next_at() {
            None => return Err(Halt::Idle(self.now())),
            Some(next) if next > end => {
                self.clock.advance_to(end);
                return Err(Halt::Limit(limit));
            }
            Some(_) => self.step(),
        }
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Runs for a while.
    ///
    /// # Errors
    /// A rule was broken.
    pub fn run_for(&mut self, time: Duration) -> Result<(), Halt> {
        let end = self.clock.now() + time;
        match self.run_until(time, |_| false) {
            Err(halt @ Halt::Broken { .. }) => Err(halt),
            Ok(_) | Err(Halt::Limit(_) | Halt::Idle(_)) => {
                self.clock.advance_to(end);
                Ok(())
            }
        }
    }

    fn step(&mut self) {
        let Some((at, action)) = self.events.pop() else { return };
        self.clock.advance_to(at);
        if let Some(awake) = self.awake_at(&action).filter(|&awake| at < awake) {
            return self.events.schedule(awake, action);
        }
        match action {
            Action::Arrive(datagram) => self.arrive(&datagram),
            Action::Release { wire } => self.release(wire),
            Action::Guest { host } => {
                let due = self.guest(host).poll_timeout();
                if due.is_some_and(|due| due <= self.clock.offset()) {
                    self.wake_guest(host);
                }
            }
            Action::Steps { host } => self.take_steps(host),
            Action::Timer { conn, armed } => self.fire(conn, armed),
            Action::App { conn, armed } => {
                if let Some(c) = self.live_conn(conn).filter(|c| c.app_armed == Some(armed)) {
                    c.app_armed = None;
                    self.service(conn);
                }
            }
            Action::Wake { conn } => {
                if self.live_conn(conn).is_some() {
                    self.service(conn);
                }
            }
        }
    }

    /// When the host can act that the action concerns. Sockets are read first.
    fn awake_at(&self, action: &Action) -> Option<Instant> {
        let (host, after) = match action {
            Action::Arrive(datagram) => (HostId(self.host_at(datagram.to)?), Duration::ZERO),
            Action::Timer { conn, .. } | Action::App { conn, .. } | Action::Wake { conn } => {
                (conn.host, Duration::from_nanos(1))
            }
            Action::Steps { host } => (*host, Duration::from_nanos(2)),
            Action::Release { .. } | Action::Guest { .. } => return None,
        };
        Some(self.hosts[host.0].frozen_until? + after)
    }

    /// A connection that is still driven.
    fn live_conn(&mut self, id: ConnId) -> Option<&mut Conn> {
        let host = &mut self.hosts[id.host.0];
        if host.life != id.life || host.endpoint.is_none() {
            return None;
        }
        host.conns.get_mut(&id.handle).filter(|conn| !conn.removed)
    }

    fn fire(&mut self, id: ConnId, armed: Instant) {
        let clock = self.clock;
        let Some(conn) = self.live_conn(id) else { return };
        let Some((_, kind)) = conn.armed.filter(|&(at, _)| at == armed) else { return };
        conn.armed = None;
        let watched = conn.watch.on_timer(&clock, kind);
        conn.connection.handle_timeout(clock.now());
        self.note(id.host, watched);
        self.service(id);
    }

    fn arrive(&mut self, datagram: &Datagram) {
        let Some(index) = self.host_at(datagram.to) else { return };
        let exchange = self.exchanged.entry((HostId(index), datagram.from)).or_default();
        exchange.received_bytes += datagram.bytes.len() as u64;
        let itself = (HostId(index), SocketId::default());
        let (id, socket) = self.hosts[index].owner.unwrap_or(itself);
        let index = id.0;
        let now = self.clock.now();
        if let Some(guest) = &mut self.hosts[index].guest {
            guest.handle_datagram(self.clock.offset(), datagram.from, &datagram.bytes);
            if !(self.hosts[index].config.reads_together && self.more_arrives(datagram)) {
                self.wake_guest(id);
            }
            return;
        }
        let host = &mut self.hosts[index];
        let Some(endpoint) = host.endpoint.as_mut() else { return };
        let mut reply = Vec::new();
        match endpoint.route(now, datagram.from, &datagram.bytes, &mut reply) {
            Routed::Dropped => {}
            Routed::Reply => {
                let (to, vanishes) = (datagram.from, false);
                self.dispatch(id, vec![Outgoing { socket, to, ecn: None, bytes: reply, vanishes }]);
            }
            Routed::Connection(handle) => self.hand_over_in_turn(id, handle, datagram, socket),
            Routed::Accepted { handle, connection, older } => {
                let plan = host.config.on_accept.clone();
                let config = host.config.endpoint.accept.clone().unwrap_or_default();
                host.insert(handle, *connection, config, plan);
                let life = host.life;
                host.accepted.push(ConnId { host: id, handle, life });
                if let Some(handle) = older {
                    let old = ConnId { host: id, handle, life };
                    self.with_conn(old, |clock, connection, _| {
                        connection.handle_newcomer(clock.now(), datagram.from);
                    });
                }
                self.hand_over_in_turn(id, handle, datagram, socket);
            }
        }
    }

    /// Whether the next event is another datagram of the same sender, now.
    fn more_arrives(&self, before: &Datagram) -> bool {
        let same = |next: &Datagram| next.to == before.to && next.from == before.from;
        self.events.peek().is_some_and(|(at, action)| {
            at == self.clock.now() && matches!(action, Action::Arrive(next) if same(next))
        })
    }

    fn host_at(&self, address: SocketAddr) -> Option<usize> {
        self.hosts.iter().position(|h| h.config.address == address && h.is_there())
    }

    /// Drives a connection, sends what it wants sent, and arms its timers; if its host is frozen, when it wakes.
    fn service(&mut self, id: ConnId) {
        let clock = self.clock;
        if self.hosts[id.host.0].frozen_until.is_some_and(|until| clock.now() < until) {
            return self.events.schedule(clock.now(), Action::Wake { conn: id });
        }
        let mut outgoing = Vec::new();
        let result = self.hosts[id.host.0].service(id.handle, &clock, &mut outgoing);
        self.note(id.host, result);
        if let Some(conn) = self.live_conn(id) {
            conn.watch.on_datagrams(&clock, outgoing.len());
        }
        self.dispatch(id.host, outgoing);
        self.arm(id);
        for (handle, ip) in std::mem::take(&mut self.hosts[id.host.0].siblings) {
            self.with_conn(ConnId { handle, ..id }, |at, one, _| one.handle_sibling(at.now(), ip));
        }
    }

    fn arm(&mut self, id: ConnId) {
        let now = self.clock.now();
        let base = now - self.clock.offset();
        let late = self.hosts[id.host.0].config.timer_lateness;
        let Some(conn) = self.live_conn(id) else { return };
        let timeout = conn.connection.poll_timeout();
        let rearm = timeout.map(|(at, _)| at) != conn.armed.map(|(at, _)| at);
        conn.armed = timeout;
        let tick = conn.app.next_tick();
        let rearm_app = tick != conn.app_armed;
        conn.app_armed = tick;
        if let Some((at, _)) = timeout.filter(|_| rearm) {
            let late = late.mul_f64(self.hosts[id.host.0].rng.f64());
            self.events.schedule(at.max(now) + late, Action::Timer { conn: id, armed: at });
        }
        if let Some(tick) = tick.filter(|_| rearm_app) {
            self.events.schedule((base + tick).max(now), Action::App { conn: id, armed: tick });
        }
    }

    fn note(&mut self, host: HostId, result: Result<(), String>) {
        if let (Err(what), None) = (result, &self.broken) {
            let host = self.hosts[host.0].name.to_string();
            self.broken = Some(Halt::Broken { at: self.now(), host, what });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{lane, Flow, Pair, Scenario};
    use arq_proto::Reliability;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn nothing_of_a_frozen_host_runs_before_it_wakes() {
        let mut pair = Pair::new(&Scenario::new(1));
        pair.run_to_connected(1_000 * MS).unwrap();
        pair.world.run_for(100 * MS).unwrap();
        let (client, conn, frozen_at) = (pair.client, pair.conn, pair.world.now());
        pair.world.freeze(client, 300 * MS);
        for priority in 0..6 {
            let flow = Flow::reliable(priority, 100, 1);
            pair.world.with_conn(conn, |clock, _, app| app.add_flow(clock.offset(), flow));
            pair.world.run_for(50 * MS).unwrap();
            // A second sleep begins within the first.
            if priority == 2 {
                pair.world.freeze(client, 200 * MS);
            }
        }
        let sent_since = |world: &World| {
            world.log().entries().filter(|e| e.at > frozen_at && &*e.from == "client").count()
        };
        let accepted = |world: &World| -> u64 {
            let app = &world.conn(conn).app;
            (0..6).map(|n| app.messages_accepted(lane(n, Reliability::Reliable))).sum()
        };
        // It sleeps on, to 350 ms.
        pair.world.run_for(49 * MS).unwrap();
        assert_eq!((sent_since(&pair.world), accepted(&pair.world)), (0, 0));
        pair.world.run_for(2 * MS).unwrap();
        assert!(sent_since(&pair.world) > 0);
        assert_eq!(accepted(&pair.world), 6);
    }

    #[test]
    fn time_passes_for_a_sender_whose_connection_has_ended() {
        let plan = AppPlan {
            flows: vec![Flow::reliable(3, 100, 1_000).every(10 * MS)],
            ..AppPlan::default()
        };
        let mut pair = Pair::new(&Scenario { client: plan, ..Scenario::new(1) });
        pair.run_to_connected(1_000 * MS).unwrap();
        pair.world.run_for(100 * MS).unwrap();
        pair.world
            .with_conn(pair.conn, |clock, connection, _| connection.close(clock.now(), "done"));
        let mut events = 0;
        let ran = pair.world.run_until(1_000 * MS, |_| {
            events += 1;
            events > 10_000
        });
        assert!(ran.is_err(), "at {:?} after {events} events", pair.world.now());
    }
}
