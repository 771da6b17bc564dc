// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Is a wake-up ever lost? The driver and two tasks of the application run in thousands of interleavings, over one socket or
//! two that are full time and again.
//!
//! `shuttle` chooses at every lock and atomic which task goes on. No time passes, so no time-out hides a lost wake-up: all tasks
//! wait then, and `shuttle` prints the schedule. It is preferred to `loom`, as it runs the
//! whole driver as it is, with tokio's `Notify` and channels. `loom` visits every interleaving and every order of memory, of
//! which there are too many here, and has no weak references. What is left unproven is the memory order of two atomics,
//! `Role` and `Turns::full`: they release and acquire, and what they speak of is behind locks.
//!
//! Proof that it bites: each of these changes ends in a deadlock within a second.
//! - `Role::take_on` with `SENDING => return false`: the sender is not told that there is more.
//! - `Turns::wait_for_room` that does not set `full`: nobody waits for the socket to have room.
//! - `Inner::keep_for_later` that parks after it has told the driver.
//! - `Inner::send_up_to` that parks where one socket of two is full, or `Inner::resume` that does not go on then.
//! - `Inner::offer` that registers the writer under another hold of the lock than the one in which the lane was full.
//! - `LaneWaiters::collect` that ignores `Event::Writable`.
//!
//!     RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/shuttle cargo test --release -p arq-tokio --lib model

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    collections::VecDeque,
    fmt, io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
    time::Instant,
};

use arq_proto::{
    Config, CongestionConfig, Connection as Core, ConnectionHandle, Endpoint as Router,
    EndpointConfig, Event, LaneId, PathState, Reliability, Routed, SocketId, ValidConfig,
};
use bytes::Bytes;
use shuttle::{
    future::{block_on, spawn, yield_now},
    scheduler::{PctScheduler, RandomScheduler, Scheduler},
    thread, Runner,
};
use tokio::{
    runtime::Builder,
    sync::{mpsc, watch},
};

use super::{
    connection::{Connection, PathInfo},
    endpoint::Progress,
    now,
    paths::{PathInterface, Paths},
    ports::Sockets,
    run,
    shared::Shared,
    Driver,
};
use crate::socket::{DatagramSocket, ReceiveBatch, Segments};

/// Where the sockets are bound.
const NEAR: [([u8; 4], u16); 2] = [([10, 0, 0, 1], 1), ([10, 0, 1, 1], 1)];
const FAR: ([u8; 4], u16) = ([10, 0, 0, 2], 2);
/// Messages of each task.
const MESSAGES: u8 = 3;
/// How often a socket has room for one datagram more, before it always has.
const ROOMS: usize = 4;
const RUNS: usize = 10_000;
/// Looks at paths that are not open yet: the driver runs between any two of them.
const PATIENCE: usize = 10_000;

/// A socket of several, and the peer of all, which answers what comes at once and sends every message back.
#[derive(Clone)]
struct Wire {
    ends: Arc<Mutex<Ends>>,
    number: usize,
}

struct Ends {
    peer: Peer,
    sockets: [End; NEAR.len()],
}

struct End {
    /// What the peer has sent there.
    inbox: VecDeque<Vec<u8>>,
    /// How many datagrams the socket takes before it is full.
    room: usize,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

struct Peer {
    router: Router,
    core: Option<(ConnectionHandle, Box<Core>)>,
}

impl Peer {
    /// Answers a datagram that came from one of the sockets; says where each answer goes.
    fn receive(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut reply = Vec::new();
        match self.router.route(now, from, datagram, &mut reply) {
            Routed::Reply => return vec![(from, reply)],
            Routed::Accepted { handle, connection, .. } => self.core = Some((handle, connection)),
            Routed::Connection(_) => {}
            Routed::Dropped => return Vec::new(),
        }
        let Some((handle, core)) = &mut self.core else { return Vec::new() };
        core.handle_datagram(now, from, &mut datagram.to_vec());
        while let Some(event) = core.poll_endpoint_event() {
            self.router.handle_event(*handle, event);
        }
        while let Some(event) = core.poll_event() {
            let Event::Readable(lane) = event else { continue };
            while let Some(message) = core.recv(now, lane) {
                core.send(now, lane, message).unwrap();
            }
        }
        let (mut out, mut answers) = (Vec::new(), Vec::new());
        while let Some(transmit) = core.poll_transmit(now, &mut out, 1) {
            answers.push((transmit.destination, std::mem::take(&mut out)));
        }
        answers
    }
}

impl Wire {
    fn new(config: ValidConfig) -> [Self; NEAR.len()] {
        let router = Router::new(EndpointConfig::new(config), [1; 32], now());
        let peer = Peer { router, core: None };
        let end = || End { inbox: VecDeque::new(), room: usize::MAX, reader: None, writer: None };
        let ends = Arc::new(Mutex::new(Ends { peer, sockets: NEAR.map(|_| end()) }));
        [0, 1].map(|number| Self { ends: ends.clone(), number })
    }

    /// No task is ever preempted in here.
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.try_lock().unwrap()
    }

