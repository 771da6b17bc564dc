// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does each target turn on the very data that it names, and on nothing less?

use std::sync::OnceLock;

use netlab::wire::Conditions;

use super::*;
use crate::many_links;
use crate::oracle;
use crate::record::{
    Cell, FlowResult, Ideal, InFlight, ManyLinks, Measurement, Percentiles, ProcessUse, SideOfMany,
};
use crate::scenario::flow::{Flow, Pattern};
use crate::scenario::{self, Setting};

type Results = Vec<(String, Vec<Record>)>;

/// A world in which every target is met.
fn ideal_world() -> Results {
    static WORLD: OnceLock<Results> = OnceLock::new();
    let of = |need: &Need| (need.scenario.to_owned(), records_of(need));
    let many_links = || (many_links::SCENARIO.to_owned(), records_of_many_links());
    let measure = || NEEDS.iter().map(of).chain([many_links()]).collect();
    WORLD.get_or_init(measure).clone()
}

fn records_of(need: &Need) -> Vec<Record> {
    let scenario = scenario::find(need.scenario).unwrap();
    let first = scenario.links[0].name.clone();
    let grounds = scenario.cells().into_iter().filter(|setting| setting.cell.link == first);
    let record = |setting: &Setting, link: &str, repeat: u32| Record {
        scenario: need.scenario.to_owned(),
        cell: Cell { link: link.to_owned(), setting: setting.cell.setting.clone() },
        repeat,
        seed: u64::from(repeat),
        started_unix_s: 0,
        network: setting.network.clone(),
        outcome: crate::record::Outcome::Measured(Box::new(measurement(need, setting, link))),
    };
    let links = |setting: Setting| {
        let each = need.links.iter().flat_map(|link| (0..5).map(move |repeat| (link, repeat)));
        each.map(|(link, repeat)| record(&setting, link, repeat)).collect::<Vec<_>>()
    };
    grounds.flat_map(links).collect()
}

/// A thousand links that cost half of what they may.
fn records_of_many_links() -> Vec<Record> {
    let plan = many_links::Plan::TARGET;
    let side = SideOfMany {
        bytes_per_idle_link: 32.0 * 1_024.0,
        idle_cpu_s: 3.0,
        wake_ups: 250_000,
        packets_sent: 165_000,
        ..SideOfMany::default()
    };
    let many_links = ManyLinks {
        idle_links: plan.idle,
        busy_links: plan.busy,
        idle_s: 60.0,
        listening: side,
        connecting: side,
    };
    let run = Measurement { many_links: Some(many_links), ..Measurement::default() };
    let outcome = crate::record::Outcome::Measured(Box::new(run));
    (0..5).map(|repeat| plan.record(repeat, 0, outcome.clone())).collect()
}

fn measurement(need: &Need, setting: &Setting, link: &str) -> Measurement {
    let flows: Vec<_> =
        setting.flows.iter().map(|flow| result(need, &setting.network, flow, link)).collect();
    let bytes: u64 = flows.iter().map(|f| f.delivered * f.flow.payload_bytes as u64).sum();
    let cost = if link == "quic" { 3.0 } else { 1.0 };
    let process = ProcessUse { cpu_s: cost * bytes as f64 / 1e9 / 2.0, peak_rss_bytes: 1 << 20 };
    let mut measurement = Measurement {
        flows,
        publisher: process,
        subscriber: process,
        machine_cpu_s: Some(2.0 * cost * bytes as f64 / 1e9),
        arq_retransmissions: Some(100),
        in_flight: Vec::<InFlight>::new(),
        ..Measurement::default()
    };
    let percent = match need.scenario {
        "recorded" => 110,
        "shared-bottleneck" => 105,
        _ => 125,
    };
    measurement.forward.entered_bytes = bytes * percent / 100;
    measurement.forward.entered_packets = bytes / 1_000;
    measurement
}

