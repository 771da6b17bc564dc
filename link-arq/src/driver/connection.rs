// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! One connection: the state machine behind a short lock, and the verbs of the application.
//!
//! Whoever changes the state machine, be it the driver or a task of the application, also sends
//! what follows from that, so a message leaves without a detour through another task. Packets of a
//! connection must leave in the order of their numbers, or the peer takes them for lost: therefore
//! one task at a time is its sender, and those that come meanwhile leave their work to it. System
//! calls are made without the lock.

use std::{
    fmt,
    future::poll_fn,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, Weak},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use arq_proto::{
    Config, ConnectionError, ConnectionHandle, Datagram, Event, LaneId, Stats, Transmit,
    WORTH_RECYCLING_BYTES,
};
use bytes::Bytes;
use thiserror::Error;
use tokio::sync::mpsc::UnboundedSender;

use super::{buffers, endpoint::Shared, lanes::LaneWaiters, lock, now};
use crate::socket::{is_too_long, Received, Segments};

/// Batches that a task of the application sends before it leaves the rest to the driver.
const CALLER_BATCHES: usize = 4;
/// Batches that the driver sends for one connection before it serves the next.
pub(super) const DRIVER_BATCHES: usize = 8;
/// Messages kept for their memory until the next datagrams come.
const MOST_READ: usize = 16;
/// Who waits for a sign of life of the peer hears of one at most this often, however busy the
/// connection is.
const LIFE_SIGN_INTERVAL: Duration = Duration::from_millis(500);
/// The kernel takes no more than an IP packet's length in one segmented call.
const MAX_OFFLOAD_BYTES: usize = 65_000;

/// A connection to a peer. Dropping it closes it, after what was sent is delivered or the linger
/// time is over.
pub struct ArqConnection(Arc<Inner>);

/// Why a message was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SendError {
    /// The connection has ended.
    #[error(transparent)]
    Closed(ConnectionError),
    /// The message is longer than any may be.
    #[error("a message of {len} bytes, at most {max} are possible")]
    TooLarge {
        /// Its length.
        len: usize,
        /// The greatest length.
        max: usize,
    },
    /// The message has no bytes.
    #[error("a message without bytes")]
    Empty,
}

