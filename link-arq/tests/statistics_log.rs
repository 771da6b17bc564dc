// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The statistics in the log: a line at a link's end, and in between when asked for.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod log;

use std::{
    sync::mpsc::{channel, Receiver},
    time::{Duration, Instant},
};

use log::Lines;
use zenoh_link_arq::{statistics::LOG_TARGET, LinkManagerUnicastArq};
use zenoh_link_commons::LinkManagerUnicastTrait;

/// Far above what is needed: only a hang runs into it.
const HANG: Duration = Duration::from_secs(30);

fn next_line(lines: &Receiver<String>, words: &[&str]) -> String {
    let end = Instant::now() + HANG;
    loop {
        let line = lines.recv_timeout(end - Instant::now()).expect("such a line");
        if words.iter().all(|word| line.contains(word)) {
            return line;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_logs_how_it_stands_when_asked_and_how_it_stood_at_its_end() {
    let (sender, lines) = channel();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(Lines(sender));
    log.with_env_filter(format!("{LOG_TARGET}=info")).init();

    let (sender, accepted) = flume::unbounded();
    let server = LinkManagerUnicastArq::new(sender);
    let client = LinkManagerUnicastArq::new(flume::unbounded().0);
    let listen = "arq/127.0.0.1:0".parse().unwrap();
    let locator = server.new_listener(listen).await.unwrap();
    let connect = format!("{locator}#stats_log_ms=100").parse().unwrap();
    let near = client.new_link(connect).await.unwrap();
    let far = accepted.recv_async().await.unwrap();

    // The client asked, the server did not.
    let server_address = locator.address().as_str().to_owned();
    let from_client = format!("-> arq/{server_address} for ");
    let from_server = format!("arq/{server_address} -> ");
    for _ in 0..2 {
        let line = next_line(&lines, &[" INFO ", LOG_TARGET]);
        assert!(line.contains(&from_client) && !line.contains("ended"), "{line}");
        assert!(line.contains("rtt ") && line.contains("loss at most "), "{line}");
        assert_eq!(line.trim_end().lines().count(), 1, "{line}");
    }
    drop(near);
    next_line(&lines, &["ended: ", &from_client]);
    drop(far);
    next_line(&lines, &["ended: ", &from_server]);
    // The reports have ended with their link.
    let after = lines.recv_timeout(Duration::from_millis(300));
    assert!(after.is_err(), "{after:?}");
}
