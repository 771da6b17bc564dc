// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How does an endpoint behave, and how is a connection opened?

use std::{hash::Hasher, sync::Arc};

use siphasher::sip::SipHasher24;

use crate::{
    config::ValidConfig,
    session::{Protection, Security},
    units::SocketId,
};

pub(super) const DEFAULT_MAX_CONNECTIONS: usize = 4_096;
/// Handshakes at once of clients that may be anywhere: a signature and 16 KiB each.
const UNVALIDATED_HANDSHAKES: usize = 64;

/// How an endpoint behaves.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// The configuration of accepted connections; `None` accepts none.
    pub accept: Option<ValidConfig>,
    /// Connections at once; further ones are refused. A source, an IPv4 /24 or an IPv6 /48, holds at most 16, or three
    /// for each that is free.
    pub max_connections: usize,
    /// Connections of a source at once, at most: no further limit by default.
    pub max_connections_per_source: usize,
    /// What accepted connections are protected by. Who offers something else is refused.
    pub protection: Protection,
    /// Cryptographic handshakes at once of clients that have not shown that they receive at their address, 64 by default.
    /// Others are asked for a cookie first, which takes another round trip. 0 asks all.
    pub max_unvalidated_handshakes: usize,
}

impl EndpointConfig {
    /// Accepts connections with this configuration, or none.
    #[must_use]
    pub fn new(accept: impl Into<Option<ValidConfig>>) -> Self {
        Self {
            accept: accept.into(),
            max_connections: DEFAULT_MAX_CONNECTIONS,
            max_connections_per_source: usize::MAX,
            protection: Protection::Clear,
            max_unvalidated_handshakes: UNVALIDATED_HANDSHAKES,
        }
    }

    /// Sets [`Self::max_connections`].
    #[must_use]
    pub fn with_max_connections(self, max_connections: usize) -> Self {
        Self { max_connections, ..self }
    }

    /// Sets [`Self::max_connections_per_source`].
    #[must_use]
    pub fn with_max_connections_per_source(self, max_connections_per_source: usize) -> Self {
        Self { max_connections_per_source, ..self }
    }

    /// Sets [`Self::max_unvalidated_handshakes`].
    #[must_use]
    pub fn with_max_unvalidated_handshakes(self, max_unvalidated_handshakes: usize) -> Self {
        Self { max_unvalidated_handshakes, ..self }
    }

    /// Sets [`Self::protection`].
    #[must_use]
    pub fn with_protection(self, protection: Protection) -> Self {
        Self { protection, ..self }
    }
}

/// How a connection is opened.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Connect {
    /// Its configuration.
    pub config: ValidConfig,
    /// What it is protected by. A peer that takes something else is an error.
    pub protection: Protection,
    /// Whom the peer must prove to be where packets are sealed: the name or IP address in its certificate.
    pub server_name: String,
    /// The socket that the handshake goes through.
    pub socket: SocketId,
    /// What names this host, see [`Self::on_host`].
    pub host: Option<u64>,
}

impl Connect {
    /// Sets [`Self::socket`].
    #[must_use]
    pub fn through(self, socket: SocketId) -> Self {
        Self { socket, ..self }
    }

    /// Names the running system of this host by bytes that no other one has, and that outlive the process (Linux:
    /// `/proc/sys/kernel/random/boot_id`). A server, and nobody else, is told a digest of them where packets are sealed: by
    /// that it finds what a killed process has left behind.
    #[must_use]
    pub fn on_host(self, name: &[u8]) -> Self {
        let mut hasher = SipHasher24::new_with_key(b"zenoh-arq's host");
        hasher.write(name);
        Self { host: Some(hasher.finish()), ..self }
    }

    /// Seals packets with the keys of a handshake with `server_name`.
    #[must_use]
    pub fn sealed(
        config: ValidConfig,
        security: Arc<dyn Security>,
        server_name: impl Into<String>,
    ) -> Self {
        let (protection, server_name) = (Protection::Sealed(security), server_name.into());
        Self { config, protection, server_name, ..Self::default() }
    }
}

impl From<ValidConfig> for Connect {
    /// In the clear.
    fn from(config: ValidConfig) -> Self {
        Self { config, ..Self::default() }
    }
}

impl Default for EndpointConfig {
    /// Accepts none, and has 4,096 connections at most.
    fn default() -> Self {
        Self::new(None)
    }
}
