// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! TLS 1.3 for ARQ associations, by [`rustls`].
//!
//! [`Tls`] is the [`Security`](arq_proto::session::Security) of an endpoint. It is made of rustls' configurations: those of
//! [`server_config`] and [`client_config`] for certificates, of [`Psks`] for pre-shared keys. Who the peer is comes out as
//! a [`Peer`].

#![forbid(unsafe_code)]

mod config;
mod error;
mod keys;
mod peer;
mod psk;
mod session;
#[cfg(test)]
mod vectors;
mod verify;

pub use config::{certified_key, client_config, server_config, ServerName, Trust, ALPN};
pub use error::ConfigError;
pub use peer::Peer;
pub use psk::Psks;
pub use rustls;
pub use session::Tls;
