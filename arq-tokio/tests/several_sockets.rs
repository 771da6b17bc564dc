// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! An endpoint with several sockets in memory, in virtual time: one that is full or gone stops no other.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use arq_proto::{Config, EndpointConfig, LaneId, Reliability, ValidConfig};
use arq_tokio::{
    socket::{
        memory::{MemoryNetwork, MemorySocket},
        DatagramSocket, ReceiveBatch, Segments,
    },
    ConnectError, Connection, ConnectionError, Endpoint, PathInterface, PathState,
};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    time::{timeout, Instant},
};

const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 7447);
const WIFI: ([u8; 4], u16) = ([10, 0, 1, 2], 1);
const MODEM: ([u8; 4], u16) = ([10, 0, 2, 2], 1);
const LANE: LaneId = LaneId::new(5, Reliability::Reliable).unwrap();
const MS: Duration = Duration::from_millis(1);

/// What a [`Stalling`] socket does.
#[derive(Debug, Default)]
struct Stall {
    is_full: bool,
    driver: Option<Waker>,
    /// What it has refused, and not yet been given again.
    refused: Vec<Vec<u8>>,
    /// What it took first since it had refused something.
    taken: Option<Vec<u8>>,
}

/// A socket that can be told to be full.
#[derive(Debug)]
struct Stalling(MemorySocket, Arc<Mutex<Stall>>);

impl Stalling {
    fn new(network: &MemoryNetwork, address: ([u8; 4], u16)) -> (Box<Self>, Arc<Mutex<Stall>>) {
        let stall = Arc::<Mutex<Stall>>::default();
        (Box::new(Self(network.bind(SocketAddr::from(address)).unwrap(), stall.clone())), stall)
    }
}

/// From now on the socket is full, or is not.
fn set_full(stall: &Mutex<Stall>, is_full: bool) {
    let mut stall = stall.lock();
    stall.is_full = is_full;
    stall.driver.take().into_iter().for_each(Waker::wake);
}

