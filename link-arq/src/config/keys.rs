// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which keys does a locator know? One table: the parser takes ranges and error texts from it, and
//! `docs/configuration.md` is tested against it.

use std::fmt;

use arq_proto::{
    config::{MAX_RATE_BPS, MIN_RATE_BPS, MIN_WINDOW_BYTES},
    Budget,
};
use thiserror::Error;

/// One key of a locator or of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Where it stands in a locator.
    pub section: Section,
    /// What it may be.
    pub value: Value,
    /// What holds when it is not given.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

/// The part of a locator that a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// After `?`: told to other nodes.
    Metadata,
    /// After `#`, or in a file: local.
    Config,
}

/// What values a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// A whole number of a unit, within bounds.
    Number {
        /// What is counted.
        unit: &'static str,
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
        /// A word that may stand instead, for having no limit or leaving it to the link.
        or: Option<&'static str>,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// Anything, as described.
    Text(&'static str),
}

impl Value {
    /// What the number counts, for tables.
    #[must_use]
    pub const fn unit(&self) -> &'static str {
        match self {
            Self::Number { unit, .. } => unit,
            Self::Word(_) | Self::Text(_) => "",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { min, max, or: None, .. } => write!(f, "{min}..={max}"),
            Self::Number { min, max, or: Some(word), .. } => write!(f, "{min}..={max}, {word}"),
            Self::Word(words) => f.write_str(&words.join(", ")),
            Self::Text(description) => f.write_str(description),
        }
    }
}

/// A checked value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A number, or `None` for the word that may stand instead.
    Number(Option<u64>),
    /// A word of the list.
    Word(&'static str),
    /// Any text.
    Text(String),
}

/// What is wrong with a locator or a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// There is no such key.
    #[error("unknown key `{key}`, the keys here are: {valid}")]
    UnknownKey {
        /// What was given.
        key: String,
        /// The keys of that part of the locator.
        valid: String,
    },
    /// The value does not fit the key.
    #[error("`{key}={value}` is not valid: expected {expected}")]
    BadValue {
        /// The key.
        key: String,
        /// What was given.
        value: String,
        /// What it may be.
        expected: String,
    },
    /// Two values do not go together.
    #[error("{0}")]
    Conflict(String),
    /// The named file cannot be used.
    #[error("`config={path}`: {reason}")]
    File {
        /// Its path.
        path: String,
        /// Why.
        reason: String,
    },
}

/// The key that sets a field of [`arq_proto::Config`].
pub(super) fn key_of(field: &str) -> &str {
    match field {
        "chunk_bytes" => "chunk",
        "connection_window_bytes" => "rx_window",
        "copies_percent" => "copies",
        "deadline" => "deadline_ms",
        "handshake_timeout" => "handshake_timeout_ms",
        "idle_timeout" => "idle_timeout_ms",
        "keep_alive" => "keep_alive_ms",
        "lane_window_bytes" => "lane_window",
        "linger" => "linger_ms",
        "max_rate_bps" => "max_rate",
        "queue_age" => "queue_age_ms",
        "window_bytes" => "cc_window",
        "window_packets" => "window",
        same => same,
    }
}

