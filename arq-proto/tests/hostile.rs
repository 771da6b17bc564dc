// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What can somebody do who sees, sends and forges packets, short of knowing a key? Count and drop,
//! or end with a named reason; never panic, grow, or serve as an amplifier.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::{
    cell::RefCell,
    net::SocketAddr,
    rc::Rc,
    time::{Duration, Instant},
};

use arq_proto::{
    wire::{
        cursor::put_varint,
        frame::{ChunkFrame, Frame, RepairFrame, Shape},
        packet::{Hello, Refuse, Reset},
        VERSION,
    },
    Config, ConfigBuilder, ConnectionError, ConnectionHandle, ConnectionId, Endpoint,
    EndpointConfig, FecConfig, LaneId, RefuseReason, Routed, Scheme, Violation,
};
use arq_sim::{
    harness::{FrameOp, Victim},
    hostile, Clock, Datagram, Flow, Forged, Pair, Scenario, Verdict,
};
use bytes::Bytes;
use common::{lossy, seeds, MS, SEC};
use fastrand::Rng;

const AMPLIFICATION: u64 = 3;

fn stranger(n: u16) -> SocketAddr {
    ([192, 0, (n >> 8) as u8, n as u8], 666).into()
}

fn talk() -> [Flow; 2] {
    [Flow::reliable(5, 2_000, 100).every(10 * MS), Flow::best_effort(2, 500, 100).every(10 * MS)]
}

/// Nobody but the client got more than three times what it sent.
fn assert_no_amplification(pair: &Pair) {
    let client = pair.world.address(pair.client);
    for (address, exchange) in pair.world.exchanges(pair.server) {
        let bound = AMPLIFICATION * exchange.received_bytes;
        assert!(address == client || exchange.sent_bytes <= bound, "{address}: {exchange:?}");
    }
}

/// Adds noise, replays and mangled copies to everything on the wire, from the true addresses.
fn meddle(pair: &mut Pair, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    pair.world.set_tap(move |_: Duration, seen: &Datagram, forged: &mut Vec<Forged>| {
        for _ in 0..rng.usize(0..4) {
            let bytes = if rng.u8(..4) == 0 {
                hostile::noise(&mut rng)
            } else {
                hostile::mangled(&seen.bytes, &mut rng)
            };
            let after = (3 * SEC).mul_f64(rng.f64().powi(4));
            forged.push(Forged { from: seen.from, to: seen.to, after, bytes });
        }
        Verdict::Pass
    });
}

// ARQ-ERR-1, ARQ-PKT-1, ARQ-PKT-2, ARQ-NUM-4
#[test]
fn noise_replays_and_damage_are_counted_and_dropped() {
    for seed in seeds(100) {
        let mut pair = Pair::new(&Scenario::new(seed).wire(lossy(0.05)).both_send(talk()));
        meddle(&mut pair, seed);
        pair.run_to_delivery(60 * SEC).unwrap_or_else(|halt| {
            panic!("seed {seed}: {halt}\n{}{}", pair.describe(), pair.world.log().ladder(30))
        });
        pair.world.run_for(5 * SEC).unwrap();
        for conn in [pair.client_side(), pair.server_side()] {
            assert_eq!(conn.closed, None, "seed {seed}");
            assert!(conn.connection().stats().datagrams_dropped > 50, "seed {seed}");
        }
        assert_no_amplification(&pair);
    }
}

// ARQ-AMP-1
#[test]
fn copies_from_strangers_are_not_amplified() {
    for seed in seeds(50) {
        let mut pair = Pair::new(&Scenario::new(seed).wire(lossy(0.05)).both_send(talk()));
        let client = pair.world.address(pair.client);
        let mut rng = Rng::with_seed(seed);
        pair.world.set_tap(move |_: Duration, seen: &Datagram, forged: &mut Vec<Forged>| {
            if seen.from == client {
                let bytes = hostile::mangled(&seen.bytes, &mut rng);
                let after = (100 * MS).mul_f64(rng.f64());
                forged.push(Forged { from: stranger(rng.u16(..)), to: seen.to, after, bytes });
            }
            Verdict::Pass
        });
        pair.run_to_delivery(60 * SEC).unwrap_or_else(|halt| {
            panic!("seed {seed}: {halt}\n{}{}", pair.describe(), pair.world.log().ladder(30))
        });
        assert_no_amplification(&pair);
    }
}