impl ArqConnection {
    /// Hands `message` to `lane`, and waits while the lane is full. When the future is dropped
    /// before it is ready, nothing of the message was taken.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send(&self, lane: LaneId, message: &[u8]) -> Result<(), SendError> {
        let message = Bytes::copy_from_slice(message);
        let send = poll_fn(|cx| self.0.poll_send(cx, lane, &message));
        tokio::task::coop::cooperative(send).await
    }

    /// Waits for the next whole message of `lane`. When the future is dropped before it is ready,
    /// no message is lost.
    ///
    /// # Errors
    /// Why the connection ended, after everything that had arrived was read.
    pub async fn recv(&self, lane: LaneId) -> Result<Bytes, ConnectionError> {
        let receive = poll_fn(|cx| self.0.poll_recv(cx, lane));
        tokio::task::coop::cooperative(receive).await
    }

    /// Takes back a message that was read, so that its memory serves the next one.
    pub fn recycle(&self, message: Bytes) {
        if message.len() < WORTH_RECYCLING_BYTES {
            return;
        }
        let mut read = lock(&self.0.read);
        if read.len() < MOST_READ {
            read.push(message);
        }
    }

    /// Delivers what was sent, as far as the linger time allows, closes, and lets the peer know,
    /// for at most as long again.
    pub async fn finish(&self) {
        self.0.finish();
        self.closed().await;
        let drained = self.lifecycle(|state| state.retired.then_some(()));
        let _ = tokio::time::timeout(self.0.linger, drained).await;
    }

    /// Tells the peer `reason` and forgets what is not delivered.
    pub fn close(&self, reason: &str) {
        self.0.with_core(|state, now| state.core.close(now, reason));
        self.0.transmit(CALLER_BATCHES);
    }

    /// Waits for the end of the connection, and says why it came.
    pub async fn closed(&self) -> ConnectionError {
        self.lifecycle(|state| match &state.phase {
            Phase::Closed(reason) => Some(reason.clone()),
            Phase::Opening | Phase::Established => None,
        })
        .await
    }

    /// Waits for the handshake.
    pub(super) async fn established(&self) -> Result<(), ConnectionError> {
        self.lifecycle(|state| match &state.phase {
            Phase::Closed(reason) => Some(Err(reason.clone())),
            Phase::Established => Some(Ok(())),
            Phase::Opening => None,
        })
        .await
    }

    /// Waits until everything that was sent has arrived, for the linger time at most.
    pub async fn delivered(&self) {
        let delivered = self.progress(|state| {
            matches!(state.phase, Phase::Closed(_)) || state.core.stats().send_buffer_bytes == 0
        });
        let _ = tokio::time::timeout(self.0.linger, delivered).await;
    }

    /// The caller reads no more from `lane`: waits until everything that has arrived on the others
    /// that are read is read, for the idle time-out at most.
    pub async fn consumed_beside(&self, lane: LaneId) {
        lock(&self.0.state).read &= !bit(lane);
        let consumed = self.progress(|state| state.readable & state.read == 0);
        let _ = tokio::time::timeout(self.0.idle_timeout, consumed).await;
    }

    /// Waits until the peer is heard, and half a second passes between two such signs of life at
    /// least. Pending for ever once the connection has ended.
    pub async fn life_sign(&self) {
        let mut seen = None;
        poll_fn(|cx| {
            let mut state = lock(&self.0.state);
            if *seen.get_or_insert(state.life_sign_at) != state.life_sign_at {
                return Poll::Ready(());
            }
            state.waiters.wait_life_sign(cx);
            Poll::Pending
        })
        .await
    }

    /// Waits for a step in the connection's life.
    async fn lifecycle<T>(&self, reached: impl Fn(&State) -> Option<T>) -> T {
        poll_fn(|cx| {
            let mut state = lock(&self.0.state);
            if let Some(result) = reached(&state) {
                return Poll::Ready(result);
            }
            state.waiters.wait_lifecycle(cx);
            Poll::Pending
        })
        .await
    }

    /// Waits for something that no event tells of: looks at every change.
    async fn progress(&self, reached: impl Fn(&State) -> bool) {
        poll_fn(|cx| {
            let mut state = lock(&self.0.state);
            if reached(&state) {
                return Poll::Ready(());
            }
            state.waiters.wait_progress(cx);
            Poll::Pending
        })
        .await;
    }

    /// What the peer put into its `app_params`.
    #[must_use]
    pub fn peer_app_params(&self) -> Bytes {
        Bytes::copy_from_slice(lock(&self.0.state).core.peer_app_params())
    }

    /// What the connection has done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        lock(&self.0.state).core.stats()
    }

    /// The peer's address, which may change in a connection's life.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        lock(&self.0.state).core.remote()
    }

    /// The local address that the peer sends to, as far as the platform tells.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        let ip = lock(&self.0.state).local_ip.unwrap_or_else(|| self.0.bound.ip());
        SocketAddr::new(ip, self.0.bound.port())
    }
}

impl Drop for ArqConnection {
    fn drop(&mut self) {
        self.0.finish();
    }
}

impl fmt::Debug for ArqConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArqConnection")
            .field("local", &self.local())
            .field("remote", &self.remote())
            .finish_non_exhaustive()
    }
}

/// What the driver and the application share of a connection.
pub(super) struct Inner {
    handle: ConnectionHandle,
    /// Weak, so that the socket closes with its driver and not with the last forgotten handle.
    endpoint: Weak<Shared>,
    bound: SocketAddr,
    linger: Duration,
    idle_timeout: Duration,
    /// Messages that were read: their memory serves the next ones.
    read: Mutex<Vec<Bytes>>,
    state: Mutex<State>,
}

