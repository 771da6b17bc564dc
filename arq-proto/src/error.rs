// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Why an operation was refused, and why a connection ended: who did it, and what was wrong.

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use crate::{session::SessionError, wire::DecodeError};

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The peer was silent for the idle time-out although it was asked.
    #[error("the peer was silent for longer than the idle time-out")]
    TimedOut,
    /// No answer to the handshake within its time-out.
    #[error("no answer within {within:?} to HELLOs of {most} and {least} bytes")]
    HandshakeTimedOut {
        /// The time-out.
        within: Duration,
        /// Length of the longest HELLO, in bytes of UDP payload.
        most: u16,
        /// Length of the others.
        least: u16,
    },
    /// The network says that nothing reaches the peer: nobody has been connected.
    #[error("{0}")]
    Unreachable(Unreachable),
    /// This host refuses to send to the peer: nobody has been connected.
    #[error("the handshake could not be sent")]
    Unsendable,
    /// The peer does not accept this connection.
    #[error("refused by the peer: {0}")]
    Refused(RefuseReason),
    /// This side does without encryption, and the peer does not.
    #[error("the peer only takes encrypted links")]
    PeerOnlySealed,
    /// This side only takes encrypted links, and the peer has none.
    #[error("the peer offers no encryption: not connecting in clear")]
    PeerOnlyClear,
    /// This side ended the cryptographic handshake: the peer did not prove who it is, or broke its rules.
    #[error("the handshake failed: {0}")]
    HandshakeFailed(SessionError),
    /// The peer ended the cryptographic handshake, or did not take what this side proved to be.
    #[error("the peer ended the handshake: {reason} (alert {alert})")]
    PeerEndedHandshake {
        /// The alert (RFC 8446 §6).
        alert: u8,
        /// Why, for people.
        reason: String,
    },
    /// The keys have sealed, or failed to open, as many packets as they may, and there are no others yet.
    #[error("the keys of the connection are used up")]
    KeysUsedUp,
    /// The peer closed the connection.
    #[error("closed by the peer: {0}")]
    PeerClosed(String),
    /// The local application closed the connection.
    #[error("closed locally")]
    LocallyClosed,
    /// The local application closed the connection, and `linger` was over before everything was delivered.
    #[error("closed locally before everything was delivered")]
    LingerExpired,
    /// The peer no longer knows the connection: it restarted, or had closed it.
    #[error("the peer no longer knows this connection (restarted?)")]
    PeerLostState,
    /// The peer's host says that nobody has the port open, and the peer is silent: its process has ended.
    #[error("the peer's port is closed (its process has ended?)")]
    PeerGone,
    /// The peer restarted and opened a new connection from the same address, or with the same credentials from the same
    /// host, and does not answer any more.
    #[error("replaced by a newer connection of the same client")]
    Replaced,
    /// The peer broke the protocol in an otherwise well-formed packet.
    #[error("protocol violation by the peer: {0}")]
    Violation(Violation),
    /// Every packet number has been used.
    #[error("packet numbers are used up")]
    PacketNumbersUsedUp,
}

/// Why a peer refuses a handshake, as the wire carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RefuseReason {
    /// No protocol version in common.
    #[error("no protocol version in common")]
    Version,
    /// The endpoint has as many connections as it may have.
    #[error("too many connections")]
    Busy,
    /// The cryptographic handshake failed before there were keys.
    #[error("the handshake failed (alert {alert})")]
    Handshake {
        /// The alert (RFC 8446 §6).
        alert: u8,
    },
}

/// What the network says of datagrams that do not reach their destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unreachable {
    /// The host has nobody at the port.
    #[error("port unreachable: nobody listens there")]
    Port,
    /// The host does not answer in its network.
    #[error("host unreachable: no such neighbour")]
    Host,
    /// Nobody knows a way there, or only a circular one.
    #[error("network unreachable: no route to the host")]
    Network,
    /// A firewall rejects it.
    #[error("administratively prohibited: a firewall rejects it")]
    Prohibited,
}

/// A rule that the peer broke, `docs/protocol.md` names each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Violation {
    /// An acknowledgement names a packet that was never sent (ARQ-ACK-6).
    #[error("acknowledged a packet that was never sent")]
    AckOfUnsent,
    /// A frame could not be decoded in a packet that passed its integrity check (ARQ-FRM-1).
    #[error("malformed frame: {0}")]
    Frame(DecodeError),
    /// More bytes of a lane, or of all lanes, than the receive credit allows (ARQ-FLW-2).
    #[error("exceeded the receive credit")]
    Credit,
    /// A message number further ahead than the lane's window (ARQ-MSG-5).
    #[error("message number beyond the lane's window")]
    MessageWindow,
    /// The chunks of one message disagree on its length or chunk size (ARQ-MSG-4).
    #[error("chunks of one message disagree on its shape")]
    MessageShape,
}

/// Why a message was not accepted by [`Connection::send`](crate::Connection::send).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The lane is full; here is the message. [`Event::Writable`](crate::Event::Writable) follows.
    #[error("the lane is full")]
    Blocked(Bytes),
    /// Longer than a message may be.
    #[error("message of {len} bytes, at most {max} are possible")]
    TooLarge {
        /// Length of the message, in bytes.
        len: usize,
        /// The longest message, in bytes.
        max: usize,
    },
    /// A message has at least one byte.
    #[error("an empty message cannot be sent")]
    Empty,
    /// The connection does not (or no longer) accept messages.
    #[error("the connection is not open")]
    Closed,
}
