// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Selective-repeat ARQ over datagrams, as a state machine without I/O.
//!
//! Packets are lost, reordered and duplicated below; messages arrive once and in order above, on
//! sixteen lanes that never hold each other up. This crate has no sockets, tasks, clocks or process
//! randomness: time and seed are arguments, so every run can be repeated.
//!
//! An [`Endpoint`] owns what one UDP socket needs: it says which [`Connection`] a datagram belongs
//! to and makes new ones. A connection is driven in a loop:
//!
//! ```
//! use std::{net::SocketAddr, time::Instant};
//! use arq_proto::{Config, Endpoint, EndpointConfig, Event, LaneId, Reliability, Routed};
//!
//! let now = Instant::now();
//! let (a, b): (SocketAddr, SocketAddr) = ("[::1]:1".parse()?, "[::1]:2".parse()?);
//! let mut server =
//!     Endpoint::new(EndpointConfig { accept: Some(Config::default()), ..Default::default() }, [1; 32], now);
//! let mut client = Endpoint::new(EndpointConfig::default(), [2; 32], now);
//!
//! let (_, mut near) = client.connect(now, b, Config::default());
//! let mut far = None;
//! let lane = LaneId::new(5, Reliability::Reliable).unwrap();
//! let mut received = None;
//! // The wire of this example is two buffers; a driver has a socket and a timer instead.
//! let (mut wire, mut reply) = (Vec::new(), Vec::new());
//! while received.is_none() {
//!     while near.poll_transmit(now, &mut wire, 1).is_some() {
//!         match server.route(now, a, &wire, &mut reply) {
//!             Routed::Accepted { connection, .. } => far = Some(connection),
//!             Routed::Reply => near.handle_datagram(now, b, &mut reply),
//!             Routed::Connection(_) | Routed::Dropped => {}
//!         }
//!         if let Some(far) = &mut far {
//!             far.handle_datagram(now, a, &mut wire);
//!         }
//!         wire.clear();
//!     }
//!     while let Some(event) = near.poll_event() {
//!         if event == Event::Connected {
//!             near.send(now, lane, "hello".into())?;
//!         }
//!     }
//!     received = far.as_mut().and_then(|far| far.recv(now, lane));
//! }
//! assert_eq!(received.unwrap(), "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! After any `handle_*`, `send`, `recv`, `finish` or `close`: take the events with
//! [`Connection::poll_event`], send what [`Connection::poll_transmit`] yields, and call
//! [`Connection::handle_timeout`] at [`Connection::poll_timeout`].
//!
//! The wire format and all that a peer must know are in `docs/protocol.md`, whose requirement numbers (`ARQ-…`)
//! the code cites. How a sender decides is documented in the modules.

// One module allows it, with its reasons: the vector instructions of `fec::kernel`.
#![deny(unsafe_code)]
#![deny(clippy::iter_over_hash_type)]

mod acks;
mod admission;
mod batches;
mod chunk_size;
pub mod config;
mod congestion;
mod connection;
mod endpoint;
mod error;
mod event;
#[doc(hidden)]
pub mod fec;
mod flow;
mod pacing;
mod path_mtu;
mod per_lane;
#[doc(hidden)]
pub mod range_set;
mod recovery;
#[doc(hidden)]
pub mod recv;
mod send;
mod sent;
mod stats;
mod symbol_set;
mod timer;
mod units;
#[doc(hidden)]
pub mod wire;

pub use config::{Config, ConfigBuilder, ConfigError, CongestionConfig, FecConfig, Scheme};
pub use connection::{
    Connection, Datagram, Refusal, Transmit, UnreachableReport, ONE_CHUNK_OVERHEAD_BYTES,
};
pub use endpoint::{ConnectionHandle, Endpoint, EndpointConfig, Routed};
pub use error::{ConnectionError, RefuseReason, SendError, Unreachable, Violation};
pub use event::Event;
pub use recv::WORTH_RECYCLING_BYTES;
pub use stats::{EndpointStats, LaneStats, Stats};
pub use timer::TimerKind;
pub use units::{
    ConnectionId, LaneId, LaneSet, MessageSeq, PacketNumber, Probability, Rate, Reliability,
};
pub use wire::{BASE_MTU, MAX_MESSAGE_BYTES, VERSION};