fn result(need: &Need, network: &Conditions, flow: &Flow, link: &str) -> FlowResult {
    let (offered, duration_s) = match flow.pattern {
        Pattern::Periodic { messages, rate_hz } => (messages, messages as f64 / rate_hz),
        Pattern::PingPong { messages } | Pattern::Opening { messages } => (messages, 1.0),
        Pattern::Transfer { messages } => (messages, if link == "arq-aimd" { 30.0 } else { 2.0 }),
        Pattern::Flood { seconds } => {
            let mbps = flood_mbps(network, link);
            ((mbps * 1e6 * seconds / 8.0 / flow.payload_bytes as f64).ceil() as u64, seconds)
        }
    };
    let tenths = (duration_s * 10.0) as usize;
    let departures = |rate_hz: f64| (0..offered).map(move |i| i as f64 / rate_hz * 1e3);
    let messages = match flow.pattern {
        Pattern::Periodic { rate_hz, .. } if need.scenario == "blackout" => {
            departures(rate_hz).map(|at| (at, Some(after_blackout(at)))).collect()
        }
        Pattern::Periodic { rate_hz, .. } if need.scenario == "wifi-burst" => {
            departures(rate_hz).map(|at| (at, Some(40.0))).collect()
        }
        Pattern::Periodic { rate_hz, .. } if need.scenario == "two-radios" => {
            departures(rate_hz).map(|at| (at, Some(network.forward.delay_ms + 0.2))).collect()
        }
        Pattern::Opening { .. } => departures(1.0).map(|at| (at, Some(500.0))).collect(),
        _ => Vec::new(),
    };
    FlowResult {
        flow: flow.clone(),
        offered,
        delivered: offered,
        duplicates: 0,
        out_of_order: 0,
        longest_silence_ms: 1.0,
        duration_s,
        arrived_bytes: vec![1_000; tenths],
        messages,
        kept_every: 1,
        percentiles: percentiles(network, flow, link),
        ideal: (need.scenario == "fades").then(|| Ideal {
            this_run: Some(percentiles(network, flow, link)),
            ..Ideal::default()
        }),
    }
}

fn flood_mbps(network: &Conditions, link: &str) -> f64 {
    let on_loopback = if link == ARQ {
        10_000.0
    } else if SEALED.contains(&link) {
        8_000.0
    } else if link.starts_with("tcp") {
        9_000.0
    } else {
        2_500.0
    };
    oracle::capacity_mbps(network).map_or(on_loopback, |capacity| 0.98 * capacity)
}

/// What departs in the blackout of 3 to 11 s arrives half a second behind it.
fn after_blackout(departed_ms: f64) -> f64 {
    match departed_ms {
        3_000.0..11_500.0 => 11_500.0 - departed_ms,
        _ => 10.0,
    }
}

/// Ours arrive at once, without redundancy as the ideal does, the others twenty times later.
fn percentiles(network: &Conditions, flow: &Flow, link: &str) -> Percentiles {
    let at_once = network.forward.delay_ms + 0.2;
    let all = |ms: f64| {
        let it = Some(ms);
        Percentiles { mean_of_delivered: it, p50: it, p90: it, p99: it, p99_9: it, max: it }
    };
    match link {
        ARQ | ARQ_PATHS | ARQ_A | ARQ_B | "arq-tls" | "arq-psk" => all(at_once),
        ARQ_NO_FEC => oracle::closed_form(flow, network).unwrap(),
        _ => all(20.0 * at_once),
    }
}

fn outcome_of(results: &Results, target: &str) -> Verdict {
    judge(results, REPEATS).into_iter().find(|verdict| verdict.target == target).unwrap()
}

/// Changes every run of a link in a scenario whose setting has all of these values.
fn change(
    results: &mut Results,
    scenario: &str,
    link: &str,
    setting: &[(&str, &str)],
    mut how: impl FnMut(&mut Measurement),
) {
    let (_, records) = results.iter_mut().find(|(name, _)| name == scenario).unwrap();
    let mut changed = 0;
    for record in records.iter_mut().filter(|record| record.cell.link == link) {
        let has = |(axis, value): &(&str, &str)| {
            record.cell.setting.contains(&((*axis).to_owned(), (*value).to_owned()))
        };
        if let (true, crate::record::Outcome::Measured(measurement)) =
            (setting.iter().all(has), &mut record.outcome)
        {
            how(measurement);
            changed += 1;
        }
    }
    assert!(changed > 0, "nothing to change in {scenario}, {link}, {setting:?}");
}

