// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Do the sentences say what the records hold, whoever is better?

use netlab::wire::{Change, Event, Policer};

use super::*;
use crate::record::{FlowResult, Measurement, Outcome, Record};
use crate::report::sample::{environment, info, Sample, LINKS};
use crate::report::Input;

/// Two repeats at 0 and 10 % of loss, the latter being what is told; tcp-bbr is the best of the others.
fn records(arq_p99: Option<f64>) -> Vec<Record> {
    let sample = Sample {
        drops: vec![0.0, 10.0],
        payloads: vec![10_000],
        delays: vec![0.5],
        repeats: 2,
        ..Sample::drop_rate()
    };
    let mut records = sample.records(1);
    change(&mut records, |link, run| {
        run.flows[0].percentiles.p99 = match link {
            "arq" => arq_p99,
            "tcp-bbr" => Some(20.0),
            _ => Some(40.0),
        };
    });
    records
}

fn change(records: &mut [Record], what: impl Fn(&str, &mut Measurement)) {
    for record in records {
        if let Outcome::Measured(run) = &mut record.outcome {
            what(&record.cell.link, run);
        }
    }
}

fn opening(records: &[Record]) -> Opening {
    let (scenario, environment) = (info("sample"), environment());
    Opening::of(&Grid::of(&Input { scenario: &scenario, environment: &environment, records }))
}

fn sentence(records: &[Record], number: usize) -> String {
    opening(records).sentences[number].replace('\u{a0}', " ")
}

const SENT: usize = 0;
const NETWORK: usize = 1;
const OUTCOME: usize = 2;
const COST: usize = 3;

#[test]
fn better_level_and_worse_have_words_of_their_own() {
    let said = |p99| sentence(&records(p99), OUTCOME);
    let title = "At 10 % lost, the 99th percentile of latency was";
    assert_eq!(
        said(Some(5.0)),
        format!(
            "{title} 5.00 ms over arq and 20.0 ms over tcp-bbr, the best of the others: arq was 4.00 times \
             better. Over all 2 settings it was better in 2, level in none, worse in none."
        )
    );
    let level = said(Some(20.02));
    assert!(level.contains("the best of the others: no difference beyond noise."), "{level}");
    assert!(level.ends_with("better in none, level in 2, worse in none."), "{level}");
    let worse = said(Some(60.0));
    assert!(worse.contains("60.0 ms over arq and 20.0 ms over tcp-bbr"), "{worse}");
    assert!(worse.contains(": arq was 3.00 times worse than tcp-bbr."), "{worse}");
    assert!(worse.ends_with("better in none, level in none, worse in 2."), "{worse}");
}

#[test]
fn a_lost_rank_is_no_number_of_times() {
    let ours = sentence(&records(None), OUTCOME);
    assert!(ours.contains("was lost over arq and 20.0 ms over tcp-bbr"), "{ours}");
    assert!(ours.contains(": arq was worse than tcp-bbr."), "{ours}");
    let mut all_others = records(Some(5.0));
    change(&mut all_others, |link, run| {
        if link != "arq" {
            run.flows[0].percentiles.p99 = None;
        }
    });
    let theirs = sentence(&all_others, OUTCOME);
    assert!(theirs.contains("5.00 ms over arq and lost over tcp-cubic"), "{theirs}");
    assert!(theirs.contains("the best of the others: arq was better."), "{theirs}");
}

#[test]
fn a_rival_that_delivers_less_is_told_of_where_it_wins() {
    let mut worse = records(Some(60.0));
    change(&mut worse, |link, run| {
        run.flows[0].delivered = if link == "arq" { 500 } else { 450 };
    });
    let said = sentence(&worse, OUTCOME);
    assert!(said.contains("worse than tcp-bbr, which delivered less."), "{said}");
}

#[test]
fn failed_runs_of_ours_win_nothing() {
    let mut failed = records(Some(5.0));
    let ours_at_ten =
        |record: &&mut Record| record.cell.link == "arq" && record.cell.setting[0].1 == "10";
    let no_session = || Outcome::Failed("no session".to_owned());
    failed.iter_mut().find(ours_at_ten).unwrap().outcome = no_session();
    let one = sentence(&failed, OUTCOME);
    assert!(one.contains(": arq wins nothing there, for 1 of its runs failed."), "{one}");
    failed.iter_mut().filter(ours_at_ten).for_each(|record| record.outcome = no_session());
    assert_eq!(sentence(&failed, OUTCOME), "At 10 % lost, arq could not run: its runs failed.");
    assert_eq!(sentence(&failed, COST), "What it cost was not measured.");
}

#[test]
fn without_a_rival_or_without_us_there_is_nothing_to_be_better_than() {
    let of = |keep: fn(&str) -> bool| {
        let mut some = records(Some(5.0));
        some.retain(|record| keep(&record.cell.link));
        some
    };
    let alone = of(|link| link == "arq");
    assert_eq!(
        sentence(&alone, OUTCOME),
        "At 10 % lost, the 99th percentile of latency was 5.00 ms over arq; no other link was measured beside it."
    );
    assert!(sentence(&alone, SENT).starts_with("arq carried messages"));
    let others = of(|link| link != "arq");
    assert!(sentence(&others, OUTCOME).starts_with("None of these links is ours"));
    assert_eq!(sentence(&others, COST), "What it cost was not measured.");
}

