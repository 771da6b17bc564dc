// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Every single bit of one packet of each kind and direction is flipped in turn.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    time::Duration,
};

use arq_proto::{
    wire::{
        packet::{peek_connection_id, Echo, PacketKind, Refuse, Reset},
        protection::echo_of,
    },
    Config, ConnectionId, RefuseReason,
};
use arq_sim::{
    hostile,
    toy::{Flights, Toy},
    ConnId, Datagram, Flow, Forged, HostId, Pair, Scenario, Verdict, WireConfig,
};

use crate::common::{MS, SEC};

/// Between two forgeries.
const INTERVAL: Duration = Duration::from_micros(10);

/// One of each kind (its first byte, without the key phase) and direction: is it to the server?
type Kept = BTreeMap<(u8, bool), Datagram>;

/// Keeps the last packet of the handshake of each kind, and the shortest one with frames.
fn keep(pair: &mut Pair) -> Rc<RefCell<Kept>> {
    let kept = Rc::new(RefCell::new(Kept::new()));
    let (keeper, server) = (kept.clone(), pair.world.address(pair.server));
    pair.world.set_tap(move |_: Duration, seen: &Datagram, _: &mut Vec<Forged>| {
        let is_sealed = PacketKind::of(seen.bytes[0]) == Ok(PacketKind::Sealed);
        let key = (seen.bytes[0] & !u8::from(is_sealed), seen.to == server);
        let mut kept = keeper.borrow_mut();
        let is_shortest = kept.get(&key).is_none_or(|old| seen.bytes.len() < old.bytes.len());
        if !is_sealed || is_shortest {
            kept.insert(key, seen.clone());
        }
        Verdict::Pass
    });
    kept
}

/// Answers that nobody has given: a server's REFUSE, and RESETs of both sides.
fn add_answers(kept: &mut Kept) {
    let mut answers = Vec::new();
    for ((_, is_up), sealed) in kept.iter().filter(|((kind, _), _)| *kind == 0xb0) {
        let unknown = peek_connection_id(&sealed.bytes).unwrap();
        let mut packets = vec![Vec::new()];
        let echo = Echo::Tag(echo_of(&sealed.bytes).unwrap());
        Reset { unknown, echo }.encode(&mut packets[0]);
        if *is_up {
            let down = &kept[&(0xb0, false)];
            let dcid: ConnectionId = peek_connection_id(&down.bytes).unwrap();
            let mut refuse = Vec::new();
            let versions = vec![1, 2];
            Refuse { dcid, reason: RefuseReason::Version, versions }.encode(&mut refuse);
            packets.push(refuse);
        }
        for bytes in packets {
            let (from, to) = (sealed.to, sealed.from);
            let answer = Datagram { from, to, bytes: bytes.into(), ecn: None };
            answers.push(((answer.bytes[0], !is_up), answer));
        }
    }
    kept.extend(answers);
}

/// What a host has dropped, or answered as one does who knows nothing.
fn noted(pair: &mut Pair, host: HostId, conns: &[ConnId]) -> (u64, u64) {
    let of_host = conns.iter().copied().chain(pair.world.accepted(pair.server).iter().copied());
    let of_host = of_host.filter(|id| id.host == host).collect::<std::collections::BTreeSet<_>>();
    let (mut dropped, mut forged) = (0, 0);
    for id in of_host {
        let stats = pair.world.conn(id).connection().stats();
        (dropped, forged) = (dropped + stats.datagrams_dropped, forged + stats.packets_forged);
    }
    let stats = pair.world.endpoint(host).stats();
    let answered = stats.challenges_sent + stats.refused + stats.resets_sent + stats.accepted;
    (dropped + stats.datagrams_dropped + answered, forged)
}

/// Sends all versions of a packet that differ from it in one bit, and checks who counts them. How many there were.
fn flip(pair: &mut Pair, original: &Datagram, conns: &[ConnId]) -> u64 {
    let Datagram { from, to, bytes, .. } = original;
    let kind = PacketKind::of(bytes[0]).unwrap();
    let at = format!("{kind:?} to {to}");
    let is_up = *to == pair.world.address(pair.server);
    let host = if is_up { pair.server } else { pair.client };
    let before = noted(pair, host, conns);
    let mut count = 0;
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let checked = hostile::rechecked(&flipped);
        for bytes in std::iter::once(flipped).chain(checked) {
            // The tag itself was flipped, and made right.
            if bytes == original.bytes {
                continue;
            }
            count += 1;
            let after = INTERVAL * count;
            pair.world.forge(Forged { from: *from, to: *to, after, bytes });
        }
    }
    pair.world.run_for(INTERVAL * count + MS).unwrap_or_else(|halt| panic!("{at}: {halt}"));
    let after = noted(pair, host, conns);
    let (dropped, forged) = (after.0 - before.0, after.1 - before.1);
    println!(
        "{at}, {} bytes: {count} forged, {dropped} noted, {forged} opened in vain",
        bytes.len()
    );
    match kind {
        // To an open server it is the repeated flight of a client that waits for a sign, and no fault: it reads no more of it.
        PacketKind::Handshake if is_up => assert!(dropped > 0 && dropped < count.into(), "{at}"),
        _ => assert_eq!(dropped, count.into(), "{at}: each is counted once"),
    }
    let expected = match kind {
        // All but those in kind and id, and the key phase.
        PacketKind::Sealed => bytes.len() as u64 * 8 - 9 * 8 + 1,
        // With one bit of the kind it looks like a sealed one.
        PacketKind::Challenge => 1,
        _ => 0,
    };
    assert_eq!(forged, expected, "{at}");
    count.into()
}

