// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A connection belongs to its ids, not to an address: who may move it, and who may not?

use std::{net::SocketAddr, time::Duration};

use arq_sim::{Datagram, Flow, Forged, Pair, Scenario, Verdict, WireConfig};

use crate::common::{clear_and_sealed, lossy, seeds, MS, SEC};

fn address(n: u8) -> SocketAddr {
    ([192, 0, 2, n], 5_000).into()
}

fn ticks() -> [Flow; 2] {
    [Flow::reliable(5, 200, 300).every(20 * MS), Flow::reliable(6, 30_000, 20).every(300 * MS)]
}

// ARQ-CID-2, ARQ-PTH-1, ARQ-PTH-4
#[test]
fn a_client_that_gets_another_address_keeps_its_connection() {
    let scenario = |seed| Scenario::new(seed).wire(lossy(0.10)).both_send(ticks());
    for scenario in seeds(30).flat_map(|seed| clear_and_sealed(scenario(seed))) {
        let (mut pair, seed) = (Pair::new(&scenario), scenario.seed);
        pair.run_to_connected(10 * SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
        for n in 1..=3 {
            pair.world.run_for(SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
            let client = pair.client;
            pair.world.rebind(client, address(n));
        }
        pair.run_to_delivery(30 * SEC).unwrap_or_else(|halt| {
            panic!("seed {seed}: {halt}\n{}{}", pair.describe(), pair.world.log().ladder(30))
        });
        assert_eq!(pair.world.accepted(pair.server).len(), 1, "the same connection");
        assert_eq!(pair.server_side().connection().remote(), address(3));
    }
}

/// From a cable to a radio: all that is known of round trips is shorter than one of the new path.
// ARQ-PTH-2
#[test]
fn a_client_that_moves_to_a_much_slower_path_is_followed() {
    let cable = WireConfig::with_delay(MS / 4);
    let scenario = |seed| Scenario::new(seed).wire(cable.clone()).both_send(ticks());
    let scenarios = [(1, 50 * MS), (2, 300 * MS)].into_iter().flat_map(|(seed, round_trip)| {
        clear_and_sealed(scenario(seed)).map(|scenario| (scenario, round_trip))
    });
    for (scenario, round_trip) in scenarios {
        let mut pair = Pair::new(&scenario);
        pair.run_to_connected(SEC).unwrap();
        pair.world.run_for(2 * SEC).unwrap();
        let (client, server) = (pair.client, pair.server);
        let radio = WireConfig::with_delay(round_trip / 2);
        pair.world.lay_wire(client, server, radio.clone());
        pair.world.lay_wire(server, client, radio);
        pair.world.rebind(client, address(1));
        let found = |pair: &Pair| pair.server_side().connection().remote() == address(1);
        let took = pair.run(10 * SEC, found).unwrap_or_else(|halt| {
            panic!("{round_trip:?}: {halt}\n{}{}", pair.describe(), pair.world.log().ladder(30))
        });
        // There with whatever is sent next, asked, and there again.
        assert!(took <= round_trip * 3 / 2 + 50 * MS, "{round_trip:?}: {took:?}");
        pair.run_to_delivery(60 * SEC).unwrap_or_else(|halt| {
            panic!("{round_trip:?}: {halt}\n{}{}", pair.describe(), pair.world.log().ladder(30))
        });
        assert_eq!(pair.world.accepted(pair.server).len(), 1, "the same connection");
    }
}

/// Out of the reach of a Wi-Fi station and back: the address is the same as before, the way there is not.
// ARQ-CID-2, ARQ-PTH-4
#[test]
fn a_client_that_goes_from_wifi_to_lte_and_comes_back_is_followed_both_times() {
    let wifi = WireConfig { jitter: 2 * MS, ..lossy(0.05) };
    let lte = WireConfig { jitter: 10 * MS, ..WireConfig::with_delay(40 * MS) };
    let scenario = |seed| Scenario::new(seed).wire(wifi.clone()).both_send(ticks());
    let stays = [50 * MS, 500 * MS, 2 * SEC];
    for (scenario, stay) in seeds(10)
        .flat_map(|seed| clear_and_sealed(scenario(seed)))
        .flat_map(|scenario| stays.map(|stay| (scenario.clone(), stay)))
    {
        let (mut pair, seed) = (Pair::new(&scenario), scenario.seed);
        let at = format!("seed {seed}, {stay:?}, sealed {}", scenario.toy.is_some());
        pair.run_to_connected(10 * SEC).unwrap_or_else(|halt| panic!("{at}: {halt}"));
        pair.world.run_for(SEC).unwrap_or_else(|halt| panic!("{at}: {halt}"));
        let (client, server) = (pair.client, pair.server);
        let home = pair.world.address(client);
        for (address, wire) in [(address(1), &lte), (home, &wifi)] {
            pair.world.lay_wire(client, server, wire.clone());
            pair.world.lay_wire(server, client, wire.clone());
            pair.world.rebind(client, address);
            pair.world.run_for(stay).unwrap_or_else(|halt| panic!("{at}: {halt}"));
            if stay >= 500 * MS {
                assert_eq!(pair.server_side().connection().remote(), address, "{at}");
            }
        }
        pair.run_to_delivery(30 * SEC).unwrap_or_else(|halt| {
            panic!("{at}: {halt}\n{}{}", pair.describe(), pair.world.log().ladder(30))
        });
        assert_eq!(pair.server_side().connection().remote(), home, "{at}");
        assert_eq!(pair.world.accepted(server).len(), 1, "{at}: the same connection");
    }
}

// ARQ-PTH-4
#[test]
fn what_the_old_address_swallowed_says_nothing_about_the_new_path() {
    let stream = Flow::reliable(5, 10_000, u64::MAX).every(20 * MS);
    let mut pair = Pair::new(&Scenario::new(1).server_sends([stream]));
    pair.run_to_connected(SEC).unwrap();
    pair.world.run_for(3 * SEC).unwrap();
    let before = pair.server_side().connection().stats();
    let client = pair.client;
    pair.world.rebind(client, address(1));
    pair.world.run_for(4 * SEC).unwrap();
    let after = pair.server_side().connection().stats();
    assert_eq!(pair.server_side().connection().remote(), address(1));
    assert!(after.packets_lost > before.packets_lost, "what was sent to the old address is lost");
    let (before, after) = (before.loss.as_f64(), after.loss.as_f64());
    println!("loss of at most {before} before, {after} after");
    assert!(after <= before + 0.01, "{after} after, {before} before");
}

// ARQ-PTH-3, ARQ-PTH-4
#[test]
fn an_idle_client_that_moves_is_found_at_its_next_keep_alive() {
    for scenario in clear_and_sealed(Scenario::new(1)) {
        let mut pair = Pair::new(&scenario);
        pair.run_to_connected(SEC).unwrap();
        pair.world.run_for(3 * SEC).unwrap();
        let client = pair.client;
        pair.world.rebind(client, address(1));
        pair.world.run_for(3 * SEC).unwrap();
        assert_eq!(pair.server_side().connection().remote(), address(1));
    }
}

/// Somebody on the path sends copies of everything from an address of his own, ahead of the
/// originals.
// ARQ-PTH-1, ARQ-PTH-4
#[test]
fn copies_from_a_spoofed_address_redirect_nothing() {
    let scenario = |seed| Scenario::new(seed).wire(lossy(0.05)).both_send(ticks());
    for scenario in seeds(20).flat_map(|seed| clear_and_sealed(scenario(seed))) {
        let (mut pair, seed) = (Pair::new(&scenario), scenario.seed);
        let spoofed = address(66);
        let client = pair.world.address(pair.client);
        pair.world.set_tap(move |_: Duration, seen: &Datagram, forged: &mut Vec<Forged>| {
            if seen.from == client {
                let bytes = seen.bytes.to_vec();
                forged.push(Forged { from: spoofed, to: seen.to, after: MS, bytes });
            }
            Verdict::Pass
        });
        pair.run_to_delivery(60 * SEC).unwrap_or_else(|halt| {
            panic!("seed {seed}: {halt}\n{}{}", pair.describe(), pair.world.log().ladder(30))
        });
        assert_eq!(pair.server_side().connection().remote(), client, "seed {seed}");
        let exchange = pair.world.exchanged(pair.server, spoofed);
        assert!(exchange.received_bytes > 0);
        assert!(exchange.sent_bytes <= 3 * exchange.received_bytes, "{exchange:?}");
    }
}
