// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Lines of a few kilobits a second, on which each packet takes a good part of a second.

use std::time::Duration;

use arq_proto::Stats;
use arq_sim::{Bottleneck, Flow, Pair, Scenario, WireConfig};

use crate::common::{MS, SEC};

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
