// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

#![doc = include_str!("../README.md")]
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
mod chance;
mod chunk_size;
pub mod config;
mod congestion;
mod connection;
mod endpoint;
mod error;
mod event;
#[cfg(not(feature = "internals"))]
mod fec;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod fec;
mod flow;
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

pub use config::{Config, ConfigBuilder, ConfigError, CongestionConfig, FecConfig};
pub use connection::{
    Connection, Datagram, Refusal, Transmit, UnreachableReport, ONE_CHUNK_OVERHEAD_BYTES,
};
pub use endpoint::{Connect, ConnectionHandle, Endpoint, EndpointConfig, Routed};
pub use error::{ConnectionError, RefuseReason, SendError, Unreachable, Violation};
pub use event::Event;
pub use recv::WORTH_RECYCLING_BYTES;
pub use stats::{EndpointStats, LaneStats, Stats};
pub use textbook::Scheme;
pub use timer::TimerKind;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use units::{ConnectionId, PacketNumber};
pub use units::{LaneId, LaneSet, Probability, Reliability};
pub use wire::{is_handshake, DecodeError, BASE_MTU, MAX_MESSAGE_BYTES, VERSION};
