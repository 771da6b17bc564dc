// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! An endpoint with one connection, whose peer does as it likes.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::{Duration, Instant},
};

use arq_proto::{
    config::ETHERNET_MTU,
    range_set::RangeSet,
    session::Protection,
    wire::{
        ack::{Ack, MAX_ACK_BYTES},
        cursor::Reader,
        flight::{HandshakeHeader, SealedChallenge},
        frame::Frame,
        packet::Hello,
    },
    Connect, Connection, ConnectionHandle, ConnectionId, EcnCounts, Endpoint, EndpointConfig,
    LaneId, Reliability, Routed, ValidConfig,
};

use crate::{
    hostile::{data_packet, each_frame, sight, Sighting},
    Clock, Exchange,
};

/// No input makes a well-behaved connection send or say more than this.
const MAX_ANSWERS: usize = 10_000;
/// The path of the handshake.
const ONE_WAY: Duration = Duration::from_millis(5);
/// Bytes that may go to an address for each that came from it, until it is validated
/// (RFC 9000 §8.1).
const AMPLIFICATION: u64 = 3;

/// A CLOSE that the victim sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentClose {
    /// When.
    pub at: Instant,
    /// Why, in its words.
    pub reason: String,
    /// It asks to be acknowledged at once.
    pub ack_now: bool,
}

/// The victim, and what its peer knows.
pub struct Victim {
    now: Instant,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    config: ValidConfig,
    /// Where the peer did its handshake.
    peer: SocketAddr,
    /// The peer's next packet.
    next: Sighting,
    /// What it calls the peer on the path of the handshake.
    peer_id: Option<ConnectionId>,
    /// The packet numbers seen from the victim on that path.
    seen: RangeSet,
    /// Its newest data packet.
    sighted: Option<Sighting>,
    exchanged: BTreeMap<SocketAddr, Exchange>,
    /// Addresses that it asked, with the token of the last question.
    asked: BTreeMap<SocketAddr, u64>,
    /// The token of its last question.
    token: Option<u64>,
    /// Where a token came back from to which it had been sent, and the peer.
    validated: BTreeSet<SocketAddr>,
    closes: Vec<SentClose>,
    /// All that it sends is sealed, or of a handshake that comes to keys.
    is_sealed: bool,
    /// What it has sent since its peer, who has the keys, has read it.
    unread: Vec<(SocketAddr, Vec<u8>)>,
}

