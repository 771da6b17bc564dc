// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Has a change moved latency under loss, or what it costs? The tables in git say how it was.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::time::Duration;

use arq_proto::Reliability;
use arq_sim::{lane, Bottleneck, Flow, Loss, Pair, Scenario, WireConfig};

const MS: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(60);
/// Of IPv4 and UDP.
const HEADER_BYTES: u64 = 28;

#[test]
fn the_table_is_as_it_was() {
    common::assert_snapshot("repair.md", &arq_sim::repair::render());
}

#[test]
fn the_first_two_seconds_are_as_they_were() {
    common::assert_snapshot("cold.md", &arq_sim::cold::render());
}

/// How late the urgent messages of 350 B at 30 Hz are, and bytes on the wire for each that arrives. The bench has the same
/// radio in `scenarios/thin-radio.toml`. Images of 20 KB at 4 Hz share it.
fn urgent_beside_images(seed: u64) -> (Vec<Duration>, f64) {
    let wire = WireConfig {
        jitter: 4 * MS,
        jitter_in_order: true,
        loss: Loss::Random(0.12),
        bottleneck: Some(Bottleneck { rate_bps: 6_000_000, queue_bytes: 30_000 }),
        ..WireConfig::with_delay(MS)
    };
    let urgent = Flow::reliable(1, 350, 300).every(Duration::from_secs(1) / 30);
    let images = Flow::reliable(7, 20_000, 40).every(250 * MS);
    let scenario = Scenario { reads_together: true, ..Scenario::new(seed).wire(wire) };
    let mut pair = Pair::new(&scenario.client_sends([urgent, images]));
    pair.run_to_connected(LIMIT).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
    pair.run_to_delivery(LIMIT).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
    let [urgent, images] =
        [1, 7].map(|priority| pair.server_side().app.inbox(lane(priority, Reliability::Reliable)));
    let stats = pair.client_side().connection().stats();
    let sent = stats.bytes_sent + HEADER_BYTES * stats.packets_sent;
    (urgent.latencies.clone(), sent as f64 / (urgent.bytes + images.bytes) as f64)
}

fn p99(latencies: &mut [Duration]) -> Duration {
    latencies.sort_unstable();
    latencies[latencies.len() * 99 / 100]
}

// ARQ-REP-10, ARQ-CC-14
#[test]
fn an_urgent_message_beside_images_on_a_thin_radio_is_not_late() {
    let mut all = Vec::new();
    for seed in 1..=20 {
        let (mut latencies, bytes) = urgent_beside_images(seed);
        let late = p99(&mut latencies);
        println!("seed {seed}: {late:?}, {bytes:.2} bytes");
        assert!(late <= 25 * MS && bytes <= 1.68, "seed {seed}: {late:?}, {bytes:.2} bytes");
        all.append(&mut latencies);
    }
    let late = p99(&mut all);
    println!("all seeds: {late:?}");
    assert!(late <= 15 * MS, "p99 of seeds 1 to 20: {late:?}");
}

#[test]
fn commands_come_as_soon_behind_a_fade_as_they_did() {
    common::assert_snapshot("fades.md", &arq_sim::fades::render());
}
