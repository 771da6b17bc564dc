// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! From a locator to a configuration: `arq/host:port?metadata#config`.
//!
//! Values come from four layers, each over the one before: defaults, a preset by name, a JSON5
//! file, the locator. An unknown key or a value out of range is an error, never ignored.

mod apply;
mod keys;
mod preset;
mod security;

use std::{collections::BTreeMap, net::SocketAddr, path::Path, time::Duration};

use arq_proto::Config;
use arq_tokio::{
    InterfaceRole, PathInterface, SocketOptions, DEFAULT_METERED_RATE_BPS, TIMER_GRANULARITY,
};
use serde::{de::IgnoredAny, Deserialize};
use zenoh_protocol::core::EndPoint;

pub use keys::{ConfigError, Key, Section, Value, KEYS, ZENOH_KEYS};
pub use security::{is_secret, Hidden, Mode, Policy, SecurityConfig, Source};

/// Before zenoh gives up (`transport/unicast/open_timeout`, 10 s): it would say that time was over, the link says why.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(9);

/// Whether both sides of a link agree on an extra.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Never.
    Off,
    /// If the peer allows it.
    Auto,
    /// Or there is no link.
    Insist,
}

/// Through which interfaces a link leads at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Paths {
    /// A connecting link has one path, as the routing table says; a listener takes what it is asked for.
    #[default]
    Unsaid,
    /// One path, also where the peer asks for more.
    Off,
    /// A path through each of them, the preferred first.
    Over(Vec<PathInterface>),
    /// The same through whatever devices this host has. Packets bypass a VPN there, so they must be sealed.
    Auto,
}

impl Paths {
    /// Whether a link leads through interfaces of its own, not as the routing table says.
    #[must_use]
    pub const fn are_several(&self) -> bool {
        matches!(self, Self::Over(_) | Self::Auto)
    }
}

/// All that a locator says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkConfig {
    /// For the protocol. Its `app_params` are filled by the link.
    pub protocol: Config,
    /// For the socket.
    pub socket: SocketOptions,
    /// The local address to connect from, not resolved yet.
    pub bind: Option<String>,
    /// The interfaces to use at once.
    pub paths: Paths,
    /// What passes a metered one of them on average, in bits per second; `None`: as much as there is.
    pub metered_rate_bps: Option<u64>,
    /// What publishers send as best effort is carried as that.
    pub mixed_reliability: Wish,
    /// An order of its own for each priority.
    pub priorities: Wish,
    /// A link that repairs nothing past the deadline.
    pub best_effort: bool,
    /// Links of a listener at once.
    pub max_links: usize,
    /// Those of one network.
    pub max_links_per_source: Option<usize>,
    /// What protects its packets.
    pub security: SecurityConfig,
    /// Where the statistics of the process are served.
    pub metrics: Option<SocketAddr>,
    /// How often the statistics of the link are logged.
    pub stats_log: Option<Duration>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            protocol: Config {
                timer_granularity: TIMER_GRANULARITY,
                handshake_timeout: HANDSHAKE_TIMEOUT,
                ..Config::default()
            },
            socket: SocketOptions::default(),
            bind: None,
            paths: Paths::Unsaid,
            metered_rate_bps: Some(DEFAULT_METERED_RATE_BPS),
            mixed_reliability: Wish::Auto,
            priorities: Wish::Auto,
            best_effort: false,
            max_links: 4_096,
            max_links_per_source: None,
            security: SecurityConfig::default(),
            metrics: None,
            stats_log: None,
        }
    }
}

impl LinkConfig {
    /// Reads all keys of `endpoint`.
    ///
    /// # Errors
    /// Names the key and what it may be.
    pub fn parse(endpoint: &EndPoint) -> Result<Self, ConfigError> {
        let (metadata, config) = (endpoint.metadata(), endpoint.config());
        Self::from_layers(metadata.iter(), config.iter())
    }

    fn from_layers<'a>(
        metadata: impl Iterator<Item = (&'a str, &'a str)>,
        config: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ConfigError> {
        let ours = config.filter(|(key, _)| !ZENOH_KEYS.contains(key));
        let locator = Layer::from_pairs(ours.map(|(key, value)| (key, value.to_owned())))?;
        let file = match locator.text("config") {
            Some(path) => Layer::from_file(path)?,
            None => Layer::default(),
        };
        let preset = match locator.word("preset").or_else(|| file.word("preset")) {
            Some(name) => Layer::from_pairs(preset::values(name))?,
            None => Layer::default(),
        };
        let mut link = Self::default();
        let layers = [&preset, &file, &locator];
        for layer in layers {
            link.apply(layer)?;
        }
        link.apply_congestion(layers)?;
        for (key, value) in metadata {
            link.apply_metadata(key, value)?;
        }
        link.check()
    }

