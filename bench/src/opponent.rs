// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which links are compared? The list is `bench/links.toml`; a new one is a few lines there.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
    /// zenoh configuration on both sides, by key path, in JSON5.
    #[serde(default)]
    pub zenoh: BTreeMap<String, String>,
    /// The congestion control of the kernel's TCP on both hosts.
    #[serde(default)]
    pub tcp_congestion_control: Option<String>,
    /// Kernel parameters of both hosts while it runs.
    #[serde(default)]
    pub sysctl: BTreeMap<String, String>,
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