/// The target must be met before the change and missed after it; all others stay as they are.
fn turns(
    target: &str,
    scenario: &str,
    link: &str,
    setting: &[(&str, &str)],
    how: fn(&mut Measurement),
) {
    let mut results = ideal_world();
    let before = judge(&results, REPEATS);
    change(&mut results, scenario, link, setting, how);
    for (before, after) in before.iter().zip(judge(&results, REPEATS)) {
        let expected = if before.target == target { Outcome::Missed } else { before.outcome };
        assert_eq!(after.outcome, expected, "{target} turned {after:?}");
    }
}

const HARD: [(&str, &str); 3] =
    [("drop_percent", "25"), ("delay_ms", "10"), ("payload_bytes", "100000")];

#[test]
fn every_rival_is_measured() {
    let need = NEEDS.iter().find(|need| need.scenario == "drop-rate").unwrap();
    assert!(STOCK.iter().chain(&DEFAULTS).all(|link| need.links.contains(link)));
}

#[test]
fn in_an_ideal_world_all_is_met() {
    for verdict in judge(&ideal_world(), REPEATS) {
        assert_eq!(verdict.outcome, Outcome::Met, "{verdict:#?}");
        assert!(verdict.worst_ratio.is_none_or(|ratio| ratio <= 1.0), "{verdict:#?}");
    }
}

#[test]
fn without_results_nothing_is_met() {
    for verdict in judge(&[], REPEATS) {
        assert_eq!(verdict.outcome, Outcome::NotMeasured, "{verdict:?}");
        assert!(!verdict.missing.is_empty() && verdict.worst.is_empty());
    }
}

#[test]
fn t1_turns_on_one_percentile_of_one_cell() {
    // The ideal p99 of that cell is 130 ms.
    turns("T1", "drop-rate", ARQ_NO_FEC, &HARD, |run| run.flows[0].percentiles.p99 = Some(171.0));
    turns("T1", "drop-rate", ARQ_NO_FEC, &HARD, |run| run.flows[0].percentiles.p50 = None);
    let mut results = ideal_world();
    change(&mut results, "drop-rate", ARQ_NO_FEC, &HARD, |run| {
        run.flows[0].percentiles.p99 = Some(169.0);
    });
    let verdict = outcome_of(&results, "T1");
    assert_eq!(verdict.outcome, Outcome::Met);
    assert_eq!(verdict.worst, "100000 bytes, 10 ms, 25 % p99: 169 of at most 170");
}

#[test]
fn t2_turns_on_the_round_trip_and_on_the_bytes() {
    let cell = [("drop_percent", "10"), ("delay_ms", "10"), ("payload_bytes", "10000")];
    turns("T2", "one-round-trip", ARQ, &cell, |run| run.flows[0].percentiles.p99 = Some(20.1));
    turns("T2", "one-round-trip", ARQ, &cell, |run| run.backward.entered_bytes = 4_200_000);
}

#[test]
fn t3_turns_on_any_rival_that_comes_near() {
    // Ours takes 10.2 ms; a tenth and a third of theirs must not be below that.
    turns("T3", "drop-rate", "tcp-cubic", &HARD, |run| run.flows[0].percentiles.p99 = Some(101.0));
    turns("T3", "drop-rate", "tcp-bbr", &HARD, |run| run.flows[0].percentiles.p99 = Some(30.0));
    // Ours takes 0.7 ms: 5 % later would be 0.693.
    let clean = [("drop_percent", "0"), ("delay_ms", "0.5"), ("payload_bytes", "10000")];
    turns("T3", "drop-rate", "udp", &clean, |run| run.flows[0].percentiles.p50 = Some(0.66));
    let mut results = ideal_world();
    change(&mut results, "drop-rate", "tcp-cubic", &HARD, |run| {
        run.flows[0].percentiles.p99 = None
    });
    assert_eq!(outcome_of(&results, "T3").outcome, Outcome::Met);
    // A rival that is missing is no rival that was beaten.
    for missing in STOCK {
        let mut without = ideal_world();
        without[0].1.retain(|record| record.cell.link != missing);
        assert_eq!(outcome_of(&without, "T3").outcome, Outcome::NotMeasured, "{missing}");
    }
}

