// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does a best-effort lane promise? At most once, in order, and nothing older than its
//! deadline.

use std::{cell::Cell, ops::Range, rc::Rc, time::Duration};

use arq_proto::{wire::frame::Frame, Config, CongestionConfig, Reliability};
use arq_sim::{
    harness::Victim, hostile, lane, Datagram, Flow, Forged, Pair, Reading, Scenario, Verdict,
    WireConfig,
};

use crate::common::{lossy, seeds, MS, SEC};

/// Sends 1,000 messages in 10 s and lets what is still under way arrive.
fn send(scenario: Scenario, bytes: usize) -> Pair {
    let flow = Flow::best_effort(4, bytes, 1_000).every(10 * MS);
    let mut pair = Pair::new(&scenario.client_sends([flow]));
    pair.run_to_delivery(30 * SEC).unwrap();
    pair.world.run_for(2 * SEC).unwrap();
    pair
}

fn delivered(pair: &Pair) -> u64 {
    pair.server_side().app.inbox(lane(4, Reliability::BestEffort)).messages
}

fn with_deadline(deadline: Duration) -> Config {
    Config { deadline: Some(deadline), ..Config::default() }
}

#[test]
fn loses_nothing_on_a_clean_wire() {
    for bytes in [100, 10_000, 65_535] {
        assert_eq!(delivered(&send(Scenario::new(1), bytes)), 1_000);
    }
}

// ARQ-BEF-2
#[test]
fn loses_what_the_wire_loses_and_never_repeats_it() {
    let pair = send(Scenario::new(2).wire(lossy(0.10)), 100);
    let share = delivered(&pair) as f64 / 1_000.0;
    assert!((0.86..0.94).contains(&share), "{share}");
    assert_eq!(pair.client_side().connection().stats().chunks_retransmitted, 0);
}

// ARQ-BEF-4
#[test]
fn arrives_at_a_low_rate() {
    let config = Config { max_rate_bps: Some(16_000), ..Config::default() };
    let flow = Flow::best_effort(4, 30_000, 1);
    let mut pair = Pair::new(&Scenario::new(1).config(config).client_sends([flow]));
    pair.run_to_connected(SEC).unwrap();
    pair.world.run_for(60 * SEC).unwrap();
    assert_eq!(delivered(&pair), 1);
}

// ARQ-BEF-2
#[test]
fn repairs_within_the_deadline() {
    let pair = send(Scenario::new(3).wire(lossy(0.10)).config(with_deadline(500 * MS)), 5_000);
    assert!(delivered(&pair) >= 998, "{}", delivered(&pair));
}

// ARQ-BEF-2, ARQ-BEF-6
#[test]
fn never_delivers_long_after_the_deadline() {
    let dark = WireConfig { blackouts: vec![3 * SEC..6 * SEC], ..lossy(0.10) };
    let pair = send(Scenario::new(4).wire(dark).config(with_deadline(100 * MS)), 3_000);
    let inbox = pair.server_side().app.inbox(lane(4, Reliability::BestEffort));
    assert!(inbox.messages >= 600, "{}", inbox.messages);
    // The deadline at the sender, the hold at the receiver, and the way between them.
    let worst = inbox.latencies.iter().max().unwrap();
    assert!(*worst <= 2 * 100 * MS + 20 * MS, "{worst:?}");
    assert!(pair.client_side().connection().stats().messages_expired > 200);
}

/// A thousand messages a second at 1 Mb/s, which is less than half of what they need, for ten seconds. Returns the pair, and what the client sent in `period`: all datagrams, and those too short for a message.
fn overload(blackouts: Vec<Range<Duration>>, period: Range<Duration>) -> (Pair, u64, u64) {
    let wire = WireConfig { blackouts, ..WireConfig::with_delay(10 * MS) };
    let config = Config { max_rate_bps: Some(1_000_000), ..with_deadline(50 * MS) };
    let flow = Flow::best_effort(4, 300, 10_000).every(MS);
    let scenario = Scenario::new(5).wire(wire).config(config);
    let mut pair = Pair::new(&scenario.client_sends([flow]));
    let client = pair.world.address(pair.client);
    let sent = Rc::new(Cell::new((0, 0)));
    let seen = Rc::clone(&sent);
    pair.world.set_tap(move |at: Duration, datagram: &Datagram, _: &mut Vec<Forged>| {
        if datagram.from == client && period.contains(&at) {
            let (all, short) = seen.get();
            seen.set((all + 1, short + u64::from(datagram.bytes.len() < 300)));
        }
        Verdict::Pass
    });
    pair.world.run_for(11 * SEC).unwrap();
    let (all, short) = sent.get();
    (pair, all, short)
}

