// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The driver over sockets in memory, in virtual time: what must hold for those who wait.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod faults;
mod roaming;

use std::{
    net::SocketAddr,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
    time::Duration,
};

use arq_proto::{
    Config, ConnectionError, EndpointConfig, LaneId, Reliability, Unreachable, UnreachableReport,
    ValidConfig,
};
use arq_tokio::{socket::memory::MemoryNetwork, ConnectError, Connection, Endpoint, SendError};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use tokio::{
    runtime::Handle,
    task::JoinSet,
    time::{timeout, Instant},
};

const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 7447);
const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 2], 1);
const SECOND: Duration = Duration::from_secs(1);

struct Pair {
    network: MemoryNetwork,
    server: Endpoint,
    near: Connection,
    far: Connection,
}

fn lane(priority: u8) -> LaneId {
    LaneId::new(priority, Reliability::Reliable).unwrap()
}

fn config() -> Config {
    // Virtual time runs on the runtime's timer.
    Config { timer_granularity: Duration::from_millis(1), ..Config::default() }
}

fn endpoint(
    network: &MemoryNetwork,
    address: ([u8; 4], u16),
    accept: Option<ValidConfig>,
) -> Endpoint {
    let socket = network.bind(SocketAddr::from(address)).unwrap();
    let config = EndpointConfig::new(accept);
    Endpoint::over(Box::new(socket), config, &Handle::current()).unwrap()
}

async fn pair_with(network: MemoryNetwork, config: Config) -> Pair {
    let config = config.validate().unwrap();
    let server = endpoint(&network, SERVER, Some(config.clone()));
    let client = endpoint(&network, CLIENT, None);
    let near = client.connect(SERVER.into(), config).await.unwrap();
    let far = server.accept().await.unwrap();
    Pair { network, server, near, far }
}

async fn pair() -> Pair {
    pair_with(MemoryNetwork::lossless(), config()).await
}

/// A network that loses `percent` of all datagrams, the same ones for the same seed.
fn lossy(percent: u32, seed: u64) -> MemoryNetwork {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    MemoryNetwork::new(move |_, _, _| rng.next_u32() % 100 >= percent)
}

/// Whether everything could be sent, and nothing was answered.
fn is_silence(error: &ConnectError) -> bool {
    matches!(error, ConnectError::Ended(ConnectionError::HandshakeTimedOut { .. }))
}

fn message(number: u32, len: usize) -> Vec<u8> {
    let mut message = vec![number as u8; len.max(4)];
    message[..4].copy_from_slice(&number.to_le_bytes());
    message
}

async fn send_numbered(connection: &Connection, lane: LaneId, count: u32, len: usize) {
    for number in 0..count {
        connection.send(lane, message(number, len)).await.unwrap();
    }
}

