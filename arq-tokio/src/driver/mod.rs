// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How is the state machine driven? One task per endpoint reads batches of datagrams of its sockets, which are several
//! where paths lead through several interfaces, keeps the deadlines and sends for connections that could not send all at
//! once.
//!
//! Nothing here knows of the application above. Locks are held for moments and never across an
//! `await` or a call that sends, receives or could wait, and a panic under one does not poison it:
//! the state machine has no half-done states that outlive a call. (A panic while a task sends leaves
//! that connection without a sender: it ends at its idle time-out.) Each turn does a bounded amount
//! of work for each connection, so a busy one does not starve the others.

mod budgets;
mod buffers;
#[cfg(all(test, not(shuttle)))]
mod census;
mod connection;
mod contact;
mod endpoint;
mod handshakes;
mod host;
mod lanes;
#[cfg(all(test, shuttle))]
mod model;
mod offload;
mod paths;
mod ports;
#[cfg(feature = "qlog")]
mod qlog;
mod shared;
mod sorted;
mod sync;
mod timer;
mod turns;
mod warning;

use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use arq_proto::{Datagram, SocketId};
use tokio::sync::watch;

pub use connection::{ConnectError, Connection, Lane, PathInfo, SendError};
pub use endpoint::Endpoint;
pub use handshakes::Unopened;
pub use paths::{InterfaceRole, PathInterface, PathInterfaceError, DEFAULT_METERED_RATE_BPS};
pub use timer::TIMER_GRANULARITY;

use crate::socket::{DatagramSocket, ReceiveBatch};
use endpoint::Progress;
use paths::News;
use ports::Mask;
use shared::{OtherPort, Ports, Shared};
use turns::Turn;

/// Receive calls of one turn.
const RECEIVE_BATCHES: usize = 4;
/// Datagrams that are handled under one hold of a connection's lock, which tasks of the application wait for: a receive
/// call may bring two thousand.
const DATAGRAMS_A_HOLD: usize = 64;

thread_local! {
    /// Received datagrams are handled before the thread does anything else, so all sockets of a
    /// thread share the buffers and an idle socket has none.
    static BATCH: RefCell<ReceiveBatch> = RefCell::default();
}

/// The time, as the runtime sees it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Ready when something may have come to the other port, if there is one.
fn poll_other(other: Option<&OtherPort>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    other.map_or(Poll::Pending, |other| other.socket.poll_readable(cx))
}

/// Ready when an interface has come or gone, where anybody wants to know.
async fn changed(news: &mut Option<News>) {
    if let Some(watched) = news {
        if watched.changed().await.is_ok() {
            return;
        }
        // The watcher is gone: what it said last holds.
        *news = None;
    }
    std::future::pending().await
}

/// The driver of one endpoint. Ends when the last user and the last connection are gone.
async fn run(mut driver: Driver, progress: watch::Sender<Progress>) {
    if let Err(error) = driver.serve(&progress).await {
        tracing::error!(%error, local = %driver.shared.local_addr(), "the socket failed");
    }
    // Whoever waits for the end may bind the address at once.
    drop(driver);
    drop(progress);
}

/// Made before its task runs: a runtime that shuts down first drops it, too, and nobody waits for it.
struct Driver {
    shared: Arc<Shared>,
    /// Tells of this host's interfaces, where paths lead through several.
    news: Option<News>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.stop();
        // None are left, unless the socket failed, the driver panicked or the runtime shuts down.
        for connection in self.shared.connections() {
            connection.driver_gone();
        }
    }
}

