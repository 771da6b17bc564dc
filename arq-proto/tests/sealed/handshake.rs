// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The handshake under everything: loss up to a half, reordering, duplicates, flights of 1 to 16 KB, a ServerHello that
//! comes only after a retry, and a server that has no room for strangers.

use std::{cell::Cell, rc::Rc, sync::Arc, time::Duration};

use arq_proto::{
    wire::{
        flight::HandshakeFrame,
        packet::{Hello, PacketKind},
    },
    Connect, ConnectionError, ValidConfig,
};
use arq_sim::{
    hostile, parallel,
    toy::{Flights, Toy},
    AppPlan, Datagram, Flow, Forged, Loss, Pair, Scenario, Verdict, WireConfig,
};
use fastrand::Rng;

use crate::{
    common::{seeds, MS, SEC},
    twins::random_flights,
};

fn rough(rng: &mut Rng) -> WireConfig {
    WireConfig {
        loss: Loss::Random(rng.f32() / 2.0),
        duplicate: if rng.bool() { rng.f32() / 5.0 } else { 0.0 },
        jitter: if rng.bool() { rng.u32(..30) * MS } else { Duration::ZERO },
        mtu: Some(rng.usize(1_200..=65_000)),
        ..WireConfig::with_delay(rng.u32(1..100) * MS)
    }
}

/// When the first packet left that shows the server where its client receives: a HELLO with a cookie, or a HANDSHAKE.
fn watch_for_proof(pair: &mut Pair) -> Rc<Cell<Option<Duration>>> {
    let left_at = Rc::new(Cell::new(None));
    let (noted, server) = (left_at.clone(), pair.world.address(pair.server));
    pair.world.set_tap(move |at: Duration, datagram: &Datagram, _: &mut Vec<Forged>| {
        let proves = match Hello::decode_with(&datagram.bytes) {
            // It is the first frame, if there is one.
            Ok((_, mut frames)) => {
                let first = HandshakeFrame::decode(&mut frames);
                matches!(first, Ok(Some(HandshakeFrame::Cookie(_))))
            }
            Err(_) => PacketKind::of(datagram.bytes[0]) == Ok(PacketKind::Handshake),
        };
        if proves && datagram.to == server {
            noted.set(noted.get().or(Some(at)));
        }
        Verdict::Pass
    });
    left_at
}

/// Opens, or says in time why not; nobody is sent more than three bytes for each of his before he is known.
fn opens_or_ends(seed: u64) -> Result<bool, String> {
    let mut rng = Rng::with_seed(seed ^ 0x0bad);
    let toy = Toy::new(Flights { rejects_client: rng.u8(..16) == 0, ..random_flights(&mut rng) });
    let mut scenario = Scenario::new(seed).sealed(toy, 64);
    (scenario.up, scenario.down) = (rough(&mut rng), rough(&mut rng));
    scenario.max_unvalidated_handshakes = rng.usize(..2) * 64;
    let mut pair = Pair::new(&scenario);
    let limit = scenario.config.handshake_timeout + scenario.config.idle_timeout + SEC;
    let proof_left_at = watch_for_proof(&mut pair);
    let mut validated = false;
    let started = pair.world.now();
    loop {
        let left = limit.saturating_sub(pair.world.now() - started);
        pair.world.run_one(left).map_err(|halt| format!("seed {seed}: {halt}"))?;
        // Not before it arrives.
        let proof = proof_left_at.get().map(|at| at + scenario.up.delay);
        validated |= proof.is_some_and(|at| pair.world.now() >= at) && pair.accepted().is_some();
        let exchange = pair.world.exchanged(pair.server, pair.world.address(pair.client));
        if !validated && exchange.sent_bytes > 3 * exchange.received_bytes {
            return Err(format!("seed {seed}: {exchange:?}"));
        }
        if pair.is_connected() {
            return Ok(true);
        }
        if pair.client_side().closed.is_some() {
            return Ok(false);
        }
    }
}

// ARQ-HSK-1, ARQ-HSK-3, ARQ-HSK-5, ARQ-HSK-6, ARQ-ADM-1, ARQ-AMP-1
#[test]
fn a_handshake_opens_or_ends_in_time_whatever_the_network_does() {
    let seeds: Vec<u64> = seeds(500).collect();
    let results = parallel::map(&seeds, |seed| opens_or_ends(*seed));
    let failures: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    let opened = results.iter().filter(|result| matches!(result, Ok(true))).count();
    println!("{opened} of {} opened", seeds.len());
    // One of 16 clients is refused.
    assert!(opened * 100 >= seeds.len() * 90, "{opened} of {}", seeds.len());
}

/// The time until both sides are open at 25 % loss, sorted.
fn times(toy: Option<&Toy>, count: u64) -> Vec<Duration> {
    let mut times: Vec<_> = seeds(count)
        .map(|seed| {
            let wire = WireConfig { loss: Loss::Random(0.25), ..WireConfig::with_delay(10 * MS) };
            let mut scenario = Scenario::new(seed).wire(wire);
            if let Some(toy) = toy {
                scenario = scenario.sealed(toy.clone(), 1 << 20);
            }
            Pair::new(&scenario).run_to_connected(10 * SEC).unwrap()
        })
        .collect();
    times.sort_unstable();
    times
}

