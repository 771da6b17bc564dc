// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does a standing association live through? Each test is an odd path that users have met, and everything reliable
//! must arrive over it on the same association.

use std::{ops::Range, time::Duration};

use arq_proto::Config;
use arq_sim::{Bottleneck, Flow, Loss, Pair, Report, Scenario, WireConfig};

use crate::common::{lossy, run_seeds, seeds, MS, SEC};

/// One message each 100 ms until `end`, in both directions.
fn ticks_until(end: Duration) -> [Flow; 1] {
    [Flow::reliable(3, 500, (end.as_millis() / 100) as u64).every(100 * MS)]
}

fn dark(seconds: Range<u32>) -> WireConfig {
    let blackouts = vec![seconds.start * SEC..seconds.end * SEC];
    WireConfig { blackouts, ..lossy(0.05) }
}

/// Half a radio fails: one side hears, and is not heard.
#[test]
fn an_outage_of_one_direction() {
    for (seconds, idle_timeout) in [(8, 15), (12, 15), (30, 60)] {
        let outage = dark(2..2 + seconds);
        for (up, down) in [(outage.clone(), lossy(0.05)), (lossy(0.05), outage.clone())] {
            run_seeds(5, |seed| {
                let config = Config { idle_timeout: idle_timeout * SEC, ..Config::default() };
                let scenario = Scenario::new(seed).both_send(ticks_until((seconds + 4) * SEC));
                Scenario { up: up.clone(), down: down.clone(), config, ..scenario }
                    .within((2 * seconds + 30) * SEC)
            });
        }
    }
}

#[test]
fn half_of_the_packets_lost_for_a_quarter_of_an_hour() {
    run_seeds(3, |seed| {
        let wire = WireConfig { loss: Loss::Random(0.5), ..WireConfig::with_delay(250 * MS) };
        let flow = Flow::reliable(3, 500, 900).every(SEC);
        Scenario::new(seed).wire(wire).both_send([flow]).within(1_000 * SEC)
    });
}

#[test]
fn reordering_at_a_high_rate_is_not_taken_for_loss() {
    let path = WireConfig {
        reorder: 0.1,
        hold_back: 5 * MS,
        bottleneck: Some(Bottleneck { rate_bps: 100_000_000, queue_bytes: 500_000 }),
        ..WireConfig::with_delay(10 * MS)
    };
    let reports: Vec<Report> = run_seeds(5, |seed| {
        let bulk = Flow::reliable(5, 60_000, 400);
        let back = WireConfig::with_delay(10 * MS);
        let scenario = Scenario::new(seed).client_sends([bulk]);
        Scenario { up: path.clone(), down: back, ..scenario }.within(60 * SEC)
    });
    let mut goodputs: Vec<f64> = reports.iter().map(|report| report.goodput_bps() / 1e6).collect();
    goodputs.sort_by(f64::total_cmp);
    println!("Mb/s: {goodputs:.0?}");
    assert!(goodputs[goodputs.len() / 2] > 60.0, "{goodputs:.0?} Mb/s");
}

/// A subscriber in a debugger, or a laptop whose lid is closed for a moment.
#[test]
fn a_receiver_that_is_frozen_for_seconds() {
    for frozen in [4 * SEC, 7 * SEC, 12 * SEC] {
        for seed in seeds(5) {
            let stream = Flow::reliable(5, 2_000, 1_000).every(20 * MS);
            let mut pair = Pair::new(&Scenario::new(seed).wire(lossy(0.02)).client_sends([stream]));
            let lived = pair.run_to_connected(10 * SEC).and_then(|_| {
                pair.world.run_for(SEC)?;
                pair.world.freeze(pair.server, frozen);
                pair.run_to_delivery(60 * SEC)
            });
            lived.unwrap_or_else(|halt| panic!("seed {seed}, {frozen:?}: {halt}"));
        }
    }
}

/// A NAT that forgets its bindings.
// ARQ-PTH-1, ARQ-PTH-4
#[test]
fn a_source_port_that_changes_each_300_ms() {
    for seed in seeds(5) {
        let mut pair =
            Pair::new(&Scenario::new(seed).wire(lossy(0.05)).both_send(ticks_until(20 * SEC)));
        let lived = pair.run_to_connected(10 * SEC).and_then(|_| {
            for port in 0..60 {
                pair.world.run_for(300 * MS)?;
                pair.world.rebind(pair.client, ([192, 0, 2, 1], 5_000 + port).into());
            }
            pair.run_to_delivery(60 * SEC)
        });
        lived.unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
        assert_eq!(pair.world.accepted(pair.server).len(), 1, "seed {seed}: the same association");
    }
}
