// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

use std::collections::BTreeSet;

use netlab::wire::{Change, Loss};

use super::flow::Pattern;
use super::keys::{Table, KEYS};
use super::*;

/// A small valid file, to which a test adds what it is about. Top-level keys go before, tables behind.
const SMALL: &str = r#"
title = "t"
question = "q"
links = ["arq", "udp"]
[[flow]]
name = "data"
payload_bytes = 100
pattern = "periodic"
rate_hz = 10
messages = 20
"#;

fn read(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse("mine", "mine.toml", text)
}

fn small(more: &str) -> Scenario {
    read(&format!("{SMALL}{more}")).unwrap()
}

/// What is said about a file that should be refused.
fn refusal(text: &str) -> String {
    read(text).expect_err(text).to_string()
}

fn refusal_of(more: &str) -> String {
    refusal(&format!("{SMALL}{more}"))
}

#[test]
fn every_shipped_scenario_makes_sense() {
    for scenario in all() {
        let cells = scenario.cells();
        assert!(!cells.is_empty(), "{}", scenario.name);
        assert!(scenario.question.ends_with('?'), "{}", scenario.name);
        let distinct: BTreeSet<_> = cells.iter().map(|setting| &setting.cell).collect();
        assert_eq!(
            distinct.len(),
            cells.len(),
            "{}: cells that cannot be told apart",
            scenario.name
        );
        assert!(scenario.links.iter().any(|link| link.ours), "{}", scenario.name);
        assert!(scenario.links.iter().any(|link| !link.ours), "{}", scenario.name);
        assert!(scenario.estimated_duration() < Duration::from_secs(3 * 3600), "{}", scenario.name);
    }
}

#[test]
fn quick_is_quick() {
    let quick = find("quick").unwrap();
    assert_eq!(quick.cells().len(), 21);
    let seconds = quick.estimated_duration().as_secs();
    assert!((60..=110).contains(&seconds), "{seconds} s");
}

#[test]
fn all_but_the_quick_ones_are_repeated_five_times() {
    let few: Vec<_> = all().into_iter().filter(|s| s.repeats < 5).map(|s| s.name).collect();
    assert_eq!(few, ["quick", "two-radios"]);
    let seconds = find("two-radios").unwrap().estimated_duration().as_secs();
    assert!((240..=330).contains(&seconds), "{seconds} s");
}

#[test]
fn what_is_written_again_is_read_as_the_same() {
    for scenario in all() {
        let again = scenario.rewritten(&scenario.file).unwrap();
        assert_eq!(again.cells(), scenario.cells(), "{}", scenario.name);
        assert_eq!(again.published, scenario.published, "{}", scenario.name);
        assert_eq!(again.goals, scenario.goals, "{}", scenario.name);
    }
}

#[test]
fn settings_survive_the_json_of_the_records() {
    for setting in all().iter().flat_map(Scenario::cells) {
        let network = serde_json::to_string(&setting.network).unwrap();
        assert_eq!(serde_json::from_str::<Conditions>(&network).unwrap(), setting.network);
        let flows = serde_json::to_string(&setting.flows).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Flow>>(&flows).unwrap(), setting.flows);
    }
}

#[test]
fn unknown_keys_are_refused_in_every_table_with_the_keys_that_exist() {
    let wire_keys = || Table::Wire.keys().map(|key| key.name);
    for (table, text) in with_an_unknown_key() {
        let error = refusal(&text);
        assert!(error.starts_with("mine.toml: TOML parse error at line "), "{table:?}: {error}");
        assert!(error.contains("unknown field `zzz`"), "{table:?}: {error}");
        let listed: BTreeSet<&str> =
            error.rsplit_once("expected ").unwrap().1.split('`').skip(1).step_by(2).collect();
        let mut known: BTreeSet<&str> = table.keys().map(|key| key.name).collect();
        match table {
            Table::Network => known.extend(wire_keys()),
            // serde knows the keys of the chosen model.
            Table::Loss => known = BTreeSet::from(["percent"]),
            _ => {}
        }
        assert_eq!(listed, known, "{table:?}: {error}");
    }
}

