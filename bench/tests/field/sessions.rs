// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Processes with a session each, and how a test starts them on a host.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use netlab::Host;
use zenoh::{
    qos::{CongestionControl, Priority},
    sample::{Sample, SampleKind},
    Session, Wait,
};

use crate::{
    nodes,
    support::{answer, told, Role},
};

/// Opens a session in `mode`, as zenoh does by default but for scouting.
pub(crate) fn open(mode: &str) -> Session {
    zenoh::init_log_from_env_or("error");
    let mut config = zenoh::Config::default();
    let mut insert = |key: &str, value: &str| config.insert_json5(key, value).expect("a setting");
    insert("mode", &format!("\"{mode}\""));
    for side in ["listen", "connect"] {
        insert(
            &format!("{side}/endpoints"),
            &std::env::var(side).unwrap_or_else(|_| "[]".to_owned()),
        );
    }
    insert("scouting/multicast/enabled", "false");
    zenoh::open(config).wait().expect("a session")
}

/// Listens until its test has gone.
#[test]
#[ignore = "a role that other tests start"]
fn listener() {
    let _session = open("router");
    answer("ready");
    told();
    std::process::exit(0);
}

/// Tells how long it takes to open a session.
#[test]
#[ignore = "a role that other tests start"]
fn opener() {
    let started = Instant::now();
    let _session = open("client");
    answer(started.elapsed().as_millis());
    told();
    std::process::exit(0);
}

/// Says that it lives.
#[test]
#[ignore = "a role that other tests start"]
fn token() {
    let session = open("client");
    let _token = session.liveliness().declare_token("alive").wait().expect("a token");
    answer("ready");
    told();
    std::process::exit(0);
}

/// Tells when who says so comes and goes.
#[test]
#[ignore = "a role that other tests start"]
fn witness() {
    let session = open("router");
    let tell = |sample: Sample| match sample.kind() {
        SampleKind::Put => answer("came"),
        SampleKind::Delete => answer("gone"),
    };
    let subscriber = session.liveliness().declare_subscriber("alive").callback(tell);
    subscriber.background().wait().expect("a subscriber");
    answer("ready");
    told();
    std::process::exit(0);
}

/// Publishes 10 messages a second, which are lost while nobody is there.
#[test]
#[ignore = "a role that other tests start"]
fn publisher() {
    let session = open("client");
    answer("ready");
    loop {
        session.put("stream", vec![0; 100]).wait().expect("a publication");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// As [`publisher`], whose session waits for its network as long as it takes.
#[test]
#[ignore = "a role that other tests start"]
fn persistent_publisher() {
    answer("ready");
    let session = open("peer");
    loop {
        session.put("stream", vec![0; 100]).wait().expect("a publication");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// For 3 s an urgent beacon each 50 ms, and each half second an image of 2 MB that is dropped if the link does not take it
/// in time.
#[test]
#[ignore = "a role that other tests start"]
fn images() {
    let session = open("client");
    let publisher = |key, priority, control| {
        let publisher = session.declare_publisher(key).priority(priority);
        publisher.congestion_control(control).wait().expect("a publisher")
    };
    let beacon = publisher("stream", Priority::RealTime, CongestionControl::Block);
    let camera = publisher("image", Priority::Data, CongestionControl::Drop);
    nodes::wait_for_match(&beacon);
    nodes::wait_for_match(&camera);
    answer("ready");
    told();
    for tick in 0..60 {
        beacon.put(vec![0; 300]).wait().expect("a publication");
        if tick % 10 == 0 {
            camera.put(vec![0; 2_000_000]).wait().expect("a publication");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    told();
}

/// Tells of each message, and takes images.
#[test]
#[ignore = "a role that other tests start"]
fn subscriber() {
    let session = open("router");
    let tell = |_| answer("message");
    session.declare_subscriber("image").callback(drop).background().wait().expect("a subscriber");
    session.declare_subscriber("stream").callback(tell).background().wait().expect("a subscriber");
    answer("ready");
    told();
    std::process::exit(0);
}

/// Starts the role `name` on `host`, which listens on or connects to `endpoints`, as `side` says.
pub(crate) fn role(host: &Host, name: &str, side: &'static str, endpoints: &[String]) -> Role {
    let list = endpoints.iter().fold(String::new(), |mut list, endpoint| {
        let _ = write!(list, "\"{endpoint}\",");
        list
    });
    Role::start(host, &format!("sessions::{name}"), &[(side, format!("[{list}]"))])
}

/// A role that has said that it is ready.
pub(crate) fn ready(mut role: Role) -> Role {
    assert_eq!(role.answer(), "ready");
    role
}

/// Runs a command in a host.
pub(crate) fn sh(host: &Host, script: &str) {
    let done = host.command("sh").args(["-c", script]).status().expect("a shell");
    assert!(done.success(), "{script}: {done}");
}
