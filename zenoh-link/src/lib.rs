// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which link serves a locator, and who makes that link?
//!
//! A drop-in for the crate that zenoh 1.10.2 asks these two questions: same name, version, cargo
//! features and public names, but the set of links is an open table. The stock links are its first
//! entries, `arq/` is one of them, and [`register`] adds links that this crate has never heard of:
//!
//! ```no_run
//! # use zenoh_link::*;
//! # #[derive(Default)] struct MyInspector;
//! # #[async_trait::async_trait] impl commons::LocatorInspector for MyInspector {
//! #   fn protocol(&self) -> &str { "my" }
//! #   async fn is_multicast(&self, _: &Locator) -> zenoh_result::ZResult<bool> { Ok(false) }
//! #   fn is_reliable(&self, _: &Locator) -> zenoh_result::ZResult<bool> { Ok(true) } }
//! # use arq::LinkManagerUnicastArq as MyLinkManager;
//! # fn main() -> zenoh_result::ZResult<()> {
//! // Before the first session opens; from then on `my/…` is a locator like any other.
//! register(LinkDescriptor::new::<MyInspector>().unicast(MyLinkManager::new))?;
//! # Ok(()) }
//! ```

mod registry;
mod stock;

use std::{collections::HashMap, fmt, ops::Deref};

use zenoh_config::Config;
use zenoh_result::{bail, Error, ZResult};

pub use registry::{register, LinkDescriptor, Serves};
/// The traits that a link implements, by their own path: the trait `LocatorInspector` shares its
/// name with the struct here, which is what zenoh expects under it.
pub use zenoh_link_commons as commons;
pub use zenoh_link_commons::*;
pub use zenoh_protocol::core::{EndPoint, Locator};

#[cfg(feature = "transport_arq")]
pub use zenoh_link_arq as arq;
#[cfg(feature = "transport_quic")]
pub use zenoh_link_quic as quic;
#[cfg(feature = "transport_quic_datagram")]
pub use zenoh_link_quic_datagram as quic_datagram;
#[cfg(feature = "transport_serial")]
pub use zenoh_link_serial as serial;
#[cfg(feature = "transport_tcp")]
pub use zenoh_link_tcp as tcp;
#[cfg(feature = "transport_tls")]
pub use zenoh_link_tls as tls;
#[cfg(feature = "transport_udp")]
pub use zenoh_link_udp as udp;
#[cfg(feature = "transport_unixpipe")]
pub use zenoh_link_unixpipe as unixpipe;
#[cfg(all(feature = "transport_unixsock-stream", target_family = "unix"))]
pub use zenoh_link_unixsock_stream as unixsock_stream;
#[cfg(all(feature = "transport_vsock", target_os = "linux"))]
pub use zenoh_link_vsock as vsock;
#[cfg(feature = "transport_ws")]
pub use zenoh_link_ws as ws;

/// Names one entry of the table of links: an opaque key, equal only to itself.
#[derive(Clone, Copy)]
pub struct LinkKind(&'static LinkDescriptor);

impl LinkKind {
    /// The kinds behind these protocol names, as in zenoh's `transport/link/protocols`.
    ///
    /// A name without a link adds nothing, so one config file can serve differently built nodes.
    pub fn new_supported_links<'p>(protocols: impl Iterator<Item = &'p str>) -> Vec<Self> {
        let kinds = registry::kinds();
        protocols
            .flat_map(|protocol| kinds.iter().filter(move |kind| kind.0.protocol() == protocol))
            .copied()
            .collect()
    }
}

impl TryFrom<&Locator> for LinkKind {
    type Error = Error;

    fn try_from(locator: &Locator) -> ZResult<Self> {
        registry::resolve(locator)
    }
}

impl TryFrom<&EndPoint> for LinkKind {
    type Error = Error;

    fn try_from(endpoint: &EndPoint) -> ZResult<Self> {
        registry::resolve(&endpoint.to_locator())
    }
}

impl PartialEq for LinkKind {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for LinkKind {}

impl std::hash::Hash for LinkKind {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::ptr::hash(self.0, state);
    }
}

impl fmt::Debug for LinkKind {
    /// zenoh prints lists of kinds in its errors, so the name that users write in locators.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.0, f)
    }
}

/// Every link in the table at the moment of looking: the stock ones and all registered so far.
///
/// zenoh copies it when a session opens without `transport/link/protocols` in its config, hence a
/// link registered before that is accepted by that session.
pub const ALL_SUPPORTED_LINKS: &SupportedLinks = &SupportedLinks(());

/// The type of [`ALL_SUPPORTED_LINKS`]: reads as a slice of [`LinkKind`].
#[derive(Debug)]
pub struct SupportedLinks(());

impl Deref for SupportedLinks {
    type Target = [LinkKind];

    fn deref(&self) -> &[LinkKind] {
        registry::kinds()
    }
}

impl<'a> IntoIterator for &'a SupportedLinks {
    type Item = &'a LinkKind;
    type IntoIter = std::slice::Iter<'a, LinkKind>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Answers what zenoh wants to know of a locator before any link exists.
#[derive(Debug, Default, Clone)]
pub struct LocatorInspector(());

impl LocatorInspector {
    /// Whether links to `locator` deliver everything, from its metadata or its protocol's default.
    pub fn is_reliable(&self, locator: &Locator) -> ZResult<bool> {
        LinkKind::try_from(locator)?.0.is_reliable(locator)
    }

    /// Whether `locator` names a group of nodes.
    pub async fn is_multicast(&self, locator: &Locator) -> ZResult<bool> {
        LinkKind::try_from(locator)?.0.is_multicast(locator).await
    }
}

/// Turns a node's config into the endpoint config that each kind of link starts from.
#[derive(Debug, Default)]
pub struct LinkConfigurator(());

impl LinkConfigurator {
    /// The endpoint config (the part after `#`) per kind, and the kinds whose config is bad.
    pub fn configurations(
        &self,
        config: &Config,
    ) -> (HashMap<LinkKind, String>, HashMap<LinkKind, Error>) {
        let mut configs = HashMap::new();
        let mut errors = HashMap::new();
        for &kind in ALL_SUPPORTED_LINKS {
            match kind.0.configuration(config) {
                Some(Ok(endpoint_config)) => drop(configs.insert(kind, endpoint_config)),
                Some(Err(error)) => drop(errors.insert(kind, error)),
                None => {}
            }
        }
        (configs, errors)
    }
}

/// Makes managers of links between two nodes.
#[derive(Debug)]
pub struct LinkManagerBuilderUnicast;

impl LinkManagerBuilderUnicast {
    /// A manager for links of `endpoint`'s kind, which hands accepted links to `accepted`.
    pub fn make(
        accepted: NewLinkChannelSender,
        endpoint: &EndPoint,
    ) -> ZResult<LinkManagerUnicast> {
        let kind = LinkKind::try_from(endpoint)?;
        match kind.0.unicast_manager(accepted) {
            Some(manager) => Ok(manager),
            None => bail!("Unicast not supported for link {kind:?}"),
        }
    }
}

/// Makes managers of links among a group of nodes.
#[derive(Debug)]
pub struct LinkManagerBuilderMulticast;

impl LinkManagerBuilderMulticast {
    /// A manager for multicast links of this kind.
    pub fn make(link_kind: LinkKind) -> ZResult<LinkManagerMulticast> {
        match link_kind.0.multicast_manager() {
            Some(manager) => Ok(manager),
            None => bail!("Multicast not supported for link {link_kind:?}"),
        }
    }
}
