// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Are the links of a node where others ask for them, whether it shows them itself or the program does?

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use zenoh::session::ZenohId;
use zenoh::{Config, Session, Wait};
use zenoh_link_arq::metrics;

/// Far above what is needed.
const PATIENCE: Duration = Duration::from_secs(60);

fn session(mode: &str, connect: &[String], listen: &[&str]) -> Session {
    let mut config = Config::default();
    for (key, value) in [
        ("mode", serde_json::json!(mode)),
        ("connect/endpoints", serde_json::json!(connect)),
        ("listen/endpoints", serde_json::json!(listen)),
        ("scouting/multicast/enabled", serde_json::json!(false)),
    ] {
        config.insert_json5(key, &value.to_string()).expect("a setting");
    }
    zenoh::open(config).wait().expect("a session")
}

/// Where a node listens by this protocol.
fn locator(node: &Session, protocol: &str) -> String {
    let locators = node.info().locators().wait().into_iter();
    let mut texts = locators.map(|locator| locator.to_string());
    texts.find(|text| text.starts_with(protocol)).expect("a locator")
}

/// Key and value of each answer, once there is one.
fn ask(session: &Session, selector: &str) -> Vec<(String, String)> {
    let asked = Instant::now();
    while asked.elapsed() < PATIENCE {
        let replies = session.get(selector).wait().expect("a query");
        let samples = replies.iter().filter_map(|reply| reply.into_result().ok());
        let text = |bytes: &zenoh::bytes::ZBytes| bytes.try_to_string().expect("text").into_owned();
        let found: Vec<_> =
            samples.map(|sample| (sample.key_expr().to_string(), text(sample.payload()))).collect();
        if !found.is_empty() {
            return found;
        }
    }
    panic!("no answer to {selector}")
}

fn assert_shows_a_link(answers: &[(String, String)], zid: ZenohId) {
    let (key, value) = &answers[0];
    assert!(key.starts_with(&format!("@/{zid}/arq/link/")), "{key}");
    let link: Value = serde_json::from_str(value).expect("JSON");
    assert!(link["dst_locator"].as_str().expect("a locator").starts_with("arq/127.0.0.1:"));
    assert!(link["arq_packets_sent_total"].as_f64().expect("a figure") > 0.0, "{value}");
}

/// The program, which ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_are_in_the_admin_space() {
    let node = session("peer", &[], &["arq/127.0.0.1:0", "tcp/127.0.0.1:0"]);
    let zid = node.info().zid().wait();
    let other = session("client", &[locator(&node, "arq")], &[]);

    let published = arq_top::publish(&node).expect("it is declared");
    assert_shows_a_link(&ask(&other, "@/*/arq/link/*"), zid);
    let metrics_text = ask(&other, &format!("@/{zid}/arq/metrics"));
    assert!(metrics_text[0].1.contains("\narq_links "), "{metrics_text:?}");
    published.undeclare().wait().expect("it is undeclared");

    let served = metrics::serve(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let mut program = Command::new(env!("CARGO_BIN_EXE_arq-top"));
    program.arg(format!("--publish={}", locator(&node, "tcp"))).arg(served.to_string());
    let started = program.env_remove(metrics::VARIABLE).stdout(Stdio::piped()).spawn();
    let mut program = Running(started.expect("the program starts"));
    let mut said = String::new();
    let output = program.0.stdout.take().expect("its output");
    BufReader::new(output).read_line(&mut said).expect("a line");
    assert!(said.contains(&format!("@/{zid}/arq/**")), "{said}");
    assert_shows_a_link(&ask(&other, "@/*/arq/link/*"), zid);
}
