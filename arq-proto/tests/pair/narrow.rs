// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Lines of a few kilobits a second, on which each packet takes a good part of a second.

use std::time::Duration;

use arq_proto::{Reliability, Stats};
use arq_sim::{lane, Bottleneck, Flow, Pair, Scenario, WireConfig};
use impairments::{Discipline, Frame, Limit, LinkConfig, Rate};

use crate::common::{seeds, MS, SEC};

/// Of IPv4 and UDP; the line of the simulator carries UDP payload.
const HEADER_BYTES: u64 = 28;

/// 300 ms one way.
fn line(rate_bps: u64) -> WireConfig {
    let bottleneck = Some(Bottleneck { rate_bps, queue_bytes: 64 << 10 });
    WireConfig { bottleneck, ..WireConfig::with_delay(300 * MS) }
}

fn wire_bytes(stats: &Stats) -> u64 {
    stats.bytes_sent + HEADER_BYTES * stats.packets_sent
}

/// Both sides send `flow`. How long it takes until each has had something from the other, and what each of them has
/// put on the wire a minute later.
fn first_and_minute(rate_bps: u64, flow: Flow) -> (Duration, [u64; 2]) {
    let mut pair = Pair::new(&Scenario::new(1).wire(line(rate_bps)).both_send([flow]));
    let both_have_read = |pair: &Pair| {
        pair.is_connected()
            && [pair.client_side(), pair.server_side()].iter().all(|s| s.app.messages_read() > 0)
    };
    let first = pair.run(60 * SEC, both_have_read);
    let first = first.unwrap_or_else(|halt| panic!("{rate_bps}: {halt}\n{}", pair.describe()));
    let bytes = |pair: &Pair| {
        [pair.client_side(), pair.server_side()].map(|side| wire_bytes(&side.connection().stats()))
    };
    let before = bytes(&pair);
    pair.world.run_for(60 * SEC).unwrap();
    let after = bytes(&pair);
    (first, [0, 1].map(|side| after[side] - before[side]))
}

// ARQ-HS-1, ARQ-RTT-1
#[test]
fn opens_in_two_round_trips_and_the_time_that_its_packets_take() {
    // Each packet but the first HELLO has some 200 bytes, and ten of them leave in each direction.
    for (rate, most_ms) in [(4_800, 6_000), (9_600, 3_500), (22_000, 2_000), (64_000, 1_500)] {
        let (first, _) = first_and_minute(rate, Flow::reliable(5, 100, 1));
        println!("{rate} b/s: {first:?}");
        assert!(first <= most_ms * MS, "{rate} b/s: {first:?}");
    }
}

// ARQ-LIV-1
#[test]
fn idle_it_takes_no_more_than_tcp() {
    // zenoh's keep-alive: a byte each 2.5 s, behind a length of two in a TCP segment, and its acknowledgement, each with
    // the 52 bytes of IPv4, TCP and the timestamps that Linux has switched on.
    let keep_alive = Flow::reliable(0, 1, 1_000).every(2_500 * MS);
    let tcp = 24 * (52 + 2 + 1 + 52);
    for rate in [9_600, 22_000, 64_000] {
        let (_, minute) = first_and_minute(rate, keep_alive.clone());
        println!("{rate} b/s: {minute:?} bytes a minute, {tcp} over tcp");
        assert!(minute.iter().all(|bytes| *bytes <= tcp), "{rate} b/s: {minute:?}, tcp {tcp}");
    }
}

// ARQ-RTT-1, ARQ-REP-6
#[test]
fn small_messages_leave_once() {
    let flow = Flow::reliable(5, 60, 1_000).every(SEC);
    for rate in [9_600, 22_000, 64_000] {
        let (_, minute) = first_and_minute(rate, flow.clone());
        // A message and an acknowledgement, each with its headers.
        let most = 62 * (60 + 2 * (HEADER_BYTES + 25));
        println!("{rate} b/s: {minute:?} bytes a minute");
        assert!(minute.iter().all(|bytes| *bytes <= most), "{rate} b/s: {minute:?}, {most}");
    }
}

