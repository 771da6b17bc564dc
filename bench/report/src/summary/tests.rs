// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Are repeats summed up, tested and told as they should be?

use netlab::wire::{Loss as LossModel, Wire};
use proptest::prelude::*;

use super::significance::{holm, mann_whitney, welch};
use super::*;
use crate::record::ProcessUse;

/// A periodic run of 100 messages of 10 KB with these latencies; `None` is lost.
pub(crate) fn run(link: &str, drop: &str, repeat: u32, percentiles: Percentiles) -> Record {
    let lost = percentiles.max.is_none();
    let flow = serde_json::json!({
        "flow": {
            "name": "data", "payload_bytes": 10_000,
            "pattern": "periodic", "rate_hz": 50.0, "messages": 100,
        },
        "offered": 100, "delivered": if lost { 60 } else { 100 },
        "duplicates": 1, "out_of_order": 2, "longest_silence_ms": 25.0, "duration_s": 2.0,
        "arrived_bytes": [], "messages": [], "kept_every": 1,
        "percentiles": percentiles, "ideal": null,
    });
    let mut measurement = Measurement {
        flows: vec![serde_json::from_value(flow).unwrap()],
        publisher: ProcessUse { cpu_s: 0.25, peak_rss_bytes: 30 << 20 },
        subscriber: ProcessUse { cpu_s: 0.25, peak_rss_bytes: 20 << 20 },
        ..Measurement::default()
    };
    measurement.forward.entered_bytes = 1_400_000;
    measurement.forward.entered_packets = 1_000;
    measurement.backward.entered_bytes = 100_000;
    let percent = drop.parse().unwrap();
    let wire = Wire { delay_ms: 0.5, loss: LossModel::Random { percent }, ..Wire::default() };
    Record {
        scenario: "drop-rate".to_owned(),
        cell: Cell {
            link: link.to_owned(),
            setting: vec![("drop_percent".to_owned(), drop.to_owned())],
        },
        repeat,
        seed: u64::from(repeat) + 7,
        started_unix_s: 0,
        network: Conditions { forward: wire.clone(), backward: wire, ..Conditions::default() },
        outcome: Outcome::Measured(Box::new(measurement)),
    }
}

/// All percentiles the same.
pub(crate) fn flat(latency_ms: f64) -> Percentiles {
    let it = Some(latency_ms);
    Percentiles { mean_of_delivered: it, p50: it, p90: it, p99: it, p99_9: it, max: it }
}

/// Five repeats with these latencies in all percentiles.
fn repeats(link: &str, drop: &str, latencies_ms: &[f64]) -> Vec<Record> {
    (0..).zip(latencies_ms).map(|(repeat, ms)| run(link, drop, repeat, flat(*ms))).collect()
}

pub(crate) fn measured(record: &mut Record) -> &mut Measurement {
    match &mut record.outcome {
        Outcome::Measured(measurement) => measurement,
        Outcome::Failed(reason) => panic!("{reason}"),
    }
}

fn words(records: &[Record]) -> Vec<String> {
    defeats(&of(records)).iter().map(ToString::to_string).collect()
}

#[test]
fn repeats_of_a_cell_are_gathered_and_ours_come_first() {
    let mut records = repeats("tcp-bbr", "10", &[9.0, 7.0, 8.0]);
    records.extend(repeats("arq", "10", &[1.0, 3.0]));
    records.extend(repeats("arq", "0", &[0.5]));
    let summaries = of(&records);
    let cells: Vec<_> =
        summaries.iter().map(|s| (s.cell.link.as_str(), s.setting(), s.repeats)).collect();
    assert_eq!(
        cells,
        [
            ("arq", "drop_percent 10".to_owned(), 2),
            ("tcp-bbr", "drop_percent 10".to_owned(), 3),
            ("arq", "drop_percent 0".to_owned(), 1)
        ]
    );
    let tcp = &summaries[1];
    let p99 = &tcp.flows[0].figures[&Figure::P99];
    assert_eq!((p99.median(), p99.min(), p99.max(), p99.quartiles()), (8.0, 7.0, 9.0, None));
    assert_eq!((tcp.flows[0].duplicates, tcp.flows[0].out_of_order), (3, 6));
    // 1.5 MB on the wire, 1,000 packets one way and half a second of CPU for 1 MB in 100 messages.
    assert_eq!(tcp.figures[&Figure::WireBytes].median(), 1.5);
    assert_eq!(tcp.figures[&Figure::WirePackets].median(), 10.0);
    assert_eq!(tcp.figures[&Figure::CpuPerGb].median(), 500.0);
    assert_eq!(tcp.figures[&Figure::PeakMemory].median(), 30.0);
    assert_eq!(tcp.flows[0].ideal.closed_form.unwrap().p99, Some(2.5));
    assert_eq!(tcp.seeds, [7, 8, 9]);
}