impl Victim {
    /// A connection after an honest handshake.
    ///
    /// # Panics
    /// The handshake fails.
    #[must_use]
    pub fn new(config: ValidConfig) -> Self {
        let mut now = Clock::new().now();
        let (peer, own): (SocketAddr, SocketAddr) =
            (([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into());
        let accept = EndpointConfig::new(config.clone());
        let mut endpoint = Endpoint::new(accept, [1; 32], now);
        let mut client_endpoint = Endpoint::new(EndpointConfig::default(), [2; 32], now);
        let (_, mut client) = client_endpoint.connect(now, own, config.clone());
        let (mut wire, mut reply) = (Vec::new(), Vec::new());
        for _ in 0..10 {
            wire.clear();
            if client.poll_transmit(now, &mut wire, 1).is_none() {
                break;
            }
            now += ONE_WAY;
            match endpoint.route(now, peer, &wire, &mut reply) {
                Routed::Reply => {
                    now += ONE_WAY;
                    client.handle_datagram(now, own, &mut reply);
                }
                Routed::Accepted { handle, mut connection, .. } => {
                    connection.handle_datagram(now, peer, &mut wire);
                    let seen = sight(&wire).expect("the client sent a data packet");
                    let next = Sighting { number: seen.number + 1, ..seen };
                    let mut victim =
                        Self::begin(now, endpoint, (handle, *connection), config, peer);
                    victim.next = next;
                    victim.drive();
                    return victim;
                }
                Routed::Connection(_) | Routed::Dropped => {}
            }
        }
        panic!("the handshake failed");
    }

    /// A client that has said HELLO to a server which is the peer.
    #[must_use]
    pub fn calling(connect: impl Into<Connect>) -> Self {
        let (now, connect) = (Clock::new().now(), connect.into());
        let peer = ([10, 0, 0, 1], 1).into();
        let mut endpoint = Endpoint::new(EndpointConfig::default(), [2; 32], now);
        let config = connect.config.clone();
        let is_sealed = matches!(connect.protection, Protection::Sealed(_));
        let connection = endpoint.connect(now, peer, connect);
        let mut victim = Self { is_sealed, ..Self::begin(now, endpoint, connection, config, peer) };
        victim.drive();
        victim
    }

    /// A server with keys to come, which a HELLO has reached. `hello` makes that, with a cookie if there is one.
    ///
    /// # Panics
    /// The server does not take it.
    #[must_use]
    pub fn answering(endpoint: EndpointConfig, hello: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let (now, peer) = (Clock::new().now(), ([10, 0, 0, 1], 1).into());
        let config = endpoint.accept.clone().expect("a server accepts");
        let mut endpoint = Endpoint::new(endpoint, [1; 32], now);
        let (mut cookie, mut reply) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let bytes = hello(&cookie);
            match endpoint.route(now, peer, &bytes, &mut reply) {
                Routed::Reply => {
                    let challenge = SealedChallenge::decode(&reply).expect("it wants a cookie");
                    cookie = challenge.cookie;
                }
                Routed::Accepted { handle, connection, .. } => {
                    let connection = (handle, *connection);
                    let begun = Self::begin(now, endpoint, connection, config, peer);
                    let mut victim = Self { is_sealed: true, ..begun };
                    if cookie.is_empty() {
                        victim.validated.clear();
                    }
                    victim.datagram(peer, &bytes);
                    return victim;
                }
                Routed::Connection(_) | Routed::Dropped => {}
            }
        }
        panic!("no state comes of a HELLO");
    }

    fn begin(
        now: Instant,
        endpoint: Endpoint,
        (handle, connection): (ConnectionHandle, Connection),
        config: ValidConfig,
        peer: SocketAddr,
    ) -> Self {
        Self {
            now,
            endpoint,
            handle,
            connection,
            config,
            peer,
            // Its handshake tells the id.
            next: Sighting { dcid: ConnectionId(0), number: 0 },
            peer_id: None,
            seen: RangeSet::default(),
            sighted: None,
            exchanged: BTreeMap::new(),
            asked: BTreeMap::new(),
            token: None,
            validated: BTreeSet::from([peer]),
            closes: Vec::new(),
            is_sealed: false,
            unread: Vec::new(),
        }
    }

    /// The id to which the peer sends.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.next.dcid
    }

    /// The id to which it sends on the path of the handshake.
    #[must_use]
    pub fn peer_id(&self) -> Option<ConnectionId> {
        self.peer_id
    }

    /// The connection.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The time and the connection, to be driven by the caller.
    pub fn parts(&mut self) -> (Instant, &mut Connection) {
        (self.now, &mut self.connection)
    }