impl DatagramSocket for Stalling {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_readable(cx)
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut stall = self.1.lock();
        if stall.is_full {
            stall.driver = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn try_receive(&self, batch: &mut ReceiveBatch) -> io::Result<()> {
        self.0.try_receive(batch)
    }

    fn try_send(&self, segments: &Segments<'_>) -> io::Result<()> {
        let mut stall = self.1.lock();
        if stall.is_full {
            stall.refused.push(segments.contents.to_vec());
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if !stall.refused.is_empty() {
            stall.taken.get_or_insert_with(|| segments.contents.to_vec());
        }
        drop(stall);
        self.0.try_send(segments)
    }

    fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    fn max_segments(&self) -> usize {
        self.0.max_segments()
    }
}

fn config() -> ValidConfig {
    Config { timer_granularity: MS, paths: 4, ..Config::default() }.validate().unwrap()
}

struct Radios {
    client: Endpoint,
    near: Connection,
    far: Connection,
    wifi: Arc<Mutex<Stall>>,
    modem: Arc<Mutex<Stall>>,
    server: Endpoint,
}

/// A connection with a path through each of two sockets, both open.
async fn radios(network: MemoryNetwork) -> Radios {
    let socket = network.bind(SERVER.into()).unwrap();
    let accept = EndpointConfig::new(config());
    let server = Endpoint::over(Box::new(socket), accept, &Handle::current()).unwrap();
    let ((first, wifi), (second, modem)) =
        (Stalling::new(&network, WIFI), Stalling::new(&network, MODEM));
    let ways: [(PathInterface, Box<dyn DatagramSocket>); 2] =
        [(PathInterface::new("wifi"), first), (PathInterface::new("modem"), second)];
    let none = EndpointConfig::default();
    let client = Endpoint::over_sockets(ways, none, &Handle::current()).unwrap();
    let near = client.connect(SERVER.into(), config()).await.unwrap();
    let far = server.accept().await.unwrap();
    until(&near, |states| states == [PathState::Open; 2]).await;
    until(&far, |states| states == [PathState::Open; 2]).await;
    Radios { client, near, far, wifi, modem, server }
}

fn states(connection: &Connection) -> Vec<PathState> {
    connection.paths().iter().map(|path| path.stats.state).collect()
}

/// Waits until the paths are in such states.
async fn until(connection: &Connection, are: impl Fn(&[PathState]) -> bool) {
    let expected = async {
        while !are(&states(connection)) {
            tokio::time::sleep(MS).await;
        }
    };
    if timeout(Duration::from_secs(20), expected).await.is_err() {
        panic!("{:#?}", connection.paths());
    }
}

/// Sends numbered messages, one each ten milliseconds; says how long each took that arrived, all in order.
async fn stream(radios: &Radios, count: u8) -> Vec<Duration> {
    let send = async {
        for number in 0..count {
            radios.near.send(LANE, vec![number; 100]).await.unwrap();
            tokio::time::sleep(10 * MS).await;
        }
    };
    let begin = Instant::now();
    let receive = async {
        let mut took = Vec::new();
        for number in 0..count {
            let message = radios.far.recv(LANE).await.unwrap();
            assert_eq!(message, vec![number; 100]);
            took.push(begin.elapsed() - 10 * MS * u32::from(number));
        }
        took
    };
    let (_, took) = tokio::join!(send, timeout(Duration::from_secs(60), receive));
    took.expect("every message arrives")
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_is_full_keeps_its_batch_and_stops_no_other() {
    let radios = radios(MemoryNetwork::lossless()).await;
    for full in [&radios.wifi, &radios.modem] {
        set_full(full, true);
        let took = stream(&radios, 100).await;
        let latest = took.iter().max().unwrap();
        assert!(*latest < 60 * MS, "the other carries all: {latest:?}");
        set_full(full, false);
        until(&radios.near, |states| states == [PathState::Open; 2]).await;
        let stall = std::mem::take(&mut *full.lock());
        // What one was never asked to carry it has not refused.
        if let [refused, others @ ..] = &stall.refused[..] {
            assert!(
                others.iter().all(|other| other == refused),
                "nothing else is offered before it"
            );
            assert_eq!(stall.taken.as_ref(), Some(refused), "it is the first that leaves");
        }
    }
    // Both were full in turn, and one of them is where messages begin.
    let was_refused = |path: &arq_tokio::PathInfo| path.stats.bytes_sent > 0;
    assert!(radios.near.paths().iter().all(was_refused));
}

#[tokio::test(start_paused = true)]
async fn where_every_socket_is_full_all_is_sent_once_there_is_room() {
    let radios = radios(MemoryNetwork::lossless()).await;
    let full = [&radios.wifi, &radios.modem];
    full.iter().for_each(|socket| set_full(socket, true));
    for number in 0..50 {
        radios.near.send(LANE, vec![number; 100]).await.unwrap();
    }
    assert!(timeout(200 * MS, radios.far.recv(LANE)).await.is_err(), "there is no room");
    // One of them is enough.
    set_full(&radios.modem, false);
    for number in 0..50 {
        let message = timeout(Duration::from_secs(5), radios.far.recv(LANE)).await;
        let message = message.unwrap_or_else(|_| panic!("{number}: {:#?}", radios.near.paths()));
        assert_eq!(message.unwrap(), vec![number; 100]);
    }
}

/// One connection has found the first socket full, another one the second.
#[tokio::test(start_paused = true)]
async fn who_waits_goes_on_with_whichever_socket_has_room_first() {
    let radios = radios(MemoryNetwork::lossless()).await;
    let near = radios.client.connect(SERVER.into(), config()).await.unwrap();
    let far = radios.server.accept().await.unwrap();
    until(&near, |states| states == [PathState::Open; 2]).await;
    let (first, second) = match radios.near.paths()[0].stats.is_primary {
        true => (&radios.wifi, &radios.modem),
        false => (&radios.modem, &radios.wifi),
    };
    set_full(first, true);
    radios.near.send(LANE, "one").await.unwrap();
    set_full(second, true);
    near.send(LANE, "other").await.unwrap();
    set_full(first, false);
    for (far, expected) in [(&radios.far, "one"), (&far, "other")] {
        let heard = timeout(Duration::from_secs(5), far.recv(LANE)).await;
        assert_eq!(heard.expect("it arrives").unwrap(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_interface_that_goes_is_left_at_once_and_taken_up_when_it_is_back() {
    let radios = radios(MemoryNetwork::lossless()).await;
    assert!(!radios.client.set_interface_up("ethernet", false), "there is none");
    for name in ["wifi", "modem"] {
        assert!(radios.client.set_interface_up(name, false));
        let paused = |states: &[PathState]| states.contains(&PathState::Paused);
        assert!(paused(&states(&radios.near)), "at once");
        let took = stream(&radios, 20).await;
        assert!(took.iter().all(|took| *took < 20 * MS), "{took:?}");
        assert!(paused(&states(&radios.far)), "the peer knows");
        assert!(radios.client.set_interface_up(name, true));
        until(&radios.near, |states| states == [PathState::Open; 2]).await;
        until(&radios.far, |states| states == [PathState::Open; 2]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_not_reached_through_the_first_interface_is_reached_through_the_next() {
    let from_wifi = SocketAddr::from(WIFI);
    let begin = Instant::now();
    let network = MemoryNetwork::new(move |from, to, _| {
        // It is in reach again later.
        begin.elapsed() > Duration::from_secs(3) || (from != from_wifi && to != from_wifi)
    });
    let radios = radios(network).await;
    let first = &radios.near.paths()[0];
    assert_eq!(first.interface.as_deref(), Some("modem"), "that of the handshake");
    assert_eq!(radios.near.remote(), SERVER.into());
    assert!(begin.elapsed() > Duration::from_secs(3), "the other has a path when it answers");
    assert_eq!(stream(&radios, 10).await.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn where_no_interface_is_up_the_error_names_them() {
    let network = MemoryNetwork::lossless();
    let (socket, _) = Stalling::new(&network, WIFI);
    let ways: [(PathInterface, Box<dyn DatagramSocket>); 1] =
        [(PathInterface::new("wifi"), socket)];
    let none = EndpointConfig::default();
    let client = Endpoint::over_sockets(ways, none, &Handle::current()).unwrap();
    client.set_interface_up("wifi", false);
    let error = client.connect(SERVER.into(), config()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unsent { reason: ConnectionError::Unsendable, .. }));
    assert!(error.to_string().contains("wifi"), "{error}");
}
