// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The application's handle of one lane: messages in, messages out.

use std::{
    fmt,
    future::{poll_fn, Future},
    pin::{pin, Pin},
    task::{ready, Context, Poll},
};

use arq_proto::{ConnectionError, LaneId};
use bytes::Bytes;
use futures_core::Stream;
use futures_sink::Sink;
use tokio::task::coop::cooperative;

use super::{Connection, SendError};

/// One lane of a connection, both ways: an order of messages that no other lane holds up.
///
/// Cheap to clone, and a handle of the connection as well: that stays open while there is one. `send` and `recv` may be
/// called by several tasks at once; each message goes to one of those that read.
///
/// It is a [`Stream`] of what arrives, whose last item says why the connection has ended, and a [`Sink`] of what is
/// to be sent. A flushed sink has handed everything to the lane: what has arrived, [`Connection::delivered`] tells, and
/// [`Connection::finish`] is what closes. Stream and sink need `&mut self`: one task reads, another one writes a clone.
pub struct Lane {
    connection: Connection,
    id: LaneId,
    /// An item of the sink that the lane had no room for.
    unsent: Option<Bytes>,
    /// The stream has said why it ends.
    is_over: bool,
}

impl Connection {
    /// The handle of a lane. All lanes exist on both sides from the beginning.
    #[must_use]
    pub fn lane(&self, id: LaneId) -> Lane {
        Lane { connection: self.clone(), id, unsent: None, is_over: false }
    }
}

impl Lane {
    /// Hands a message to the lane, and waits while that is full. When the future is dropped before it is ready,
    /// nothing of the message was taken.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send(&self, message: impl Into<Bytes>) -> Result<(), SendError> {
        self.connection.send(self.id, message).await
    }

    /// Hands a message to the lane if that has room.
    ///
    /// # Errors
    /// [`SendError::Full`], which gives the message back, if it has none; otherwise as [`Self::send`].
    pub fn try_send(&self, message: impl Into<Bytes>) -> Result<(), SendError> {
        self.connection.0.try_send(self.id, message.into())
    }

    /// Waits for the next whole message. When the future is dropped before it is ready, no message is lost.
    ///
    /// # Errors
    /// Why the connection has ended, after everything that had arrived was read.
    pub async fn recv(&self) -> Result<Bytes, ConnectionError> {
        self.connection.recv(self.id).await
    }

    /// The next message, if one is whole.
    #[must_use]
    pub fn try_recv(&self) -> Option<Bytes> {
        self.connection.try_recv(self.id)
    }

    /// Which lane it is.
    #[must_use]
    pub fn id(&self) -> LaneId {
        self.id
    }

    /// Its connection.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Hands over what the sink has kept.
    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        let Self { connection, id, unsent, .. } = self;
        let Some(message) = unsent else { return Poll::Ready(Ok(())) };
        let send = poll_fn(|cx| connection.poll_send(cx, *id, message, false));
        let sent = ready!(pin!(cooperative(send)).poll(cx));
        self.unsent = None;
        Poll::Ready(sent)
    }
}

impl Clone for Lane {
    /// What this sink has kept stays with it.
    fn clone(&self) -> Self {
        self.connection.lane(self.id)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connection, id, .. } = self;
        f.debug_struct("Lane")
            .field("id", id)
            .field("connection", connection)
            .finish_non_exhaustive()
    }
}

impl Stream for Lane {
    type Item = Result<Bytes, ConnectionError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let lane = self.get_mut();
        if lane.is_over {
            return Poll::Ready(None);
        }
        let received = ready!(pin!(lane.recv()).poll(cx));
        lane.is_over = received.is_err();
        Poll::Ready(Some(received))
    }
}

impl Sink<Bytes> for Lane {
    type Error = SendError;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.get_mut().poll_unsent(cx)
    }

    /// The message leaves at once if the lane has room, and otherwise when the sink is polled next.
    fn start_send(self: Pin<&mut Self>, message: Bytes) -> Result<(), SendError> {
        let lane = self.get_mut();
        if lane.unsent.is_some() {
            return Err(SendError::Full(message));
        }
        match lane.try_send(message) {
            Err(SendError::Full(message)) => lane.unsent = Some(message),
            result => return result,
        }
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.get_mut().poll_unsent(cx)
    }

    /// As [`Sink::poll_flush`]: a lane ends with its connection.
    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.get_mut().poll_unsent(cx)
    }
}
