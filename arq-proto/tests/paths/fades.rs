// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Both radios fade by the clock, each at its own times: how late are messages, and what do the copies cost?

use std::time::Duration;

use arq_proto::{PathEvent, Reliability};
use arq_sim::{lane, FadeConfig, Flow, Pair, Scenario, WireConfig};

use crate::common::{seeds, MS};

/// A radio of 30 ms one way that is in fades for 5 % of the time.
fn radio(seed: u64, fade: Duration) -> WireConfig {
    let fades = FadeConfig { share: 0.05, mean: fade, is_regular: false, lost: 1.0, seed };
    WireConfig { fades: Some(fades), ..WireConfig::with_delay(30 * MS) }
}

/// What five minutes of commands at 50 Hz comes to.
struct Figures {
    p99: Duration,
    /// Bytes that the vehicle sent.
    sent: u64,
}

fn five_minutes(seed: u64, fade: Duration, radios: usize, publishes: bool) -> Figures {
    let commands = || [Flow::reliable(2, 250, 15_000).every(20 * MS)];
    let scenario = Scenario::new(seed).wire(radio(2 * seed, fade));
    let scenario = match radios {
        1 => scenario,
        _ => scenario.radio(radio(2 * seed + 1, fade)),
    };
    let scenario = match publishes {
        true => scenario.client_sends(commands()),
        false => scenario.server_sends(commands()),
    };
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(scenario.limit).unwrap();
    pair.run_to_delivery(20 * scenario.limit).unwrap();
    let (from, to) = match publishes {
        true => (pair.client_side(), pair.server_side()),
        false => (pair.server_side(), pair.client_side()),
    };
    let mut latencies = to.app.inbox(lane(2, Reliability::Reliable)).latencies.clone();
    latencies.drain(..50);
    latencies.sort_unstable();
    Figures {
        p99: latencies[latencies.len() * 99 / 100],
        sent: from.connection().stats().bytes_sent,
    }
}

/// The median over seeds of what two radios are to one: of the 99th percentile, and of the bytes.
fn two_to_one(fade: Duration, publishes: bool) -> (f64, f64) {
    let (mut late, mut bytes) = (Vec::new(), Vec::new());
    for seed in seeds(5) {
        let [one, two] = [1, 2].map(|radios| five_minutes(seed, fade, radios, publishes));
        late.push(two.p99.as_secs_f64() / one.p99.as_secs_f64());
        bytes.push(two.sent as f64 / one.sent as f64);
        println!(
            "{fade:?} publishes {publishes} seed {seed}: p99 {:?} -> {:?}, bytes x {:.3}",
            one.p99,
            two.p99,
            bytes[bytes.len() - 1]
        );
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    (median(&mut late), median(&mut bytes))
}

// ARQ-MP-5, ARQ-MP-6
#[test]
fn a_second_radio_bridges_fades_of_200_ms() {
    for publishes in [true, false] {
        let (late, bytes) = two_to_one(200 * MS, publishes);
        assert!(late <= 0.35, "{late}");
        assert!(bytes <= 1.1, "{bytes}");
    }
}

// ARQ-MP-5, ARQ-MP-6
#[test]
fn a_second_radio_does_no_harm_where_fades_are_as_short_as_a_round_trip() {
    for (publishes, most) in [(true, 0.8), (false, 1.0)] {
        let (late, bytes) = two_to_one(50 * MS, publishes);
        assert!(late <= most, "{late}");
        assert!(bytes <= 1.25, "{bytes}");
    }
}

/// What share of silences both radios have in common, as the vehicle sees it, with the same fades on both or others; and how
/// often each side was told so.
fn common_silence(seed: u64, together: bool) -> (f64, [usize; 2]) {
    let radios = [2 * seed, if together { 2 * seed } else { 2 * seed + 1 }];
    let [first, second] = radios.map(|seed| radio(seed, 500 * MS));
    let commands = Flow::reliable(2, 250, 15_000).every(20 * MS);
    let scenario = Scenario::new(seed).wire(first).radio(second).client_sends([commands]);
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(scenario.limit).unwrap();
    pair.run_to_delivery(20 * scenario.limit).unwrap();
    let path = pair.client_side().connection().paths().next().unwrap();
    let told = [pair.client_side(), pair.server_side()].map(|side| {
        let events = side.path_events.iter().map(|(.., event)| event);
        events.filter(|event| **event == PathEvent::SilentTogether).count()
    });
    (path.common_silence.as_f64(), told)
}

// ARQ-MP-12
#[test]
fn two_interfaces_over_one_radio_are_told_from_two_radios() {
    for seed in seeds(5) {
        let [(common, told), (apart, told_apart)] =
            [true, false].map(|together| common_silence(seed, together));
        println!("seed {seed}: {common:.2} over one radio ({told:?} told), {apart:.2} over two");
        // Once. The server, which sends nothing but acknowledgements, may have nothing that could fall silent.
        assert!(told[0] == 1 && told[1] <= 1, "seed {seed}: {told:?}");
        assert_eq!(told_apart, [0, 0], "seed {seed}");
        assert!(common > 0.4 && apart < 0.2, "seed {seed}: {common}, {apart}");
    }
}
