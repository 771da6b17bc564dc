// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The statistics over HTTP: switched on by a locator, right, and no way to hurt a link.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use prometheus_parse::{Sample, Scrape, Value};
use zenoh_link_arq::{metrics, LinkManagerUnicastArq, ARQ_MTU};
use zenoh_link_commons::{LinkManagerUnicastTrait, LinkUnicast};
use zenoh_protocol::core::{EndPoint, Priority};

/// Far above what is needed: only a hang runs into it.
const HANG: Duration = Duration::from_secs(30);

fn endpoint(text: &str) -> EndPoint {
    text.parse().unwrap()
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// What is answered to `request`, until the connection is closed.
fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A server that closes with our bytes unread resets: what came before is the answer.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn get(address: SocketAddr) -> String {
    ask(address, "GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n")
}

fn samples(answer: &str) -> Vec<Sample> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0;"), "{head}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    Scrape::parse(body.lines().map(|line| Ok(line.to_owned()))).unwrap().samples
}

fn number(sample: &Sample) -> f64 {
    match sample.value {
        Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => value,
        Value::Histogram(_) | Value::Summary(_) => panic!("a plain number: {sample:?}"),
    }
}

/// Two ends of a link in this process, and their managers.
struct Pair {
    _managers: [LinkManagerUnicastArq; 2],
    near: LinkUnicast,
    far: LinkUnicast,
}

impl Pair {
    async fn new(config: &str) -> Self {
        let (sender, accepted) = flume::unbounded();
        let server = LinkManagerUnicastArq::new(sender);
        let client = LinkManagerUnicastArq::new(flume::unbounded().0);
        let listen = format!("arq/127.0.0.1:0{config}");
        let locator = server.new_listener(endpoint(&listen)).await.unwrap();
        let near = client.new_link(endpoint(&locator.to_string())).await.unwrap();
        let far = accepted.recv_async().await.unwrap();
        Self { _managers: [server, client], near, far }
    }