    /// The endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The address of the peer's handshake.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The newest packet number that the peer has seen.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.seen.max().unwrap_or(0)
    }

    /// The id to which it sends data, and the number of its newest packet.
    #[must_use]
    pub fn sends_to(&self) -> Option<(ConnectionId, u32)> {
        self.sighted.map(|seen| (seen.dcid, seen.number))
    }

    /// The frame that acknowledges all that it has sent, or as much as one can hold.
    #[must_use]
    pub fn ack_of_all(&self) -> Vec<u8> {
        let mut out = Vec::new();
        Ack::encode(&self.seen, 0, EcnCounts::NONE, MAX_ACK_BYTES, &mut out);
        out
    }

    /// The token with which it last asked an address, whichever.
    #[must_use]
    pub fn path_token(&self) -> Option<u64> {
        self.token
    }

    /// The token with which it last asked an address.
    #[must_use]
    pub fn token_to(&self, address: SocketAddr) -> Option<u64> {
        self.asked.get(&address).copied()
    }

    /// Every CLOSE so far.
    #[must_use]
    pub fn closes(&self) -> &[SentClose] {
        &self.closes
    }

    /// The virtual time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The packet after the peer's last, `skip` numbers further on.
    pub fn next_packet(&mut self, skip: u8) -> Sighting {
        let mut at = self.next;
        at.number = at.number.wrapping_add(skip.into());
        self.next.number = at.number.wrapping_add(1);
        at
    }

    /// A well-formed packet with these frames from the peer.
    pub fn frames(&mut self, frames: &[u8]) {
        let at = self.next_packet(0);
        self.datagram(self.peer, &data_packet(at, 0, true, frames));
    }

    /// What it has sent since the last call, if that is sealed.
    pub(super) fn take_unread(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        std::mem::take(&mut self.unread)
    }

    /// The peer has read a sealed packet.
    pub(super) fn note_read(
        &mut self,
        to: SocketAddr,
        seen: Sighting,
        ack_now: bool,
        frames: &[u8],
    ) {
        self.sight(seen);
        let mut frames = Reader::new(frames);
        while let Ok(Some(frame)) = Frame::decode(&mut frames) {
            self.note_frame(to, ack_now, &frame);
        }
    }

    /// A HANDSHAKE packet. Who could seal part of it has seen an answer of the victim's: it receives at its address.
    pub(super) fn handshake_datagram(&mut self, from: SocketAddr, bytes: &[u8], is_proof: bool) {
        if is_proof && from == self.peer {
            self.validated.insert(from);
        }
        self.datagram(from, bytes);
    }

    /// A sealed packet with these frames.
    pub(super) fn sealed_datagram(&mut self, from: SocketAddr, bytes: &[u8], frames: &[u8]) {
        let mut frames = Reader::new(frames);
        while let Ok(Some(frame)) = Frame::decode(&mut frames) {
            self.note_answer(from, &frame);
        }
        self.datagram(from, bytes);
    }

    /// Any datagram from anywhere.
    pub fn datagram(&mut self, from: SocketAddr, bytes: &[u8]) {
        let mut reply = Vec::new();
        each_frame(bytes, |_, frame| self.note_answer(from, &frame));
        self.exchanged.entry(from).or_default().received_bytes += bytes.len() as u64;
        match self.endpoint.route(self.now, from, bytes, &mut reply) {
            Routed::Reply => self.count_sent(from, reply.len()),
            Routed::Connection(handle) if handle == self.handle => {
                self.connection.handle_datagram(self.now, from, &mut bytes.to_vec());
            }
            // Connections that an attacker opens beside the first are not driven.
            Routed::Accepted { handle, .. } => self.endpoint.remove(handle),
            Routed::Connection(_) | Routed::Dropped => {}
        }
        self.drive();
    }

    /// Uses the connection as its application would.
    pub fn with_connection<T>(&mut self, action: impl FnOnce(Instant, &mut Connection) -> T) -> T {
        let result = action(self.now, &mut self.connection);
        self.drive();
        result
    }

    /// Lets time pass, with all timers that are due.
    ///
    /// # Panics
    /// A timer does not move forward.
    pub fn sleep(&mut self, time: Duration) {
        let end = self.now + time;
        let mut fired = 0;
        while let Some((at, kind)) = self.connection.poll_timeout().filter(|(at, _)| *at <= end) {
            self.now = self.now.max(at);
            self.connection.handle_timeout(self.now);
            self.drive();
            fired += 1;
            assert!(fired < MAX_ANSWERS, "{kind:?} fires without end");
        }
        self.now = end;
    }

    /// The host gets no processor for so long, and looks at its timers before it reads what has arrived.
    pub fn oversleep(&mut self, time: Duration) {
        self.now += time;
        self.connection.handle_timeout(self.now);
        self.drive();
    }

    /// Takes events and datagrams, and checks the rules.
    fn drive(&mut self) {
        let mut count = 0;
        while self.connection.poll_event().is_some() {
            count += 1;
            assert!(count < MAX_ANSWERS, "events never end");
        }
        while let Some(event) = self.connection.poll_endpoint_event() {
            // There is no other connection that it may have come to replace.
            self.endpoint.handle_event(self.handle, event);
        }
        let mut buf = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit(self.now, &mut buf, 4) {
            assert!(transmit.size == buf.len() && transmit.segment_size > 0, "{transmit:?}");
            for datagram in buf.chunks(transmit.segment_size) {
                assert!(
                    datagram.len() <= usize::from(self.config.mtu.unwrap_or(ETHERNET_MTU)),
                    "{transmit:?}"
                );
                if let Some(seen) = sight(datagram) {
                    assert!(!self.is_sealed, "a packet is not sealed");
                    self.sight(seen);
                }
                self.note(transmit.destination, datagram);
            }
            self.count_sent(transmit.destination, buf.len());
            buf.clear();
            count += 1;
            assert!(count < MAX_ANSWERS, "poll_transmit never ends");
        }
        self.check();
    }

    /// Remembers its id, what it asked of an address, and how it said goodbye.
    fn note(&mut self, to: SocketAddr, datagram: &[u8]) {
        if let Ok(hello) = Hello::decode(datagram) {
            self.next.dcid = hello.scid;
        } else if let Ok((header, _)) = HandshakeHeader::decode(datagram) {
            self.next.dcid = header.scid;
        }
        each_frame(datagram, |header, frame| self.note_frame(to, header.ack_now, &frame));
        if self.is_sealed {
            self.unread.push((to, datagram.to_vec()));
        }
    }

    fn note_frame(&mut self, to: SocketAddr, ack_now: bool, frame: &Frame<'_>) {
        match frame {
            Frame::PathChallenge(token) => {
                self.asked.insert(to, *token);
                self.token = Some(*token);
            }
            Frame::Close { reason } => {
                let (at, reason) = (self.now, (*reason).to_owned());
                self.closes.push(SentClose { at, reason, ack_now });
            }
            _ => {}
        }
    }

    /// Its question to an address is answered from there.
    fn note_answer(&mut self, from: SocketAddr, frame: &Frame<'_>) {
        if matches!(frame, Frame::PathResponse(token) if self.asked.get(&from) == Some(token)) {
            self.validated.insert(from);
        }
    }

    fn sight(&mut self, seen: Sighting) {
        if *self.peer_id.get_or_insert(seen.dcid) == seen.dcid {
            self.seen.insert(seen.number.into());
            self.sighted = Some(seen);
        }
    }

    fn count_sent(&mut self, to: SocketAddr, bytes: usize) {
        self.exchanged.entry(to).or_default().sent_bytes += bytes as u64;
    }

    fn check(&self) {
        let stats = self.connection.stats();
        let best_effort =
            LaneId::all().filter(|lane| lane.reliability() == Reliability::BestEffort).count();
        let bound = u64::from(self.config.connection_window_bytes)
            + best_effort as u64 * u64::from(self.config.lane_window_bytes);
        assert!(stats.receive_buffer_bytes <= bound, "{stats:?}");
        let remote = self.connection.remote();
        let is_known = remote == self.peer || self.validated.contains(&remote);
        assert!(is_known, "moved to {remote}, which answered no question");
        for (address, exchange) in &self.exchanged {
            assert!(
                self.validated.contains(address)
                    || exchange.sent_bytes <= AMPLIFICATION * exchange.received_bytes,
                "{address}: {exchange:?}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane;

    #[test]
    fn an_acknowledgement_of_all_leaves_nothing_in_flight() {
        let mut victim = Victim::new(ValidConfig::default());
        let message = bytes::Bytes::from_static(&[1; 10_000]);
        let lane = lane(5, Reliability::Reliable);
        // More packets than the first number that is left out.
        for _ in 0..50 {
            victim.with_connection(|now, conn| conn.send(now, lane, message.clone())).unwrap();
            victim.sleep(ONE_WAY);
            let ack = victim.ack_of_all();
            victim.frames(&ack);
        }
        victim.sleep(ONE_WAY);
        let ack = victim.ack_of_all();
        victim.frames(&ack);
        let stats = victim.connection().stats();
        assert!(victim.newest() > 200, "{}", victim.newest());
        assert_eq!((stats.in_flight_bytes, stats.queued_bytes), (0, 0), "{stats:?}");
        assert_eq!(victim.connection().close_reason(), None);
    }
}
