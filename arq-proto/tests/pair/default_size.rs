// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How long packets become with nothing configured, and what that costs where long ones do not pass, or not as well.

use std::time::Duration;

use arq_proto::{Config, Reliability, SocketId, Stats};
use arq_sim::{lane, Bottleneck, Datagram, Flow, Forged, Pair, Scenario, Verdict, WireConfig};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::common::{lossy, seeds, MS, SEC};

/// 20 Mb/s over so many bytes of UDP payload.
fn carrying(mtu: usize) -> WireConfig {
    let bottleneck = Some(Bottleneck { rate_bps: 20_000_000, queue_bytes: 100_000 });
    WireConfig { mtu: Some(mtu), bottleneck, ..WireConfig::with_delay(10 * MS) }
}

fn at_most(mtu: u16) -> Config {
    Config { mtu: Some(mtu), ..Config::default() }
}

fn client(pair: &Pair) -> Stats {
    pair.client_side().connection().stats()
}

fn latencies(pair: &Pair) -> Vec<Duration> {
    pair.server_side().app.inbox(lane(5, Reliability::Reliable)).latencies.clone()
}

fn sorted(mut latencies: Vec<Duration>) -> Vec<Duration> {
    latencies.sort_unstable();
    latencies
}

/// `flow` from the client to the server, and what its messages took.
fn deliver(seed: u64, wire: WireConfig, config: Config, flow: &Flow) -> (Vec<Duration>, Stats) {
    let mut pair =
        Pair::new(&Scenario::new(seed).wire(wire).config(config).client_sends([flow.clone()]));
    pair.run_to_delivery(120 * SEC).unwrap_or_else(|halt| panic!("ARQ_SEED={seed}: {halt}"));
    (latencies(&pair), client(&pair))
}

// ARQ-MTU-1, ARQ-MTU-9
#[test]
fn long_packets_are_used_by_default_on_a_path_of_1500_bytes() {
    let flow = Flow::reliable(5, 60_000, 200).every(50 * MS);
    let (_, stats) = deliver(1, carrying(1_472), Config::default(), &flow);
    assert_eq!((stats.path_mtu_bytes, stats.mtu_probes_sent, stats.mtu_probes_lost), (1_472, 1, 0));
    assert!(stats.chunk_bytes > 1_350, "{stats:?}");
    let (_, short) = deliver(1, carrying(1_472), at_most(1_200), &flow);
    println!("{} packets, {} of up to 1,200 bytes", stats.packets_sent, short.packets_sent);
    assert!(stats.bytes_sent < short.bytes_sent, "{stats:?}\n{short:?}");
    assert!(stats.packets_sent < short.packets_sent * 9 / 10, "{stats:?}\n{short:?}");
}

// ARQ-MTU-2
#[test]
fn who_has_nothing_long_to_send_asks_nothing() {
    let flow = Flow::reliable(5, 1_000, 500).every(10 * MS);
    let (_, stats) = deliver(1, carrying(1_472), Config::default(), &flow);
    assert_eq!((stats.mtu_probes_sent, stats.path_mtu_bytes), (0, 1_200));
}

// ARQ-MTU-2
#[test]
fn a_slow_line_is_not_asked() {
    let bottleneck = Some(Bottleneck { rate_bps: 512_000, queue_bytes: 20_000 });
    let wire = WireConfig { bottleneck, ..carrying(1_472) };
    let flow = Flow::reliable(5, 10_000, 20).every(SEC);
    let (_, stats) = deliver(1, wire, Config::default(), &flow);
    assert_eq!(stats.mtu_probes_sent, 0);
}

// ARQ-MTU-2, ARQ-MTU-9
#[test]
fn the_first_messages_are_no_later_for_it() {
    for carries in [1_472, 1_252] {
        for (bytes, gap) in [(2_000, 10 * MS), (10_000, 10 * MS), (60_000, 30 * MS)] {
            let flow = Flow::reliable(5, bytes, 20).every(gap);
            let (base, _) = deliver(1, carrying(carries), at_most(1_200), &flow);
            let (default, _) = deliver(1, carrying(carries), Config::default(), &flow);
            assert_eq!(base[0], default[0], "{carries}, {bytes}: the first one");
            let (base, default) = (base.iter().sum::<Duration>(), default.iter().sum::<Duration>());
            println!("{carries}, {bytes} bytes: {default:?}, {base:?} in packets of 1,200");
            // One packet in eight is filled up with a quarter of its size, for five hundred packets.
            assert!(default < base.mul_f64(1.03), "{carries}, {bytes}: {default:?}, {base:?}");
        }
    }
}

