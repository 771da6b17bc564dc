// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A datagram comes in.
//!
//! Whatever does not decode, or fails its integrity check, is counted and dropped. Only a packet
//! that is intact and breaks the protocol ends the connection, with a named reason.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use super::{suspicion::Evidence, Connection, State};
use crate::{
    acks::{AckRequest, Arrival},
    ecn::EcnCodepoint,
    error::{ConnectionError, Violation},
    event::Event,
    observer::Packet,
    recovery::Outcome,
    recv::lane::{Received, ReceivedSymbol},
    textbook,
    units::{LaneId, PathNumber, SocketId},
    wire::{
        ack::Ack,
        checksum::has_knocked,
        cursor::{DecodeError, Reader},
        frame::Frame,
        packet::{peek_connection_id, Challenge, Echo, PacketKind, Refuse, Reset},
        protection::Opened,
    },
};

/// A datagram as it arrived.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Datagram<'a> {
    /// The socket that it came through.
    pub socket: SocketId,
    /// The sender.
    pub from: SocketAddr,
    /// The local address that it was sent to, where the platform tells. If that is the sender's own, the
    /// datagram never left the machine, which carries the longest ones there are.
    pub to: Option<IpAddr>,
    /// What its IP header said of congestion; `None`: nothing, or the platform does not tell.
    pub ecn: Option<EcnCodepoint>,
    /// What it says. It is opened in place.
    pub bytes: &'a mut [u8],
}

/// The way that a datagram took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    pub(super) socket: SocketId,
    pub(super) from: SocketAddr,
    pub(super) to: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
    /// Its length.
    pub(super) bytes: u64,
}

impl<'a> Datagram<'a> {
    /// What came from `from`, to the local address `to` if that is known.
    #[must_use]
    pub fn new(from: SocketAddr, to: Option<IpAddr>, bytes: &'a mut [u8]) -> Self {
        Self { socket: SocketId::default(), from, to, ecn: None, bytes }
    }

    /// The same, which came through another socket than that of the handshake.
    #[must_use]
    pub fn through(self, socket: SocketId) -> Self {
        Self { socket, ..self }
    }

    /// The same, with what its IP header said of congestion.
    #[must_use]
    pub fn with_ecn(self, ecn: Option<EcnCodepoint>) -> Self {
        Self { ecn, ..self }
    }
}

/// What the frames of a packet were.
#[derive(Debug, Default)]
struct Seen {
    /// One of them wants an acknowledgement.
    eliciting: bool,
    /// What one of them, an acknowledgement, tells.
    acked: Option<Outcome>,
    /// How long the messages of a lane that follow have been waiting in this host.
    waited: Option<(LaneId, Duration)>,
}