#[test]
fn where_nothing_ran_nothing_is_claimed_and_nothing_drawn() {
    let mut none = records(Some(5.0));
    none.iter_mut().for_each(|record| record.outcome = Outcome::Failed("no".to_owned()));
    let Opening { picture, sentences } = opening(&none);
    assert!(picture.is_none());
    assert!(sentences[SENT].ends_with("counts: nothing was measured."), "{sentences:?}");
    assert_eq!(sentences[OUTCOME], "No run counts, so nothing can be said of arq.");
    assert_eq!(sentences[NETWORK], "No network was measured.");
}

#[test]
fn costs_are_more_less_or_as_much() {
    let said = |arq: f64, bbr: f64| {
        let mut paid = records(Some(5.0));
        change(&mut paid, |link, run| {
            let FlowResult { delivered, flow, .. } = &run.flows[0];
            let bytes = (delivered * flow.payload_bytes as u64) as f64;
            let share = if link == "arq" { arq } else { bbr };
            run.forward.entered_bytes = (bytes * share) as u64;
            run.backward.entered_bytes = 0;
            (run.publisher.cpu_s, run.subscriber.cpu_s) = (bytes / 1e9 * 3.0, 0.0);
        });
        sentence(&paid, COST)
    };
    assert_eq!(
        said(1.5, 1.2),
        "For that arq took 1.50 bytes on the wire per byte delivered (25 % more than tcp-bbr) and 3.00 CPU \
         seconds per GB delivered (as much as tcp-bbr)."
    );
    assert!(said(1.2, 1.5)
        .contains("1.20 bytes on the wire per byte delivered (20 % less than tcp-bbr)"));
    assert!(said(4.0, 1.25).contains("3.20 times as much as tcp-bbr"));
    let mut uncounted = records(Some(5.0));
    change(&mut uncounted, |_, run| {
        (run.forward, run.backward) = Default::default();
        (run.publisher, run.subscriber) = Default::default();
    });
    assert_eq!(sentence(&uncounted, COST), "What it cost was not measured.");
}

#[test]
fn the_network_is_told_with_all_that_it_does() {
    let said = |set: fn(&mut Conditions)| {
        let mut on = records(Some(5.0));
        on.iter_mut().for_each(|record| set(&mut record.network));
        sentence(&on, NETWORK)
    };
    let start = "The emulated network between two hosts of one machine took 0.5 ms one way";
    assert_eq!(said(|_| {}), format!("{start} and lost 0 to 10 % of the packets."));
    let bursts = said(|network| {
        let loss = Loss::Gilbert { percent: 5.0, burst_packets: 3.0 };
        (network.forward.loss, network.backward.loss) = (loss, loss);
        network.forward.rate_mbps = Some(20.0);
        network.events =
            vec![Event { at_s: 1.0, until_s: Some(2.0), every_s: None, change: Change::Blackout }];
    });
    assert_eq!(
        bursts,
        format!("{start}, lost 5 % of the packets in bursts, carried at most 20 Mb/s and changed on the way.")
    );
    let policed = said(|network| {
        network.forward.policer = Some(Policer { rate_mbps: 8.0, burst_bytes: 30_000 });
    });
    assert!(policed.ends_with("carried at most 8 Mb/s."), "{policed}");
    let loopback = said(|network| *network = Conditions::default());
    assert_eq!(loopback, "There was no network between them but the loopback of one machine.");
}

#[test]
fn what_was_sent_is_told_by_its_pattern() {
    let of = |flows| {
        let sample = Sample {
            links: LINKS[..2].to_vec(),
            flows,
            payloads: vec![10_000, 100_000],
            drops: vec![10.0],
            delays: vec![0.5],
            repeats: 1,
            ..Sample::drop_rate()
        };
        sentence(&sample.records(1), SENT)
    };
    let said = |pattern| of(vec![("data", pattern)]);
    let both = "arq and tcp-cubic each carried messages of 10 KB to 100 KB, ";
    let periodic = Pattern::Periodic { rate_hz: 50.0, messages: 500 };
    assert_eq!(said(periodic), format!("{both}50 a second."));
    assert!(said(Pattern::Flood { seconds: 3.0 }).ends_with("as fast as the link took them."));
    assert!(said(Pattern::Transfer { messages: 9 }).contains("a fixed number as fast as"));
    assert!(said(Pattern::PingPong { messages: 9 }).contains("each after the answer"));
    assert!(said(Pattern::Opening { messages: 9 }).contains("one new session after another"));
    let flood = Pattern::Flood { seconds: 3.0 };
    let alike = of(vec![("pair-1", flood), ("beacon", periodic), ("pair-2", flood)]);
    let flows = "carried 2 flows of messages of 10 KB to 100 KB, as fast as the link took them and messages of";
    assert!(alike.contains(flows), "{alike}");
}

#[test]
fn the_picture_is_one_panel_of_the_figure_that_is_told() {
    let picture = opening(&records(Some(5.0))).picture.unwrap();
    assert_eq!(picture.title, "99th percentile of latency against packets lost");
    assert_eq!((picture.panels.len(), picture.legend.len()), (1, LINKS.len() + 1));
    let mut one_setting = records(Some(5.0));
    one_setting.retain(|record| record.cell.setting[0].1 == "10");
    let rows = opening(&one_setting).picture.unwrap();
    assert_eq!((rows.title.as_str(), rows.panels.len()), ("99th percentile of latency", 1));
}