#[test]
fn t4_to_t6_turn_on_goodput_and_cpu() {
    let slower = |run: &mut Measurement| run.flows[0].duration_s *= 1.1;
    turns("T4", "goodput", ARQ, &[("drop_percent", "25")], slower);
    // A flood that stalls is not as fast as its first half second.
    turns("T4", "goodput", ARQ, &[("drop_percent", "10")], |run| {
        let flow = &mut run.flows[0];
        (flow.duration_s, flow.delivered) = (flow.duration_s / 16.0, flow.delivered / 16);
        more_cpu(run, 1.0 / 16.0);
    });
    turns("T5b", "loopback", ARQ, &[], |run| run.flows[0].duration_s *= 1.2);
    turns("T6", "loopback", ARQ, &[], |run| run.publisher.cpu_s *= 2.1);
    let mut results = ideal_world();
    change(&mut results, "loopback", "quic", &[], |run| run.flows[0].delivered *= 2);
    assert_eq!(outcome_of(&results, "T5").outcome, Outcome::Missed);
}

#[test]
fn w1_and_w2_turn_on_goodput_and_cpu() {
    turns("W1", "fast-wire", ARQ, &[], |run| run.flows[0].duration_s *= 1.5);
    turns("W1", "fast-wire", ARQ, &[], |run| more_cpu(run, 1.4));
    turns("W2", "goodput", ARQ, &[("drop_percent", "10")], |run| more_cpu(run, 1.3));
    turns("W2", "goodput", "quic", &[("drop_percent", "0")], |run| more_cpu(run, 0.6));
}

/// Of the whole machine; the two processes take what they took.
fn more_cpu(run: &mut Measurement, factor: f64) {
    run.machine_cpu_s = run.machine_cpu_s.map(|seconds| factor * seconds);
}

#[test]
fn t7_and_t8_turn_on_what_the_rest_costs_a_small_message() {
    let beside = [("drop_percent", "10"), ("case", "beside 100 KB")];
    turns("T7", "mixed-priority", ARQ, &beside, |run| run.flows[0].percentiles.p99 = Some(6.3));
    turns("T8", "ping-pong", "udp", &[], |run| run.flows[0].percentiles.p50 = Some(0.1));
    // Half of the scenario is not the scenario.
    let mut results = ideal_world();
    let (_, records) = results.iter_mut().find(|(name, _)| name == "ping-pong").unwrap();
    let one = records[0].cell.setting.clone();
    records.retain(|record| record.cell.setting == one);
    assert_eq!(outcome_of(&results, "T8").outcome, Outcome::NotMeasured);
}

#[test]
fn t9_turns_on_too_much_on_too_little_and_on_unevenness() {
    turns("T9", "fairness-cubic", ARQ, &[], |run| run.flows[0].arrived_bytes.fill(3_100));
    turns("T9", "fairness-cubic", ARQ, &[], |run| run.flows[0].arrived_bytes.fill(300));
    turns("T9", "fairness", ARQ, &[], |run| run.flows[1].arrived_bytes.fill(500));
    // Before the second joins, all may go to the first.
    let mut results = ideal_world();
    change(&mut results, "fairness", ARQ, &[], |run| run.flows[0].arrived_bytes[..50].fill(90_000));
    assert_eq!(outcome_of(&results, "T9").outcome, Outcome::Met);
}

#[test]
fn t10_turns_on_what_idle_links_of_either_side_cost() {
    let turns_on = |how: fn(&mut ManyLinks)| {
        let mut results = ideal_world();
        change(&mut results, many_links::SCENARIO, ARQ, &[], |run| {
            run.many_links.iter_mut().for_each(how);
        });
        outcome_of(&results, "T10")
    };
    let large = turns_on(|many| many.connecting.bytes_per_idle_link = 65.0 * 1_024.0);
    assert_eq!(large.outcome, Outcome::Missed);
    assert_eq!(large.worst, "KiB per idle link, connecting: 65.00 of at most 64.00");
    // 1,100 links for 60 s.
    let missed: [fn(&mut ManyLinks); 5] = [
        |many| many.listening.packets_sent = 331_000,
        |many| many.listening.wake_ups = 496_000,
        |many| many.connecting.ptos = 1,
        |many| many.listening.retransmitted = 1,
        |many| many.connecting.links_lost = 1,
    ];
    for how in missed {
        assert_eq!(turns_on(how).outcome, Outcome::Missed);
    }
    // What must never happen may not happen once.
    for how in &missed[2..] {
        let mut once = ideal_world();
        let mut is_first = true;
        change(&mut once, many_links::SCENARIO, ARQ, &[], |run| {
            run.many_links.iter_mut().filter(|_| is_first).for_each(how);
            is_first = false;
        });
        assert_eq!(outcome_of(&once, "T10").outcome, Outcome::Missed);
    }
    let mut fewer = ideal_world();
    let (_, records) = fewer.iter_mut().find(|(name, _)| name == many_links::SCENARIO).unwrap();
    for record in records {
        record.cell.setting[0].1 = "999".to_owned();
    }
    assert_eq!(outcome_of(&fewer, "T10").outcome, Outcome::NotMeasured);
}

