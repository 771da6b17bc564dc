// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Hosts whose kernel loses what leaves in one call, and networks that only look like it.

use std::time::Duration;

use arq_proto::{Config, CongestionConfig};
use arq_sim::{Bottleneck, Flow, Loss, Pair, Policer, Scenario, WireConfig};

use crate::common::{seeds, MS, SEC};

const RATE_BPS: u64 = 20_000_000;

/// 20 Mb/s, 20 ms, a queue of 20 ms.
fn wire() -> WireConfig {
    let bottleneck = Bottleneck { rate_bps: RATE_BPS, queue_bytes: 50_000 };
    WireConfig { bottleneck: Some(bottleneck), ..WireConfig::with_delay(10 * MS) }
}

fn losing(loss: Loss) -> WireConfig {
    WireConfig { loss, ..wire() }
}

/// A tenth, in fades of twenty packets.
fn fades() -> Loss {
    Loss::Bursts { good_packets: 180.0, bad_packets: 20.0, loss_in_bad: 1.0 }
}

/// Always something to send.
fn bulk(seed: u64, up: WireConfig, batch_loss: f32) -> Scenario {
    let scenario = Scenario::new(seed).client_sends([Flow::reliable(5, 60_000, 100_000)]);
    // A fade ends with a number of packets: few acknowledgements would make it last for seconds.
    let down = WireConfig::with_delay(10 * MS);
    Scenario { segments: 54, batch_loss, up, down, ..scenario }
}

fn read(pair: &Pair) -> u64 {
    pair.server_side().app.bytes_read()
}

/// The goodput of a second, as a share of the rate.
fn goodput_of_a_second(pair: &mut Pair) -> f64 {
    let before = read(pair);
    pair.world.run_for(SEC).unwrap();
    (read(pair) - before) as f64 * 8.0 / RATE_BPS as f64
}

// ARQ-BAT-1, ARQ-BAT-2, ARQ-BAT-3, ARQ-BAT-4
#[test]
fn a_host_that_loses_batches_sends_single_packets_and_is_as_fast_as_others() {
    for (name, loss, least) in [
        ("no loss", Loss::None, 0.85),
        ("10 % lost", Loss::Random(0.1), 0.75),
        ("fades", fades(), 0.6),
    ] {
        for (batch_loss, within) in [(0.99, 2_500 * MS), (0.5, 3_000 * MS)] {
            let mut latest = Duration::ZERO;
            for seed in seeds(10) {
                let case = format!("{name}, {batch_loss} of the batches, ARQ_SEED={seed}");
                let mut pair = Pair::new(&bulk(seed, losing(loss), batch_loss));
                pair.run_to_connected(5 * SEC).unwrap();
                pair.world.run_for(4 * SEC).unwrap();
                let side = pair.client_side();
                let took = side.batches_lost_at.zip(side.connected_at).map(|(at, from)| at - from);
                assert!(
                    took.is_some_and(|took| took < within),
                    "{case}: {took:?}\n{}",
                    pair.describe()
                );
                latest = latest.max(took.unwrap_or_default());
                let goodput = goodput_of_a_second(&mut pair);
                assert!(goodput >= least, "{case}: {goodput} of the rate");
                let stats = pair.client_side().connection().stats();
                assert_eq!(stats.batches_stopped, 1, "{case}");
            }
            println!("{name}, {batch_loss} of the batches lost: found after {latest:?} at most");
        }
    }
}

// ARQ-BAT-1, ARQ-BAT-2
#[test]
fn a_stream_of_a_few_packets_gets_through_a_host_that_loses_batches() {
    for seed in seeds(10) {
        let stream = Flow::reliable(3, 10_000, 100).every(100 * MS);
        let scenario = Scenario::new(seed).wire(wire()).client_sends([stream]);
        let mut pair = Pair::new(&Scenario { batch_loss: 0.99, segments: 54, ..scenario });
        pair.run_to_delivery(12 * SEC).unwrap_or_else(|halt| panic!("ARQ_SEED={seed}: {halt}"));
        let found = pair.client_side().batches_lost_at;
        println!("seed {seed}: found after {found:?}");
        assert!(found.is_some_and(|at| at < 4 * SEC), "ARQ_SEED={seed}: {found:?}");
    }
}

// ARQ-BAT-3
#[test]
fn congestion_policers_and_fades_are_not_taken_for_damage() {
    let of = |congestion| Config { congestion, ..Config::default() };
    let tolerant = || of(CongestionConfig::Tolerant);
    let overfull = || of(CongestionConfig::Constant { window_bytes: 160_000 });
    let policed = WireConfig {
        policer: Some(Policer { rate_bps: RATE_BPS / 2, burst_bytes: 15_000 }),
        ..WireConfig::with_delay(10 * MS)
    };
    let shallow = WireConfig {
        bottleneck: Some(Bottleneck { rate_bps: RATE_BPS, queue_bytes: 12_000 }),
        ..wire()
    };
    for (name, wire, config) in [
        ("10 % lost", losing(Loss::Random(0.1)), tolerant()),
        ("a quarter lost", losing(Loss::Random(0.25)), tolerant()),
        ("fades", losing(fades()), tolerant()),
        ("a full queue", wire(), overfull()),
        ("cubic", wire(), of(CongestionConfig::Cubic)),
        ("a shallow queue", shallow.clone(), tolerant()),
        ("a shallow queue that is full", shallow, overfull()),
        ("a policer", policed.clone(), tolerant()),
        ("a policer that nobody heeds", policed, overfull()),
    ] {
        let mut lost = 0;
        for seed in seeds(10) {
            let mut pair = Pair::new(&bulk(seed, wire.clone(), 0.0).config(config.clone()));
            pair.run_to_connected(5 * SEC).unwrap();
            pair.world.run_for(10 * SEC).unwrap();
            let stats = pair.client_side().connection().stats();
            assert_eq!(stats.batches_stopped, 0, "{name}, ARQ_SEED={seed}");
            assert!(stats.batches_sent > 100, "{name}, ARQ_SEED={seed}");
            lost += stats.packets_lost * 100 / stats.packets_sent;
        }
        println!("{name}: {} % of the packets lost", lost / 10);
    }
}
