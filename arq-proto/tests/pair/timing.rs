// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How soon is a loss repaired, and how quiet is a connection with nothing to do?

use std::time::Duration;

use arq_proto::{Config, FecConfig, Reliability, TimerKind, ValidConfig};
use arq_sim::{
    harness::{FrameOp, Victim},
    lane, Datagram, Flow, Forged, Loss, Pair, Scenario, Verdict, WireConfig,
};

use crate::common::{lossy, run_seeds, seeds, MS, SEC};

/// The frame alone.
const PING: [u8; 1] = [1];

/// Takes away the `nth` datagram (from 0) of a message, after others have shown how long a round
/// trip takes.
fn losing(nth: usize, seed: u64, bytes: usize) -> Pair {
    let mut pair =
        Pair::new(&Scenario::new(seed).client_sends([Flow::reliable(6, 100, 20).every(50 * MS)]));
    pair.run_to_delivery(5 * SEC).unwrap();
    pair.world.run_for(100 * MS).unwrap();
    let client = pair.world.address(pair.client);
    let mut count = 0;
    pair.world.set_tap(move |_: Duration, seen: &Datagram, _: &mut Vec<Forged>| {
        let mine = seen.from == client;
        count += usize::from(mine);
        if mine && count == nth + 1 {
            Verdict::Withhold
        } else {
            Verdict::Pass
        }
    });
    let id = pair.conn;
    pair.world.with_conn(id, |clock, _, app| {
        app.add_flow(clock.offset(), Flow::reliable(5, bytes, 1));
    });
    let read = |pair: &Pair| pair.server_side().app.messages_read() == 21;
    pair.run(10 * SEC, read).unwrap();
    pair
}

fn worst(pair: &Pair) -> Duration {
    let lane = lane(5, Reliability::Reliable);
    *pair.server_side().app.inbox(lane).latencies.iter().max().unwrap()
}

// ARQ-ACK-5, ARQ-PTO-1, ARQ-PTO-2
#[test]
fn a_lost_tail_is_repaired_within_two_and_a_half_round_trips() {
    // A message of ten packets without its last one, then a message of a single packet.
    for (nth, bytes) in [(9, 11_000), (0, 100)] {
        let pair = losing(nth, 1, bytes);
        // The probe after a round trip and four times its variation, and half of one to get there.
        assert!(worst(&pair) <= 50 * MS, "{:?}", worst(&pair));
    }
}

// ARQ-ACK-2, ARQ-LOS-1
#[test]
fn a_lost_packet_in_the_middle_is_repaired_after_one_round_trip() {
    let pair = losing(3, 2, 50_000);
    // There, back with the gap, there again; and the reordering window.
    assert!(worst(&pair) <= 36 * MS, "{:?}", worst(&pair));
    assert_eq!(pair.client_side().connection().stats().ptos, 0);
}

// ARQ-LIV-2
#[test]
fn a_host_that_slept_asks_before_it_gives_its_peer_up() {
    let (idle, keep_alive) = (Config::default().idle_timeout, Config::default().keep_alive);
    for answers in [true, false] {
        let mut victim = Victim::new(ValidConfig::default());
        let sent = victim.connection().stats().packets_sent;
        victim.oversleep(idle + 5 * SEC);
        victim.oversleep(keep_alive / 2);
        assert!(victim.connection().stats().packets_sent > sent, "it asks");
        assert_eq!(victim.connection().close_reason(), None, "and waits");
        if answers {
            victim.frames(&PING);
        }
        victim.sleep(idle - keep_alive);
        let is_closed = victim.connection().close_reason().is_some();
        assert_eq!(is_closed, !answers, "{answers}: {:?}", victim.connection().close_reason());
        // Another silence, another question.
        victim.oversleep(idle + 5 * SEC);
        assert_eq!(victim.connection().close_reason().is_some(), !answers);
    }
}

// ARQ-LIV-1
#[test]
fn an_idle_connection_wakes_for_its_keep_alive_only() {
    let mut pair = Pair::new(&Scenario::new(3).both_send([Flow::reliable(5, 10_000, 5)]));
    pair.run_to_delivery(5 * SEC).unwrap();
    pair.world.run_for(5 * SEC).unwrap();
    let fired = |pair: &Pair| {
        (pair.client_side().timers_fired().clone(), pair.server_side().timers_fired().clone())
    };
    let before = fired(&pair);
    pair.world.run_for(60 * SEC).unwrap();
    let after = fired(&pair);
    for (before, after) in [(before.0, after.0), (before.1, after.1)] {
        for (kind, count) in after {
            let fired = count - before.get(&kind).copied().unwrap_or(0);
            let allowed = if kind == TimerKind::KeepAlive { 61 } else { 0 };
            assert!(fired <= allowed, "{kind:?} fired {fired} times in a minute");
        }
    }
}