/// Bulk over 10 Mb/s, whose way back carries `back_bps` and a command of `bytes` each 20 ms, with their headers. Returns
/// Mb/s, and the 99th percentile of the commands' latencies, once it runs.
fn over_a_thin_way_back(seed: u64, back_bps: u64, bytes: usize) -> (f64, Duration) {
    const MEASURED: Duration = Duration::from_secs(20);
    let wire = |rate_bps: u64, queue_bytes| WireConfig {
        link: Some(LinkConfig {
            rate: Rate::fixed(rate_bps as f64),
            queue: Discipline::DropTail(Limit::Bytes(queue_bytes)),
            frame: Frame::SINGLE,
        }),
        ..WireConfig::with_delay(5 * MS)
    };
    let scenario = Scenario::new(seed)
        .client_sends([Flow::reliable(5, 10_000, u64::MAX)])
        .server_sends([Flow::reliable(1, bytes, u64::MAX).every(20 * MS)]);
    let (up, down) = (wire(10_000_000, 50_000), wire(back_bps, 10_000));
    let mut pair = Pair::new(&Scenario { up, down, ..scenario });
    let [bulk, commands] = [5, 1].map(|priority| lane(priority, Reliability::Reliable));
    let start_up = pair.run_to_connected(10 * SEC).and_then(|_| pair.world.run_for(3 * SEC));
    start_up.unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
    let bytes = pair.server_side().app.inbox(bulk).bytes;
    let before = pair.client_side().app.inbox(commands).latencies.len();
    pair.world.run_for(MEASURED).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
    let bytes = pair.server_side().app.inbox(bulk).bytes - bytes;
    let mut latencies = pair.client_side().app.inbox(commands).latencies[before..].to_vec();
    latencies.sort_unstable();
    let p99 = latencies[latencies.len() * 99 / 100];
    (bytes as f64 * 8e-6 / MEASURED.as_secs_f64(), p99)
}

/// Each message fits, once: whoever sends it twice overloads the line, and nothing but the queue tells.
// ARQ-CC-6
#[test]
fn a_thin_stream_that_nearly_fills_its_line_is_sent_once() {
    const INTERVAL: Duration = Duration::from_millis(20);
    let commands = lane(1, Reliability::Reliable);
    for rate_bps in [80_000, 100_000, 120_000] {
        for seed in seeds(3) {
            let bottleneck = Some(Bottleneck { rate_bps, queue_bytes: 10_000 });
            let wire = WireConfig { bottleneck, ..WireConfig::with_delay(5 * MS) };
            let flow = Flow::reliable(1, 100, u64::MAX).every(INTERVAL);
            let mut pair = Pair::new(&Scenario::new(seed).wire(wire).client_sends([flow]));
            let start_up =
                pair.run_to_connected(10 * SEC).and_then(|_| pair.world.run_for(10 * SEC));
            start_up.unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
            let before = pair.server_side().app.inbox(commands).latencies.len();
            pair.world.run_for(10 * SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
            let mut late = pair.server_side().app.inbox(commands).latencies[before..].to_vec();
            late.sort_unstable();
            let (p50, p99) = (late[late.len() / 2], late[late.len() * 99 / 100]);
            println!("{rate_bps} b/s, seed {seed}: {p50:?}, {p99:?}");
            assert!(p99 <= 50 * MS, "{rate_bps} b/s, seed {seed}: {p50:?}, {p99:?}");
        }
    }
}

/// A modem that takes a hundred times as much as it gives. Beside commands of 200 bytes TCP with BBR carries 3.0, 8.2 and
/// 9.6 Mb/s on a real one, and their 99th percentile is 116, 41 and 40 ms. Over 100 kb/s ours are later: start-up fills the
/// queue, which empties slowly.
// ARQ-ACK-2, ARQ-REP-9
#[test]
fn acknowledgements_and_commands_share_a_thin_way_back() {
    for (back_bps, bytes, least_mbps, most) in [
        (100_000, 100, 5.0, 3 * SEC),
        (100_000, 200, 2.4, 5 * SEC),
        (200_000, 200, 8.2, 41 * MS),
        (400_000, 200, 9.2, 20 * MS),
    ] {
        let runs: Vec<_> =
            seeds(5).map(|seed| over_a_thin_way_back(seed, back_bps, bytes)).collect();
        println!("{back_bps} b/s back, {bytes} bytes: {runs:.2?}");
        let mut mbps: Vec<_> = runs.iter().map(|run| run.0).collect();
        let mut late: Vec<_> = runs.iter().map(|run| run.1).collect();
        mbps.sort_by(f64::total_cmp);
        late.sort_unstable();
        let median = runs.len() / 2;
        assert!(mbps[median] >= least_mbps && late[median] <= most, "{back_bps} b/s: {runs:.2?}");
    }
}
