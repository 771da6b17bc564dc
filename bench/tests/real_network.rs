// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does `arq/` keep its promises on real sockets, between two hosts whose network drops packets?
//!
//! Every test is two or three processes in a lab, with zenoh's stock settings. `--nocapture` shows the measured
//! figures. Not here: added delay, because iptables only drops; the simulator has it.

#[path = "real_network/nodes.rs"]
mod nodes;
mod support;

use std::time::{Duration, Instant};

use netlab::Lab;
use parking_lot::{Mutex, MutexGuard};

use nodes::Kind;
use support::{lab_or_skip, Role};

/// How long a publication may wait, in microseconds, before zenoh ends the session.
const WAIT_BEFORE_CLOSE: &str =
    "transport/link/tx/queue/congestion_control/block/wait_before_close";

/// One load at a time: on two cores, tests beside each other measure each other.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

fn endpoint(lab: &Lab) -> String {
    format!("arq/{}:7447", lab.host(1).ipv4())
}

/// Starts a node and waits until it says that it is ready: listening, or connected and matched.
fn node(lab: &Lab, host: usize, role: &str, kind: Kind, more: &[(&str, String)]) -> Role {
    let mut env = vec![("ENDPOINT", endpoint(lab)), ("KIND", kind.name().to_owned())];
    env.extend_from_slice(more);
    let mut role = Role::start(lab.host(host), &format!("nodes::{role}"), &env);
    assert_eq!(role.answer(), "ready");
    role
}

fn everything_arrives_once_and_in_order(percent: u32) {
    let _alone = alone();
    let Some(lab) = lab_or_skip("everything_arrives_once_and_in_order") else { return };
    // zenoh sends the most urgent first, and ends a session in which a publication has waited for 5 s: on a busy
    // machine what is more urgent than Background takes longer.
    let patient = [("SETTINGS", format!("{WAIT_BEFORE_CLOSE}:240000000"))];
    let mut listener = node(&lab, 1, "exchange", Kind::Listen, &patient);
    let mut connector = node(&lab, 0, "exchange", Kind::Connect, &patient);
    lab.set_loss(f64::from(percent) / 100.0).expect("loss can be set");
    let started = Instant::now();
    listener.tell("go");
    connector.tell("go");
    let (at_listener, at_connector) = (listener.answer(), connector.answer());
    println!("{percent} %: {at_listener} / {at_connector} after {:.1?}", started.elapsed());
    assert_eq!(at_listener, nodes::exchange_complete());
    assert_eq!(at_connector, nodes::exchange_complete());
}

#[test]
fn everything_arrives_once_and_in_order_without_loss() {
    everything_arrives_once_and_in_order(0);
}

#[test]
fn everything_arrives_once_and_in_order_at_10_percent() {
    everything_arrives_once_and_in_order(10);
}

#[test]
fn everything_arrives_once_and_in_order_at_25_percent() {
    everything_arrives_once_and_in_order(25);
}

#[test]
fn a_session_opens_within_a_second_at_25_percent_in_nearly_all_of_100_tries() {
    let _alone = alone();
    let Some(lab) = lab_or_skip("a_session_opens_within_a_second") else { return };
    let _listener = node(&lab, 1, "exchange", Kind::Listen, &[]);
    lab.set_loss(0.25).expect("loss can be set");
    let mut opener = Role::start(lab.host(0), "nodes::opener", &[("ENDPOINT", endpoint(&lab))]);
    let mut took: Vec<u64> =
        (0..100).map(|_| opener.answer().parse().expect("milliseconds")).collect();
    took.sort_unstable();
    let in_time = took.iter().filter(|ms| **ms <= 1000).count();
    println!(
        "{in_time} of 100 within 1 s; p50 {} ms, p90 {} ms, p99 {} ms, max {} ms",
        took[49], took[89], took[98], took[99]
    );
    // One or two in a thousand take longer by chance: all packets of their first second are lost.
    assert!(in_time >= 97, "{took:?}");
}

/// Pulls the publisher's cable for 8 s while it publishes, and expects the same session and every message after.
fn a_blackout(rate: u32, settings: &str) {
    let _alone = alone();
    let Some(lab) = lab_or_skip("a_blackout_of_8_s") else {
        return;
    };
    let settings = ("SETTINGS", settings.to_owned());
    let (messages, rate) = ((12 * rate).to_string(), rate.to_string());
    let stream = [settings.clone(), ("MESSAGES", messages.clone()), ("RATE", rate)];
    let mut subscriber = node(&lab, 1, "stream_subscriber", Kind::Listen, &[settings]);
    let mut publisher = node(&lab, 0, "stream_publisher", Kind::Connect, &stream);
    let link = publisher.answer();
    publisher.tell("go");
    std::thread::sleep(Duration::from_secs(2));
    lab.unplug(0).expect("the cable can be pulled");
    std::thread::sleep(Duration::from_secs(8));
    let before = ask(&mut subscriber);
    lab.plug(0).expect("the cable can be put back");
    let back = Instant::now();
    while ask(&mut subscriber) == before && back.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("first message {:.0?} after the cable; {before} before", back.elapsed());
    assert_eq!(publisher.answer(), link, "the same link, so the same session");
    let due = messages.parse().expect("a number");
    let complete = wait_for(&mut subscriber, due, Duration::from_secs(10));
    assert_eq!(complete, messages, "every message once and in order");
}

