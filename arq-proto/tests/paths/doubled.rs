// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Lanes that leave on two paths at once: how late are their messages when a radio goes, and what does it cost?

use std::{ops::RangeInclusive, time::Duration};

use arq_proto::Reliability;
use arq_sim::{lane, Flow, Pair, Scenario, WireConfig};

use crate::common::{run, seeds, MS, SEC};

/// Two radios of 30 ms one way, the first of which is gone from 4 to 7 s; these priorities leave on both, as long as so many
/// percent are needless.
fn doubled(seed: u64, priorities: RangeInclusive<u8>, percent: u8) -> Scenario {
    let wire = WireConfig::with_delay(30 * MS);
    let first = WireConfig { blackouts: vec![4 * SEC..7 * SEC], ..wire.clone() };
    let mut scenario = Scenario::new(seed).wire(first).radio(wire);
    scenario.config.duplicate = Some(priorities);
    scenario.config.copies_percent = percent;
    scenario
}

/// Runs it to the end. Every application checks that each message comes once and in order.
fn ride(scenario: &Scenario) -> Pair {
    let mut pair = Pair::new(scenario);
    pair.run_to_connected(scenario.limit).unwrap();
    pair.run_to_delivery(scenario.limit).unwrap_or_else(|halt| {
        panic!("{halt}\n{}\n{}", pair.describe(), pair.world.log().ladder(60))
    });
    pair
}

fn longest(pair: &Pair, priority: u8, reliability: Reliability) -> Duration {
    let inbox = pair.server_side().app.inbox(lane(priority, reliability));
    inbox.latencies.iter().skip(10).copied().max().unwrap()
}

/// Needless bytes of the client as a share of all that it sent.
fn needless(pair: &Pair) -> f64 {
    let paths: Vec<_> = pair.client_side().connection().paths().collect();
    let sum = |of: fn(&arq_proto::PathStats) -> u64| paths.iter().map(of).sum::<u64>() as f64;
    sum(|path| path.needless_bytes) / sum(|path| path.bytes_sent)
}

// ARQ-MP-10
#[test]
fn what_left_on_both_radios_is_not_late_when_one_goes() {
    for seed in seeds(5) {
        let commands = Flow::reliable(2, 250, 500).every(20 * MS);
        let images = Flow::reliable(3, 9_000, 50).every(200 * MS);
        let best_effort = Flow::best_effort(2, 250, 500).every(20 * MS);
        let scenario = doubled(seed, 2..=3, 100).client_sends([commands, images, best_effort]);
        let pair = ride(&scenario);
        for (priority, reliability, most) in [
            (2, Reliability::Reliable, 45 * MS),
            (2, Reliability::BestEffort, 45 * MS),
            // The second radio's pacer does not let eight packets out at once.
            (3, Reliability::Reliable, 75 * MS),
        ] {
            let longest = longest(&pair, priority, reliability);
            assert!(longest <= most, "seed {seed}, {priority}, {reliability:?}: {longest:?}");
        }
        let best_effort = pair.server_side().app.inbox(lane(2, Reliability::BestEffort)).messages;
        assert_eq!(best_effort, 500, "seed {seed}");
    }
}

// ARQ-MP-10
#[test]
fn no_more_is_doubled_than_copies_allow() {
    for (percent, bounds) in [(10, 0.07..0.12), (0, 0.0..0.001)] {
        let commands = Flow::reliable(2, 250, 6_000).every(20 * MS);
        let mut scenario = doubled(1, 1..=2, percent).within(200 * SEC).client_sends([commands]);
        scenario.up.blackouts.clear();
        scenario.down.blackouts.clear();
        let share = needless(&ride(&scenario));
        assert!(bounds.contains(&share), "{percent} %: {share}");
    }
}

// ARQ-MP-10
#[test]
fn a_lane_that_is_not_named_and_one_path_alone_are_as_ever() {
    let commands = || [Flow::reliable(2, 250, 300).every(20 * MS)];
    let lossy = || {
        Scenario::new(3).wire(WireConfig {
            loss: arq_sim::Loss::Random(0.1),
            ..WireConfig::with_delay(10 * MS)
        })
    };
    let mut named = lossy().client_sends(commands());
    named.config.duplicate = Some(0..=7);
    named.config.paths = 4;
    let mut plain = lossy().client_sends(commands());
    plain.config.paths = 4;
    assert_eq!(run(&named).trace_hash, run(&plain).trace_hash);
    let share = needless(&ride(&doubled(1, 3..=4, 100).client_sends(commands())));
    assert!(share < 0.03, "{share}");
}

// ARQ-MP-10
#[test]
fn where_both_radios_lose_and_fade_all_arrives() {
    for seed in seeds(20) {
        let mut scenario = doubled(seed, 0..=7, 100);
        let fades = |seed| arq_sim::FadeConfig {
            share: 0.1,
            mean: 200 * MS,
            is_regular: false,
            lost: 1.0,
            seed,
        };
        let wire = |seed| WireConfig {
            loss: arq_sim::Loss::Random(0.1),
            fades: Some(fades(seed)),
            ..WireConfig::with_delay(30 * MS)
        };
        (scenario.up, scenario.down) = (wire(2 * seed), wire(2 * seed));
        scenario.radios = vec![(wire(2 * seed + 1), wire(2 * seed + 1))];
        let flows = [
            Flow::reliable(2, 250, 300).every(20 * MS),
            Flow::reliable(5, 30_000, 20).every(300 * MS),
            Flow::best_effort(3, 3_000, 50).every(100 * MS),
        ];
        ride(&scenario.both_send(flows));
    }
}
