// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The link as zenoh's transport uses it, without zenoh's transport.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::{Duration, Instant};

use arq_proto::{LaneId, Reliability};
use tokio::time::timeout;
use zenoh_link_arq::{statistics, AssociationStats, LinkManagerUnicastArq, ARQ_MTU};
use zenoh_link_commons::{
    LinkAuthId, LinkManagerUnicastTrait, LinkUnicast, LinkUnicastTrait, NewLink,
};
use zenoh_protocol::core::{EndPoint, Priority};

/// Far above what is needed: only a hang runs into it.
const HANG: Duration = Duration::from_secs(30);

struct Side {
    manager: LinkManagerUnicastArq,
    accepted: flume::Receiver<LinkUnicast>,
}

fn side() -> Side {
    let (sender, accepted) = flume::unbounded();
    Side { manager: LinkManagerUnicastArq::new(sender), accepted }
}

fn endpoint(text: &str) -> EndPoint {
    text.parse().unwrap()
}

/// A listener, a link to it, and the link that it accepted.
async fn linked(listen: &str, extra: &str) -> (Side, Side, LinkUnicast, LinkUnicast) {
    let (server, client) = (side(), side());
    let locator = server.manager.new_listener(endpoint(listen)).await.unwrap();
    let near = client.manager.new_link(endpoint(&format!("{locator}{extra}"))).await.unwrap();
    let far = timeout(HANG, server.accepted.recv_async()).await.unwrap().unwrap();
    (server, client, near, far)
}

/// How a fragment of zenoh's begins, a reliable one and one of best effort: the link looks at no more of a batch.
const FRAGMENT: u8 = 0x26;
const BEST_EFFORT_FRAGMENT: u8 = 0x06;

fn batch(first: u8, filler: u8, bytes: usize) -> Vec<u8> {
    let mut batch = vec![filler; bytes];
    batch[0] = first;
    batch
}

async fn passes(
    from: &dyn LinkUnicastTrait,
    to: &dyn LinkUnicastTrait,
    priority: Option<Priority>,
) {
    for first in [FRAGMENT, BEST_EFFORT_FRAGMENT] {
        let message = batch(first, priority.map_or(99, |priority| priority as u8), 1_000);
        from.write_all(&message, priority).await.unwrap();
        let mut buffer = vec![0; usize::from(ARQ_MTU)];
        let read = timeout(HANG, to.read(&mut buffer, priority)).await.unwrap().unwrap();
        assert_eq!(buffer[..read], message);
    }
}