#[test]
fn t11_turns_on_published_figures_and_on_the_sheet() {
    let clean = [("drop_percent", "0"), ("delay_ms", "0.5"), ("payload_bytes", "10000")];
    turns("T11", "drop-rate", ARQ, &clean, |run| run.flows[0].delivered -= 1);
    // Published: a mean of 52.7 ms; 17 of 25 s; 3.9 s.
    let jitter = [("case", "1 %, jitter")];
    turns("T11", "arq-schemes", ARQ, &jitter, |run| {
        run.flows[0].percentiles.mean_of_delivered = Some(55.6);
    });
    turns("T11", "window-vs-aimd", ARQ, &[("case", "remote")], |run| {
        run.flows[0].duration_s = 21.5
    });
    let huge = [("case", "huge, 5 Mb/s, clean")];
    turns("T11", "reliable-sheet", ARQ, &huge, |run| run.flows[0].duration_s = 4.2);
    turns("T11", "reliable-sheet", ARQ, &[("case", "50 % dropped")], |run| {
        run.flows[0].delivered -= 1
    });
    turns("T11", "reliable-sheet", ARQ, &huge, |run| run.flows[0].out_of_order = 1);
    turns("T11", "sack", ARQ, &[], |run| run.arq_retransmissions = Some(114));
    // Who dies early has sent little again.
    turns("T11", "sack", ARQ, &[], |run| run.flows[0].delivered = 5);
    // Published: gaps of 187 ms at best, and 400 to 3,600 ms; nobody says how much came.
    turns("T11", "wifi-bad", ARQ, &[], |run| {
        run.flows[0].percentiles.mean_of_delivered = Some(421.0);
    });
    turns("T11", "wifi-bad", ARQ, &[], |run| run.flows[1].delivered -= 1);
    turns("T11", "wifi-burst", ARQ, &[], |run| {
        let flow = &mut run.flows[0];
        flow.delivered -= 6;
        flow.messages[494..].iter_mut().for_each(|(_, latency)| *latency = None);
    });
}

/// All of a flow's messages come, but in a bunch every 240 ms.
fn bunch(flow: &mut FlowResult) {
    for (at, latency) in &mut flow.messages {
        *latency = Some(280.0 - *at % 240.0);
    }
}

#[test]
fn t11_turns_on_the_worst_of_three_robots_and_not_on_what_nobody_published() {
    turns("T11", "wifi-burst", ARQ, &[], |run| bunch(&mut run.flows[0]));
    turns("T11", "wifi-burst", ARQ, &[], |run| bunch(&mut run.flows[4]));
    let mut results = ideal_world();
    change(&mut results, "wifi-burst", ARQ, &[], |run| bunch(&mut run.flows[1]));
    assert_eq!(outcome_of(&results, "T11").outcome, Outcome::Met);
}

#[test]
fn t12_turns_on_the_first_message_and_on_every_message() {
    turns("T12", "blackout", ARQ, &[], |run| {
        for (at, latency) in &mut run.flows[0].messages {
            if (3_000.0..13_000.0).contains(at) {
                *latency = Some(13_000.0 - *at);
            }
        }
    });
    turns("T12", "blackout", ARQ, &[], |run| run.flows[0].delivered -= 1);
    let mut results = ideal_world();
    change(&mut results, "blackout", ARQ, &[], |run| run.flows[0].kept_every = 2);
    assert_eq!(outcome_of(&results, "T12").outcome, Outcome::NotMeasured);
}