#[test]
fn an_idle_connection_is_quiet_on_the_wire() {
    let mut pair = Pair::new(&Scenario::new(4));
    pair.run_to_connected(SEC).unwrap();
    pair.world.run_for(5 * SEC).unwrap();
    let before = pair.world.log().total();
    pair.world.run_for(60 * SEC).unwrap();
    let packets = pair.world.log().total() - before;
    // A question and an answer per second and side at most.
    assert!(packets <= 4 * 61, "{packets} datagrams in a minute");
}

#[test]
fn a_round_trip_estimate_is_right() {
    for report in run_seeds(10, |seed| {
        Scenario::new(seed).wire(lossy(0.10)).both_send([Flow::reliable(5, 10_000, 50)])
    }) {
        for stats in [report.client_stats, report.server_stats] {
            assert!((20 * MS..26 * MS).contains(&stats.srtt), "{:?}", stats.srtt);
            assert!((20 * MS..21 * MS).contains(&stats.min_rtt), "{:?}", stats.min_rtt);
            let loss = stats.loss.as_f64();
            assert!((0.02..0.35).contains(&loss), "{loss}");
        }
    }
}

// ARQ-RTT-2, ARQ-PTO-8
#[test]
fn a_sleep_of_the_hosts_is_no_silence_and_no_round_trip() {
    for server_sleeps in [false, true] {
        let flow = Flow::reliable(5, 10_000, 200).every(10 * MS);
        let mut pair = Pair::new(&Scenario::new(1).client_sends([flow]));
        for _ in 0..6 {
            pair.world.run_for(SEC / 4).unwrap();
            pair.world.freeze(pair.client, SEC / 5);
            if server_sleeps {
                pair.world.freeze(pair.server, SEC / 5);
            }
        }
        pair.run_to_delivery(5 * SEC).unwrap();
        let stats = pair.client_side().connection().stats();
        assert_eq!(stats.host_sleeps, 6);
        assert_eq!((stats.ptos, stats.packets_lost), (0, 0));
        assert!(stats.srtt <= 21 * MS && stats.rtt_variation <= MS, "{stats:#?}");
    }
}

// ARQ-PTO-8
#[test]
fn a_host_that_runs_for_a_fifth_of_the_time_still_repairs() {
    // So far apart that nothing but a time-out tells of a loss before the next one.
    let flow = Flow::reliable(5, 1_000, 100).every(1_130 * MS);
    let mut latencies = Vec::new();
    for seed in seeds(10) {
        let scenario = Scenario::new(seed).wire(lossy(0.25)).client_sends([flow.clone()]);
        let mut pair = Pair::new(&scenario);
        pair.run_to_connected(10 * SEC).unwrap();
        while !pair.all_delivered() {
            pair.world.freeze(pair.client, 80 * MS);
            pair.world.run_for(100 * MS).unwrap();
            assert!(pair.world.now() < 150 * SEC, "seed {seed}: a message is never repaired");
        }
        latencies.extend_from_slice(&pair.server_side().app.inbox(flow.lane).latencies);
    }
    // By chance a few need a fourth attempt.
    latencies.sort_unstable();
    let most = latencies[latencies.len() * 98 / 100];
    assert!(most <= SEC, "98 of 100 within {most:?}");
    let worst = latencies[latencies.len() - 1];
    assert!(worst <= 3 * SEC, "{worst:?}");
}

// ARQ-PTO-8
#[test]
fn a_host_whose_timers_are_always_late_still_repairs() {
    // Each of them by up to 40 ms, so that nearly all are taken for sleeps.
    let flow = Flow::reliable(5, 1_000, 100).every(1_130 * MS);
    let wire = lossy(0.25);
    let late = Scenario { timer_lateness: 40 * MS, ..Scenario::new(1) };
    let mut pair = Pair::new(&late.wire(wire).client_sends([flow]));
    pair.run_to_delivery(150 * SEC).unwrap();
    assert!(worst(&pair) <= SEC, "{:?}", worst(&pair));
}

