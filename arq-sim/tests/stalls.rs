// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Radios that stall: nothing arrives for a while, and then everything does. What is sent again meanwhile waits behind
//! what it repeats.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use arq_proto::Reliability;
use arq_sim::{lane, Flow, Pair, Scenario, WireConfig};
use impairments::{recording, Discipline, Frame, Limit, LinkConfig, Opportunities, Rate};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// Of IPv4 and UDP.
const HEADER_BYTES: u64 = 28;

/// A radio with these opportunities, 20 ms beside them, and a queue of 150 KB.
fn radio(opportunities: Opportunities) -> WireConfig {
    let link = LinkConfig {
        rate: Rate::Opportunities(opportunities),
        queue: Discipline::DropTail(Limit::Bytes(150_000)),
        frame: Frame::SINGLE,
    };
    WireConfig { link: Some(link), ..WireConfig::with_delay(20 * MS) }
}

/// What a minute of commands of 200 B at 50 Hz beside images of 6 KB at 10 Hz costs, once `learnt` has passed.
struct Drive {
    /// Bytes on the wire for each that arrives.
    bytes: f64,
    median: Duration,
    p99: Duration,
}

fn drive(seed: u64, up: WireConfig, down: WireConfig, learnt: Duration) -> Drive {
    let scenario = Scenario { up, down, ..Scenario::new(seed) }.client_sends([
        Flow::reliable(1, 200, u64::MAX).every(20 * MS),
        Flow::reliable(5, 6_000, u64::MAX).every(100 * MS),
    ]);
    let mut pair = Pair::new(&scenario);
    let lanes = [1, 5].map(|priority| lane(priority, Reliability::Reliable));
    let totals = |pair: &Pair| {
        let stats = pair.client_side().connection().stats();
        let arrived = lanes.map(|lane| pair.server_side().app.inbox(lane).bytes);
        let commands = pair.server_side().app.inbox(lanes[0]).latencies.len();
        (
            stats.bytes_sent + HEADER_BYTES * stats.packets_sent,
            arrived.iter().sum::<u64>(),
            commands,
        )
    };
    pair.run_to_connected(20 * SECOND).unwrap();
    pair.world.run_for(learnt).unwrap();
    let before = totals(&pair);
    pair.world.run_for(60 * SECOND).unwrap();
    let after = totals(&pair);
    let mut late = pair.server_side().app.inbox(lanes[0]).latencies[before.2..].to_vec();
    late.sort_unstable();
    let [median, p99] = [50, 99].map(|percent| late[late.len() * percent / 100]);
    Drive { bytes: (after.0 - before.0) as f64 / (after.1 - before.1) as f64, median, p99 }
}

// ARQ-PTO-10
#[test]
fn what_waits_in_a_stalled_radio_is_not_sent_again_once_that_is_known() {
    for stalled in [300, 1_000, 1_500, 2_000] {
        // A packet each millisecond, but for so many in four seconds.
        let ms: Vec<u32> =
            (1..=4_000).filter(|ms| (stalled..4_000).contains(ms) || *ms == 4_000).collect();
        let opportunities = Opportunities::new(ms, 0).unwrap();
        for seed in 1..=3 {
            let up = radio(opportunities.clone());
            let Drive { bytes, median, p99 } =
                drive(seed, up, WireConfig::with_delay(20 * MS), 9 * SECOND);
            println!("stalls of {stalled} ms, seed {seed}: {bytes:.2} bytes, {median:?}, {p99:?}");
            assert!(bytes <= 1.12, "{stalled} ms, seed {seed}: {bytes:.2}");
        }
    }
}

// ARQ-PTO-10
#[test]
fn recorded_radios_carry_little_twice() {
    for (file, most) in [
        ("nyc-lte/bus.down", 1.13),
        ("nyc-lte/taxi.down", 1.13),
        ("nyc-lte/walking.down", 1.15),
        ("starlink-leocc/link.mm", 1.10),
        ("att-lte-2016/down.mm", 1.12),
        ("att-lte-2016/up.mm", 1.20),
    ] {
        let text = match recording::text(file) {
            Ok(text) => text,
            Err(error) => {
                println!("*** SKIPPED {file}: {error}");
                continue;
            }
        };
        let all = recording::opportunities(&text).unwrap();
        let drives: Vec<_> = (1..=4)
            .map(|seed| {
                let from = |ms| radio(all.starting_at(ms + 40_000 * seed));
                drive(seed, from(7_000), from(20_000), Duration::ZERO)
            })
            .collect();
        let mean = drives.iter().map(|drive| drive.bytes).sum::<f64>() / drives.len() as f64;
        for Drive { bytes, median, p99 } in drives {
            println!("{file}: {bytes:.2} bytes, {median:?}, {p99:?}");
        }
        assert!(mean <= most, "{file}: {mean:.3} bytes for each that arrives");
    }
}
