// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Are differences found where they are, and not where they are not?

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use super::*;
use crate::record::{Outcome, Record, SocketBuffers};
use crate::scenario::flow::{CongestionControl, Pattern, Reliability};
use crate::summary::tests::{flat, run};

fn repeats(link: &str, drop: &str, latencies_ms: &[f64]) -> Vec<Record> {
    (0..).zip(latencies_ms).map(|(repeat, ms)| run(link, drop, repeat, flat(*ms))).collect()
}

fn p99_of(a: &[Record], b: &[Record]) -> Compared {
    compare(&summary::of(a), &summary::of(b), &[Figure::P99], 0.05)
}

const SLOW: [f64; 5] = [10.0, 10.2, 10.4, 10.1, 10.3];
const FAST: [f64; 5] = [8.0, 8.2, 8.4, 8.1, 8.3];

#[test]
fn a_difference_beyond_the_spread_is_told_with_its_ratio() {
    let compared = p99_of(&repeats("arq", "10", &SLOW), &repeats("arq", "10", &FAST));
    let row = &compared.rows[0];
    assert_eq!(row.judgement, Judgement::Better);
    assert!((row.ratio.unwrap() - 8.2 / 10.2).abs() < 1e-9);
    let (low, high) = row.interval.unwrap();
    assert!(low < row.ratio.unwrap() && row.ratio.unwrap() < high && high < 1.0, "{row:?}");
    let words = table::of(&compared);
    assert!(words.contains("faster") && words.contains("better in 1 and worse in 0"), "{words}");
    let back = p99_of(&repeats("arq", "10", &FAST), &repeats("arq", "10", &SLOW));
    assert_eq!(back.rows[0].judgement, Judgement::Worse);
}

#[test]
fn goodput_is_better_when_there_is_more_of_it() {
    let mut rows = p99_of(&repeats("arq", "10", &SLOW), &repeats("arq", "10", &FAST)).rows;
    rows[0].figure = Figure::Goodput;
    judge(&mut rows, 0.05);
    assert_eq!(rows[0].judgement, Judgement::Worse);
}

#[test]
fn what_was_lost_in_one_set_only_is_found_without_a_ratio() {
    let lost = [f64::INFINITY; 5];
    let compared = p99_of(&repeats("arq", "10", &FAST), &repeats("arq", "10", &lost));
    let row = &compared.rows[0];
    assert_eq!((row.judgement, row.ratio, row.interval), (Judgement::Worse, None, None));
    assert!(table::of(&compared).contains("┆ lost "));
    let both = p99_of(&repeats("arq", "10", &lost), &repeats("arq", "10", &lost));
    assert_eq!(both.rows[0].judgement, Judgement::NoSignificantDifference);
}

#[test]
fn nothing_is_claimed_where_medians_and_means_disagree() {
    // Most runs of the first set need no repair, and those that do are much later.
    let mut two_sided = [11.0; 20];
    two_sided[11..].fill(31.0);
    let even: Vec<f64> = (0..20).map(|n| 11.3 + f64::from(n) / 1e3).collect();
    let compared = p99_of(&repeats("arq", "10", &two_sided), &repeats("arq", "10", &even));
    let row = &compared.rows[0];
    assert!(row.p_value.unwrap() < 0.05 && row.ratio.unwrap() > 1.0, "{row:?}");
    assert_eq!(row.judgement, Judgement::NoSignificantDifference);
}

#[test]
fn runs_that_failed_are_told_with_the_figures_of_the_others() {
    let mut failed = repeats("arq", "10", &FAST);
    failed[2..].iter_mut().for_each(|run| run.outcome = Outcome::Failed("no session".to_owned()));
    let compared = p99_of(&repeats("arq", "10", &SLOW), &failed);
    let note = "of 5 runs in the second set 3 failed and 0 are void: no session";
    assert_eq!(compared.rows.len(), 1);
    assert!(compared.notes.iter().any(|it| it.contains(note)), "{:?}", compared.notes);
    failed[..2].iter_mut().for_each(|run| run.outcome = Outcome::Failed("no session".to_owned()));
    let compared = p99_of(&repeats("arq", "10", &SLOW), &failed);
    assert!(compared.notes[0].contains("5 failed"), "{:?}", compared.notes);
}

#[test]
fn one_run_tells_nothing() {
    let compared = p99_of(&repeats("arq", "10", &[1.0]), &repeats("arq", "10", &[100.0]));
    assert_eq!(compared.rows[0].judgement, Judgement::CannotTell);
    assert!(table::of(&compared).contains("too few repeats"));
}