/// Each kind of table, in each place where it can stand, with a key that it does not have.
fn with_an_unknown_key() -> Vec<(Table, String)> {
    let behind = |table, more: &str| (table, format!("{SMALL}{more}"));
    vec![
        (Table::Scenario, format!("zzz = 1\n{SMALL}")),
        behind(Table::Flow, "zzz = 1"),
        behind(Table::Network, "[network]\nzzz = 1"),
        behind(Table::Wire, "[network.forward]\nzzz = 1"),
        behind(Table::Wire, "[network.backward]\nzzz = 1"),
        behind(Table::Loss, "[network]\nloss = { model = 'random', percent = 1, zzz = 1 }"),
        behind(
            Table::Policer,
            "[network]\npolicer = { rate_mbps = 1, burst_bytes = 2000, zzz = 1 }",
        ),
        behind(Table::Event, "[[network.event]]\nat_s = 1\ndelay_ms = 1\nzzz = 1"),
        behind(Table::Sweep, "[sweep]\nzzz = [1]"),
        behind(Table::Case, "[[case]]\nname = 'a'\nzzz = 1"),
        behind(Table::Network, "[[case]]\nname = 'a'\nnetwork = { zzz = 1 }"),
        behind(Table::CaseFlow, "[[case]]\nname = 'a'\nflow = { zzz = 1 }"),
        behind(Table::Goal, "[[goal]]\nflow = 'data'\nzzz = 1"),
        behind(Table::Published, "[[published]]\nlink = 'x'\nzzz = 1"),
        behind(Table::Link, "[[link]]\nname = 'x'\nabout = 'y'\nzzz = 1"),
    ]
}

#[test]
fn numbers_out_of_their_bounds_are_named_with_the_bounds() {
    for (more, expected) in [
        ("start_s = -1", "`flow[0].start_s = -1` is out of range: 0 to 86400 s"),
        ("[network]\ndelay_ms = -0.5", "`network.delay_ms = -0.5` is out of range: 0 to 60000 ms"),
        (
            "[network.backward]\nmtu_bytes = 9000",
            "`network.backward.mtu_bytes = 9000` is out of range: 576 to 1500 bytes",
        ),
        (
            "[network]\nloss = { model = 'random', percent = 101 }",
            "`network.loss.percent = 101` is out of range: 0 to 100 %",
        ),
        (
            "[[network.event]]\nat_s = 1\nrate_mbps = 0",
            "`network.event[0].rate_mbps = 0` is out of range",
        ),
        (
            "[sweep]\npayload_bytes = [100, 1]",
            "`sweep.payload_bytes[1] = 1` is out of range: 32 to",
        ),
        ("[sweep]\ndrop_percent = [nan]", "`sweep.drop_percent[0] = NaN` is out of range"),
        (
            "[[case]]\nname = 'a'\nflow = { rate_hz = 0 }",
            "`case[0].flow.rate_hz = 0` is out of range",
        ),
        (
            "[[case]]\nname = 'a'\nnetwork = { forward = { jitter_ms = -1 } }",
            "`case[0].network.forward.jitter_ms = -1`",
        ),
    ] {
        let error = refusal_of(more);
        assert!(error.contains(expected), "{more}: {error}");
    }
    let error = refusal(&format!("repeats = 0\n{SMALL}"));
    assert!(error.contains("`repeats = 0` is out of range: 1 to 1000"), "{error}");
}

