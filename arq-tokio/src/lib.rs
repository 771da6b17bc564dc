// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

#![doc = include_str!("../README.md")]
//!
//! # Where to begin
//!
//! [`Endpoint::server`] and [`Endpoint::client`] bind a socket, [`Endpoint::connect`] and [`Endpoint::accept`] make a
//! [`Connection`], [`Connection::lane`] gives a [`Lane`]. Every knob of the protocol is in [`Config`]. What a custom
//! socket must do, and a network in memory for tests in virtual time, is in [`socket`].

#![forbid(unsafe_code)]

mod driver;
mod interfaces;
pub mod socket;

pub use arq_proto::{
    self as proto, Config, Connect, ConnectionError, EndpointConfig, EndpointStats, LaneId,
    PathState, PathStats, Reliability, Stats, ValidConfig, MAX_MESSAGE_BYTES,
};
pub use driver::{
    ConnectError, Connection, Endpoint, InterfaceRole, Lane, PathInfo, PathInterface,
    PathInterfaceError, SendError, Unopened, DEFAULT_METERED_RATE_BPS, TIMER_GRANULARITY,
};
pub use socket::udp::SocketOptions;