#[test]
fn machines_that_grant_other_socket_buffers_are_told() {
    let granting = |receive_bytes: Option<u64>| Environment {
        socket_buffers: receive_bytes
            .map(|receive_bytes| SocketBuffers { receive_bytes, send_bytes: 212_992 }),
        ..Environment::default()
    };
    let (wide, narrow) = (granting(Some(4_194_304)), granting(Some(212_992)));
    let notes = different_machines(&wide, &narrow);
    let note = "4194304 bytes for receiving, 212992 for sending, and 212992 bytes for receiving";
    assert!(notes.len() == 1 && notes[0].contains(note), "{notes:?}");
    for same_or_unknown in [&wide, &granting(None)] {
        assert_eq!(different_machines(&wide, same_or_unknown), Vec::<String>::new());
    }
}

#[test]
fn cells_without_a_counterpart_are_named() {
    let mut other_network = repeats("tcp", "10", &SLOW);
    other_network.iter_mut().for_each(|record| record.network.forward.delay_ms = 9.0);
    let a = [repeats("arq", "10", &SLOW), repeats("udp", "10", &SLOW), repeats("tcp", "10", &SLOW)];
    let b = [repeats("arq", "10", &SLOW), repeats("arq", "25", &SLOW), other_network];
    let compared = p99_of(&a.concat(), &b.concat());
    assert_eq!(compared.rows.len(), 1);
    let notes = compared.notes.join("\n");
    assert!(notes.contains("drop_percent 10, udp: only in the first set"), "{notes}");
    assert!(notes.contains("drop_percent 25, arq: only in the second set"), "{notes}");
    assert!(notes.contains("drop_percent 10, tcp: measured over another network"), "{notes}");
    let nothing = p99_of(&[], &repeats("arq", "10", &SLOW));
    assert!(table::of(&nothing).starts_with("The two sets have no cell in common."));
}

#[test]
fn what_was_sent_otherwise_is_not_compared_and_more_of_it_is() {
    let changed = |change: fn(&mut Flow)| {
        let mut records = repeats("arq", "10", &SLOW);
        for record in &mut records {
            if let Outcome::Measured(measurement) = &mut record.outcome {
                change(&mut measurement.flows[0].flow);
            }
        }
        let compared = p99_of(&repeats("arq", "10", &SLOW), &records);
        (compared.rows.len(), compared.notes.join("\n"))
    };
    let otherwise: [fn(&mut Flow); 7] = [
        |flow| flow.pattern = Pattern::Periodic { rate_hz: 51.0, messages: 100 },
        |flow| flow.pattern = Pattern::PingPong { messages: 100 },
        |flow| flow.congestion_control = CongestionControl::Drop,
        |flow| flow.reliability = Reliability::BestEffort,
        |flow| flow.own_session = true,
        |flow| flow.link = Some("udp".to_owned()),
        |flow| flow.start_s = 1.0,
    ];
    for change in otherwise {
        let (rows, notes) = changed(change);
        assert!(rows == 0 && notes.contains("or with another flow"), "{rows}: {notes}");
    }
    let more: fn(&mut Flow) = |flow| flow.pattern = flow.pattern.scaled(3.0);
    assert_eq!(changed(more), (1, String::new()));
}

#[test]
fn what_grows_with_a_run_is_not_compared_with_that_of_a_longer_one() {
    let transfers = |messages: u64| {
        let mut records = repeats("arq", "10", &SLOW);
        for record in &mut records {
            if let Outcome::Measured(measurement) = &mut record.outcome {
                measurement.flows[0].flow.pattern = Pattern::Transfer { messages };
                measurement.arq_retransmissions = Some(messages);
            }
        }
        summary::of(&records)
    };
    let figures = [Figure::Goodput, Figure::Retransmissions];
    let same = compare(&transfers(100), &transfers(100), &figures, 0.05);
    assert_eq!((same.rows.len(), same.notes.len()), (2, 0));
    let other = compare(&transfers(100), &transfers(10), &figures, 0.05);
    assert_eq!(other.rows.len(), 1, "{:?}", other.notes);
    assert!(other.notes[0].contains("different length"), "{:?}", other.notes);
}

#[test]
fn the_same_in_both_sets_raises_an_alarm_as_seldom_as_promised() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mut latency = || 10.0 * (1.0 + 0.3 * f64::from(random.next_u32()) / 2f64.powi(32));
    let mut set = || -> Vec<Record> {
        let cell = |drop: usize, latency: &mut dyn FnMut() -> f64| {
            let values: Vec<f64> = (0..5).map(|_| latency()).collect();
            repeats("arq", &drop.to_string(), &values)
        };
        (0..6).flat_map(|drop| cell(drop, &mut latency)).collect()
    };
    let alarms = (0..60).filter(|_| {
        let rows = p99_of(&set(), &set()).rows;
        rows.iter().any(|row| row.judgement != Judgement::NoSignificantDifference)
    });
    // 5 % of 60 tables are 3; 10 would be a chance of 1 in 1,000.
    let alarms = alarms.count();
    assert!(alarms < 10, "{alarms} of 60 tables with a false alarm");
}