/// Of the end whose local address is `src`: the messages that a priority has sent, reliable and of best effort.
fn sent(link: &LinkUnicast, priority: Priority) -> [u64; 2] {
    let ours = |stats: &AssociationStats| stats.src.address() == link.get_src().address();
    let stats = statistics().into_iter().find(ours).unwrap().stats;
    [Reliability::Reliable, Reliability::BestEffort].map(|reliability| {
        stats.lanes[LaneId::new(priority as u8, reliability).unwrap().index()].messages_sent
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_takes_no_more_links_than_it_may() {
    for limit in ["max_links=1", "max_links_per_source=1"] {
        let listen = format!("arq/127.0.0.1:0#{limit}");
        let (server, client, _near, _far) = linked(&listen, "").await;
        let locator = server.manager.get_locators().await[0].to_string();
        // In the clear a client is open before the server has to make room for it.
        let refused = client.manager.new_link(endpoint(&locator)).await.unwrap();
        let mut buffer = [0; 100];
        let ended = timeout(HANG, refused.read(&mut buffer, None)).await.unwrap();
        assert!(ended.is_err(), "{limit}");
        assert!(server.accepted.is_empty(), "{limit}");
    }
}

/// zenoh writes one where it drops the rest of a message in parts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_without_bytes_is_no_message_and_ends_no_link() {
    let (_server, _client, near, far) = linked("arq/127.0.0.1:0", "").await;
    near.write_all(&[], Some(Priority::Data)).await.unwrap();
    assert_eq!(near.write(&[], None).await.unwrap(), 0);
    passes(&**near, &**far, Some(Priority::Data)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_priority_both_ways_reliable_and_of_best_effort() {
    let (_server, _client, near, far) = linked("arq/127.0.0.1:0", "").await;
    let priorities = (0..8).map(|priority| Priority::try_from(priority).ok());
    for priority in priorities.chain([None]) {
        passes(&**near, &**far, priority).await;
        passes(&**far, &**near, priority).await;
    }
    for priority in (1..8).map(|priority| Priority::try_from(priority).unwrap()) {
        assert_eq!(sent(&near, priority), [1, 1], "{priority:?}");
    }
}

/// One reader serves both lanes of a priority, whoever of them is busy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_kind_is_kept_from_the_reader_by_the_other() {
    const EACH: usize = 50;
    let (_server, _client, near, far) = linked("arq/127.0.0.1:0", "").await;
    for (first, kind) in [(FRAGMENT, 0), (BEST_EFFORT_FRAGMENT, 1)] {
        for _ in 0..EACH {
            near.write_all(&batch(first, 0, 1_000), Some(Priority::Data)).await.unwrap();
        }
        assert_eq!(sent(&near, Priority::Data)[kind], EACH as u64);
    }
    // Behind all of them, in a lane of its own.
    near.write_all(&batch(FRAGMENT, 0, 100), Some(Priority::Background)).await.unwrap();
    let mut buffer = [0; 1_000];
    far.read(&mut buffer, Some(Priority::Background)).await.unwrap();
    let mut kinds = Vec::new();
    for _ in 0..2 * EACH {
        let read = timeout(HANG, far.read(&mut buffer, Some(Priority::Data))).await;
        assert_eq!(read.unwrap().unwrap(), 1_000);
        kinds.push(buffer[0]);
    }
    let first = &kinds[..EACH / 2];
    assert!(first.contains(&FRAGMENT) && first.contains(&BEST_EFFORT_FRAGMENT), "{kinds:x?}");
}

/// Between two processes of a machine a batch is one packet, unless the locator says otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn within_the_machine_packets_are_as_long_as_batches() {
    for (address, keys, expected) in
        [("127.0.0.1", "", 65_507), ("[::1]", "", 65_487), ("127.0.0.1", "#mtu=1472", 1_472)]
    {
        let listen = format!("arq/{address}:0{keys}");
        let (_server, _client, near, far) = linked(&listen, keys).await;
        let batch = vec![7; usize::from(ARQ_MTU)];
        let mut buffer = batch.clone();
        let begin = Instant::now();
        loop {
            near.write_all(&batch, Some(Priority::Data)).await.unwrap();
            let read = timeout(HANG, far.read(&mut buffer, Some(Priority::Data))).await;
            assert_eq!(read.unwrap().unwrap(), batch.len());
            let found = statistics()
                .into_iter()
                .filter(|link| link.src == *near.get_src() || link.dst == *near.get_src())
                .all(|link| link.stats.path_mtu_bytes == expected);
            if found {
                break;
            }
            assert!(begin.elapsed() < HANG, "{listen}");
        }
    }
}

/// zenoh's lease counts from the last batch; the connection knows more recently that the peer lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keep_alive_is_repeated_while_the_peer_is_heard_and_its_session_is_not_silent() {
    const KEEP_ALIVE: [u8; 1] = [0x04];
    const PAUSE: Duration = Duration::from_secs(2);
    let (_server, _client, near, far) = linked("arq/127.0.0.1:0#keep_alive_ms=100", "").await;
    near.write_all(&KEEP_ALIVE, Some(Priority::Control)).await.unwrap();
    let mut buffer = [0; 10];
    let mut repeats = 0;
    let mut data = [0; 10];
    let begin = Instant::now();
    let reads = async {
        while let Ok(read) = timeout(PAUSE, far.read(&mut buffer, Some(Priority::Control))).await {
            assert_eq!(buffer[..read.unwrap()], KEEP_ALIVE);
            repeats += 1;
        }
    };
    tokio::select! {
        () = reads => {}
        _ = far.read(&mut data, Some(Priority::Data)) => panic!("data is not made up"),
    }
    assert!(repeats > 3, "{repeats} keep-alives");
    assert!((5..HANG.as_secs()).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_statistics_of_a_process_name_its_associations() {
    let (_server, _client, near, far) = linked("arq/127.0.0.1:0", "").await;
    passes(&**near, &**far, Some(Priority::Data)).await;
    let src = near.get_src().clone();
    let ours = |stats: &AssociationStats| stats.src.address() == src.address();
    let found = statistics().into_iter().find(ours).unwrap();
    assert_eq!(found.dst.address(), near.get_dst().address());
    assert!(found.stats.packets_sent > 0 && found.stats.bytes_sent > 1_000);
    near.close().await.unwrap();
    drop(near);
    assert!(!statistics().iter().any(ours), "it has ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_zenoh_asks_of_a_link() {
    let (_server, _client, near, far) = linked("arq/127.0.0.1:0", "").await;
    for link in [&near, &far] {
        assert!(matches!(link.0, NewLink::Single(_)), "zenoh and applications count one");
        assert_eq!((link.get_mtu(), link.is_streamed()), (ARQ_MTU, false));
        assert!(link.is_reliable() && link.supports_priorities());
        assert_eq!(*link.get_auth_id(), LinkAuthId::Udp);
        assert!(!link.get_interface_names().is_empty());
    }
    // Both sides name the same addresses.
    assert_eq!(near.get_dst().address(), far.get_src().address());
    assert_eq!(near.get_src().address(), far.get_dst().address());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extras_can_be_switched_off_by_either_side() {
    for (listen, extra) in [("?mixed_rel=0", ""), ("", "?mixed_rel=0")] {
        let (_s, _c, near, far) = linked(&format!("arq/127.0.0.1:0{listen}"), extra).await;
        passes(&**near, &**far, Some(Priority::Data)).await;
        assert_eq!(sent(&near, Priority::Data), [2, 0], "all of it is delivered");
    }
    let (_s, _c, near, far) = linked("arq/127.0.0.1:0?multistream=0", "").await;
    assert!(!near.supports_priorities() && !far.supports_priorities());
    passes(&**near, &**far, None).await;
    // Keep-alives name a priority even so.
    near.write_all(b"keep-alive", Some(Priority::Control)).await.unwrap();
    assert_eq!(far.read(&mut [0; 100], None).await.unwrap(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_best_effort_link_controls_reliably() {
    let (_server, _client, near, far) = linked("arq/127.0.0.1:0", "?rel=0").await;
    assert!(!near.is_reliable() && !far.is_reliable());
    passes(&**near, &**far, None).await;
    passes(&**near, &**far, Some(Priority::Data)).await;
    assert_eq!(sent(&near, Priority::Control), [2, 0]);
    assert_eq!(sent(&near, Priority::Data), [0, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_link_wakes_its_readers_and_takes_no_more() {
    let (_server, _client, near, far) = linked("arq/127.0.0.1:0", "").await;
    let waiting = near.clone();
    let reader = tokio::spawn(async move { waiting.read(&mut [0; 10], None).await });
    passes(&**near, &**far, None).await;

    // As zenoh takes its leave.
    near.write_all(&CLOSE, None).await.unwrap();
    timeout(HANG, near.close()).await.expect("closing is bounded").unwrap();
    near.close().await.unwrap();
    timeout(HANG, reader).await.unwrap().unwrap().expect_err("its readers are woken");
    near.write_all(b"x", None).await.expect_err("it is closed");
    let mut buffer = [0; 100];
    assert_eq!(far.read(&mut buffer, None).await.unwrap(), CLOSE.len());
    assert_eq!(buffer[..CLOSE.len()], CLOSE);
    timeout(HANG, far.read(&mut buffer, None)).await.unwrap().expect_err("it ended");
}

/// zenoh's last word on a session, alone and behind a frame of data.
const CLOSE: [u8; 2] = [0x03, 0];
const CLOSE_BEHIND_DATA: [u8; 4] = [0x25, 0x07, 0x03, 0];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_word_is_read_after_everything_else() {
    last_word_is_read_after_everything_else(&CLOSE).await;
    last_word_is_read_after_everything_else(&CLOSE_BEHIND_DATA).await;
}

async fn last_word_is_read_after_everything_else(last_word: &'static [u8]) {
    let (_server, _client, near, far) = linked("arq/127.0.0.1:0", "#linger_ms=20000").await;
    let last_reader = far.clone();
    let goodbye = tokio::spawn(async move {
        let mut buffer = [0; 100];
        for _ in 0..2 {
            let read = last_reader.read(&mut buffer, Some(Priority::Background)).await.unwrap();
            assert_eq!((read, buffer[0]), (50, BEST_EFFORT_FRAGMENT), "of the same priority");
        }
        let read = last_reader.read(&mut buffer, Some(Priority::Background)).await.unwrap();
        assert_eq!(buffer[..read], *last_word);
    });
    let publisher = tokio::spawn(async move {
        for number in 0..100 {
            let data = batch(FRAGMENT, number, 50_000);
            near.write_all(&data, Some(Priority::Data)).await.unwrap();
        }
        for _ in 0..2 {
            let data = batch(BEST_EFFORT_FRAGMENT, 0, 50);
            near.write_all(&data, Some(Priority::Background)).await.unwrap();
        }
        near.write_all(last_word, Some(Priority::Background)).await.unwrap();
        near.close().await
    });
    let mut buffer = vec![0; usize::from(ARQ_MTU)];
    for number in 0..100 {
        // As slow as a callback that works.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!goodbye.is_finished(), "before number {number}");
        let read = far.read(&mut buffer, Some(Priority::Data)).await.unwrap();
        assert_eq!((read, buffer[1]), (50_000, number));
    }
    far.read(&mut buffer, Some(Priority::Data)).await.expect_err("that was all");
    timeout(HANG, goodbye).await.expect("it is read").unwrap();
    publisher.await.unwrap().unwrap();
}

/// The last word overtakes nothing, whichever lane's turn it is when it comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_word_is_read_after_best_effort_of_its_priority() {
    for turn in 0..10 {
        let (_server, _client, near, far) = linked("arq/127.0.0.1:0", "").await;
        let (priority, mut buffer) = (Some(Priority::Background), [0; 100]);
        for _ in 0..turn {
            near.write_all(&batch(FRAGMENT, 0, 50), priority).await.unwrap();
            assert_eq!(far.read(&mut buffer, priority).await.unwrap(), 50);
        }
        for _ in 0..5 {
            near.write_all(&batch(BEST_EFFORT_FRAGMENT, 0, 50), priority).await.unwrap();
        }
        near.write_all(&CLOSE, priority).await.unwrap();
        // It is there, and all before it.
        near.close().await.unwrap();
        for _ in 0..5 {
            let read = timeout(HANG, far.read(&mut buffer, priority)).await.unwrap().unwrap();
            assert_eq!((read, buffer[0]), (50, BEST_EFFORT_FRAGMENT), "turn {turn}");
        }
        let read = timeout(HANG, far.read(&mut buffer, priority)).await.unwrap().unwrap();
        assert_eq!(buffer[..read], CLOSE, "turn {turn}");
    }
}

/// zenoh refuses a link while the other side still reads nothing but control messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_does_not_wait_for_lanes_that_nobody_reads() {
    let (_server, _client, near, far) = linked("arq/127.0.0.1:0", "").await;
    near.write_all(&[1; 100], Some(Priority::Data)).await.unwrap();
    near.write_all(&CLOSE, None).await.unwrap();
    let mut buffer = [0; 100];
    let refusal = timeout(Duration::from_secs(5), far.read(&mut buffer, None)).await;
    assert_eq!(refusal.expect("at once").unwrap(), CLOSE.len());

    near.close().await.unwrap();
    let end = timeout(Duration::from_secs(5), far.read(&mut buffer, None)).await;
    end.expect("at once").expect_err("the link ended");
}

/// zenoh closes a link although its last words still wait for room: they are behind a lane that is full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_arrives_though_the_last_words_were_not() {
    let keys = "#lane_window=131072;linger_ms=20000";
    let (_server, _client, near, far) = linked(&format!("arq/127.0.0.1:0{keys}"), keys).await;
    let reader = tokio::spawn(async move {
        let mut buffer = vec![0; usize::from(ARQ_MTU)];
        let mut read = 0;
        while far.read(&mut buffer, Some(Priority::Background)).await.is_ok() {
            read += 1;
        }
        read
    });
    for _ in 0..200 {
        near.write_all(&[7; 50_000], Some(Priority::Background)).await.unwrap();
    }
    timeout(HANG, near.close()).await.expect("it does not wait").unwrap();
    assert_eq!(timeout(HANG, reader).await.expect("it ends").unwrap(), 200);
}

/// When zenoh closes, it gives up the write that waits and goes on with what is queued behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_were_given_up_leave_no_gap() {
    const PATIENCE: Duration = Duration::from_millis(200);
    let (_server, _client, near, far) = linked("arq/127.0.0.1:0#lane_window=131072", "").await;
    let batch = |number| batch(FRAGMENT, number, 60_000);
    let mut given_up = 0;
    // Nobody reads.
    while timeout(PATIENCE, near.write_all(&batch(given_up), Some(Priority::Data))).await.is_ok() {
        given_up += 1;
    }
    for number in [given_up + 1, given_up + 2] {
        let write = timeout(PATIENCE, near.write_all(&batch(number), Some(Priority::Data))).await;
        write.expect_err("there is no room for it either");
    }
    // Other priorities have room, and are not asked to wait.
    passes(&**near, &**far, Some(Priority::RealTime)).await;

    let last = given_up + 3;
    let reader = tokio::spawn(async move {
        let mut buffer = vec![0; usize::from(ARQ_MTU)];
        for number in 0..=last {
            let read = timeout(HANG, far.read(&mut buffer, Some(Priority::Data))).await;
            assert_eq!((read.unwrap().unwrap(), buffer[1]), (60_000, number));
        }
    });
    near.write_all(&batch(last), Some(Priority::Data)).await.unwrap();
    reader.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_gives_up_write_after_write_is_told() {
    const PATIENCE: Duration = Duration::from_millis(200);
    let (_server, _client, near, _far) = linked("arq/127.0.0.1:0#lane_window=131072", "").await;
    let mut given_up = 0;
    let error = loop {
        match timeout(PATIENCE, near.write_all(&[7; 60_000], Some(Priority::Data))).await {
            Ok(written) if given_up == 0 => written.unwrap(),
            Ok(written) => break written.unwrap_err().to_string(),
            Err(_elapsed) => given_up += 1,
        }
        assert!(given_up < 10, "memory is bounded");
    };
    assert!(error.contains("given up"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_links_closes() {
    let (_server, _client, near, far) = linked("arq/127.0.0.1:0", "").await;
    drop(near);
    let read = timeout(HANG, far.read(&mut [0; 10], None)).await.expect("the reader is woken");
    read.expect_err("the link ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_does_not_fit_is_an_error() {
    let (_server, _client, near, far) = linked("arq/127.0.0.1:0", "").await;
    let error = near.write_all(&vec![0; 65_536], None).await.unwrap_err().to_string();
    assert!(error.contains("65536") && error.contains("65535"), "{error}");
    near.write_all(&[0; 100], None).await.unwrap();
    let error = far.read(&mut [0; 10], None).await.unwrap_err().to_string();
    assert!(error.contains("100 bytes") && error.contains("10"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_come_and_go() {
    let (server, client, near, far) = linked("arq/127.0.0.1:0", "").await;
    let manager = &server.manager;
    let listeners = manager.get_listeners().await;
    assert_eq!(listeners.len(), 1);
    assert_eq!(manager.get_locators().await, vec![listeners[0].to_locator()]);

    let taken = client.manager.new_listener(listeners[0].clone()).await.unwrap_err().to_string();
    assert!(taken.contains("in use") && taken.contains(listeners[0].address().as_str()), "{taken}");

    timeout(HANG, manager.del_listener(&listeners[0])).await.unwrap().unwrap();
    assert!(manager.get_listeners().await.is_empty());
    manager.del_listener(&listeners[0]).await.expect_err("it is gone");
    passes(&**near, &**far, Some(Priority::Data)).await;
    let late = endpoint(&format!("{}#handshake_timeout_ms=300", listeners[0]));
    client.manager.new_link(late).await.map(drop).expect_err("nobody accepts any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_listener_without_links_frees_its_port_at_once() {
    let (server, _client, near, far) = linked("arq/127.0.0.1:0", "").await;
    let listener = server.manager.get_listeners().await.remove(0);
    for link in [near, far] {
        link.close().await.unwrap();
    }
    for _ in 0..3 {
        server.manager.del_listener(&listener).await.unwrap();
        server.manager.new_listener(listener.clone()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unspecified_listener_is_reached_at_every_address() {
    let (server, client) = (side(), side());
    let locator = server.manager.new_listener(endpoint("arq/0.0.0.0:0")).await.unwrap();
    let locators = server.manager.get_locators().await;
    assert!(
        locators.iter().any(|l| l.address().as_str().starts_with("127.0.0.1:")),
        "{locators:?}"
    );
    let port = locator.address().as_str().rsplit(':').next().unwrap().to_owned();
    let near = client.manager.new_link(endpoint(&format!("arq/127.0.0.1:{port}"))).await.unwrap();
    let far = server.accepted.recv_async().await.unwrap();
    assert_eq!(far.get_src().address().as_str(), format!("127.0.0.1:{port}"));
    assert_eq!(near.get_src().address(), far.get_dst().address());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_tried_at_all_its_addresses() {
    let (server, client) = (side(), side());
    // `localhost` may lead to `::1` first, where nobody listens.
    let locator = server.manager.new_listener(endpoint("arq/127.0.0.1:0")).await.unwrap();
    let port = locator.address().as_str().rsplit(':').next().unwrap().to_owned();
    let link = client.manager.new_link(endpoint(&format!("arq/localhost:{port}")));
    timeout(HANG, link).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ipv6_and_a_local_address_to_connect_from() {
    let (_server, _client, near, far) = linked("arq/[::1]:0", "").await;
    passes(&**near, &**far, Some(Priority::Data)).await;
    let (_server, _client, near, _far) = linked("arq/127.0.0.1:0", "#bind=127.0.0.3:0").await;
    assert!(near.get_src().address().as_str().starts_with("127.0.0.3:"));
    let client = side();
    let error = client.manager.new_link(endpoint("arq/127.0.0.1:1#bind=[::1]:0")).await;
    assert!(error.unwrap_err().to_string().contains("IP version"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_leads_nowhere_is_an_error_that_names_the_endpoint() {
    let side = side();
    let portless = endpoint("arq/127.0.0.1");
    for (error, what) in [
        (side.manager.new_listener(portless.clone()).await.unwrap_err(), "listen on"),
        (side.manager.new_link(portless.clone()).await.map(drop).unwrap_err(), "connect to"),
        (side.manager.del_listener(&portless).await.unwrap_err(), "delete the listener"),
    ] {
        let text = error.to_string();
        assert!(text.contains(&format!("cannot {what} arq/127.0.0.1:")), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_has_no_other_local_address() {
    let side = side();
    let listen = endpoint("arq/127.0.0.1:0#bind=127.0.0.3:0");
    let text = side.manager.new_listener(listen).await.unwrap_err().to_string();
    assert!(text.contains("`bind`") && text.contains("cannot listen on arq/127.0.0.1:0"), "{text}");
    assert!(side.manager.get_listeners().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_locator_is_an_error_on_both_sides() {
    let side = side();
    let bad = endpoint("arq/127.0.0.1:0#mtu=1");
    for error in [
        side.manager.new_listener(bad.clone()).await.unwrap_err(),
        side.manager.new_link(bad).await.map(drop).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.contains("mtu=1") && text.contains("576..=65507"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_side_insists_on_and_the_other_refuses_ends_the_link() {
    let server = side();
    let listen = endpoint("arq/127.0.0.1:0?mixed_rel=0");
    let locator = server.manager.new_listener(listen).await.unwrap();
    let address = locator.address().as_str();
    let error = side().manager.new_link(endpoint(&format!("arq/{address}?mixed_rel=1"))).await;
    let text = error.unwrap_err().to_string();
    assert!(text.contains("mixed_rel=1"), "{text}");
}
