// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! One way to the peer: its addresses, what it does to packets, and what may leave on it now.
//!
//! How its addresses change is the matter of [`validation`](super::validation), and that there are several of
//! [`paths`](super::paths).

pub(super) mod meter;
pub(super) mod placement;
pub(super) mod silence;
pub(super) mod standing;

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use super::{
    suspicion::Suspicion,
    transmit::{path_packet_bytes, Transmit},
    validation::{Candidate, Doubts, Left, PathProbe, RESTLESS_FOR},
};
use crate::{
    acks::AckManager,
    batches::Batches,
    chunk_size::ChunkTuner,
    config::ValidConfig,
    path_mtu::PathMtu,
    recovery::{skipped_numbers::SkippedNumbers, Recovery},
    stats::Stats,
    timer::Timers,
    units::{ConnectionId, LaneSet, PathNumber, SocketId},
    wire::{
        frame::{Frame, PathUse},
        BASE_MTU,
    },
};
use meter::{header_bytes, lanes_of, Meter};
use placement::Offer;
use silence::Silence;
use standing::{Standing, Wish};

/// What is known of the way to the peer.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) number: PathNumber,
    /// The driver's socket that it leads through.
    pub(super) socket: SocketId,
    /// What packets that arrive name, and what those say that leave.
    pub(super) local_cid: ConnectionId,
    pub(super) remote_cid: ConnectionId,
    pub(super) remote: SocketAddr,
    pub(super) local_ip: Option<IpAddr>,
    /// The peer's IP address as its own system has it, where it has told.
    pub(super) peer_local_ip: Option<IpAddr>,
    /// Between the peer and this side there is only memory.
    pub(super) is_local: bool,
    pub(super) recovery: Recovery,
    pub(super) acks: AckManager,
    /// The longest datagram that the path carries.
    pub(super) mtu: PathMtu,
    /// The size of chunks that pays, below that.
    pub(super) chunk_tuner: ChunkTuner,
    /// Packets longer than that seem to vanish: what is lost leaves again in shorter ones.
    pub(super) doubtful_above: Option<u16>,
    /// Whether packets leave several at a time.
    pub(super) batches: Batches,
    /// A small packet shall show whether only large ones vanish.
    pub(super) small_packet_due: bool,
    /// An address that may be the peer's.
    pub(super) probe: Option<PathProbe>,
    /// Where the peer asks whether this side receives, and its token.
    pub(super) response: Option<(SocketAddr, u64)>,
    pub(super) doubts: Doubts,
    pub(super) left: Option<Left>,
    /// When the peer last asked whether this side is at the address that it sees, and its token.
    pub(super) asked_by_peer: Option<(Instant, u64)>,
    /// When it last asked about two addresses.
    pub(super) restless_at: Option<Instant>,
    /// The next silence of the peer after which it hears from this side then.
    pub(super) restless_wait: Duration,
    pub(super) suspicion: Option<Suspicion>,
    pub(super) timers: Timers,
    /// When the peer was last asked whether it lives, and whether it is to be asked now.
    pub(super) pinged_at: Instant,
    pub(super) ping_due: bool,
    /// When an acknowledgement last left here.
    pub(super) told_at: Instant,
    /// Since the last flight ended, something of a message's first round left.
    pub(super) first_round_open: bool,
    pub(super) standing: Standing,
    pub(super) silence: Silence,
    /// Its budget, if its bytes cost money.
    pub(super) meter: Option<Meter>,
    /// What may leave here now.
    pub(super) offer: Offer,
    /// What this side wishes the peer to use it for, and the peer this side.
    pub(super) own_wish: Wish,
    pub(super) peer_wish: Wish,
    pub(super) bytes_sent: u64,
    /// Probe time-outs.
    pub(super) ptos: u64,
    pub(super) bytes_received: u64,
    /// When something of the peer last came here.
    pub(super) received_at: Instant,
    /// The peer receives here and is not received: others tell of it.
    pub(super) is_half_open: bool,
    /// Bytes delivered here that left on another path, too.
    pub(super) needless_bytes: u64,
    /// Bytes of a packet with nothing but a question or an answer about an address, at most.
    pub(super) packet_bytes: u64,
}

