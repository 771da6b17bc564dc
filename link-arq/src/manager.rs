// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Connects, listens, lists and deletes `arq/` links.

use async_trait::async_trait;
use zenoh_link_commons::{
    ConstructibleLinkManagerUnicast, LinkManagerUnicastTrait, LinkUnicast, NewLinkChannelSender,
};
use zenoh_protocol::core::{EndPoint, Locator};
use zenoh_result::{bail, ZResult};

/// The link manager behind every `arq/` endpoint.
#[derive(Debug)]
pub struct LinkManagerUnicastArq {
    _accepted: NewLinkChannelSender,
}

impl LinkManagerUnicastArq {
    /// Hands every accepted link to `accepted`.
    pub fn new(accepted: NewLinkChannelSender) -> Self {
        Self { _accepted: accepted }
    }
}

impl ConstructibleLinkManagerUnicast<()> for LinkManagerUnicastArq {
    fn new(accepted: NewLinkChannelSender, (): ()) -> ZResult<Self> {
        Ok(Self::new(accepted))
    }
}

#[async_trait]
impl LinkManagerUnicastTrait for LinkManagerUnicastArq {
    async fn new_link(&self, _endpoint: EndPoint) -> ZResult<LinkUnicast> {
        bail!("not yet")
    }
    async fn new_listener(&self, _endpoint: EndPoint) -> ZResult<Locator> {
        bail!("not yet")
    }
    async fn del_listener(&self, _endpoint: &EndPoint) -> ZResult<()> {
        bail!("not yet")
    }
    async fn get_listeners(&self) -> Vec<EndPoint> {
        Vec::new()
    }
    async fn get_locators(&self) -> Vec<Locator> {
        Vec::new()
    }
    async fn get_locators_noloopback(&self) -> Vec<Locator> {
        Vec::new()
    }
}
