// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! One association: its state, the application's verbs, and how its parts are wired together.
//!
//! The phases have a file each: [`handshake`], [`receive`], [`transmit`] with [`redundancy`], [`probing`], [`path`]
//! and [`close`].

mod close;
mod handshake;
mod path;
mod probing;
mod receive;
mod redundancy;
mod transmit;

use std::{
    collections::VecDeque,
    net::SocketAddr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::{
    acks::AckManager,
    chunk_size::ChunkTuner,
    config::{Config, MAX_MTU, MIN_WINDOW_BYTES},
    error::{ConnectionError, SendError},
    event::Event,
    flow::Granted,
    path_mtu::PathMtu,
    recovery::{confidence::Confidence, sleep, time_out::PACKETS_PER_TIME_OUT, Outcome, Recovery},
    recv::{lane::RecvLane, spare::Spare},
    send::{
        bundle::Riders,
        lane::{QueueLimits, SendLane},
        message::Silence,
        scheduler::Scheduler,
    },
    sent::Content,
    stats::Stats,
    timer::{TimerKind, Timers},
    units::{ConnectionId, LaneId, PacketNumber, Reliability},
    wire::{params::Params, MAX_MESSAGE_BYTES},
};
use close::Closing;
pub(crate) use handshake::Accepted;
use handshake::{CookieEcho, Hello};
use path::PathProbe;
pub use receive::Datagram;
pub use transmit::{Transmit, ONE_CHUNK_OVERHEAD_BYTES};

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
    path_probe: Option<PathProbe>,
    path_response: Option<(SocketAddr, u64)>,
    local_cid: ConnectionId,
    remote_cid: ConnectionId,
    /// The longest datagram that the path carries.
    path_mtu: PathMtu,
    /// The size of chunks that pays, below that.
    chunk_tuner: ChunkTuner,
    /// Something of a message's first round left since the end of the last flight.
    first_round_open: bool,
    /// A small packet shall show whether only large ones vanish.
    small_packet_due: bool,
    peer_app_params: Bytes,
    peer_takes_repair: bool,

    recovery: Recovery,
    acks: AckManager,
    next_skip: PacketNumber,
    skip_distance: u64,

    send_lanes: Vec<SendLane>,
    /// Lanes that may have a chunk to send, one bit each.
    pending_lanes: u16,
    scheduler: Scheduler,
    riders: Riders,
    /// Credit for all reliable lanes that the peer granted, and what of it is used.
    credit: u64,
    credit_used: u64,

    recv_lanes: Vec<RecvLane>,
    granted: Granted,
    lane_granted: Vec<Granted>,

    timers: Timers,
    now: Instant,
    driven_at: Instant,
    heard_at: Instant,
    pinged_at: Instant,
    ping_due: bool,
    events: VecDeque<Event>,
    close_reason: Option<ConnectionError>,
    outcome: Outcome,
    /// Where repair symbols are computed.
    scratch: Vec<u8>,
    spare: Spare,
    counters: Stats,
    rng: ChaCha8Rng,
}

/// The first packet number left out comes after 64 to 127 packets, the next after twice as many, and
/// so on (RFC 9000 §21.4).
const FIRST_SKIP_DISTANCE: u64 = 64;