#[test]
fn a_lost_rank_is_later_than_any_and_stays_in_the_median() {
    let lost = Percentiles { p50: Some(5.0), ..Percentiles::default() };
    let mut records = repeats("udp", "10", &[5.0, 5.0]);
    records.push(run("udp", "10", 2, lost));
    let udp = &of(&records)[0].flows[0];
    let p99 = &udp.figures[&Figure::P99];
    assert_eq!((p99.median(), p99.max()), (5.0, f64::INFINITY));
    records.push(run("udp", "10", 3, lost));
    assert_eq!(of(&records)[0].flows[0].figures[&Figure::P99].to_string(), "lost (5.00 to lost)");
    assert_eq!(udp.undelivered, 40);
}

#[test]
fn void_and_failed_runs_give_no_figures_but_are_told() {
    let mut records = repeats("arq", "10", &[5.0, 500.0, 500.0]);
    measured(&mut records[1]).backward.emulator_overrun = 3;
    records[2].outcome = Outcome::Failed("the subscriber died".to_owned());
    let summary = &of(&records)[0];
    assert_eq!((summary.repeats, summary.voided), (1, 1));
    assert_eq!(summary.flows[0].figures[&Figure::P99].max(), 5.0);
    let shown = table(std::slice::from_ref(summary));
    assert!(shown.contains("arq (drop_percent 10) failed: the subscriber died"), "{shown}");
    assert!(shown.contains("1 runs void"), "{shown}");
}

#[test]
fn figures_that_have_no_meaning_for_a_pattern_are_not_there() {
    let mut records = repeats("arq", "10", &[5.0]);
    let result = &mut measured(&mut records[0]).flows[0];
    result.flow.pattern = crate::scenario::flow::Pattern::Transfer { messages: 100 };
    let flow = |records: &[Record]| of(records)[0].flows[0].figures.clone();
    let figures = flow(&records);
    assert!(!figures.contains_key(&Figure::P99) && !figures.contains_key(&Figure::Silence));
    // 1 MB in 2 s.
    assert_eq!(
        (figures[&Figure::Goodput].median(), figures[&Figure::Duration].median()),
        (4.0, 2.0)
    );
    measured(&mut records[0]).flows[0].delivered = 99;
    assert_eq!(flow(&records)[&Figure::Duration].median(), f64::INFINITY);
}

#[test]
fn packets_that_nobody_counted_are_not_measured_and_not_none() {
    let mut records = repeats("arq", "10", &[5.0]);
    // As a record without that count is read.
    let bytes_alone = serde_json::json!({ "entered_bytes": 1_400_000 });
    measured(&mut records[0]).forward = serde_json::from_value(bytes_alone).unwrap();
    let figures = &of(&records)[0].figures;
    assert!(figures.contains_key(&Figure::WireBytes));
    assert!(!figures.contains_key(&Figure::WirePackets));
    assert!(!table(&of(&records)).contains(Figure::WirePackets.name()));
}

#[test]
fn packets_for_nothing_are_more_than_any() {
    let mut records = repeats("arq", "10", &[5.0]);
    let measurement = measured(&mut records[0]);
    measurement.flows[0].delivered = 0;
    assert_eq!(Figure::WirePackets.of_cell(measurement), Some(f64::INFINITY));
    // Who never sent has not sent too much.
    measurement.forward.entered_packets = 0;
    assert_eq!(Figure::WirePackets.of_cell(measurement), None);
}

#[test]
fn goodput_is_no_merit_of_who_stalls_or_never_ends() {
    let mut records = repeats("arq", "10", &[5.0]);
    let result = &mut measured(&mut records[0]).flows[0];
    // 1 MB in the first two of eight seconds.
    result.flow.pattern = crate::scenario::flow::Pattern::Flood { seconds: 8.0 };
    let goodput = |result: &FlowResult| Figure::Goodput.of_flow(result);
    assert_eq!(goodput(result), Some(1.0));
    // What comes after the end takes the time until it comes.
    result.duration_s = 10.0;
    assert_eq!(goodput(result), Some(0.8));
    result.flow.pattern = crate::scenario::flow::Pattern::Transfer { messages: 100 };
    assert_eq!(goodput(result), Some(0.8));
    result.delivered = 99;
    assert_eq!(goodput(result), Some(0.0));
}

