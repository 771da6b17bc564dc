// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What if the other side is killed, restarted, or simply gone?

use arq_proto::{Config, ConnectionError, ValidConfig};
use arq_sim::{AppPlan, ConnId, Flow, Pair, Scenario, WireConfig};

use crate::common::{lossy, seeds, MS, SEC};

fn ticks() -> Flow {
    Flow::reliable(5, 200, 1_000).every(20 * MS)
}

/// A pair in the middle of a conversation.
fn talking(seed: u64, wire: WireConfig) -> Pair {
    let mut pair = Pair::new(&Scenario::new(seed).wire(wire).both_send([ticks()]));
    pair.run_to_connected(10 * SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
    pair.world.run_for(3 * SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
    pair
}

fn run_until_closed(pair: &mut Pair, id: ConnId, seed: u64) -> ConnectionError {
    let result = pair.world.run_until(30 * SEC, |world| world.conn(id).closed.is_some());
    result.unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
    pair.world.conn(id).error().cloned().unwrap()
}

// ARQ-HS-2, ARQ-RPL-1
#[test]
fn a_restarted_client_replaces_its_association_soon() {
    for seed in seeds(50) {
        let mut pair = talking(seed, lossy(0.10));
        let old = pair.accepted().unwrap();
        let (client, server) = (pair.client, pair.server);
        pair.world.restart(client);
        let restarted_at = pair.world.now();
        let plan = AppPlan::sends([ticks()]);
        let new = pair.world.connect(client, server, ValidConfig::default(), plan);
        let back = |world: &arq_sim::World| {
            world.conn(new).app.messages_read() > 0
                && world
                    .accepted(server)
                    .last()
                    .is_some_and(|id| *id != old && world.conn(*id).app.messages_read() > 0)
        };
        pair.world
            .run_until(10 * SEC, back)
            .unwrap_or_else(|halt| panic!("seed {seed}: {halt}\n{}", pair.world.log().ladder(30)));
        let took = pair.world.now() - restarted_at;
        assert!(took < SEC, "seed {seed}: back after {took:?}");
        pair.world
            .run_until(SEC, |world| world.conn(old).closed.is_some())
            .unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
        // What the server still sends on the old one may be answered by a RESET before the new
        // HELLO is through.
        assert!(
            matches!(
                pair.world.conn(old).error(),
                Some(ConnectionError::Replaced | ConnectionError::PeerLostState)
            ),
            "seed {seed}: {:?}",
            pair.world.conn(old).error()
        );
    }
}

// ARQ-RPL-1
#[test]
fn a_second_connection_of_the_same_client_replaces_nothing() {
    let mut pair = talking(1, lossy(0.10));
    let first = pair.accepted().unwrap();
    let (client, server) = (pair.client, pair.server);
    pair.world.connect(client, server, ValidConfig::default(), AppPlan::sends([ticks()]));
    pair.world.run_for(3 * SEC).unwrap();
    assert_eq!(pair.world.accepted(server).len(), 2);
    assert_eq!(pair.world.conn(first).closed, None);
    assert_eq!(pair.client_side().closed, None);
}

// ARQ-RST-1, ARQ-RST-2
#[test]
fn a_restarted_listener_is_noticed_soon() {
    for seed in seeds(50) {
        let mut pair = talking(seed, lossy(0.10));
        let server = pair.server;
        pair.world.restart(server);
        let restarted_at = pair.world.now();
        let id = pair.conn;
        assert_eq!(run_until_closed(&mut pair, id, seed), ConnectionError::PeerLostState);
        let took = pair.world.now() - restarted_at;
        assert!(took < SEC, "seed {seed}: noticed after {took:?}");
    }
}

// ARQ-LIV-1, ARQ-RST-1
#[test]
fn a_restarted_listener_is_noticed_by_an_idle_client_at_its_next_keep_alive() {
    let mut pair = Pair::new(&Scenario::new(2));
    pair.run_to_connected(SEC).unwrap();
    pair.world.run_for(5 * SEC).unwrap();
    let server = pair.server;
    pair.world.restart(server);
    let restarted_at = pair.world.now();
    let id = pair.conn;
    assert_eq!(run_until_closed(&mut pair, id, 2), ConnectionError::PeerLostState);
    let took = pair.world.now() - restarted_at;
    // A round trip, and the silence that follows the first RESET.
    assert!(took <= Config::default().keep_alive + 150 * MS, "{took:?}");
}

// ARQ-LIV-2
#[test]
fn a_vanished_peer_is_declared_dead_within_the_idle_timeout() {
    for (seed, wire) in [(3, WireConfig::with_delay(10 * MS)), (4, lossy(0.25))] {
        let mut pair = talking(seed, wire);
        let server = pair.server;
        pair.world.vanish(server);
        let vanished_at = pair.world.now();
        let id = pair.conn;
        assert_eq!(run_until_closed(&mut pair, id, seed), ConnectionError::TimedOut);
        let took = pair.world.now() - vanished_at;
        let idle = Config::default().idle_timeout;
        assert!((idle - SEC..=idle + SEC).contains(&took), "seed {seed}: {took:?}");
    }
}

// ARQ-LIV-1
#[test]
fn an_idle_connection_lives_for_an_hour() {
    let mut pair = Pair::new(&Scenario::new(5).wire(lossy(0.25)));
    pair.run_to_connected(10 * SEC).unwrap();
    pair.world.run_for(3_600 * SEC).unwrap();
    assert_eq!(pair.client_side().closed, None);
    assert_eq!(pair.server_side().closed, None);
}
