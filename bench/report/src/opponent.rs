// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which links are compared? The list is `bench/links.toml`; a new one is a few lines there.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::scenario::quoted;

/// A link (or another program's transport) under test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opponent {
    /// How scenarios and reports call it.
    pub name: String,
    /// What it is, in a few words.
    pub about: String,
    /// Which program carries the messages.
    #[serde(default)]
    pub carrier: Carrier,
    /// The locator; `{host}` and `{port}` are filled in. `;` and `#` as zenoh writes them.
    #[serde(default)]
    pub endpoint: String,
    /// What only the side that connects adds to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub connect: String,
    /// zenoh configuration on both sides, by key path, in JSON5.
    #[serde(default)]
    pub zenoh: BTreeMap<String, String>,
    /// The congestion control of the kernel's TCP on both hosts.
    #[serde(default)]
    pub tcp_congestion_control: Option<String>,
    /// Kernel parameters of both hosts while it runs.
    #[serde(default)]
    pub sysctl: BTreeMap<String, String>,
    /// What a listener with a certificate shows.
    #[serde(default, skip_serializing_if = "Chain::is_default")]
    pub certificates: Chain,
    /// Whether it speaks our protocol.
    #[serde(default)]
    pub ours: bool,
}

/// Which program carries the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// A zenoh session on the locator.
    #[default]
    Zenoh,
    /// KCP (`tokio_kcp`) in its fast mode, without zenoh.
    Kcp,
}

/// The certificates that a listener shows, from its own up to the one that the authority has signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chain {
    /// Its own alone, with a key of P-256.
    #[default]
    P256,
    /// Its own and its issuer's.
    P256Issuer,
    /// The same with keys of RSA, 2,048 bits.
    Rsa2048Issuer,
    /// Its own and two issuers', with keys of RSA, 4,096 bits.
    Rsa4096TwoIssuers,
}

impl Chain {
    /// How many issuers stand between the listener's certificate and the authority.
    pub const fn issuers(self) -> usize {
        match self {
            Self::P256 => 0,
            Self::P256Issuer | Self::Rsa2048Issuer => 1,
            Self::Rsa4096TwoIssuers => 2,
        }
    }

    /// The length of its keys if they are of RSA.
    pub const fn rsa_bits(self) -> Option<u32> {
        match self {
            Self::P256 | Self::P256Issuer => None,
            Self::Rsa2048Issuer => Some(2_048),
            Self::Rsa4096TwoIssuers => Some(4_096),
        }
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// No link has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no link `{name}`; the links are {}", quoted(valid))]
pub struct UnknownLink {
    /// What was asked for.
    pub name: String,
    /// What there is.
    pub valid: Vec<String>,
}

/// The file of links, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Links {
    link: Vec<Opponent>,
}

/// All links of `bench/links.toml`, in its order.
pub fn all() -> Vec<Opponent> {
    let links: Links = toml::from_str(include_str!("../links.toml")).expect("a test reads it");
    links.link
}

/// The link of this name in `bench/links.toml`.
pub fn find(name: &str) -> Result<Opponent, UnknownLink> {
    choose(name, &all())
}

/// The link of this name among `links`.
pub(crate) fn choose(name: &str, links: &[Opponent]) -> Result<Opponent, UnknownLink> {
    let found = links.iter().find(|link| link.name == name).cloned();
    found.ok_or_else(|| UnknownLink {
        name: name.to_owned(),
        valid: links.iter().map(|link| link.name.clone()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_is_whole_and_named_once() {
        let links = all();
        for link in &links {
            assert!(!link.about.is_empty(), "{}", link.name);
            assert_eq!(link.ours, link.endpoint.starts_with("arq/"), "{}", link.name);
            assert_eq!(links.iter().filter(|other| other.name == link.name).count(), 1);
        }
    }

    #[test]
    fn an_unknown_link_is_answered_with_those_that_exist() {
        let error = find("tpc").unwrap_err().to_string();
        assert!(error.contains("no link `tpc`") && error.contains("`tcp-bbr`"), "{error}");
    }

    #[test]
    fn a_key_that_no_link_has_is_refused() {
        let text = "[[link]]\nname = 'a'\nabout = 'b'\nlocator = 'c'";
        let error = toml::from_str::<Links>(text).err().unwrap().to_string();
        assert!(
            error.contains("unknown field `locator`") && error.contains("`endpoint`"),
            "{error}"
        );
    }
}