#[test]
fn the_table_shows_median_range_and_ideal() {
    let mut records = repeats("arq", "10", &[2.75, 2.5, 3.0]);
    records.extend(repeats("tcp-bbr", "10", &[208.4]));
    let shown = table(&of(&records));
    let row = |start: &str| shown.lines().find(|line| line.contains(start)).unwrap().to_owned();
    assert!(row("┆ arq").contains("2.75 (2.50 to 3.00)"), "{shown}");
    assert!(row("tcp-bbr").contains(" 208 "), "{shown}");
    assert!(row("(ideal)").contains("1.50") && row("(ideal)").contains("2.50"), "{shown}");
    assert!(!shown.contains("goodput") && !shown.contains("flow"), "{shown}");
}

#[test]
fn a_clear_difference_is_a_defeat_and_told_in_words() {
    let mut records = repeats("arq", "10", &[5.0, 5.1, 5.2, 5.3, 5.4]);
    records.extend(repeats("tcp-bbr", "10", &[4.0, 4.1, 4.2, 4.3, 4.4]));
    let words = words(&records);
    assert_eq!(words.len(), 4, "p50, p90, p99, max: {words:?}");
    assert_eq!(
        words[0],
        "drop-rate, drop_percent 10: arq loses to tcp-bbr in p50: 5.20 (5.00 to 5.40) against \
         4.20 (4.00 to 4.40) ms (p = 0.008)"
    );
}

#[test]
fn noise_is_no_defeat() {
    let against = |theirs: &[f64]| {
        let mut records = repeats("arq", "10", &[5.0, 5.1, 5.2, 5.3, 5.4]);
        records.extend(repeats("quic", "10", theirs));
        words(&records)
    };
    // Below 5 %, however certain.
    assert_eq!(against(&[4.94, 4.95, 4.96, 4.97, 4.98]), [""; 0]);
    // Well apart in the median, but not beyond chance.
    assert_eq!(against(&[4.0, 4.1, 4.2, 5.5, 5.6]), [""; 0]);
    // U = 3: p = 0.056.
    assert_eq!(against(&[4.0, 4.1, 4.2, 4.3, 5.25]), [""; 0]);
    // Both lost, or only theirs.
    assert_eq!(against(&[f64::INFINITY; 5]), [""; 0]);
}

#[test]
fn with_few_repeats_the_ranges_must_not_overlap() {
    let of_two = |theirs: &[f64]| {
        let mut records = repeats("arq", "10", &[5.0, 6.0]);
        records.extend(repeats("quic", "10", theirs));
        words(&records)
    };
    assert_eq!(of_two(&[3.0, 5.5]), [""; 0]);
    let words = of_two(&[3.0, 4.0]);
    assert!(words[0].ends_with("ms (too few repeats to rule out chance)"), "{words:?}");
}

#[test]
fn being_lost_where_others_are_not_is_a_defeat_and_so_is_not_running() {
    let lost = Percentiles { p50: Some(5.0), ..Percentiles::default() };
    let mut records = vec![run("arq", "10", 0, lost), run("quic", "10", 0, flat(9.0))];
    let found = words(&records);
    let has = |part: &str| found.iter().any(|words| words.contains(part));
    assert!(has("in delivered: 60.0 against 100 %"), "{found:?}");
    assert!(has("p99: lost against 9.00 ms"), "{found:?}");
    records[0].outcome = Outcome::Failed("no session".to_owned());
    let found = words(&records);
    assert_eq!(found, ["drop-rate, drop_percent 10: arq could not run, quic could: no session"]);
}

#[test]
fn a_rival_that_wins_by_losing_messages_is_told_to() {
    let half = Percentiles { p50: Some(1.0), ..Percentiles::default() };
    let records = [run("arq", "10", 0, flat(5.0)), run("udp", "10", 0, half)];
    let words = words(&records);
    assert!(words[0].contains("in p50: 5.00 against 1.00 ms"), "{words:?}");
    assert!(words[0].ends_with("; but it delivers 60.0 % against 100.0 %"), "{words:?}");
}

