// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! "UDP is at 0.2 of 93 Mb/s since the upgrade to that kernel, TCP is not": segmentation offload that loses batches.
//!
//! A veth keeps a batch whole, so a firewall rule that drops long packets does what such a kernel does. No stock link
//! beside it: the rule leaves tcp alone, as the kernels do.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use netlab::{Host, Lab};

use crate::{
    alone, node,
    nodes::Kind,
    support::{lab_or_skip, Role},
};

/// Far below what a loaded machine can send.
const MAX_RATE_MBPS: u64 = 30;
const MESSAGE_BYTES: u64 = 60_000;
/// Time to find out, and to measure what it gave.
const LEARN: Duration = Duration::from_secs(4);
const MEASURE: Duration = Duration::from_secs(2);

/// Drops this share of the UDP packets longer than any datagram of the link, as they leave `host`.
fn lose_batches(host: &Host, share: f64) {
    let probability = format!("{share:.4}");
    let rule = [
        ["-w", "-t", "mangle", "-A", "POSTROUTING", "-p", "udp"].as_slice(),
        &["-m", "length", "--length", "2001:65535"],
        &["-m", "statistic", "--mode", "random", "--probability", &probability, "-j", "DROP"],
    ]
    .concat();
    let mut iptables = host.command("iptables");
    let path = std::env::var("PATH").unwrap_or_default();
    iptables.env("PATH", format!("{path}:/usr/sbin:/sbin")).args(rule).stdout(Stdio::null());
    assert!(iptables.status().expect("iptables runs").success());
}

fn received(subscriber: &mut Role) -> u64 {
    subscriber.tell("count");
    let answer = subscriber.answer();
    answer.parse().unwrap_or_else(|_| panic!("the subscriber says: {answer}"))
}

/// What a flood brings once there was time to learn, in Mb/s, where this share of the batches is lost and the publisher's
/// locator has these keys.
fn goodput(lab: &Lab, batch_loss: f64, keys: &str) -> f64 {
    let mut subscriber = node(lab, 1, "arq", "nodes::stream_subscriber", Kind::Listen, &[]);
    let address = lab.host(1).ipv4();
    let endpoint = format!("arq/{address}:7447#max_rate={}{keys}", MAX_RATE_MBPS * 1_000_000);
    let more = [("CONGESTION", "block"), ("ENDPOINT", endpoint.as_str())];
    let mut publisher = node(lab, 0, "arq", "nodes::flood_publisher", Kind::Connect, &more);
    if batch_loss > 0.0 {
        lose_batches(lab.host(0), batch_loss);
    }
    publisher.tell("go");
    std::thread::sleep(LEARN);
    let (before, from) = (received(&mut subscriber), Instant::now());
    std::thread::sleep(MEASURE);
    let bytes = (received(&mut subscriber) - before) * MESSAGE_BYTES;
    bytes as f64 * 8.0 / 1e6 / from.elapsed().as_secs_f64()
}

#[test]
fn batches_that_are_lost_cost_a_second_and_not_the_rate() {
    let _alone = alone();
    let test = "batches_that_are_lost_cost_a_second_and_not_the_rate";
    let mut whole = 0.0;
    for (batch_loss, keys) in [(0.0, ""), (0.5, ""), (0.99, ""), (0.99, ";gso=off")] {
        let Some(lab) = lab_or_skip(test) else { return };
        let mbps = goodput(&lab, batch_loss, keys);
        println!("{batch_loss} of the batches lost{keys}: {mbps:.1} of {MAX_RATE_MBPS} Mb/s");
        if batch_loss == 0.0 {
            whole = mbps;
        }
        assert!(mbps >= 0.6 * whole && mbps > 1.0, "{mbps:.1} Mb/s, {whole:.1} without damage");
    }
}