    /// The socket takes so many datagrams from now on.
    fn set_room(&self, room: usize) {
        let mut ends = self.ends();
        let end = &mut ends.sockets[self.number];
        end.room = room;
        let writer = end.writer.take();
        drop(ends);
        writer.into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

impl DatagramSocket for Wire {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ends = self.ends();
        let end = &mut ends.sockets[self.number];
        if end.inbox.is_empty() {
            end.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ends = self.ends();
        let end = &mut ends.sockets[self.number];
        if end.room == 0 {
            end.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn try_receive(&self, batch: &mut ReceiveBatch) -> io::Result<()> {
        batch.clear();
        let datagram = self.ends().sockets[self.number].inbox.pop_front();
        let datagram = datagram.ok_or(io::ErrorKind::WouldBlock)?;
        batch.push(FAR.into(), self.local_addr().ip(), &datagram);
        Ok(())
    }

    fn try_send(&self, segments: &Segments<'_>) -> io::Result<()> {
        let mut ends = self.ends();
        let end = &mut ends.sockets[self.number];
        let left = end.room.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
        if end.room != usize::MAX {
            end.room = left;
        }
        let Ends { peer, sockets } = &mut *ends;
        let mut readers = Vec::new();
        for datagram in segments.datagrams() {
            for (to, answer) in peer.receive(now(), self.local_addr(), datagram) {
                let number = NEAR.iter().position(|near| SocketAddr::from(*near) == to).unwrap();
                sockets[number].inbox.push_back(answer);
                readers.extend(sockets[number].reader.take());
            }
        }
        drop(ends);
        readers.into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn local_addr(&self) -> SocketAddr {
        NEAR[self.number].into()
    }

    fn max_segments(&self) -> usize {
        1
    }
}

/// Sends and then expects its messages back: waits for room in its lane, and for what it reads.
async fn talk(connection: Connection, priority: u8) {
    let lane = LaneId::new(priority, Reliability::Reliable).unwrap();
    for n in 0..MESSAGES {
        connection.send(lane, vec![n; 10]).await.unwrap();
    }
    for n in 0..MESSAGES {
        assert_eq!(connection.recv(lane).await.unwrap(), Bytes::from(vec![n; 10]));
    }
}

fn connect(shared: &Arc<Shared>, config: ValidConfig) -> Connection {
    let inner = shared.connect(FAR.into(), config.into()).unwrap();
    if let Some(paths) = shared.paths() {
        paths.tell(&inner);
    }
    inner.transmit(super::connection::DRIVER_BATCHES);
    let connection = inner.into_handle();
    block_on(connection.established()).unwrap();
    connection
}

/// Waits until there is a path through each socket.
async fn both_open(connection: &Connection) {
    let is_open = |path: &PathInfo| path.stats.state == PathState::Open;
    for _ in 0..PATIENCE {
        if connection.paths().iter().filter(|path| is_open(path)).count() == NEAR.len() {
            return;
        }
        yield_now().await;
    }
    panic!("a path does not open: {:#?}", connection.paths());
}

/// One connection, two tasks, the driver, and sockets that become full.
fn all_is_sent(several: bool) {
    let values = Config {
        congestion: CongestionConfig::Constant { window_bytes: 10_000_000 },
        mtu: Some(1_200),
        // One message at a time.
        queue_bytes: Some(1),
        paths: 4,
        ..Config::default()
    };
    let config = values.clone().validate().unwrap();
    let peers = Config { queue_bytes: None, ..values.clone() };
    let wires = Wire::new(peers.validate().unwrap());
    let (offer, _) = mpsc::channel(1);
    let mut sockets = Sockets::one(Arc::new(wires[0].clone()));
    let mut paths = None;
    if several {
        sockets.set(SocketId(1), Some(Arc::new(wires[1].clone())));
        let interfaces = ["a", "b"].map(PathInterface::new).to_vec();
        paths = Some(Paths::given(interfaces).unwrap());
    }
    let nobody = EndpointConfig::default();
    let shared = Arc::new(Shared::new(sockets, paths, nobody, offer, true).unwrap());
    let (report, _progress) = watch::channel(Progress::InUse);
    // It does not end: that takes time.
    drop(spawn(run(Driver { shared: shared.clone(), news: None }, report)));
    let connection = connect(&shared, config);
    if several {
        block_on(both_open(&connection));
    }
    wires.iter().for_each(|wire| wire.set_room(0));
    let tasks: Vec<_> = (0..2)
        .map(|priority| {
            let connection = connection.clone();
            thread::spawn(move || block_on(talk(connection, priority)))
        })
        .collect();
    let kernels = wires.map(|wire| {
        thread::spawn(move || {
            for _ in 0..ROOMS {
                wire.set_room(1);
                thread::yield_now();
            }
            wire.set_room(usize::MAX);
        })
    });
    tasks.into_iter().for_each(|task| task.join().unwrap());
    kernels.into_iter().for_each(|kernel| kernel.join().unwrap());
}

fn explore(scheduler: impl Scheduler + 'static, several: bool) {
    // No time passes: this runtime's clock stands still, and nothing is run on it.
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let _context = runtime.enter();
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    Runner::new(scheduler, config).run(move || all_is_sent(several));
}

#[test]
fn no_wake_up_is_lost_at_random() {
    explore(RandomScheduler::new(RUNS), false);
}

#[test]
fn no_wake_up_of_two_sockets_is_lost_at_random() {
    explore(RandomScheduler::new(RUNS), true);
}

/// Few preemptions, each where it hurts most (Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of
/// Finding Bugs", ASPLOS 2010).
#[test]
fn no_wake_up_is_lost_by_few_preemptions() {
    explore(PctScheduler::new(3, RUNS), false);
}

#[test]
fn no_wake_up_of_two_sockets_is_lost_by_few_preemptions() {
    explore(PctScheduler::new(3, RUNS), true);
}
