// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The application's handle of a connection: its verbs, and what it can wait for.

use std::{
    fmt,
    future::poll_fn,
    io,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use arq_proto::{ConnectionError, LaneId, Stats, WORTH_RECYCLING_BYTES};
use bytes::Bytes;
use thiserror::Error;

use super::{outbox::CALLER_BATCHES, Inner, Phase, State};
use crate::driver::now;

/// Messages kept for their memory until the next datagrams come.
const MOST_SPENT: usize = 16;

/// A connection to a peer. Dropping it closes it, after what was sent is delivered or the linger
/// time is over.
pub struct ArqConnection(pub(super) Arc<Inner>);

/// Why there is no connection.
#[derive(Debug, Clone, Error)]
pub enum ConnectError {
    /// It ended before it was open.
    #[error(transparent)]
    Ended(#[from] ConnectionError),
    /// This host has refused to send.
    #[error("{reason}; the system says: {source}")]
    Unsent {
        /// How the attempt ended.
        reason: ConnectionError,
        /// The latest refusal.
        source: Arc<io::Error>,
    },
}

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
        let send = poll_fn(|cx| self.poll_send(cx, lane, &message, false));
        tokio::task::coop::cooperative(send).await
    }

    /// As [`Self::send`], for a message that has its own memory. Nothing of it is taken before this is ready. `more`: see
    /// [`arq_proto::Connection::send_part`].
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn poll_send(
        &self,
        cx: &mut Context<'_>,
        lane: LaneId,
        message: &Bytes,
        more: bool,
    ) -> Poll<Result<(), SendError>> {
        self.0.poll_send(cx, lane, message, more)
    }

    /// Waits for the next whole message of `lane`. When the future is dropped before it is ready,
    /// no message is lost.
    ///
    /// # Errors
    /// Why the connection ended, after everything that had arrived was read.
    pub async fn recv(&self, lane: LaneId) -> Result<Bytes, ConnectionError> {
        self.recv_any(&[lane]).await
    }

    /// As [`Self::recv`], of the first of `lanes` that has one.
    ///
    /// # Errors
    /// As [`Self::recv`].
    pub async fn recv_any(&self, lanes: &[LaneId]) -> Result<Bytes, ConnectionError> {
        let receive = poll_fn(|cx| self.0.poll_recv(cx, lanes));
        tokio::task::coop::cooperative(receive).await
    }

    /// The next message of `lane`, if one is whole.
    #[must_use]
    pub fn try_recv(&self, lane: LaneId) -> Option<Bytes> {
        self.0.try_recv(lane)
    }

    /// Takes back a message that was read, so that its memory serves the next one.
    pub fn recycle(&self, message: Bytes) {
        if message.len() < WORTH_RECYCLING_BYTES {
            return;
        }
        let mut spent = self.0.spent.lock();
        if spent.len() < MOST_SPENT {
            spent.push(message);
        }
    }

    /// Delivers what was sent, as far as the linger time allows, closes, and lets the peer know. Nobody waits for it.
    pub fn start_finish(&self) {
        self.0.finish();
    }

    /// As [`Self::start_finish`], and waits: until the end, and for the peer to know, for at most the linger time again.
    pub async fn finish(&self) {
        self.start_finish();
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
    pub(in crate::driver) async fn established(&self) -> Result<(), ConnectError> {
        self.lifecycle(|state| match (&state.phase, &state.send_error) {
            (Phase::Opening, _) => None,
            (Phase::Established, _) => Some(Ok(())),
            (
                Phase::Closed(
                    reason @ (ConnectionError::HandshakeTimedOut { .. }
                    | ConnectionError::Unsendable),
                ),
                Some(source),
            ) => {
                let (reason, source) = (reason.clone(), source.clone());
                Some(Err(ConnectError::Unsent { reason, source }))
            }
            (Phase::Closed(reason), _) => Some(Err(reason.clone().into())),
        })
        .await
    }

    /// How long an end in order may take.
    #[must_use]
    pub fn linger(&self) -> Duration {
        self.0.linger
    }

    /// Waits until everything that was sent has arrived, for the linger time at most.
    pub async fn delivered(&self) {
        let delivered = self.progress(|state| {
            matches!(state.phase, Phase::Closed(_)) || state.core.send_buffer_bytes() == 0
        });
        let _ = tokio::time::timeout(self.0.linger, delivered).await;
    }

    /// The caller reads no more from `lanes`: waits until everything that has arrived on the others
    /// that are read is read, for the idle time-out at most.
    pub async fn consumed_beside(&self, lanes: &[LaneId]) {
        // Who waits beside other lanes waits for these no more.
        self.0.with_core(|state, _| lanes.iter().for_each(|lane| state.lanes_read.remove(*lane)));
        let consumed = self.progress(|state| (state.readable & state.lanes_read).is_empty());
        let _ = tokio::time::timeout(self.0.idle_timeout, consumed).await;
    }

    /// Waits until the peer is heard, and half a second passes between two such signs of life at
    /// least. Pending for ever once the connection has ended.
    pub async fn life_sign(&self) {
        let mut seen = None;
        poll_fn(|cx| {
            let mut state = self.0.state.lock();
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
            let mut state = self.0.state.lock();
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
            let mut state = self.0.state.lock();
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
        Bytes::copy_from_slice(self.0.state.lock().core.peer_app_params())
    }

    /// What the connection has done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.0.state.lock().core.stats()
    }

    /// The peer's address, which may change in a connection's life.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.0.state.lock().core.remote()
    }

    /// The local address that the peer sends to, as far as the platform tells.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        let ip = self.0.state.lock().core.local_ip().unwrap_or_else(|| self.0.bound.ip());
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

impl Inner {
    fn finish(self: &Arc<Self>) {
        self.with_core(|state, now| state.core.finish(now));
        self.transmit(CALLER_BATCHES);
    }

    fn poll_send(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        lane: LaneId,
        message: &Bytes,
        more: bool,
    ) -> Poll<Result<(), SendError>> {
        let mut state = self.state.lock();
        let taken = match state.core.send_part(now(), lane, message.clone(), more) {
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
        };
        if matches!(taken, Poll::Ready(Ok(()))) && state.outbox.take_on() {
            // Who sends settles afterwards: the message does not wait for that.
            drop(state);
            self.send_up_to(CALLER_BATCHES);
        } else {
            self.settle_and_unlock(state);
        }
        taken
    }

    fn poll_recv(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        lanes: &[LaneId],
    ) -> Poll<Result<Bytes, ConnectionError>> {
        let mut made_room = false;
        let received = self.with_core(|state, now| {
            lanes.iter().for_each(|lane| state.lanes_read.insert(*lane));
            for &lane in lanes {
                if let Some(message) = state.core.recv(now, lane) {
                    made_room = state.core.has_credit_to_grant();
                    return Poll::Ready(Ok(message));
                }
                state.readable.remove(lane);
            }
            if let Phase::Closed(reason) = &state.phase {
                return Poll::Ready(Err(reason.clone()));
            }
            lanes.iter().for_each(|lane| state.waiters.wait_readable(*lane, cx));
            Poll::Pending
        });
        if made_room {
            self.transmit(CALLER_BATCHES);
        }
        received
    }

    fn try_recv(self: &Arc<Self>, lane: LaneId) -> Option<Bytes> {
        let (message, made_room) = self
            .with_core(|state, now| (state.core.recv(now, lane), state.core.has_credit_to_grant()));
        if made_room {
            self.transmit(CALLER_BATCHES);
        }
        message
    }
}
