// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Handshakes that are replayed, borrowed or cut short.

use std::{
    cell::RefCell,
    net::SocketAddr,
    rc::Rc,
    time::{Duration, Instant},
};

use arq_proto::{
    wire::{
        cursor::Reader,
        frame::Frame,
        packet::{Cookie, DataHeader, Echo, Reset},
        VERSION,
    },
    Config, ConnectionHandle, ConnectionId, Endpoint, EndpointConfig, Routed, ValidConfig,
};
use arq_sim::{hostile, Clock, Datagram, Forged, Pair, Scenario, Verdict};
use bytes::Bytes;
use fastrand::Rng;

use crate::{
    assert_no_amplification,
    common::{seeds, MS, SEC},
    hello, stranger, talk,
};

fn listening() -> EndpointConfig {
    EndpointConfig::new(ValidConfig::default())
}

/// Datagrams of a host, as somebody on the path records them.
pub(crate) fn record(pair: &mut Pair) -> Rc<RefCell<Vec<Datagram>>> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let recorder = seen.clone();
    pair.world.set_tap(move |_: Duration, datagram: &Datagram, _: &mut Vec<Forged>| {
        recorder.borrow_mut().push(datagram.clone());
        Verdict::Pass
    });
    seen
}

// ARQ-CID-3
#[test]
fn a_recorded_conversation_brings_no_closed_connection_back() {
    let mut pair = Pair::new(&Scenario::new(4).both_send(talk()));
    let seen = record(&mut pair);
    pair.run_to_delivery(10 * SEC).unwrap();
    let id = pair.conn;
    pair.world.with_conn(id, |clock, connection, _| connection.finish(clock.now()));
    pair.run(10 * SEC, |pair| pair.server_side().closed.is_some()).unwrap();
    let to = pair.world.address(pair.server);
    let recorded: Vec<_> = seen.borrow().iter().filter(|d| d.to == to).cloned().collect();
    // At once, after the cookie's end, and from another address.
    for (wait, from) in [(0, None), (70, None), (0, Some(stranger(1)))] {
        pair.world.run_for(wait * SEC).unwrap();
        for datagram in &recorded {
            let from = from.unwrap_or(datagram.from);
            let bytes = datagram.bytes.to_vec();
            pair.world.forge(Forged { from, to, after: MS, bytes });
        }
        pair.world.run_for(SEC).unwrap();
    }
    assert_eq!(pair.world.accepted(pair.server).len(), 1);
    assert_no_amplification(&pair);
}

/// The first packet with a cookie of a new client at `from`.
fn first_packet(server: &mut Endpoint, now: Instant, from: SocketAddr) -> Vec<u8> {
    let to = stranger(2);
    let mut endpoint = Endpoint::new(EndpointConfig::default(), [2; 32], now);
    let (_, mut client) = endpoint.connect(now, to, ValidConfig::default());
    let (mut wire, mut reply) = (Vec::new(), Vec::new());
    client.poll_transmit(now, &mut wire, 1).unwrap();
    assert!(matches!(server.route(now, from, &wire, &mut reply), Routed::Reply));
    client.handle_datagram(now, to, &mut reply);
    wire.clear();
    client.poll_transmit(now, &mut wire, 1).unwrap();
    wire
}

/// A connection that the server accepts, and the packet with the cookie that did it.
fn open(server: &mut Endpoint, now: Instant) -> (ConnectionHandle, Vec<u8>) {
    let from = stranger(1);
    let wire = first_packet(server, now, from);
    match server.route(now, from, &wire, &mut Vec::new()) {
        Routed::Accepted { handle, .. } => (handle, wire),
        other => panic!("{other:?}"),
    }
}

// ARQ-CID-3
#[test]
fn a_recorded_packet_brings_no_connection_back_after_thousands_have_ended() {
    let mut now = Clock::new().now();
    let mut server = Endpoint::new(listening(), [1; 32], now);
    let (first, recorded) = open(&mut server, now);
    server.remove(first);
    // More than are remembered, in less time than its cookie lives.
    for _ in 0..5_000 {
        now += MS;
        let (handle, _) = open(&mut server, now);
        server.remove(handle);
    }
    let replayed = server.route(now, stranger(1), &recorded, &mut Vec::new());
    assert!(!matches!(replayed, Routed::Accepted { .. }), "{replayed:?}");
    // A new one is taken as ever.
    now += MS;
    open(&mut server, now);
}

// ARQ-HS-5, ARQ-HS-8
#[test]
fn a_cookie_is_worth_nothing_at_another_address() {
    let mut pair = Pair::new(&Scenario::new(5));
    // The client's packets never arrive, copies of them from elsewhere do.
    let client = pair.world.address(pair.client);
    pair.world.set_tap(move |_: Duration, seen: &Datagram, forged: &mut Vec<Forged>| {
        if seen.from != client || hostile::sight(&seen.bytes).is_none() {
            return Verdict::Pass;
        }
        let bytes = seen.bytes.to_vec();
        forged.push(Forged { from: stranger(1), to: seen.to, after: MS, bytes });
        Verdict::Withhold
    });
    pair.world.run_for(5 * SEC).unwrap();
    assert!(pair.world.accepted(pair.server).is_empty());
    assert_no_amplification(&pair);
}

