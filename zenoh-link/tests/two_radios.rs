// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A zenoh session whose one link leads over two cables: either may be pulled for longer than the lease and both for a
//! second, and the session lives, with every message.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[allow(dead_code, reason = "the tests of arq-tokio use the rest")]
#[path = "../../arq-tokio/tests/radios/support.rs"]
mod cables;
#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use std::{env, thread, time::Duration};

use cables::{answer, told, Cables, Role};
use tokio::sync::mpsc;
use zenoh::{qos::CongestionControl, Session};

const KEY: &str = "two/radios";
const PERIOD: Duration = Duration::from_millis(20);
/// Messages after which the publisher says so: half a second.
const TELLS_EACH: u64 = 25;
/// A session is given up after three seconds of silence.
const LEASE: (&str, &str) = ("transport/link/tx/lease", "3000");
/// What a cable is pulled for, in half seconds.
const PULLED_FOR: usize = 8;
/// How long both are: a third of the lease.
const BOTH_PULLED_FOR: Duration = Duration::from_secs(1);
/// The variables that tell the roles the mode of who publishes, and the links.
const MODE: &str = "TWO_RADIOS_MODE";
const LINKS: &str = "TWO_RADIOS_LINKS";
/// For all priorities, and one for those that are urgent and another for the others.
const ONE: &[(&str, &str)] = &[("7447", "")];
const TWO: &[(&str, &str)] = &[("7447", "?prio=0-3"), ("7448", "?prio=4-7")];

#[test]
fn a_clients_session_outlives_the_lease_without_either_cable() {
    outlives_the_lease("client", ONE);
}

#[test]
fn a_peers_session_outlives_the_lease_without_either_cable() {
    outlives_the_lease("peer", ONE);
}

#[test]
fn a_routers_session_outlives_the_lease_without_either_cable() {
    outlives_the_lease("router", ONE);
}

#[test]
fn both_links_of_a_session_keep_both_cables() {
    outlives_the_lease("peer", TWO);
}

fn outlives_the_lease(mode: &str, links: &[(&str, &str)]) {
    let Some(cables) = Cables::lay_or_skip(mode) else { return };
    let role = |host: &netlab::Host, name| {
        let mut command = host.command(env::current_exe().unwrap());
        command.env(MODE, mode).env(LINKS, links.len().to_string());
        Role::start(command, name).unwrap()
    };
    let mut router = role(cables.server(), "role_router");
    assert_eq!(router.answer(), "listens");
    let mut publisher = role(cables.client(), "role_publisher");
    let before = publisher.answer();
    let interfaces = ["a b", "a a b b"][links.len() - 1];
    let expected = format!("{} link, {interfaces}, ", links.len());
    assert!(before.starts_with(&expected), "{before}");
    let goes_on = |publisher: &mut Role| {
        (0..PULLED_FOR).for_each(|_| assert_eq!(publisher.answer(), "goes on"));
    };
    for cable in ["a", "b"] {
        cables.take_down(cable);
        goes_on(&mut publisher);
        cables.bring_up(cable);
        // It must be back before the other one goes.
        goes_on(&mut publisher);
    }
    ["a", "b"].iter().for_each(|cable| cables.take_down(cable));
    // The length of the outage: nothing is waited for.
    thread::sleep(BOTH_PULLED_FOR);
    ["a", "b"].iter().for_each(|cable| cables.bring_up(cable));
    goes_on(&mut publisher);
    publisher.tell("stop");
    let [after, sent] = [(); 2].map(|()| loop {
        let said = publisher.answer();
        if said != "goes on" {
            break said;
        }
    });
    assert_eq!(after, before, "the same session, and one link");
    assert_eq!(router.answer(), sent, "every message");
}

#[test]
#[ignore = "a role, which other tests start"]
fn role_router() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (endpoints, count) = endpoints("0.0.0.0", "");
        let settings = [
            LEASE,
            ("mode", "\"router\""),
            ("listen/endpoints", &endpoints),
            ("transport/unicast/max_links", &count),
        ];
        let session = zenoh::open(support::config(&settings)).await.unwrap();
        let samples = session.declare_subscriber(KEY).await.unwrap();
        answer("listens");
        let mut heard = 0_u64;
        while let Ok(sample) = samples.recv_async().await {
            let payload = sample.payload().to_bytes();
            if payload.is_empty() {
                break;
            }
            assert_eq!(payload[..], heard.to_le_bytes(), "in order");
            heard += 1;
        }
        answer(heard);
        told();
    });
}

#[test]
#[ignore = "a role, which other tests start"]
fn role_publisher() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mode = format!("{:?}", env::var(MODE).unwrap());
        let (endpoints, count) = endpoints("10.79.0.1", "#paths=a,b");
        let settings = [
            LEASE,
            ("mode", mode.as_str()),
            ("connect/endpoints", &endpoints),
            ("transport/unicast/max_links", &count),
        ];
        let opening = async { zenoh::open(support::config(&settings)).await };
        let session = support::patiently("the session opens", opening).await.unwrap();
        let publisher = session.declare_publisher(KEY);
        let publisher = publisher.congestion_control(CongestionControl::Block).await.unwrap();
        let matching = publisher.matching_listener().await.unwrap();
        support::patiently("the subscriber is known", async {
            while !publisher.matching_status().await.unwrap().matching() {
                matching.recv_async().await.unwrap();
            }
        })
        .await;
        support::patiently("all links are open", async {
            while session.info().links().await.count().to_string() != count {
                tokio::time::sleep(PERIOD).await;
            }
        })
        .await;
        answer(links(&session).await);
        let (tell, mut asked) = mpsc::unbounded_channel();
        thread::spawn(move || tell.send(told()));
        let mut tick = tokio::time::interval(PERIOD);
        let mut sent = 0_u64;
        while asked.try_recv().is_err() {
            tick.tick().await;
            publisher.put(sent.to_le_bytes().to_vec()).await.unwrap();
            sent += 1;
            if sent.is_multiple_of(TELLS_EACH) {
                answer("goes on");
            }
        }
        answer(links(&session).await);
        publisher.put(Vec::new()).await.unwrap();
        answer(sent);
        told();
    });
}

/// The endpoints of a role at an address, as zenoh's configuration has them, and how many they are.
fn endpoints(address: &str, keys: &str) -> (String, String) {
    let count = env::var(LINKS).unwrap();
    let links = if count == "1" { ONE } else { TWO };
    let endpoint = |(port, priorities)| format!("\"arq/{address}:{port}{priorities}{keys}\"");
    let endpoints: Vec<_> = links.iter().copied().map(endpoint).collect();
    (format!("[{}]", endpoints.join(",")), count)
}

/// How many links there are, over which interfaces, and to whom.
async fn links(session: &Session) -> String {
    let links: Vec<_> = session.info().links().await.collect();
    let mut interfaces: Vec<_> = links.iter().flat_map(|link| link.interfaces()).collect();
    interfaces.sort();
    let interfaces: Vec<_> = interfaces.into_iter().map(ToString::to_string).collect();
    let peers: Vec<_> = links.iter().map(|link| format!("{} {}", link.zid(), link.src())).collect();
    format!("{} link, {}, {}", links.len(), interfaces.join(" "), peers.join(" "))
}
