// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Paths that carry more than 1,200 bytes, less, or another size from one moment on.

use std::time::Duration;

use arq_proto::{Config, Reliability, Stats, TimerKind};
use arq_sim::{lane, Flow, Pair, Scenario, WireConfig};

use crate::common::{lossy, run, seeds, MS, SEC};

/// Jumbo frames over IPv4.
const JUMBO: u16 = 8_972;

fn searching(ceiling: u16) -> Config {
    Config { mtu: Some(ceiling), ..Config::default() }
}

fn carrying(mtu: usize) -> WireConfig {
    WireConfig { mtu: Some(mtu), ..WireConfig::with_delay(10 * MS) }
}

/// Messages of 60 KB, one each 50 ms.
fn stream(seconds: u64) -> [Flow; 1] {
    [Flow::reliable(5, 60_000, 20 * seconds).every(50 * MS)]
}

fn client(pair: &Pair) -> Stats {
    pair.client_side().connection().stats()
}

// ARQ-MTU-1, ARQ-MTU-2
#[test]
fn both_sides_find_what_the_path_carries() {
    // 1,500 and 9,000 over IPv4, 1,280 over IPv4 and IPv6.
    for carries in [1_472, 8_972, 1_252, 1_232] {
        let scenario = Scenario::new(1).wire(carrying(carries)).config(searching(JUMBO));
        let mut pair = Pair::new(&scenario);
        pair.run_to_connected(SEC).unwrap();
        pair.world.run_for(2 * SEC).unwrap();
        for stats in [client(&pair), pair.server_side().connection().stats()] {
            assert_eq!(usize::from(stats.path_mtu_bytes), carries);
            println!(
                "{carries}: {} probes, {} lost, {} bytes",
                stats.mtu_probes_sent, stats.mtu_probes_lost, stats.mtu_probe_bytes
            );
            assert!(stats.mtu_probe_bytes <= 6 * u64::from(JUMBO), "{stats:?}");
            assert_eq!((stats.packets_lost, stats.ptos), (0, 0), "probes are not in flight");
        }
    }
}

// ARQ-MTU-2
#[test]
fn a_longer_datagram_pays_for_its_search() {
    let mut rests: Vec<u64> = seeds(11)
        .map(|seed| {
            let transfer = |ceiling| {
                let scenario = Scenario::new(seed).wire(carrying(1_472)).config(searching(ceiling));
                run(&scenario.client_sends(stream(5))).client_stats
            };
            let (base, ethernet, jumbo) = (transfer(1_200), transfer(1_472), transfer(JUMBO));
            println!("{} {} {} bytes", base.bytes_sent, ethernet.bytes_sent, jumbo.bytes_sent);
            let [packets, bytes] =
                [ethernet.packets_sent < base.packets_sent, ethernet.bytes_sent < base.bytes_sent];
            assert!(packets && bytes, "ARQ_SEED={seed}");
            let sent = |stats: &Stats| stats.bytes_sent - stats.mtu_probe_bytes;
            sent(&jumbo).abs_diff(sent(&ethernet)) / jumbo.mtu_probes_sent
        })
        .collect();
    // What the search costs for each of its probes: a small packet, and by chance a part of a repair symbol.
    rests.sort_unstable();
    assert!(rests[rests.len() / 2] <= 300, "{rests:?} bytes beside each probe");
}

// ARQ-MTU-3, ARQ-MTU-6
#[test]
fn a_quarter_lost_does_not_lower_the_mtu() {
    for seed in seeds(5) {
        let wire = WireConfig { mtu: Some(1_472), ..lossy(0.25) };
        let scenario = Scenario::new(seed).wire(wire).config(searching(1_472));
        let beacon = Flow::reliable(1, 100, 400).every(50 * MS);
        let mut pair = Pair::new(&scenario.client_sends(stream(20)).client_sends([beacon]));
        pair.run_to_delivery(120 * SEC).unwrap_or_else(|halt| panic!("ARQ_SEED={seed}: {halt}"));
        let stats = client(&pair);
        assert_eq!((stats.path_mtu_bytes, stats.black_holes), (1_472, 0), "ARQ_SEED={seed}");
    }
}

// ARQ-MTU-4, ARQ-MTU-6
#[test]
fn outages_do_not_lower_the_mtu() {
    // Packets of a trial that an outage takes may speak against the size: 7 of 60 seeds return to base for ten minutes.
    let mut lowered = 0;
    for seed in seeds(24) {
        // The search begins in the first one.
        let blackouts = vec![45 * MS..SEC, 3 * SEC..8 * SEC, 9 * SEC..9 * SEC + 300 * MS];
        let wire = WireConfig { blackouts, mtu: Some(1_472), ..lossy(0.05) };
        let scenario = Scenario::new(seed).wire(wire).config(searching(1_472));
        let mut pair = Pair::new(&scenario.client_sends(stream(12)));
        pair.run_to_delivery(60 * SEC).unwrap_or_else(|halt| panic!("ARQ_SEED={seed}: {halt}"));
        let stats = client(&pair);
        assert_eq!(stats.black_holes, 0, "ARQ_SEED={seed}");
        lowered += u32::from(stats.path_mtu_bytes != 1_472);
    }
    assert!(lowered <= 4, "{lowered} of 24");
}

