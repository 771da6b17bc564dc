// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The forgeries of the [table of deaths](crate::deaths) and more, against packets that are sealed: none ends, alters,
//! mutes, deafens or moves anything, though whoever forges has every packet in hand before it arrives.

mod bits;
mod newcomer;
mod racer;
mod replay;

use std::{cell::Cell, net::SocketAddr, rc::Rc, sync::Arc, time::Duration};

use arq_proto::{
    range_set::RangeSet,
    session::{Protection, Security, TAG_BYTES},
    wire::{
        ack::{Ack, MAX_ACK_BYTES},
        flight::{FlightFrame, HandshakeFrame, HandshakeHeader, SealedChallenge},
        frame::{Frame, Shape},
        packet::{peek_connection_id, Echo, Hello, PacketKind, Refuse, Reset},
        protection::{echo_of, SEALED_HEADER_BYTES},
        Version,
    },
    Connect, Connection, ConnectionId, EcnCounts, Endpoint, EndpointConfig, RefuseReason,
    Reliability, Routed, ValidConfig,
};
use arq_sim::{
    hostile::{self, Sighting},
    lane,
    toy::{Flights, Toy},
    Clock, ConnId, Datagram, Forged, Halt, Pair, Scenario, Verdict, WireConfig,
};
use fastrand::Rng;

use crate::{
    assert_no_amplification,
    common::{lossy, seeds, MS, SEC},
    stranger, talk,
};

/// What an attacker makes of a datagram that has just left, to be sent to its receiver or its sender.
struct Forger {
    rng: Rng,
    /// The newest id of each side that was seen, the server's first.
    ids: [Option<ConnectionId>; 2],
    sealed_before: Option<Vec<u8>>,
}

/// Another than those whom the rows name.
const STRANGER: Option<([u8; 4], u16)> = Some(([192, 0, 1, 9], 666));

type Forge = fn(&mut Forger, &Datagram, PacketKind) -> Vec<Forged>;

fn ahead(datagram: &Datagram, bytes: Vec<u8>) -> Vec<Forged> {
    vec![Forged { from: datagram.from, to: datagram.to, after: MS, bytes }]
}

