// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A host: one socket with an endpoint, its connections, and an application on each.

use std::{
    collections::{BTreeMap, VecDeque},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use arq_proto::{
    Connection, ConnectionError, ConnectionHandle, EcnCodepoint, Endpoint, EndpointConfig, Event,
    PathEvent, PathNumber, SocketId, TimerKind, ValidConfig,
};
use fastrand::Rng;

use crate::{
    app::{App, AppPlan},
    guest::Guest,
    invariant::{self, TimerWatch},
    wire::Datagram,
    Clock,
};

/// Rounds of events, application and transmission after one input; more means that the connection
/// and its driver keep each other busy for ever.
const MAX_ROUNDS: usize = 10_000;

/// Which host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub(crate) usize);

/// Which connection of which host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId {
    /// The host.
    pub host: HostId,
    /// Its name for the connection. A restarted host counts anew.
    pub handle: ConnectionHandle,
    /// How often the host was restarted before.
    pub life: u32,
}

/// How a host is set up.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// For ladders.
    pub name: &'static str,
    /// The address of its socket.
    pub address: SocketAddr,
    /// The IP address that its system tells the connection, another one than that of `address` behind a NAT. By default
    /// it tells none.
    pub local_ip: Option<IpAddr>,
    /// Its endpoint.
    pub endpoint: EndpointConfig,
    /// What the application does on a connection that was accepted.
    pub on_accept: AppPlan,
    /// Timers fire up to this much too late, as they do on real systems.
    pub timer_lateness: Duration,
    /// Datagrams that one transmission may hold.
    pub segments: usize,
    /// Share of transmissions of several datagrams that vanish below the socket: a kernel that damages segmentation
    /// offload.
    pub batch_loss: f32,
    /// Datagrams that arrive at the same time are read before anything is sent, as a driver with
    /// receive offload does: there are fewer acknowledgements then, and more depends on each.
    pub reads_together: bool,
    /// Whether its sockets set and read the ECN field. By default they do not, as those of a system without support: the
    /// snapshots are of that, since counts make acknowledgements longer.
    pub has_ecn: bool,
    /// What a step of a cryptographic handshake costs its processor; nothing else runs meanwhile.
    pub step_cost: Duration,
    /// Such steps that its driver takes before it looks at what else there is.
    pub steps_a_turn: usize,
}

impl HostConfig {
    /// A host that accepts nothing.
    #[must_use]
    pub fn new(name: &'static str, address: SocketAddr) -> Self {
        Self {
            name,
            address,
            local_ip: None,
            endpoint: EndpointConfig::default(),
            on_accept: AppPlan::default(),
            timer_lateness: Duration::ZERO,
            segments: 10,
            batch_loss: 0.0,
            reads_together: false,
            has_ecn: false,
            step_cost: Duration::ZERO,
            steps_a_turn: 4,
        }
    }
}

/// A connection, its application, and what the simulation knows of it.
pub struct Conn {
    pub(crate) connection: Connection,
    pub(crate) config: ValidConfig,
    /// The application.
    pub app: App,
    /// When the handshake was done, since the start of the world.
    pub connected_at: Option<Duration>,
    /// When it was found that the host loses batches, since the start of the world.
    pub batches_lost_at: Option<Duration>,
    /// What happened to its paths, and when.
    pub path_events: Vec<(Duration, PathNumber, PathEvent)>,
    /// When and why it ended.
    pub closed: Option<(Duration, ConnectionError)>,
    /// The endpoint has forgotten it.
    pub(crate) removed: bool,
    pub(crate) armed: Option<(Instant, TimerKind)>,
    pub(crate) app_armed: Option<Duration>,
    pub(crate) watch: TimerWatch,
    /// Probe time-outs of each path up to the last transmission.
    pub(crate) ptos_seen: [u64; PathNumber::COUNT],
}

