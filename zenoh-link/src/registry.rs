// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does a link bring to the table, and which entry of the table serves a locator?
//!
//! The table only grows, and its entries live as long as the process: a [`LinkKind`] can then be a
//! plain reference that zenoh copies, compares and keeps. What registration leaks is one descriptor
//! and one short slice per call, a few hundred bytes for a program that registers at its start.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, LazyLock},
};

use parking_lot::RwLock;
use zenoh_config::Config;
use zenoh_link_commons::{
    ConfigurationInspector, LinkManagerMulticast, LinkManagerMulticastTrait, LinkManagerUnicast,
    LinkManagerUnicastTrait, LocatorInspector, NewLinkChannelSender,
};
use zenoh_protocol::core::{Locator, Reliability};
use zenoh_result::{bail, ZResult};

use crate::{stock, LinkKind};

/// For which locators of its protocol a link stands ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serves {
    /// For all of them: the link itself looks at `rel`, if at all.
    Any,
    /// Only for those that ask for this reliability, so that two links can share a protocol's name.
    Only(Reliability),
}

impl Serves {
    fn covers(self, reliability: Reliability) -> bool {
        match self {
            Self::Any => true,
            Self::Only(served) => served == reliability,
        }
    }

    fn overlaps(self, other: Self) -> bool {
        match self {
            Self::Any => true,
            Self::Only(reliability) => other.covers(reliability),
        }
    }
}

type IsReliable = fn(&Locator) -> ZResult<bool>;
type IsMulticast = for<'a> fn(&'a Locator) -> Verdict<'a>;
type Verdict<'a> = Pin<Box<dyn Future<Output = ZResult<bool>> + Send + 'a>>;
type Configure = fn(&Config) -> ZResult<String>;
type MakeUnicast = Box<dyn Fn(NewLinkChannelSender) -> LinkManagerUnicast + Send + Sync>;
type MakeMulticast = Box<dyn Fn() -> LinkManagerMulticast + Send + Sync>;

/// One entry of the table: a protocol's name and everything that zenoh needs to use the link.
pub struct LinkDescriptor {
    protocol: String,
    serves: Serves,
    is_reliable: IsReliable,
    is_multicast: IsMulticast,
    configure: Option<Configure>,
    make_unicast: Option<MakeUnicast>,
    make_multicast: Option<MakeMulticast>,
}

impl LinkDescriptor {
    /// A link for the protocol that `I` names, whose locators `I` judges.
    pub fn new<I: LocatorInspector + Send + Sync>() -> Self {
        Self {
            protocol: I::default().protocol().to_owned(),
            serves: Serves::Any,
            is_reliable: |locator| I::default().is_reliable(locator),
            is_multicast: |locator| {
                Box::pin(async move { I::default().is_multicast(locator).await })
            },
            configure: None,
            make_unicast: None,
            make_multicast: None,
        }
    }

    /// Leaves the locators of the other reliability to another link of the same protocol.
    pub fn only(mut self, reliability: Reliability) -> Self {
        self.serves = Serves::Only(reliability);
        self
    }

    /// How to make the manager of links between two nodes; it hands accepted links to the sender.
    pub fn unicast<M: LinkManagerUnicastTrait + 'static>(
        mut self,
        make: impl Fn(NewLinkChannelSender) -> M + Send + Sync + 'static,
    ) -> Self {
        self.make_unicast = Some(Box::new(move |accepted| Arc::new(make(accepted))));
        self
    }

    /// How to make the manager of links among a group of nodes.
    pub fn multicast<M: LinkManagerMulticastTrait + 'static>(
        mut self,
        make: impl Fn() -> M + Send + Sync + 'static,
    ) -> Self {
        self.make_multicast = Some(Box::new(move || Arc::new(make())));
        self
    }

    /// `C` reads this link's part of a node's config.
    pub fn configured_by<C: ConfigurationInspector<Config>>(mut self) -> Self {
        self.configure = Some(|config| C::default().inspect_config(config));
        self
    }

    pub(crate) fn protocol(&self) -> &str {
        &self.protocol
    }

    pub(crate) fn is_reliable(&self, locator: &Locator) -> ZResult<bool> {
        (self.is_reliable)(locator)
    }

    pub(crate) async fn is_multicast(&self, locator: &Locator) -> ZResult<bool> {
        (self.is_multicast)(locator).await
    }

    pub(crate) fn configuration(&self, config: &Config) -> Option<ZResult<String>> {
        self.configure.map(|configure| configure(config))
    }

    pub(crate) fn unicast_manager(
        &self,
        accepted: NewLinkChannelSender,
    ) -> Option<LinkManagerUnicast> {
        self.make_unicast.as_ref().map(|make| make(accepted))
    }

    pub(crate) fn multicast_manager(&self) -> Option<LinkManagerMulticast> {
        self.make_multicast.as_ref().map(|make| make())
    }
}

impl fmt::Display for LinkDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.serves {
            Serves::Any => f.write_str(&self.protocol),
            Serves::Only(reliability) => write!(f, "{}?rel={reliability}", self.protocol),
        }
    }
}

impl fmt::Debug for LinkDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkDescriptor")
            .field("protocol", &self.protocol)
            .field("serves", &self.serves)
            .finish_non_exhaustive()
    }
}

static TABLE: LazyLock<RwLock<&'static [LinkKind]>> = LazyLock::new(|| {
    let kinds: Vec<LinkKind> = stock::links().into_iter().map(leak).collect();
    RwLock::new(kinds.leak())
});

fn leak(descriptor: LinkDescriptor) -> LinkKind {
    LinkKind(Box::leak(Box::new(descriptor)))
}

/// The table as it stands.
pub(crate) fn kinds() -> &'static [LinkKind] {
    *TABLE.read()
}

/// Adds a link to the table, for the whole process.
///
/// Call it before the sessions that shall use the link are opened: a session takes its list of
/// links when it opens. It is an error when a link stands ready for the same protocol and
/// reliability already, the stock ones included.
pub fn register(descriptor: LinkDescriptor) -> ZResult<LinkKind> {
    let mut table = TABLE.write();
    let taken = |kind: &&LinkKind| {
        kind.0.protocol == descriptor.protocol && kind.0.serves.overlaps(descriptor.serves)
    };
    if let Some(holder) = table.iter().find(taken) {
        bail!("Can not register a link for {descriptor}: {holder:?} is taken");
    }
    let kind = leak(descriptor);
    *table = [*table, &[kind]].concat().leak();
    Ok(kind)
}

/// The entry that serves `locator`.
///
/// Where two links share a protocol, the first of them decides what the locator asks for, so
/// `quic/…` without `rel` is reliable unless only the datagram link is compiled in.
pub(crate) fn resolve(locator: &Locator) -> ZResult<LinkKind> {
    let protocol = locator.protocol();
    let mut candidates =
        kinds().iter().filter(|kind| kind.0.protocol == protocol.as_str()).peekable();
    let Some(&first) = candidates.peek() else {
        bail!(
            "Unicast not supported for {protocol} protocol: {}",
            stock::remedy(protocol.as_str(), None)
        );
    };
    if first.0.serves == Serves::Any {
        return Ok(*first);
    }
    let asked = Reliability::from(first.0.is_reliable(locator)?);
    match candidates.find(|kind| kind.0.serves.covers(asked)) {
        Some(kind) => Ok(*kind),
        None => bail!(
            "No link for {locator} with rel={asked}: {first:?} is the only {protocol} link here: {}",
            stock::remedy(protocol.as_str(), Some(asked))
        ),
    }
}
