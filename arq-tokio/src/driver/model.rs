// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Is a wake-up ever lost? The driver and two tasks of the application run in thousands of interleavings, over a socket that
//! is full time and again.
//!
//! `shuttle` chooses at every lock and atomic who goes on. No time passes, so no time-out makes up for a wake-up that is
//! lost: everybody waits then, which `shuttle` notices, and prints the schedule. It is preferred to `loom`, as it runs the
//! whole driver as it is, with tokio's `Notify` and channels. `loom` visits every interleaving and every order of memory, of
//! which there are too many here, and has no weak references. What is left unproven is the memory order of two atomics,
//! `Role` and `Turns::full`: they release and acquire, and what they speak of is behind locks.
//!
//! Proof that it bites: each of these changes ends in a deadlock within a second.
//! - `Role::take_on` with `SENDING => return false`: the sender is not told that there is more.
//! - `Turns::wait_for_room` that does not set `full`: nobody waits for the socket to have room.
//! - `Inner::keep_for_later` that parks after it has told the driver.
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
    Config, ConfigBuilder, CongestionConfig, Connection as Core, Endpoint as Router,
    EndpointConfig, Event, LaneId, Reliability, Routed,
};
use bytes::Bytes;
use shuttle::{
    future::{block_on, spawn},
    scheduler::{PctScheduler, RandomScheduler, Scheduler},
    thread, Runner,
};
use tokio::{
    runtime::Builder,
    sync::{mpsc, watch},
};

use super::{
    connection::Connection, endpoint::Progress, now, ports::Sockets, run, shared::Shared, Driver,
};
use crate::socket::{DatagramSocket, ReceiveBatch, Segments};

const NEAR: ([u8; 4], u16) = ([10, 0, 0, 1], 1);
const FAR: ([u8; 4], u16) = ([10, 0, 0, 2], 2);
/// Messages of each task.
const MESSAGES: u8 = 3;
/// How often the socket has room for one datagram more, before it always has.
const ROOMS: usize = 4;
const RUNS: usize = 10_000;

/// A socket, and its peer, which answers what comes at once and sends every message back.
#[derive(Clone)]
struct Wire(Arc<Mutex<Ends>>);

struct Ends {
    peer: Peer,
    /// What the peer has sent.
    inbox: VecDeque<Vec<u8>>,
    /// How many datagrams the socket takes before it is full.
    room: usize,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

struct Peer {
    router: Router,
    core: Option<Box<Core>>,
}

impl Peer {
    fn receive(&mut self, now: Instant, datagram: &[u8], answers: &mut VecDeque<Vec<u8>>) {
        let mut reply = Vec::new();
        match self.router.route(now, NEAR.into(), datagram, &mut reply) {
            Routed::Reply => return answers.push_back(reply),
            Routed::Accepted { connection, .. } => self.core = Some(connection),
            Routed::Connection(_) => {}
            Routed::Dropped => return,
        }
        let Some(core) = &mut self.core else { return };
        core.handle_datagram(now, NEAR.into(), datagram);
        while let Some(event) = core.poll_event() {
            let Event::Readable(lane) = event else { continue };
            while let Some(message) = core.recv(now, lane) {
                core.send(now, lane, message).unwrap();
            }
        }
        let mut out = Vec::new();
        while core.poll_transmit(now, &mut out, 1).is_some() {
            answers.push_back(std::mem::take(&mut out));
        }
    }
}

impl Wire {
    fn new(config: Config) -> Self {
        let router = Router::new(EndpointConfig::new(config), [1; 32], now());
        let peer = Peer { router, core: None };
        let inbox = VecDeque::new();
        Self(Arc::new(Mutex::new(Ends {
            peer,
            inbox,
            room: usize::MAX,
            reader: None,
            writer: None,
        })))
    }

    /// No task is ever preempted in here.
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.0.try_lock().unwrap()
    }

    /// The socket takes so many datagrams from now on.
    fn set_room(&self, room: usize) {
        let mut ends = self.ends();
        ends.room = room;
        let writer = ends.writer.take();
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
        if ends.inbox.is_empty() {
            ends.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ends = self.ends();
        if ends.room == 0 {
            ends.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn try_receive(&self, batch: &mut ReceiveBatch) -> io::Result<()> {
        batch.clear();
        let datagram = self.ends().inbox.pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        batch.push(FAR.into(), SocketAddr::from(NEAR).ip(), &datagram);
        Ok(())
    }

    fn try_send(&self, segments: &Segments<'_>) -> io::Result<()> {
        let mut ends = self.ends();
        let left = ends.room.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
        if ends.room != usize::MAX {
            ends.room = left;
        }
        let Ends { peer, inbox, .. } = &mut *ends;
        segments.datagrams().for_each(|datagram| peer.receive(now(), datagram, inbox));
        let reader = ends.reader.take().filter(|_| !ends.inbox.is_empty());
        drop(ends);
        reader.into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn local_addr(&self) -> SocketAddr {
        NEAR.into()
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

fn connect(shared: &Arc<Shared>, config: Config) -> Connection {
    let inner = shared.connect(FAR.into(), config.into()).unwrap();
    inner.transmit(super::connection::DRIVER_BATCHES);
    let connection = inner.into_handle();
    block_on(connection.established()).unwrap();
    connection
}

/// One connection, two tasks, the driver, and a socket that becomes full.
fn all_is_sent() {
    let config = ConfigBuilder {
        congestion: CongestionConfig::Constant { window_bytes: 10_000_000 },
        mtu: Some(1_200),
        // One message at a time.
        queue_bytes: Some(1),
        ..Config::builder()
    };
    let config = config.build().unwrap();
    let wire = Wire::new(config.clone());
    let (offer, _) = mpsc::channel(1);
    let sockets = Sockets::one(Arc::new(wire.clone()));
    let config_of_endpoint = EndpointConfig::default();
    let shared = Shared::new(sockets, None, config_of_endpoint, offer, true).unwrap();
    let shared = Arc::new(shared);
    let (report, _progress) = watch::channel(Progress::InUse);
    // It does not end: that takes time.
    drop(spawn(run(Driver { shared: shared.clone(), news: None }, report)));
    let connection = connect(&shared, config);
    wire.set_room(0);
    let tasks: Vec<_> = (0..2)
        .map(|priority| {
            let connection = connection.clone();
            thread::spawn(move || block_on(talk(connection, priority)))
        })
        .collect();
    let kernel = thread::spawn(move || {
        for _ in 0..ROOMS {
            wire.set_room(1);
            thread::yield_now();
        }
        wire.set_room(usize::MAX);
    });
    tasks.into_iter().for_each(|task| task.join().unwrap());
    kernel.join().unwrap();
}

fn explore(scheduler: impl Scheduler + 'static) {
    // No time passes: this runtime's clock stands still, and nothing is run on it.
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let _context = runtime.enter();
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    Runner::new(scheduler, config).run(all_is_sent);
}

#[test]
fn no_wake_up_is_lost_at_random() {
    explore(RandomScheduler::new(RUNS));
}

/// Few preemptions, each where it hurts most (Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of
/// Finding Bugs", ASPLOS 2010).
#[test]
fn no_wake_up_is_lost_by_few_preemptions() {
    explore(PctScheduler::new(3, RUNS));
}
