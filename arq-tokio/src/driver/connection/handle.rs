// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The application's handle of a connection: its verbs, and what it can wait for.

use std::{
    any::Any,
    fmt,
    future::poll_fn,
    io,
    net::SocketAddr,
    sync::{atomic::Ordering, Arc},
    task::{Context, Poll},
};

use arq_proto::{ConnectionError, LaneId, Stats};
use bytes::Bytes;
use thiserror::Error;

use super::{outbox::CALLER_BATCHES, Guarded, Inner, Lifecycle};
use crate::driver::now;

/// A connection to a peer. Cheap to clone: dropping the last handle, [`Lane`](super::Lane)s included, closes it, after what
/// was sent is delivered or the linger time is over.
pub struct Connection(pub(super) Arc<Inner>);

/// Why there is no connection.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
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

impl ConnectError {
    /// How the attempt ended.
    #[must_use]
    pub fn reason(&self) -> &ConnectionError {
        match self {
            Self::Ended(reason) | Self::Unsent { reason, .. } => reason,
        }
    }
}

/// Why a message was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
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
    /// The lane is full; here is the message. Only who does not wait is told so.
    #[error("the lane is full")]
    Full(Bytes),
}

impl Connection {
    /// [`Lane::send`](super::Lane::send), for one message.
    ///
    /// # Errors
    /// As there.
    pub async fn send(&self, lane: LaneId, message: impl Into<Bytes>) -> Result<(), SendError> {
        let mut message = message.into();
        let send = poll_fn(|cx| self.0.poll_send(cx, lane, &mut message, false));
        tokio::task::coop::cooperative(send).await
    }

    /// [`Lane::recv`](super::Lane::recv), of one message.
    ///
    /// # Errors
    /// As there.
    pub async fn recv(&self, lane: LaneId) -> Result<Bytes, ConnectionError> {
        self.recv_any(&[lane]).await
    }

    /// [`Lane::try_recv`](super::Lane::try_recv), of one message.
    #[must_use]
    pub fn try_recv(&self, lane: LaneId) -> Option<Bytes> {
        self.0.try_recv(lane)
    }

    /// Ends the connection in order: takes nothing more, delivers what was sent, as far as the linger time
    /// ([`Config::linger`](arq_proto::Config::linger)) allows, and lets the peer know. Waits for the end, and for
    /// the peer to know, for at most the linger time again. [`Self::closed`] says whether everything was delivered: it was
    /// not if the reason is [`ConnectionError::LingerExpired`].
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
        self.lifecycle(|state| match &state.lifecycle {
            Lifecycle::Closed(reason) => Some(reason.clone()),
            Lifecycle::Opening | Lifecycle::Established => None,
        })
        .await
    }

    /// Why the connection has ended; `None` while it has not.
    #[must_use]
    pub fn close_reason(&self) -> Option<ConnectionError> {
        match &self.0.state.lock().lifecycle {
            Lifecycle::Closed(reason) => Some(reason.clone()),
            Lifecycle::Opening | Lifecycle::Established => None,
        }
    }

    /// Waits for the handshake.
    pub(in crate::driver) async fn established(&self) -> Result<(), ConnectError> {
        self.lifecycle(|state| match (&state.lifecycle, &state.send_error) {
            (Lifecycle::Opening, _) => None,
            (Lifecycle::Established, _) => Some(Ok(())),
            (
                Lifecycle::Closed(
                    reason @ (ConnectionError::HandshakeTimedOut { .. }
                    | ConnectionError::Unsendable),
                ),
                Some(source),
            ) => {
                let (reason, source) = (reason.clone(), source.clone());
                Some(Err(ConnectError::Unsent { reason, source }))
            }
            (Lifecycle::Closed(reason), _) => Some(Err(reason.clone().into())),
        })
        .await
    }

    /// Waits until everything that was sent has arrived, for the linger time at most.
    pub async fn delivered(&self) {
        let delivered = self.progress(|state| {
            matches!(state.lifecycle, Lifecycle::Closed(_)) || state.core.send_buffer_bytes() == 0
        });
        let _ = tokio::time::timeout(self.0.linger, delivered).await;
    }

    /// Waits for a step in the connection's life.
    async fn lifecycle<T>(&self, reached: impl Fn(&Guarded) -> Option<T>) -> T {
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
    pub(super) async fn progress(&self, reached: impl Fn(&Guarded) -> bool) {
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

    /// Who the peer has proved to be, where packets are sealed: of the type that the security behind tells.
    #[must_use]
    pub fn peer_identity(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.0.state.lock().core.peer_identity()
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

impl Clone for Connection {
    fn clone(&self) -> Self {
        self.0.handles.fetch_add(1, Ordering::Relaxed);
        Self(self.0.clone())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.finish();
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("local", &self.local())
            .field("remote", &self.remote())
            .finish_non_exhaustive()
    }
}

impl Inner {
    pub(super) fn finish(self: &Arc<Self>) {
        self.with_core(|state, now| state.core.finish(now));
        self.transmit(CALLER_BATCHES);
    }

    /// Pending if the lane is full: then `message` is what it was, and nothing is left of it otherwise.
    pub(super) fn poll_send(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        lane: LaneId,
        message: &mut Bytes,
        more: bool,
    ) -> Poll<Result<(), SendError>> {
        match self.offer(lane, std::mem::take(message), more, Some(cx)) {
            Err(SendError::Full(refused)) => {
                *message = refused;
                Poll::Pending
            }
            taken => Poll::Ready(taken),
        }
    }

    pub(super) fn try_send(
        self: &Arc<Self>,
        lane: LaneId,
        message: Bytes,
    ) -> Result<(), SendError> {
        self.offer(lane, message, false, None)
    }

    /// Hands `message` to `lane`. If that is full, `waiter` is woken when it has room.
    fn offer(
        self: &Arc<Self>,
        lane: LaneId,
        message: Bytes,
        more: bool,
        waiter: Option<&mut Context<'_>>,
    ) -> Result<(), SendError> {
        let mut state = self.state.lock();
        let now = now();
        let taken = state.core.send_part(now, lane, message, more);
        let taken = taken.map_err(|error| state.send_error(error));
        if taken.is_ok() && self.role.take_on() {
            // Who sends settles afterwards: the message does not wait for that.
            self.send_up_to(CALLER_BATCHES, state, now);
            return taken;
        }
        if let (Err(SendError::Full(_)), Some(cx)) = (&taken, waiter) {
            state.waiters.wait_writable(lane, cx);
        }
        self.settle_and_unlock(state);
        taken
    }

    pub(super) fn poll_recv(
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
            if let Lifecycle::Closed(reason) = &state.lifecycle {
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

    pub(super) fn try_recv(self: &Arc<Self>, lane: LaneId) -> Option<Bytes> {
        let (message, made_room) = self
            .with_core(|state, now| (state.core.recv(now, lane), state.core.has_credit_to_grant()));
        if made_room {
            self.transmit(CALLER_BATCHES);
        }
        message
    }
}

impl Guarded {
    fn send_error(&self, error: arq_proto::SendError) -> SendError {
        match error {
            arq_proto::SendError::Blocked(message) => SendError::Full(message),
            arq_proto::SendError::TooLarge { len, max } => SendError::TooLarge { len, max },
            arq_proto::SendError::Empty => SendError::Empty,
            // What there is no word for yet ends the sending as well.
            _ => SendError::Closed(self.reason()),
        }
    }
}
