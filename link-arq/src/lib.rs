// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The `arq/` link of zenoh.

mod manager;

use async_trait::async_trait;
use zenoh_link_commons::LocatorInspector;
use zenoh_protocol::core::{Locator, Metadata, Reliability};
use zenoh_result::ZResult;

pub use manager::LinkManagerUnicastArq;

/// The protocol part of an `arq/host:port` locator.
pub const ARQ_LOCATOR_PREFIX: &str = "arq";

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
