// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A socket that is full nearly always, in virtual time: what it takes is shared by those who wait.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    io,
    net::SocketAddr,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use arq_proto::{Config, CongestionConfig, EndpointConfig, LaneId, Reliability, ValidConfig};
use arq_tokio::{
    socket::{
        memory::{MemoryNetwork, MemorySocket},
        DatagramSocket, ReceiveBatch, Segments,
    },
    Connection, Endpoint,
};
use parking_lot::Mutex;
use tokio::{runtime::Handle, task::JoinSet};

const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 7447);
const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 2], 1);
const MILLISECOND: Duration = Duration::from_millis(1);
const LASTS: Duration = Duration::from_secs(5);
const LONG: usize = 60_000;

/// What a [`Narrow`] socket may send now, and who waits until it may.
#[derive(Debug, Default)]
struct Room {
    sends: usize,
    driver: Option<Waker>,
}

/// A socket with room for one send each millisecond.
#[derive(Debug)]
struct Narrow {
    inner: MemorySocket,
    room: Arc<Mutex<Room>>,
}

impl Narrow {
    fn new(inner: MemorySocket) -> Self {
        let room = Arc::<Mutex<Room>>::default();
        let made = room.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(MILLISECOND).await;
                let mut room = made.lock();
                room.sends = 1;
                room.driver.take().into_iter().for_each(Waker::wake);
            }
        });
        Self { inner, room }
    }
}

impl DatagramSocket for Narrow {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_readable(cx)
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut room = self.room.lock();
        if room.sends == 0 {
            room.driver = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn try_receive(&self, batch: &mut ReceiveBatch) -> io::Result<()> {
        self.inner.try_receive(batch)
    }

    fn try_send(&self, segments: &Segments<'_>) -> io::Result<()> {
        let mut room = self.room.lock();
        room.sends = room.sends.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
        drop(room);
        self.inner.try_send(segments)
    }

    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    fn max_segments(&self) -> usize {
        self.inner.max_segments()
    }
}

fn lane() -> LaneId {
    LaneId::new(5, Reliability::Reliable).unwrap()
}

/// Nothing but the socket keeps a connection from sending on and on.
fn config() -> ValidConfig {
    let congestion = CongestionConfig::Constant { window_bytes: 1 << 20 };
    Config { timer_granularity: MILLISECOND, congestion, ..Config::default() }.validate().unwrap()
}

fn endpoint(socket: impl DatagramSocket, accept: Option<ValidConfig>) -> Endpoint {
    let config = EndpointConfig::new(accept);
    Endpoint::over(Box::new(socket), config, &Handle::current()).unwrap()
}

/// A server with a narrow socket, its connections, and the clients at the other ends.
async fn connected<const N: usize>() -> (Endpoint, [(Connection, Connection); N]) {
    let network = MemoryNetwork::lossless();
    let server = endpoint(Narrow::new(network.bind(SERVER.into()).unwrap()), Some(config()));
    let client = endpoint(network.bind(CLIENT.into()).unwrap(), None);
    let mut pairs = Vec::new();
    for _ in 0..N {
        let near = client.connect(SERVER.into(), config()).await.unwrap();
        pairs.push((server.accept().await.unwrap(), near));
    }
    (server, pairs.try_into().unwrap())
}

/// Sends messages of `len` bytes one after another, a `pause` between them, and counts those that arrive.
fn stream(
    tasks: &mut JoinSet<()>,
    (from, to): (Connection, Connection),
    len: usize,
    pause: Duration,
) -> Arc<AtomicUsize> {
    let arrived = Arc::<AtomicUsize>::default();
    let count = arrived.clone();
    tasks.spawn(async move {
        loop {
            from.send(lane(), vec![7; len]).await.unwrap();
            tokio::time::sleep(pause).await;
        }
    });
    tasks.spawn(async move {
        while to.recv(lane()).await.is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    arrived
}

async fn after_a_while<const N: usize>(counts: [Arc<AtomicUsize>; N]) -> [usize; N] {
    tokio::time::sleep(LASTS).await;
    counts.map(|count| count.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_for_room_take_turns() {
    let (_server, pairs) = connected::<3>().await;
    let mut tasks = JoinSet::new();
    let counts = pairs.map(|pair| stream(&mut tasks, pair, LONG, Duration::ZERO));
    let arrived = after_a_while(counts).await;
    let (least, most) = (arrived.iter().min().unwrap(), arrived.iter().max().unwrap());
    assert!(*least > 100 && most - least <= least / 4, "{arrived:?}");
}

/// One that never waits, as it has nothing left to send whenever the socket is full.
#[tokio::test(start_paused = true)]
async fn who_comes_later_does_not_overtake_those_who_wait() {
    let (_server, [waiting, coming]) = connected::<2>().await;
    let mut tasks = JoinSet::new();
    let waiting = stream(&mut tasks, waiting, LONG, Duration::ZERO);
    let coming = stream(&mut tasks, coming, 1_000, MILLISECOND);
    let arrived = after_a_while([waiting, coming]).await;
    assert!(arrived.iter().all(|arrived| *arrived > 500), "{arrived:?}");
}