// ARQ-HSK-3
#[test]
fn it_opens_as_fast_under_loss_as_in_the_clear() {
    let clear = times(None, 1_000);
    for (name, flights) in [
        ("leaf", Flights { server: 800, ..Flights::default() }),
        ("leaf and issuer", Flights::default()),
        ("mutual", Flights { client: 1_030, ..Flights::default() }),
        ("RSA-2048", Flights { server: 2_250, ..Flights::default() }),
    ] {
        let sealed = times(Some(&Toy::new(flights)), 1_000);
        let at = |times: &[Duration], percent: usize| times[(times.len() - 1) * percent / 100];
        println!(
            "{name}: {:?} {:?}, in the clear {:?} {:?}",
            at(&sealed, 50),
            at(&sealed, 99),
            at(&clear, 50),
            at(&clear, 99)
        );
        assert!(at(&sealed, 50) <= at(&clear, 50).mul_f64(1.15), "{name}");
        assert!(at(&sealed, 99) <= at(&clear, 99).mul_f64(1.5), "{name}");
    }
}

/// Both ways carry no more than so many bytes.
// ARQ-HSK-1
#[test]
fn a_path_below_1200_bytes_opens_when_nobody_has_answered_for_a_second() {
    for mtu in [576, 700, 1_124, 1_199] {
        for seed in seeds(8) {
            let loss = Loss::Random(if seed % 2 == 0 { 0.1 } else { 0.0 });
            let wire = WireConfig { loss, mtu: Some(mtu), ..WireConfig::with_delay(10 * MS) };
            let toy = Toy::new(Flights::default());
            let flow = Flow::reliable(5, 10_000, 10).every(100 * MS);
            let scenario = Scenario::new(seed).wire(wire).both_send([flow]).sealed(toy, 64);
            let mut pair = Pair::new(&scenario);
            let took = pair.run_to_connected(5 * SEC);
            let took = took.unwrap_or_else(|halt| panic!("ARQ_SEED={seed}, {mtu} bytes: {halt}"));
            assert!(took >= SEC && took <= 2 * SEC, "ARQ_SEED={seed}, {mtu} bytes: {took:?}");
            let all = pair.run_to_delivery(10 * SEC);
            all.unwrap_or_else(|halt| panic!("ARQ_SEED={seed}, {mtu} bytes: {halt}"));
        }
    }
}

// ARQ-HSK-1
#[test]
fn it_takes_one_round_trip() {
    let toy = Toy::new(Flights::default());
    let mut pair = Pair::new(&Scenario::new(1).sealed(toy, 64));
    pair.run_to_connected(SEC).unwrap();
    assert_eq!(pair.client_side().connected_at, Some(20 * MS));
    assert_eq!(pair.server_side().connected_at, Some(30 * MS));
    let peer = pair.server_side().connection().peer_identity().unwrap();
    assert_eq!(peer.downcast_ref::<u64>(), Some(&1));
}

// ARQ-HSK-7
#[test]
fn a_server_that_takes_no_such_client_says_so() {
    let flights = Flights { rejects_client: true, ..Flights::default() };
    let mut pair = Pair::new(&Scenario::new(1).sealed(Toy::new(flights), 64));
    pair.run(5 * SEC, |pair| pair.client_side().closed.is_some()).unwrap();
    let reason = "no client is taken".to_owned();
    let error = ConnectionError::PeerEndedHandshake { alert: 48, reason };
    // Half a round trip after its proof.
    assert_eq!(pair.client_side().closed, Some((40 * MS, error)));
    pair.world.run_for(2 * SEC).unwrap();
    assert!(matches!(pair.server_side().error(), Some(ConnectionError::HandshakeFailed(_))));
    assert_eq!(pair.server_side().connected_at, None, "nobody was offered");
}

/// He gives the client another id toward the server, and takes it back on the way home.
// ARQ-HSK-2
#[test]
fn who_rewrites_ids_on_the_way_connects_nobody() {
    let mut pair = Pair::new(&Scenario {
        up: WireConfig { blackouts: vec![Duration::ZERO..40 * MS], ..WireConfig::with_delay(MS) },
        ..Scenario::new(1).sealed(Toy::new(Flights::default()), 64)
    });
    let server = pair.world.address(pair.server);
    pair.world.set_tap(move |_: Duration, datagram: &Datagram, _: &mut Vec<Forged>| {
        let mut bytes = datagram.bytes.to_vec();
        let rewritten = match PacketKind::of(bytes[0]).unwrap() {
            PacketKind::Hello => {
                bytes[1] ^= 1;
                return Verdict::Replace(hostile::resealed(&bytes));
            }
            PacketKind::Handshake if datagram.to == server => 9,
            _ if datagram.to != server => 1,
            _ => return Verdict::Pass,
        };
        bytes[rewritten] ^= 1;
        let rechecked = hostile::rechecked(&bytes).unwrap_or(bytes);
        Verdict::Replace(rechecked)
    });
    pair.run(20 * SEC, |pair| pair.client_side().closed.is_some()).unwrap();
    assert_eq!(pair.client_side().connected_at, None);
    assert!(matches!(pair.client_side().error(), Some(ConnectionError::HandshakeFailed(_))));
    for id in pair.world.accepted(pair.server) {
        assert_eq!(pair.world.conn(*id).connected_at, None);
    }
}

// ARQ-HSK-6
#[test]
fn who_is_not_the_server_is_asked_eight_times_and_named() {
    let toy = Toy::new(Flights::default());
    let mut pair = Pair::new(&Scenario::new(1).sealed(toy.clone(), 64));
    // Another client of the same server, which expects another one.
    let connect = Connect::sealed(ValidConfig::default(), Arc::new(toy.with_secret(2)), "server");
    let stranger = pair.world.connect(pair.client, pair.server, connect, AppPlan::default());
    pair.run(10 * SEC, |pair| pair.world.conn(stranger).closed.is_some()).unwrap();
    let conn = pair.world.conn(stranger);
    assert!(
        matches!(conn.error(), Some(ConnectionError::HandshakeFailed(_))),
        "{:?}",
        conn.error()
    );
    assert_eq!(conn.connection().stats().handshakes_spoiled, 7);
    assert!(pair.world.now() < 2 * SEC, "{:?}", pair.world.now());
}
