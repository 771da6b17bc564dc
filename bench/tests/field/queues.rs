// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What waits in a link, and what becomes of it.

use std::process::Command;
use std::time::{Duration, Instant};

use zenoh::qos::{CongestionControl, Priority};
use zenoh::Wait;

use crate::nodes::{self, Kind};
use crate::support::{answer, lab_or_skip, parameter, told, Role};
use crate::{alone, beside_others, node};

fn signal(role: &Role, name: &str) {
    let sent = Command::new("kill").args([name, &role.pid().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "the role lives");
}

/// How many messages a stream subscriber has, once there are `due` or no more come.
fn count(subscriber: &mut Role, due: u64, patience: Duration) -> u64 {
    let started = Instant::now();
    loop {
        subscriber.tell("count");
        let text = subscriber.answer();
        let received: u64 = text.parse().unwrap_or_else(|_| panic!("the subscriber says: {text}"));
        if received >= due || started.elapsed() > patience {
            return received;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process that is paged out, in a debugger or suspended with its virtual machine: shorter than zenoh's lease of 10 s.
#[test]
fn a_subscriber_that_stands_still_for_7_s_ends_no_session_and_loses_nothing() {
    let _alone = alone();
    // 100 KB/s: what a control loop publishes with congestion control Block.
    const MESSAGES: u64 = 900;
    for protocol in ["tcp", "arq"] {
        let Some(lab) = lab_or_skip("a_subscriber_that_stands_still") else { return };
        let mut subscriber = node(&lab, 1, protocol, "nodes::stream_subscriber", Kind::Listen, &[]);
        let stream = [("MESSAGES", MESSAGES.to_string()), ("RATE", "100".to_owned())];
        let stream = stream.each_ref().map(|(key, value)| (*key, value.as_str()));
        let mut publisher =
            node(&lab, 0, protocol, "nodes::stream_publisher", Kind::Connect, &stream);
        let link = publisher.answer();
        publisher.tell("go");
        std::thread::sleep(Duration::from_secs(1));
        signal(&subscriber, "-STOP");
        std::thread::sleep(Duration::from_secs(7));
        signal(&subscriber, "-CONT");
        let after = publisher.answer();
        let received = count(&mut subscriber, MESSAGES, Duration::from_secs(10));
        println!("{protocol}: {received} of {MESSAGES}");
        assert_eq!(after, link, "{protocol}: the same link, so the same session");
        assert_eq!(received, MESSAGES, "{protocol}");
    }
}

/// Messages that a process publishes before it ends.
const LAST_WORDS: u32 = 20;

/// Publishes 20 messages of 10 KB and ends as it is told.
#[test]
#[ignore = "a role that other tests start"]
fn last_words() {
    let session = nodes::open("client", Kind::Connect).expect("a session");
    let publisher = nodes::publisher(&session, "stream", Priority::Data, CongestionControl::Block);
    nodes::wait_for_match(&publisher);
    answer("ready");
    told();
    for sequence in 0..LAST_WORDS {
        nodes::put(&publisher, sequence, &nodes::payload(10_000, sequence));
    }
    match parameter("END").as_str() {
        "close" => session.close().wait().expect("it closes"),
        "abort" => std::process::abort(),
        _ => {}
    }
    std::process::exit(0);
}

/// How many of the last words of `tries` processes arrive.
fn heard(protocol: &str, end: &str, loss: f64, tries: u64) -> u64 {
    let mut heard = 0;
    for _ in 0..tries {
        let Some(lab) = lab_or_skip("last_words") else { return 0 };
        let gaps = [("GAPS", "1"), ("ANY_START", "1")];
        let mut subscriber =
            node(&lab, 1, protocol, "nodes::stream_subscriber", Kind::Listen, &gaps);
        let mut speaker =
            node(&lab, 0, protocol, "queues::last_words", Kind::Connect, &[("END", end)]);
        lab.set_loss(loss).expect("loss can be set");
        speaker.tell("go");
        heard += count(&mut subscriber, LAST_WORDS.into(), Duration::from_secs(3));
    }
    heard
}

/// Who closes the session or exits loses nothing. What a process holds that is killed is lost with it, and over `tcp/` less
/// of it, since the kernel lives on.
#[test]
fn the_last_words_of_a_process_arrive_unless_it_is_killed() {
    let _beside = beside_others();
    if lab_or_skip("the_last_words").is_none() {
        return;
    }
    const TRIES: u64 = 3;
    let all = TRIES * u64::from(LAST_WORDS);
    for loss in [0.0, 0.1] {
        let arq = heard("arq", "close", loss, TRIES);
        assert_eq!(arq, all, "{loss} lost, close");
        for end in ["exit", "abort"] {
            let [tcp, arq] = ["tcp", "arq"].map(|protocol| heard(protocol, end, loss, TRIES));
            println!("{loss}, {end}: {arq} of {all} over arq, {tcp} over tcp");
            assert!(arq == all || end == "abort", "{loss} lost, {end}: {arq} of {all} arrive");
        }
    }
}
