// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! ECN end to end: a queue that marks loses nothing, and a path that does not carry marks costs nothing.
//!
//! Prints what it measures; `ARQ_SEED=n` runs that seed alone.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{ops::RangeInclusive, time::Duration};

use arq_proto::{Config, CongestionConfig, EcnState, Reliability};
use arq_sim::{
    lane,
    toy::{Flights, Toy},
    AppPlan, EcnFault, Flow, Loss, Pair, Report, Scenario, Shared, WireConfig,
};
use impairments::{CoDel, Discipline, Frame, Limit, LinkConfig, Rate};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// Mb/s of use that a link of 10 Mb/s carries, with the headers of packets of 1,200 bytes.
const CARRIED: f64 = 9.6;

fn seeds(most: u64) -> RangeInclusive<u64> {
    let one = std::env::var("ARQ_SEED").ok().map(|seed| seed.parse().unwrap());
    one.map_or(1..=most, |seed: u64| seed..=seed)
}

/// 10 Mb/s and 10 ms one way behind this queue.
fn behind(queue: Discipline) -> WireConfig {
    let link = LinkConfig { rate: Rate::fixed(10e6), queue, frame: Frame::SINGLE };
    WireConfig { link: Some(link), ..WireConfig::with_delay(10 * MS) }
}

/// What flows at a bottleneck come to in twenty seconds.
#[derive(Debug)]
struct Use {
    mbps: f64,
    /// Median and 99th percentile of the time in the queue.
    waits: [Duration; 2],
    lost: u64,
    marked: u64,
}

fn use_of(
    seed: u64,
    queue: Discipline,
    congestion: CongestionConfig,
    flows: usize,
    has_ecn: bool,
) -> Use {
    let mut shared = Shared::new(seed, behind(queue), WireConfig::with_delay(10 * MS));
    shared.has_ecn = has_ecn;
    for _ in 0..flows {
        let bulk = Flow::reliable(5, 60_000, u64::MAX);
        let plan = AppPlan { flows: vec![bulk], ..AppPlan::default() };
        shared.join(Config { congestion, ..Config::default() }, plan);
        shared.world.run_for(300 * MS).unwrap();
    }
    shared.world.run_for(3 * SECOND).unwrap();
    shared.bottleneck().unwrap().take_sojourns();
    let count = |shared: &Shared| {
        let stats = (0..flows).map(|flow| shared.client(flow).connection().stats());
        stats.fold((0, 0), |(lost, marked), stats| {
            assert_eq!(stats.ecn == EcnState::Capable, has_ecn);
            (lost + stats.packets_lost, marked + stats.packets_marked)
        })
    };
    let before = count(&shared);
    let mbps = shared.goodput(20 * SECOND).unwrap().iter().sum();
    let after = count(&shared);
    let mut waits = shared.bottleneck().unwrap().take_sojourns();
    waits.sort_unstable();
    let waits = [waits[waits.len() / 2], waits[waits.len() * 99 / 100]];
    Use { mbps, waits, lost: after.0 - before.0, marked: after.1 - before.1 }
}

// ARQ-CC-12, ARQ-ECN-1
#[test]
fn where_a_queue_marks_nothing_is_lost_and_it_is_as_short() {
    let all = Limit::Packets(1_000);
    for (name, queue) in [
        ("CoDel", Discipline::CoDel(CoDel::MARKING, all)),
        ("FQ-CoDel", Discipline::FqCoDel(CoDel::MARKING, all)),
    ] {
        for congestion in
            [CongestionConfig::Tolerant, CongestionConfig::Cubic, CongestionConfig::Aimd]
        {
            for flows in [1, 2, 4] {
                let [mut without, mut with] = [Vec::new(), Vec::new()];
                for seed in seeds(3) {
                    let runs = [false, true]
                        .map(|has_ecn| use_of(seed, queue, congestion, flows, has_ecn));
                    println!("{name}, {flows} x {congestion:?}, seed {seed}: {runs:?} with");
                    let [dropped, marked] = runs;
                    assert!(marked.lost <= 3 && dropped.marked == 0, "{marked:?}");
                    assert!(marked.marked > 0 || dropped.lost == 0, "{marked:?}");
                    // More than a path carries arrives where a queue of before empties.
                    assert!(marked.mbps >= 0.95 * dropped.mbps.min(CARRIED), "{marked:?}");
                    without.push(dropped.waits);
                    with.push(marked.waits);
                }
                // Marks leave a little more than losses (RFC 8511): about the delay that is accepted.
                for (wait, more) in [(0, 4 * MS), (1, 6 * MS)] {
                    let [without, with] = [&without, &with].map(|waits| {
                        waits.iter().map(|waits| waits[wait]).sum::<Duration>() / waits.len() as u32
                    });
                    assert!(with <= without + more, "{name}, {flows}: {with:?} {without:?}");
                }
            }
        }
    }
}