impl Path {
    pub(super) fn new(
        config: &ValidConfig,
        remote: SocketAddr,
        local_cid: ConnectionId,
        skipped_numbers: SkippedNumbers,
        tag_bytes: usize,
        now: Instant,
    ) -> Self {
        let mtu = PathMtu::new(config.usual_mtu(remote));
        Self {
            number: PathNumber::FIRST,
            socket: SocketId::default(),
            local_cid,
            remote_cid: ConnectionId(0),
            remote,
            local_ip: None,
            peer_local_ip: None,
            is_local: false,
            recovery: Recovery::new(config, mtu.size(), skipped_numbers, now),
            acks: AckManager::new(config.max_ack_delay, now),
            mtu,
            chunk_tuner: ChunkTuner::default(),
            doubtful_above: None,
            batches: Batches::default(),
            small_packet_due: false,
            probe: None,
            response: None,
            doubts: Doubts::default(),
            left: None,
            asked_by_peer: None,
            restless_at: None,
            restless_wait: Duration::ZERO,
            suspicion: None,
            timers: Timers::default(),
            pinged_at: now,
            ping_due: false,
            told_at: now,
            first_round_open: false,
            standing: Standing::Open,
            silence: Silence::default(),
            meter: None,
            offer: Offer::ALL,
            own_wish: Wish::default(),
            peer_wish: Wish::default(),
            bytes_sent: 0,
            ptos: 0,
            bytes_received: 0,
            received_at: now,
            is_half_open: false,
            needless_bytes: 0,
            packet_bytes: path_packet_bytes(tag_bytes),
        }
    }

    /// Whether the path was not shown to work yet.
    pub(super) fn is_opening(&self) -> bool {
        matches!(self.standing, Standing::Opening(_))
    }

    /// Where the peer may be, if a packet may be sent there.
    pub(super) fn candidate(&self) -> Option<Candidate> {
        let probe = self.probe.as_ref().filter(|probe| probe.is_open)?;
        // A question must still be possible.
        let allowance = probe.allowance().saturating_sub(self.packet_bytes);
        (allowance > 0).then_some(Candidate { address: probe.address, allowance })
    }

    /// A datagram of so many bytes leaves for the peer: where to?
    pub(super) fn destination_of(&self, bytes: usize) -> SocketAddr {
        let candidate = self.candidate().filter(|to| bytes as u64 <= to.allowance);
        candidate.map_or(self.remote, |to| to.address)
    }

    /// The lanes that both sides want here now.
    pub(super) fn wanted_lanes(&self) -> LaneSet {
        let own = self.meter.as_ref().map_or(LaneSet::ALL, |meter| meter.lanes());
        own & lanes_of(self.peer_wish.wish)
    }

    /// How many datagrams of `most` may leave: what that takes of the budget is given back by
    /// [`settle_grant`](Self::settle_grant). 0: none.
    pub(super) fn grant(&self, now: Instant, most: usize) -> usize {
        let Some(meter) = &self.meter else { return most };
        // That it is used up the peer must hear.
        let tells = self.offer.control && self.own_wish.due;
        if meter.is_used_up() && !tells {
            return 0;
        }
        meter.budget.take(now, self.longest_bytes(), most)
    }

    /// What was granted has left, or nothing has.
    pub(super) fn settle_grant(&self, now: Instant, granted: usize, sent: Option<&Transmit>) {
        if let Some(meter) = &self.meter {
            let used = sent.map_or(0, Transmit::bytes_with_headers);
            meter.budget.give_back(now, granted, self.longest_bytes(), used);
        }
    }