    /// Sends a batch and waits until it is there.
    async fn pass(&self) {
        self.near.write_all(&[7; 20_000], Some(Priority::Data)).await.unwrap();
        let mut buffer = vec![0; usize::from(ARQ_MTU)];
        let read = self.far.read(&mut buffer, Some(Priority::Data));
        assert_eq!(tokio::time::timeout(HANG, read).await.unwrap().unwrap(), 20_000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locator_switches_the_figures_of_every_link_on() {
    let address = free_address();
    let pair = Pair::new(&format!("#metrics={address}")).await;
    pair.pass().await;
    let samples = samples(&get(address));
    let src = format!("arq/{}", pair.near.get_src().address());
    let of_link = |name: &str| {
        let ours =
            |s: &&Sample| s.metric == name && s.labels.get("src_locator") == Some(src.as_str());
        let found: Vec<_> = samples.iter().filter(ours).collect();
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        number(found[0])
    };
    let stats = zenoh_link_arq::statistics();
    let link = stats.iter().find(|link| link.src_address() == src).unwrap();
    assert!((20_000.0..=link.stats.bytes_sent as f64).contains(&of_link("arq_sent_bytes_total")));
    assert!(of_link("arq_rtt_smoothed_seconds") > 0.0);
    assert_eq!(of_link("arq_lane_messages_sent_total"), 1.0);
    assert_eq!(of_link("arq_lane_queue_wait_seconds_count"), 1.0);
    let links = samples.iter().find(|sample| sample.metric == "arq_links").unwrap();
    assert!(number(links) >= 2.0, "both ends are in this process");
}

/// A figure of the process, or that with a label of this value.
fn of_process(address: SocketAddr, name: &str, label: Option<(&str, &str)>) -> f64 {
    let samples = samples(&get(address));
    let ours = |s: &&Sample| {
        s.metric == name && label.is_none_or(|(key, value)| s.labels.get(key) == Some(value))
    };
    let found: Vec<_> = samples.iter().filter(ours).collect();
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    number(found[0])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_link_has_done_outlives_it() {
    let address = free_address();
    let pair = Pair::new(&format!("#metrics={address}")).await;
    pair.pass().await;
    let src = format!("arq/{}", pair.near.get_src().address());
    let closed = || of_process(address, "arq_links_closed_total", Some(("reason", "given-up")));
    let sent = || of_process(address, "arq_process_sent_bytes_total", None);
    let (closed_before, sent_before) = (closed(), sent());
    assert!(sent_before >= 20_000.0, "{sent_before}");
    pair.near.close().await.unwrap();
    drop(pair);
    let begin = Instant::now();
    // Zenoh's sessions have said nothing: both ends have given up.
    while closed() < closed_before + 2.0 {
        assert!(begin.elapsed() < HANG, "{} of {closed_before}", closed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!get(address).contains(&src), "the link itself is gone");
    assert!(sent() >= sent_before, "{} after {sent_before}", sent());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_fails_is_counted_with_its_reason() {
    let address = metrics::serve(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let failed =
        |reason| of_process(address, "arq_handshakes_failed_total", Some(("reason", reason)));
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = free_address();
    let manager = LinkManagerUnicastArq::new(flume::unbounded().0);
    let before = [failed("timeout"), failed("port-unreachable")];
    let to_silent =
        endpoint(&format!("arq/{}#handshake_timeout_ms=300", silent.local_addr().unwrap()));
    manager.new_link(to_silent).await.map(drop).unwrap_err();
    manager.new_link(endpoint(&format!("arq/{nobody}"))).await.map(drop).unwrap_err();
    // The figures are taken anew after that long.
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(failed("timeout"), before[0] + 1.0);
    let reported = failed("port-unreachable") - before[1];
    assert_eq!(reported, if cfg!(target_os = "linux") { 1.0 } else { 0.0 });
}

#[test]
fn the_format_is_the_one_that_is_asked_for() {
    let address = metrics::serve(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";
    for (accept, kind) in [
        ("*/*", OPENMETRICS),
        ("text/plain", PLAIN),
        ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", PLAIN),
        ("text/html, Text/Plain", PLAIN),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", OPENMETRICS),
    ] {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n");
        let answer = ask(address, &request);
        assert!(answer.contains(&format!("content-type: {kind}\r\n")), "{accept}: {answer}");
        assert_eq!(answer.ends_with("# EOF\n"), kind == OPENMETRICS, "{accept}: {answer}");
        assert_eq!(answer.contains("\n# TYPE arq_links_opened_total counter\n"), kind == PLAIN);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_port_refuses_the_locator_and_names_the_key() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let key = format!("metrics={}", taken.local_addr().unwrap());
    let bad = endpoint(&format!("arq/127.0.0.1:0#{key}"));
    let manager = LinkManagerUnicastArq::new(flume::unbounded().0);
    for error in [
        manager.new_listener(bad.clone()).await.unwrap_err(),
        manager.new_link(bad.clone()).await.map(drop).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.contains(&format!("`{key}`")) && text.contains("in use"), "{text}");
    }
    assert!(manager.get_listeners().await.is_empty());
}

#[test]
fn only_the_figures_can_be_read() {
    let address = metrics::serve(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 "),
        ("GET /metrics/../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 "),
        ("DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405 "),
        ("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 405 "),
        ("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 "),
        ("GET /metrics HTTP/1.0\r\n\r\n", "HTTP/1.0 200 "),
        ("nonsense\r\n\r\n", "HTTP/1.1 400 "),
    ] {
        let answer = ask(address, request);
        assert!(answer.starts_with(status), "{request}: {answer}");
    }
    assert!(ask(address, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").contains("/metrics"));
    assert!(!ask(address, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n").contains("arq_links"));
}

/// Some say nothing, some stop within the request, one never ends its head, one does not read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_readers_neither_stop_a_link_nor_the_next_reader() {
    let address = metrics::serve(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let pair = Pair::new("").await;
    let mut held = Vec::new();
    for number in 0..24 {
        let mut stream = TcpStream::connect(address).unwrap();
        let half = match number % 3 {
            0 => "",
            1 => "GET /metrics HTTP/1.1\r\nHost: ",
            _ => "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        };
        stream.write_all(half.as_bytes()).unwrap();
        held.push(stream);
    }
    let endless = thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let line = format!("X: {}\r\n", "x".repeat(1_000));
        let mut sent = stream.write_all(b"GET /metrics HTTP/1.1\r\n").map(|()| 0);
        while let Ok(bytes @ 0..100_000_000) = sent {
            sent = stream.write_all(line.as_bytes()).map(|()| bytes + line.len());
        }
        sent.expect_err("it is cut off long before");
    });
    for _ in 0..50 {
        pair.pass().await;
    }
    // Two rounds of eight silent readers are before it, each given five seconds for its request.
    let begin = Instant::now();
    let answer = tokio::task::spawn_blocking(move || get(address)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "after {:?}: {answer}", begin.elapsed());
    drop(held);
    endless.join().unwrap();
}