// ARQ-BEF-3
#[test]
fn what_expires_is_told_by_few_packets_of_their_own() {
    let (pair, _, short) = overload(Vec::new(), SEC..9 * SEC);
    let stats = pair.client_side().connection().stats();
    assert!(stats.messages_expired > 4_000, "{}", stats.messages_expired);
    let round_trips = 8_000 / stats.srtt.as_millis() as u64;
    println!("{short} without a message in {round_trips} round trips of {:?}", stats.srtt);
    assert!(short <= 2 * round_trips, "{short} in {round_trips} round trips");
}

// ARQ-BEF-3
#[test]
fn what_expires_keeps_no_silent_path_busy() {
    let dark = 3 * SEC..6 * SEC;
    let (pair, all, short) = overload(vec![dark.clone()], dark);
    let stats = pair.client_side().connection().stats();
    println!("{all} packets in the dark, {short} without a message, {} time-outs", stats.ptos);
    // As many as reliable messages take, which are never forgotten: the probes, and what the window lets out with each.
    // The short ones ask whether only long ones vanish, once for each probe.
    assert!(all < 200 && short <= stats.ptos, "{all} packets, {short} without a message");
    assert!(stats.ptos >= 10, "{} time-outs", stats.ptos);
}

/// A host that slept reads and sends before it looks at its timers.
// ARQ-BEF-2
#[test]
fn sends_nothing_that_expired_while_the_host_slept() {
    let mut victim = Victim::new(with_deadline(10 * MS).validate().unwrap());
    let (now, conn) = victim.parts();
    conn.send(now, lane(4, Reliability::BestEffort), [1; 900][..].into()).unwrap();
    let mut sent = Vec::new();
    let transmit = conn.poll_transmit(now + SEC, &mut sent, 1);
    assert!(sent.len() < 100, "{transmit:?}");
    assert_eq!(conn.stats().messages_expired, 1);
}

// ARQ-LAN-1
#[test]
fn a_hole_holds_nobody_else() {
    // Reliable messages beside it do not notice that a best-effort lane loses all it sends, unless the
    // controller takes that for congestion.
    let window_bytes = 1 << 20;
    let congestion = CongestionConfig::Constant { window_bytes };
    let config = Config { congestion, ..Config::default() };
    let scenario = Scenario::new(5).config(config).client_sends([
        Flow::best_effort(0, 20_000, 200).every(5 * MS),
        Flow::reliable(4, 200, 200).every(5 * MS),
    ]);
    let mut pair = Pair::new(&scenario);
    pair.world.set_tap(|_: Duration, datagram: &Datagram, _: &mut Vec<Forged>| {
        let (mut best_effort, mut reliable) = (false, false);
        hostile::each_frame(&datagram.bytes, |_, frame| {
            let lane = match frame {
                Frame::Chunk(chunk) => chunk.lane,
                Frame::Repair(repair) => repair.lane,
                _ => return,
            };
            reliable |= lane.reliability() == Reliability::Reliable;
            best_effort |= lane.reliability() == Reliability::BestEffort;
        });
        // Where both share a packet it is the end of a message, of which nothing else arrives.
        match best_effort && !reliable {
            true => Verdict::Withhold,
            false => Verdict::Pass,
        }
    });
    pair.run_to_delivery(10 * SEC).unwrap();
    let app = &pair.server_side().app;
    assert_eq!(app.inbox(lane(0, Reliability::BestEffort)).messages, 0);
    let worst = app.inbox(lane(4, Reliability::Reliable)).latencies.iter().max().unwrap();
    println!("{worst:?}");
    assert!(*worst <= 12 * MS, "{worst:?} over a path of 10 ms");
}