#[test]
fn a_look_is_judged_by_as_many_repeats_as_it_asks_for() {
    let mut results = ideal_world();
    results.iter_mut().for_each(|(_, records)| records.retain(|record| record.repeat == 0));
    for (repeats, expected) in [(1, Outcome::Met), (2, Outcome::NotMeasured)] {
        for verdict in judge(&results, repeats) {
            assert_eq!(verdict.outcome, expected, "{repeats}: {verdict:?}");
        }
    }
}

#[test]
fn too_few_repeats_and_void_runs_are_not_measured_and_failures_are_missed() {
    let with = |how: fn(&mut Record)| {
        let mut results = ideal_world();
        let (_, goodput) = results.iter_mut().find(|(name, _)| name == "goodput").unwrap();
        how(&mut goodput[0]);
        outcome_of(&results, "T4")
    };
    let void = with(|record| match &mut record.outcome {
        crate::record::Outcome::Measured(run) => run.forward.emulator_overrun = 1,
        crate::record::Outcome::Failed(_) => unreachable!(),
    });
    assert_eq!(void.outcome, Outcome::NotMeasured);
    assert!(void.missing[0].ends_with("0 %: 4 of 5 repeats"), "{void:?}");
    let failed = with(|record| record.outcome = crate::record::Outcome::Failed("died".to_owned()));
    assert_eq!(failed.outcome, Outcome::Missed);
    let shown = table(&[void, failed]);
    assert!(
        shown.contains("T4 not measured: goodput, arq") && shown.contains("failed: died"),
        "{shown}"
    );
}

#[test]
fn e1_turns_on_opening_latency_speed_and_cost() {
    for link in SEALED {
        turns("E1", "opening", link, &[("drop_percent", "25")], |run| {
            run.flows[0].messages[0].1 = Some(1_001.0);
        });
        turns("E1", "drop-rate", link, &[("drop_percent", "5")], |run| {
            run.flows[0].percentiles.p99 = Some(99.0);
        });
        turns("E1", "loopback", link, &[], |run| run.flows[0].delivered /= 2);
        turns("E1", "loopback", link, &[], |run| run.publisher.cpu_s *= 4.0);
    }
    let mut results = ideal_world();
    change(&mut results, "opening", "arq-tls", &[("drop_percent", "10")], |run| {
        run.flows[0].messages.iter_mut().for_each(|(_, latency)| *latency = None);
    });
    assert_eq!(outcome_of(&results, "E1").outcome, Outcome::Met, "nobody asks for 10 %");
}

#[test]
fn m1_turns_on_the_tail_the_packets_and_the_fail_over() {
    let taxis = [("case", "LTE taxi + Starlink")];
    turns("M1", "two-radios", ARQ_PATHS, &taxis, |run| run.flows[0].percentiles.p99 = Some(50.0));
    turns("M1", "two-radios", ARQ_PATHS, &taxis, |run| run.forward.entered_packets *= 2);
    let dead = [("case", "dead")];
    turns("M1", "two-radios", ARQ_PATHS, &dead, |run| run.flows[0].messages[9].1 = Some(121.0));
    turns("M1", "two-radios", ARQ_PATHS, &dead, |run| run.flows[0].messages[9].1 = None);
    let mut results = ideal_world();
    change(&mut results, "two-radios", ARQ_A, &taxis, |run| {
        run.flows[0].messages[..50].iter_mut().for_each(|(_, latency)| *latency = Some(900.0));
    });
    assert_eq!(outcome_of(&results, "M1").outcome, Outcome::Met, "an outage is no part of a p99");
}

