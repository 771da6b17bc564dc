// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! One association: its state, the application's verbs, and how its parts are wired together.
//!
//! The phases have a file each: [`handshake`], [`receive`], [`transmit`] with [`redundancy`], [`settle`], [`timeouts`],
//! [`probing`], [`path`], [`other_port`], [`unreachable`](mod@unreachable) and [`close`].

mod close;
mod handshake;
mod other_port;
mod path;
mod probing;
mod receive;
mod redundancy;
mod settle;
mod timeouts;
mod transmit;
mod unreachable;

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use bytes::Bytes;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::{
    acks::AckManager,
    batches::Batches,
    chunk_size::ChunkTuner,
    config::{Config, MAX_MTU, MIN_WINDOW_BYTES},
    error::{ConnectionError, SendError},
    event::Event,
    flow::{Granted, SendCredit},
    path_mtu::PathMtu,
    per_lane::PerLane,
    recovery::{left_out::LeftOut, sleep, Outcome, Recovery},
    recv::{age::Ages, lane::RecvLane, spare::Spare},
    send::{
        bundle::Riders,
        lane::SendLane,
        queue::{Outlet, QueueLimits},
        scheduler::Scheduler,
    },
    stats::Stats,
    timer::{TimerKind, Timers},
    units::{ConnectionId, LaneId, LaneSet, Reliability},
    wire::{params::Params, BASE_MTU, MAX_MESSAGE_BYTES},
};
use close::Closing;
pub(crate) use handshake::Accepted;
use handshake::{CookieEcho, Hello};
use other_port::OtherPort;
use path::{Doubts, Left, PathProbe};
pub use receive::Datagram;
pub use transmit::{Transmit, ONE_CHUNK_OVERHEAD_BYTES};
use unreachable::Suspicion;
pub use unreachable::{Refusal, UnreachableReport};

/// Where a connection stands.
#[derive(Debug)]
enum State {
    /// A client waits for the answer to its HELLO.
    Hello(Hello),
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
    pub(crate) config: Config,
    pub(crate) remote: SocketAddr,
    pub(crate) local_cid: ConnectionId,
    pub(crate) seed: [u8; 32],
}

/// One association. See the [crate] documentation for how it is driven.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    state: State,
    remote: SocketAddr,
    local_ip: Option<IpAddr>,
    path_probe: Option<PathProbe>,
    path_response: Option<(SocketAddr, u64)>,
    doubts: Doubts,
    left: Option<Left>,
    /// When the peer last asked whether we are at the address that it sees, and its token.
    asked_by_peer: Option<(Instant, u64)>,
    /// When it last asked about two addresses.
    restless_at: Option<Instant>,
    /// The next silence of the peer after which it hears from us then.
    restless_wait: Duration,
    local_cid: ConnectionId,
    remote_cid: ConnectionId,
    /// The longest datagram that the path carries.
    path_mtu: PathMtu,
    /// The size of chunks that pays, below that.
    chunk_tuner: ChunkTuner,
    /// Whether packets leave several at a time.
    batches: Batches,
    /// Something of a message's first round left since the end of the last flight.
    first_round_open: bool,
    /// A message was longer than a packet: longer packets would be of use.
    has_long_messages: bool,
    /// A small packet shall show whether only large ones vanish.
    small_packet_due: bool,
    peer_app_params: Bytes,
    peer_takes_repair: bool,

    recovery: Recovery,
    acks: AckManager,

    send_lanes: PerLane<SendLane>,
    /// Lanes that may have a chunk to send.
    pending_lanes: LaneSet,
    scheduler: Scheduler,
    riders: Riders,
    send_credit: SendCredit,

    recv_lanes: PerLane<RecvLane>,
    ages: Ages,
    granted: Granted,
    lane_granted: PerLane<Granted>,
    /// What the windows of reliable lanes may grow by, all together.
    spare_window: u64,

    timers: Timers,
    /// What timestamps count from.
    epoch: Instant,
    /// When the peer is told the time, although no message with a deadline leaves.
    time_due_at: Instant,
    now: Instant,
    driven_at: Instant,
    heard_at: Instant,
    /// When the end of a silence was put off: this host had slept through its time.
    spared_at: Option<Instant>,
    pinged_at: Instant,
    ping_due: bool,
    /// This side has opened the connection.
    dialled: bool,
    /// Between the peer and this side there is only memory.
    is_local: bool,
    suspicion: Option<Suspicion>,
    other_port: OtherPort,
    events: VecDeque<Event>,
    close_reason: Option<ConnectionError>,
    outcome: Outcome,
    /// Where repair symbols are computed.
    scratch: Vec<u8>,
    spare: Spare,
    counters: Stats,
    rng: ChaCha8Rng,
}

