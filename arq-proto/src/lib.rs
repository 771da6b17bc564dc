// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

#![doc = include_str!("../README.md")]
//!
//! # What a driver does
//!
//! Every `handle_…`, `send`, `recv`, `finish` and `close` changes a connection. After each, call `poll_transmit` until it returns
//! `None` or a `Transmit` without `more`, then `poll_event` until it returns `None`, then `poll_timeout`, which returns when to come
//! back. Whatever the application does about an event changes the connection again.
//!
//! | what happens | what to do |
//! |---|---|
//! | a datagram comes | `Endpoint::route`, then as `Routed` says |
//! | … `Connection(handle)` | `Connection::handle_datagram` of that one; `handle_datagrams` for several at once is cheaper |
//! | … `Accepted { handle, connection, older }` | keep the connection under its handle and give it the datagram; if there is an `older` one, call its `Connection::handle_newcomer` with the sender's address |
//! | … was handed to a connection | give what `Connection::poll_endpoint_event` says to `Endpoint::handle_event`, and tell each connection that this names by `Connection::handle_sibling` |
//! | … `Reply` | send `reply` to where the datagram came from |
//! | … `Dropped` | nothing |
//! | the time of `poll_timeout` comes | `Connection::handle_timeout`; earlier or more often does no harm |
//! | a `Transmit` | send the new bytes as datagrams of `segment_size` to its `destination`, which may differ each time, from `local_ip` if the socket is bound to all addresses; what cannot be sent counts as lost |
//! | … is too long for the system | `Connection::handle_refused` |
//! | … is refused while the connection is being opened | `Connection::handle_send_refused` |
//! | … is refused for its source address | `Connection::handle_local_ip_gone` |
//! | … has `from_other_port` | send it from a new socket and read from both; the one where the peer is heard is the socket from then on |
//! | an ICMP error comes | `Endpoint::route_report`, then `Connection::handle_unreachable` |
//! | `Event::Connected`, or `remote` has changed | if known: `Connection::handle_interface_mtu` |
//! | `Event::Readable(lane)` | `Connection::recv` until it says `None`: the event comes once, not for each message |
//! | `SendError::Blocked(message)` | keep the message until `Event::Writable(lane)`, then send it again |
//! | `Event::BatchesLost` | tell the operator: this host damages segmentation offload |
//! | `Event::Closed(reason)` | the last event; what had arrived can still be read, and the connection is driven on until `is_drained` |
//! | `Connection::is_drained` | forget the connection, and tell `Endpoint::remove` |
//!
//! Datagrams of a connection must leave in the order in which `poll_transmit` gave them. The driver passes the time in, from one
//! monotonic clock for an endpoint and its connections; a step backwards is counted and clamped. If timers fire more than 100 µs
//! late, say so in `ValidConfig::timer_granularity`.
//!
//! Packets are sealed with `EndpointConfig::with_protection` and `Connect::sealed`, which take a `session::Security`: the driver
//! brings the handshake and its keys, and is told whom it has proved the peer to be by `Connection::peer_identity`. An accepted
//! connection is to be offered to nobody before `Event::Connected`.
// One module allows it, with its reasons: the vector instructions of `fec::kernel`.
#![deny(unsafe_code)]
#![deny(clippy::iter_over_hash_type)]
#![cfg_attr(
    not(feature = "internals"),
    allow(dead_code, unreachable_pub, reason = "the simulator and the fuzzers use these")
)]

mod acks;
mod admission;
mod batches;
mod budget;
mod chance;
mod chunk_size;
pub mod config;
mod congestion;
mod connection;
mod ecn;
mod endpoint;
mod error;
mod event;
#[cfg(not(feature = "internals"))]
mod fec;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod fec;
mod flow;
mod histogram;
pub mod observer;
mod pacing;
mod path_loss;
mod path_mtu;
mod per_lane;
#[cfg(not(feature = "internals"))]
mod range_set;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod range_set;
mod recovery;
#[cfg(not(feature = "internals"))]
mod recv;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod recv;
mod redundancy;
mod send;
mod sent;
pub mod session;
mod stats;
mod symbol;
mod textbook;
mod timer;
mod units;
#[cfg(not(feature = "internals"))]
mod wire;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod wire;

pub use budget::Budget;
pub use config::{Config, ConfigError, CongestionConfig, FecConfig, ValidConfig};
pub use connection::{
    Connection, Datagram, EndpointEvent, Interface, InterfaceUse, PathEvent, PathState, PathStats,
    Refusal, SocketSet, Transmit, UnreachableReport, ONE_CHUNK_OVERHEAD_BYTES,
};
pub use ecn::{EcnCodepoint, EcnCounts, EcnState};
pub use endpoint::{Connect, ConnectionHandle, Endpoint, EndpointConfig, Routed};
pub use error::{ConnectionError, RefuseReason, SendError, Unreachable, Violation};
pub use event::Event;
pub use histogram::Histogram;
pub use recv::WORTH_RECYCLING_BYTES;
pub use stats::{EndpointStats, LaneStats, Stats};
pub use textbook::Scheme;
pub use timer::TimerKind;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use units::{ConnectionId, PacketNumber};
pub use units::{LaneId, LaneSet, PathNumber, Probability, Reliability, SocketId};
pub use wire::{is_handshake, DecodeError, BASE_MTU, MAX_MESSAGE_BYTES, VERSION};