impl Key {
    /// The key of this name.
    pub(super) fn find(name: &str, section: Section) -> Result<&'static Self, ConfigError> {
        let keys = KEYS.iter().filter(|key| key.section == section);
        keys.clone().find(|key| key.name == name).ok_or_else(|| {
            let zenohs = ZENOH_KEYS.iter().filter(|_| section == Section::Config);
            let valid: Vec<_> = keys.map(|key| key.name).chain(zenohs.copied()).collect();
            ConfigError::UnknownKey { key: name.to_owned(), valid: valid.join(", ") }
        })
    }

    /// Checks `text` against what the key may be.
    pub(super) fn parse(&self, text: &str) -> Result<Parsed, ConfigError> {
        let text = text.trim();
        let parsed = match self.value {
            Value::Number { or: Some(word), .. } if text == word => Some(Parsed::Number(None)),
            Value::Number { min, max, .. } => text
                .parse()
                .ok()
                .filter(|number| (min..=max).contains(number))
                .map(|number| Parsed::Number(Some(number))),
            Value::Word(words) => {
                words.iter().find(|word| **word == text).map(|word| Parsed::Word(word))
            }
            Value::Text(_) => Some(Parsed::Text(text.to_owned())).filter(|_| !text.is_empty()),
        };
        parsed.ok_or_else(|| self.bad(text))
    }

    /// The error for a value that does not fit.
    pub(super) fn bad(&self, value: &str) -> ConfigError {
        let expected = match self.value {
            Value::Number { unit, min, max, or: None } => format!("{min}..={max} {unit}"),
            Value::Number { unit, min, max, or: Some(word) } => {
                format!("{min}..={max} {unit}, or {word}")
            }
            Value::Word(_) | Value::Text(_) => self.value.to_string(),
        };
        ConfigError::BadValue { key: self.name.to_owned(), value: value.to_owned(), expected }
    }
}

const fn number(unit: &'static str, min: u64, max: u64) -> Value {
    Value::Number { unit, min, max, or: None }
}

const fn number_or(unit: &'static str, min: u64, max: u64, word: &'static str) -> Value {
    Value::Number { unit, min, max, or: Some(word) }
}

const fn config(
    name: &'static str,
    value: Value,
    default: &'static str,
    meaning: &'static str,
) -> Key {
    Key { name, section: Section::Config, value, default, meaning }
}

const fn metadata(
    name: &'static str,
    value: Value,
    default: &'static str,
    meaning: &'static str,
) -> Key {
    Key { name, section: Section::Metadata, value, default, meaning }
}

const fn file(name: &'static str, meaning: &'static str) -> Key {
    config(name, Value::Text("the path of a file"), "none", meaning)
}

const fn pem(name: &'static str, meaning: &'static str) -> Key {
    config(name, Value::Text("PEM"), "none", meaning)
}

const fn base64(name: &'static str, meaning: &'static str) -> Key {
    config(name, Value::Text("base64"), "none", meaning)
}

const BOOL: Value = Value::Word(&["true", "false"]);
const DAY_MS: u64 = 86_400_000;
const GIB: u64 = 1 << 30;

/// What zenoh itself reads after the `#` of an endpoint, whatever its protocol: how it goes on when it cannot connect or
/// listen. The link has no use for them.
pub const ZENOH_KEYS: [&str; 4] = [
    "exit_on_failure",
    "retry_period_init_ms",
    "retry_period_max_ms",
    "retry_period_increase_factor",
];