    /// What holds only between keys.
    fn check(mut self) -> Result<Self, ConfigError> {
        let conflict = |text: &str| Err(ConfigError::Conflict(text.to_owned()));
        if self.socket.interface.is_some() && self.bind.is_some() {
            return conflict("`iface` and `bind` exclude each other");
        }
        if let Paths::Over(interfaces) = &mut self.paths {
            let rate_bps = self.metered_rate_bps;
            for interface in interfaces {
                if let InterfaceRole::Metered { rate_bps: rate } = &mut interface.role {
                    *rate = rate_bps;
                }
            }
        }
        if self.paths.are_several() {
            if self.socket.interface.is_some() {
                return conflict(
                    "`paths` and `iface` exclude each other: several interfaces, or one",
                );
            }
            if self.bind.is_some() {
                return conflict(
                    "`paths` and `bind` exclude each other: each interface has an address of its own",
                );
            }
        }
        if self.best_effort && self.mixed_reliability == Wish::Insist {
            return conflict(
                "`rel=0` and `mixed_rel=1` exclude each other: all is best effort, or a part",
            );
        }
        if self.best_effort && self.priorities == Wish::Off {
            return conflict(
                "`rel=0` and `multistream=0` exclude each other: control messages stay reliable, \
                 in an order of their own",
            );
        }
        self.security.policy()?;
        match self.protocol.clone().validate() {
            Ok(_) => Ok(self),
            Err(error) => {
                let fields = error.fields();
                let with_keys = fields.iter().fold(error.to_string(), |text, field| {
                    text.replace(field, &format!("`{}`", keys::key_of(field)))
                });
                conflict(&with_keys)
            }
        }
    }
}

/// The checked keys of one source.
#[derive(Debug, Default)]
struct Layer(BTreeMap<&'static str, keys::Parsed>);

impl Layer {
    fn from_pairs<'a>(
        pairs: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Result<Self, ConfigError> {
        let mut values = BTreeMap::new();
        for (name, text) in pairs {
            let key = Key::find(name, Section::Config)?;
            values.insert(key.name, key.parse(&text)?);
        }
        Ok(Self(values))
    }

    fn from_file(path: &str) -> Result<Self, ConfigError> {
        let failed = |reason: String| ConfigError::File { path: path.to_owned(), reason };
        let text = std::fs::read_to_string(Path::new(path)).map_err(|e| failed(e.to_string()))?;
        let values: BTreeMap<String, Scalar> =
            json5::from_str(&text).map_err(|e| failed(without_its_line(&e.to_string())))?;
        if values.contains_key("config") {
            return Err(failed("a file cannot name another".to_owned()));
        }
        if let Some(key) = ZENOH_KEYS.iter().find(|key| values.contains_key(**key)) {
            return Err(failed(format!(
                "`{key}` is zenoh's, which does not read this file: it belongs in the locator"
            )));
        }
        let parsed = values.iter().map(|(name, value)| -> Result<_, ConfigError> {
            let key = Key::find(name, Section::Config)?;
            Ok((key.name, value.parse(key)?))
        });
        parsed.collect::<Result<_, _>>().map(Self).map_err(|e| failed(e.to_string()))
    }

    fn text(&self, key: &str) -> Option<&str> {
        match self.0.get(key) {
            Some(keys::Parsed::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn number(&self, key: &str) -> Option<u64> {
        match self.0.get(key) {
            Some(keys::Parsed::Number(number)) => *number,
            _ => None,
        }
    }

    fn word(&self, key: &str) -> Option<&'static str> {
        match self.0.get(key) {
            Some(keys::Parsed::Word(word)) => Some(word),
            _ => None,
        }
    }
}

/// An error of the parser without the line that it quotes, where a secret may stand: the place and what was expected.
fn without_its_line(error: &str) -> String {
    let lines: Vec<_> = error.lines().map(str::trim).collect();
    match lines.as_slice() {
        [place, .., expected] => format!("{place} {expected}"),
        _ => error.to_owned(),
    }
}

/// A value in a JSON5 file: anything, so that the key can say what it should have been.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Scalar {
    Bool(bool),
    Whole(u64),
    /// Below zero, with a fraction or an exponent.
    Number(f64),
    Text(String),
    /// No key takes one.
    Null,
    /// A list or an object: no key takes one of these either.
    Nested(IgnoredAny),
}

impl Scalar {
    /// As a locator would say it.
    fn parse(&self, key: &Key) -> Result<keys::Parsed, ConfigError> {
        match self {
            Self::Bool(value) => key.parse(&value.to_string()),
            Self::Whole(value) => key.parse(&value.to_string()),
            Self::Number(value) => key.parse(&value.to_string()),
            Self::Text(value) => key.parse(value),
            Self::Null => Err(key.bad("null")),
            Self::Nested(IgnoredAny) => Err(key.bad("a list or an object")),
        }
    }
}

#[cfg(test)]
mod tests;
