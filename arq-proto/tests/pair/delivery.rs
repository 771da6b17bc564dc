// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Is everything delivered, once and in order, whatever the wire does? The applications of the
//! simulator check each message; a scenario succeeds only when all have arrived.

use std::{cell::Cell, rc::Rc, time::Duration};

use arq_proto::Config;
use arq_sim::{hostile, Datagram, Flow, Forged, Loss, Pair, Scenario, Verdict, WireConfig};

use crate::common::{lossy, run_seeds, seeds, MS, SEC};

/// 1 B, 1 KB and 64 KB messages on all eight priorities.
fn on_all_lanes() -> Vec<Flow> {
    let sizes = [(1, 20), (1_000, 10), (65_535, 2)];
    (0..8)
        .flat_map(|priority| sizes.map(|(bytes, count)| Flow::reliable(priority, bytes, count)))
        .collect()
}

/// A publication of `megabytes`, in the largest messages there are.
fn large(priority: u8, megabytes: u64) -> Flow {
    Flow::reliable(priority, 62_500, megabytes * 16)
}

/// Delivers in both directions, on all lanes, with several seeds.
fn delivers(wire: &WireConfig) {
    run_seeds(5, |seed| Scenario::new(seed).wire(wire.clone()).both_send(on_all_lanes()));
}

#[test]
fn on_a_clean_wire_without_a_single_repetition() {
    let scenario = |seed| Scenario::new(seed).both_send(on_all_lanes());
    for report in run_seeds(5, scenario) {
        for stats in [&report.client_stats, &report.server_stats] {
            assert_eq!(stats.packets_lost, 0, "{stats:?}");
            assert_eq!(stats.chunks_retransmitted, 0, "{stats:?}");
            assert_eq!(stats.ptos, 0, "{stats:?}");
            assert_eq!(stats.datagrams_dropped, 0, "{stats:?}");
        }
    }
}

#[test]
fn at_10_percent_loss() {
    delivers(&lossy(0.10));
}

// ARQ-LAN-3
#[test]
fn at_25_percent_loss() {
    delivers(&lossy(0.25));
}

#[test]
fn in_bursts_of_loss() {
    let loss = Loss::Bursts { good_packets: 50.0, bad_packets: 10.0, loss_in_bad: 0.9 };
    delivers(&WireConfig { loss, ..WireConfig::with_delay(10 * MS) });
}

// ARQ-MSG-3
#[test]
fn with_50_percent_reordering() {
    let wire = WireConfig::with_delay(10 * MS);
    delivers(&WireConfig { reorder: 0.5, hold_back: 20 * MS, ..wire });
}

// ARQ-NUM-4
#[test]
fn with_every_datagram_duplicated() {
    let wire = WireConfig::with_delay(10 * MS);
    delivers(&WireConfig { duplicate: 1.0, jitter: 5 * MS, ..wire });
}

#[test]
fn with_jitter_as_long_as_the_delay() {
    delivers(&WireConfig { jitter: 10 * MS, ..WireConfig::with_delay(10 * MS) });
}

// ARQ-PKT-1
#[test]
fn with_corruption_and_truncation() {
    let wire = WireConfig::with_delay(10 * MS);
    delivers(&WireConfig { corrupt: 0.05, truncate: 0.05, ..wire });
}

#[test]
fn with_everything_at_once() {
    delivers(&WireConfig {
        jitter: 5 * MS,
        reorder: 0.5,
        hold_back: 20 * MS,
        duplicate: 1.0,
        corrupt: 0.01,
        truncate: 0.01,
        ..lossy(0.25)
    });
}

// ARQ-ACK-3
#[test]
fn with_loss_of_acknowledgements_only() {
    let scenario = |seed| {
        let scenario = Scenario { down: lossy(0.25), ..Scenario::new(seed) };
        scenario.client_sends(on_all_lanes())
    };
    for report in run_seeds(5, scenario) {
        // Every acknowledgement describes the whole window: losing some costs next to nothing.
        let stats = report.client_stats;
        let share = stats.chunks_retransmitted as f64 / stats.packets_sent as f64;
        assert!(share < 0.05, "{} of {}", stats.chunks_retransmitted, stats.packets_sent);
    }
}