// ARQ-MTU-1, ARQ-MTU-2
#[test]
fn a_tunnel_of_1280_bytes_loses_probes_alone_and_is_as_quick() {
    let flow = Flow::reliable(5, 30_000, 200).every(20 * MS);
    for carries in [1_232, 1_252] {
        let (base, _) = deliver(1, carrying(carries), at_most(1_200), &flow);
        let (default, stats) = deliver(1, carrying(carries), Config::default(), &flow);
        let (base, default) = (sorted(base), sorted(default));
        println!("{carries}: {} probes, {} lost", stats.mtu_probes_sent, stats.mtu_probes_lost);
        assert_eq!((usize::from(stats.path_mtu_bytes), stats.packets_lost), (carries, 0));
        assert!(stats.mtu_probe_bytes < 20_000, "{stats:?}");
        for percent in [50, 99] {
            let (base, default) =
                (base[base.len() * percent / 100], default[default.len() * percent / 100]);
            println!("{carries}, p{percent}: {default:?}, {base:?} in packets of 1,200");
            assert!(default <= base + 2 * MS, "{carries}, p{percent}: {default:?}, {base:?}");
        }
    }
}

/// A fifth of the packets with more than 1,400 bytes is lost. When the last of them was sent, and what 100 KB ten times a
/// second took.
fn lossy_above_1400(seed: u64, config: Config) -> (Duration, Vec<Duration>, Stats) {
    use std::{cell::Cell, rc::Rc};
    let wire = WireConfig {
        bottleneck: Some(Bottleneck { rate_bps: 50_000_000, queue_bytes: 250_000 }),
        ..WireConfig::with_delay(5 * MS)
    };
    // As zenoh cuts them.
    let flow = Flow::reliable(5, 50_000, 240).every(100 * MS);
    let mut pair = Pair::new(
        &Scenario::new(seed).wire(wire).config(config).client_sends([flow.clone(), flow]),
    );
    let last = Rc::new(Cell::new(Duration::ZERO));
    let (seen_last, mut rng) = (last.clone(), ChaCha8Rng::seed_from_u64(seed));
    pair.world.set_tap(move |at: Duration, seen: &Datagram, _: &mut Vec<Forged>| {
        let is_long = seen.bytes.len() + 28 > 1_400;
        if is_long {
            seen_last.set(at);
        }
        match is_long && rng.next_u32().is_multiple_of(5) {
            true => Verdict::Withhold,
            false => Verdict::Pass,
        }
    });
    pair.run_to_delivery(60 * SEC).unwrap_or_else(|halt| panic!("ARQ_SEED={seed}: {halt}"));
    (last.get(), sorted(latencies(&pair)), client(&pair))
}

// ARQ-MTU-9
#[test]
fn a_size_that_passes_and_loses_more_is_left() {
    for config in [Config::default(), at_most(1_452)] {
        let (mut settled, mut late) = (Vec::new(), Vec::new());
        for seed in seeds(12) {
            let (last, latencies, stats) = lossy_above_1400(seed, config.clone());
            println!("ARQ_SEED={seed}: {last:?}, p99 {:?}", latencies[latencies.len() * 99 / 100]);
            assert_eq!((stats.path_mtu_bytes, stats.black_holes), (1_200, 0), "ARQ_SEED={seed}");
            settled.push(last);
            late.push(latencies[latencies.len() * 99 / 100]);
        }
        settled.sort_unstable();
        late.sort_unstable();
        println!("settled {settled:?}, p99 {late:?}");
        let median = settled[settled.len() / 2];
        assert!(median < 3 * SEC / 2, "{median:?}");
        assert!(settled.iter().all(|&last| last < 5 * SEC), "{settled:?}");
    }
}

// ARQ-MTU-9
#[test]
fn loss_that_spares_no_size_leaves_the_long_one() {
    for seed in seeds(4) {
        for loss in [0.01, 0.1] {
            let wire = WireConfig { mtu: Some(1_472), ..lossy(loss) };
            let flow = Flow::reliable(5, 60_000, 200).every(50 * MS);
            let (_, stats) = deliver(seed, wire, Config::default(), &flow);
            assert_eq!(stats.path_mtu_bytes, 1_472, "ARQ_SEED={seed}, loss {loss}");
        }
    }
}

