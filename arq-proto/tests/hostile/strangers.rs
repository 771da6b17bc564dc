// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What comes from nowhere, from others, and in floods.

use std::time::Duration;

use arq_proto::{
    wire::packet::{Echo, Refuse, Reset},
    ConnectionError, ConnectionId, RefuseReason, Reliability, ValidConfig,
};
use arq_sim::{
    hostile, lane, AppPlan, ConnId, Datagram, Flow, Forged, HostConfig, Pair, Scenario, Verdict,
    WireConfig,
};
use fastrand::Rng;

use crate::{
    assert_no_amplification, assert_no_amplification_but_for,
    common::{lossy, seeds, MS, SEC},
    hello, stranger, talk,
};

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

const A_SECOND: u32 = 50_000;

/// For `seconds`, 50,000 datagrams a second from random sources arrive at the server.
fn flood(pair: &mut Pair, rng: &mut Rng, seconds: u32, make: impl Fn(&mut Rng) -> Vec<u8>) {
    let to = pair.world.address(pair.server);
    for n in 0..seconds * A_SECOND {
        let from = (rng.u32(..).to_be_bytes(), rng.u16(1..)).into();
        let after = n * (SEC / A_SECOND);
        pair.world.forge(Forged { from, to, after, bytes: make(rng) });
    }
}

/// Another client of the server, at once.
fn connect_another(pair: &mut Pair) -> ConnId {
    let config = HostConfig::new("another", stranger(7));
    let (another, wire) = (pair.world.add_host(config), WireConfig::with_delay(10 * MS));
    pair.world.lay_wire(another, pair.server, wire.clone());
    pair.world.lay_wire(pair.server, another, wire);
    pair.world.connect(another, pair.server, ValidConfig::default(), AppPlan::default())
}

// ARQ-AMP-1, ARQ-AMP-2, ARQ-HS-3
#[test]
fn a_flood_of_hellos_leaves_no_state_and_is_not_amplified() {
    for seed in seeds(2) {
        let calm = Scenario::new(seed).both_send(talk()).run().unwrap();
        let mut pair = Pair::new(&Scenario::new(seed).both_send(talk()));
        pair.run_to_connected(SEC).unwrap();
        flood(&mut pair, &mut Rng::with_seed(seed), 2, hello);
        pair.world.run_for(700 * MS + seed as u32 * 100 * MS).unwrap();
        let (another, called_at) = (connect_another(&mut pair), pair.world.now());
        pair.world
            .run_until(2 * SEC, |world| world.conn(another).connected_at.is_some())
            .unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
        let took = pair.world.now() - called_at;
        assert!(took < SEC, "seed {seed}: an honest client opens after {took:?}");
        pair.world.run_for(3 * SEC).unwrap();
        let server = pair.server;
        let stats = pair.world.endpoint(server).stats();
        // 5,000 in each of 9 windows, and those before.
        assert!((20_000..=45_002).contains(&stats.challenges_sent), "seed {seed}: {stats:?}");
        assert_eq!(stats.accepted, 2, "seed {seed}");
        let server = pair.world.conn(pair.world.accepted(server)[0]);
        assert_eq!((&pair.client_side().closed, &server.closed), (&None, &None), "seed {seed}");
        let lane = lane(5, Reliability::Reliable);
        assert_eq!(server.app.inbox(lane).messages, 100, "seed {seed}");
        let latest = server.app.inbox(lane).latencies.iter().max().copied().unwrap();
        let usual = calm.latency_percentile(100).unwrap();
        assert!(latest <= 2 * usual, "seed {seed}: {latest:?} instead of {usual:?}");
        let clients = [pair.client, another.host].map(|host| pair.world.address(host));
        assert_no_amplification_but_for(&pair, &clients);
    }
}

// ARQ-AMP-2, ARQ-RST-1, ARQ-SUS-2
#[test]
fn a_flood_of_strays_does_not_hide_a_restart() {
    for seed in seeds(2) {
        let flow = Flow::reliable(5, 200, 1_000).every(20 * MS);
        let mut pair = Pair::new(&Scenario::new(seed).client_sends([flow]));
        pair.run_to_connected(SEC).unwrap();
        pair.world.run_for(SEC).unwrap();
        let server = pair.server;
        pair.world.restart(server);
        flood(&mut pair, &mut Rng::with_seed(seed), 2, |rng| {
            let at = hostile::Sighting { dcid: ConnectionId(rng.u64(..)), number: rng.u32(..) };
            hostile::data_packet(at, 0, true, &[1])
        });
        let id = pair.conn;
        let took = pair
            .world
            .run_until(3 * SEC, |world| world.conn(id).closed.is_some())
            .unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
        assert_eq!(pair.client_side().error(), Some(&ConnectionError::PeerLostState));
        assert!(took < SEC, "seed {seed}: noticed after {took:?}");
        pair.world.run_for(3 * SEC).unwrap();
        let stats = pair.world.endpoint(server).stats();
        // 4,096 in each of 9 windows.
        assert!((1..=9 * 4_096).contains(&stats.resets_sent), "seed {seed}: {stats:?}");
        assert_no_amplification(&pair);
    }
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
            0 => Reset { unknown: id, echo: Echo::Number(n / 3) }.encode(&mut bytes),
            1 => Refuse { dcid: id, reason: RefuseReason::Busy, versions: Vec::new() }
                .encode(&mut bytes),
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