/// The longest that a message of the stream took, and the client's side afterwards, on a path that
/// carries `before` and from 2 s on `after`.
fn fall(seed: u64, before: usize, after: usize, loss: f32) -> (Duration, Stats) {
    let wire = WireConfig { mtu_changes: vec![(2 * SEC, after)], mtu: Some(before), ..lossy(loss) };
    let scenario = Scenario::new(seed).wire(wire).config(searching(JUMBO));
    let mut pair = Pair::new(&scenario.client_sends(stream(6)));
    pair.run_to_delivery(60 * SEC)
        .unwrap_or_else(|halt| panic!("ARQ_SEED={seed}: {halt}\n{}", pair.describe()));
    pair.world.run_for(SEC).unwrap();
    let inbox = pair.server_side().app.inbox(lane(5, Reliability::Reliable));
    (inbox.latencies.iter().max().copied().unwrap_or_default(), client(&pair))
}

// ARQ-MTU-6, ARQ-MSG-6
#[test]
fn a_path_that_carries_less_from_now_on_delivers_what_was_cut_for_more() {
    for seed in seeds(4) {
        for loss in [0.0, 0.1] {
            let (longest, stats) = fall(seed, 8_972, 1_252, loss);
            let case = format!("ARQ_SEED={seed}, loss {loss}");
            println!("{case}: {longest:?}, {} probes", stats.mtu_probes_sent);
            // Where much is lost, messages that are not bulk are cut for base: nothing long is there to vanish.
            if loss == 0.0 {
                assert_eq!((stats.path_mtu_bytes, stats.black_holes), (1_252, 1), "{case}");
            }
            assert!(longest <= 3 * SEC, "{case}: a message took {longest:?}");
        }
    }
}

// ARQ-MTU-7, ARQ-MSG-6
#[test]
fn a_path_below_base_delivers_in_small_packets() {
    for seed in seeds(5) {
        let (longest, stats) = fall(seed, 1_472, 700, 0.0);
        println!("ARQ_SEED={seed}: {longest:?}");
        // The search below base goes on while there is something to send.
        let carried = (576..=700).contains(&stats.path_mtu_bytes);
        assert!(carried && stats.black_holes > 0, "ARQ_SEED={seed}: {stats:?}");
        assert!(longest <= 5 * SEC, "ARQ_SEED={seed}: a message took {longest:?}");
    }
}

// ARQ-MTU-5
#[test]
fn a_path_that_carries_more_is_noticed_after_ten_minutes_of_use() {
    let wire = WireConfig { mtu_changes: vec![(10 * SEC, 8_972)], ..carrying(1_472) };
    let flow = Flow::reliable(5, 2_000, u64::MAX).every(100 * MS);
    let scenario = Scenario::new(1).wire(wire).config(searching(JUMBO)).client_sends([flow]);
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(SEC).unwrap();
    pair.world.run_for(595 * SEC).unwrap();
    assert_eq!(client(&pair).path_mtu_bytes, 1_472);
    pair.world.run_for(10 * SEC).unwrap();
    assert_eq!(client(&pair).path_mtu_bytes, 8_972);
}

// ARQ-MTU-5
#[test]
fn an_idle_link_has_no_timer_for_it() {
    let scenario = Scenario::new(1).wire(carrying(1_472)).config(searching(JUMBO));
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(SEC).unwrap();
    pair.world.run_for(5 * SEC).unwrap();
    let fired = |pair: &Pair| pair.client_side().timers_fired().get(&TimerKind::PathMtu).copied();
    let before = fired(&pair);
    pair.world.run_for(590 * SEC).unwrap();
    assert_eq!(fired(&pair), before);
}

// ARQ-MTU-8
#[test]
fn another_path_is_searched_anew() {
    let scenario = Scenario::new(1).wire(carrying(1_472)).config(searching(JUMBO));
    let mut pair = Pair::new(&scenario.both_send(stream(10)));
    pair.run_to_connected(SEC).unwrap();
    pair.world.run_for(2 * SEC).unwrap();
    let asked = pair.server_side().connection().stats().mtu_probes_sent;
    let host = pair.client;
    pair.world.rebind(host, ([192, 0, 2, 1], 5_000).into());
    pair.run_to_delivery(30 * SEC).unwrap();
    let stats = pair.server_side().connection().stats();
    assert!(stats.mtu_probes_sent > asked, "{stats:?}");
    assert_eq!((stats.path_mtu_bytes, stats.black_holes), (1_472, 0));
}