// ARQ-PTO-7
#[test]
fn the_end_of_a_message_is_repaired_as_soon_before_another_as_alone() {
    let latest = |flow: &Flow| {
        let mut all = Vec::new();
        for seed in seeds(10) {
            let config = Config { fec: FecConfig::Off, ..Config::default() };
            let scenario = Scenario::new(seed).wire(lossy(0.10)).config(config);
            let mut pair = Pair::new(&scenario.client_sends([flow.clone()]));
            pair.run_to_delivery(60 * SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
            all.extend_from_slice(&pair.server_side().app.inbox(flow.lane).latencies);
        }
        all.sort_unstable();
        all[all.len() * 98 / 100]
    };
    // At intervals of a round trip, the packets of the next one put the probe off.
    let close = latest(&Flow::reliable(5, 10_000, 300).every(20 * MS));
    let apart = latest(&Flow::reliable(5, 10_000, 300).every(200 * MS));
    println!("p98 {close:?}, {apart:?} alone");
    assert!(close <= 40 * MS && close <= apart.mul_f64(1.2), "{close:?}, {apart:?} alone");
}

/// Both hosts answer up to 40 ms late, a hundred times what the path takes.
// ARQ-PTO-9
#[test]
fn a_late_answer_to_a_keep_alive_is_no_time_out() {
    let wire = WireConfig { jitter: 20 * MS, ..WireConfig::with_delay(MS / 5) };
    let mut pair = Pair::new(&Scenario::new(1).wire(wire));
    pair.run_to_connected(SEC).unwrap();
    pair.world.run_for(300 * SEC).unwrap();
    let sides = [pair.client_side(), pair.server_side()];
    let [client, server] = sides.map(|side| side.connection().stats());
    assert!(client.packets_sent + server.packets_sent > 300, "it does ask");
    assert_eq!((client.ptos, server.ptos), (0, 0));
    assert_eq!((client.packets_lost, server.packets_lost), (0, 0));
}

/// Where packets are read together, one answer tells of a message, and one in four is lost.
// ARQ-REP-8
#[test]
fn a_lost_answer_costs_no_second_round() {
    let mut all = Vec::new();
    for seed in seeds(10) {
        let scenario = Scenario { reads_together: true, ..Scenario::new(seed).wire(lossy(0.25)) };
        let flow = Flow::reliable(5, 40_000, 300).every(20 * MS);
        let mut pair = Pair::new(&scenario.client_sends([flow.clone()]));
        pair.run_to_delivery(60 * SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
        all.extend_from_slice(&pair.server_side().app.inbox(flow.lane).latencies[100..]);
    }
    all.sort_unstable();
    let p98 = all[all.len() * 98 / 100];
    assert!(p98 <= 40 * MS, "p98 {p98:?}: two rounds are 32.5 ms, three 50");
}

/// The next command has room for those before it: a loss costs the interval, not a round trip.
// ARQ-REP-9
#[test]
fn a_thin_stream_waits_for_the_next_message_not_for_a_repair() {
    let commands = Flow::reliable(2, 200, 500).every(20 * MS);
    let late = |fec| {
        let (mut all, mut packets) = (Vec::new(), 0);
        for seed in seeds(10) {
            let wire = WireConfig { loss: Loss::Random(0.10), ..WireConfig::with_delay(30 * MS) };
            let config = Config { fec, ..Config::default() };
            let scenario = Scenario::new(seed).wire(wire).config(config);
            let mut pair = Pair::new(&scenario.client_sends([commands.clone()]));
            pair.run_to_delivery(60 * SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
            all.extend_from_slice(&pair.server_side().app.inbox(commands.lane).latencies);
            packets += pair.client_side().connection().stats().packets_sent;
        }
        let beyond = all.iter().filter(|&&latency| latency > 60 * MS).count();
        println!("{fec:?}: {beyond} of {} took longer than 60 ms, {packets} packets", all.len());
        (beyond as f64 / all.len() as f64, packets)
    };
    let (alone, together) = (late(FecConfig::Off), late(FecConfig::Auto));
    assert!(alone.0 > 0.1 && together.0 < 0.02, "{alone:?} by repair, {together:?} bundled");
    assert!(together.1 < alone.1, "{together:?} packets, {alone:?} without: repairs are spared");
}

/// Publications of one tick are a packet each: a message that rode in all of them would share their fate.
// ARQ-REP-9
#[test]
fn a_message_rides_along_once_in_a_tick() {
    let mut victim = Victim::new(ValidConfig::default());
    // The round trip that a repair would take.
    victim.with_connection(|now, conn| {
        conn.send(now, lane(5, Reliability::Reliable), [7; 100][..].into()).unwrap();
    });
    victim.sleep(20 * MS);
    let mut answer = Vec::new();
    FrameOp::AckRanges { below: 0, delay: 0, ranges: Vec::new() }
        .encode(victim.newest(), &mut answer);
    victim.frames(&answer);
    for tick in 1..=2 {
        for priority in 1..=4 {
            let lane = lane(priority, Reliability::Reliable);
            victim.with_connection(|now, conn| conn.send(now, lane, [7; 100][..].into())).unwrap();
        }
        let bundled = victim.connection().stats().chunks_bundled;
        assert_eq!(bundled, 4 * (tick - 1), "each of the last tick in one packet of this one");
        victim.sleep(5 * MS);
    }
}

/// Whom nobody holds a place for is dropped behind a later message: it need not be bundled.
// ARQ-REP-9
#[test]
fn what_would_come_too_late_does_not_ride_along() {
    let config = Config::default();
    let wire = WireConfig { loss: Loss::Random(0.10), ..WireConfig::with_delay(30 * MS) };
    let bundled = |config: Config| {
        let scenario = Scenario::new(1).wire(wire.clone()).config(config);
        let flow = Flow::best_effort(4, 200, 500).every(20 * MS);
        let mut pair = Pair::new(&scenario.client_sends([flow]));
        pair.run_to_delivery(60 * SEC).unwrap();
        pair.client_side().connection().stats().chunks_bundled
    };
    let held = Config { deadline: Some(SEC), ..config.clone() };
    assert_eq!((bundled(config), bundled(held) > 100), (0, true));
}

/// One lost packet of many small messages is worth a few packets, not some for each message.
// ARQ-REP-3
#[test]
fn small_messages_are_repaired_together() {
    let lane = lane(5, Reliability::Reliable);
    let send = |fec| {
        let config = Config { fec, ..Config::default() }.validate().unwrap();
        let mut victim = Victim::new(config);
        let before = victim.connection().stats().packets_sent;
        victim.with_connection(|now, conn| {
            (0..100).for_each(|_| conn.send(now, lane, b"small"[..].into()).unwrap());
        });
        (victim, before)
    };
    let (mut victim, _) = send(FecConfig::Auto);
    let first = victim.connection().stats();
    // Nobody answers.
    victim.sleep(400 * MS);
    let stats = victim.connection().stats();
    let chunks = stats.chunks_retransmitted - first.chunks_retransmitted;
    let packets = stats.packets_sent - first.packets_sent;
    assert!(chunks >= 200 && packets <= chunks / 20, "{chunks} chunks in {packets} packets");
    // Nor are those that are doubled from the first.
    let (victim, before) = send(FecConfig::Percent(100));
    let stats = victim.connection().stats();
    assert_eq!(stats.chunks_retransmitted, 100);
    assert!(stats.packets_sent - before <= 6, "{} packets", stats.packets_sent - before);
}

/// Longer than any probe waits, and than most would guess: the first answer is late, and ends the repairs.
// ARQ-ACK-8, ARQ-RTT-1
#[test]
fn a_round_trip_of_six_seconds_is_measured() {
    let scenario = Scenario::new(1).wire(WireConfig::with_delay(3 * SEC));
    let mut pair = Pair::new(&scenario.both_send([Flow::reliable(5, 10_000, 20).every(SEC)]));
    pair.run_to_delivery(60 * SEC).unwrap();
    pair.world.run_for(30 * SEC).unwrap();
    for side in [pair.client_side(), pair.server_side()] {
        let stats = side.connection().stats();
        assert_eq!(stats.send_buffer_bytes, 0, "answered");
        assert!((5 * SEC..=7 * SEC).contains(&stats.srtt), "{:?}", stats.srtt);
    }
}

/// What leaves meanwhile does not make a lost beacon wait for *its* acknowledgements.
// ARQ-PTO-7
#[test]
fn a_small_message_is_repaired_as_soon_beside_large_ones_as_alone() {
    let beacons = Flow::reliable(1, 300, 300).every(20 * MS);
    let images = Flow::reliable(5, 50_000, 240).every(25 * MS);
    let latencies = |flows: &[Flow]| {
        let mut all = Vec::new();
        let (mut sent, mut ptos) = (0, 0);
        for seed in seeds(10) {
            let wire = WireConfig { loss: Loss::Random(0.10), ..WireConfig::with_delay(5 * MS) };
            let scenario = Scenario::new(seed).wire(wire).client_sends(flows.to_vec());
            let mut pair = Pair::new(&scenario);
            pair.run_to_delivery(60 * SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
            all.extend_from_slice(&pair.server_side().app.inbox(beacons.lane).latencies);
            let stats = pair.client_side().connection().stats();
            sent += stats.chunks_retransmitted;
            ptos += stats.ptos;
        }
        all.sort_unstable();
        println!(
            "{} beacons: p99 {:?}, {sent} chunks again, {ptos} PTOs",
            all.len(),
            all[all.len() * 99 / 100]
        );
        all[all.len() * 99 / 100]
    };
    let alone = latencies(std::slice::from_ref(&beacons));
    let beside = latencies(&[beacons.clone(), images.clone()]);
    assert!(alone <= 16 * MS && beside <= alone.mul_f64(1.2), "{beside:?} beside, {alone:?} alone");
}
