// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The `arq/` link of zenoh: every message arrives, whatever the network drops, reorders,
//! duplicates or delays.
//!
//! Three rings, each knowing only what is inside it: the protocol as a pure state machine is
//! [`arq_proto`]; [`arq_tokio`] runs it on tokio and knows nothing of zenoh; this crate shows it to
//! zenoh as a link. An application does not use this crate: it gets the link with zenoh itself,
//! through the workspace's `zenoh-link`, as `arq/host:port?metadata#config`. What those keys are is
//! in [`config::KEYS`] and in `docs/configuration.md`. Without zenoh it uses [`arq_tokio`].

#![deny(unsafe_code)]

pub mod config;
mod last_words;
mod link;
mod manager;
pub mod metrics;
mod security;
pub mod statistics;
mod terms;
mod zenoh_quirks;

use async_trait::async_trait;
use zenoh_link_commons::LocatorInspector;
use zenoh_protocol::{
    core::{Locator, Metadata, Reliability},
    transport::BatchSize,
};
use zenoh_result::ZResult;

pub use manager::LinkManagerUnicastArq;
pub use security::ArqConfigurator;
pub use statistics::{repairs_sent, statistics, AssociationStats};

/// The protocol part of an `arq/host:port` locator.
pub const ARQ_LOCATOR_PREFIX: &str = "arq";

/// The longest batch of zenoh on a link. It never changes: how a batch is cut into packets is the
/// protocol's affair. Between processes of one machine it is not cut: it fills the longest datagram
/// that a loopback device carries over IPv6.
pub const ARQ_MTU: BatchSize =
    arq_proto::config::MAX_MTU_IPV6 - arq_proto::ONE_CHUNK_OVERHEAD_BYTES as BatchSize;

/// Answers what zenoh asks of a locator before it opens a link.
#[derive(Debug, Default, Clone, Copy)]
pub struct ArqLocatorInspector;

#[async_trait]
impl LocatorInspector for ArqLocatorInspector {
    fn protocol(&self) -> &str {
        ARQ_LOCATOR_PREFIX
    }

    async fn is_multicast(&self, _locator: &Locator) -> ZResult<bool> {
        Ok(false)
    }

    fn is_reliable(&self, locator: &Locator) -> ZResult<bool> {
        let reliability = locator
            .metadata()
            .get(Metadata::RELIABILITY)
            .map(str::parse::<Reliability>)
            .transpose()?;
        Ok(reliability.unwrap_or(Reliability::Reliable) == Reliability::Reliable)
    }
}