// ARQ-MTU-6
#[test]
fn a_path_that_carries_less_from_now_on_is_found_out_with_the_defaults_too() {
    for seed in seeds(4) {
        let wire = WireConfig { mtu_changes: vec![(6 * SEC, 1_252)], ..carrying(1_472) };
        let flow = Flow::reliable(5, 60_000, 200).every(50 * MS);
        let (latencies, stats) = deliver(seed, wire, Config::default(), &flow);
        let longest = latencies.into_iter().max().unwrap_or_default();
        println!("ARQ_SEED={seed}: {longest:?}");
        assert_eq!((stats.path_mtu_bytes, stats.black_holes), (1_252, 1), "ARQ_SEED={seed}");
        assert!(longest <= 2 * SEC, "ARQ_SEED={seed}: a message took {longest:?}");
    }
}

/// What the system or the network claims may be wrong, or made up.
// ARQ-MTU-1, ARQ-MTU-4
#[test]
fn what_is_claimed_of_the_path_takes_no_size_away_that_passes() {
    let flow = Flow::reliable(5, 60_000, u64::MAX).every(50 * MS);
    let mut pair = Pair::new(&Scenario::new(1).wire(carrying(1_472)).client_sends([flow.clone()]));
    pair.run_to_connected(SEC).unwrap();
    pair.world.run_for(3 * SEC).unwrap();
    let conn = pair.conn;
    for bytes in [0, 100, 552, 1_200, 1_252] {
        pair.world.with_conn(conn, |clock, core, _| {
            core.handle_interface_mtu(clock.now(), SocketId::default(), bytes);
            core.handle_refused(clock.now(), SocketId::default(), 1_472);
            core.handle_refused(clock.now(), SocketId::default(), 1_200);
        });
        pair.world.run_for(SEC).unwrap();
        let stats = client(&pair);
        assert_eq!((stats.path_mtu_bytes, stats.black_holes), (1_472, 0), "{bytes}");
        assert!(stats.chunk_bytes > 1_350, "{bytes}: {stats:?}");
    }
    // Who is told so before anything was asked stays with what passes everywhere.
    let mut pair = Pair::new(&Scenario::new(1).wire(carrying(1_472)).client_sends([flow.clone()]));
    pair.run_to_connected(SEC).unwrap();
    let conn = pair.conn;
    pair.world.with_conn(conn, |clock, core, _| {
        core.handle_interface_mtu(clock.now(), SocketId::default(), 100)
    });
    pair.world.run_for(5 * SEC).unwrap();
    assert_eq!((client(&pair).path_mtu_bytes, client(&pair).mtu_probes_sent), (1_200, 0));
}

// ARQ-MTU-1
#[test]
fn an_interface_that_carries_jumbo_frames_is_made_use_of() {
    let flow = Flow::reliable(5, 60_000, u64::MAX).every(50 * MS);
    for (carries, found) in [(8_972, 8_972), (1_472, 1_472)] {
        let mut pair =
            Pair::new(&Scenario::new(1).wire(carrying(carries)).client_sends([flow.clone()]));
        pair.run_to_connected(SEC).unwrap();
        let conn = pair.conn;
        pair.world.with_conn(conn, |clock, core, _| {
            core.handle_interface_mtu(clock.now(), SocketId::default(), 8_972)
        });
        pair.world.run_for(5 * SEC).unwrap();
        let stats = client(&pair);
        assert_eq!((stats.path_mtu_bytes, stats.packets_lost), (found, 0), "{stats:?}");
        assert!(u32::from(stats.chunk_bytes) > u32::from(found) - 100, "{stats:?}");
    }
}

// ARQ-MTU-9
#[test]
fn small_messages_are_no_later_once_long_packets_are_in_use() {
    // Of the last third of 2,250 messages, those that waited for a repair.
    let late = |mtu| -> usize {
        let count = |seed| {
            let wire = WireConfig { mtu: Some(1_472), ..lossy(0.1) };
            let flow = Flow::reliable(5, 10_000, 2_250).every(20 * MS);
            let config = Config { mtu, ..Config::default() };
            let scenario = Scenario::new(seed).wire(wire).config(config).client_sends([flow]);
            let mut pair = Pair::new(&scenario);
            pair.run_to_delivery(120 * SEC)
                .unwrap_or_else(|halt| panic!("ARQ_SEED={seed}: {halt}"));
            let inbox = pair.server_side().app.inbox(lane(5, Reliability::Reliable));
            inbox.latencies.iter().skip(1_500).filter(|&&latency| latency > 25 * MS).count()
        };
        seeds(8).map(count).sum()
    };
    let (short, long) = (late(Some(1_200)), late(None));
    assert!(10 * long <= 15 * short, "{long} of 6,000 late, with packets of 1,200 bytes {short}");
}
