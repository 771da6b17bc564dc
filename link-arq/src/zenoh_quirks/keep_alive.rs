// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The peer's keep-alive, repeated to zenoh while the connection hears the peer.
//!
//! zenoh counts its lease by itself, from the last batch that came. A keep-alive every quarter of a lease leaves an idle
//! link only three quarters of it to outlast an outage. The connection knows more recently that the peer lives.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use arq_tokio::Connection;
use bytes::Bytes;
use parking_lot::Mutex;

use super::batch::keep_alive_framed_as;

/// A peer's session that hangs in a process that lives is told apart from a quiet one by its own batches: so long after
/// the last, its keep-alive is repeated no more. Longer than the stock interval of 2.5 s.
const REPEAT_FOR: Duration = Duration::from_secs(5);

/// What is known of the peer's session.
#[derive(Debug)]
pub(crate) struct KeepAlive {
    /// zenoh's keep-alive in the framing that both sessions agreed on, once a batch has shown it.
    framed: OnceLock<&'static [u8]>,
    /// When the last batch of the peer's session came, at first when the link was opened.
    heard_at: Mutex<Instant>,
}

impl KeepAlive {
    /// Of a session that opens `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self { framed: OnceLock::new(), heard_at: Mutex::new(now) }
    }

    /// A batch of either session shows the framing.
    pub(crate) fn learn_framing(&self, batch: &[u8]) {
        if self.framed.get().is_none() {
            if let Some(keep_alive) = keep_alive_framed_as(batch) {
                self.framed.get_or_init(|| keep_alive);
            }
        }
    }

    /// A batch of the peer's session came `now`.
    pub(crate) fn on_batch(&self, batch: &[u8], now: Instant) {
        self.learn_framing(batch);
        *self.heard_at.lock() = now;
    }

    /// Whether the peer's session has said something of late.
    pub(crate) fn is_session_heard(&self) -> bool {
        self.heard_at.lock().elapsed() < REPEAT_FOR
    }

    /// The keep-alive once more, when `connection` has just heard the peer. Pending for ever once the connection has ended.
    pub(crate) async fn repeated(&self, connection: &Connection) -> Bytes {
        loop {
            connection.life_sign().await;
            if let Some(keep_alive) = self.framed.get().filter(|_| self.is_session_heard()) {
                return Bytes::from_static(keep_alive);
            }
        }
    }
}