/// A bound that the check never finds would be no bound: each numeric key is tried in its table.
#[test]
fn every_bound_is_enforced() {
    for key in KEYS {
        let keys::Value::Number { min, .. } = key.value else { continue };
        let table: toml::Table = toml::from_str(&format!("{} = {}", key.name, min - 1.0)).unwrap();
        let nested = bounds::check_in(key.table, &table);
        assert!(matches!(nested, Err(Problem::OutOfRange { .. })), "{key:?}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (more, expected) in [
        ("seconds = 1", "pattern `periodic` does not know `seconds`; it takes rate_hz and messages"),
        ("link = 'nobody'", "there is no link `nobody`; the links are `arq`"),
        ("[[flow]]\nname = 'data'\npayload_bytes = 99\npattern = 'flood'\nseconds = 1", "`data` stands twice in `flow`"),
        ("[[flow]]\nname = 'b'\npayload_bytes = 99\npattern = 'flood'", "flow `b`: pattern `flood` needs `seconds`"),
        ("[[network.event]]\nat_s = 1", "this has 0 of them"),
        ("[[network.event]]\nat_s = 1\nblackout = true", "a blackout needs `until_s`"),
        ("[[network.event]]\nat_s = 1\ndelay_ms = 1\nrate_mbps = 1", "this has 2 of them"),
        ("[[network.event]]\nat_s = 5\nuntil_s = 5\ndelay_ms = 1", "ends at 5 s: not after its beginning"),
        ("[[network.event]]\nat_s = 5\nuntil_s = 9\nevery_s = 3\ndelay_ms = 1", "after it comes again"),
        ("[network]\npreset = 'wifi'", "`network.preset = wifi`: there is none, the names here are `highway-near`"),
        ("[network.second.second]\ndelay_ms = 1", "cannot have a `second`"),
        ("[network.second]\nreorder_percent = 1", "`reorder_percent` without"),
        ("[network.second]\nfade = { share_percent = 91, mean_ms = 9 }", "`network.second.fade.share_percent = 91`"),
        ("[network]\nreorder_percent = 1", "`reorder_percent` without `reorder_hold_ms`"),
        ("[network]\nloss = { model = 'gilbert', percent = 60, burst_packets = 1 }", "needs bursts of at least 1.5 packets, not 1"),
        ("[network]\nloss = { model = 'state', enter_percent = 1, leave_percent = 1 }\n[sweep]\ndrop_percent = [1]", "loss model `state` has no share"),
        ("[[goal]]\nflow = 'data'\npercent = 99", "goal for `data`: give either"),
        ("[[goal]]\nflow = 'date'\nlongest_silence_ms = 9", "`goal.flow = date`: there is none, the names here are `data`"),
        ("[[case]]\nname = 'a'\nflows = ['b']", "`case.flows = b`: there is none"),
        ("[[case]]\nname = 'a'\nflow = { seconds = 1 }", "pattern `periodic` does not know `seconds`"),
        ("[sweep]\ndrop_percent = [1]\n[[published]]\nlink = 'x'\nsetting = { drop_percent = 2 }", "`published.setting = drop_percent = 2`: there is none, the names here are `drop_percent = 1`"),
        ("[sweep]\npayload_bytes = [99]\n[[flow]]\nname = 'b'\npayload_bytes = 99\npattern = 'flood'\nseconds = 1", "`sweep.payload_bytes` could change several flows: name one with `sweep.flow`"),
        ("[[link]]\nname = 'udp'\nabout = 'x'\nendpoint = 'udp/{host}:{port}'", "`udp` stands twice in `link`"),
        ("[sweep]\nflow = 'date'\ndrop_percent = [1]", "`sweep.flow = date`: there is none, the names here are `data`"),
        ("[[link]]\nname = 'mine'\nabout = 'x'\nendpoint = 'arq/{host}:{port}'\nours = true", "link `mine` has `ours = true`"),
        ("[[link]]\nname = 'arq-mine'\nabout = 'x'\nendpoint = 'arq/{host}:{port}'", "link `arq-mine` has `ours = false`"),
        ("[[network.event]]\nat_s = 1\nuntil_s = 3\nevery_s = 2\nblackout = true", "a blackout that never ends"),
    ] {
        let error = refusal_of(more);
        assert!(error.starts_with("mine.toml: ") && error.contains(expected), "{more}: {error}");
    }
    let error = refusal(&SMALL.replace("\"arq\", \"udp\"", ""));
    assert!(error.contains("`links` is empty"), "{error}");
    let error = refusal(SMALL.split("[[flow]]").next().unwrap());
    assert!(error.contains("`flow` is empty"), "{error}");
}

#[test]
fn a_case_says_what_is_different_of_the_second_radio_and_a_sweep_changes_both() {
    let scenario = small(
        "[network.second]\ndelay_ms = 30\nmtu_bytes = 1_200\n\
         [[case]]\nname = 'far'\n[case.network.second]\ndelay_ms = 90\n\
         [sweep]\ndrop_percent = [5]",
    );
    let network = scenario.cells()[0].network.clone();
    let second = network.second.unwrap();
    assert_eq!((second.forward.delay_ms, second.backward.mtu_bytes), (90.0, Some(1_200)));
    let dropped = Loss::Random { percent: 5.0 };
    assert_eq!((network.forward.loss, second.backward.loss), (dropped, dropped));
}

#[test]
fn the_cells_are_the_product_of_cases_axes_and_links() {
    let scenario = small(
        "[[case]]\nname = 'near'\n[[case]]\nname = 'far'\nnetwork = { delay_ms = 9 }\n\
         [sweep]\npayload_bytes = [1_000, 2_000]\ndrop_percent = [0, 0.5, 10]",
    );
    let cells = scenario.cells();
    assert_eq!(cells.len(), 2 * 3 * 2 * 2);
    let setting = &cells[cells.len() - 1];
    let written = [("case", "far"), ("drop_percent", "10"), ("payload_bytes", "2000")];
    assert_eq!(
        setting.cell.setting,
        written.map(|(axis, value)| (axis.to_owned(), value.to_owned()))
    );
    assert_eq!(setting.cell.link, "udp");
    assert_eq!(setting.opponent.name, "udp");
    assert_eq!(setting.flows[0].payload_bytes, 2_000);
    assert_eq!(setting.network.forward.delay_ms, 9.0);
    assert_eq!(setting.network.backward.loss, Loss::Random { percent: 10.0 });
    assert_eq!(cells[2].cell.setting[1].1, "0");
}

#[test]
fn what_is_nearer_wins() {
    let scenario = small(
        "[network]\npreset = 'cell-5g'\ndelay_ms = 7\nforward = { jitter_ms = 1, rate_mbps = 3 }\n\
         [[case]]\nname = 'a'\nnetwork = { backward = { delay_ms = 8 } }",
    );
    let network = &scenario.cells()[0].network;
    assert_eq!((network.forward.delay_ms, network.backward.delay_ms), (7.0, 8.0));
    assert_eq!((network.forward.jitter_ms, network.backward.jitter_ms), (1.0, 8.0));
    assert_eq!((network.forward.rate_mbps, network.backward.rate_mbps), (Some(3.0), Some(50.0)));
    assert_eq!(network.events[0].change, Change::Blackout);
    assert_eq!(network.forward.loss, Loss::Gilbert { percent: 0.5, burst_packets: 3.0 });
}

#[test]
fn a_sweep_keeps_the_loss_model() {
    let gilbert = "[network]\nloss = { model = 'gilbert', percent = 1, burst_packets = 4 }\n";
    let scenario = small(&format!("{gilbert}[sweep]\ndrop_percent = [20]"));
    let expected = Loss::Gilbert { percent: 20.0, burst_packets: 4.0 };
    assert_eq!(scenario.cells()[0].network.forward.loss, expected);
}

#[test]
fn a_sweep_changes_the_flow_that_it_names() {
    let other = "[[flow]]\nname = 'b'\npayload_bytes = 99\npattern = 'flood'\nseconds = 1\n";
    let scenario = small(&format!("{other}[sweep]\nflow = 'b'\npayload_bytes = [77]"));
    let sizes = scenario.cells()[0].flows.iter().map(|flow| flow.payload_bytes).collect::<Vec<_>>();
    assert_eq!(sizes, [100, 77]);
}

#[test]
fn the_schedule_is_interleaved_and_decided_by_the_seed() {
    let scenario = find("quick").unwrap().scaled(1.0, Some(4)).unwrap();
    let runs = scenario.schedule(7);
    assert_eq!(runs, scenario.schedule(7));
    assert_ne!(runs, scenario.schedule(8));
    let links = scenario.links.len();
    assert_eq!(runs.len(), 4 * 3 * links);
    assert!(runs.windows(2).all(|pair| pair[0].0 <= pair[1].0), "repeats come one after the other");
    let orders: BTreeSet<Vec<&str>> = runs
        .chunks(links)
        .map(|block| {
            let settings: BTreeSet<_> =
                block.iter().map(|(repeat, s)| (repeat, &s.cell.setting)).collect();
            assert_eq!(settings.len(), 1, "every link in a setting before the next setting");
            block.iter().map(|(_, setting)| setting.cell.link.as_str()).collect()
        })
        .collect();
    assert!(orders.len() > 3, "the links take turns: {orders:?}");
}

#[test]
fn scaling_changes_counts_and_nothing_else() {
    let schemes = find("arq-schemes").unwrap();
    let scaled = schemes.scaled(0.1, Some(2)).unwrap();
    assert_eq!(scaled.repeats, 2);
    let counts = |scenario: &Scenario| -> Vec<Pattern> {
        scenario.grounds.iter().map(|ground| ground.flows[0].pattern).collect()
    };
    assert_eq!(counts(&scaled)[0], Pattern::Periodic { rate_hz: 5.0, messages: 10 });
    assert_eq!(counts(&scaled)[1], Pattern::Periodic { rate_hz: 40.0, messages: 100 });
    assert_eq!(scaled.published, schemes.published);
    assert!(matches!(schemes.scaled(1.0, Some(0)), Err(ScenarioError::Invalid { .. })));
    let flood = find("goodput").unwrap().scaled(0.25, None).unwrap();
    assert_eq!(counts(&flood)[0], Pattern::Flood { seconds: 2.0 });
}

#[test]
fn a_scale_that_misses_an_event_or_a_start_is_refused_with_the_least_that_does_not() {
    let refused =
        |name: &str, factor| find(name).unwrap().scaled(factor, Some(1)).unwrap_err().to_string();
    // 140 messages at 50 Hz.
    let error = refused("blackout", 0.2);
    assert!(error.contains("scale 0.2 the traffic is over before the event at 3 s"), "{error}");
    let error = refused("fairness", 0.1);
    assert!(error.contains("before flow `second` begins at 5 s; 0.251 is the least"), "{error}");
    assert!(find("fairness").unwrap().scaled(0.251, None).is_ok());
    // What the whole does not reach, nobody misses; how long a transfer takes, nobody knows.
    let late = "[[network.event]]\nat_s = 9\ndelay_ms = 5";
    assert!(small(late).scaled(0.5, None).is_ok());
    let beside = "[[flow]]\nname = 'b'\npayload_bytes = 99\npattern = 'transfer'\nmessages = 9";
    assert!(small(&format!("{beside}\n{late}")).scaled(0.1, None).is_ok());
}

#[test]
fn other_links_can_be_asked_for() {
    let names = ["kcp".to_owned()];
    let scenario = find("quick").unwrap().with_links(&names).unwrap();
    assert_eq!(scenario.cells().len(), 3);
    assert_eq!(read(&scenario.text).unwrap().cells(), scenario.cells());
    assert!(find("quick").unwrap().with_links(&["x".to_owned()]).is_err());
}

#[test]
fn links_of_ones_own_are_used() {
    let own =
        "[[link]]\nname = 'mine'\nabout = 'x'\nendpoint = 'tcp/{host}:{port}#so_sndbuf=65536'";
    let text = format!("{}{own}", SMALL.replace("\"udp\"", "\"mine\""));
    assert_eq!(read(&text).unwrap().cells()[1].opponent.about, "x");
}

const DOCUMENT: &str = include_str!("../../../../docs/benchmarking.md");

#[test]
fn the_examples_of_the_document_are_scenarios() {
    let blocks = DOCUMENT.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let examples: Vec<_> = blocks.map(|text| read(text).unwrap()).collect();
    assert_eq!(examples.len(), 1);
    assert_eq!(examples[0].cells().len(), 12, "as the text says");
}

#[test]
fn the_document_names_every_scenario_and_no_other() {
    let told: BTreeSet<&str> =
        DOCUMENT.split("**`").skip(1).filter_map(|rest| rest.split("`**").next()).collect();
    let shipped = all();
    assert_eq!(told, shipped.iter().map(|scenario| scenario.name.as_str()).collect());
}

#[test]
fn a_rival_comes_with_its_flow() {
    let scenario = find("fairness-cubic").unwrap().with_links(&["arq".to_owned()]).unwrap();
    let rivals: Vec<_> = scenario.rivals.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(rivals, ["tcp-cubic"]);
    let flow = &scenario.cells()[0].flows[1];
    assert!(flow.own_session && flow.link.as_deref() == Some("tcp-cubic"));
}

#[test]
fn only_a_network_that_asks_for_nothing_is_clean() {
    let clean = |name: &str| -> Vec<bool> {
        find(name).unwrap().grounds.iter().map(|ground| ground.network.is_clean()).collect()
    };
    assert_eq!(clean("loopback"), [true]);
    assert_eq!(clean("ping-pong"), [true, false]);
    assert!(!clean("goodput").contains(&true));
}