struct State {
    core: arq_proto::Connection,
    phase: Phase,
    waiters: LaneWaiters,
    /// Lanes that may hold a message, by [`bit`].
    readable: u16,
    /// Lanes that somebody reads, by [`bit`]: not all of them before the application is set up.
    read: u16,
    outbox: Outbox,
    /// The deadline in the endpoint's index.
    armed: Option<Instant>,
    /// The local address of the latest datagram: answers leave from it.
    local_ip: Option<IpAddr>,
    /// The latest sign of life of the peer that those who wait for one were told of.
    life_sign_at: Option<Instant>,
    /// Where to hand an accepted connection once its handshake is done.
    offer: Option<UnboundedSender<ArqConnection>>,
    retired: bool,
}

enum Phase {
    Opening,
    Established,
    Closed(ConnectionError),
}

/// Who sends for the connection.
enum Outbox {
    /// Nobody: the next who changes something.
    Idle,
    /// A task, right now.
    Sending,
    /// The driver, at its next turn or when the socket has room again for what it refused.
    Parked(Option<Unsent>),
}

struct Unsent {
    bytes: Vec<u8>,
    transmit: Transmit,
    source: Option<IpAddr>,
}

/// What is left to do once the lock is gone.
#[derive(Default)]
struct Aftermath {
    wake: Vec<Waker>,
    offer: Option<UnboundedSender<ArqConnection>>,
    retire: bool,
}

