// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A server that the client's session refuses is named soon; but who answers in a server's place, and sooner, keeps nobody
//! from it.

use std::{cell::Cell, collections::BTreeMap, net::SocketAddr, rc::Rc, sync::Arc, time::Duration};

use arq_proto::{
    session::Protection,
    wire::{
        flight::{FlightFrame, HandshakeFrame, HandshakeHeader},
        frame::Shape,
        packet::{peek_connection_id, PacketKind, Refuse},
    },
    Connect, Connection, ConnectionError, ConnectionHandle, ConnectionId, Endpoint, EndpointConfig,
    RefuseReason, Routed, ValidConfig,
};
use arq_sim::{
    toy::{Flights, Toy},
    AppPlan, Clock, ConnId, Datagram, Forged, Loss, Pair, Scenario, Verdict, WireConfig,
};

use crate::common::{seeds, MS, SEC};

const STRANGER: u64 = 2;

/// A client of another authority than the server's; the pair's own is not looked at.
fn refuses(seed: u64, wire: WireConfig) -> (Pair, ConnId) {
    let toy = Toy::new(Flights::default());
    let mut pair = Pair::new(&Scenario::new(seed).wire(wire).sealed(toy.clone(), 64));
    let toy = Arc::new(toy.with_authority(STRANGER));
    let connect = Connect::sealed(ValidConfig::default(), toy, "server");
    let client = pair.world.connect(pair.client, pair.server, connect, AppPlan::default());
    (pair, client)
}

// ARQ-HSK-9
#[test]
fn a_server_that_is_refused_is_named_a_second_after_the_first_hello() {
    for (delay, loss) in [(MS, 0.0), (10 * MS, 0.0), (10 * MS, 0.25), (250 * MS, 0.0)] {
        for seed in seeds(20) {
            let wire = WireConfig { loss: Loss::Random(loss), ..WireConfig::with_delay(delay) };
            let (mut pair, client) = refuses(seed, wire);
            let at = format!("seed {seed}, {delay:?}, {loss}");
            pair.run(10 * SEC, |pair| pair.world.conn(client).closed.is_some())
                .unwrap_or_else(|halt| panic!("{at}: {halt}"));
            let conn = pair.world.conn(client);
            let (ended, error) = conn.closed.clone().unwrap();
            let Some(ConnectionError::HandshakeFailed(cause)) = conn.error() else {
                panic!("{at}: {error}")
            };
            assert_eq!((cause.alert, &cause.text[..]), (Some(48), "no authority of ours"), "{at}");
            // Nobody else has answered.
            assert_eq!(conn.connection().stats().handshakes_spoiled, 0, "{at}");
            if loss == 0.0 {
                assert_eq!(ended, SEC, "{at}");
            }
            // The server hears why, and need not wait.
            let told = |pair: &Pair| {
                pair.world.accepted(pair.server).iter().any(|id| {
                    let error = pair.world.conn(*id).error();
                    matches!(error, Some(ConnectionError::PeerEndedHandshake { alert: 48, .. }))
                })
            };
            if loss == 0.0 {
                pair.run(SEC, told).unwrap_or_else(|halt| panic!("{at}: {halt}"));
            }
        }
    }
}

/// Answers HELLOs in the server's place, before they arrive there, with a session that the client refuses.
struct Impostor {
    clock: Clock,
    endpoint: Endpoint,
    connections: BTreeMap<ConnectionHandle, Box<Connection>>,
    client: SocketAddr,
    server: SocketAddr,
    /// Attempts whose HELLO he has seen, and how many of them he answers.
    seen: Vec<ConnectionId>,
    answers: usize,
}

impl Impostor {
    fn new(pair: &Pair, toy: &Toy, answers: usize) -> Self {
        let toy = Arc::new(toy.with_authority(STRANGER));
        let config = EndpointConfig::new(ValidConfig::default());
        let config = config.with_protection(Protection::Sealed(toy));
        let (client, server) = (pair.world.address(pair.client), pair.world.address(pair.server));
        let clock = *pair.world.clock();
        let endpoint = Endpoint::new(config, [9; 32], clock.now());
        Self {
            clock,
            endpoint,
            connections: BTreeMap::new(),
            client,
            server,
            seen: vec![],
            answers,
        }
    }

    fn inspect(&mut self, at: Duration, datagram: &Datagram, forged: &mut Vec<Forged>) {
        let now = self.clock.now() + (at - self.clock.offset());
        let mut bytes = datagram.bytes.to_vec();
        let id = peek_connection_id(&bytes).unwrap_or(ConnectionId(0));
        if PacketKind::of(bytes[0]) == Ok(PacketKind::Hello) && !self.seen.contains(&id) {
            self.seen.push(id);
        }
        let is_hello = self.seen.iter().position(|seen| *seen == id);
        if datagram.to != self.server || is_hello.is_none_or(|attempt| attempt >= self.answers) {
            return;
        }
        let handle = match self.endpoint.route(now, self.client, &bytes, &mut Vec::new()) {
            Routed::Accepted { handle, connection, .. } => {
                self.connections.insert(handle, connection);
                handle
            }
            Routed::Connection(handle) => handle,
            Routed::Reply | Routed::Dropped => return,
        };
        let Some(connection) = self.connections.get_mut(&handle) else { return };
        connection.handle_datagram(now, self.client, &mut bytes);
        let mut answer = Vec::new();
        while connection.poll_transmit(now, &mut answer, 1).is_some() {
            let (from, to, bytes) = (self.server, self.client, std::mem::take(&mut answer));
            forged.push(Forged { from, to, after: MS, bytes });
        }
    }
}