#[test]
fn a_publication_of_one_megabyte_on_every_priority() {
    for wire in [WireConfig::with_delay(10 * MS), lossy(0.10), lossy(0.25)] {
        let flows: Vec<_> = (0..8).map(|priority| large(priority, 1)).collect();
        run_seeds(1, |seed| {
            Scenario::new(seed).wire(wire.clone()).both_send(flows.clone()).within(300 * SEC)
        });
    }
}

#[test]
fn a_publication_of_ten_megabytes() {
    for wire in [WireConfig::with_delay(10 * MS), lossy(0.10), lossy(0.25)] {
        run_seeds(1, |seed| {
            Scenario::new(seed).wire(wire.clone()).both_send([large(5, 10)]).within(300 * SEC)
        });
    }
}

#[test]
fn through_a_blackout_of_eight_seconds() {
    let dark = SEC..9 * SEC;
    run_seeds(20, |seed| {
        let wire = WireConfig { blackouts: vec![dark.clone()], ..lossy(0.05) };
        let ticks = Flow::reliable(3, 500, 120).every(100 * MS);
        Scenario::new(seed).wire(wire).both_send([ticks])
    });
}

// ARQ-PTO-2, ARQ-PTO-4
#[test]
fn soon_after_a_blackout() {
    let dark = SEC..9 * SEC;
    for report in run_seeds(20, |seed| {
        let wire = WireConfig { blackouts: vec![dark.clone()], ..WireConfig::with_delay(10 * MS) };
        Scenario::new(seed).wire(wire).client_sends([Flow::reliable(3, 500, 40).every(50 * MS)])
    }) {
        // The last message was meant for 2 s into the run: all that waited is there soon after the
        // end of the blackout, the probe interval being at most a second.
        let late = report.delivered_after.saturating_sub(dark.end);
        assert!(late < Duration::from_millis(1_500), "{late:?} after the blackout");
    }
}

// ARQ-PKT-4
#[test]
fn in_datagrams_no_longer_than_the_mtu() {
    for mtu in [576, 1_200, 1_452, 9_000] {
        let config = Config { mtu: Some(mtu), ..Config::default() };
        // The handshake is padded to what every path carries.
        let wire = WireConfig { mtu: Some(usize::from(mtu.max(1_200))), ..lossy(0.10) };
        for seed in seeds(3) {
            let scenario = Scenario::new(seed).wire(wire.clone()).config(config.clone());
            let mut pair = Pair::new(&scenario.both_send(on_all_lanes()));
            let longest = Rc::new(Cell::new(0));
            let seen = longest.clone();
            pair.world.set_tap(move |_: Duration, datagram: &Datagram, _: &mut Vec<Forged>| {
                if hostile::sight(&datagram.bytes).is_some() {
                    seen.set(seen.get().max(datagram.bytes.len()));
                }
                Verdict::Pass
            });
            pair.run_to_delivery(60 * SEC).unwrap_or_else(|halt| {
                panic!("seed {seed}: {halt}\n{}{}", pair.describe(), pair.world.log().ladder(30))
            });
            let (longest, mtu) = (longest.get(), usize::from(mtu));
            assert!((mtu - 50..=mtu).contains(&longest), "seed {seed}: {longest} of {mtu} bytes");
        }
    }
}

// ARQ-MSG-1, ARQ-MSG-2
#[test]
fn in_chunks_of_every_size() {
    for chunk in [512, 777, 1_100] {
        let config = Config { chunk_bytes: Some(chunk), ..Config::default() };
        run_seeds(3, |seed| {
            Scenario::new(seed).wire(lossy(0.10)).config(config.clone()).both_send(on_all_lanes())
        });
    }
}

#[test]
fn when_timers_fire_late() {
    run_seeds(5, |seed| {
        let scenario = Scenario { timer_lateness: 3 * MS, ..Scenario::new(seed) };
        scenario.wire(lossy(0.25)).both_send(on_all_lanes())
    });
}