/// All keys of the link, in the order of the documentation.
pub const KEYS: &[Key] = &[
    metadata(
        "rel",
        Value::Word(&["0", "1"]),
        "1",
        "reliable (1), or a link that repairs nothing past the deadline (0)",
    ),
    metadata(
        "prio",
        Value::Text("a zenoh priority range such as 1-3"),
        "all",
        "the priorities that zenoh sends over this link",
    ),
    metadata(
        "mixed_rel",
        Value::Word(&["0", "1", "auto"]),
        "auto",
        "what publishers send as best effort is carried as that; both sides must allow it, 1 insists",
    ),
    metadata(
        "multistream",
        Value::Word(&["0", "1", "auto"]),
        "auto",
        "an order of its own for each priority; both sides must allow it, 1 insists",
    ),
    config(
        "preset",
        Value::Word(&["lan", "wifi", "cellular", "v2v", "satellite"]),
        "none",
        "values for a kind of network, beneath the file and the locator",
    ),
    config(
        "config",
        Value::Text("the path of a JSON5 file"),
        "none",
        "a file with these keys, beneath the locator",
    ),
    config(
        "iface",
        Value::Text("a network interface"),
        "any",
        "send and receive on this interface",
    ),
    config(
        "bind",
        Value::Text("host:port"),
        "any",
        "the local address of a connecting link; not together with iface",
    ),
    config(
        "paths",
        Value::Text("off, auto, or 1 to 4 interfaces such as wlan0,eth0:backup,wwan0:metered"),
        "none",
        "interfaces that a connecting link uses at once, the preferred first, :backup only while no other answers, \
         :metered the same within metered_rate; auto: every device of this host, for secured links; a listener takes \
         what it is asked for unless this is off; not together with iface or bind",
    ),
    config(
        "copies",
        number("percent", 0, 100),
        "10",
        "with paths: the share of bytes that may be copies which turn out needless; 0 copies only what a silent path \
         has not delivered",
    ),
    config(
        "duplicate",
        Value::Text("none, or a zenoh priority range such as 1-3"),
        "none",
        "with paths: messages of these priorities leave on two paths at once, while copies allows; for commands, not \
         for images",
    ),
    config(
        "metered_rate",
        number_or("bit/s", Budget::MIN_RATE_BPS, MAX_RATE_BPS, "none"),
        "16000",
        "with paths: what passes a :metered interface on average, every byte in both directions with its IP and UDP \
         headers; an hour's worth may be used at once",
    ),
    config(
        "dscp",
        Value::Text("0..=255, also as 0x.. or 0b.."),
        "0",
        "the type-of-service byte of every datagram, but for its two bits of ECN; turns segmentation offload off",
    ),
    config(
        "ecn",
        Value::Word(&["on", "off"]),
        "on",
        "marks packets so that queues which can do so mark them instead of dropping them, where the path shows to carry \
         that; never with cc=constant",
    ),
    config(
        "gso",
        Value::Word(&["auto", "off"]),
        "auto",
        "several datagrams in one system call (UDP segmentation offload): while they arrive as single ones do, or never",
    ),
    config(
        "so_sndbuf",
        number("bytes", 4_096, GIB),
        "4194304",
        "send buffer asked of the kernel, which caps it at net.core.wmem_max",
    ),
    config(
        "so_rcvbuf",
        number("bytes", 4_096, GIB),
        "4194304",
        "receive buffer asked of the kernel, which caps it at net.core.rmem_max",
    ),
    config(
        "mtu",
        number_or("bytes", 576, 65_507, "auto"),
        "auto",
        "largest UDP payload sent; above 1200 only what the path was asked about and has carried; \
         auto is what the interface carries",
    ),
    config(
        "chunk",
        number_or("bytes", 512, 65_507, "auto"),
        "auto",
        "bytes of a message in one packet; auto fills the datagram unless loss grows with its size",
    ),
    config(
        "fec",
        Value::Text("off, auto, 1..=100"),
        "auto",
        "repair symbols sent ahead of any loss: none, as many as pay, or so many per 100 chunks",
    ),
    config(
        "cc",
        Value::Word(&["tolerant", "cubic", "aimd", "constant"]),
        "tolerant",
        "what limits the bytes in flight: the measured rate, a window that backs off at each loss \
         (cubic, aimd), or a fixed one",
    ),
    config("cc_window", number("bytes", 576, GIB), "262144", "the fixed window of cc=constant"),
    config(
        "max_rate",
        number_or("bit/s", MIN_RATE_BPS, MAX_RATE_BPS, "none"),
        "none",
        "the most that is sent, whatever cc allows",
    ),
    config(
        "scheme",
        Value::Word(&["selective-repeat", "go-back-n", "stop-and-wait"]),
        "selective-repeat",
        "a textbook scheme: sets window and reorder",
    ),
    config(
        "window",
        number_or("packets", 1, 1 << 20, "none"),
        "none",
        "most packets in flight, whatever cc allows; 1 is stop-and-wait",
    ),
    config(
        "reorder",
        BOOL,
        "true",
        "whether what arrives out of order is kept; false is go-back-N",
    ),
    config(
        "lane_window",
        number("bytes", MIN_WINDOW_BYTES, GIB),
        "2097152",
        "receive credit of one priority; one that waits for repairs gets more where rx_window has room for it",
    ),
    config(
        "rx_window",
        number("bytes", MIN_WINDOW_BYTES, GIB),
        "33554432",
        "receive credit of all priorities of a link; its peer can occupy as much again with best-effort \
         messages, and 1 MiB at least",
    ),
    config(
        "queue_bytes",
        number_or("bytes", 1, GIB, "auto"),
        "auto",
        "bytes that a priority takes from zenoh before any of them is sent",
    ),
    config(
        "queue_age_ms",
        number("ms", 1, DAY_MS),
        "100",
        "a priority takes no new message from zenoh while one waits unsent for longer than this",
    ),
    config(
        "deadline_ms",
        number_or("ms", 1, 3_600_000, "none"),
        "none",
        "best effort: repair a message until it is this old; none repairs nothing",
    ),
    config(
        "keep_alive_ms",
        number("ms", 10, DAY_MS),
        "1000",
        "silence after which the peer is asked whether it lives",
    ),
    config(
        "idle_timeout_ms",
        number("ms", 50, DAY_MS),
        "15000",
        "silence after which the peer is gone; at least twice keep_alive_ms",
    ),
    config(
        "handshake_timeout_ms",
        number("ms", 50, DAY_MS),
        "9000",
        "how long to try to reach the peer, within zenoh's open_timeout",
    ),
    config(
        "linger_ms",
        number("ms", 0, DAY_MS),
        "500",
        "how long closing may take to deliver what was sent",
    ),
    config(
        "max_links",
        number("links", 1, 65_536),
        "4096",
        "links and handshakes of a listener at once; further ones are refused",
    ),
    config(
        "max_links_per_source",
        number_or("links", 1, 65_536, "none"),
        "none",
        "those of one network, an IPv4 /24 or an IPv6 /48",
    ),
    config(
        "security",
        Value::Word(&["auto", "off", "tls", "psk"]),
        "auto",
        "what protects packets: what the keys below make possible, nothing, certificates, or a pre-shared key",
    ),
    file("root_ca_certificate_file", "the authorities that vouch for peers"),
    pem("root_ca_certificate_raw", "the same in the locator"),
    base64("root_ca_certificate_base64", "the same PEM in base64"),
    file("listen_certificate_file", "the certificate of a listener, with its chain"),
    pem("listen_certificate_raw", "the same in the locator"),
    base64("listen_certificate_base64", "the same PEM in base64"),
    file("listen_private_key_file", "its private key"),
    pem("listen_private_key_raw", "the same in the locator"),
    base64("listen_private_key_base64", "the same PEM in base64"),
    file("connect_certificate_file", "the certificate of who connects, with its chain"),
    pem("connect_certificate_raw", "the same in the locator"),
    base64("connect_certificate_base64", "the same PEM in base64"),
    file("connect_private_key_file", "its private key"),
    pem("connect_private_key_raw", "the same in the locator"),
    base64("connect_private_key_base64", "the same PEM in base64"),
    config(
        "enable_mtls",
        BOOL,
        "false",
        "listeners want a certificate of each client; who connects shows its own",
    ),
    config(
        "verify_name_on_connect",
        BOOL,
        "true",
        "the server's certificate must have its name",
    ),
    config(
        "close_link_on_expiration",
        BOOL,
        "false",
        "a link ends when a certificate of the peer's chain expires",
    ),
    config(
        "server_name",
        Value::Text("a DNS name or an address"),
        "none",
        "the name that the server's certificate must have, instead of the locator's host",
    ),
    config(
        "webpki_roots",
        BOOL,
        "false",
        "trusts the authorities of the public web beside one's own; where there is no other they are trusted anyway",
    ),
    file("crl_file", "lists of revoked certificates, one of each authority of a chain"),
    file("psk_file", "pre-shared keys in base64, one a line: the first is one's own, all are accepted"),
    base64("psk_base64", "one such key in the locator"),
    config(
        "metrics",
        Value::Text("ip:port, or a port of 127.0.0.1"),
        "none",
        "where the statistics of all arq/ links of the process can be read, in OpenMetrics text",
    ),
    config(
        "stats_log_ms",
        number_or("ms", 100, DAY_MS, "none"),
        "none",
        "how often the link's statistics are logged, beside the line at its end",
    ),
];
