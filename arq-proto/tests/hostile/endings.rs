// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Who may end an association, or begin it anew? Who proves that it is his, and in time.

use std::{net::SocketAddr, time::Instant};

use arq_proto::{
    wire::{
        packet::{Challenge, Hello, Refuse, Reset},
        params::Params,
        BASE_MTU, VERSION,
    },
    Config, Connection, ConnectionError, ConnectionId, Endpoint, EndpointConfig, LaneId,
    RefuseReason, Routed,
};
use arq_sim::{
    hostile::{self, Sighting},
    AppPlan, Clock, Flow, HostConfig, Pair, Scenario, WireConfig,
};
use bytes::Bytes;

use crate::{
    common::{seeds, MS, SEC},
    stranger,
};

/// The id under which the server of a [`Client`] receives.
const SERVER_ID: ConnectionId = ConnectionId(0x99aa_bbcc_ddee_ff00);

fn server() -> SocketAddr {
    stranger(2)
}

/// A client whose server is the test: it is told what we like, and shows what its packets show.
struct Client {
    now: Instant,
    endpoint: Endpoint,
    connection: Connection,
    /// From its HELLO.
    id: ConnectionId,
    /// The number of the server's next packet.
    next: u32,
    /// Its newest data packet.
    seen: Option<Sighting>,
}

impl Client {
    /// It waits for the answer to its HELLO.
    fn waiting() -> Self {
        let now = Clock::new().now();
        let mut endpoint = Endpoint::new(EndpointConfig::default(), [2; 32], now);
        let (_, mut connection) = endpoint.connect(now, server(), Config::default());
        let mut wire = Vec::new();
        connection.poll_transmit(now, &mut wire, 1).unwrap();
        let id = Hello::decode(&wire).unwrap().scid;
        Self { now, endpoint, connection, id, next: 0, seen: None }
    }

    /// It has had its CHALLENGE and returns the cookie.
    fn open() -> Self {
        let mut client = Self::waiting();
        client.challenge(SERVER_ID);
        assert!(client.connection.is_established());
        client
    }

    /// Its server has answered: it needs the cookie no more.
    fn confirmed() -> Self {
        let mut client = Self::open();
        client.ping();
        client
    }

    /// It has closed, and tells the server.
    fn closing() -> Self {
        let mut client = Self::confirmed();
        client.connection.close(client.now, "enough");
        client.drive();
        assert!(client.connection.is_closed() && !client.connection.is_drained());
        client
    }

    fn challenge(&mut self, scid: ConnectionId) {
        let params = Params {
            max_datagram_bytes: BASE_MTU,
            lane_window_bytes: 1 << 20,
            connection_window_bytes: 8 << 20,
            hold: MS,
            repair: true,
            recut: true,
            app: Bytes::new(),
        };
        let (dcid, cookie) = (self.id, vec![7; 32]);
        let mut wire = Vec::new();
        Challenge { dcid, scid, version: VERSION, attempt: 0, cookie, params }.encode(&mut wire);
        self.take(&wire);
    }

    fn refuse(&mut self, reason: RefuseReason) {
        let mut wire = Vec::new();
        Refuse { dcid: self.id, reason }.encode(&mut wire);
        self.take(&wire);
    }

    fn reset(&mut self, number: u32) {
        let mut wire = Vec::new();
        Reset { unknown: SERVER_ID, number }.encode(&mut wire);
        self.take(&wire);
    }

    /// An authentic packet that wants to be acknowledged at once.
    fn ping(&mut self) {
        let at = Sighting { dcid: self.id, number: self.next };
        self.next += 1;
        self.take(&hostile::data_packet(at, 0, true, &[1]));
    }

    /// A datagram from the server's address, which its endpoint takes for this connection's.
    fn take(&mut self, datagram: &[u8]) {
        let routed = self.endpoint.route(self.now, server(), datagram, &mut Vec::new());
        assert!(matches!(routed, Routed::Connection(_)), "{routed:?}");
        self.connection.handle_datagram(self.now, server(), datagram);
        self.drive();
    }

    /// Lets it send what it has to say.
    fn drive(&mut self) {
        let mut wire = Vec::new();
        while self.connection.poll_transmit(self.now, &mut wire, 1).is_some() {
            self.seen = hostile::sight(&wire).or(self.seen);
            wire.clear();
        }
    }

    fn error(&self) -> Option<&ConnectionError> {
        self.connection.close_reason()
    }

    fn dropped(&self) -> u64 {
        self.connection.stats().datagrams_dropped
    }

    /// The number of its next packet.
    fn next_number(&self) -> u32 {
        self.seen.unwrap().number + 1
    }
}

/// What is dropped raises a counter, and nothing else: no answer, no sign of life.
#[track_caller]
fn assert_counted_and_dropped(client: &mut Client, send: impl FnOnce(&mut Client)) {
    let before = (client.connection.stats(), client.connection.heard_at(), client.error().cloned());
    client.now += MS;
    send(client);
    let after = (client.connection.stats(), client.connection.heard_at(), client.error().cloned());
    assert_eq!(after.0.datagrams_dropped, before.0.datagrams_dropped + 1);
    assert_eq!(after.0.packets_received, before.0.packets_received);
    assert_eq!(after.0.packets_sent, before.0.packets_sent);
    assert_eq!((after.1, after.2), (before.1, before.2));
}

