// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does somebody on the path see, and what do endpoints make of packets that do not fit?

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};

use arq_proto::{
    wire::{
        cursor::Reader,
        packet::{Challenge, Cookie, DataHeader, Hello, Refuse},
    },
    ConnectionError, ConnectionId, Endpoint, EndpointConfig, RefuseReason, Routed, ValidConfig,
    VERSION,
};
use arq_sim::{
    harness::Victim,
    hostile::{self, Sighting},
    Clock, Datagram, Flow, Forged, Pair, Scenario, Verdict, WireConfig,
};

use crate::common::{lossy, seeds, MS, SEC};

fn address(n: u8) -> SocketAddr {
    ([10, 0, 0, n], 5_000).into()
}

/// Data packets on the wire: who sent them, and what they show.
fn watch(pair: &mut Pair) -> Rc<RefCell<Vec<(SocketAddr, Sighting)>>> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let notes = seen.clone();
    pair.world.set_tap(move |_: Duration, datagram: &Datagram, _: &mut Vec<Forged>| {
        notes
            .borrow_mut()
            .extend(hostile::sight(&datagram.bytes).map(|sighting| (datagram.from, sighting)));
        Verdict::Pass
    });
    seen
}

// ARQ-NUM-1, ARQ-NUM-3
#[test]
fn packet_numbers_only_grow_and_now_and_then_one_is_skipped() {
    for seed in seeds(20) {
        let flow = Flow::reliable(5, 5_000, 400).every(5 * MS);
        let mut pair = Pair::new(&Scenario::new(seed).wire(lossy(0.10)).client_sends([flow]));
        let seen = watch(&mut pair);
        let client = pair.world.address(pair.client);
        pair.run_to_delivery(60 * SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
        let seen = seen.borrow();
        let numbers: Vec<_> =
            seen.iter().filter(|(from, _)| *from == client).map(|(_, seen)| seen.number).collect();
        assert_eq!(numbers[0], 0, "seed {seed}");
        assert!(numbers.is_sorted_by(|a, b| a < b), "seed {seed}: one was used twice");
        let skipped: Vec<_> = numbers.windows(2).flat_map(|pair| pair[0] + 1..pair[1]).collect();
        assert!(skipped.len() > 3, "seed {seed}: {skipped:?}");
        let mut least = 64;
        for (before, number) in std::iter::once(0).chain(skipped.iter().copied()).zip(&skipped) {
            assert!((least..2 * least).contains(&(number - before)), "seed {seed}: {skipped:?}");
            least *= 2;
        }
    }
}

// ARQ-CID-1
#[test]
fn every_side_of_every_association_has_an_id_of_its_own_for_all_its_life() {
    let mut ids = BTreeSet::new();
    for seed in 0..20 {
        let talk = [Flow::reliable(5, 2_000, 50).every(10 * MS)];
        let mut pair = Pair::new(&Scenario::new(seed).both_send(talk));
        let seen = watch(&mut pair);
        pair.run_to_delivery(SEC).unwrap();
        let own: BTreeSet<_> =
            seen.borrow().iter().map(|(from, seen)| (*from, seen.dcid.0)).collect();
        assert_eq!(own.len(), 2, "one for each side");
        ids.extend(own.into_iter().map(|(_, id)| id));
    }
    assert_eq!(ids.len(), 40);
}

/// What a listener answers to these versions.
fn answer(versions: &[u32]) -> Vec<u8> {
    let now = Clock::new().now();
    let accept = EndpointConfig::new(ValidConfig::default());
    let mut listener = Endpoint::new(accept, [1; 32], now);
    let (mut hello, mut reply) = (Vec::new(), Vec::new());
    let versions = versions.to_vec();
    let scid = ConnectionId(7);
    Hello { scid, instance: 1, attempt: 3, versions, bytes: 1_200 }.encode(&mut hello);
    assert!(matches!(listener.route(now, address(1), &hello, &mut reply), Routed::Reply));
    reply
}

// ARQ-VER-2, ARQ-HS-4
#[test]
fn a_listener_chooses_a_version_that_it_speaks_and_says_which_attempt_it_answers() {
    for versions in [&[VERSION][..], &[VERSION + 1, VERSION], &[VERSION, VERSION + 1]] {
        let challenge = Challenge::decode(&answer(versions)).unwrap();
        assert_eq!((challenge.version, challenge.attempt), (VERSION, 3));
        assert_eq!(challenge.dcid, ConnectionId(7));
    }
    let refuse = Refuse::decode(&answer(&[VERSION + 1])).unwrap();
    assert_eq!((refuse.dcid, refuse.reason), (ConnectionId(7), RefuseReason::Version));
}

/// The same packet with a cookie block that no server would accept.
fn with_broken_cookie(datagram: &[u8]) -> Option<Vec<u8>> {
    let header = DataHeader::decode(&mut Reader::new(datagram)).ok()?;
    let Cookie { cookie, params, .. } = header.cookie?;
    let mut packet = datagram.to_vec();
    for part in [cookie, params] {
        let start = part.as_ptr() as usize - datagram.as_ptr() as usize;
        packet[start..start + part.len()].fill(0xff);
    }
    Some(hostile::resealed(&packet))
}

// ARQ-PKT-3
#[test]
fn a_server_that_knows_its_client_does_not_read_the_cookie_again() {
    let flow = Flow::reliable(5, 100, 20).every(5 * MS);
    let mut pair = Pair::new(&Scenario::new(1).client_sends([flow]));
    let (client, mut brought) = (pair.world.address(pair.client), 0);
    let broken = Rc::new(Cell::new(0));
    let count = broken.clone();
    pair.world.set_tap(move |_: Duration, seen: &Datagram, _: &mut Vec<Forged>| {
        if seen.from != client {
            // The server's answers are lost, so the client goes on showing its cookie.
            let is_data = hostile::sight(&seen.bytes).is_some();
            return if is_data { Verdict::Withhold } else { Verdict::Pass };
        }
        let Some(packet) = with_broken_cookie(&seen.bytes) else { return Verdict::Pass };
        brought += 1;
        if brought == 1 {
            return Verdict::Pass;
        }
        count.set(count.get() + 1);
        Verdict::Replace(packet)
    });
    pair.run_to_delivery(SEC).unwrap();
    assert!(broken.get() >= 20, "{}", broken.get());
}

/// A client that has sent its HELLO, and what that said.
fn client() -> (arq_proto::Connection, Hello) {
    let now = Clock::new().now();
    let mut endpoint = Endpoint::new(EndpointConfig::default(), [2; 32], now);
    let (_, mut client) = endpoint.connect(now, address(2), ValidConfig::default());
    let mut wire = Vec::new();
    client.poll_transmit(now, &mut wire, 1).unwrap();
    (client, Hello::decode(&wire).unwrap())
}

// ARQ-HS-10, ARQ-VER-2
#[test]
fn a_client_whose_hello_is_not_answered_takes_no_data_and_no_version_that_it_did_not_offer() {
    let now = Clock::new().now();
    let (mut client, hello) = client();
    let at = Sighting { dcid: hello.scid, number: 0 };
    client.handle_datagram(now, address(2), &mut hostile::data_packet(at, 0, true, &[1]));
    let challenge = Challenge::decode(&answer(&[VERSION])).unwrap();
    for version in [VERSION + 1, VERSION] {
        assert!(!client.is_established());
        let mut bytes = Vec::new();
        let challenge = Challenge { dcid: hello.scid, version, ..challenge.clone() };
        challenge.encode(&mut bytes);
        client.handle_datagram(now, address(2), &mut bytes);
    }
    assert!(client.is_established(), "the one that it offered");
    let stats = client.stats();
    assert_eq!((stats.datagrams_dropped, stats.packets_received), (2, 0));
}

// ARQ-SEC-3
#[test]
fn damaged_packets_do_not_move_the_window_in_which_numbers_are_expanded() {
    let mut victim = Victim::new(ValidConfig::default());
    let received = victim.connection().stats().packets_received;
    for _ in 0..200 {
        // Far ahead, and damaged: if believed, the next packets would be taken for others.
        let at = victim.next_packet(0);
        let ahead = Sighting { number: at.number.wrapping_add(1 << 30), ..at };
        let mut damaged = hostile::data_packet(ahead, 0, true, &[1]);
        *damaged.last_mut().unwrap() ^= 1;
        let peer = victim.peer();
        victim.datagram(peer, &damaged);
        victim.datagram(peer, &hostile::data_packet(at, 0, true, &[1]));
    }
    assert_eq!(victim.connection().stats().packets_received, received + 200);
}

/// A copy of the client's next message arrives from a stranger. Returns the lengths of what the stranger is sent within
/// 10 s; `originals`: what the client sends arrives as well.
fn sent_to_a_copier(pair: &mut Pair, stranger: SocketAddr, originals: bool) -> Vec<usize> {
    let client = pair.world.address(pair.client);
    let sent = Rc::new(RefCell::new(Vec::new()));
    let (noted, mut copied) = (sent.clone(), false);
    pair.world.set_tap(move |_: Duration, seen: &Datagram, forged: &mut Vec<Forged>| {
        if seen.to == stranger {
            noted.borrow_mut().push(seen.bytes.len());
        }
        if seen.from != client {
            return Verdict::Pass;
        }
        if seen.bytes.len() > 500 && !std::mem::replace(&mut copied, true) {
            // It overtakes the original, which therefore counts as a copy.
            let bytes = seen.bytes.to_vec();
            forged.push(Forged { from: stranger, to: seen.to, after: MS, bytes });
        }
        if originals || !copied {
            Verdict::Pass
        } else {
            Verdict::Withhold
        }
    });
    pair.world.run_for(10 * SEC).unwrap();
    sent.take()
}

// ARQ-PTH-2
#[test]
fn an_address_that_does_not_answer_is_asked_six_times() {
    let mut pair =
        Pair::new(&Scenario::new(1).client_sends([Flow::reliable(5, 500, 5).every(SEC)]));
    pair.run_to_connected(SEC).unwrap();
    let sent = sent_to_a_copier(&mut pair, ([192, 0, 2, 66], 5_000).into(), false);
    assert_eq!(sent.iter().filter(|&&length| length == sent[0]).count(), 6, "{sent:?}");
}

// ARQ-PTH-5, ARQ-PTH-8
#[test]
fn a_copy_from_elsewhere_costs_the_path_in_use_nothing() {
    let ticks = Flow::reliable(5, 500, 1_000).every(20 * MS);
    let mut pair = Pair::new(&Scenario::new(1).both_send([ticks]));
    pair.run_to_connected(SEC).unwrap();
    pair.world.run_for(SEC).unwrap();
    let before = pair.server_side().connection().stats();
    let sent = sent_to_a_copier(&mut pair, ([192, 0, 2, 66], 5_000).into(), true);
    assert!((1..=3).contains(&sent.len()), "until the original arrives: {sent:?}");
    let after = pair.server_side().connection().stats();
    assert!(after.packets_lost <= 2 && after.ptos == 0, "{after:?}");
    assert!(after.loss <= before.loss && after.window_bytes >= before.window_bytes, "{after:?}");
}

// ARQ-PTO-5
#[test]
fn a_peer_that_has_fallen_silent_gets_the_least_window_until_it_is_back() {
    let flow = Flow::reliable(5, 20_000, u64::MAX).every(20 * MS);
    let silence = 3 * SEC..6 * SEC;
    let wire = WireConfig { blackouts: vec![silence], ..WireConfig::with_delay(10 * MS) };
    let mut pair = Pair::new(&Scenario::new(1).wire(wire).client_sends([flow]));
    pair.run_to_connected(SEC).unwrap();
    let mut windows = Vec::new();
    for _ in 0..3 {
        pair.world.run_for(2_600 * MS).unwrap();
        windows.push(pair.client_side().connection().stats().window_bytes);
    }
    assert!(windows[0] > 4 * 1_200 && windows[2] > 4 * 1_200, "{windows:?}");
    assert_eq!(windows[1], 4 * 1_200, "{windows:?}");
}

// ARQ-PTO-3
#[test]
fn a_peer_that_talks_does_not_prove_that_it_hears() {
    let probes_unheard = |peer_talks: bool| {
        let mut pair = Pair::new(&Scenario::new(1).wire(WireConfig::with_delay(10 * MS)));
        pair.run_to_connected(SEC).unwrap();
        pair.world.run_for(SEC).unwrap();
        let Pair { client, server, conn, .. } = pair;
        let deaf = WireConfig {
            blackouts: vec![Duration::ZERO..Duration::MAX],
            ..WireConfig::with_delay(10 * MS)
        };
        if !peer_talks {
            pair.world.lay_wire(server, client, deaf.clone());
        }
        pair.world.lay_wire(client, server, deaf);
        let at = pair.world.address(client);
        let asks = Rc::new(RefCell::new(Vec::new()));
        let notes = asks.clone();
        pair.world.set_tap(move |_: Duration, seen: &Datagram, _: &mut Vec<Forged>| {
            let header = DataHeader::decode(&mut Reader::new(&seen.bytes)).unwrap();
            notes.borrow_mut().extend((seen.from == at).then_some(header.ack_now));
            Verdict::Pass
        });
        pair.world.with_conn(conn, |clock, _, app| {
            app.add_flow(clock.offset(), Flow::reliable(5, 100, 1));
        });
        let peer = pair.accepted().unwrap();
        let flow = Flow::best_effort(3, 100, u64::MAX).every(50 * MS);
        pair.world.with_conn(peer, |clock, _, app| app.add_flow(clock.offset(), flow));
        // As long as a peer counts as heard of lately: both cases have the same cap.
        pair.world.run_for(4 * SEC).unwrap();
        let ptos = pair.client_side().connection().stats().ptos;
        let asks = asks.borrow().clone();
        (ptos, asks)
    };
    let (unanswered, asks) = probes_unheard(false);
    // Each probe asks at once; copies that leave with it need not.
    let asking = asks.iter().filter(|ask| **ask).count() as u64;
    assert!(unanswered > 5 && asking > unanswered, "{unanswered}: {asks:?}");
    let (beside_talk, _) = probes_unheard(true);
    assert!(beside_talk.abs_diff(unanswered) <= 1, "{beside_talk}, {unanswered} in silence");
}

// ARQ-CLS-5
#[test]
fn a_long_reason_is_cut_between_two_characters() {
    for (reason, expected) in [("\u{e4}".repeat(300), 200), ("\u{20ac}".repeat(300), 198)] {
        let mut pair = Pair::new(&Scenario::new(1));
        pair.run_to_connected(SEC).unwrap();
        let id = pair.conn;
        pair.world.with_conn(id, |clock, connection, _| connection.close(clock.now(), &reason));
        pair.run(SEC, |pair| pair.server_side().closed.is_some()).unwrap();
        match pair.server_side().error() {
            Some(ConnectionError::PeerClosed(told)) => {
                assert_eq!((told.len(), reason.starts_with(told.as_str())), (expected, true));
            }
            other => panic!("{other:?}"),
        }
    }
}