fn back(datagram: &Datagram, bytes: Vec<u8>) -> Vec<Forged> {
    vec![Forged { from: datagram.to, to: datagram.from, after: MS, bytes }]
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

/// For each sealed packet three of one's own with these frames: in the clear, with the header of a sealed one and as much
/// of a tag as can be guessed, and among the clear frames of a handshake.
fn as_if_sealed(datagram: &Datagram, kind: PacketKind, frames: &[u8]) -> Vec<Forged> {
    let (true, Some(dcid)) = (kind == PacketKind::Sealed, peek_connection_id(&datagram.bytes))
    else {
        return Vec::new();
    };
    let clear = hostile::data_packet(Sighting { dcid, number: 1 }, 0, true, frames);
    // Span 0, with ACK_NOW.
    let false_tag = &datagram.bytes[datagram.bytes.len() - TAG_BYTES..];
    let sealed = [&datagram.bytes[..SEALED_HEADER_BYTES], &[1], frames, false_tag].concat();
    let (scid, attempt) = (dcid, 0);
    let header = HandshakeHeader { dcid, scid, attempt, clear: frames };
    let handshake = encoded(|out| header.encode(out));
    [clear, sealed, handshake].into_iter().flat_map(|bytes| ahead(datagram, bytes)).collect()
}

const TABLE: [(&str, Forge); 18] = [
    ("flipped bits of every kind of packet", |forger, datagram, _| {
        let mut bytes = datagram.bytes.to_vec();
        let bit = forger.rng.usize(..bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        ahead(datagram, bytes)
    }),
    ("cut short, or made longer", |forger, datagram, _| {
        ahead(datagram, hostile::mangled(&datagram.bytes, &mut forger.rng))
    }),
    ("sealed noise under the right id", |forger, datagram, kind| {
        let (true, Some(id)) = (kind == PacketKind::Sealed, peek_connection_id(&datagram.bytes))
        else {
            return Vec::new();
        };
        let mut bytes = vec![0; forger.rng.usize(20..1_200)];
        forger.rng.fill(&mut bytes);
        bytes[0] = 0xb0 | forger.rng.u8(..2);
        bytes[1..9].copy_from_slice(&id.0.to_be_bytes());
        ahead(datagram, bytes)
    }),
    ("another key phase", |_, datagram, kind| {
        if kind != PacketKind::Sealed {
            return Vec::new();
        }
        let mut bytes = datagram.bytes.to_vec();
        bytes[0] ^= 1;
        ahead(datagram, bytes)
    }),
    ("a number far ahead", |_, datagram, kind| {
        if kind != PacketKind::Sealed {
            return Vec::new();
        }
        let mut bytes = datagram.bytes.to_vec();
        bytes[9] ^= 0x40;
        ahead(datagram, bytes)
    }),
    ("the header of one and the rest of another", |forger, datagram, kind| {
        if kind != PacketKind::Sealed {
            return Vec::new();
        }
        let now = datagram.bytes.to_vec();
        let Some(before) = forger.sealed_before.replace(now.clone()) else { return Vec::new() };
        ahead(datagram, [&before[..13], &now[13..]].concat())
    }),
    ("CLOSE", |_, datagram, kind| {
        as_if_sealed(datagram, kind, &encoded(|out| Frame::Close { reason: "me" }.encode(out)))
    }),
    ("an acknowledgement of everything", |_, datagram, kind| {
        let mut numbers = RangeSet::default();
        (0..1 << 12).for_each(|number| _ = numbers.insert(number));
        let (ecn, most) = (EcnCounts::NONE, MAX_ACK_BYTES);
        let ack = encoded(|out| assert!(Ack::encode(&numbers, 0, ecn, most, out)));
        as_if_sealed(datagram, kind, &ack)
    }),
    ("credit without end", |_, datagram, kind| {
        let (lane, bytes) = (lane(5, Reliability::Reliable), (1 << 62) - 1);
        let credit = encoded(|out| {
            Frame::MaxData { bytes }.encode(out);
            Frame::MaxLaneData { lane, bytes }.encode(out);
        });
        as_if_sealed(datagram, kind, &credit)
    }),
    ("FORGET", |_, datagram, kind| {
        let lane = lane(2, Reliability::BestEffort);
        let forget = Frame::Forget { lane, below: (1 << 62) - 1 };
        as_if_sealed(datagram, kind, &encoded(|out| forget.encode(out)))
    }),
    ("PATH_CHALLENGE", |_, datagram, kind| {
        as_if_sealed(datagram, kind, &encoded(|out| Frame::PathChallenge(1).encode(out)))
    }),
    ("a violation", |_, datagram, kind| as_if_sealed(datagram, kind, &[0x3f])),
    ("RESET that echoes each packet, a thousand times", |_, datagram, kind| {
        let (true, Some(unknown)) =
            (kind == PacketKind::Sealed, peek_connection_id(&datagram.bytes))
        else {
            return Vec::new();
        };
        let echo = Echo::Tag(echo_of(&datagram.bytes).unwrap());
        let reset = encoded(|out| Reset { unknown, echo }.encode(out));
        (0..20).flat_map(|_| back(datagram, reset.clone())).collect()
    }),
    ("REFUSE", |forger, _, _| {
        let Some(dcid) = forger.ids[1] else { return Vec::new() };
        let reasons =
            [RefuseReason::Version, RefuseReason::Busy, RefuseReason::Handshake { alert: 48 }];
        let versions = vec![Version::Clear.number()];
        let reason = reasons[forger.rng.usize(..3)];
        let from_server = Forged {
            from: Pair::SERVER.parse().unwrap(),
            to: Pair::CLIENT.parse().unwrap(),
            after: MS,
            bytes: encoded(|out| Refuse { dcid, reason, versions }.encode(out)),
        };
        vec![from_server]
    }),
    ("CHALLENGE", |forger, datagram, kind| {
        let (PacketKind::Hello, Some(dcid)) = (kind, peek_connection_id(&datagram.bytes)) else {
            return Vec::new();
        };
        let attempt = Hello::decode(&datagram.bytes).unwrap().attempt;
        let cookie = vec![forger.rng.u8(..); 34];
        let challenge = SealedChallenge { dcid, attempt, cookie };
        back(datagram, encoded(|out| challenge.encode(None, out)))
    }),
    ("HANDSHAKE with frames of one's own", |forger, datagram, kind| {
        let (true, Some(dcid)) = (kind == PacketKind::Sealed, peek_connection_id(&datagram.bytes))
        else {
            return Vec::new();
        };
        let is_up = datagram.to == Pair::SERVER.parse().unwrap();
        let Some(scid) = forger.ids[usize::from(is_up)] else { return Vec::new() };
        let shape = Shape { message_bytes: 100, chunk_bytes: 100 };
        let data = [7; 100];
        let clear = encoded(|out| {
            let stage = forger.rng.u64(..4);
            HandshakeFrame::Flight(FlightFrame { stage, shape, index: 0, data: &data }).encode(out);
        });
        let header = HandshakeHeader { dcid, scid, attempt: 0, clear: &clear };
        let mut bytes = encoded(|out| header.encode(out));
        bytes.extend_from_slice(&[0; 60]);
        ahead(datagram, bytes)
    }),
    ("copies from elsewhere", |forger, datagram, _| {
        let bytes = datagram.bytes.to_vec();
        let from = stranger(forger.rng.u16(..4));
        vec![Forged { from, to: datagram.to, after: forger.rng.u32(..200) * MS, bytes }]
    }),
    ("copies", |forger, datagram, _| {
        let mut copies = ahead(datagram, datagram.bytes.to_vec());
        copies[0].after = forger.rng.u32(..500) * MS;
        copies
    }),
];

/// Sends what `forge` makes of each datagram, from where it says or from a stranger.
fn play(
    pair: &mut Pair,
    forge: impl Fn(&mut Forger, &Datagram, PacketKind) -> Vec<Forged> + 'static,
    stranger: Option<SocketAddr>,
    seed: u64,
) -> Rc<Cell<usize>> {
    let done = Rc::new(Cell::new(0));
    let counted = done.clone();
    let mut forger = Forger { rng: Rng::with_seed(seed), ids: [None; 2], sealed_before: None };
    let server = pair.world.address(pair.server);
    pair.world.set_tap(move |_: Duration, datagram: &Datagram, forged: &mut Vec<Forged>| {
        let Ok(kind) = PacketKind::of(datagram.bytes[0]) else { return Verdict::Pass };
        let id = peek_connection_id(&datagram.bytes);
        match (kind, datagram.to == server) {
            (PacketKind::Hello, true) => forger.ids[1] = id,
            (_, to_server) => forger.ids[usize::from(!to_server)] = id,
        }
        let mut sent = forge(&mut forger, datagram, kind);
        sent.iter_mut().for_each(|forged| forged.from = stranger.unwrap_or(forged.from));
        counted.set(counted.get() + sent.len());
        forged.extend(sent);
        Verdict::Pass
    });
    done
}

/// The association lives, delivers everything, and stays where it is. The server's side of it.
fn check(pair: &mut Pair, name: &str, seed: u64) -> ConnId {
    let at = format!("{name}, seed {seed}");
    let (client, server) = (pair.world.address(pair.client), pair.world.address(pair.server));
    // Strangers who repeat a HELLO are accepted, too, and get no further.
    let opened = |pair: &Pair| {
        let accepted = pair.world.accepted(pair.server).iter().copied();
        accepted.into_iter().find(|id| pair.world.conn(*id).connected_at.is_some())
    };
    let is_open = |pair: &Pair| pair.client_side().connected_at.is_some() && opened(pair).is_some();
    pair.run(10 * SEC, is_open).unwrap_or_else(|halt| panic!("{at}: {halt}"));
    let accepted = opened(pair).unwrap();
    let reliable = lane(5, Reliability::Reliable);
    let all = |pair: &Pair| {
        [(pair.conn, accepted), (accepted, pair.conn)].into_iter().all(|(one, other)| {
            let (one, other) = (&pair.world.conn(one).app, &pair.world.conn(other).app);
            one.has_sent_all() && other.inbox(reliable).messages == one.messages_accepted(reliable)
        })
    };
    pair.run(20 * SEC, all).unwrap_or_else(|halt| panic!("{at}: {halt}\n{}", pair.describe()));
    match pair.world.run_for(2 * SEC) {
        Ok(()) | Err(Halt::Limit(_)) => {}
        Err(halt) => panic!("{at}: {halt}"),
    }
    for (id, peer) in [(pair.conn, server), (accepted, client)] {
        let conn = pair.world.conn(id);
        assert_eq!(conn.error(), None, "{at}");
        assert_eq!(conn.connection().remote(), peer, "{at}: moved");
    }
    let best_effort = lane(2, Reliability::BestEffort);
    let sent = pair.client_side().app.messages_accepted(best_effort);
    let read = pair.world.conn(accepted).app.inbox(best_effort).messages;
    assert!(read >= sent * 3 / 4, "{at}: muted, {read} of {sent}");
    accepted
}

/// The first HELLOs are lost, so that the attacker sees all that count.
fn sealed(seed: u64) -> Scenario {
    let up = WireConfig { blackouts: vec![Duration::ZERO..40 * MS], ..lossy(0.05) };
    let scenario = Scenario::new(seed).wire(lossy(0.05)).both_send(talk());
    Scenario { up, ..scenario }.sealed(Toy::new(Flights::default()), 64)
}

// ARQ-SEC-4, ARQ-HSK-4
#[test]
fn observer() {
    let mut forged = 0;
    for ((name, forge), from) in TABLE.into_iter().flat_map(|row| [(row, None), (row, STRANGER)]) {
        for seed in seeds(2) {
            let mut pair = Pair::new(&sealed(seed));
            let attacks = play(&mut pair, forge, from.map(SocketAddr::from), seed);
            check(&mut pair, &format!("{name}, from {from:?}"), seed);
            assert_no_amplification(&pair);
            assert!(attacks.get() > 0, "{name}: nobody attacked");
            let accepted = pair.world.accepted(pair.server).iter();
            let of = |id: &ConnId| pair.world.conn(*id).connection().stats().packets_forged;
            forged += accepted.map(of).sum::<u64>();
        }
    }
    assert!(forged > 1_000, "they are counted: {forged}");
}

// ARQ-SEC-2
#[test]
fn what_is_sent_cannot_be_read_in_any_packet() {
    const MARKER: &[u8] = b"the marker that everybody would know";
    let (now, lane) = (Clock::new().now(), lane(5, Reliability::Reliable));
    let toy: Arc<dyn Security> = Arc::new(Toy::new(Flights::default()));
    let accept = EndpointConfig::new(ValidConfig::default());
    let accept = accept.with_protection(Protection::Sealed(toy.clone()));
    let mut server = Endpoint::new(accept, [1; 32], now);
    let mut endpoint = Endpoint::new(EndpointConfig::default(), [2; 32], now);
    let [near, far] = [Pair::CLIENT, Pair::SERVER].map(|address| address.parse().unwrap());
    let (_, mut client) =
        endpoint.connect(now, far, Connect::sealed(ValidConfig::default(), toy, "s"));
    let (mut accepted, mut wire): (Option<Box<Connection>>, _) = (None, Vec::new());
    for round in 0..100 {
        let now = now + round * MS;
        client.handle_timeout(now);
        let _ = client.send(now, lane, MARKER.repeat(20).into());
        wire.clear();
        while client.poll_transmit(now, &mut wire, 1).is_some() {
            assert!(!has_part_of(&wire, MARKER), "readable");
            match server.route(now, near, &wire, &mut Vec::new()) {
                Routed::Accepted { connection, .. } => accepted = Some(connection),
                routed => assert!(matches!(routed, Routed::Connection(_)), "{routed:?}"),
            }
            accepted.as_mut().unwrap().handle_datagram(now, near, &mut wire);
            wire.clear();
        }
        let server = accepted.as_mut().unwrap();
        server.handle_timeout(now);
        while server.poll_transmit(now, &mut wire, 1).is_some() {
            assert!(!has_part_of(&wire, MARKER), "readable");
            client.handle_datagram(now, far, &mut wire);
            wire.clear();
        }
    }
    let received = accepted.unwrap().recv(now + SEC, lane).unwrap();
    assert!(has_part_of(&received, MARKER));
}

fn has_part_of(bytes: &[u8], marker: &[u8]) -> bool {
    marker.chunks_exact(8).any(|part| bytes.windows(8).any(|window| window == part))
}

/// HELLOs from everywhere: the state is bounded, so are the answers, and an honest client opens.
// ARQ-ADM-1, ARQ-AMP-1
#[test]
fn a_flood_of_hellos_is_answered_within_bounds_and_lets_an_honest_client_in() {
    let toy = Toy::new(Flights::default());
    let now = Clock::new().now();
    let accept = EndpointConfig::new(ValidConfig::default())
        .with_protection(Protection::Sealed(Arc::new(toy.clone())));
    let mut server = Endpoint::new(accept, [1; 32], now);
    let mut client = Endpoint::new(EndpointConfig::default(), [2; 32], now);
    let (mut begun, mut received, mut sent) = (Vec::new(), 0, 0);
    for n in 0..20_000_u32 {
        let connect = Connect::sealed(ValidConfig::default(), Arc::new(toy.clone()), "server");
        let (handle, mut connection) = client.connect(now, Pair::SERVER.parse().unwrap(), connect);
        let (mut hello, mut reply) = (Vec::new(), Vec::new());
        connection.poll_transmit(now, &mut hello, 1).unwrap();
        client.remove(handle);
        received += hello.len();
        let from = (std::net::Ipv4Addr::from(n << 8), 7).into();
        match server.route(now + n * MS / 50, from, &hello, &mut reply) {
            Routed::Reply => sent += reply.len(),
            Routed::Accepted { connection, .. } => begun.push(connection),
            Routed::Dropped => {}
            other @ Routed::Connection(_) => panic!("{other:?}"),
        }
    }
    assert!(begun.len() <= 64, "{}", begun.len());
    assert!(10 * sent <= received, "{sent} bytes for {received}");
    // Strangers hold all seats: an honest client takes one round trip more.
    let (honest, later) = (Pair::CLIENT.parse().unwrap(), now + SEC);
    let connect = Connect::sealed(ValidConfig::default(), Arc::new(toy), "server");
    let (_, mut connection) = client.connect(later, Pair::SERVER.parse().unwrap(), connect);
    let (mut hello, mut reply) = (Vec::new(), Vec::new());
    connection.poll_transmit(later, &mut hello, 1).unwrap();
    assert!(matches!(server.route(later, honest, &hello, &mut reply), Routed::Reply));
    connection.handle_datagram(later, Pair::SERVER.parse().unwrap(), &mut reply);
    hello.clear();
    connection.poll_transmit(later, &mut hello, 1).unwrap();
    let routed = server.route(later, honest, &hello, &mut reply);
    assert!(matches!(routed, Routed::Accepted { .. }), "{routed:?}");
}
