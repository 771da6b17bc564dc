// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! One locator, one link, two cables: either may be pulled for longer than the link waits for a silent peer, and the link
//! lives, with every batch.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[allow(dead_code, reason = "the tests of arq-tokio use the rest")]
#[path = "../../arq-tokio/tests/radios/support.rs"]
mod cables;

use std::time::Duration;

use cables::{answer, told, Cables, Role};
use tokio::{sync::mpsc, time::timeout};
use zenoh_link_arq::{statistics, LinkManagerUnicastArq, ARQ_MTU};
use zenoh_link_commons::LinkManagerUnicastTrait;
use zenoh_protocol::core::Priority;

/// Far above what is needed: only a hang runs into it.
const HANG: Duration = Duration::from_secs(30);
/// A peer that is silent for longer is gone.
const LISTEN: &str = "arq/0.0.0.0:7447#keep_alive_ms=300;idle_timeout_ms=1000";
const CONNECT: &str = "arq/10.79.0.1:7447#paths=a,b;keep_alive_ms=300;idle_timeout_ms=1000";
const PERIOD: Duration = Duration::from_millis(20);
/// Batches after which the writer says so: half a second.
const TELLS_EACH: u64 = 25;
/// What a cable is pulled for, in half seconds.
const PULLED_FOR: usize = 5;
/// How a reliable fragment of zenoh's begins: the link looks at no more of a batch.
const FRAGMENT: u8 = 0x26;

#[test]
fn a_link_over_two_cables_lives_without_either() {
    let Some(cables) = Cables::lay_or_skip("a_link_over_two_cables") else { return };
    let mut listener = Role::in_host(cables.server(), "role_listen");
    assert_eq!(listener.answer(), "listens");
    let mut client = Role::in_host(cables.client(), "role_connect");
    assert_eq!(client.answer(), "a b");
    for cable in ["a", "b"] {
        cables.take_down(cable);
        (0..PULLED_FOR).for_each(|_| assert_eq!(client.answer(), "goes on"));
        cables.bring_up(cable);
        // It must be back before the other one goes.
        (0..PULLED_FOR).for_each(|_| assert_eq!(client.answer(), "goes on"));
    }
    client.tell("stop");
    let sent = loop {
        let said = client.answer();
        if said != "goes on" {
            break said;
        }
    };
    assert_eq!(listener.answer(), sent, "every batch, on the only link");
    let paths = client.answer();
    assert_eq!(paths, "a=open b=open", "as the statistics tell");
}

#[test]
#[ignore = "a role, which other tests start"]
fn role_listen() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (sender, accepted) = flume::unbounded();
        let manager = LinkManagerUnicastArq::new(sender);
        manager.new_listener(LISTEN.parse().unwrap()).await.unwrap();
        answer("listens");
        let link = timeout(HANG, accepted.recv_async()).await.unwrap().unwrap();
        let (mut buffer, mut heard) = (vec![0; usize::from(ARQ_MTU)], 0_u64);
        while let Ok(read) = link.read(&mut buffer, Some(Priority::Data)).await {
            if read == 1 {
                break;
            }
            assert_eq!(buffer[1..read], heard.to_le_bytes(), "in order");
            heard += 1;
        }
        assert!(accepted.is_empty(), "there was one link");
        answer(heard);
        told();
    });
}

#[test]
#[ignore = "a role, which other tests start"]
fn role_connect() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let manager = LinkManagerUnicastArq::new(flume::unbounded().0);
        let link = manager.new_link(CONNECT.parse().unwrap()).await.unwrap();
        answer(link.get_interface_names().join(" "));
        let (tell, mut asked) = mpsc::unbounded_channel();
        std::thread::spawn(move || tell.send(told()));
        let mut tick = tokio::time::interval(PERIOD);
        let mut sent = 0_u64;
        while asked.try_recv().is_err() {
            tick.tick().await;
            let batch = [&[FRAGMENT][..], &sent.to_le_bytes()].concat();
            link.write_all(&batch, Some(Priority::Data)).await.unwrap();
            sent += 1;
            if sent.is_multiple_of(TELLS_EACH) {
                answer("goes on");
            }
        }
        link.write_all(&[FRAGMENT], Some(Priority::Data)).await.unwrap();
        answer(sent);
        let stats = statistics().remove(0);
        let mut paths: Vec<_> = stats
            .paths
            .iter()
            .map(|path| format!("{}={}", path.interface.as_deref().unwrap(), path.stats.state))
            .collect();
        paths.sort();
        answer(paths.join(" "));
        told();
    });
}