#[test]
fn mann_whitney_gives_the_published_critical_values() {
    // Two-sided p of the smallest U for equal sizes: 2 / C(2n, n).
    let apart = |n: usize| {
        let low: Vec<_> = (0..n).map(|i| i as f64).collect();
        let high: Vec<_> = (0..n).map(|i| 100.0 + i as f64).collect();
        mann_whitney(&low, &high).unwrap()
    };
    for (n, ways) in [(1, 2.0), (3, 20.0), (4, 70.0), (5, 252.0), (8, 12_870.0)] {
        assert!((apart(n) - 2.0 / ways).abs() < 1e-12, "{n} a side");
    }
    // Sizes 5 and 5: U = 2 is the critical value at 0.05 (p = 0.0317), U = 3 is not (p = 0.0556).
    let a = [1.0, 2.0, 3.0, 4.0, 7.0];
    let b = [5.0, 6.0, 8.0, 9.0, 10.0];
    assert!((mann_whitney(&a, &b).unwrap() - 8.0 / 252.0).abs() < 1e-12);
    let a = [1.0, 2.0, 3.0, 4.0, 8.0];
    let b = [5.0, 6.0, 7.0, 9.0, 10.0];
    assert!((mann_whitney(&a, &b).unwrap() - 14.0 / 252.0).abs() < 1e-12);
    // All the same: nothing to tell.
    assert_eq!(mann_whitney(&[2.0; 4], &[2.0; 6]), Some(1.0));
    assert_eq!(mann_whitney(&[], &[1.0]), None);
}

#[test]
fn welch_gives_the_published_examples() {
    // Weights of screws, the textbook example of unequal variances.
    let a = [30.02, 29.99, 30.11, 29.97, 30.01, 29.99];
    let b = [29.89, 29.93, 29.72, 29.98, 30.02, 29.98];
    let found = welch(&a, &b).unwrap();
    assert!((found.t - 1.959).abs() < 1e-3 && (found.degrees - 7.03).abs() < 0.01, "{found:?}");
    assert!((found.p_value - 0.090_773_324).abs() < 1e-6, "{found:?}");
    let found = welch(&[3.0, 4.0, 1.0, 2.1], &[490.2, 340.0, 433.9]).unwrap();
    assert!((found.p_value - 0.010_751_561).abs() < 1e-6, "{found:?}");
    assert_eq!(welch(&[1.0], &[2.0, 3.0]), None);
    assert_eq!(welch(&[1.0, 1.0], &[2.0, 2.0]), None);
    assert_eq!(welch(&[1.0, f64::INFINITY], &[2.0, 3.0]), None);
}

#[test]
fn holm_gives_the_textbook_adjustment() {
    let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
    let expected = [0.03, 0.06, 0.06, 0.02];
    assert!(adjusted.iter().zip(expected).all(|(a, e)| (a - e).abs() < 1e-12), "{adjusted:?}");
    assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
}

#[test]
fn retransmissions_of_tcp_are_tested_and_ours_stand_beside() {
    let cell = |link: &str, counts: &[u64]| -> Vec<Record> {
        let mut records = repeats(link, "25", &vec![5.0; counts.len()]);
        for (record, count) in records.iter_mut().zip(counts) {
            let measurement = measured(record);
            match is_ours(link) {
                true => measurement.arq_retransmissions = Some(*count),
                false => measurement.tcp_retransmissions = Some(*count),
            }
        }
        records
    };
    let mut records = cell("tcp-cubic", &[100, 110, 120, 105, 115]);
    records.extend(cell("tcp-cubic-nosack", &[200, 210, 220, 205, 215]));
    records.extend(cell("arq", &[90, 110]));
    let rows = retransmissions::rows(&of(&records));
    let words = rows[0].to_string();
    // The standard error is 5: t = -100 / 5, with equal variances 8 degrees of freedom.
    assert_eq!(
        words,
        "drop_percent 25: 110 segments again with SACK, 210 without (Welch's t = -20.00, 8.0 \
         degrees of freedom, p = 0.000); arq 100 packets"
    );
    assert_eq!(rows.len(), 1);
}

proptest! {
    #[test]
    fn spread_lies_in_its_order(values in proptest::collection::vec(
        prop_oneof![9 => 0.0f64..1e6, 1 => Just(f64::INFINITY)], 1..30,
    )) {
        let spread = Spread::of(values.clone()).unwrap();
        prop_assert!(spread.min() <= spread.median() && spread.median() <= spread.max());
        if let Some((lower, upper)) = spread.quartiles() {
            prop_assert!(lower <= spread.median() && spread.median() <= upper);
        }
        let below = values.iter().filter(|value| **value < spread.median()).count();
        prop_assert!(2 * below <= values.len());
    }

    #[test]
    fn mann_whitney_is_a_probability_and_symmetric(
        a in proptest::collection::vec(0u8..20, 1..8),
        b in proptest::collection::vec(0u8..20, 1..8),
    ) {
        let floats = |values: &[u8]| values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>();
        let p = mann_whitney(&floats(&a), &floats(&b)).unwrap();
        prop_assert!((0.0..=1.0 + 1e-9).contains(&p));
        prop_assert!((p - mann_whitney(&floats(&b), &floats(&a)).unwrap()).abs() < 1e-9);
    }

    #[test]
    fn holm_never_lowers_a_p_value_and_keeps_their_order(
        p in proptest::collection::vec(0.0f64..1.0, 1..20),
    ) {
        let adjusted = holm(&p);
        prop_assert!(p.iter().zip(&adjusted).all(|(raw, adjusted)| adjusted >= raw));
        for i in 0..p.len() {
            for j in 0..p.len() {
                prop_assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
            }
        }
    }
}