impl Conn {
    fn new(connection: Connection, config: ValidConfig, app: App) -> Self {
        Self {
            connection,
            config,
            app,
            connected_at: None,
            batches_lost_at: None,
            path_events: Vec::new(),
            closed: None,
            removed: false,
            armed: None,
            app_armed: None,
            watch: TimerWatch::default(),
            ptos_seen: Default::default(),
        }
    }

    /// The core.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// How often each timer fired.
    #[must_use]
    pub fn timers_fired(&self) -> &BTreeMap<TimerKind, u64> {
        self.watch.fired()
    }

    /// Why it ended, if it did.
    #[must_use]
    pub fn error(&self) -> Option<&ConnectionError> {
        self.closed.as_ref().map(|(_, error)| error)
    }
}

/// A datagram that a host wants to send.
pub(crate) struct Outgoing {
    pub(crate) socket: SocketId,
    pub(crate) to: SocketAddr,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) bytes: Vec<u8>,
    /// It does not get out of the host.
    pub(crate) vanishes: bool,
}

/// A host of the world.
pub struct Host {
    pub(crate) name: Arc<str>,
    pub(crate) config: HostConfig,
    /// `None`: it has vanished.
    pub(crate) endpoint: Option<Endpoint>,
    /// It speaks another protocol.
    pub(crate) guest: Option<Box<dyn Guest>>,
    /// It is only another radio of that one.
    pub(crate) owner: Option<(HostId, SocketId)>,
    /// Its other radios.
    pub(crate) radios: Vec<HostId>,
    pub(crate) life: u32,
    pub(crate) conns: BTreeMap<ConnectionHandle, Conn>,
    pub(crate) accepted: Vec<ConnId>,
    /// Connections that are to ask their peers, since a client of their host has come from there.
    pub(crate) siblings: Vec<(ConnectionHandle, IpAddr)>,
    pub(crate) rng: Rng,
    /// Nothing of it runs before then.
    pub(crate) frozen_until: Option<Instant>,
    /// Datagrams that wait for their step.
    pub(crate) steps: VecDeque<(ConnectionHandle, Datagram)>,
    next_tag: u16,
}

impl Host {
    pub(crate) fn new(id: HostId, config: HostConfig, seed: u64, clock: &Clock) -> Self {
        let mut rng = Rng::with_seed(seed);
        let endpoint = Endpoint::new(config.endpoint.clone(), seed32(&mut rng), clock.now());
        Self {
            name: config.name.into(),
            config,
            endpoint: Some(endpoint),
            guest: None,
            owner: None,
            radios: Vec::new(),
            life: 0,
            conns: BTreeMap::new(),
            accepted: Vec::new(),
            siblings: Vec::new(),
            rng,
            frozen_until: None,
            steps: VecDeque::new(),
            next_tag: 1 + ((id.0 as u16) << 10),
        }
    }

    /// Whether anybody reads its socket.
    pub(crate) fn is_there(&self) -> bool {
        self.endpoint.is_some() || self.guest.is_some() || self.owner.is_some()
    }

    /// Forgets everything, as a process does that is killed and started again.
    pub(crate) fn restart(&mut self, clock: &Clock) {
        let seed = seed32(&mut self.rng);
        self.endpoint = Some(Endpoint::new(self.config.endpoint.clone(), seed, clock.now()));
        self.life += 1;
        self.conns.clear();
        self.steps.clear();
        self.accepted.clear();
    }

    pub(crate) fn insert(
        &mut self,
        handle: ConnectionHandle,
        connection: Connection,
        config: ValidConfig,
        plan: AppPlan,
    ) {
        let tag = self.next_tag;
        self.next_tag += 1;
        let app = App::new(plan, tag, self.rng.u64(..));
        self.conns.insert(handle, Conn::new(connection, config, app));
    }