/// What a client returns of its CHALLENGE.
#[derive(Debug, Clone)]
struct Returned {
    from: SocketAddr,
    server: ConnectionId,
    client: ConnectionId,
    version: u32,
    cookie: Vec<u8>,
    params: Vec<u8>,
}

impl Returned {
    fn read(from: SocketAddr, packet: &[u8]) -> Self {
        let header = DataHeader::decode(&mut Reader::new(packet)).unwrap();
        let Cookie { scid, version, cookie, params } = header.cookie.unwrap();
        let (cookie, params) = (cookie.to_vec(), params.to_vec());
        Self { from, server: header.dcid, client: scid, version, cookie, params }
    }

    /// A packet that says so, with a valid tag.
    fn packet(&self) -> Vec<u8> {
        let Self { client, version, .. } = *self;
        let (cookie, params) = (&self.cookie[..], &self.params[..]);
        let cookie = Some(Cookie { scid: client, version, cookie, params });
        let mut out = Vec::new();
        DataHeader { dcid: self.server, ack_now: true, number: 0, span: 0, cookie }
            .encode(&mut out);
        Frame::Ping.encode(&mut out);
        hostile::sealed(&out)
    }
}

// ARQ-HS-5, ARQ-HS-8, ARQ-VER-2
#[test]
fn a_cookie_vouches_for_address_port_ids_version_instance_and_time() {
    for seed in seeds(20) {
        let mut rng = Rng::with_seed(seed);
        let started_at = Clock::new().now();
        let mut server = Endpoint::new(listening(), [rng.u8(..); 32], started_at);
        // So late that a forged time of issue may lie in the past and within the cookie's lifetime.
        let now = started_at + 30 * SEC;
        let from = stranger(1);
        let truth = Returned::read(from, &first_packet(&mut server, now, from));
        let mut other = |id: ConnectionId| ConnectionId(id.0 ^ (1 << rng.u32(..64)));
        let mut lies = vec![
            ("address", Returned { from: stranger(3), ..truth.clone() }),
            ("port", Returned { from: (from.ip(), from.port() ^ 1).into(), ..truth.clone() }),
            ("server's id", Returned { server: other(truth.server), ..truth.clone() }),
            ("client's id", Returned { client: other(truth.client), ..truth.clone() }),
            ("version", Returned { version: VERSION + 1, ..truth.clone() }),
        ];
        // The time of issue, the client's instance, and what proves them: wherever they stand.
        for at in 0..truth.cookie.len() {
            let mut lie = truth.clone();
            lie.cookie[at] ^= 0xff;
            lies.push(("byte of the cookie", lie));
        }
        let mut reply = Vec::new();
        for (what, lie) in &lies {
            let routed = server.route(now, lie.from, &lie.packet(), &mut reply);
            assert!(matches!(routed, Routed::Reply), "seed {seed}, another {what}: {routed:?}");
            let reset = Reset { unknown: lie.server, echo: Echo::Number(0) };
            assert_eq!(Reset::decode(&reply), Ok(reset), "seed {seed}, another {what}");
        }
        let routed = server.route(now, truth.from, &truth.packet(), &mut reply);
        assert!(matches!(routed, Routed::Accepted { .. }), "seed {seed}, the truth: {routed:?}");
    }
}

// ARQ-HS-3, ARQ-AMP-1
#[test]
fn a_hello_that_is_too_short_is_not_answered() {
    let now = Clock::new().now();
    let mut server = Endpoint::new(listening(), [1; 32], now);
    let whole = hello(&mut Rng::with_seed(6));
    let mut reply = Vec::new();
    // All that it says is there and its tag fits: it lacks padding, in the end a byte of it.
    for len in [23, 100, 163] {
        let routed = server.route(now, stranger(1), &hostile::sealed(&whole[..len]), &mut reply);
        assert!(matches!(routed, Routed::Dropped), "{len}: {routed:?}");
        assert!(reply.is_empty(), "{len}: {reply:02x?}");
    }
    let stats = server.stats();
    assert_eq!((stats.challenges_sent, stats.datagrams_dropped), (0, 3));
    let routed = server.route(now, stranger(1), &hostile::sealed(&whole[..164]), &mut reply);
    assert!(matches!(routed, Routed::Reply), "{routed:?}");
    assert!(!reply.is_empty());
}

// ARQ-HS-3, ARQ-AMP-1
#[test]
fn no_hello_has_an_answer_that_is_longer() {
    // What a listener says is as long as it can be.
    let accept = Config {
        lane_window_bytes: 1 << 30,
        connection_window_bytes: 1 << 30,
        deadline: Some(3_600 * SEC),
        app_params: Bytes::from_static(&[7; 64]),
        ..Config::default()
    };
    let accept = Some(accept.validate().unwrap());
    let now = Clock::new().now();
    let mut server = Endpoint::new(EndpointConfig::new(accept), [1; 32], now);
    let whole = hello(&mut Rng::with_seed(6));
    let mut reply = Vec::new();
    for len in 0..1_196 {
        let packet = hostile::sealed(&whole[..len]);
        let routed = server.route(now, stranger(1), &packet, &mut reply);
        assert_eq!(matches!(routed, Routed::Reply), len >= 164, "{len}: {routed:?}");
        assert!(reply.len() <= packet.len(), "{} bytes for {}", reply.len(), packet.len());
    }
}