async fn expect_numbered(connection: &Connection, lane: LaneId, count: u32, len: usize) {
    for number in 0..count {
        assert_eq!(connection.recv(lane).await.unwrap(), message(number, len), "{lane:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn eight_lanes_at_once_both_ways_under_loss() {
    for seed in 0..5 {
        let Pair { near, far, .. } = pair_with(lossy(25, seed), config()).await;
        let (near, far) = (Arc::new(near), Arc::new(far));
        let mut tasks = JoinSet::new();
        for priority in 0..8 {
            for (from, to) in [(near.clone(), far.clone()), (far.clone(), near.clone())] {
                let len = 1 << (2 * priority);
                tasks.spawn(async move { send_numbered(&from, lane(priority), 50, len).await });
                tasks.spawn(async move { expect_numbered(&to, lane(priority), 50, len).await });
            }
        }
        timeout(120 * SECOND, tasks.join_all()).await.expect("all of it arrives");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_receive_loses_no_message() {
    let Pair { near, far, .. } = pair_with(lossy(10, 1), config()).await;
    let sender = tokio::spawn(async move {
        for number in 0..500 {
            near.send(lane(5), message(number, 100)).await.unwrap();
            // Slower than the reader's patience.
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        near
    });
    let (mut next, mut cancelled) = (0, 0);
    while next < 500 {
        match timeout(Duration::from_millis(2), far.recv(lane(5))).await {
            Ok(received) => {
                assert_eq!(received.unwrap(), message(next, 100));
                next += 1;
            }
            Err(_elapsed) => cancelled += 1,
        }
    }
    assert!(cancelled > 0, "the test cancels");
    drop(sender.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_send_has_sent_nothing() {
    let Pair { network, near, far, .. } = pair().await;
    network.block_sends(true);
    let mut taken = 0;
    while timeout(SECOND, near.send(lane(5), message(taken, 50_000))).await.is_ok() {
        taken += 1;
    }
    // The one that waited was number `taken`: it must not arrive, its successor gets the number.
    network.block_sends(false);
    near.send(lane(5), message(taken, 7)).await.unwrap();
    expect_numbered(&far, lane(5), taken, 50_000).await;
    assert_eq!(far.recv(lane(5)).await.unwrap(), message(taken, 7));
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_slows_its_lane_only() {
    let Pair { near, far, .. } = pair().await;
    let near = Arc::new(near);
    let mut taken = 0;
    while timeout(SECOND, near.send(lane(5), message(taken, 60_000))).await.is_ok() {
        taken += 1;
    }
    let bytes = taken as usize * 60_000;
    let bound = config().lane_window_bytes as usize + (256 << 10) + 2 * 65_536;
    assert!(bytes > config().lane_window_bytes as usize / 2, "{bytes} bytes taken");
    assert!(bytes <= bound, "{bytes} bytes taken of a reader that reads nothing");

    near.send(lane(1), "urgent").await.unwrap();
    assert_eq!(timeout(SECOND, far.recv(lane(1))).await.unwrap().unwrap(), "urgent");

    let rest = tokio::spawn(async move {
        for number in taken..taken + 100 {
            near.send(lane(5), message(number, 60_000)).await.unwrap();
        }
        near
    });
    expect_numbered(&far, lane(5), taken + 100, 60_000).await;
    rest.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_close_wakes_everyone_with_the_reason() {
    let Pair { near, far, .. } = pair().await;
    let (near, far) = (Arc::new(near), Arc::new(far));
    let mut waiters = JoinSet::new();
    for connection in [&near, &far] {
        // Nobody reads the lane whose writer is to be stuck.
        for lane in LaneId::all().filter(|unread| *unread != lane(7)) {
            let connection = connection.clone();
            waiters.spawn(async move { connection.recv(lane).await.unwrap_err() });
        }
        let waiting = connection.clone();
        waiters.spawn(async move { waiting.closed().await });
        let writing = connection.clone();
        waiters.spawn(async move {
            loop {
                if let Err(SendError::Closed(reason)) = writing.send(lane(7), vec![0; 60_000]).await
                {
                    return reason;
                }
            }
        });
    }
    tokio::time::sleep(SECOND).await;
    near.close("enough");
    let mut reasons = timeout(SECOND, waiters.join_all()).await.expect("all are woken");
    reasons.sort_by_key(ToString::to_string);
    let (locally, by_peer): (Vec<_>, Vec<_>) =
        reasons.into_iter().partition(|reason| *reason == ConnectionError::LocallyClosed);
    let each = LaneId::COUNT - 1 + 2;
    assert_eq!((locally.len(), by_peer.len()), (each, each));
    let expected = ConnectionError::PeerClosed("enough".to_owned());
    assert!(by_peer.iter().all(|reason| *reason == expected), "{by_peer:?}");
}

#[tokio::test(start_paused = true)]
async fn finishing_delivers_what_was_sent() {
    // One run of twenty falls silent until the keep-alive of a second, with messages waiting: the core's affair.
    let config = Config { linger: 10 * SECOND, ..config() };
    let Pair { near, far, .. } = pair_with(lossy(10, 2), config).await;
    let reader = tokio::spawn(async move {
        expect_numbered(&far, lane(5), 30, 40_000).await;
        far.recv(lane(5)).await.unwrap_err()
    });
    send_numbered(&near, lane(5), 30, 40_000).await;
    near.finish().await;
    assert_eq!(near.closed().await, ConnectionError::LocallyClosed, "nothing was left");
    let end = timeout(SECOND, reader).await.unwrap().unwrap();
    assert!(matches!(end, ConnectionError::PeerClosed(_)), "{end}");
}

/// Who ends makes room for the next one, but waits to be accepted: a peer must not pile such connections up.
#[tokio::test(start_paused = true)]
async fn connections_that_nobody_accepts_are_bounded() {
    const MOST: usize = 3;
    let network = MemoryNetwork::lossless();
    let config = config().validate().unwrap();
    let socket = network.bind(SocketAddr::from(SERVER)).unwrap();
    let accept = EndpointConfig::new(config.clone()).with_max_connections(MOST);
    let server = Endpoint::over(Box::new(socket), accept, &Handle::current()).unwrap();
    let client = endpoint(&network, CLIENT, None);
    for _ in 0..5 * MOST {
        // Those that find no room are closed at once.
        if let Ok(near) = client.connect(SERVER.into(), config.clone()).await {
            near.finish().await;
        }
        // Until the server, too, has forgotten it.
        tokio::time::sleep(10 * SECOND).await;
    }
    let mut accepted = 0;
    while let Ok(Some(far)) = timeout(SECOND, server.accept()).await {
        far.closed().await;
        accepted += 1;
    }
    assert_eq!(accepted, MOST);
    let late = client.connect(SERVER.into(), config).await.unwrap();
    timeout(SECOND, server.accept()).await.expect("there is room again").unwrap();
    drop(late);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_handle_closes() {
    let Pair { near, far, .. } = pair().await;
    near.send(lane(5), "last words").await.unwrap();
    drop(near);
    assert_eq!(far.recv(lane(5)).await.unwrap(), "last words");
    let end = timeout(SECOND, far.closed()).await.unwrap();
    assert!(matches!(end, ConnectionError::PeerClosed(_)), "{end}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_vanishes_is_declared_gone() {
    let mut left = 1_000_u32;
    let network = MemoryNetwork::new(move |_, _, _| {
        left = left.saturating_sub(1);
        left > 0
    });
    let Pair { near, far, .. } = pair_with(network, config()).await;
    let start = Instant::now();
    while near.send(lane(5), vec![0; 10_000]).await.is_ok() {}
    let waited = start.elapsed();
    assert!(waited >= config().idle_timeout, "{waited:?}");
    assert!(waited <= config().idle_timeout + 5 * SECOND, "{waited:?}");
    assert_eq!(near.closed().await, ConnectionError::TimedOut);
    assert_eq!(far.closed().await, ConnectionError::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn connecting_to_nobody_fails_in_time() {
    let network = MemoryNetwork::lossless();
    let client = endpoint(&network, CLIENT, None);
    let start = Instant::now();
    let error = client.connect(SERVER.into(), config().validate().unwrap()).await.unwrap_err();
    assert!(is_silence(&error), "{error}");
    assert!(start.elapsed() <= config().handshake_timeout + SECOND, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn giving_up_a_connect_leaves_nothing_behind() {
    let network = MemoryNetwork::lossless();
    let client = endpoint(&network, CLIENT, None);
    let connect = client.connect(SERVER.into(), config().validate().unwrap());
    assert!(timeout(SECOND, connect).await.is_err());
    client.shut_down(SECOND).await;
    network.bind(CLIENT.into()).expect("the socket is closed");
}

#[tokio::test(start_paused = true)]
async fn connections_outlive_the_endpoint_and_the_socket_closes_with_the_last() {
    let Pair { network, server, near, far } = pair().await;
    let start = Instant::now();
    server.shut_down(60 * SECOND).await;
    assert!(start.elapsed() < SECOND, "a connection in use is not waited for");

    let late = endpoint(&network, ([10, 0, 0, 3], 1), None);
    let patience = Config { handshake_timeout: SECOND, ..config() }.validate().unwrap();
    late.connect(SERVER.into(), patience).await.expect_err("nobody accepts any more");

    near.send(lane(5), "still there").await.unwrap();
    assert_eq!(far.recv(lane(5)).await.unwrap(), "still there");
    network.bind(SERVER.into()).expect_err("the socket is in use");

    near.finish().await;
    far.closed().await;
    tokio::time::sleep(5 * SECOND).await;
    network.bind(SERVER.into()).expect("the socket is closed, although a handle is left");
}

#[tokio::test(start_paused = true)]
async fn a_full_socket_is_waited_for() {
    let Pair { network, near, far, .. } = pair().await;
    for number in 0..20 {
        network.block_sends(true);
        near.send(lane(5), message(number, 20_000)).await.unwrap();
        network.block_sends(false);
        let received = timeout(SECOND, far.recv(lane(5))).await.expect("it goes on");
        assert_eq!(received.unwrap(), message(number, 20_000));
    }
}

#[tokio::test(start_paused = true)]
async fn many_connections_share_a_socket_fairly() {
    const CONNECTIONS: u32 = 50;
    let network = MemoryNetwork::lossless();
    let config = config().validate().unwrap();
    let server = endpoint(&network, SERVER, Some(config.clone()));
    let client = endpoint(&network, CLIENT, None);
    let mut senders = JoinSet::new();
    let mut readers = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let near = client.connect(SERVER.into(), config.clone()).await.unwrap();
        let far = server.accept().await.unwrap();
        senders.spawn(async move {
            send_numbered(&near, lane(5), 20, 30_000).await;
            near
        });
        readers.spawn(async move {
            expect_numbered(&far, lane(5), 20, 30_000).await;
            far
        });
    }
    let ends = timeout(60 * SECOND, async { (senders.join_all().await, readers.join_all().await) });
    let (near, far) = ends.await.expect("none starves");
    assert_eq!((near.len(), far.len()), (50, 50));
}

#[tokio::test(start_paused = true)]
async fn what_the_interface_refuses_is_known_at_once() {
    let network = MemoryNetwork::lossless();
    network.limit_sends(1_300);
    let pair = pair_with(network, Config { mtu: Some(1_472), ..config() }).await;
    // No time passes: no probe has been waited for.
    for _ in 0..30 {
        pair.near.send(lane(5), vec![1; 5_000]).await.unwrap();
        assert_eq!(pair.far.recv(lane(5)).await.unwrap().len(), 5_000);
    }
    let stats = pair.near.stats();
    assert!(stats.mtu_probes_lost > 3, "{stats:?}");
    assert_eq!(stats.path_mtu_bytes, 1_252);
}

/// Anybody can send such datagrams, and the kernel refuses the answers.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_answered_is_dropped() {
    let config = Config { handshake_timeout: SECOND, ..config() }.validate().unwrap();
    let (group, everybody) = (([239, 1, 2, 3], 7447), ([255; 4], 7447));
    for (from, to) in [((CLIENT.0, 0), SERVER), (CLIENT, group), (CLIENT, everybody)] {
        let (from, to) = (SocketAddr::from(from), SocketAddr::from(to));
        let answers = Arc::<AtomicUsize>::default();
        let counter = answers.clone();
        let network = MemoryNetwork::new(move |source, _, _| {
            counter.fetch_add(usize::from(source == to), Ordering::Relaxed);
            true
        });
        let bind = |address, accept| {
            let socket = Box::new(network.bind(address).unwrap());
            let config = EndpointConfig::new(accept);
            Endpoint::over(socket, config, &Handle::current()).unwrap()
        };
        let (server, client) = (bind(to, Some(config.clone())), bind(from, None));
        let error = client.connect(to, config.clone()).await.unwrap_err();
        assert!(is_silence(&error), "{from} to {to}: {error}");
        assert_eq!(answers.load(Ordering::Relaxed), 0, "{from} to {to}");
        assert!(server.stats().datagrams_dropped > 0, "{from} to {to}");
    }
}

/// Both readers of a session's last word wait for each other's lane.
#[tokio::test(start_paused = true)]
async fn who_stops_reading_a_lane_wakes_those_who_wait_for_it() {
    let Pair { near, far, .. } = pair().await;
    for read in [lane(1), lane(2)] {
        timeout(SECOND, far.recv(read)).await.expect_err("nothing was sent");
    }
    near.send(lane(2), "never read").await.unwrap();
    near.delivered().await;
    let start = Instant::now();
    let readers = [[lane(1)], [lane(2)]];
    tokio::join!(far.consumed_beside(&readers[0]), far.consumed_beside(&readers[1]));
    assert_eq!(start.elapsed(), Duration::ZERO);
}