fn hello(rng: &mut Rng) -> Vec<u8> {
    let mut out = Vec::new();
    Hello {
        scid: ConnectionId(rng.u64(..)),
        instance: rng.u64(..),
        attempt: 0,
        versions: vec![VERSION],
    }
    .encode(&mut out);
    out
}

// ARQ-AMP-1, ARQ-HS-3
#[test]
fn a_flood_of_hellos_leaves_no_state_and_is_not_amplified() {
    let mut pair = Pair::new(&Scenario::new(1).both_send(talk()));
    let mut rng = Rng::with_seed(1);
    let to = pair.world.address(pair.server);
    for n in 0..20_000_u16 {
        let after = Duration::from_micros(u64::from(n) * 50);
        pair.world.forge(Forged { from: stranger(n), to, after, bytes: hello(&mut rng) });
    }
    pair.run_to_delivery(10 * SEC).unwrap();
    let server = pair.server;
    let stats = pair.world.endpoint(server).stats();
    assert_eq!(stats.challenges_sent, 20_001);
    assert_eq!(stats.accepted, 1);
    assert_no_amplification(&pair);
}

// ARQ-RST-1
#[test]
fn data_for_nobody_is_answered_by_few_resets() {
    let mut pair = Pair::new(&Scenario::new(2).both_send(talk()));
    let mut rng = Rng::with_seed(2);
    let to = pair.world.address(pair.server);
    for n in 0..10_000_u16 {
        let at = hostile::Sighting { dcid: ConnectionId(rng.u64(..)), number: rng.u32(..) };
        let bytes = hostile::data_packet(at, 0, true, &[1]);
        let after = Duration::from_micros(u64::from(n) * 100);
        pair.world.forge(Forged { from: stranger(n), to, after, bytes });
    }
    pair.run_to_delivery(10 * SEC).unwrap();
    let server = pair.server;
    let stats = pair.world.endpoint(server).stats();
    assert!((1..=300).contains(&stats.resets_sent), "{stats:?}");
    assert_no_amplification(&pair);
}

// ARQ-CID-2, ARQ-RST-2
#[test]
fn guesses_from_off_the_path_end_nothing() {
    let mut pair = Pair::new(&Scenario::new(3).both_send(talk()));
    pair.run_to_connected(SEC).unwrap();
    let mut rng = Rng::with_seed(3);
    let (client, server) = (pair.world.address(pair.client), pair.world.address(pair.server));
    for n in 0..5_000_u32 {
        let id = ConnectionId(rng.u64(..));
        let mut bytes = Vec::new();
        match n % 3 {
            0 => Reset { unknown: id, number: n / 3 }.encode(&mut bytes),
            1 => Refuse { dcid: id, reason: RefuseReason::Busy }.encode(&mut bytes),
            _ => bytes = hello(&mut rng),
        }
        let after = Duration::from_micros(u64::from(n) * 100);
        let (from, to) = if rng.bool() { (client, server) } else { (server, client) };
        pair.world.forge(Forged { from, to, after, bytes });
    }
    pair.run_to_delivery(10 * SEC).unwrap();
    assert_eq!(pair.client_side().closed, None);
    assert_eq!(pair.server_side().closed, None);
}

