// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Paths that carry less than 1,200 bytes from the beginning.

use std::time::Duration;

use arq_proto::{Config, ConnectionError, Reliability, Stats};
use arq_sim::{lane, Datagram, Flow, Forged, Pair, Scenario, Verdict, WireConfig};

use crate::common::{lossy, seeds, MS, SEC};

/// Sizes that pass, from the client to the server and back.
const PATHS: [[usize; 2]; 8] = [
    [576, 576],
    [700, 700],
    [1_124, 1_124],
    [1_199, 1_199],
    [576, 1_472],
    [1_124, 1_472],
    [1_472, 576],
    [1_472, 1_124],
];

/// Both send a message of 10 KB each 100 ms. How long it took until both had the first one, and the longest of all.
fn exchange([up, down]: [usize; 2], loss: f32, seed: u64, config: Config) -> [Duration; 2] {
    let wire = |mtu| WireConfig { mtu: Some(mtu), ..lossy(loss) };
    let scenario = Scenario { up: wire(up), down: wire(down), ..Scenario::new(seed) };
    let flow = Flow::reliable(5, 10_000, 50).every(100 * MS);
    let mut pair = Pair::new(&scenario.config(config).both_send([flow]));
    let case = format!("ARQ_SEED={seed}, {up} and {down} bytes, loss {loss}");
    let fail = |halt, pair: &Pair| panic!("{case}: {halt}\n{}", pair.describe());
    let read = |pair: &Pair| {
        pair.is_connected()
            && pair.client_side().app.messages_read() > 0
            && pair.server_side().app.messages_read() > 0
    };
    let first = pair.run(30 * SEC, read).unwrap_or_else(|halt| fail(halt, &pair));
    pair.run_to_delivery(60 * SEC).unwrap_or_else(|halt| fail(halt, &pair));
    let lane = lane(5, Reliability::Reliable);
    let inboxes = [pair.client_side(), pair.server_side()].map(|side| side.app.inbox(lane));
    let longest = inboxes.iter().flat_map(|inbox| &inbox.latencies).max().copied().unwrap();
    let sizes =
        [pair.client_side(), pair.server_side()].map(|side| path_mtu(&side.connection().stats()));
    println!("{case}: {first:?}, {longest:?}, {sizes:?}");
    [first, longest]
}

fn path_mtu(stats: &Stats) -> u16 {
    stats.path_mtu_bytes
}

// ARQ-HS-1, ARQ-HS-11, ARQ-MTU-7
#[test]
fn a_path_below_1200_bytes_opens_and_delivers() {
    for path in PATHS {
        for seed in seeds(4) {
            let [first, longest] = exchange(path, 0.0, seed, Config::default());
            assert!(first <= SEC && longest <= SEC, "{path:?}: {first:?}, {longest:?}");
            let [first, longest] = exchange(path, 0.1, seed, Config::default());
            assert!(first <= SEC && longest <= SEC, "{path:?}: {first:?}, {longest:?}");
        }
    }
}

/// The longest datagrams that the client and the server of a pair send.
fn longest(mtu: [Option<u16>; 2], seed: u64) -> [usize; 2] {
    use std::{cell::Cell, rc::Rc};
    let config = |mtu| Config { mtu, ..Config::default() };
    let scenario = Scenario::new(seed).config(config(mtu[0]));
    let flow = Flow::reliable(5, 10_000, 20).every(10 * MS);
    let mut pair = Pair::new(&scenario.both_send([flow]));
    let accept = config(mtu[1]).validate().unwrap();
    let server = pair.server;
    pair.world.endpoint(server).set_accept(Some(accept));
    let longest = Rc::new(Cell::new([0; 2]));
    let (seen_by, client) = (longest.clone(), pair.world.address(pair.client));
    pair.world.set_tap(move |_: Duration, seen: &Datagram, _: &mut Vec<Forged>| {
        let mut most = seen_by.get();
        let side = usize::from(seen.from != client);
        most[side] = most[side].max(seen.bytes.len());
        seen_by.set(most);
        Verdict::Pass
    });
    pair.run_to_delivery(10 * SEC).unwrap();
    longest.get()
}

// ARQ-PKT-4, ARQ-HS-1
#[test]
fn who_is_told_that_the_path_carries_less_sends_no_more_nor_does_the_peer() {
    for mtu in [576, 700, 1_096, 1_199] {
        let most = usize::from(mtu);
        let [client, server] = longest([Some(mtu), None], 1);
        assert!(client <= most && server <= most, "client with {mtu}: {client}, {server}");
        // A client that has not heard the listener yet sends one HELLO that is longer.
        let [_, server] = longest([None, Some(mtu)], 1);
        assert!(server <= most, "listener with {mtu}: {server}");
        let [first, longest] =
            exchange([most; 2], 0.0, 1, Config { mtu: Some(mtu), ..Config::default() });
        assert!(first <= 100 * MS && longest <= 100 * MS, "{mtu}: {first:?}, {longest:?}");
    }
}

// ARQ-HS-1
#[test]
fn a_path_that_carries_nothing_is_given_up_with_the_sizes_that_were_tried() {
    let wire = WireConfig { mtu: Some(100), ..WireConfig::with_delay(10 * MS) };
    let config = Config { mtu: Some(1_096), ..Config::default() };
    let mut pair = Pair::new(&Scenario::new(1).wire(wire).config(config));
    pair.run(20 * SEC, |pair| pair.client_side().closed.is_some()).unwrap();
    let error = pair.client_side().error().map(ConnectionError::to_string).unwrap();
    assert_eq!(error, "no answer within 10s to HELLOs of 1096 and 168 bytes");
}
