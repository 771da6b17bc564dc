// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The knobs of a connection: unit, range, default, and the price of moving each.
//!
//! [`Config`] holds plain values, [`Config::validate`] checks them all: an invalid
//! [`ValidConfig`] cannot exist.

use std::{
    net::{IpAddr, SocketAddr},
    ops::{Deref, RangeInclusive},
    time::Duration,
};

use bytes::Bytes;
use thiserror::Error;

pub use crate::wire::{MIN_MTU, MIN_WINDOW_BYTES};
use crate::{
    units::PathNumber,
    wire::{params::MAX_APP_PARAMS_BYTES, MIN_CHUNK_BYTES},
};

/// The largest UDP payload over IPv4.
pub const MAX_MTU: u16 = 65_507;
/// The largest within a machine over IPv6, whose header is 20 bytes longer: a loopback device's packets
/// have at most 65,535 bytes.
pub const MAX_MTU_IPV6: u16 = MAX_MTU - 20;
/// UDP payload of a packet of 1,500 bytes, over IPv4 and over IPv6.
pub const ETHERNET_MTU: u16 = 1_472;
/// See [`ETHERNET_MTU`].
pub const ETHERNET_MTU_IPV6: u16 = ETHERNET_MTU - 20;

/// The range of [`Config::max_rate_bps`]: a thousand bytes a second keep a session alive, and
/// nothing is faster than a terabit.
pub const MIN_RATE_BPS: u64 = 8_000;
/// See [`MIN_RATE_BPS`].
pub const MAX_RATE_BPS: u64 = 1_000_000_000_000;

/// Which controller limits the bytes in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CongestionConfig {
    /// A window that never moves: for private links of known capacity.
    Constant {
        /// Bytes in flight.
        window_bytes: u64,
    },
    /// Additive increase, multiplicative decrease (NewReno, RFC 9002 §7) with HyStart++ (RFC 9406).
    Aimd,
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406).
    Cubic,
    /// Rate-based, after BBR, and tolerant of loss that is not congestion.
    Tolerant,
}

impl CongestionConfig {
    /// Whether it follows the path. Who does not must not ask for marks (RFC 3168 §5).
    pub(crate) const fn adapts(self) -> bool {
        match self {
            Self::Constant { .. } => false,
            Self::Aimd | Self::Cubic | Self::Tolerant => true,
        }
    }
}

/// Repair symbols sent with a message before anything is known to be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FecConfig {
    /// None: repair begins when a loss is known, or an answer lost.
    Off,
    /// As many as save more time than they cost, given the measured loss, its bursts and the rate:
    /// at most a third of a small message and 1/16 of one above 16 KiB, beyond what would be
    /// sent again anyway. Until some three hundred packets have arrived, losses are expected.
    Auto,
    /// As many per 100 chunks, `1..=100`, whatever is lost. A message of one chunk is sent twice if
    /// this is 100.
    Percent(u8),
}