impl Inner {
    pub(super) fn new(
        endpoint: &Arc<Shared>,
        handle: ConnectionHandle,
        core: arq_proto::Connection,
        config: &Config,
        offer: Option<UnboundedSender<ArqConnection>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            handle,
            endpoint: Arc::downgrade(endpoint),
            bound: endpoint.local_addr(),
            linger: config.linger,
            idle_timeout: config.idle_timeout,
            read: Mutex::default(),
            state: Mutex::new(State {
                core,
                phase: Phase::Opening,
                waiters: LaneWaiters::default(),
                readable: 0,
                read: 0,
                outbox: Outbox::Idle,
                armed: None,
                local_ip: None,
                life_sign_at: None,
                offer,
                retired: false,
            }),
        })
    }

    pub(super) fn handle(&self) -> ConnectionHandle {
        self.handle
    }

    /// The application's handle. There is one.
    pub(super) fn into_handle(self: Arc<Self>) -> ArqConnection {
        ArqConnection(self)
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(lock(&self.state).phase, Phase::Closed(_))
    }

    pub(super) fn handle_datagrams<'a>(
        self: &Arc<Self>,
        datagrams: impl Iterator<Item = Received<'a>>,
    ) {
        let read = std::mem::take(&mut *lock(&self.read));
        self.with_core(|state, now| {
            read.into_iter().for_each(|message| state.core.recycle(message));
            let State { core, local_ip, .. } = state;
            let datagrams = datagrams.map(|Received { from, to, datagram }| {
                *local_ip = to.or(*local_ip);
                Datagram { from, to, bytes: datagram }
            });
            core.handle_datagrams(now, datagrams);
        });
    }

    pub(super) fn handle_timeout(self: &Arc<Self>) {
        self.with_core(|state, now| {
            // The index has already forgotten this one.
            state.armed = state.armed.filter(|armed| *armed > now);
            state.core.handle_timeout(now);
        });
    }

    /// Replaced by a newer connection of the same peer, which hears nothing of this.
    pub(super) fn replaced_from(self: &Arc<Self>, address: SocketAddr) {
        self.with_core(|state, now| state.core.replaced_from(now, address));
    }

    /// Nobody accepts any more: forgets a peer whose handshake is not done.
    pub(super) fn abandon_unaccepted(self: &Arc<Self>) {
        let unaccepted = lock(&self.state).offer.is_some();
        if unaccepted {
            self.with_core(|state, now| state.core.abandon(now));
        }
    }

    /// The driver ends: nobody will send or receive for this connection any more.
    pub(super) fn driver_gone(self: &Arc<Self>) {
        self.with_core(|state, now| state.core.close(now, "the driver stopped"));
    }

    fn finish(self: &Arc<Self>) {
        self.with_core(|state, now| state.core.finish(now));
        self.transmit(CALLER_BATCHES);
    }

    fn poll_send(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        lane: LaneId,
        message: &Bytes,
    ) -> Poll<Result<(), SendError>> {
        let taken =
            self.with_core(|state, now| match state.core.send(now, lane, message.clone()) {
                Ok(()) => Poll::Ready(Ok(())),
                Err(arq_proto::SendError::Blocked) => {
                    state.waiters.wait_writable(lane, cx);
                    Poll::Pending
                }
                Err(arq_proto::SendError::TooLarge { len, max }) => {
                    Poll::Ready(Err(SendError::TooLarge { len, max }))
                }
                Err(arq_proto::SendError::Empty) => Poll::Ready(Err(SendError::Empty)),
                Err(arq_proto::SendError::Closed) => {
                    Poll::Ready(Err(SendError::Closed(state.reason())))
                }
            });
        if matches!(taken, Poll::Ready(Ok(()))) {
            self.transmit(CALLER_BATCHES);
        }
        taken
    }

    fn poll_recv(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        lane: LaneId,
    ) -> Poll<Result<Bytes, ConnectionError>> {
        let received = self.with_core(|state, now| {
            state.read |= bit(lane);
            if let Some(message) = state.core.recv(now, lane) {
                return Poll::Ready(Ok(message));
            }
            state.readable &= !bit(lane);
            if let Phase::Closed(reason) = &state.phase {
                return Poll::Ready(Err(reason.clone()));
            }
            state.waiters.wait_readable(lane, cx);
            Poll::Pending
        });
        if matches!(received, Poll::Ready(Ok(_))) {
            // Reading may have made room that the peer should know of.
            self.transmit(CALLER_BATCHES);
        }
        received
    }

    /// Changes the state machine and does all that follows, but for sending.
    fn with_core<R>(self: &Arc<Self>, change: impl FnOnce(&mut State, Instant) -> R) -> R {
        let mut aftermath = Aftermath::default();
        let result = {
            let mut state = lock(&self.state);
            let result = change(&mut state, now());
            self.settle(&mut state, &mut aftermath);
            result
        };
        self.follow_up(aftermath);
        result
    }

    /// Brings the shell's view up to date with the state machine.
    fn settle(&self, state: &mut State, aftermath: &mut Aftermath) {
        while let Some(event) = state.core.poll_event() {
            state.waiters.collect(&event, &mut aftermath.wake);
            match event {
                Event::Connected => {
                    tracing::debug!(handle = ?self.handle, remote = %state.core.remote(), "connected");
                    state.phase = Phase::Established;
                    aftermath.offer = state.offer.take();
                }
                Event::Closed(reason) => {
                    tracing::debug!(handle = ?self.handle, %reason, "closed");
                    state.phase = Phase::Closed(reason);
                    state.offer = None;
                }
                Event::Readable(lane) => state.readable |= bit(lane),
                Event::Writable(_) => {}
            }
        }
        state.note_life_sign(&mut aftermath.wake);
        state.waiters.collect_progress(&mut aftermath.wake);
        let drained = state.core.is_drained();
        let deadline = if drained { None } else { state.core.poll_timeout().map(|(at, _)| at) };
        if deadline != state.armed {
            if let Some(endpoint) = self.endpoint.upgrade() {
                endpoint.deadlines.change(self.handle, state.armed, deadline);
            }
            state.armed = deadline;
        }
        if drained && !state.retired {
            state.retired = true;
            aftermath.retire = true;
            state.waiters.collect_lifecycle(&mut aftermath.wake);
        }
    }

    fn follow_up(self: &Arc<Self>, aftermath: Aftermath) {
        aftermath.wake.into_iter().for_each(Waker::wake);
        if let Some(offer) = aftermath.offer {
            // Nobody accepts any more: the handle is dropped and the connection closes.
            drop(offer.send(ArqConnection(self.clone())));
        }
        if aftermath.retire {
            if let Some(endpoint) = self.endpoint.upgrade() {
                endpoint.retire(self.handle);
            }
        }
    }

    /// Sends what may be sent, at most `batches` of it, unless another task is at it.
    pub(super) fn transmit(self: &Arc<Self>, batches: usize) {
        {
            let mut state = lock(&self.state);
            if !matches!(state.outbox, Outbox::Idle) {
                return;
            }
            state.outbox = Outbox::Sending;
        }
        let Some(endpoint) = self.endpoint.upgrade() else { return };
        self.send_batches(&endpoint, None, batches);
    }

    /// The driver's part: goes on where a task stopped.
    pub(super) fn resume(self: &Arc<Self>, endpoint: &Arc<Shared>) {
        let unsent = {
            let mut state = lock(&self.state);
            match std::mem::replace(&mut state.outbox, Outbox::Sending) {
                Outbox::Parked(unsent) => unsent,
                other @ (Outbox::Idle | Outbox::Sending) => {
                    state.outbox = other;
                    return;
                }
            }
        };
        self.send_batches(endpoint, unsent, DRIVER_BATCHES);
    }

    /// The caller has made itself the sender.
    fn send_batches(
        self: &Arc<Self>,
        endpoint: &Arc<Shared>,
        mut unsent: Option<Unsent>,
        batches: usize,
    ) {
        let mut buffer = match &mut unsent {
            Some(unsent) => std::mem::take(&mut unsent.bytes),
            None => buffers::take(),
        };
        for _ in 0..batches {
            let next = match unsent.take() {
                Some(unsent) => Some((unsent.transmit, unsent.source)),
                None => self.next_transmit(endpoint, &mut buffer),
            };
            let Some((transmit, source)) = next else {
                buffers::give_back(buffer);
                return;
            };
            let segments = Segments {
                destination: transmit.destination,
                source,
                contents: &buffer,
                segment_bytes: transmit.segment_size,
            };
            match endpoint.socket.try_send(&segments) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.park(Some(Unsent { bytes: buffer, transmit, source }));
                    endpoint.wait_for_room(self.clone());
                    return;
                }
                // As good as lost on the way: the protocol repairs it.
                Err(error) => {
                    tracing::trace!(handle = ?self.handle, %error, "send failed");
                    if is_too_long(&error) {
                        let size = transmit.segment_size;
                        self.with_core(|state, now| state.core.handle_refused(now, size));
                    }
                }
            }
        }
        buffers::give_back(buffer);
        self.park(None);
        endpoint.serve_later(self.clone());
    }

    /// Fills `buffer` with the next batch, or lays down the sender's role.
    fn next_transmit(
        self: &Arc<Self>,
        endpoint: &Arc<Shared>,
        buffer: &mut Vec<u8>,
    ) -> Option<(Transmit, Option<IpAddr>)> {
        buffer.clear();
        self.with_core(|state, now| {
            let fit = MAX_OFFLOAD_BYTES / usize::from(state.core.path_mtu());
            let max_segments = endpoint.socket.max_segments().min(fit.max(1));
            let Some(transmit) = state.core.poll_transmit(now, buffer, max_segments) else {
                state.outbox = Outbox::Idle;
                return None;
            };
            let source = state.local_ip.filter(|_| self.bound.ip().is_unspecified());
            Some((transmit, source))
        })
    }

    fn park(&self, unsent: Option<Unsent>) {
        lock(&self.state).outbox = Outbox::Parked(unsent);
    }
}

const fn bit(lane: LaneId) -> u16 {
    1 << lane.index()
}

impl State {
    fn note_life_sign(&mut self, wake: &mut Vec<Waker>) {
        let heard_at = self.core.heard_at();
        if self.life_sign_at.is_none_or(|told| heard_at >= told + LIFE_SIGN_INTERVAL) {
            self.life_sign_at = Some(heard_at);
            self.waiters.collect_life_sign(wake);
        }
    }

    fn reason(&self) -> ConnectionError {
        match &self.phase {
            Phase::Closed(reason) => reason.clone(),
            Phase::Opening | Phase::Established => {
                self.core.close_reason().cloned().unwrap_or(ConnectionError::LocallyClosed)
            }
        }
    }
}