/// 300 B each 20 ms in both directions, and 50 kB each 100 ms.
fn scenario(seed: u64, has_ecn: bool, wire: WireConfig) -> Scenario {
    let flows =
        [Flow::reliable(2, 300, 150).every(20 * MS), Flow::reliable(5, 50_000, 20).every(100 * MS)];
    Scenario { has_ecn, ..Scenario::new(seed) }.wire(wire).both_send(flows)
}

/// The largest latencies of small messages, from the client to the server.
fn small_latencies(pair: &Pair) -> Vec<Duration> {
    let inbox = pair.server_side().app.inbox(lane(2, Reliability::Reliable));
    inbox.latencies.clone()
}

fn run(scenario: &Scenario) -> (Pair, Vec<Duration>) {
    let mut pair = Pair::new(scenario);
    pair.run_to_connected(SECOND).unwrap();
    pair.run_to_delivery(scenario.limit).unwrap();
    let latencies = small_latencies(&pair);
    (pair, latencies)
}

fn states(pair: &Pair) -> [EcnState; 2] {
    [pair.client_side(), pair.server_side()].map(|side| side.connection().stats().ecn)
}

// ARQ-ECN-2, ARQ-ECN-3, ARQ-ECN-4
#[test]
fn a_path_that_does_not_carry_marks_is_noticed_and_costs_no_more_than_a_probe() {
    use EcnFault::{Bleaches, Drops, MarksAll, Remarks};
    for fault in [EcnFault::None, Bleaches, Drops, MarksAll, Remarks] {
        for loss in [Loss::None, Loss::Random(0.05)] {
            for seed in seeds(8) {
                let wire = WireConfig { loss, ecn_fault: fault, ..WireConfig::with_delay(10 * MS) };
                let (plain, without) = run(&scenario(seed, false, wire.clone()));
                let (pair, with) = run(&scenario(seed, true, wire));
                let expected = match fault {
                    EcnFault::None => EcnState::Capable,
                    _ => EcnState::Failed,
                };
                assert_eq!(states(&pair), [expected; 2], "{fault:?} seed {seed}");
                assert_eq!(states(&plain), [EcnState::Failed; 2], "its hosts see no marks");
                let lost = pair.client_side().connection().stats().packets_lost;
                let worst = |latencies: &[Duration]| latencies.iter().max().copied().unwrap();
                println!(
                    "{fault:?}, {loss:?}, seed {seed}: worst {:?} and {:?} without, {lost} lost, done at {:?} and {:?}",
                    worst(&with), worst(&without), pair.world.now(), plain.world.now()
                );
                if loss != Loss::None {
                    continue;
                }
                // 20 ms of round trip, measured once: 20 + 4 * 10 ms.
                let probe = 65 * MS;
                for (number, (with, without)) in with.iter().zip(&without).enumerate() {
                    let late = with.saturating_sub(*without);
                    let most = if fault == Drops && number < 20 { probe } else { 5 * MS };
                    assert!(late <= most, "{fault:?} seed {seed}: message {number} {late:?} late");
                }
                assert!(pair.world.now() <= plain.world.now() + 20 * MS);
            }
        }
    }
}

// ARQ-ECN-4
#[test]
fn a_path_that_drops_marks_delays_the_first_bulk_by_a_probe_at_most() {
    for seed in seeds(5) {
        let [without, with] = [false, true].map(|has_ecn| {
            let wire = WireConfig { ecn_fault: EcnFault::Drops, ..WireConfig::with_delay(10 * MS) };
            let bulk = Scenario { has_ecn, ..Scenario::new(seed) }.wire(wire);
            let report = bulk.client_sends([Flow::reliable(5, 60_000, 30)]).run().unwrap();
            assert_eq!(report.client_stats.ecn, EcnState::Failed);
            report.delivered_after
        });
        println!("seed {seed}: {with:?}, {without:?} without");
        assert!(with <= without + 130 * MS, "two tests of a flight each: {with:?} {without:?}");
    }
}