/// Plain values, to be checked by [`Config::validate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Longest datagram sent, in bytes of UDP payload, `576..=65507`; one below 1,200 holds for the peer as well. Larger
    /// ones cost less; what is above 1,200 (RFC 8899 `BASE_PLPMTU`) is used once the path has carried it.
    /// `None`: what the [interface](crate::Connection::handle_interface_mtu) carries, or 1,472 over IPv4 and 1,452 over
    /// IPv6 where nobody tells.
    pub mtu: Option<u16>,
    /// Bytes of a message in one packet, `512..=65507`, but never more than fit the datagram; `None` fills
    /// it. Smaller chunks pay only where loss grows with packet size.
    pub chunk_bytes: Option<u16>,
    /// Repair symbols ahead of any loss, where the peer takes them: fewer round trips for more
    /// bytes.
    pub fec: FecConfig,
    /// Limits the bytes in flight.
    pub congestion: CongestionConfig,
    /// Whether packets are marked as capable of ECN (RFC 3168) where the path shows to carry that: queues that mark do not
    /// drop then. Never with [`CongestionConfig::Constant`]. Needs a driver that sets and tells [codepoints](crate::Transmit::ecn).
    pub ecn: bool,
    /// The most that this side sends, in bits of UDP payload per second, `8_000..=10^12`, everything
    /// counted: repairs and acknowledgements too. Acknowledgements and probes do not wait for it, but
    /// chunks wait for them. `None` leaves it to the controller. For a share of a link that others
    /// use, and where the price is per byte.
    pub max_rate_bps: Option<u64>,
    /// Limits the packets in flight, `1..=2^20`; `None` leaves it to the controller. 1 is
    /// stop-and-wait.
    pub window_packets: Option<u32>,
    /// Whether the receiver keeps what arrives out of order. `false` is go-back-N: the peer repeats
    /// everything after a loss.
    pub reorder: bool,
    /// Receive credit of one reliable lane, in bytes, `128 KiB..=1 GiB`. Throughput of a lane is at
    /// most this per round trip. A lane that waits for repairs, and not for its reader, is given more as long as there is
    /// room in the connection's window beyond eight of these.
    pub lane_window_bytes: u32,
    /// Receive credit of all reliable lanes, in bytes, `128 KiB..=1 GiB`. A peer can occupy twice
    /// this: once with reliable messages, once with best-effort ones. Below eight lane windows,
    /// stalled readers of some priorities can hold up the others.
    pub connection_window_bytes: u32,
    /// Bytes that a lane takes before any of them is sent, `1..=1 GiB`; what is kept of each message, some
    /// 300 bytes, counts as well. One message is always taken. More hides delay from the application. `None`: 256 KiB,
    /// and of [what has begun](crate::Connection::send_part) as much as the path carries in a second, as long as less than
    /// `connection_window_bytes` is queued in all lanes.
    pub queue_bytes: Option<u32>,
    /// A lane lets no message begin while one waits unsent for longer than this, unless it came in parts and all that
    /// waits leaves within this, 1 ms to a day. While the peer is silent it takes one message each 1.5 s all the same.
    pub queue_age: Duration,
    /// Best effort: repair until a message is this old, 1 ms to an hour, then drop it and tell the receiver. `None`
    /// never repairs.
    pub deadline: Option<Duration>,
    /// Silence after which the peer is asked whether it lives, 10 ms to a day; less notices a restarted
    /// peer sooner and costs two small packets each time.
    pub keep_alive: Duration,
    /// Silence after which the peer is gone, 50 ms to a day, and at least twice `keep_alive`: its answer takes a while.
    pub idle_timeout: Duration,
    /// How long to try to reach the peer, 50 ms to a day.
    pub handshake_timeout: Duration,
    /// How long an orderly close may take to deliver what is queued, up to a day.
    pub linger: Duration,
    /// Longest time that an acknowledgement waits for another packet, up to a second.
    pub max_ack_delay: Duration,
    /// How late the driver's timer fires at worst, 1 µs to 100 ms: the least that a probe time-out waits
    /// beyond the round trip, and that the reordering window lasts (RFC 9002 `kGranularity`).
    pub timer_granularity: Duration,
    /// Sealed packets after which the keys change, `16..=2^23`. Below the limit of AES-GCM (RFC 9001 §6.6), half of which
    /// holds in any case.
    pub key_update_packets: u32,
    /// Whether a side that has dialled may leave the local port that it began with, when nothing comes back to that.
    pub may_change_port: bool,
    /// Paths that this side keeps at once, `1..=4`, the one of the handshake included. Whether there are others is said by
    /// [`Connection::handle_interface`](crate::Connection::handle_interface) of the side that has dialled.
    pub paths: u8,
    /// Share of what is sent, in percent, `0..=100`, that may be copies which turn out needless, before silence is waited
    /// for longer.
    pub copies_percent: u8,
    /// Messages of these priorities, `0..=7`, leave on two paths at once, if there are several, as long as fewer copies than
    /// `copies_percent` turn out needless.
    pub duplicate: Option<RangeInclusive<u8>>,
    /// Opaque to the protocol, at most 64 bytes: each side learns the other's in the handshake.
    pub app_params: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mtu: None,
            chunk_bytes: None,
            fec: FecConfig::Auto,
            congestion: CongestionConfig::Tolerant,
            ecn: true,
            max_rate_bps: None,
            window_packets: None,
            reorder: true,
            lane_window_bytes: 2 << 20,
            connection_window_bytes: 32 << 20,
            queue_bytes: None,
            queue_age: Duration::from_millis(100),
            deadline: None,
            keep_alive: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(15),
            handshake_timeout: Duration::from_secs(10),
            linger: Duration::from_millis(500),
            max_ack_delay: Duration::from_millis(5),
            timer_granularity: Duration::from_micros(100),
            key_update_packets: 1 << 21,
            may_change_port: false,
            paths: 1,
            copies_percent: 10,
            duplicate: None,
            app_params: Bytes::new(),
        }
    }
}

impl Config {
    /// The longest datagram that a path to `remote` is asked about before anything is known of the interface, in bytes.
    #[must_use]
    pub fn usual_mtu(&self, remote: SocketAddr) -> u16 {
        let ethernet = match remote.ip().to_canonical() {
            IpAddr::V4(_) => ETHERNET_MTU,
            IpAddr::V6(_) => ETHERNET_MTU_IPV6,
        };
        self.mtu.unwrap_or(ethernet)
    }

