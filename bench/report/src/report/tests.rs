// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does a report show what the records hold, whatever they hold?

use std::path::PathBuf;

use super::sample::{environment, info, Sample, LINKS};
use super::*;
use crate::record::Outcome;
use crate::scenario::flow::Pattern;

/// A directory of this test alone, removed when it is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("arq-report-{}-{name}", std::process::id())))
    }

    fn report(&self, records: &[Record]) -> String {
        let (scenario, environment) = (info("sample"), environment());
        let index =
            write(&self.0, &[Input { scenario: &scenario, environment: &environment, records }])
                .unwrap();
        fs::read_to_string(index).unwrap()
    }

    fn figures(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.join("figures")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn small() -> Sample {
    Sample {
        drops: vec![0.0, 10.0],
        payloads: vec![10_000],
        delays: vec![0.5],
        repeats: 2,
        ..Sample::drop_rate()
    }
}

#[test]
fn the_page_stands_alone_and_escapes_what_it_was_given() {
    let page = Scratch::new("alone").report(&small().records(1));
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains(r#"<html lang="en">"#));
    for needs_network in ["<script", "<link", "src=\"http", "url(", "@import"] {
        assert!(!page.contains(needs_network), "the page asks for {needs_network}");
    }
    assert!(page.contains("&lt;b&gt;not bold&lt;/b&gt;") && !page.contains("<b>not bold"));
}

#[test]
fn the_head_tells_how_much_was_measured() {
    let scratch = Scratch::new("head");
    let page = scratch.report(&small().records(1));
    for told in ["data: 500 messages (scale 1: all that the scenario has)", "2 repeats, 5 planned"]
    {
        assert!(page.contains(told), "the head does not tell {told}");
    }
}

#[test]
fn each_figure_is_there_as_svg() {
    let scratch = Scratch::new("files");
    let page = scratch.report(&small().records(1));
    let files = scratch.figures();
    let svgs: Vec<_> = files.iter().filter_map(|name| name.strip_suffix(".svg")).collect();
    assert!(
        svgs.contains(&"sample-latency-drop-percent") && svgs.contains(&"sample-distribution"),
        "{svgs:?}"
    );
    for id in svgs {
        assert!(page.contains(&format!(r#"<figure id="{id}">"#)), "{id} is not on the page");
        let svg = fs::read_to_string(scratch.0.join("figures").join(format!("{id}.svg"))).unwrap();
        roxmltree::Document::parse(&svg).unwrap();
        for told in ["Scenario sample", "seed 42", "2 repeats", "arq-bench run sample"] {
            assert!(svg.contains(told), "{id} does not tell {told}");
        }
    }
    assert!(files.iter().all(|name| !name.ends_with(".partial")));
}

#[test]
fn two_sets_of_one_scenario_have_figures_and_anchors_of_their_own() {
    let (scenario, environment) = (info("sample"), environment());
    let sets = [small().records(1), small().records(2)];
    let input =
        |set: usize| Input { scenario: &scenario, environment: &environment, records: &sets[set] };
    let scratch = Scratch::new("twice");
    let index = write(&scratch.0, &[input(0), input(1)]).unwrap();
    let page = fs::read_to_string(index).unwrap();
    let files = scratch.figures();
    for name in ["sample", "sample-2"] {
        assert!(page.contains(&format!(r#"id="scenario-{name}""#)), "no anchor for {name}");
        assert!(files.contains(&format!("{name}-distribution.svg")), "{files:?}");
    }
    let mut ids: Vec<_> =
        page.split(" id=\"").skip(1).filter_map(|at| at.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id stands twice");
}

#[test]
fn no_figure_holds_what_is_not_a_number() {
    let scratch = Scratch::new("numbers");
    let records = Sample { repeats: 1, ..Sample::drop_rate() }.records(3);
    let page = scratch.report(&records);
    for broken in ["NaN", "inf ", "inf\"", "-inf"] {
        assert!(!page.contains(broken), "the page holds {broken}");
    }
}

#[test]
fn a_lost_rank_is_written_and_drawn_as_lost() {
    let page = Scratch::new("lost").report(&small().records(1));
    assert!(page.contains("udp, 10 % lost: lost"), "the tip of a lost rank says so");
    assert!(page.contains(r#"font-style="italic">lost</text>"#), "the strip has a name");
}

#[test]
fn an_emulator_that_was_late_is_told() {
    let scratch = Scratch::new("late");
    let mut records = small().records(1);
    assert!(!scratch.report(&records).contains("The machine was busy"));
    let Outcome::Measured(run) = &mut records[0].outcome else { panic!("it failed") };
    run.forward.late = run.forward.left_packets + 1;
    let told = format!("The machine was busy: in 1 of {} runs", records.len());
    assert!(scratch.report(&records).contains(&told));
}

#[test]
fn processors_that_had_to_wait_are_told() {
    const TOLD: &str = "let its processors wait";
    let scratch = Scratch::new("stolen");
    let mut records = small().records(1);
    assert!(!scratch.report(&records).contains(TOLD));
    for record in &mut records {
        let Outcome::Measured(run) = &mut record.outcome else { panic!("it failed") };
        run.stolen_percent = Some(12.0);
    }
    assert!(scratch.report(&records).contains(TOLD));
}

#[test]
fn packets_are_told_beside_the_bytes_and_named_where_nobody_counted_them() {
    const UNMEASURED: &str = "Not measured in these scenarios: packets sent forward per message";
    let scratch = Scratch::new("packets");
    let mut records = small().records(1);
    let page = scratch.report(&records);
    assert!(page.contains(">packets per message</th>") && !page.contains(UNMEASURED));
    assert!(scratch.figures().contains(&"sample-packets-drop-percent.svg".to_owned()));
    // As records without that count are read.
    for record in &mut records {
        if let Outcome::Measured(run) = &mut record.outcome {
            (run.forward.entered_packets, run.backward.entered_packets) = (0, 0);
        }
    }
    let page = scratch.report(&records);
    assert!(page.contains(UNMEASURED) && !page.contains(">packets per message</th>"));
}

#[test]
fn a_link_without_a_run_is_named_before_any_comparison() {
    const TOLD: &str = "Without a run, and so in no comparison: tcp-bbr, quic.";
    let scratch = Scratch::new("absent");
    let mut records = small().records(1);
    assert!(!scratch.report(&records).contains("Without a run"));
    records.retain(|record| !["tcp-bbr", "quic"].contains(&record.cell.link.as_str()));
    let page = scratch.report(&records);
    assert!(page.find(TOLD).unwrap() < page.find("against the best other link").unwrap());
}

#[test]
fn failures_and_void_runs_are_told_with_their_reason_and_void_ones_enter_no_figure() {
    let mut records = small().records(1);
    let quic = records.iter().position(|record| record.cell.link == "quic").unwrap();
    records[quic].outcome = Outcome::Failed("cannot open a session: <timeout>".into());
    let arq = records.iter().position(|record| record.cell.link == "arq").unwrap();
    if let Outcome::Measured(run) = &mut records[arq].outcome {
        run.forward.emulator_overrun = 3;
    }
    let page = Scratch::new("failures").report(&records);
    assert!(page.contains("failed: cannot open a session: &lt;timeout&gt;"));
    assert!(page.contains("1 void") && page.contains("1 failed"));
    let (scenario, environment) = (info("sample"), environment());
    let grid =
        Grid::of(&Input { scenario: &scenario, environment: &environment, records: &records });
    assert_eq!(grid.runs(0, 0).unwrap().measured.len(), 1);
}

#[test]
fn a_link_of_which_a_run_failed_wins_nothing_in_that_setting() {
    let (scenario, environment) = (info("sample"), environment());
    let grid = |records: &[Record]| {
        let grid = Grid::of(&Input { scenario: &scenario, environment: &environment, records });
        let better = verdict::comparisons(&grid).into_iter().filter(|comparison| {
            comparison.setting == 1 && comparison.standing == verdict::Standing::Better
        });
        let table = tables::results(&grid).into_string();
        let is_ours = |row: &&str| row.contains(r#"<th scope="row">arq</th>"#);
        let is_best = table.split("<tr>").filter(is_ours).nth(1).unwrap().contains("best");
        let goals = goals::table(&grid).into_string();
        (better.count(), is_best, goals.contains("but 1 failed"), words::in_one_line(&grid))
    };
    let mut records = small().records(1);
    let (better, is_best, but_failed, line) = grid(&records);
    assert!(better > 0 && is_best && !but_failed && !line.contains("failed"), "{line}");
    let is_it = |record: &Record| record.cell.link == "arq" && record.cell.setting[0].1 == "10";
    let arq = records.iter().position(is_it).unwrap();
    records[arq].outcome = Outcome::Failed("no session".into());
    let (better, is_best, but_failed, line) = grid(&records);
    assert_eq!((better, is_best, but_failed), (0, false, true));
    assert!(line.ends_with("; failed runs: 1 of arq"), "{line}");
}

#[test]
fn where_we_lose_comes_before_where_we_win() {
    let mut records = small().records(1);
    for record in &mut records {
        if let (true, Outcome::Measured(run)) = (record.cell.link == "arq", &mut record.outcome) {
            run.flows[0].percentiles.p50 = Some(9_999.0);
        }
    }
    let page = Scratch::new("loses").report(&records);
    let page = page.replace('\u{a0}', " ");
    let at = |words: &str| page.find(words).unwrap_or_else(|| panic!("no \"{words}\" on the page"));
    let order = [
        "id=\"sample-opening\"",
        "ol class=\"opening\"",
        "Where arq loses",
        "Where it wins",
        "<nav",
    ];
    assert!(order.map(at).is_sorted(), "{:?}", order.map(at));
    let table =
        page.split_once("table class=\"losses\"").unwrap().1.split_once("</table>").unwrap().0;
    let row = table.split("<tr>").find(|row| row.contains(">median latency<")).unwrap();
    assert!(row.contains(">2 of 2<") && row.contains(">10.0 s<"), "the figures are told: {row}");
}

#[test]
fn one_repeat_of_one_link_is_a_report_too_and_says_what_it_cannot_say() {
    let sample = Sample { links: LINKS[..1].to_vec(), repeats: 1, ..small() };
    let page = Scratch::new("single").report(&sample.records(1));
    assert!(page.contains("No other link was measured"));
    let page = Scratch::new("once").report(&Sample { repeats: 1, ..small() }.records(1));
    assert!(page.contains("Each cell was run once"));
}

#[test]
fn a_scenario_without_an_axis_gets_rows() {
    let scratch = Scratch::new("rows");
    scratch.report(&Sample { drops: vec![10.0], ..small() }.records(1));
    assert!(scratch.figures().contains(&"sample-latency.svg".to_owned()));
}

#[test]
fn every_plot_of_latency_has_the_ideal_arq() {
    let scratch = Scratch::new("bounds");
    scratch.report(&Sample { drops: vec![10.0], ..small() }.records(1));
    for id in ["latency", "distribution", "over-time"] {
        let path = scratch.0.join("figures").join(format!("sample-{id}.svg"));
        let svg = fs::read_to_string(path).unwrap();
        assert!(svg.contains("ideal ARQ"), "{id} does not name the bound");
        assert!(svg.contains(r#"stroke-dasharray="1.5 3""#), "{id} does not draw the bound");
    }
    let rows = fs::read_to_string(scratch.0.join("figures/sample-latency.svg")).unwrap();
    let rows = rows.replace('\u{a0}', " ");
    assert!(
        rows.contains("ideal ARQ: p50 1.50 ms"),
        "seven packets, one in ten lost: a round late"
    );
}

#[test]
fn a_rank_of_too_few_messages_is_said_once_and_shown_nowhere() {
    let page = Scratch::new("ranks").report(&small().records(1));
    assert_eq!(page.matches("Too few messages").count(), 1);
    assert!(page.contains("for these ranks: p99.9 of data."), "500 messages have a p99");
    assert!(!page.contains(">p99.9</th>") && page.contains(">p99</th>"));
}

#[test]
fn floods_get_goodput_with_its_capacity_and_flows_that_compete_get_fairness() {
    let flood = Pattern::Flood { seconds: 30.0 };
    let flows = vec![("first", flood), ("second", flood)];
    let sample = Sample { flows, rate_mbps: Some(100.0), ..small() };
    let scratch = Scratch::new("flood");
    let page = scratch.report(&sample.records(1));
    let figures = scratch.figures();
    for wanted in [
        "sample-goodput-drop-percent.svg",
        "sample-throughput-over-time.svg",
        "sample-throughput-over-time-2.svg",
        "sample-fairness-over-time.svg",
        "sample-in-flight.svg",
    ] {
        assert!(figures.contains(&wanted.to_owned()), "no {wanted} in {figures:?}");
    }
    assert!(page.contains("erasure capacity"));
    let index = page.split_once("<h3>Fairness</h3>").unwrap().1.split_once("</table>").unwrap().0;
    for setting in ["0 % lost", "10 % lost"] {
        assert!(index.contains(setting), "no row for {setting}: {index}");
    }
    // The second flow gets half as much in each second.
    assert_eq!(index.matches("<td>0.").count(), 2 * LINKS.len(), "{index}");
    assert!(!figures.iter().any(|name| name.contains("distribution")), "a flood has no latency");
    assert!(!page.contains("Share beside a rival"), "equals are no rivals");
}

#[test]
fn beside_a_rival_the_share_of_the_link_under_test_is_told() {
    let flood = Pattern::Flood { seconds: 30.0 };
    let flows = vec![("first", flood), ("rival", flood)];
    let mut records = Sample { flows, rate_mbps: Some(100.0), ..small() }.records(1);
    for record in &mut records {
        if let Outcome::Measured(run) = &mut record.outcome {
            run.flows[1].flow.link = Some("tcp-cubic".to_owned());
        }
    }
    let page = Scratch::new("rival").report(&records);
    let shares = page.split_once("<h3>Share beside a rival</h3>").unwrap().1;
    let shares = shares.split_once("</table>").unwrap().0;
    // The rival gets half as much in each second.
    assert_eq!(shares.matches("<td>67 ").count(), 2 * LINKS.len(), "{shares}");
}

#[test]
fn the_published_figure_stands_beside_ours() {
    let page = Scratch::new("published")
        .report(&Sample { payloads: vec![10_000, 100_000], ..small() }.records(1));
    let row = page
        .split("<tr>")
        .find(|row| row.contains("zenoh tcp (2022)") && row.contains("mean"))
        .unwrap();
    assert!(row.contains("741\u{a0}ms") && row.contains("−99."), "{row}");
}

#[test]
fn the_published_figure_stands_beside_every_setting_that_it_belongs_to() {
    let sample = Sample { payloads: vec![10_000, 100_000], delays: vec![0.5, 10.0], ..small() };
    let page = Scratch::new("every-setting").report(&sample.records(1));
    let rows: Vec<_> = page
        .split("<tr>")
        .filter(|row| row.contains("zenoh tcp (2022)") && row.contains("mean"))
        .collect();
    for (row, delay) in rows.iter().zip(["0.5", "10"]) {
        assert!(row.contains(&format!("10.0 % lost, 10\u{a0}KB, {delay} ms one way")), "{row}");
        assert!(row.contains("741\u{a0}ms") && !row.contains("–</td>"), "{row}");
    }
    assert_eq!(rows.len(), 2, "one for each delay");
}

#[test]
fn a_goal_is_drawn_and_told_as_met_or_missed() {
    let page = Scratch::new("goals").report(&small().records(1)).replace('\u{a0}', " ");
    assert!(page.contains("goal: by then") && page.contains("data: 99 % within 100 ms"));
    assert!(page.contains("100 % ✓") && page.contains("% missed"));
}

#[test]
fn hundreds_of_cells_stay_a_page_of_sane_size() {
    let page =
        Scratch::new("hundreds").report(&Sample { repeats: 1, ..Sample::drop_rate() }.records(2));
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    assert!(page.contains("First repeat only, and 9 of 60 traces."), "what is left out is told");
}

#[test]
fn nothing_to_report_is_said_clearly() {
    let (scenario, environment) = (info("sample"), environment());
    let input = Input { scenario: &scenario, environment: &environment, records: &[] };
    let nowhere = Scratch::new("empty");
    let error = write(&nowhere.0, &[input]).unwrap_err();
    assert!(error.to_string().contains("no results yet"), "{error}");
    assert!(!nowhere.0.exists());
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let (scenario, environment) = (info("sample"), environment());
    let records = Sample { repeats: 1, ..small() }.records(1);
    let input = Input { scenario: &scenario, environment: &environment, records: &records };
    let error = write(Path::new("/proc/no-such-place"), &[input]).unwrap_err();
    assert!(error.to_string().starts_with("cannot write /proc/no-such-place/figures"), "{error}");
}