#[test]
fn r1_turns_on_commands_in_any_recording_on_their_sum_and_on_bytes() {
    let bus = [("case", "LTE bus, command beside video")];
    turns("R1", "recorded", ARQ, &bus, |run| run.flows[0].percentiles.p50 = Some(450.0));
    turns("R1", "recorded", ARQ, &bus, |run| run.flows[0].percentiles.p99 = Some(450.0));
    turns("R1", "recorded", ARQ, &bus, |run| run.forward.entered_bytes *= 2);
    // 404 ms: none is 5 % later than the best, and together they are not a fifth earlier.
    turns("R1", "recorded", ARQ, &[], |run| {
        if run.flows.len() == 2 && run.flows[1].flow.name == "video" {
            let as_late = 20.0 * run.flows[0].percentiles.p50.unwrap();
            run.flows[0].percentiles.p50 = Some(as_late);
            run.flows[0].percentiles.p99 = Some(as_late);
        }
    });
}

#[test]
fn r2_turns_on_the_beacon_and_on_the_bulk() {
    let beside = [("case", "Starlink, beacon beside bulk")];
    turns("R2", "recorded", ARQ, &beside, |run| run.flows[0].percentiles.p99 = Some(99.0));
    turns("R2", "recorded", ARQ, &beside, |run| run.flows[1].delivered /= 2);
    let alone = [("case", "Starlink, beacon alone")];
    turns("R2", "recorded", ARQ, &alone, |run| run.flows[0].percentiles.p99 = Some(0.1));
}

#[test]
fn r3_turns_on_the_bound_of_each_run() {
    let short = [("case", "fades of 20 ms")];
    // The bound is 30.2 ms.
    turns("R3", "fades", ARQ, &short, |run| run.flows[0].percentiles.p99 = Some(34.8));
    turns("R3", "fades", ARQ, &short, |run| run.flows[0].percentiles.p99 = None);
    let mut results = ideal_world();
    change(&mut results, "fades", ARQ, &short, |run| {
        let flow = &mut run.flows[0];
        let late = |bound_ms: f64| Some(Percentiles { p99: Some(bound_ms), ..flow.percentiles });
        (flow.ideal, flow.percentiles.p99) =
            (Some(Ideal { this_run: late(100.0), ..Ideal::default() }), Some(114.0));
    });
    let verdict = outcome_of(&results, "R3");
    assert_eq!(verdict.outcome, Outcome::Met);
    assert_eq!(verdict.worst, "case fades of 20 ms, p99 beside the bound: 1.14 of at most 1.15");
    change(&mut results, "fades", ARQ, &short, |run| run.flows[0].ideal = None);
    assert_eq!(outcome_of(&results, "R3").outcome, Outcome::NotMeasured);
}

#[test]
fn a_run_with_worse_fades_does_not_decide_r3() {
    let mut results = ideal_world();
    let mut runs = 0;
    change(&mut results, "fades", ARQ, &[("case", "fades of 200 ms")], |run| {
        runs += 1;
        run.flows[0].percentiles.p99 = Some(if runs <= 2 { 300.0 } else { 30.2 });
    });
    assert_eq!(outcome_of(&results, "R3").outcome, Outcome::Met, "the median of five");
}

#[test]
fn s1_turns_on_bytes_on_evenness_on_the_least_and_on_the_share_beside_a_kernel() {
    let case = |name| [("case", name)];
    let cross_country = case("cross-country");
    turns("S1", "shared-bottleneck", ARQ, &cross_country, |run| {
        run.forward.entered_bytes = run.forward.entered_bytes * 109 / 105;
    });
    turns("S1", "shared-bottleneck", ARQ, &cross_country, |run| {
        run.flows[3].arrived_bytes.fill(200);
    });
    turns("S1", "beside-cubic", ARQ, &case("cubic joins"), |run| {
        run.flows[0].arrived_bytes.fill(2_500);
    });
    turns("S1", "beside-bbr", ARQ, &case("bbr was first"), |run| {
        run.flows[1].arrived_bytes.fill(400);
    });
}

#[test]
fn r4_and_b1_turn_on_their_tail_and_bytes() {
    turns("R4", "thin-radio", ARQ, &[], |run| run.flows[0].percentiles.p99 = Some(15.1));
    let tenth = [("drop_percent", "10")];
    turns("B1", "commands", ARQ, &tenth, |run| run.flows[0].percentiles.p99 = Some(80.0));
    turns("B1", "commands", ARQ, &tenth, |run| run.forward.entered_bytes *= 3);
    let clean = [("drop_percent", "0")];
    turns("B1", "commands", ARQ, &clean, |run| run.forward.entered_bytes *= 2);
}
