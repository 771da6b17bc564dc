// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What comes from nowhere, from others, and in floods.

use std::time::Duration;

use arq_proto::{
    wire::packet::{Refuse, Reset},
    ConnectionId, RefuseReason,
};
use arq_sim::{hostile, Datagram, Forged, Pair, Scenario, Verdict};
use fastrand::Rng;

use crate::{
    assert_no_amplification,
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
    // The client's first two.
    assert_eq!(stats.challenges_sent, 20_002);
    assert_eq!(stats.accepted, 1);
    assert_no_amplification(&pair);
}

// ARQ-RST-1
#[test]
fn data_for_nobody_is_answered_by_few_resets() {
    let mut pair = Pair::new(&Scenario::new(2).both_send(talk()));
    let mut rng = Rng::with_seed(2);
    let to = pair.world.address(pair.server);
    for n in 0..20_000_u16 {
        let at = hostile::Sighting { dcid: ConnectionId(rng.u64(..)), number: rng.u32(..) };
        let bytes = hostile::data_packet(at, 0, true, &[1]);
        let after = Duration::from_micros(u64::from(n) * 100);
        pair.world.forge(Forged { from: stranger(n), to, after, bytes });
    }
    pair.run_to_delivery(10 * SEC).unwrap();
    let server = pair.server;
    let stats = pair.world.endpoint(server).stats();
    // 4,096 a second, of ten thousand.
    assert!((1..=3 * 4_096).contains(&stats.resets_sent), "{stats:?}");
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