    /// Checks every value.
    ///
    /// # Errors
    /// Names the field and its range.
    pub fn validate(self) -> Result<ValidConfig, ConfigError> {
        let gib = 1_u64 << 30;
        if let Some(mtu) = self.mtu {
            in_range("mtu", mtu, MIN_MTU.into(), MAX_MTU.into())?;
        }
        if let Some(chunk) = self.chunk_bytes {
            in_range("chunk_bytes", chunk, MIN_CHUNK_BYTES.into(), MAX_MTU.into())?;
        }
        if let FecConfig::Percent(percent) = self.fec {
            in_range("fec", percent, 1, 100)?;
        }
        if let CongestionConfig::Constant { window_bytes } = self.congestion {
            in_range("window_bytes", window_bytes, u64::from(MIN_MTU), gib)?;
        }
        if let Some(rate) = self.max_rate_bps {
            in_range("max_rate_bps", rate, MIN_RATE_BPS, MAX_RATE_BPS)?;
        }
        if let Some(window) = self.window_packets {
            in_range("window_packets", window, 1, 1 << 20)?;
        }
        in_range("lane_window_bytes", self.lane_window_bytes, MIN_WINDOW_BYTES, gib)?;
        in_range("connection_window_bytes", self.connection_window_bytes, MIN_WINDOW_BYTES, gib)?;
        if let Some(bytes) = self.queue_bytes {
            in_range("queue_bytes", bytes, 1, gib)?;
        }
        in_range("paths", self.paths, 1, PathNumber::COUNT as u64)?;
        in_range("copies_percent", self.copies_percent, 0, 100)?;
        if let Some(priorities) = &self.duplicate {
            in_range("duplicate", *priorities.end(), (*priorities.start()).into(), 7)?;
        }
        in_range("key_update_packets", self.key_update_packets, 16, 1 << 23)?;
        let day = Duration::from_secs(86_400);
        let ms = Duration::from_millis(1);
        for (field, value, min, max) in [
            ("queue_age", self.queue_age, ms, day),
            ("deadline", self.deadline.unwrap_or(ms), ms, Duration::from_secs(3_600)),
            ("keep_alive", self.keep_alive, 10 * ms, day),
            ("idle_timeout", self.idle_timeout, 50 * ms, day),
            ("handshake_timeout", self.handshake_timeout, 50 * ms, day),
            ("linger", self.linger, Duration::ZERO, day),
            ("max_ack_delay", self.max_ack_delay, Duration::ZERO, Duration::from_secs(1)),
            ("timer_granularity", self.timer_granularity, Duration::from_micros(1), 100 * ms),
        ] {
            if value < min || value > max {
                return Err(ConfigError::Duration { field, value, min, max });
            }
        }
        if self.idle_timeout < 2 * self.keep_alive {
            return Err(ConfigError::Twice { smaller: "keep_alive", larger: "idle_timeout" });
        }
        if self.app_params.len() > MAX_APP_PARAMS_BYTES {
            let len = self.app_params.len() as u64;
            in_range("app_params", len, 0, MAX_APP_PARAMS_BYTES as u64)?;
        }
        Ok(ValidConfig(self))
    }
}

fn in_range(
    field: &'static str,
    value: impl Into<u64>,
    min: u64,
    max: u64,
) -> Result<(), ConfigError> {
    let value = value.into();
    if value < min || value > max {
        return Err(ConfigError::Range { field, value, min, max });
    }
    Ok(())
}

/// A checked configuration. Reads like the [`Config`] it came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValidConfig(Config);

impl Deref for ValidConfig {
    type Target = Config;

    fn deref(&self) -> &Config {
        &self.0
    }
}

/// A field of the configuration is outside its range.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A number.
    #[error("{field}={value} is outside {min}..={max}")]
    Range {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The least value.
        min: u64,
        /// The largest value.
        max: u64,
    },
    /// A time.
    #[error("{field}={value:?} is outside {min:?}..={max:?}")]
    Duration {
        /// The field.
        field: &'static str,
        /// Its value.
        value: Duration,
        /// The least value.
        min: Duration,
        /// The largest value.
        max: Duration,
    },
    /// Two fields contradict each other.
    #[error("{larger} must be at least twice {smaller}")]
    Twice {
        /// The field that is too large.
        smaller: &'static str,
        /// The field that is too small.
        larger: &'static str,
    },
}

impl ConfigError {
    /// The fields of [`Config`] that are to blame, for who has other names for them. The window of
    /// [`CongestionConfig::Constant`] is `window_bytes`.
    #[must_use]
    pub fn fields(&self) -> Vec<&'static str> {
        match self {
            Self::Range { field, .. } | Self::Duration { field, .. } => vec![field],
            Self::Twice { smaller, larger } => vec![larger, smaller],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(Config::default().validate(), Ok(ValidConfig::default()));
    }

    #[test]
    fn a_bad_value_is_named_with_its_range() {
        let error = Config { mtu: Some(100), ..Config::default() }.validate().unwrap_err();
        assert_eq!(error.to_string(), "mtu=100 is outside 576..=65507");
        let error =
            Config { fec: FecConfig::Percent(0), ..Config::default() }.validate().unwrap_err();
        assert_eq!(error.to_string(), "fec=0 is outside 1..=100");
        assert_eq!(error.fields(), ["fec"]);
        let every = |seconds| {
            let keep_alive = Duration::from_secs(seconds);
            Config { keep_alive, ..Config::default() }.validate()
        };
        assert!(every(7).is_ok());
        let text = every(8).unwrap_err().to_string();
        assert_eq!(text, "idle_timeout must be at least twice keep_alive");
    }
}