// ARQ-ECN-4
#[test]
fn a_radio_that_loses_is_not_taken_for_one_that_drops_marks() {
    let (mut failed, mut all) = (0, 0);
    for seed in seeds(60) {
        let wire = WireConfig { loss: Loss::Random(0.1), ..WireConfig::with_delay(10 * MS) };
        let thin = Scenario { has_ecn: true, ..Scenario::new(seed) }.wire(wire);
        let report = thin.both_send([Flow::reliable(2, 300, 50).every(100 * MS)]).run().unwrap();
        for stats in [report.client_stats, report.server_stats] {
            all += 1;
            failed += u32::from(stats.ecn != EcnState::Capable);
        }
    }
    println!("{failed} of {all} sides without ECN");
    assert!(failed * 20 <= all, "{failed} of {all}");
}

// ARQ-ECN-3
#[test]
fn another_network_is_tested_anew() {
    for (before, after) in
        [(EcnFault::Bleaches, EcnFault::None), (EcnFault::None, EcnFault::Bleaches)]
    {
        let wire = |ecn_fault| WireConfig { ecn_fault, ..WireConfig::with_delay(10 * MS) };
        let state =
            |fault| if fault == EcnFault::None { EcnState::Capable } else { EcnState::Failed };
        let flow = Flow::reliable(3, 5_000, 200).every(20 * MS);
        let scenario = Scenario { has_ecn: true, ..Scenario::new(1) }.wire(wire(before));
        let mut pair = Pair::new(&scenario.both_send([flow]));
        pair.run_to_connected(SECOND).unwrap();
        pair.world.run_for(SECOND).unwrap();
        assert_eq!(states(&pair), [state(before); 2]);
        let (client, server) = (pair.client, pair.server);
        pair.world.rebind(client, "10.0.7.1:50001".parse().unwrap());
        pair.world.lay_wire(client, server, wire(after));
        pair.world.lay_wire(server, client, wire(after));
        pair.run_to_delivery(20 * SECOND).unwrap();
        // The client hears of it from the server, which asks for its new address.
        assert_eq!(states(&pair), [state(after); 2], "{before:?} {after:?}");
    }
}

// ARQ-ECN-2, ARQ-MP-4
#[test]
fn each_radio_is_judged_by_itself() {
    let wire = |ecn_fault| WireConfig { ecn_fault, ..WireConfig::with_delay(10 * MS) };
    let flows = [Flow::reliable(5, 60_000, 400)];
    let scenario = Scenario { has_ecn: true, ..Scenario::new(1) }.wire(wire(EcnFault::Bleaches));
    let scenario = scenario.radio(wire(EcnFault::None)).client_sends(flows);
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(SECOND).unwrap();
    pair.run_to_delivery(60 * SECOND).unwrap();
    let paths: Vec<_> = pair.client_side().connection().paths().map(|path| path.ecn).collect();
    assert_eq!(paths, [EcnState::Failed, EcnState::Capable]);
}

fn marking(seed: u64, has_ecn: bool) -> Scenario {
    let queue = Discipline::CoDel(CoDel::MARKING, Limit::Packets(1_000));
    let cubic = Config { congestion: CongestionConfig::Cubic, ..Config::default() };
    let scenario = Scenario { has_ecn, ..Scenario::new(seed) }.wire(behind(queue)).config(cubic);
    scenario.client_sends([Flow::reliable(5, 60_000, 100)])
}

// ARQ-ECN-1
#[test]
fn sealed_packets_carry_counts_as_well() {
    for seed in seeds(3) {
        let report = marking(seed, true).sealed(Toy::new(Flights::default()), 64).run().unwrap();
        let Report { client_stats, server_stats, .. } = report;
        println!("{} marked, {} lost", client_stats.packets_marked, client_stats.packets_lost);
        assert_eq!(client_stats.ecn, EcnState::Capable);
        assert!(client_stats.packets_marked > 3, "{client_stats:?}");
        assert!(client_stats.packets_marked <= server_stats.marks_received);
        assert_eq!(client_stats.packets_lost, 0);
    }
}

// ARQ-ECN-1
#[test]
fn who_switches_it_off_neither_marks_nor_pays() {
    let bytes = |on: bool, has_ecn: bool| {
        let mut scenario = scenario(1, has_ecn, WireConfig::with_delay(10 * MS));
        scenario.config.ecn = on;
        let (pair, _) = run(&scenario);
        let sides = [pair.client_side(), pair.server_side()];
        sides.map(|side| side.connection().stats().bytes_sent).iter().sum::<u64>()
    };
    let [plain, off, on] = [bytes(true, false), bytes(false, true), bytes(true, true)];
    println!("{plain} bytes where hosts cannot, {off} switched off, {on} with");
    assert_eq!(plain, off);
    assert!(on - off <= off / 100, "{on} {off}");
}
