// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Two recorded radios of one vehicle: what is a second one worth to commands at 50 Hz, and what does it cost?
//!
//! Prints a table; `ARQ_SEED=n` begins elsewhere in the recordings.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use arq_proto::{PathStats, Reliability};
use arq_sim::{lane, Flow, Pair, Scenario, WireConfig};
use impairments::{recording, Discipline, Frame, Limit, LinkConfig, Rate};

const MS: Duration = Duration::from_millis(1);

/// A radio whose way to the vehicle is the recording `file`, 20 ms each way beside that.
fn recorded(file: &str, start_s: u64) -> (WireConfig, WireConfig) {
    let all = recording::opportunities(&recording::text(file).unwrap()).unwrap();
    let link = LinkConfig {
        rate: Rate::Opportunities(all.starting_at(start_s * 1_000)),
        queue: Discipline::DropTail(Limit::Bytes(250_000)),
        frame: Frame::SINGLE,
    };
    let wire = WireConfig::with_delay(20 * MS);
    (wire.clone(), WireConfig { link: Some(link), ..wire })
}

/// Two minutes over these radios: the latencies of the commands, sorted, and the vehicle's paths as the sender sees them.
fn drive(seed: u64, radios: &[&str]) -> (Vec<Duration>, Vec<PathStats>) {
    let mut wires = radios.iter().map(|file| recorded(file, 7 + 40 * seed));
    let (up, down) = wires.next().unwrap();
    let mut scenario = Scenario { up, down, radios: wires.collect(), ..Scenario::new(seed) };
    scenario.config.paths = if radios.len() > 1 { 4 } else { 1 };
    scenario.config.idle_timeout = Duration::from_secs(60);
    let scenario = scenario
        .within(Duration::from_secs(400))
        .server_sends([Flow::reliable(2, 250, 6_000).every(20 * MS)]);
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(scenario.limit).unwrap();
    pair.run_to_delivery(scenario.limit).unwrap();
    let inbox = pair.client_side().app.inbox(lane(2, Reliability::Reliable));
    let mut latencies = inbox.latencies[100..].to_vec();
    latencies.sort_unstable();
    (latencies, pair.server_side().connection().paths().collect())
}

fn percentile(sorted: &[Duration], per_mille: usize) -> Duration {
    sorted[(sorted.len() * per_mille / 1_000).min(sorted.len() - 1)]
}

/// The median over seeds of the 99th percentile of two radios, as a share of that of the better one alone, and of their
/// needless bytes as a share of all.
fn compare(name: &str, radios: [&str; 2]) -> (f64, f64) {
    let seed = std::env::var("ARQ_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(0..3, |seed: u64| seed..seed + 1);
    let (mut late, mut needless) = (Vec::new(), Vec::new());
    for seed in seeds {
        let alone = radios.map(|radio| drive(seed, &[radio]).0);
        let (both, paths) = drive(seed, &radios);
        let sum = |of: fn(&PathStats) -> u64| paths.iter().map(of).sum::<u64>() as f64;
        needless.push(sum(|path| path.needless_bytes) / sum(|path| path.bytes_sent));
        let [p99, p999] = [990, 999].map(|per_mille| {
            [&alone[0], &alone[1], &both].map(|latencies| percentile(latencies, per_mille))
        });
        println!(
            "{name}, seed {seed}: p99 {p99:.0?}, p99.9 {p999:.0?}, needless {:.1} %",
            100.0 * needless[needless.len() - 1]
        );
        late.push(p99[2].as_secs_f64() / p99[0].min(p99[1]).as_secs_f64());
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    (median(late), median(needless))
}

// ARQ-MP-5, ARQ-MP-6
#[test]
fn two_recorded_lte_radios_are_far_ahead_of_the_better_one() {
    for (name, radios) in [
        ("taxi + bus", ["nyc-lte/taxi.down", "nyc-lte/bus.down"]),
        ("on foot + taxi", ["nyc-lte/walking.down", "nyc-lte/taxi.down"]),
    ] {
        let (late, needless) = compare(name, radios);
        println!("{name}: {late:.2} of the better one");
        assert!(late <= 0.6 && needless <= 0.12, "{late}, {needless}");
    }
}

// ARQ-MP-6
#[test]
fn a_poor_radio_does_a_good_one_no_harm() {
    let (late, needless) =
        compare("taxi + Starlink", ["nyc-lte/taxi.down", "starlink-leocc/link.mm"]);
    println!("{late:.2} of the better one");
    assert!(late <= 1.1 && needless <= 0.12, "{late}, {needless}");
}