impl Connection {
    fn new(now: Instant, origin: Origin, state: State) -> Self {
        let Origin { config, remote, local_cid, seed } = origin;
        let limits = QueueLimits::new(&config);
        let mut rng = ChaCha8Rng::from_seed(seed);
        let path_mtu = PathMtu::new(config.usual_mtu(remote));
        let left_out = LeftOut::new(&mut rng);
        let send_credit = SendCredit::new(config.connection_window_bytes.into());
        let dialled = matches!(state, State::Hello(_));
        Self {
            recovery: Recovery::new(&config, path_mtu.size(), left_out, now),
            acks: AckManager::new(config.max_ack_delay, now),
            send_lanes: PerLane::new(|id| SendLane::new(id, limits, repair_time(&config, id))),
            recv_lanes: PerLane::new(|id| RecvLane::new(id, receive_limit(&config, id))),
            ages: Ages::new(now),
            granted: Granted::new(config.connection_window_bytes.into()),
            lane_granted: PerLane::new(|_| Granted::new(config.lane_window_bytes.into())),
            spare_window: spare_window(&config),
            path_mtu,
            chunk_tuner: ChunkTuner::default(),
            batches: Batches::default(),
            first_round_open: false,
            has_long_messages: false,
            small_packet_due: false,
            config,
            state,
            remote,
            local_ip: None,
            path_probe: None,
            path_response: None,
            doubts: Doubts::default(),
            left: None,
            asked_by_peer: None,
            restless_at: None,
            restless_wait: Duration::ZERO,
            local_cid,
            remote_cid: ConnectionId(0),
            peer_app_params: Bytes::new(),
            peer_takes_repair: false,
            pending_lanes: LaneSet::default(),
            scheduler: Scheduler::default(),
            riders: Riders::default(),
            send_credit,
            timers: Timers::default(),
            epoch: now,
            time_due_at: now,
            now,
            driven_at: now,
            heard_at: now,
            spared_at: None,
            pinged_at: now,
            ping_due: false,
            dialled,
            is_local: false,
            suspicion: None,
            other_port: OtherPort::default(),
            events: VecDeque::new(),
            close_reason: None,
            outcome: Outcome::default(),
            scratch: Vec::new(),
            spare: Spare::default(),
            counters: Stats::default(),
            rng,
        }
    }

    /// What this side tells the peer in the handshake.
    pub(crate) fn params(config: &Config) -> Params {
        Params {
            // Who names a path that carries less than every path should means both directions.
            max_datagram_bytes: config.mtu.filter(|&mtu| mtu < BASE_MTU).unwrap_or(MAX_MTU),
            lane_window_bytes: config.lane_window_bytes.into(),
            connection_window_bytes: config.connection_window_bytes.into(),
            hold: config.deadline.unwrap_or(Duration::ZERO),
            repair: takes_repair(config),
            recut: true,
            app: config.app_params.clone(),
        }
    }

    fn apply_params(&mut self, params: Params) {
        self.path_mtu.limit(params.max_datagram_bytes, params.recut);
        self.send_credit.raise(params.connection_window_bytes);
        for lane in &mut self.send_lanes {
            lane.set_credit(params.lane_window_bytes);
        }
        for lane in &mut self.recv_lanes {
            lane.set_hold(params.hold);
        }
        self.ages.set_deadline(params.hold);
        self.peer_takes_repair = params.repair;
        self.peer_app_params = params.app;
    }

    // ---- the application's verbs ----