impl Connection {
    /// Takes a datagram that [`Endpoint::route`](crate::Endpoint::route) assigned to this
    /// connection. It is opened in place.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, bytes: &mut [u8]) {
        self.handle_datagrams(now, std::iter::once(Datagram::new(from, None, bytes)));
    }

    /// Takes datagrams that arrived together: cheaper than one by one.
    pub fn handle_datagrams<'a>(
        &mut self,
        now: Instant,
        datagrams: impl IntoIterator<Item = Datagram<'a>>,
    ) {
        let now = self.drive(now);
        for datagram in datagrams {
            if self.is_drained() {
                return;
            }
            self.charge_received(now, datagram.socket, datagram.bytes.len() as u64);
            if self.dispatch(now, datagram).is_err() {
                self.counters.datagrams_dropped += 1;
            }
        }
        // What arrives may have to be acknowledged, packet by packet.
        self.with_each_path(|connection| {
            if let Some(outcome) = connection.path.recovery.give_up_oldest(now) {
                connection.settle(now, outcome);
            }
        });
        self.incoming.age_memory(now);
        self.rearm(now);
    }

    fn dispatch(&mut self, now: Instant, received: Datagram<'_>) -> Result<(), DecodeError> {
        let Datagram { socket, from, to, ecn, bytes: datagram } = received;
        let arrived = Arrived { socket, from, to, ecn, bytes: datagram.len() as u64 };
        let first = *datagram.first().ok_or(DecodeError::Truncated("packet.kind"))?;
        match PacketKind::of(first)? {
            PacketKind::Challenge if !self.protection.is_sealed() => {
                self.on_challenge(now, Challenge::decode(datagram)?, arrived);
            }
            PacketKind::Challenge => {
                self.check_knock(datagram)?;
                self.on_sealed_challenge(arrived, datagram)?;
            }
            PacketKind::Refuse => {
                self.check_knock(datagram)?;
                self.on_refuse(now, &Refuse::decode(datagram)?, from);
            }
            PacketKind::Reset => self.on_reset(now, Reset::decode(datagram)?),
            PacketKind::Handshake => self.on_handshake_packet(now, arrived, datagram)?,
            PacketKind::Hello => self.on_hello(now, arrived, datagram)?,
            PacketKind::Data { .. } | PacketKind::Sealed => {
                let number = self.path_of(peek_connection_id(datagram));
                let is_new = self.expect_path(now, number, arrived);
                let taken = self.with_path(number, |connection| {
                    connection.on_data(now, arrived, datagram)?;
                    connection.note_whether_local(arrived);
                    Ok(())
                });
                if is_new && !matches!(taken, Some(Ok(()))) {
                    self.forget_path(number);
                }
                return taken.unwrap_or(Err(DecodeError::Invalid("data.dcid")));
            }
        }
        Ok(())
    }

    fn note_whether_local(&mut self, arrived: Arrived) {
        if let Some(to) = arrived.to.filter(|_| arrived.from == self.path.remote) {
            self.path.is_local = to == arrived.from.ip();
        }
    }

    /// Who knows no common secret is not heard before there are keys, where there is one.
    fn check_knock(&self, datagram: &[u8]) -> Result<(), DecodeError> {
        let security = self.handshake.as_ref().map(|handshake| handshake.security());
        match security.is_none_or(|security| has_knocked(datagram, security)) {
            true => Ok(()),
            false => Err(DecodeError::Integrity),
        }
    }

    /// The peer says that it does not know us any more. It shows that it has seen a packet of ours by its
    /// number or its tag; somebody who cannot read our packets can guess neither that nor the connection id.
    fn on_reset(&mut self, now: Instant, reset: Reset) {
        let number = self.path_to(reset.unknown);
        if self.with_path(number, |connection| connection.on_reset_of_path(now, reset)).is_none() {
            self.counters.datagrams_dropped += 1;
        }
    }

    fn on_reset_of_path(&mut self, now: Instant, reset: Reset) {
        let sent = match reset.echo {
            Echo::Tag(echo) => self.protection.sent_with_echo(echo),
            Echo::Number(_) if self.protection.is_sealed() => None,
            Echo::Number(number) => self.path.recovery.sent_lately(number),
        };
        match (&self.state, sent.filter(|_| reset.unknown == self.path.remote_cid)) {
            (State::Open { .. } | State::Flushing { .. }, Some(number)) => {
                self.suspect(now, Evidence::Reset, number);
            }
            // Nobody needs to be told any more.
            (State::Closing(_), Some(_)) => self.end(ConnectionError::PeerLostState),
            _ => self.counters.datagrams_dropped += 1,
        }
    }

    pub(super) fn on_data(
        &mut self,
        now: Instant,
        arrived: Arrived,
        datagram: &mut [u8],
    ) -> Result<(), DecodeError> {
        let (from, bytes) = (arrived.from, datagram.len());
        match self.state {
            State::Hello(_) => return Err(DecodeError::Invalid("packet.kind")),
            State::Accepting => return self.keep_early(arrived, datagram),
            _ => {}
        }
        let patience =
            if self.protection.is_sealed() { self.key_patience() } else { Duration::ZERO };
        let (path, protection) = (&self.path, &mut self.protection);
        let expand = |number| path.acks.expand(number);
        let of = (path.number, path.local_cid);
        let opened = protection.open(now, || patience, of, datagram, expand);
        if protection.is_worn_out() {
            self.end(ConnectionError::KeysUsedUp);
        }
        let Opened { number, ack_now, span, frames } = opened?;
        if self.path.acks.classify(number) == Arrival::Duplicate {
            self.note_repeated(now, from, number);
            return Err(DecodeError::Invalid("data.number"));
        }
        if let Some(observer) = &mut self.observer {
            observer.packet_received(now, &Packet::new(number.0, bytes, frames));
        }
        let frames = Reader::new(frames);
        self.counters.packets_received += 1;
        self.counters.bytes_received += arrived.bytes;
        self.path.bytes_received += arrived.bytes;
        (self.path.received_at, self.path.is_half_open) = (now, false);
        self.life.heard_at = now;
        self.path.recovery.on_heard(now);
        self.clear_suspicion(now);
        self.confirm();
        if !self.note_opening(now, arrived) {
            self.note_path(now, arrived, number);
        }
        self.incoming.on_packet(bytes);
        let next_in_order = |lane| self.incoming.next_in_order(lane);
        let takes_symbols = textbook::takes_symbols(&self.config, frames, next_in_order);
        let mut seen = self.on_frames(now, from, frames, takes_symbols);
        if let Some(outcome) = seen.as_mut().ok().and_then(|seen| seen.acked.take()) {
            self.settle(now, outcome);
        }
        match seen {
            Ok(_) if !takes_symbols => {
                self.counters.datagrams_dropped += 1;
                self.path.acks.on_discarded(now);
            }
            Ok(seen) => {
                let request = match (seen.eliciting, ack_now) {
                    (false, _) => AckRequest::No,
                    (true, false) => AckRequest::Eventually,
                    (true, true) => AckRequest::Now,
                };
                let floor = number.0.saturating_sub(span);
                let rtt = self.path.recovery.rtt().smoothed();
                self.path.acks.on_packet(now, number, floor, request, rtt, arrived.ecn);
            }
            Err(violation) => self.violate(now, violation),
        }
        Ok(())
    }

    /// Acts on every frame.
    fn on_frames(
        &mut self,
        now: Instant,
        from: SocketAddr,
        mut frames: Reader<'_>,
        takes_symbols: bool,
    ) -> Result<Seen, Violation> {
        let mut seen = Seen::default();
        while let Some(frame) = Frame::decode(&mut frames).map_err(Violation::Frame)? {
            seen.eliciting |= frame.is_ack_eliciting();
            // One describes the whole window: more of them would only cost time.
            if matches!(frame, Frame::Ack(_)) && seen.acked.is_some() {
                return Err(Violation::Frame(DecodeError::Invalid("ack.repeated")));
            }
            if takes_symbols || !matches!(frame, Frame::Chunk(_) | Frame::Repair(_)) {
                self.on_frame(now, from, frame, &mut seen)?;
            }
        }
        Ok(seen)
    }

    fn on_frame(
        &mut self,
        now: Instant,
        from: SocketAddr,
        frame: Frame<'_>,
        seen: &mut Seen,
    ) -> Result<(), Violation> {
        match frame {
            Frame::Padding | Frame::Ping => {}
            Frame::Ack(ack) => {
                let outcome = self.path.recovery.on_ack(now, &ack, true)?;
                self.note_answer(now, &outcome);
                seen.acked = Some(outcome);
                self.path.mtu.on_ack(now, &ack);
            }
            Frame::PathAck { .. } | Frame::PathState { .. } if !self.has_agreed_on_paths() => {
                return Err(Violation::Frame(DecodeError::Invalid("frame.kind")));
            }
            Frame::PathAck { path, .. } if path == self.path.number => {
                return Err(Violation::Frame(DecodeError::Invalid("path_ack.path")));
            }
            Frame::PathAck { path, ack } => self.on_path_ack(now, path, &ack)?,
            Frame::PathState { path, sequence, wish } => {
                self.on_path_state(now, path, sequence, wish);
            }
            Frame::Close { reason } => self.on_close(now, reason),
            Frame::MaxData { bytes } => self.outgoing.credit.raise(bytes),
            Frame::MaxLaneData { lane, bytes } => self.outgoing.lanes[lane].set_credit(bytes),
            Frame::PathChallenge(token) => self.on_path_challenge(now, from, token),
            Frame::PathResponse(token) => self.on_path_response(now, from, token),
            Frame::Forget { lane, below } => {
                if self.incoming.on_forget(now, lane, below) {
                    self.events.push_back(Event::Readable(lane));
                }
            }
            Frame::Timestamp { lane, ms } => {
                seen.waited = self.incoming.on_timestamp(now, ms).map(|waited| (lane, waited));
            }
            Frame::Chunk(chunk) => self.on_symbol(now, ReceivedSymbol::Source(&chunk), seen)?,
            // Who was told that there is no use for it must not send it.
            Frame::Repair(_) if !textbook::takes_repair(&self.config) => {
                return Err(Violation::Frame(DecodeError::Invalid("frame.kind")));
            }
            Frame::Repair(repair) => {
                self.counters.repair_symbols_received += 1;
                self.on_symbol(now, ReceivedSymbol::Repair(&repair), seen)?;
            }
        }
        Ok(())
    }

    /// What arrived of the packets that took another path.
    fn on_path_ack(&mut self, now: Instant, path: PathNumber, ack: &Ack) -> Result<(), Violation> {
        let told = self.with_path(path, |connection| {
            let outcome = connection.path.recovery.on_ack(now, ack, false)?;
            connection.note_answer(now, &outcome);
            connection.path.mtu.on_ack(now, ack);
            connection.settle(now, outcome);
            Ok(())
        });
        told.unwrap_or(Err(Violation::AckOfUnsent))
    }

    fn on_symbol(
        &mut self,
        now: Instant,
        symbol: ReceivedSymbol<'_>,
        seen: &Seen,
    ) -> Result<(), Violation> {
        if !matches!(self.state, State::Open { .. } | State::Flushing { .. }) {
            return Ok(());
        }
        let lane = symbol.lane();
        let waited = seen.waited.filter(|(of, _)| *of == lane).map(|(_, waited)| waited);
        match self.incoming.on_symbol(now, symbol, waited)? {
            Received::Duplicate => self.counters.chunks_duplicate += 1,
            Received::Readable => self.events.push_back(Event::Readable(lane)),
            Received::Stored | Received::Dropped => {}
        }
        self.incoming.check_credit()
    }
}
