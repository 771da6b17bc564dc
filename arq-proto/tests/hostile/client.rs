// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A client whose server does as it likes.

use std::{net::SocketAddr, time::Instant};

use arq_proto::{
    range_set::RangeSet,
    wire::{
        ack::{Ack, MAX_ACK_BYTES},
        frame::Frame,
        packet::{Challenge, Echo, Hello, Refuse, Reset},
        params::Params,
        BASE_MTU, VERSION,
    },
    Connection, ConnectionError, ConnectionId, EcnCounts, Endpoint, EndpointConfig, RefuseReason,
    Routed, ValidConfig,
};
use arq_sim::{
    hostile::{self, Sighting},
    Clock,
};
use bytes::Bytes;

use crate::{common::MS, stranger};

/// The id under which the server of a [`Client`] receives.
pub(crate) const SERVER_ID: ConnectionId = ConnectionId(0x99aa_bbcc_ddee_ff00);

pub(crate) fn server() -> SocketAddr {
    stranger(2)
}

/// A client whose server is the test: it is told what we like, and shows what its packets show.
pub(crate) struct Client {
    pub(crate) now: Instant,
    endpoint: Endpoint,
    pub(crate) connection: Connection,
    /// From its HELLO.
    pub(crate) id: ConnectionId,
    /// The number of the server's next packet.
    next: u32,
    /// Its newest data packet.
    pub(crate) seen: Option<Sighting>,
    /// The numbers of all.
    numbers: RangeSet,
    /// How many of them left as ECT(0), and what the server says of that.
    pub(crate) marked: u64,
    pub(crate) counts: EcnCounts,
    /// The longest of them.
    pub(crate) longest: usize,
}

impl Client {
    /// It waits for the answer to its HELLO.
    pub(crate) fn waiting() -> Self {
        Self::waiting_with(ValidConfig::default())
    }

    fn waiting_with(config: ValidConfig) -> Self {
        let now = Clock::new().now();
        let mut endpoint = Endpoint::new(EndpointConfig::default(), [2; 32], now);
        let (_, mut connection) = endpoint.connect(now, server(), config);
        let mut wire = Vec::new();
        let first = connection.poll_transmit(now, &mut wire, 1).unwrap().size;
        let id = Hello::decode(&wire[..first]).unwrap().scid;
        connection.poll_transmit(now, &mut wire, 1).unwrap();
        let (numbers, counts) = (RangeSet::default(), EcnCounts::NONE);
        let (next, seen, marked, longest) = (0, None, 0, 0);
        Self { now, endpoint, connection, id, next, seen, numbers, marked, counts, longest }
    }

    /// It has had its CHALLENGE and returns the cookie.
    pub(crate) fn open() -> Self {
        let mut client = Self::waiting();
        client.challenge(SERVER_ID);
        assert!(client.connection.is_established());
        client
    }

    /// Its server announces these parameters, and has answered.
    pub(crate) fn of_server(config: ValidConfig, params: Params) -> Self {
        let mut client = Self::waiting_with(config);
        client.challenge_with(SERVER_ID, params);
        client.ping();
        client
    }

    /// Its server has answered: it needs the cookie no more.
    pub(crate) fn confirmed() -> Self {
        let mut client = Self::open();
        client.ping();
        client
    }

    /// It has closed, and tells the server.
    pub(crate) fn closing() -> Self {
        let mut client = Self::confirmed();
        client.connection.close(client.now, "enough");
        client.drive();
        assert!(client.connection.is_closed() && !client.connection.is_drained());
        client
    }

    pub(crate) fn challenge(&mut self, scid: ConnectionId) {
        self.challenge_with(scid, params());
    }

    fn challenge_with(&mut self, scid: ConnectionId, params: Params) {
        let (dcid, cookie) = (self.id, vec![7; 32]);
        let mut wire = Vec::new();
        Challenge { dcid, scid, version: VERSION, attempt: 0, cookie, params }.encode(&mut wire);
        self.take(&wire);
    }

    pub(crate) fn refuse(&mut self, reason: RefuseReason) {
        let mut wire = Vec::new();
        Refuse { dcid: self.id, reason, versions: Vec::new() }.encode(&mut wire);
        self.take(&wire);
    }

    pub(crate) fn reset(&mut self, number: u32) {
        let mut wire = Vec::new();
        Reset { unknown: SERVER_ID, echo: Echo::Number(number) }.encode(&mut wire);
        self.take(&wire);
    }

    /// An authentic packet that wants to be acknowledged at once.
    pub(crate) fn ping(&mut self) {
        self.frames(&[1]);
    }

    /// A packet with this frame.
    pub(crate) fn say(&mut self, frame: &Frame<'_>) {
        let mut frames = Vec::new();
        frame.encode(&mut frames);
        self.frames(&frames);
    }

    /// Acknowledges all that it has sent.
    pub(crate) fn ack_all(&mut self) {
        let mut ack = Vec::new();
        Ack::encode(&self.numbers, 0, self.counts, MAX_ACK_BYTES, &mut ack);
        self.frames(&ack);
    }

    fn frames(&mut self, frames: &[u8]) {
        let at = Sighting { dcid: self.id, number: self.next };
        self.next += 1;
        self.take(&hostile::data_packet(at, 0, true, frames));
    }

    /// A datagram from the server's address, which its endpoint takes for this connection's.
    pub(crate) fn take(&mut self, datagram: &[u8]) {
        let routed = self.endpoint.route(self.now, server(), datagram, &mut Vec::new());
        assert!(matches!(routed, Routed::Connection(_)), "{routed:?}");
        self.connection.handle_datagram(self.now, server(), &mut datagram.to_vec());
        self.drive();
    }

    /// Lets it send what it has to say.
    pub(crate) fn drive(&mut self) {
        let mut wire = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit(self.now, &mut wire, 1) {
            self.marked += u64::from(transmit.ecn.is_some());
            if let Some(seen) = hostile::sight(&wire) {
                self.seen = Some(seen);
                self.numbers.insert(seen.number.into());
                self.longest = self.longest.max(wire.len());
            }
            wire.clear();
        }
    }

    pub(crate) fn error(&self) -> Option<&ConnectionError> {
        self.connection.close_reason()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.connection.stats().datagrams_dropped
    }

    /// The number of its next packet.
    pub(crate) fn next_number(&self) -> u32 {
        self.seen.unwrap().number + 1
    }
}

/// What a server of its kind announces.
pub(crate) fn params() -> Params {
    Params {
        max_datagram_bytes: BASE_MTU,
        lane_window_bytes: 1 << 20,
        connection_window_bytes: 8 << 20,
        hold: MS,
        repair: true,
        resegment: true,
        paths: 1,
        app: Bytes::new(),
    }
}
