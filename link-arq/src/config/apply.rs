// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does each key set? Values are already within the ranges of the table.

use std::{net::SocketAddr, ops::RangeInclusive, time::Duration};

use arq_proto::{CongestionConfig, FecConfig, PathNumber, Scheme};
use arq_tokio::PathInterface;

use super::{
    keys::{Key, Parsed, Section},
    ConfigError, Layer, LinkConfig, Paths, Wish,
};
use crate::metrics::parse_address;

/// The window of `cc=constant` where none is named.
const CONSTANT_WINDOW_BYTES: u64 = 256 << 10;
/// The bits of a type-of-service byte that are not the configuration's to set.
const ECN_BITS: u32 = 0b11;

impl LinkConfig {
    /// Sets what `layer` names and leaves the rest.
    pub(super) fn apply(&mut self, layer: &Layer) -> Result<(), ConfigError> {
        // A scheme is a preset of two keys of the same layer: those win over it.
        if let Some(scheme) = layer.word("scheme") {
            self.protocol = self.protocol.clone().scheme(scheme_named(scheme));
        }
        for (key, value) in &layer.0 {
            self.apply_key(key, value)?;
        }
        Ok(())
    }

    fn apply_key(&mut self, key: &'static str, value: &Parsed) -> Result<(), ConfigError> {
        let protocol = &mut self.protocol;
        match (key, value) {
            ("mtu", Parsed::Number(n)) => protocol.mtu = n.map(narrow),
            ("chunk", Parsed::Number(n)) => protocol.chunk_bytes = n.map(narrow),
            ("fec", Parsed::Text(text)) => protocol.fec = fec(text)?,
            ("max_rate", Parsed::Number(n)) => protocol.max_rate_bps = *n,
            ("window", Parsed::Number(n)) => protocol.window_packets = n.map(narrow),
            ("reorder", Parsed::Word(word)) => protocol.reorder = *word == "true",
            ("lane_window", Parsed::Number(Some(n))) => protocol.lane_window_bytes = narrow(*n),
            ("rx_window", Parsed::Number(Some(n))) => protocol.connection_window_bytes = narrow(*n),
            ("queue_bytes", Parsed::Number(n)) => protocol.queue_bytes = n.map(narrow),
            ("queue_age_ms", Parsed::Number(Some(n))) => protocol.queue_age = ms(*n),
            ("deadline_ms", Parsed::Number(n)) => protocol.deadline = n.map(ms),
            ("keep_alive_ms", Parsed::Number(Some(n))) => protocol.keep_alive = ms(*n),
            ("idle_timeout_ms", Parsed::Number(Some(n))) => protocol.idle_timeout = ms(*n),
            ("handshake_timeout_ms", Parsed::Number(Some(n))) => {
                protocol.handshake_timeout = ms(*n)
            }
            ("linger_ms", Parsed::Number(Some(n))) => protocol.linger = ms(*n),
            ("so_sndbuf", Parsed::Number(Some(n))) => self.socket.send_buffer_bytes = narrow(*n),
            ("so_rcvbuf", Parsed::Number(Some(n))) => self.socket.receive_buffer_bytes = narrow(*n),
            ("iface", Parsed::Text(name)) => self.socket.interface = Some(name.clone()),
            ("bind", Parsed::Text(address)) => self.bind = Some(address.clone()),
            ("paths", Parsed::Text(text)) => self.paths = paths(text)?,
            ("metered_rate", Parsed::Number(n)) => self.metered_rate_bps = *n,
            ("copies", Parsed::Number(Some(n))) => protocol.copies_percent = narrow(*n),
            ("duplicate", Parsed::Text(text)) => protocol.duplicate = priorities(text)?,
            // Nothing is what datagrams have anyway, and costs no segmentation offload.
            ("dscp", Parsed::Text(text)) => {
                self.socket.dscp = Some(dscp(text)?).filter(|tos| *tos & !ECN_BITS != 0)
            }
            ("ecn", Parsed::Word(word)) => protocol.ecn = *word == "on",
            ("gso", Parsed::Word(word)) => self.socket.batches = *word == "auto",
            ("max_links", Parsed::Number(Some(n))) => self.max_links = narrow(*n),
            ("max_links_per_source", Parsed::Number(n)) => {
                self.max_links_per_source = n.map(narrow)
            }
            ("metrics", Parsed::Text(text)) => self.metrics = Some(metrics(text)?),
            ("stats_log_ms", Parsed::Number(n)) => self.stats_log = n.map(ms),
            // Read elsewhere: they name other layers, or need more than one key.
            ("config" | "preset" | "scheme" | "cc" | "cc_window", _) => {}
            (_, value) => self.security.apply(key, value),
        }
        Ok(())
    }

    /// Sets the congestion control. Which keys go together shows only when all `layers` are known.
    pub(super) fn apply_congestion(&mut self, layers: [&Layer; 3]) -> Result<(), ConfigError> {
        let (mut control, mut window) = (None, None);
        for layer in layers {
            if let Some(word) = layer.word("cc") {
                control = Some(word);
                // Another control has no use for the window of a layer below; a window stays for a constant one.
                window = window.filter(|_| word == "constant");
            }
            window = layer.number("cc_window").or(window);
        }
        self.protocol.congestion = match (control, window) {
            (Some("constant"), window) => {
                CongestionConfig::Constant { window_bytes: window.unwrap_or(CONSTANT_WINDOW_BYTES) }
            }
            (_, Some(_)) => return Err(window_without_constant()),
            (Some("cubic"), None) => CongestionConfig::Cubic,
            (Some("aimd"), None) => CongestionConfig::Aimd,
            (Some(_), None) => CongestionConfig::Tolerant,
            (None, None) => return Ok(()),
        };
        Ok(())
    }

