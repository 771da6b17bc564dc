// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How is the state machine driven? One task per socket reads batches of datagrams, keeps the
//! deadlines and sends for connections that could not send all at once.
//!
//! Nothing here knows of the application above. Locks are held for moments and never across an
//! `await` or a call that sends, receives or could wait, and a panic under one does not poison it:
//! the state machine has no half-done states that outlive a call. (A panic while a task sends leaves
//! that connection without a sender: it ends at its idle time-out.) Each turn does a bounded amount
//! of work for each connection, so a busy one does not starve the others.

mod buffers;
#[cfg(all(test, not(shuttle)))]
mod census;
mod connection;
mod endpoint;
mod handshakes;
mod lanes;
#[cfg(all(test, shuttle))]
mod model;
mod offload;
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

use arq_proto::Datagram;
use tokio::sync::watch;

pub use connection::{ConnectError, Connection, Lane, SendError};
pub use endpoint::Endpoint;
pub use handshakes::Unopened;
pub use timer::TIMER_GRANULARITY;

use crate::socket::{DatagramSocket, ReceiveBatch};
use endpoint::Progress;
use shared::{Ports, Shared};

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
fn poll_other(other: Option<&dyn DatagramSocket>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    other.map_or(Poll::Pending, |other| other.poll_readable(cx))
}

/// The driver of one socket. Ends when the last user and the last connection are gone.
async fn run(driver: Driver, progress: watch::Sender<Progress>) {
    if let Err(error) = driver.serve(&progress).await {
        tracing::error!(%error, local = %driver.0.local_addr(), "the socket failed");
    }
    // Whoever waits for the end may bind the address at once.
    drop(driver);
    drop(progress);
}

/// Made before its task runs: a runtime that shuts down first drops it, too, and nobody waits for it.
struct Driver(Arc<Shared>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.stop();
        // None are left, unless the socket failed, the driver panicked or the runtime shuts down.
        for connection in self.0.connections() {
            connection.driver_gone();
        }
    }
}

impl Driver {
    async fn serve(&self, progress: &watch::Sender<Progress>) -> io::Result<()> {
        let shared = &self.0;
        while !shared.is_finished() {
            self.report(progress);
            shared.deadlines.arm();
            let blocked = shared.turns.is_blocked();
            let mut reported = false;
            let Ports { current, other } = shared.ports();
            tokio::select! {
                ready = poll_fn(|cx| current.poll_readable(cx)) => ready?,
                ready = poll_fn(|cx| poll_other(other.as_deref(), cx)) => ready?,
                fired = shared.deadlines.expired() => fired?,
                () = shared.wake.notified() => {}
                () = poll_fn(|cx| current.poll_reports(cx)) => reported = true,
                ready = poll_fn(|cx| current.poll_writable(cx)), if blocked => {
                    ready?;
                    shared.turns.unblock();
                }
            }
            let more_to_read = self.receive(&*current, false)
                | other.is_some_and(|other| self.receive(&*other, true));
            if reported {
                // What the peers have said counts for more.
                self.take_reports(&*current);
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

    /// Reads what has arrived, perhaps at the other port; says whether there may be more.
    fn receive(&self, socket: &dyn DatagramSocket, is_other: bool) -> bool {
        BATCH.with_borrow_mut(|batch| {
            for _ in 0..RECEIVE_BATCHES {
                match socket.try_receive(batch) {
                    Ok(()) => self.dispatch(batch, is_other),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                    Err(error) => tracing::debug!(%error, "receive failed"),
                }
            }
            true
        })
    }

    fn dispatch(&self, batch: &mut ReceiveBatch, is_other: bool) {
        let begin = is_other.then(now);
        let mut sorted = self.0.route(batch.datagrams());
        for (old, address) in &sorted.older {
            old.handle_newcomer(*address);
            old.transmit(connection::DRIVER_BATCHES);
        }
        self.0.handshakes.extend(sorted.handshakes.drain(..));
        for (connection, datagrams) in sorted.by_connection() {
            for part in datagrams.chunks_mut(DATAGRAMS_A_HOLD) {
                connection.handle_datagrams(part.iter_mut().map(|(_, datagram)| {
                    Datagram::new(datagram.from, datagram.to, &mut *datagram.bytes)
                }));
            }
            if begin.is_some_and(|begin| connection.heard_at() >= begin) {
                self.0.change_port();
            }
            connection.transmit(connection::DRIVER_BATCHES);
        }
    }

    /// The steps of handshakes of this turn, after the links that are open.
    fn take_steps(&self) {
        for mut step in self.0.handshakes.take_turn() {
            let connection = step.connection.clone();
            connection.handle_datagrams(std::iter::once(step.datagram()));
            connection.transmit(connection::DRIVER_BATCHES);
        }
    }

    fn take_reports(&self, socket: &dyn DatagramSocket) {
        socket.take_reports(&mut |report| {
            let Some(connection) = self.0.sender_of(report.quote) else { return };
            connection.handle_unreachable(report);
            connection.transmit(connection::DRIVER_BATCHES);
        });
    }

    fn handle_timeouts(&self) {
        let mut due = Vec::new();
        self.0.deadlines.take_due(now(), &mut due);
        for connection in due.into_iter().filter_map(|handle| self.0.connection(handle)) {
            connection.handle_timeout();
            connection.transmit(connection::DRIVER_BATCHES);
        }
    }

    fn send(&self) {
        for connection in self.0.turns.take_ready() {
            connection.resume(&self.0);
        }
    }

    fn report(&self, progress: &watch::Sender<Progress>) {
        if !self.0.is_released() || progress.receiver_count() == 0 {
            return;
        }
        let in_use = self.0.connections().iter().any(|connection| !connection.is_closed());
        // Also "still in use" is news: the one who waits need not wait for it.
        progress.send_replace(if in_use { Progress::InUse } else { Progress::Draining });
    }
}