/// Whether ours is better beyond noise and chance.
fn beats(figure: Figure, ours: &[f64], theirs: &[f64]) -> bool {
    let spread = |values: &[f64]| Spread::of(values.to_vec()).unwrap();
    is_beaten(figure, &spread(theirs), &spread(ours))
}

#[test]
fn noise_is_no_win_and_a_lost_rank_is_worst() {
    assert!(beats(Figure::P99, &[1.0, 1.0], &[2.0, 2.1]));
    assert!(!beats(Figure::P99, &[2.0, 2.1], &[1.0, 1.0]));
    assert!(!beats(Figure::P99, &[1.0, 3.0], &[2.5, 4.0]), "the ranges overlap");
    assert!(!beats(Figure::P99, &[0.5, 0.5], &[0.53, 0.54]), "below the noise");
    assert!(beats(Figure::P99, &[0.5, 0.5], &[0.56, 0.57]), "beyond the noise and 5 %");
    assert!(beats(Figure::P99, &[9_000.0], &[f64::INFINITY]));
    assert!(!beats(Figure::P99, &[f64::INFINITY], &[f64::INFINITY]));
    assert!(beats(Figure::P99, &[1.0, 1.1, 1.2, 9.0, 1.0], &[8.0, 9.1, 9.2, 9.3, 9.5]));
    assert!(
        !beats(Figure::P99, &[1.0, 1.1, 1.2, 9.0], &[8.0, 8.1, 8.2, 8.3]),
        "chance could do this"
    );
}

#[test]
fn more_goodput_is_better_and_more_packets_are_worse() {
    assert!(beats(Figure::Goodput, &[90.0], &[3.0]));
    assert!(!beats(Figure::Share, &[90.0], &[100.0]));
    assert!(beats(Figure::WirePackets, &[7.0], &[19.0]));
    assert!(!beats(Figure::WirePackets, &[19.0], &[7.0]));
}

#[test]
fn deviation_minimum_and_gaps_come_from_the_messages() {
    let flow = |messages: serde_json::Value, kept_every: u64| {
        let mut record = run("arq", "0", 1, Percentiles::default());
        let flow = &mut measured(&mut record).flows[0];
        flow.messages = serde_json::from_value(messages).unwrap();
        flow.kept_every = kept_every;
        flow.clone()
    };
    let three = flow(serde_json::json!([[0.0, 5.0], [20.0, null], [40.0, 7.0], [60.0, 9.0]]), 1);
    assert_eq!(Figure::Deviation.of_flow(&three), Some(2.0));
    assert_eq!(Figure::Min.of_flow(&three), Some(5.0));
    assert_eq!(Figure::GapP99.of_flow(&three), Some(42.0), "5, 47 and 69 ms");
    let thinned = flow(serde_json::json!([[0.0, 5.0], [40.0, 7.0]]), 2);
    assert_eq!(Figure::GapP99.of_flow(&thinned), None);
    let nothing = flow(serde_json::json!([[0.0, null]]), 1);
    assert_eq!(Figure::Min.of_flow(&nothing), Some(f64::INFINITY));
    assert_eq!(Figure::GapP99.of_flow(&nothing), None, "of one message there is no gap");
    // A link that dies is silent until the end of the traffic.
    let dies =
        serde_json::json!([[0.0, 5.0], [20.0, 5.0], [40.0, null], [60.0, null], [80.0, null]]);
    assert_eq!(Figure::GapP99.of_flow(&flow(dies, 1)), Some(55.0));
    // Who falls silent for the last two fifths of the traffic had no gap of 20 ms there.
    let message = |i: u32| (f64::from(i) * 20.0, (i < 300).then_some(5.0));
    let dies_late = serde_json::json!((0..500).map(message).collect::<Vec<_>>());
    assert_eq!(Figure::GapP99.of_flow(&flow(dies_late, 1)), Some(3_995.0));
    for few in [
        serde_json::json!([[0.0, null], [20.0, null]]),
        serde_json::json!([[0.0, 5.0], [20.0, null]]),
    ] {
        assert_eq!(Figure::GapP99.of_flow(&flow(few, 1)), Some(f64::INFINITY));
    }
}