/// Datagrams of a host, as somebody on the path records them.
fn record(pair: &mut Pair) -> Rc<RefCell<Vec<Datagram>>> {
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

/// A connection that the server accepts, and the packet with the cookie that did it.
fn open(server: &mut Endpoint, now: Instant) -> (ConnectionHandle, Vec<u8>) {
    let (from, to) = (stranger(1), stranger(2));
    let mut endpoint = Endpoint::new(EndpointConfig::default(), [2; 32], now);
    let (_, mut client) = endpoint.connect(now, to, Config::default());
    let (mut wire, mut reply) = (Vec::new(), Vec::new());
    client.poll_transmit(now, &mut wire, 1).unwrap();
    assert!(matches!(server.route(now, from, &wire, &mut reply), Routed::Reply));
    client.handle_datagram(now, to, &reply);
    wire.clear();
    client.poll_transmit(now, &mut wire, 1).unwrap();
    match server.route(now, from, &wire, &mut reply) {
        Routed::Accepted { handle, .. } => (handle, wire),
        other => panic!("{other:?}"),
    }
}

// ARQ-CID-3
#[test]
fn a_recorded_packet_brings_no_connection_back_after_thousands_have_ended() {
    let mut now = Clock::new().now();
    let accept = EndpointConfig { accept: Some(Config::default()), ..EndpointConfig::default() };
    let mut server = Endpoint::new(accept, [1; 32], now);
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

/// What the peer's frames do to a connection.
fn ends_with(frames: &[u8]) -> Option<ConnectionError> {
    let mut victim = Victim::new(Config::default());
    victim.frames(frames);
    victim.connection().close_reason().cloned()
}

fn violation(frames: &[u8]) -> Violation {
    match ends_with(frames) {
        Some(ConnectionError::Violation(violation)) => violation,
        other => panic!("{other:?}"),
    }
}

fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    frame.encode(&mut out);
    out
}

fn chunk(seq: u64, message_bytes: usize, chunk_bytes: usize, index: usize) -> Vec<u8> {
    let len = chunk_bytes.min(message_bytes - index * chunk_bytes);
    let data = &vec![0; len];
    let lane = LaneId::all().next().unwrap();
    encoded(&Frame::Chunk(ChunkFrame { lane, seq, message_bytes, chunk_bytes, index, data }))
}

// ARQ-ACK-6
#[test]
fn acknowledging_what_was_never_sent_ends_the_connection() {
    let mut victim = Victim::new(Config::default());
    let mut frames = Vec::new();
    let beyond = FrameOp::AckRanges { below: -1, delay: 0, ranges: Vec::new() };
    beyond.encode(victim.newest(), &mut frames);
    victim.frames(&frames);
    assert_eq!(
        victim.connection().close_reason(),
        Some(&ConnectionError::Violation(Violation::AckOfUnsent))
    );
}

/// A peer that sees what is sent claims that everything up to the newest packet has arrived, at once each time, so that
/// nothing is ever open. It cannot know which numbers are left out.
// ARQ-ACK-6, ARQ-NUM-3
#[test]
fn acknowledging_everything_unseen_ends_the_connection() {
    // A packet for each message.
    let config = ConfigBuilder { fec: FecConfig::Off, ..Config::builder() };
    let mut victim = Victim::new(config.build().unwrap());
    let lane = LaneId::all().next().unwrap();
    let mut messages = 0;
    while victim.connection().close_reason().is_none() && messages < 200 {
        let message = Bytes::from_static(b"x");
        victim.with_connection(|now, conn| conn.send(now, lane, message)).unwrap();
        messages += 1;
        victim.sleep(MS);
        let newest = victim.newest();
        // Ranges, largest, delay, no further ones, all of the numbers below.
        let mut everything = vec![0x02];
        [newest, 0, 0, newest].into_iter().for_each(|value| put_varint(&mut everything, value));
        victim.frames(&everything);
    }
    assert_eq!(
        victim.connection().close_reason(),
        Some(&ConnectionError::Violation(Violation::AckOfUnsent))
    );
    assert!(messages > 60, "not before the first number was left out: {messages}");
}

// ARQ-FRM-1, ARQ-MSG-4, ARQ-MSG-5, ARQ-ERR-2
#[test]
fn absurd_values_end_the_connection_with_a_name() {
    // A message far beyond the window of the lane.
    assert_eq!(violation(&chunk(1 << 40, 1, 1, 0)), Violation::MessageWindow);
    // Two chunks of one message that disagree.
    let mut frames = chunk(0, 10_000, 1_000, 0);
    frames.extend(chunk(0, 10_001, 1_000, 1));
    assert_eq!(violation(&frames), Violation::MessageShape);
    // Lengths that cannot be: of a message, of a chunk, of a reason, of an acknowledgement.
    for frames in [
        &b"\x10\x00\x80\xff\xff\xff"[..],
        b"\x20\x00\x44\x00\x40\x01\x00",
        b"\x04\x7f\xff",
        b"\x02\x05\x00\x3f\x00",
        b"\xff",
    ] {
        assert!(matches!(violation(frames), Violation::Frame(_)), "{frames:02x?}");
    }
}

// ARQ-FLW-2
#[test]
fn credit_is_enforced() {
    let config = ConfigBuilder { lane_window_bytes: 1 << 17, ..Config::builder() };
    let mut victim = Victim::new(config.build().unwrap());
    for seq in 0..1_000 {
        // One chunk of each message: the rest is reserved and never comes.
        victim.frames(&chunk(seq, 60_000, 1_000, 1));
    }
    assert_eq!(
        victim.connection().close_reason(),
        Some(&ConnectionError::Violation(Violation::Credit))
    );
}

// ARQ-FLW-3, ARQ-BEF-3, ARQ-BEF-5
#[test]
fn well_formed_nonsense_ends_nothing() {
    let mut frames = Vec::new();
    for frame in [
        FrameOp::Padding(200),
        FrameOp::PathResponse(77),
        FrameOp::PathChallenge(78),
        FrameOp::MaxData(0),
        FrameOp::MaxData(u64::MAX),
        FrameOp::MaxLaneData(3, 0),
        FrameOp::Forget(3, u64::MAX),
        FrameOp::Forget(2, u64::MAX),
        FrameOp::FarChunk(3, u64::MAX),
    ] {
        frame.encode(0, &mut frames);
    }
    assert_eq!(ends_with(&frames), None);
}

fn repair(message_bytes: usize, chunk_bytes: usize, index: usize) -> Vec<u8> {
    let data = &vec![0; chunk_bytes];
    let lane = LaneId::all().next().unwrap();
    let shape = Shape { message_bytes, chunk_bytes };
    encoded(&Frame::Repair(RepairFrame { lane, seq: 0, shape, index, data }))
}

// ARQ-FEC-3, ARQ-FEC-4, ARQ-FEC-5
#[test]
fn repair_symbols_that_must_not_be_end_the_connection() {
    let is_frame = |frames: &[u8]| matches!(violation(frames), Violation::Frame(_));
    // No such symbol, one chunk, chunks too unequal, cut short.
    assert!(is_frame(&repair(2_000, 1_000, 128)));
    assert!(is_frame(&repair(1_000, 1_000, 0)));
    assert!(is_frame(&repair(1_400, 1_000, 0)));
    assert!(is_frame(&repair(2_000, 1_000, 0)[..900]));
    // Of another shape than the chunk before it, and the other way round.
    let mut frames = chunk(0, 2_000, 1_000, 0);
    frames.extend(repair(1_999, 1_000, 0));
    assert_eq!(violation(&frames), Violation::MessageShape);
    let mut frames = repair(1_999, 1_000, 0);
    frames.extend(chunk(0, 2_000, 1_000, 0));
    assert_eq!(violation(&frames), Violation::MessageShape);

    // Sent although this side has no use for them.
    let config = Config::builder().scheme(Scheme::GoBackN).build().unwrap();
    let mut victim = Victim::new(config);
    victim.frames(&repair(2_000, 1_000, 0));
    assert!(matches!(
        victim.connection().close_reason(),
        Some(ConnectionError::Violation(Violation::Frame(_)))
    ));
}

// ARQ-FEC-2, ARQ-FEC-5
#[test]
fn repair_symbols_of_nonsense_make_one_message_and_nothing_else() {
    let mut victim = Victim::new(Config::default());
    for index in 0..128 {
        victim.frames(&repair(1_500, 512, index));
    }
    let lane = LaneId::all().next().unwrap();
    let message = victim.with_connection(|now, conn| conn.recv(now, lane)).unwrap();
    assert_eq!(message.len(), 1_500);
    assert!(victim.with_connection(|now, conn| conn.recv(now, lane)).is_none());
    let stats = victim.connection().stats();
    assert_eq!((stats.chunks_recovered, stats.repair_symbols_received), (3, 128));
    assert_eq!((stats.chunks_duplicate, stats.receive_buffer_bytes), (125, 0));
    assert_eq!(victim.connection().close_reason(), None);
}
