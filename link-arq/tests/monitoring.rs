// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What `monitoring/` asks for exists, and Prometheus' own tool takes it, and what we serve.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    collections::BTreeSet,
    env, fs,
    io::{self, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::{json, Value};
use zenoh_link_arq::metrics;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../monitoring")
}

fn read(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap()
}

/// The names of our figures in a text.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    words.filter(|word| word.starts_with("arq_")).map(str::to_owned).collect()
}

/// The names of everything that is served, with or without links.
fn served() -> BTreeSet<String> {
    let types = metrics::openmetrics();
    let types = types.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let name = |line: &str| match line.split_once(' ').unwrap() {
        (name, "counter") => format!("{name}_total"),
        (name, "info") => format!("{name}_info"),
        (name, "histogram") => format!("{name}_bucket"),
        (name, _) => name.to_owned(),
    };
    types.map(name).collect()
}

#[test]
fn every_figure_that_is_asked_for_exists() {
    let served = served();
    for file in ["alerts.yml", "alerts_test.yml", "grafana.json"] {
        let named = named(&read(file));
        assert!(named.len() > 5, "{file}: {named:?}");
        for name in named {
            assert!(served.contains(&name), "{file}: `{name}` does not exist");
        }
    }
}

#[test]
fn every_reason_that_an_alert_leaves_out_exists() {
    let text = metrics::openmetrics();
    let alerts = read("alerts.yml");
    let (_, rest) = alerts.split_once("reason!~\"").unwrap();
    let (left_out, _) = rest.split_once('"').unwrap();
    for reason in left_out.split('|') {
        let series = format!("arq_links_closed_total{{reason=\"{reason}\"}}");
        assert!(text.contains(&series), "{reason}");
    }
}

#[test]
fn the_dashboard_has_an_expression_and_a_meaning_in_each_panel() {
    let dashboard: Value = serde_json::from_str(&read("grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let shown: Vec<_> = panels.iter().filter(|panel| panel["type"] != "row").collect();
    assert!(shown.len() > 10);
    let mut rules = Vec::new();
    for panel in shown {
        let title = panel["title"].as_str().unwrap();
        assert!(panel["description"].as_str().is_some_and(|text| text.len() > 15), "{title}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title}");
        for target in targets {
            let expression = target["expr"].as_str().unwrap();
            assert!(!named(expression).is_empty(), "{title}: {expression}");
            let plain = expression.replace("$__rate_interval", "1m").replace("$job", "arq");
            rules.push(json!({ "record": format!("a{}", rules.len()), "expr": plain }));
        }
    }
    // JSON is YAML.
    let rules = json!({ "groups": [{ "name": "dashboard", "rules": rules }] }).to_string();
    let Some(output) = promtool(&["check", "rules", "/dev/stdin"], &rules) else { return };
    assert!(output.status.success(), "{rules}: {}", said(&output));
}

#[test]
fn promtool_takes_the_alerts_and_their_tests() {
    for (verb, file) in [("check", "alerts.yml"), ("test", "alerts_test.yml")] {
        let Some(output) = promtool(&[verb, "rules", file], "") else { return };
        assert!(output.status.success(), "{}", said(&output));
    }
}

#[test]
fn promtool_takes_what_is_served_as_plain_text() {
    let address = metrics::serve(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: text/plain\r\n\r\n").unwrap();
    let answer = io::read_to_string(stream).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let Some(output) = promtool(&["check", "metrics"], body) else { return };
    assert_eq!(said(&output), "", "{body}");
    assert!(output.status.success());
}

/// What `promtool` makes of `input`; `None`, loudly, where there is none.
fn promtool(arguments: &[&str], input: &str) -> Option<Output> {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(folder());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            assert!(env::var("ARQ_REQUIRE_LAB").as_deref() != Ok("1"), "no promtool");
            println!("*** SKIPPED promtool: there is none (Debian: prometheus)");
            return None;
        }
        child => child.unwrap(),
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

fn said(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}