/// Opens with the true server, although the first `answers` attempts are answered sooner by another.
fn opens_despite(seed: u64, wire: WireConfig, answers: usize, silent: Duration) -> Duration {
    let toy = Toy::new(Flights::default());
    let down = WireConfig { blackouts: vec![Duration::ZERO..silent], ..wire.clone() };
    let scenario = Scenario { up: wire, down, ..Scenario::new(seed) };
    // The HELLO that leaves at once is seen, too.
    let late = WireConfig { blackouts: vec![Duration::ZERO..MS], ..scenario.up.clone() };
    let mut pair = Pair::new(&Scenario { up: late, ..scenario }.sealed(toy.clone(), 64));
    let mut impostor = Impostor::new(&pair, &toy, answers);
    let fooled = Rc::new(Cell::new(0));
    let counted = fooled.clone();
    pair.world.set_tap(move |at: Duration, datagram: &Datagram, forged: &mut Vec<Forged>| {
        impostor.inspect(at, datagram, forged);
        counted.set(counted.get() + forged.len());
        Verdict::Pass
    });
    let took = pair.run_to_connected(10 * SEC);
    let took = took.unwrap_or_else(|halt| {
        panic!(
            "seed {seed}, {answers}: {halt}, {:?}\n{}",
            pair.client_side().error(),
            pair.describe()
        )
    });
    assert!(fooled.get() > 0, "nobody was fooled");
    let spoiled = pair.client_side().connection().stats().handshakes_spoiled;
    assert_eq!(spoiled, answers as u64, "seed {seed}");
    took
}

// ARQ-HSK-6, ARQ-HSK-9
#[test]
fn who_answers_sooner_than_the_server_ends_no_attempt() {
    for seed in seeds(10) {
        for answers in [1, 3, 6] {
            let took =
                opens_despite(seed, WireConfig::with_delay(10 * MS), answers, Duration::ZERO);
            assert!(took < 2 * SEC, "seed {seed}, {answers}: {took:?}");
        }
    }
}

/// The server's first answers are lost, and another's arrive.
// ARQ-HSK-9
#[test]
fn nor_where_the_answers_of_the_server_are_late_or_lost() {
    for seed in seeds(10) {
        opens_despite(seed, WireConfig::with_delay(300 * MS), 1, Duration::ZERO);
        opens_despite(seed, WireConfig::with_delay(10 * MS), 1, 700 * MS);
        let lossy = WireConfig { loss: Loss::Random(0.25), ..WireConfig::with_delay(10 * MS) };
        opens_despite(seed, lossy, 1, Duration::ZERO);
    }
}

/// Under all eight ids that a client may have, at once, as soon as the first is seen.
fn all_ids(datagram: &Datagram, make: impl Fn(ConnectionId) -> Vec<u8>) -> Vec<Forged> {
    let Some(ConnectionId(id)) = peek_connection_id(&datagram.bytes) else { return Vec::new() };
    let of = |attempt| Forged {
        from: datagram.to,
        to: datagram.from,
        after: MS,
        bytes: make(ConnectionId(id ^ attempt)),
    };
    (0..8).map(of).collect()
}

fn refuse(dcid: ConnectionId) -> Vec<u8> {
    let (mut out, reason) = (Vec::new(), RefuseReason::Handshake { alert: 48 });
    Refuse { dcid, reason, versions: vec![] }.encode(&mut out);
    out
}

fn garbage(dcid: ConnectionId) -> Vec<u8> {
    let shape = Shape { message_bytes: 100, chunk_bytes: 100 };
    let (mut clear, mut out) = (Vec::new(), Vec::new());
    HandshakeFrame::Flight(FlightFrame { stage: 0, shape, index: 0, data: &[7; 100] })
        .encode(&mut clear);
    HandshakeHeader { dcid, scid: ConnectionId(7), attempt: 0, clear: &clear }.encode(&mut out);
    out
}

// ARQ-HSK-6
#[test]
fn one_packet_that_is_seen_does_not_spoil_all_attempts() {
    for (name, make) in [("REFUSE", refuse as fn(_) -> _), ("a flight", garbage)] {
        for seed in seeds(10) {
            let toy = Toy::new(Flights::default());
            let up = WireConfig {
                blackouts: vec![Duration::ZERO..MS],
                ..WireConfig::with_delay(10 * MS)
            };
            let mut pair = Pair::new(&Scenario { up, ..Scenario::new(seed) }.sealed(toy, 64));
            let mut bursts = 0;
            pair.world.set_tap(
                move |_: Duration, datagram: &Datagram, forged: &mut Vec<Forged>| {
                    let is_hello = PacketKind::of(datagram.bytes[0]) == Ok(PacketKind::Hello);
                    if is_hello && bursts < 5 {
                        bursts += 1;
                        forged.extend(all_ids(datagram, make));
                    }
                    Verdict::Pass
                },
            );
            let took = pair.run_to_connected(10 * SEC);
            let took = took.unwrap_or_else(|halt| panic!("{name}, seed {seed}: {halt}"));
            assert!(took < SEC, "{name}, seed {seed}: {took:?}");
            let spoiled = pair.client_side().connection().stats().handshakes_spoiled;
            assert!(spoiled > 0, "{name}, seed {seed}: nobody attacked");
        }
    }
}
