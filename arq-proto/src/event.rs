// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What a connection tells the application.

use crate::{
    units::{LaneId, PathNumber},
    ConnectionError, PathEvent,
};

/// Something the application may want to act on. Polled with
/// [`Connection::poll_event`](crate::Connection::poll_event).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is done: messages can be sent.
    Connected,
    /// A lane that was empty has a message. Read until `recv` returns `None`.
    Readable(LaneId),
    /// A lane that refused a message has room again.
    Writable(LaneId),
    /// Datagrams that leave in one transmission are lost where single ones arrive: this host damages batches. The
    /// connection sends no more of them.
    BatchesLost,
    /// Something happened to a path of a connection that has several.
    Path(PathNumber, PathEvent),
    /// The connection ended. Said once, and last; what was received before can still be read.
    Closed(ConnectionError),
}