    /// Sets what a key after `?` says.
    pub(super) fn apply_metadata(&mut self, name: &str, text: &str) -> Result<(), ConfigError> {
        let key = Key::find(name, Section::Metadata)?;
        let value = key.parse(text)?;
        match (key.name, value) {
            ("rel", Parsed::Word(word)) => self.best_effort = word == "0",
            ("mixed_rel", Parsed::Word(word)) => self.mixed_reliability = wish(word),
            ("multistream", Parsed::Word(word)) => self.priorities = wish(word),
            // The range is zenoh's to use; here it is only checked.
            ("prio", Parsed::Text(range)) => {
                range
                    .parse::<zenoh_protocol::core::PriorityRange>()
                    .map_err(|_| key.bad(&range))?;
            }
            (name, value) => debug_assert!(false, "no meaning for {name}={value:?}"),
        }
        Ok(())
    }
}

/// The table has bounded the number; what does not fit would be its bug, and saturates.
fn narrow<T: TryFrom<u64> + Bounded>(number: u64) -> T {
    T::try_from(number).unwrap_or(T::GREATEST)
}

trait Bounded {
    const GREATEST: Self;
}

impl Bounded for u8 {
    const GREATEST: Self = Self::MAX;
}

impl Bounded for u16 {
    const GREATEST: Self = Self::MAX;
}

impl Bounded for u32 {
    const GREATEST: Self = Self::MAX;
}

impl Bounded for usize {
    const GREATEST: Self = Self::MAX;
}

fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn wish(word: &str) -> Wish {
    match word {
        "0" => Wish::Off,
        "1" => Wish::Insist,
        _ => Wish::Auto,
    }
}

fn scheme_named(name: &str) -> Scheme {
    match name {
        "go-back-n" => Scheme::GoBackN,
        "stop-and-wait" => Scheme::StopAndWait,
        _ => Scheme::SelectiveRepeat,
    }
}

fn window_without_constant() -> ConfigError {
    ConfigError::Conflict("`cc_window` is the window of `cc=constant` only".to_owned())
}

/// `off`, `auto` or a percentage.
fn fec(text: &str) -> Result<FecConfig, ConfigError> {
    let percent = |text: &str| text.parse().ok().filter(|percent| (1..=100).contains(percent));
    match text {
        "off" => Ok(FecConfig::Off),
        "auto" => Ok(FecConfig::Auto),
        _ => match percent(text) {
            Some(percent) => Ok(FecConfig::Percent(percent)),
            None => Err(Key::find("fec", Section::Config)?.bad(text)),
        },
    }
}

/// `off`, `auto`, or interfaces separated by commas.
fn paths(text: &str) -> Result<Paths, ConfigError> {
    match text {
        "off" => return Ok(Paths::Off),
        "auto" => return Ok(Paths::Auto),
        _ => {}
    }
    let key = Key::find("paths", Section::Config)?;
    let mut interfaces = Vec::<PathInterface>::new();
    for part in text.split(',').map(str::trim) {
        // A word that stands alone.
        let interface = part.parse().ok().filter(|_| !["auto", "off"].contains(&part));
        let interface: PathInterface = interface.ok_or_else(|| key.bad(text))?;
        if interfaces.iter().any(|known| known.name == interface.name) {
            return Err(ConfigError::Conflict(format!(
                "`paths={text}` names {} twice: expected {}",
                interface.name, key.value
            )));
        }
        interfaces.push(interface);
    }
    if interfaces.len() > PathNumber::COUNT {
        return Err(key.bad(text));
    }
    Ok(Paths::Over(interfaces))
}

/// `none`, or a range as zenoh writes it.
fn priorities(text: &str) -> Result<Option<RangeInclusive<u8>>, ConfigError> {
    if text == "none" {
        return Ok(None);
    }
    match text.parse::<zenoh_protocol::core::PriorityRange>() {
        Ok(range) => Ok(Some(*range.start() as u8..=*range.end() as u8)),
        Err(_) => Err(Key::find("duplicate", Section::Config)?.bad(text)),
    }
}

/// An address, or a port of this host alone.
fn metrics(text: &str) -> Result<SocketAddr, ConfigError> {
    match parse_address(text) {
        Some(address) => Ok(address),
        None => Err(Key::find("metrics", Section::Config)?.bad(text)),
    }
}

/// Numbers joined by `|`, as zenoh's other links take them.
fn dscp(text: &str) -> Result<u32, ConfigError> {
    let number = |part: &str| {
        let lower = part.trim().to_ascii_lowercase();
        let parsed = if let Some(digits) = lower.strip_prefix("0x") {
            u32::from_str_radix(digits, 16)
        } else if let Some(digits) = lower.strip_prefix("0b") {
            u32::from_str_radix(digits, 2)
        } else {
            lower.parse()
        };
        parsed.ok().filter(|number| *number <= 0xff)
    };
    let sum = text.split('|').try_fold(0, |sum, part| number(part).map(|number| sum | number));
    match (sum, Key::find("dscp", Section::Config)) {
        (Some(sum), _) => Ok(sum),
        (None, Ok(key)) => Err(key.bad(text)),
        (None, Err(error)) => Err(error),
    }
}