// ARQ-HS-6, ARQ-ERR-1
#[test]
fn a_second_challenge_is_counted_and_dropped() {
    let later = ConnectionId(SERVER_ID.0 ^ 1);
    for make in [Client::open, Client::confirmed, Client::closing] {
        let mut client = make();
        assert_counted_and_dropped(&mut client, |client| client.challenge(later));
        client.ping();
        assert_eq!(client.seen.unwrap().dcid, SERVER_ID, "the first one holds");
    }
}

// ARQ-HS-9
#[test]
fn a_refuse_ends_nothing_once_the_server_has_answered() {
    for reason in [RefuseReason::Version, RefuseReason::Busy] {
        // Until then it may be true, and is believed.
        for make in [Client::waiting, Client::open] {
            let mut client = make();
            client.refuse(reason);
            assert_eq!(client.error(), Some(&ConnectionError::Refused(reason)));
        }
        let mut client = Client::confirmed();
        client.refuse(reason);
        assert_eq!(client.error(), None);
        assert!(client.connection.is_established());
        // Nor while it delivers the last that it has to say.
        let lane = LaneId::all().next().unwrap();
        client.connection.send(client.now, lane, Bytes::from_static(b"last")).unwrap();
        client.connection.finish(client.now);
        client.drive();
        client.refuse(reason);
        assert_eq!(client.error(), None);
    }
}

// ARQ-HS-9, ARQ-ERR-1
#[test]
fn a_refuse_in_the_wrong_state_or_of_another_is_counted_and_dropped() {
    for make in [Client::confirmed, Client::closing] {
        assert_counted_and_dropped(&mut make(), |client| client.refuse(RefuseReason::Busy));
    }
    // No endpoint would route it here.
    let mut wire = Vec::new();
    Refuse { dcid: SERVER_ID, reason: RefuseReason::Busy }.encode(&mut wire);
    for make in [Client::waiting, Client::open] {
        assert_counted_and_dropped(&mut make(), |client| {
            client.connection.handle_datagram(client.now, server(), &wire);
            client.drive();
        });
    }
}

/// A client that has sent more packets than count as sent lately.
fn talkative() -> Client {
    let mut client = Client::confirmed();
    // Each is acknowledged. The first number that may be left out, 64, lies beyond those of interest.
    while client.next_number() < 65_540 {
        client.ping();
    }
    assert_eq!(client.error(), None);
    client
}

// ARQ-RST-2, ARQ-ERR-1
#[test]
fn a_reset_proves_itself_by_a_number_that_was_sent_lately() {
    // The newest that was sent, and the oldest that counts.
    for back in [1, 65_536] {
        let mut client = talkative();
        let next = client.next_number();
        let dropped = client.dropped();
        for number in [next, next + 1_000, next - 65_537] {
            client.reset(number);
            assert_eq!(client.error(), None, "{number}, where {next} is next");
        }
        // Nor with the right number, but for another association. No endpoint would route it here.
        let mut wire = Vec::new();
        Reset { unknown: client.id, number: next - 1 }.encode(&mut wire);
        client.connection.handle_datagram(client.now, server(), &wire);
        assert_eq!(client.error(), None, "{:?} is not {SERVER_ID:?}", client.id);
        assert_eq!(client.dropped(), dropped + 4);
        client.reset(next - back);
        assert_eq!(client.error(), Some(&ConnectionError::PeerLostState), "{back} before {next}");
    }
}

// ARQ-RPL-1
#[test]
fn a_newcomer_at_an_address_that_the_peer_has_left_replaces_nothing() {
    for seed in seeds(10) {
        for moves in [true, false] {
            let flow = Flow::reliable(5, 200, 1_000).every(20 * MS);
            let mut pair = Pair::new(&Scenario::new(seed).client_sends([flow]));
            pair.run_to_connected(SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
            let (client, server, old) = (pair.client, pair.server, pair.accepted().unwrap());
            let left = pair.world.address(client);
            if moves {
                pair.world.rebind(client, stranger(1));
                pair.run(5 * SEC, |pair| pair.world.conn(old).connection().remote() == stranger(1))
                    .unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
            } else {
                pair.world.vanish(client);
            }
            // What was sent to the old address must not meet the newcomer, who would answer RESET.
            pair.world.run_for(100 * MS).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));

            let newcomer = pair.world.add_host(HostConfig::new("newcomer", left));
            let wire = WireConfig::with_delay(10 * MS);
            pair.world.lay_wire(newcomer, server, wire.clone());
            pair.world.lay_wire(server, newcomer, wire);
            pair.world.connect(newcomer, server, Config::default(), AppPlan::default());
            pair.world
                .run_until(SEC, |world| world.accepted(server).len() == 2)
                .unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
            let read = pair.world.conn(old).app.messages_read();
            pair.world.run_for(2 * SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
            let old = pair.world.conn(old);
            if moves {
                assert_eq!(old.error(), None, "seed {seed}");
                assert!(old.app.messages_read() >= read + 90, "seed {seed}: it goes on");
            } else {
                assert_eq!(old.error(), Some(&ConnectionError::Replaced), "seed {seed}");
            }
        }
    }
}