#[test]
fn a_blackout_of_8_s_loses_no_session_and_no_message() {
    // Slow enough for zenoh's own queue: a publication that waits for 5 s ends the session over any link.
    a_blackout(10, "");
}

#[test]
fn a_blackout_under_load_loses_nothing_where_zenoh_is_patient() {
    a_blackout(50, &format!("transport/link/tx/lease:30000;{WAIT_BEFORE_CLOSE}:20000000"));
}

#[test]
fn a_restarted_peer_is_back_within_a_second() {
    let _alone = alone();
    let Some(lab) = lab_or_skip("a_restarted_peer_is_back") else { return };
    let mut subscriber = node(&lab, 1, "stream_subscriber", Kind::Listen, &[]);
    let endless = [("MESSAGES", "100000".to_owned()), ("RATE", "50".to_owned())];
    let mut publisher = node(&lab, 0, "stream_publisher", Kind::Connect, &endless);
    publisher.answer();
    publisher.tell("go");
    for down in [Duration::ZERO, Duration::from_millis(500), Duration::from_secs(3)] {
        let before = wait_for(&mut subscriber, 10, Duration::from_secs(10));
        assert!(number(&before) >= 10, "traffic flows: {before}");
        subscriber.kill();
        std::thread::sleep(down);
        subscriber =
            node(&lab, 1, "stream_subscriber", Kind::Listen, &[("ANY_START", "1".to_owned())]);
        let listening = Instant::now();
        while number(&ask(&mut subscriber)) == 0 && listening.elapsed() < Duration::from_secs(20) {}
        println!(
            "down for {down:?}: the first message {:.0?} after the restart",
            listening.elapsed()
        );
        assert!(listening.elapsed() < Duration::from_secs(1), "{:?}", listening.elapsed());
    }
}

fn a_slow_subscriber(congestion_control: &str) -> (u64, u64) {
    let lab = Lab::new(2).expect("the lab was possible a moment ago");
    let slow =
        [("SLOW_MS", "10".to_owned()), ("ANY_START", "1".to_owned()), ("GAPS", "1".to_owned())];
    let mut subscriber = node(&lab, 1, "stream_subscriber", Kind::Listen, &slow);
    let flood = [("CONGESTION", congestion_control.to_owned())];
    let mut publisher = node(&lab, 0, "flood_publisher", Kind::Connect, &flood);
    let pids = [publisher.pid(), subscriber.pid()];
    let before = pids.map(resident_kb);
    publisher.tell("go");
    let mut peak = before;
    for _ in 0..25 {
        std::thread::sleep(Duration::from_millis(200));
        peak = [0, 1].map(|i| peak[i].max(resident_kb(pids[i])));
    }
    publisher.tell("stop");
    let published: u64 = publisher.answer().parse().expect("a count");
    let received: u64 = ask(&mut subscriber).parse().expect("a count");
    let grown = [0, 1].map(|i| (peak[i] - before[i]) / 1000);
    println!("{congestion_control}: {published} published, {received} received in 5 s; grown by {grown:?} MB");
    assert!(grown.iter().all(|mb| *mb < 64), "memory is bounded: {grown:?} MB");
    (published, received)
}

#[test]
fn a_slow_subscriber_slows_a_blocking_publisher() {
    let _alone = alone();
    let Some(lab) = lab_or_skip("a_slow_subscriber_slows") else { return };
    drop(lab);
    let (published, received) = a_slow_subscriber("block");
    assert!(received >= 100, "the subscriber works all the time: {received}");
    // What is not yet received is in bounded queues: at 64 KB a message they hold some tens of megabytes.
    assert!(published - received < 500, "{published} published, {received} received");
}

#[test]
fn a_slow_subscriber_makes_a_dropping_publisher_drop() {
    let _alone = alone();
    let Some(lab) = lab_or_skip("a_slow_subscriber_makes_drop") else { return };
    drop(lab);
    let (published, received) = a_slow_subscriber("drop");
    assert!(received >= 100, "the subscriber works all the time: {received}");
    assert!(
        published > 2 * received,
        "{published} published, {received} received: nothing was dropped"
    );
}

/// How many messages a stream subscriber has, or what went wrong there.
fn ask(subscriber: &mut Role) -> String {
    subscriber.tell("count");
    subscriber.answer()
}

/// The count in an answer; a failure where it says what went wrong.
fn number(answer: &str) -> u64 {
    answer.parse().unwrap_or_else(|_| panic!("the subscriber says: {answer}"))
}

/// Asks until the subscriber has `count` messages, an error, or no more time.
fn wait_for(subscriber: &mut Role, count: u64, patience: Duration) -> String {
    let started = Instant::now();
    loop {
        let answer = ask(subscriber);
        let is_enough = answer.parse::<u64>().map_or(true, |received| received >= count);
        if is_enough || started.elapsed() > patience {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The resident memory of a process.
fn resident_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