impl Driver {
    async fn serve(&mut self, progress: &watch::Sender<Progress>) -> io::Result<()> {
        let shared = self.shared.clone();
        while !shared.is_finished() {
            self.report(progress);
            shared.deadlines.arm();
            let full = shared.turns.full();
            let mut reported = Mask::default();
            let mut interfaces_changed = false;
            let Ports { sockets, other } = shared.ports();
            tokio::select! {
                ready = poll_fn(|cx| sockets.poll_readable(cx)) => ready?,
                ready = poll_fn(|cx| poll_other(other.as_ref(), cx)) => ready?,
                fired = shared.deadlines.expired() => fired?,
                () = shared.wake.notified() => {}
                by = poll_fn(|cx| sockets.poll_reports(cx)) => reported = by,
                roomy = poll_fn(|cx| sockets.poll_writable(cx, full)), if !full.is_empty() => {
                    shared.turns.unblock(roomy?);
                }
                () = changed(&mut self.news), if self.news.is_some() => interfaces_changed = true,
            }
            if interfaces_changed {
                self.follow_interfaces();
            }
            let mut more_to_read = false;
            for (id, socket) in sockets.iter() {
                more_to_read |= self.receive(socket, id, false);
            }
            if let Some(OtherPort { instead_of, socket }) = &other {
                more_to_read |= self.receive(&**socket, *instead_of, true);
            }
            // What the peers have said counts for more.
            for socket in reported.iter().filter_map(|id| sockets.get(id)) {
                self.take_reports(socket);
            }
            self.take_steps();
            self.handle_timeouts();
            self.send();
            if more_to_read || shared.turns.has_ready() || shared.handshakes.has_more() {
                shared.wake.notify_one();
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    fn follow_interfaces(&mut self) {
        let (Some(news), Some(paths)) = (&mut self.news, self.shared.paths()) else { return };
        let now = news.borrow_and_update().clone();
        let shared = &self.shared;
        paths.follow(&now, |socket, by| shared.replace(socket, by), || shared.connections());
    }

    /// Reads what has arrived, perhaps at the other port; says whether there may be more.
    fn receive(&self, socket: &dyn DatagramSocket, id: SocketId, is_other: bool) -> bool {
        BATCH.with_borrow_mut(|batch| {
            for _ in 0..RECEIVE_BATCHES {
                match socket.try_receive(batch) {
                    Ok(()) => self.dispatch(batch, id, is_other),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                    Err(error) => tracing::debug!(%error, "receive failed"),
                }
            }
            true
        })
    }

    fn dispatch(&self, batch: &mut ReceiveBatch, id: SocketId, is_other: bool) {
        let begin = is_other.then(now);
        let mut sorted = self.shared.route(batch.datagrams().map(|datagram| datagram.through(id)));
        for (old, address) in &sorted.older {
            old.handle_newcomer(*address);
            old.transmit(connection::DRIVER_BATCHES);
        }
        self.shared.handshakes.extend(sorted.handshakes.drain(..));
        for (connection, datagrams) in sorted.by_connection() {
            for part in datagrams.chunks_mut(DATAGRAMS_A_HOLD) {
                let datagrams = part.iter_mut().map(|(_, datagram)| {
                    let Datagram { socket, from, to, ecn, .. } = *datagram;
                    let datagram = Datagram::new(from, to, &mut *datagram.bytes);
                    datagram.through(socket).with_ecn(ecn)
                });
                connection.handle_datagrams(datagrams);
            }
            if begin.is_some_and(|begin| connection.heard_at() >= begin) {
                self.shared.change_port();
            }
            connection.transmit(connection::DRIVER_BATCHES);
        }
    }

    /// The steps of handshakes of this turn, after the links that are open.
    fn take_steps(&self) {
        for mut step in self.shared.handshakes.take_turn() {
            let connection = step.connection.clone();
            connection.handle_datagrams(std::iter::once(step.datagram()));
            connection.transmit(connection::DRIVER_BATCHES);
        }
    }

    fn take_reports(&self, socket: &dyn DatagramSocket) {
        socket.take_reports(&mut |report| {
            let Some(connection) = self.shared.sender_of(report.quote) else { return };
            connection.handle_unreachable(report);
            connection.transmit(connection::DRIVER_BATCHES);
        });
    }

    fn handle_timeouts(&self) {
        let mut due = Vec::new();
        self.shared.deadlines.take_due(now(), &mut due);
        for connection in due.into_iter().filter_map(|handle| self.shared.connection(handle)) {
            connection.handle_timeout();
            connection.transmit(connection::DRIVER_BATCHES);
        }
    }

    fn send(&self) {
        for Turn { connection, socket } in self.shared.turns.take_ready() {
            connection.resume(&self.shared, socket);
        }
    }

    fn report(&self, progress: &watch::Sender<Progress>) {
        if !self.shared.is_released() || progress.receiver_count() == 0 {
            return;
        }
        let in_use = self.shared.connections().iter().any(|connection| !connection.is_closed());
        // Also "still in use" is news: the one who waits need not wait for it.
        progress.send_replace(if in_use { Progress::InUse } else { Progress::Draining });
    }
}
