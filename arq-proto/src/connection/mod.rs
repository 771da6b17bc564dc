// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! One association: its state, the application's verbs, and how its parts are wired together.
//!
//! Its parts are [`Path`], [`Outgoing`] and [`Incoming`]. The phases have a file each: [`handshake`], [`receive`],
//! [`transmit`] with [`redundancy`], [`settle`], [`timeouts`], [`probing`], [`validation`], [`other_port`],
//! [`unreachable`](mod@unreachable), [`suspicion`] and [`close`]. That there may be several paths is the matter of [`paths`].

mod close;
mod draft;
mod handshake;
mod incoming;
mod other_port;
mod outgoing;
mod path;
mod paths;
mod probing;
mod receive;
mod redundancy;
mod settle;
mod suspicion;
mod timeouts;
mod timestamps;
mod transmit;
mod unreachable;
mod validation;

use std::{
    any::Any,
    collections::VecDeque,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::{
    config::{ValidConfig, MAX_MTU},
    error::{ConnectionError, SendError},
    event::Event,
    observer::Observer,
    recovery::{skipped_numbers::SkippedNumbers, sleep},
    send::queue::Outlet,
    stats::Stats,
    textbook,
    timer::{TimerKind, Timers},
    units::{ConnectionId, LaneId, Reliability},
    wire::{params::Params, protection::PacketProtection, BASE_MTU, MAX_MESSAGE_BYTES},
};
use close::Closing;
pub(crate) use handshake::{Accepted, Offer, ATTEMPTS};
use handshake::{CookieEcho, Handshake, Hello};
use incoming::Incoming;
use other_port::OtherPort;
use outgoing::Outgoing;
use path::Path;
use paths::Others;
pub(crate) use paths::ProvenClient;
pub use paths::{
    EndpointEvent, Interface, InterfaceUse, PathEvent, PathState, PathStats, SocketSet,
};
pub use receive::Datagram;
pub use transmit::{Transmit, ONE_CHUNK_OVERHEAD_BYTES};
pub(crate) use unreachable::is_same;
pub use unreachable::{Refusal, UnreachableReport};

/// Where a connection stands.
#[derive(Debug)]
enum State {
    /// A client waits for the answer to its HELLO.
    Hello(Hello),
    /// A server that takes sealed packets alone waits for the client to prove who it is.
    Accepting,
    /// Messages flow. A client adds the cookie to every packet until the server has answered.
    Open { cookie: Option<CookieEcho> },
    /// Nothing new is taken; what is queued is delivered, for `linger` at most.
    Flushing { cookie: Option<CookieEcho> },
    /// The connection is over; the peer is being told, or has told us.
    Closing(Closing),
    /// Nothing is left to do.
    Drained,
}

/// What one side of an association needs to exist.
pub(crate) struct Origin {
    pub(crate) config: ValidConfig,
    pub(crate) remote: SocketAddr,
    pub(crate) local_cid: ConnectionId,
    pub(crate) seed: [u8; 32],
}

/// Whether the peer lives.
#[derive(Debug)]
struct Life {
    heard_at: Instant,
    /// When the end of a silence was put off: this host had slept through its time.
    spared_at: Option<Instant>,
}

/// Who the peer is.
#[derive(Debug)]
struct Peer {
    /// What its application told in the handshake.
    app_params: Bytes,
    /// What the handshake has proved.
    identity: Option<Arc<dyn Any + Send + Sync>>,
}

/// The time, as it was passed in.
#[derive(Debug)]
struct Clock {
    /// What timestamps count from.
    epoch: Instant,
    /// The latest. Earlier ones count as this one.
    now: Instant,
    /// When timers last had a chance to fire.
    driven_at: Instant,
}

/// One association. See the [crate] documentation for how it is driven.
#[derive(Debug)]
pub struct Connection {
    config: ValidConfig,
    state: State,
    peer: Peer,

    protection: PacketProtection,
    /// Until the peer has used its keys.
    handshake: Option<Box<Handshake>>,
    /// The path that is served: between two calls the one of the handshake. See [`paths`].
    path: Box<Path>,
    others: Others,
    outgoing: Outgoing,
    incoming: Incoming,

    timers: Timers,
    clock: Clock,
    life: Life,
    /// This side has opened the connection.
    dialled: bool,
    other_port: OtherPort,
    events: VecDeque<Event>,
    observer: Option<Box<dyn Observer>>,
    close_reason: Option<ConnectionError>,
    counters: Stats,
    rng: ChaCha8Rng,
}

impl Connection {
    fn new(now: Instant, origin: Origin, state: State) -> Self {
        let Origin { config, remote, local_cid, seed } = origin;
        let mut rng = ChaCha8Rng::from_seed(seed);
        let skipped_numbers = SkippedNumbers::new(&mut rng);
        let dialled = matches!(state, State::Hello(_));
        let protection = PacketProtection::default();
        Self {
            path: Box::new(Path::new(
                &config,
                remote,
                local_cid,
                skipped_numbers,
                protection.tag_bytes(),
                now,
            )),
            others: Others::default(),
            protection,
            handshake: None,
            outgoing: Outgoing::new(&config, now),
            incoming: Incoming::new(&config, now),
            config,
            state,
            peer: Peer { app_params: Bytes::new(), identity: None },
            timers: Timers::default(),
            clock: Clock { epoch: now, now, driven_at: now },
            life: Life { heard_at: now, spared_at: None },
            dialled,
            other_port: OtherPort::default(),
            events: VecDeque::new(),
            observer: None,
            close_reason: None,
            counters: Stats::default(),
            rng,
        }
    }

    /// What this side tells the peer in the handshake.
    pub(crate) fn params(config: &ValidConfig) -> Params {
        Params {
            // Who names a path that carries less than every path should means both directions.
            max_datagram_bytes: config.mtu.filter(|&mtu| mtu < BASE_MTU).unwrap_or(MAX_MTU),
            lane_window_bytes: config.lane_window_bytes.into(),
            connection_window_bytes: config.connection_window_bytes.into(),
            hold: config.deadline.unwrap_or(Duration::ZERO),
            repair: textbook::takes_repair(config),
            resegment: true,
            paths: config.paths,
            app: config.app_params.clone(),
        }
    }

    fn apply_params(&mut self, params: Params) {
        let limits = (params.max_datagram_bytes, params.resegment);
        self.path.mtu.limit(limits.0, limits.1);
        self.note_peer_paths(params.paths, limits);
        self.outgoing.credit.raise(params.connection_window_bytes);
        self.outgoing.set_lane_credit(params.lane_window_bytes);
        self.incoming.set_hold(params.hold);
        self.outgoing.peer_takes_repair = params.repair;
        self.peer.app_params = params.app;
    }

    // ---- the application's verbs ----

    /// Accepts a message into a lane, to be sent as soon as priority, credit and congestion allow.
    ///
    /// # Errors
    /// [`SendError::Blocked`] with the message when the lane is full: [`Event::Writable`] follows. The other errors
    /// are final for this message.
    pub fn send(&mut self, now: Instant, lane: LaneId, message: Bytes) -> Result<(), SendError> {
        self.send_part(now, lane, message, false)
    }

    /// As [`Self::send`], of a message that may be a part of a longer one: if there is `more`, the next message of the
    /// lane belongs to it, and it is of no use without that. A lane takes the rest of what it has begun where it would
    /// let nothing else begin.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_part(
        &mut self,
        now: Instant,
        lane: LaneId,
        message: Bytes,
        more: bool,
    ) -> Result<(), SendError> {
        let now = self.advance(now);
        if !matches!(self.state, State::Open { .. }) {
            return Err(SendError::Closed);
        }
        if message.is_empty() {
            return Err(SendError::Empty);
        }
        if message.len() > MAX_MESSAGE_BYTES {
            return Err(SendError::TooLarge { len: message.len(), max: MAX_MESSAGE_BYTES });
        }
        if !self.outgoing.lanes[lane].has_room(now, || self.outlet(now)) {
            self.outgoing.lanes[lane].refuse(now);
            return Err(SendError::Blocked(message));
        }
        self.outgoing.push(now, lane, message, more);
        self.counters.lanes[lane.index()].messages_sent += 1;
        Ok(())
    }

    /// The application has dropped the rest of what it has begun in `lane` by [`Self::send_part`]: the next message is a new
    /// one.
    pub fn drop_rest(&mut self, lane: LaneId) {
        self.outgoing.lanes[lane].drop_rest();
    }

    /// Takes the next message of a lane. What arrived before the end of the connection can be taken
    /// after it, too.
    pub fn recv(&mut self, now: Instant, lane: LaneId) -> Option<Bytes> {
        let now = self.advance(now);
        let message = self.incoming.pop(now, lane)?;
        self.counters.lanes[lane.index()].messages_delivered += 1;
        Some(message)
    }

    /// Takes back a message that was read, so that its memory serves the next one. Of use for messages
    /// of [`WORTH_RECYCLING_BYTES`](crate::WORTH_RECYCLING_BYTES) and more.
    pub fn recycle(&mut self, message: Bytes) {
        self.incoming.recycle(message);
    }

    /// The next thing to tell the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next deadline, and what it is for.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, TimerKind)> {
        self.next_timer().map(|(at, kind, _)| (at, kind))
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.drive(now);
        while let Some((_, kind, path)) = self.next_timer().filter(|(at, ..)| *at <= now) {
            self.with_path(path.unwrap_or_default(), |connection| {
                let timers = match path {
                    Some(_) => &mut connection.path.timers,
                    None => &mut connection.timers,
                };
                timers.set(kind, None);
                connection.on_timer(now, kind);
            });
            // A handler re-arms its timer in the future, or never: the loop ends.
            if self.is_drained() {
                break;
            }
        }
        self.rearm(now);
    }

    /// From now on `observer` is told what happens. It costs time with every packet.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.with_each_path(|connection| connection.path.recovery.losses = Some(Vec::new()));
        self.observer = Some(observer);
    }

    /// The connection id of the side that has opened the connection: both sides know it from the start.
    #[must_use]
    pub fn client_id(&self) -> u64 {
        if self.dialled {
            self.path.local_cid.0
        } else {
            self.path.remote_cid.0
        }
    }

    /// Whether this side has opened the connection.
    #[must_use]
    pub fn is_client(&self) -> bool {
        self.dialled
    }

    /// The peer's address.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.path.remote
    }

    /// When the peer was last heard: the arrival of its latest packet that was new and undamaged.
    #[must_use]
    pub fn heard_at(&self) -> Instant {
        self.life.heard_at
    }

    /// The peer's [`Config::app_params`](crate::Config::app_params), once connected.
    #[must_use]
    pub fn peer_app_params(&self) -> &[u8] {
        &self.peer.app_params
    }

    /// Who the peer has proved to be, once connected, where packets are sealed: what
    /// [`Session::peer`](crate::session::Session::peer) told.
    #[must_use]
    pub fn peer_identity(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.peer.identity.clone()
    }

    /// The longest datagram that may be sent now, but for probes, in bytes of UDP payload.
    #[must_use]
    pub fn path_mtu(&self) -> u16 {
        self.path.mtu.size()
    }

    /// Whether messages can be sent.
    #[must_use]
    pub fn is_established(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closing(_) | State::Drained)
    }

    /// Whether nothing is left to do: the endpoint may forget the connection.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        matches!(self.state, State::Drained)
    }

    /// Why the connection ended.
    #[must_use]
    pub fn close_reason(&self) -> Option<&ConnectionError> {
        self.close_reason.as_ref()
    }

    /// Bytes of messages that were sent and have not all arrived, as far as it is known.
    #[must_use]
    pub fn send_buffer_bytes(&self) -> u64 {
        self.outgoing.buffered_bytes()
    }

    /// How the connection stands.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.counters.clone();
        stats.packets_forged += self.protection.forged();
        stats.key_updates = self.protection.key_updates();
        self.path.fill(&mut stats);
        self.others.iter().for_each(|path| path.add_to(&mut stats));
        self.outgoing.fill(self.clock.now, &mut stats);
        self.incoming.fill(&mut stats);
        // A chunk is shorter than a datagram.
        stats.chunk_bytes = self.chunk_limits().new as u16;
        stats
    }

    // ---- wiring ----

    fn set_protection(&mut self, protection: PacketProtection) {
        self.path.packet_bytes = transmit::path_packet_bytes(protection.tag_bytes());
        self.protection = protection;
    }

    /// Time never goes backwards in here.
    fn advance(&mut self, now: Instant) -> Instant {
        if now < self.clock.now {
            self.counters.clock_regressions += 1;
        }
        self.clock.now = self.clock.now.max(now);
        self.clock.now
    }

    /// The side is driven: what was received is read, and timers fire. Not so when the application sends.
    fn drive(&mut self, now: Instant) -> Instant {
        let now = self.advance(now);
        let driven_at = std::mem::replace(&mut self.clock.driven_at, now);
        if now - driven_at >= sleep::MIN_SLEEP {
            if let Some((due, ..)) = self.next_timer() {
                self.with_each_path(|connection| {
                    connection.path.recovery.on_awake(driven_at, due.max(driven_at), now);
                });
                if now.saturating_duration_since(due) >= sleep::MIN_SLEEP {
                    self.incoming.on_awake(driven_at, now);
                }
            }
        }
        self.timers.set(TimerKind::Watch, None);
        now
    }

    fn announce_writable(&mut self, now: Instant) {
        if !self.outgoing.is_blocked() {
            return;
        }
        let outlet = self.outlet(now);
        let writable = self.outgoing.writable(now, || outlet);
        self.events.extend(writable.iter().map(Event::Writable));
    }

    fn outlet(&self, now: Instant) -> Outlet {
        let silences = self.all_paths().map(|path| path.recovery.silence(now));
        Outlet {
            rate: self.path.recovery.carried_rate(),
            silence: silences.min().unwrap_or_default(),
            queued_bytes: self.outgoing.queued_bytes(),
        }
    }
}

/// Whether messages of a lane are given up at the deadline of which the peer was told.
fn has_deadline(config: &ValidConfig, id: LaneId) -> bool {
    config.deadline.is_some() && id.reliability() == Reliability::BestEffort
}
