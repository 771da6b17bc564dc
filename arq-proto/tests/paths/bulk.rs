// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Bulk leaves on both radios; what is urgent does not suffer.

use std::time::Duration;

use arq_proto::Reliability;
use arq_sim::{lane, Bottleneck, Flow, Loss, Pair, Scenario, WireConfig};

use crate::common::{run, seeds, MS};

/// A radio of so many megabits a second, with a queue of 100 ms.
fn radio(mbps: u32, delay: Duration, loss: f32) -> WireConfig {
    let (rate_bps, queue_bytes) = (u64::from(mbps) * 1_000_000, mbps * 12_500);
    WireConfig {
        bottleneck: Some(Bottleneck { rate_bps, queue_bytes }),
        loss: Loss::Random(loss),
        ..WireConfig::with_delay(delay)
    }
}

fn images() -> Flow {
    Flow::reliable(6, 60_000, 330)
}

/// Megabits a second that arrive.
fn goodput(scenario: &Scenario) -> f64 {
    run(scenario).goodput_bps() / 1e6
}

// ARQ-MP-7
#[test]
fn bulk_uses_what_both_radios_carry() {
    for (mbps, delays, loss) in
        [([20, 5], [15, 60], 0.0), ([50, 50], [20, 20], 0.0), ([20, 5], [15, 60], 0.05)]
    {
        let mut shares = Vec::new();
        for seed in seeds(3) {
            let [first, second] = [0, 1].map(|n| radio(mbps[n], delays[n] * MS, loss));
            let alone = [&first, &second].map(|wire| {
                goodput(&Scenario::new(seed).wire(wire.clone()).client_sends([images()]))
            });
            let both =
                goodput(&Scenario::new(seed).wire(first).radio(second).client_sends([images()]));
            println!("{mbps:?} Mb/s, {loss}, seed {seed}: {alone:.1?} alone, {both:.1} together");
            shares.push(both / (alone[0] + alone[1]));
        }
        shares.sort_by(f64::total_cmp);
        assert!(shares[shares.len() / 2] > 0.9, "{mbps:?}, {loss}: {shares:?}");
    }
}

// ARQ-MP-7
#[test]
fn an_urgent_beacon_beside_bulk_on_both_radios_is_no_later_than_beside_it_on_the_better_one() {
    let beacon = || Flow::reliable(1, 100, 500).every(20 * MS);
    let p99 = |scenario: Scenario| {
        let mut pair = Pair::new(&scenario.client_sends([images(), beacon()]));
        pair.run_to_connected(Duration::from_secs(1)).unwrap();
        pair.run_to_delivery(Duration::from_secs(200)).unwrap();
        let inbox = pair.server_side().app.inbox(lane(1, Reliability::Reliable));
        let mut latencies = inbox.latencies[50..].to_vec();
        latencies.sort_unstable();
        latencies[latencies.len() * 99 / 100]
    };
    for seed in seeds(3) {
        let [first, second] = [radio(20, 15 * MS, 0.0), radio(5, 60 * MS, 0.0)];
        let alone = p99(Scenario::new(seed).wire(first.clone()));
        let both = p99(Scenario::new(seed).wire(first).radio(second));
        println!("seed {seed}: {alone:?} alone, {both:?} on both");
        assert!(
            both.as_secs_f64() <= 1.2 * alone.as_secs_f64(),
            "seed {seed}: {alone:?}, {both:?}"
        );
    }
}

/// The 99th percentile of how late images of 100 KB are, of which one leaves each 160 ms: 5 Mb/s. Two messages make an
/// image.
fn late_images(scenario: Scenario) -> Duration {
    let half = || Flow::reliable(5, 50_000, 300).every(160 * MS);
    let mut pair = Pair::new(&scenario.client_sends([half(), half()]));
    pair.run_to_connected(Duration::from_secs(1)).unwrap();
    pair.run_to_delivery(Duration::from_secs(200)).unwrap();
    let inbox = pair.server_side().app.inbox(lane(5, Reliability::Reliable));
    let mut latencies = inbox.latencies[50..].to_vec();
    latencies.sort_unstable();
    latencies[latencies.len() * 99 / 100]
}

// ARQ-MP-7
#[test]
fn images_that_load_the_radios_by_a_third_are_no_later_than_over_the_better_one() {
    for (mbps, delays, loss) in [([20, 5], [15, 60], 0.0), ([50, 50], [20, 20], 0.05)] {
        let mut shares = Vec::new();
        for seed in seeds(3) {
            let [first, second] = [0, 1].map(|n| radio(mbps[n], delays[n] * MS, loss));
            let alone = late_images(Scenario::new(seed).wire(first.clone()));
            let both = late_images(Scenario::new(seed).wire(first).radio(second));
            println!("{mbps:?} Mb/s, {loss}, seed {seed}: {alone:?} alone, {both:?} on both");
            shares.push(both.as_secs_f64() / alone.as_secs_f64());
        }
        shares.sort_by(f64::total_cmp);
        assert!(shares[shares.len() / 2] <= 1.05, "{mbps:?}, {loss}: {shares:?}");
    }
}