/// The first HELLOs are lost, so that all kinds are seen. Short packets have fewer bits.
fn short_packets(max_unvalidated_handshakes: usize, messages: u64) -> Scenario {
    let config = Config { mtu: Some(576), ..Config::default() };
    let up = WireConfig { blackouts: vec![Duration::ZERO..MS], ..WireConfig::with_delay(10 * MS) };
    let scenario = Scenario { up, max_unvalidated_handshakes, ..Scenario::new(1) };
    let talk = [Flow::reliable(5, 500, messages).every(10 * MS)];
    scenario.config(config).both_send(talk).sealed(Toy::new(Flights::default()), 64)
}

// ARQ-ERR-1, ARQ-SEC-2, ARQ-SEC-4, ARQ-PKT-1
#[test]
fn every_bit_of_every_kind() {
    for max_unvalidated_handshakes in [0, 64] {
        let mut pair = Pair::new(&short_packets(max_unvalidated_handshakes, 250));
        let kept = keep(&mut pair);
        pair.run_to_connected(SEC).unwrap();
        pair.world.run_for(100 * MS).unwrap();
        let mut kept = kept.borrow().clone();
        add_answers(&mut kept);
        let conns = [pair.conn, pair.accepted().unwrap()];
        let kinds: Vec<_> = kept.keys().map(|(kind, _)| *kind).collect();
        match max_unvalidated_handshakes {
            0 => assert_eq!(kinds, [0xa0, 0xa1, 0xa2, 0xa3, 0xa3, 0xa4, 0xa4, 0xb0, 0xb0]),
            _ => assert_eq!(kinds, [0xa0, 0xa2, 0xa3, 0xa3, 0xa4, 0xa4, 0xb0, 0xb0]),
        }
        let flips: u64 = kept.values().map(|original| flip(&mut pair, original, &conns)).sum();
        println!("{flips} in {:?}", pair.world.now());
        assert!(!pair.all_delivered(), "they talk all the time");
        pair.run(20 * SEC, |pair| {
            let read = |id: ConnId| pair.world.conn(id).app.messages_read();
            conns.into_iter().all(|id| read(id) == 250)
        })
        .unwrap();
        for id in conns {
            assert_eq!(pair.world.conn(id).error(), None);
        }
    }
}

/// How it goes if the first packet of a kind is overtaken by a copy with one other bit, whose checksum is made right if that
/// is asked for. `None`: the packet has no such bit.
fn opens_despite(kind: PacketKind, is_up: bool, bit: usize, is_checked: bool) -> Option<String> {
    let budget = if kind == PacketKind::Challenge { 0 } else { 64 };
    let mut pair = Pair::new(&short_packets(budget, 1));
    let server = pair.world.address(pair.server);
    let bits = Rc::new(Cell::new(None));
    let seen = bits.clone();
    pair.world.set_tap(move |_: Duration, datagram: &Datagram, forged: &mut Vec<Forged>| {
        let Datagram { from, to, bytes, .. } = datagram;
        let is_it = PacketKind::of(bytes[0]) == Ok(kind) && (*to == server) == is_up;
        if !is_it || seen.get().is_some() {
            return Verdict::Pass;
        }
        seen.set(Some(bytes.len() * 8));
        if bit < bytes.len() * 8 {
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let checked = hostile::rechecked(&flipped).filter(|_| is_checked);
            let bytes = checked.unwrap_or(flipped);
            forged.push(Forged { from: *from, to: *to, after: MS, bytes });
        }
        Verdict::Pass
    });
    let delivered = |pair: &Pair| {
        let accepted = pair.world.accepted(pair.server).iter();
        let read = accepted.map(|id| pair.world.conn(*id).app.messages_read()).max();
        pair.client_side().app.messages_read() == 1 && read == Some(1)
    };
    let at = format!("{kind:?}, up {is_up}, bit {bit}, right tag {is_checked}");
    let outcome = match pair.run(SEC, delivered) {
        Ok(_) if pair.client_side().error().is_none() => String::new(),
        other => format!("{at}: {other:?}, {:?}", pair.client_side().error()),
    };
    bits.get().is_some_and(|bits| bit < bits).then_some(outcome)
}

/// Whoever alters what cannot be sealed yet costs an attempt, at most.
// ARQ-HSK-6, ARQ-SEC-4
#[test]
fn every_bit_of_the_handshake_is_flipped_before_it_arrives() {
    let kinds = [
        (PacketKind::Hello, true),
        (PacketKind::Challenge, false),
        (PacketKind::Handshake, false),
        (PacketKind::Handshake, true),
    ];
    let mut count = 0;
    for (kind, is_up) in kinds {
        for is_checked in [false, true] {
            let outcomes = (0..).map_while(|bit| opens_despite(kind, is_up, bit, is_checked));
            let outcomes: Vec<_> = outcomes.collect();
            println!("{kind:?}, up {is_up}: {} bits", outcomes.len());
            let failed = outcomes.iter().zip(0..).filter(|(outcome, _)| !outcome.is_empty());
            let failed: Vec<(_, usize)> = failed.collect();
            assert!(failed.is_empty(), "{failed:#?}");
            count += outcomes.len();
        }
    }
    assert!(count > 10_000, "{count}");
}