    /// What a driver does after every input: events, application, transmission, until nothing is
    /// left to do.
    pub(crate) fn service(
        &mut self,
        handle: ConnectionHandle,
        clock: &Clock,
        outgoing: &mut Vec<Outgoing>,
    ) -> Result<(), String> {
        let Some(conn) = self.conns.get_mut(&handle).filter(|conn| !conn.removed) else {
            return Ok(());
        };
        for round in 0.. {
            if round == MAX_ROUNDS {
                return Err("the driving loop never ends".into());
            }
            let events = take_events(conn, clock)?;
            while let Some(event) = conn.connection.poll_endpoint_event() {
                let ip = conn.connection.remote().ip();
                let Some(endpoint) = &mut self.endpoint else { continue };
                let older = endpoint.handle_event(handle, event);
                self.siblings.extend(older.into_iter().map(|older| (older, ip)));
            }
            let read = conn.app.read(clock, &mut conn.connection);
            let written = conn.app.write(clock, &mut conn.connection);
            let (segments, batch_loss) = (self.config.segments, self.config.batch_loss);
            let lost = |rng: &mut Rng| batch_loss > 0.0 && rng.f32() < batch_loss;
            let sent = transmit(conn, segments, clock, outgoing, || lost(&mut self.rng))?;
            if events + read + written + sent == 0 {
                break;
            }
        }
        invariant::check(conn)?;
        if conn.connection.is_drained() {
            conn.removed = true;
            if let Some(endpoint) = &mut self.endpoint {
                endpoint.remove(handle);
            }
        }
        Ok(())
    }
}

fn take_events(conn: &mut Conn, clock: &Clock) -> Result<usize, String> {
    let mut count = 0;
    while let Some(event) = conn.connection.poll_event() {
        count += 1;
        if let Some((_, error)) = &conn.closed {
            if !matches!(event, Event::Readable(_)) {
                return Err(format!("{event:?} after the connection ended: {error}"));
            }
        }
        match event {
            Event::Connected if conn.connected_at.is_some() => return Err("connected twice".into()),
            Event::Connected => conn.connected_at = Some(clock.offset()),
            Event::Readable(lane) => conn.app.on_readable(lane),
            Event::Writable(lane) => conn.app.on_writable(lane),
            Event::Path(path, event) => conn.path_events.push((clock.offset(), path, event)),
            Event::BatchesLost => conn.batches_lost_at = Some(clock.offset()),
            Event::Closed(error) => conn.closed = Some((clock.offset(), error)),
            other => return Err(format!("{other:?} is news")),
        }
        if count > MAX_ROUNDS {
            return Err("events never end".into());
        }
    }
    Ok(count)
}

fn transmit(
    conn: &mut Conn,
    segments: usize,
    clock: &Clock,
    outgoing: &mut Vec<Outgoing>,
    mut loses_batch: impl FnMut() -> bool,
) -> Result<usize, String> {
    let (mut count, mut more) = (0, true);
    let mut buf = Vec::new();
    loop {
        buf.clear();
        let before = invariant::InFlight::of(conn);
        let Some(transmit) = conn.connection.poll_transmit(clock.now(), &mut buf, segments) else {
            return Ok(count);
        };
        if !std::mem::replace(&mut more, transmit.more) {
            return Err(format!("{transmit:?} after there was no more"));
        }
        before.check_after(conn)?;
        invariant::check_transmit(&transmit, buf.len(), segments)?;
        let vanishes = buf.len() > transmit.segment_size && loses_batch();
        for segment in buf.chunks(transmit.segment_size) {
            let (socket, to, ecn) = (transmit.socket, transmit.destination, transmit.ecn);
            outgoing.push(Outgoing { socket, to, ecn, bytes: segment.to_vec(), vanishes });
        }
        count += 1;
        if count > MAX_ROUNDS {
            return Err("poll_transmit never ends".into());
        }
    }
}

fn seed32(rng: &mut Rng) -> [u8; 32] {
    let mut seed = [0; 32];
    rng.fill(&mut seed);
    seed
}
