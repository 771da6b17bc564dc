// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What an adapter of another protocol asks of a connection beyond [`Lane`](super::Lane)s.

use std::{
    future::poll_fn,
    task::{Context, Poll},
    time::Duration,
};

use arq_proto::{ConnectionError, LaneId, WORTH_RECYCLING_BYTES};
use bytes::Bytes;

use super::{Connection, Lifecycle, SendError};

/// Messages kept for their memory until the next datagrams come.
const MOST_SPENT: usize = 16;

/// For adapters: what one needs that shows the connection to a protocol with writes, reads and leases of its own, as
/// `zenoh-link-arq` does. An application needs none of it.
impl Connection {
    /// As [`Lane::send`](super::Lane::send), from a poll function. `message` is taken when this is ready, and not before.
    /// `more`: see [`arq_proto::Connection::send_part`].
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn poll_send(
        &self,
        cx: &mut Context<'_>,
        lane: LaneId,
        message: &mut Bytes,
        more: bool,
    ) -> Poll<Result<(), SendError>> {
        self.0.poll_send(cx, lane, message, more)
    }

    /// See [`arq_proto::Connection::drop_rest`].
    pub fn drop_rest(&self, lane: LaneId) {
        self.0.state.lock().core.drop_rest(lane);
    }

    /// As [`Self::recv`], of the first of `lanes` that has one.
    ///
    /// # Errors
    /// As [`Self::recv`].
    pub async fn recv_any(&self, lanes: &[LaneId]) -> Result<Bytes, ConnectionError> {
        let receive = poll_fn(|cx| self.0.poll_recv(cx, lanes));
        tokio::task::coop::cooperative(receive).await
    }

    /// Takes back a message that was read and copied, so that its memory serves the next one.
    pub fn recycle(&self, message: Bytes) {
        if message.len() < WORTH_RECYCLING_BYTES {
            return;
        }
        let mut spent = self.0.spent.lock();
        if spent.len() < MOST_SPENT {
            spent.push(message);
        }
    }

    /// As [`Self::finish`], and nobody waits for it.
    pub fn start_finish(&self) {
        self.0.finish();
    }

    /// Whether everything that was sent has arrived, or can no more. `None`: somebody else has the connection just now.
    #[must_use]
    pub fn try_is_delivered(&self) -> Option<bool> {
        let state = self.0.state.try_lock()?;
        Some(matches!(state.lifecycle, Lifecycle::Closed(_)) || state.core.send_buffer_bytes() == 0)
    }

    /// How long an end in order may take.
    #[must_use]
    pub fn linger(&self) -> Duration {
        self.0.linger
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
}