impl Connection {
    fn new(now: Instant, origin: Origin, state: State) -> Self {
        let Origin { config, remote, local_cid, seed } = origin;
        let limits = QueueLimits { bytes: config.queue_bytes as usize, age: config.queue_age };
        let mut rng = ChaCha8Rng::from_seed(seed);
        let path_mtu = PathMtu::new(config.usual_mtu());
        let next_skip = FIRST_SKIP_DISTANCE + rng.next_u64() % FIRST_SKIP_DISTANCE;
        Self {
            recovery: Recovery::new(&config, path_mtu.size(), now),
            acks: AckManager::new(config.max_ack_delay, now),
            send_lanes: LaneId::all()
                .map(|id| SendLane::new(id, limits, repair_time(&config, id)))
                .collect(),
            recv_lanes: LaneId::all()
                .map(|id| RecvLane::new(id, receive_limit(&config, id)))
                .collect(),
            granted: Granted::new(config.connection_window_bytes.into()),
            lane_granted: LaneId::all()
                .map(|_| Granted::new(config.lane_window_bytes.into()))
                .collect(),
            path_mtu,
            chunk_tuner: ChunkTuner::default(),
            first_round_open: false,
            small_packet_due: false,
            config,
            state,
            remote,
            path_probe: None,
            path_response: None,
            local_cid,
            remote_cid: ConnectionId(0),
            peer_app_params: Bytes::new(),
            peer_takes_repair: false,
            next_skip: PacketNumber(next_skip),
            skip_distance: FIRST_SKIP_DISTANCE,
            pending_lanes: 0,
            scheduler: Scheduler::default(),
            riders: Riders::default(),
            credit: 0,
            credit_used: 0,
            timers: Timers::default(),
            now,
            driven_at: now,
            heard_at: now,
            pinged_at: now,
            ping_due: false,
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
            max_datagram_bytes: MAX_MTU,
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
        self.follow_path_mtu();
        self.credit = params.connection_window_bytes;
        for lane in &mut self.send_lanes {
            lane.set_credit(params.lane_window_bytes);
        }
        for lane in &mut self.recv_lanes {
            lane.set_hold(params.hold);
        }
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
        if !self.send_lanes[lane.index()].push(now, message) {
            return Err(SendError::Blocked);
        }
        self.pending_lanes |= 1 << lane.index();
        self.counters.lanes[lane.index()].messages_sent += 1;
        Ok(())
    }

    /// Takes the next message of a lane. What arrived before the end of the connection can be taken
    /// after it, too.
    pub fn recv(&mut self, now: Instant, lane: LaneId) -> Option<Bytes> {
        self.advance(now);
        let (message, credit) = self.recv_lanes[lane.index()].pop()?;
        self.counters.lanes[lane.index()].messages_delivered += 1;
        if credit > 0 {
            self.granted.on_consumed(credit);
            self.lane_granted[lane.index()].on_consumed(credit);
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

    /// The longest datagram that is sent now, but for probes, in bytes of UDP payload.
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

    /// How the connection stands.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.counters.clone();
        self.recovery.fill(&mut stats);
        stats.reverse_loss = self.acks.loss.upper();
        stats.queued_bytes = self.send_lanes.iter().map(|lane| lane.unsent_bytes() as u64).sum();
        stats.send_buffer_bytes =
            self.send_lanes.iter().map(|lane| lane.buffered_bytes() as u64).sum();
        stats.queue_age = self
            .send_lanes
            .iter()
            .map(|lane| lane.oldest_unsent_age(self.now))
            .max()
            .unwrap_or_default();
        stats.receive_buffer_bytes = self.recv_lanes.iter().map(RecvLane::held).sum();
        stats.chunks_recovered = self.recv_lanes.iter().map(RecvLane::recovered).sum();
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
        if now - driven_at >= sleep::SHORTEST {
            if let Some((due, _)) = self.timers.next() {
                self.recovery.on_awake(driven_at, due.max(driven_at), now);
            }
        }
        self.timers.set(TimerKind::Watch, None);
        now
    }

    fn on_timer(&mut self, now: Instant, kind: TimerKind) {
        match kind {
            TimerKind::Handshake => self.on_handshake_timer(now),
            TimerKind::Loss => {
                self.recovery.detect(now, &mut self.outcome);
                self.settle(now);
            }
            TimerKind::Pto => {
                let reverse = self.acks.loss.upper();
                if self.recovery.probe_is_due(now, reverse) {
                    self.counters.ptos += 1;
                    let enough = self.has_enough_in_flight();
                    self.recovery.on_pto(now, reverse, enough, &mut self.outcome);
                    let time_outs = self.recovery.time_outs();
                    self.small_packet_due = self.path_mtu.wants_small_packet(time_outs);
                } else {
                    let independent = !self.recovery.channel().is_bursty();
                    let chance = independent.then(|| Confidence::new(self.recovery.loss.upper()));
                    let lanes = &self.send_lanes;
                    let judge = |content: &Content| judge_silence(lanes, content, chance);
                    self.recovery.on_tail_time_out(now, judge, &mut self.outcome);
                }
                self.settle(now);
            }
            TimerKind::Ack => self.acks.on_deadline(),
            // Transmission is tried after every time-out.
            TimerKind::Pacing => {}
            TimerKind::Expiry => self.expire(now),
            TimerKind::Hold => self.on_hold_timer(now),
            TimerKind::KeepAlive => {
                self.pinged_at = now;
                self.ping_due = true;
            }
            TimerKind::Idle => self.end(ConnectionError::TimedOut),
            TimerKind::Path => self.on_path_timer(now),
            TimerKind::PathMtu => self.on_mtu_timer(now),
            TimerKind::Close => self.on_close_timer(now),
            TimerKind::Watch => {}
        }
    }

    /// When the first best-effort message is to be given up.
    fn expiry(&self) -> Option<Instant> {
        self.send_lanes.iter().filter_map(SendLane::expiry).min()
    }

    /// Gives up best-effort messages whose time is over.
    fn expire(&mut self, now: Instant) {
        for lane in &mut self.send_lanes {
            lane.expire(now);
        }
        self.announce_writable(now);
    }

    fn on_hold_timer(&mut self, now: Instant) {
        for id in LaneId::all() {
            if self.recv_lanes[id.index()].on_hold_deadline(now) {
                self.events.push_back(Event::Readable(id));
            }
        }
    }

    /// Tells the lanes the fate of what they sent.
    fn settle(&mut self, now: Instant) {
        let mut outcome = std::mem::take(&mut self.outcome);
        for content in outcome.acked.drain(..) {
            match content {
                Content::Symbol { lane, seq, cut, symbol } => {
                    self.send_lanes[lane.index()].on_acked(seq, cut, symbol);
                }
                Content::Close => self.drain(),
                Content::MaxData | Content::MaxLaneData(_) => {}
            }
        }
        let mut damaged = 0_u16;
        for content in outcome.lost.drain(..) {
            match content {
                Content::Symbol { lane, seq, cut, symbol } => {
                    self.send_lanes[lane.index()].on_lost(seq, cut, symbol);
                    damaged |= 1 << lane.index();
                }
                Content::MaxData => self.granted.on_lost(),
                Content::MaxLaneData(lane) => self.lane_granted[lane.index()].on_lost(),
                Content::Close => {}
            }
        }
        self.repair(damaged, std::mem::take(&mut outcome.by_time_out));
        self.doubt(outcome.doubtful.drain(..));
        // Keep the buffers: they are filled for every acknowledgement.
        self.outcome = outcome;
        self.learn_sizes(now);
        self.finish_if_flushed(now);
    }

    /// Repairs the lanes whose bit is set. `by_time_out`: no acknowledgement has told what is missing.
    fn repair(&mut self, mut damaged: u16, by_time_out: bool) {
        let mut confidence = Confidence::new(self.recovery.loss.upper());
        if by_time_out {
            confidence = confidence
                .after_time_out(self.acks.loss.upper(), self.recovery.channel().is_bursty());
        }
        while damaged != 0 {
            let lane = damaged.trailing_zeros();
            damaged &= damaged - 1;
            if self.send_lanes[lane as usize].repair(confidence, self.peer_takes_repair) {
                self.pending_lanes |= 1 << lane;
            }
        }
    }

    /// The answers about these are lost: none of their messages is as sure to be completed as it seemed.
    fn doubt(&mut self, contents: impl IntoIterator<Item = Content>) {
        if !self.peer_takes_repair {
            return;
        }
        let confidence = Confidence::new(self.recovery.loss.upper());
        let confidence = confidence.after_lost_answer(self.acks.loss.upper());
        let mut left = PACKETS_PER_TIME_OUT;
        let mut doubted = None;
        for content in contents {
            let Content::Symbol { lane, seq, .. } = content else { continue };
            // The symbols of a message lie side by side.
            if doubted.replace((lane, seq)) == Some((lane, seq)) {
                continue;
            }
            let symbols = self.send_lanes[lane.index()].doubt(seq, confidence, left);
            if symbols > 0 {
                self.pending_lanes |= 1 << lane.index();
                left -= symbols;
            }
        }
    }

    /// Whether silence means that an answer was lost, rather than what it would have answered.
    fn has_enough_in_flight(&self) -> bool {
        let confidence = Confidence::new(self.recovery.loss.upper());
        let lanes = self.send_lanes.iter();
        let enough = lanes.filter_map(|lane| lane.has_enough_in_flight(confidence));
        enough.reduce(|all, enough| all && enough).unwrap_or(false)
    }

    fn announce_writable(&mut self, now: Instant) {
        for id in LaneId::all() {
            if self.send_lanes[id.index()].take_writable(now) {
                self.events.push_back(Event::Writable(id));
            }
        }
    }

    /// Sets every timer that follows from the state; handshake, close and path set their own.
    fn rearm(&mut self, now: Instant) {
        if !matches!(self.state, State::Open { .. } | State::Flushing { .. }) {
            return;
        }
        let reverse = self.acks.loss.upper();
        self.timers.set(TimerKind::Loss, self.recovery.loss_deadline());
        self.timers.set(TimerKind::Pto, self.recovery.pto_deadline(reverse));
        self.timers.set(TimerKind::Ack, self.acks.deadline());
        self.timers.set(TimerKind::PathMtu, self.path_mtu.deadline());
        if !self.recovery.watches_for_sleep(now) {
            self.timers.set(TimerKind::Watch, None);
        } else if !self.timers.is_set(TimerKind::Watch) {
            self.timers.set(TimerKind::Watch, Some(now + sleep::SHORTEST));
        }
        self.timers.set(TimerKind::Expiry, self.expiry());
        let hold = self.recv_lanes.iter().filter_map(RecvLane::hold_deadline).min();
        self.timers.set(TimerKind::Hold, hold);
        self.timers.set(TimerKind::Idle, Some(self.heard_at + self.config.idle_timeout));
        // Probes of what is in flight ask as well.
        let quiet = self.recovery.in_flight_bytes() == 0 && !self.ping_due;
        let asked = self.heard_at.max(self.pinged_at);
        self.timers.set(
            TimerKind::KeepAlive,
            quiet.then(|| asked + self.config.keep_alive).map(|at| at.max(now)),
        );
    }
}

/// What a lane may hold: its credit, or a share of the connection's window if it is best effort.
fn receive_limit(config: &Config, id: LaneId) -> u64 {
    match id.reliability() {
        Reliability::Reliable => config.lane_window_bytes.into(),
        Reliability::BestEffort => {
            let share = config.connection_window_bytes / u32::from(LaneId::PRIORITIES);
            u64::from(share).max(MIN_WINDOW_BYTES)
        }
    }
}

/// What silence about the packet with this content is.
fn judge_silence(lanes: &[SendLane], content: &Content, chance: Option<Confidence>) -> Silence {
    match *content {
        Content::Symbol { lane, seq, .. } => lanes[lane.index()].judge_silence(seq, chance),
        Content::MaxData | Content::MaxLaneData(_) | Content::Close => Silence::Expected,
    }
}

/// Whether repair symbols are of use here: go-back-N takes nothing but the next chunk.
fn takes_repair(config: &Config) -> bool {
    config.reorder
}

/// How long messages of a lane are repaired, if it is best effort.
fn repair_time(config: &Config, id: LaneId) -> Option<Duration> {
    match id.reliability() {
        Reliability::Reliable => None,
        Reliability::BestEffort if config.repair_best_effort >> id.priority() & 1 == 1 => {
            Some(config.idle_timeout)
        }
        Reliability::BestEffort => config.deadline,
    }
}