    /// A datagram has arrived, headers beside.
    pub(super) fn charge_received(&self, now: Instant, bytes: u64) {
        if let Some(meter) = &self.meter {
            meter.budget.charge(now, bytes + header_bytes(self.remote));
        }
    }

    /// The longest datagram that leaves here, with its headers.
    fn longest_bytes(&self) -> u64 {
        u64::from(self.mtu.size().max(BASE_MTU)) + header_bytes(self.remote)
    }

    /// Whether the peer is to hear that the budget is used up.
    pub(super) fn has_used_up_wish(&self) -> bool {
        self.own_wish.due && self.meter.as_ref().is_some_and(Meter::is_used_up)
    }

    /// Whether nothing is to leave here, not even a question: the way is paid for, and what it costs is used up.
    pub(super) fn is_shut(&self) -> bool {
        let is_used_up = self.meter.as_ref().is_some_and(Meter::is_used_up);
        is_used_up || self.peer_wish.wish == PathUse::Paused
    }

    /// Counts what is sent, also to an address that has not answered.
    pub(super) fn count_sent(&mut self, transmit: &Transmit) {
        self.bytes_sent += transmit.size as u64;
        let probe = self.probe.as_mut();
        if let Some(probe) = probe.filter(|probe| probe.address == transmit.destination) {
            probe.sent_bytes += transmit.size as u64;
        }
    }

    /// A question or answer about an address, in a packet of its own: where to, and what.
    pub(super) fn take_frame(&mut self) -> Option<(SocketAddr, Frame<'static>)> {
        if let Some((to, token)) = self.response.take() {
            return Some((to, Frame::PathResponse(token)));
        }
        if let Some((to, token)) = self.doubts.take_question() {
            return Some((to, Frame::PathChallenge(token)));
        }
        let probe = self.probe.as_mut()?;
        if std::mem::take(&mut probe.due) && probe.allowance() >= self.packet_bytes {
            return Some((probe.address, Frame::PathChallenge(probe.token)));
        }
        // Copies from elsewhere do not keep the peer from answering here.
        probe.due_in_use = probe.due_in_use.checked_sub(1)?;
        Some((self.remote, Frame::PathChallenge(probe.token_in_use)))
    }

    /// Whether there may be such a frame.
    pub(super) fn may_have_frame(&self) -> bool {
        self.probe.is_some() || self.doubts.has_question() || self.response.is_some()
    }

    /// Whether this side is behind a restless NAT, as far as it has heard by `heard_at`.
    pub(super) fn is_restless(&self, heard_at: Instant) -> bool {
        self.restless_at.is_some_and(|at| heard_at < at + RESTLESS_FOR)
    }

    pub(super) fn fill(&self, stats: &mut Stats) {
        self.recovery.fill(stats);
        stats.reverse_loss = self.acks.loss.upper();
        stats.marks_received = self.acks.marks();
        self.mtu.fill(stats);
        stats.chunk_size_changes = self.chunk_tuner.changes();
    }

    /// Adds what is counted of all paths together.
    pub(super) fn add_to(&self, stats: &mut Stats) {
        let mut own = Stats::default();
        self.fill(&mut own);
        stats.packets_lost += own.packets_lost;
        stats.packets_spuriously_lost += own.packets_spuriously_lost;
        stats.breaker_openings += own.breaker_openings;
        stats.packets_marked += own.packets_marked;
        stats.marks_received += own.marks_received;
        stats.window_bytes += own.window_bytes;
        stats.in_flight_bytes += own.in_flight_bytes;
        stats.pacing_bytes_per_sec += own.pacing_bytes_per_sec;
        stats.mtu_probes_sent += own.mtu_probes_sent;
        stats.mtu_probes_lost += own.mtu_probes_lost;
        stats.mtu_probe_bytes += own.mtu_probe_bytes;
        stats.black_holes += own.black_holes;
        stats.chunk_size_changes += own.chunk_size_changes;
    }
}
