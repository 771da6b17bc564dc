// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Who is at the other end of a link, as zenoh's access control knows it, and for how long.

use std::{
    sync::Weak,
    time::{Duration, SystemTime},
};

use arq_tokio::Connection;
use zenoh_link_commons::LinkAuthId;

#[cfg(feature = "tls")]
use crate::config::Policy;
use crate::{config::SecurityConfig, link::LinkUnicastArq};

/// How long to sleep at most before the clock is asked again: it may be set meanwhile.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// What is known of a peer.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// For zenoh.
    pub(crate) auth_id: LinkAuthId,
    /// How the link is secured: `none`, `tls`, `mtls` where both sides showed certificates, or `psk`.
    pub(crate) security: &'static str,
    /// When the first certificate of the peer's chain expires.
    pub(crate) expires: Option<SystemTime>,
}

impl Identity {
    /// Of a link whose packets can be read.
    pub(crate) const CLEAR: Self = Self {
        // zenoh's list of link kinds is closed: this is the nearest one.
        auth_id: LinkAuthId::Udp,
        security: "none",
        expires: None,
    };

    /// Of the peer of a connection. Where packets are sealed it is to zenoh what a peer over `quic/` is.
    #[cfg(feature = "tls")]
    pub(crate) fn of(connection: &Connection, config: &SecurityConfig) -> Self {
        use arq_tls::Peer;
        if let Ok(Policy::Clear { .. }) = config.policy() {
            return Self::CLEAR;
        }
        let identity = connection.peer_identity();
        let peer = identity.as_ref().and_then(|peer| peer.downcast_ref::<Peer>());
        let security = match peer {
            Some(Peer::Psk) => "psk",
            Some(_) if config.enable_mtls => "mtls",
            _ => "tls",
        };
        let common_name = peer.and_then(Peer::common_name).map(str::to_owned);
        let expires = peer.and_then(Peer::not_after).map(SystemTime::from);
        Self { auth_id: LinkAuthId::Quic(common_name), security, expires }
    }

    /// Without TLS there is none.
    #[cfg(not(feature = "tls"))]
    pub(crate) fn of(_connection: &Connection, _config: &SecurityConfig) -> Self {
        Self::CLEAR
    }

    /// The name for access control.
    pub(crate) fn common_name(&self) -> Option<&str> {
        match &self.auth_id {
            LinkAuthId::Quic(name) => name.as_deref(),
            _ => None,
        }
    }
}

/// Ends the link when the certificate does, by this host's clock.
pub(crate) async fn expire(link: Weak<LinkUnicastArq>, expires: SystemTime) {
    while let Ok(left) = expires.duration_since(SystemTime::now()) {
        if left.is_zero() {
            break;
        }
        tokio::time::sleep(left.min(MAX_SLEEP)).await;
    }
    if let Some(link) = link.upgrade() {
        link.end_with_certificate();
    }
}