/// Publishes every 20 ms with a deadline of 200 ms; the subscriber's host stands still for `frozen` after 3 s, or its
/// application reads nothing for so long. Returns the pair, and the ages of what was read from then on.
fn stand_still(seed: u64, frozen: Duration, host: bool) -> (Pair, Vec<Duration>) {
    let config = Config { idle_timeout: 30 * SEC, ..with_deadline(200 * MS) };
    let flow = Flow::best_effort(4, 900, 2_000).every(20 * MS);
    let scenario = Scenario::new(seed).wire(lossy(0.02)).config(config).client_sends([flow]);
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(10 * SEC).unwrap();
    pair.world.run_for(3 * SEC).unwrap();
    let (server, accepted) = (pair.server, pair.accepted().unwrap());
    pair.world.with_conn(accepted, |_, _, app| app.forget_latencies());
    let reads = |pair: &mut Pair, reading| {
        pair.world.with_conn(accepted, |_, _, app| app.set_reading(reading));
    };
    if host {
        pair.world.freeze(server, frozen);
    } else {
        reads(&mut pair, Reading::Never);
    }
    pair.world.run_for(frozen).unwrap();
    reads(&mut pair, Reading::AtOnce);
    pair.world.run_for(2 * SEC).unwrap();
    let inbox = pair.server_side().app.inbox(lane(4, Reliability::BestEffort));
    let ages = inbox.latencies.clone();
    (pair, ages)
}

// ARQ-BEF-7
#[test]
fn what_waited_in_a_host_that_stood_still_or_for_its_reader_is_not_delivered_late() {
    for seed in seeds(10) {
        for (frozen, host) in [(SEC, true), (4 * SEC, true), (20 * SEC, true), (4 * SEC, false)] {
            let (pair, ages) = stand_still(seed, frozen, host);
            let case = format!("seed {seed}, {frozen:?}, host {host}");
            let stats = pair.server_side().connection().stats();
            let worst = ages.iter().max().unwrap();
            println!(
                "{case}: {} read, at most {worst:?} old, {} stale",
                ages.len(),
                stats.messages_stale
            );
            // The deadline at the sender and in the receiving host, and the way between them.
            assert!(*worst <= 2 * 200 * MS + 20 * MS, "{case}: {worst:?}");
            assert!(stats.messages_stale >= 20, "{case}: {}", stats.messages_stale);
            assert!(ages.len() >= 95, "{case}: what is fresh is delivered at once: {}", ages.len());
        }
    }
}

/// Short sleeps, and paths that become slower than the deadline.
// ARQ-BEF-7
#[test]
fn nothing_is_called_old_where_nobody_stood_still() {
    for seed in seeds(10) {
        let config = with_deadline(200 * MS);
        let flow = Flow::best_effort(4, 900, 500).every(20 * MS);
        let quick = WireConfig::with_delay(10 * MS);
        let scenario = Scenario::new(seed).wire(quick).config(config).client_sends([flow]);
        let mut pair = Pair::new(&scenario);
        pair.run_to_connected(10 * SEC).unwrap();
        let (client, server) = (pair.client, pair.server);
        for n in 0..80 {
            if n == 40 {
                let slow = WireConfig::with_delay(400 * MS);
                pair.world.lay_wire(client, server, slow.clone());
                pair.world.lay_wire(server, client, slow);
            }
            pair.world.freeze(server, 100 * MS);
            pair.world.run_for(130 * MS).unwrap();
        }
        pair.world.run_for(2 * SEC).unwrap();
        let stats = pair.server_side().connection().stats();
        assert_eq!(stats.messages_stale, 0, "seed {seed}");
        assert!(
            stats.lanes.iter().map(|lane| lane.messages_delivered).sum::<u64>() >= 480,
            "seed {seed}"
        );
    }
}