    /// Accepts a message into a lane, to be sent as soon as priority, credit and congestion allow.
    ///
    /// # Errors
    /// [`SendError::Blocked`] when the lane is full: [`Event::Writable`] follows. The other errors
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
        if !self.send_lanes[lane].has_room(now, || self.outlet(now)) {
            self.send_lanes[lane].refuse(now);
            return Err(SendError::Blocked);
        }
        self.send_lanes[lane].push(now, message, more);
        self.pending_lanes.insert(lane);
        self.counters.lanes[lane.index()].messages_sent += 1;
        Ok(())
    }

    /// Takes the next message of a lane. What arrived before the end of the connection can be taken
    /// after it, too.
    pub fn recv(&mut self, now: Instant, lane: LaneId) -> Option<Bytes> {
        let now = self.advance(now);
        let (message, credit) = self.recv_lanes[lane].pop(now)?;
        self.counters.lanes[lane.index()].messages_delivered += 1;
        if credit > 0 {
            self.granted.on_consumed(credit);
            self.lane_granted[lane].on_consumed(credit);
        }
        Some(message)
    }

    /// Takes back a message that was read, so that its memory serves the next one. Of use for messages
    /// of [`WORTH_RECYCLING_BYTES`](crate::WORTH_RECYCLING_BYTES) and more.
    pub fn recycle(&mut self, message: Bytes) {
        self.spare.keep(message);
    }

    /// The next thing to tell the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next deadline, and what it is for.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, TimerKind)> {
        self.timers.next()
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.drive(now);
        while let Some(kind) = self.timers.take_due(now) {
            self.on_timer(now, kind);
            // A handler re-arms its timer in the future, or never: the loop ends.
            if self.is_drained() {
                break;
            }
        }
        self.rearm(now);
    }

    /// The peer's address.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// When the peer was last heard: the arrival of its latest packet that was new and undamaged.
    #[must_use]
    pub fn heard_at(&self) -> Instant {
        self.heard_at
    }

    /// The peer's [`ConfigBuilder::app_params`](crate::ConfigBuilder::app_params), once connected.
    #[must_use]
    pub fn peer_app_params(&self) -> &[u8] {
        &self.peer_app_params
    }

    /// The longest datagram that may be sent now, but for probes, in bytes of UDP payload.
    #[must_use]
    pub fn path_mtu(&self) -> u16 {
        self.path_mtu.size()
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
        self.send_lanes.iter().map(|lane| lane.buffered_bytes() as u64).sum()
    }

    /// How the connection stands.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.counters.clone();
        self.recovery.fill(&mut stats);
        stats.reverse_loss = self.acks.loss.upper();
        stats.queued_bytes = self.queued_bytes() as u64;
        stats.send_buffer_bytes = self.send_buffer_bytes();
        stats.queue_age = self
            .send_lanes
            .iter()
            .map(|lane| lane.oldest_unsent_age(self.now))
            .max()
            .unwrap_or_default();
        stats.receive_buffer_bytes = self.recv_lanes.iter().map(RecvLane::held).sum();
        stats.chunks_recovered = self.recv_lanes.iter().map(RecvLane::recovered).sum();
        stats.messages_stale = self.recv_lanes.iter().map(RecvLane::stale).sum();
        stats.messages_expired = self.send_lanes.iter().map(SendLane::expired).sum();
        self.path_mtu.fill(&mut stats);
        // A chunk is shorter than a datagram.
        stats.chunk_bytes = self.chunk_limits().new as u16;
        stats.chunk_size_changes = self.chunk_tuner.changes();
        stats
    }

    // ---- wiring ----

    /// Time never goes backwards in here.
    fn advance(&mut self, now: Instant) -> Instant {
        if now < self.now {
            self.counters.clock_regressions += 1;
        }
        self.now = self.now.max(now);
        self.now
    }

    /// The side is driven: what was received is read, and timers fire. Not so when the application sends.
    fn drive(&mut self, now: Instant) -> Instant {
        let now = self.advance(now);
        let driven_at = std::mem::replace(&mut self.driven_at, now);
        if now - driven_at >= sleep::MIN_SLEEP {
            if let Some((due, _)) = self.timers.next() {
                self.recovery.on_awake(driven_at, due.max(driven_at), now);
                if now.saturating_duration_since(due) >= sleep::MIN_SLEEP {
                    self.ages.on_awake(driven_at, now);
                }
            }
        }
        self.timers.set(TimerKind::Watch, None);
        now
    }

    fn announce_writable(&mut self, now: Instant) {
        for id in LaneId::all() {
            let lane = &self.send_lanes[id];
            if lane.is_blocked() && lane.has_room(now, || self.outlet(now)) {
                self.send_lanes[id].on_told();
                self.events.push_back(Event::Writable(id));
            }
        }
    }

    /// Bytes that have not left for the first time.
    fn queued_bytes(&self) -> usize {
        self.send_lanes.iter().map(SendLane::unsent_bytes).sum()
    }

    fn outlet(&self, now: Instant) -> Outlet {
        Outlet {
            rate: self.recovery.carried_rate(),
            silence: self.recovery.silence(now),
            queued_bytes: self.queued_bytes(),
        }
    }
}

/// What is left of the connection's window beyond those of its lanes.
fn spare_window(config: &Config) -> u64 {
    let lanes = u64::from(LaneId::PRIORITIES) * u64::from(config.lane_window_bytes);
    u64::from(config.connection_window_bytes).saturating_sub(lanes)
}

/// What a lane may hold at first: its credit, or a share of the connection's window if it is best effort.
fn receive_limit(config: &Config, id: LaneId) -> u64 {
    match id.reliability() {
        Reliability::Reliable => config.lane_window_bytes.into(),
        Reliability::BestEffort => {
            let share = config.connection_window_bytes / u32::from(LaneId::PRIORITIES);
            u64::from(share).max(MIN_WINDOW_BYTES)
        }
    }
}

/// Whether repair symbols are of use here: go-back-N takes nothing but the next chunk.
fn takes_repair(config: &Config) -> bool {
    config.reorder
}

/// Whether messages of a lane are given up at the deadline of which the peer was told.
fn has_deadline(config: &Config, id: LaneId) -> bool {
    config.deadline.is_some() && id.reliability() == Reliability::BestEffort
}

/// How long messages of a lane are repaired, if it is best effort.
fn repair_time(config: &Config, id: LaneId) -> Option<Duration> {
    match id.reliability() {
        Reliability::Reliable => None,
        Reliability::BestEffort => config.deadline,
    }
}
