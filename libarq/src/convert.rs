// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The structures of the header, and what they mean to the core. Their names and fields are those of C.

#![allow(non_camel_case_types, reason = "the names of C")]

use std::{
    ffi::CStr,
    net::{Ipv6Addr, SocketAddr, SocketAddrV6},
    time::Duration,
};

use arq_proto::{Config, CongestionConfig, Event, FecConfig, LaneId, Stats, ValidConfig};

use crate::engine::{Failure, Told};

/// See the header.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct arq_address {
    pub ip: [u8; 16],
    pub scope: u32,
    pub port: u16,
    pub family: u8,
}

impl arq_address {
    pub(crate) fn socket_addr(&self) -> Result<SocketAddr, Failure> {
        let [a, b, c, d, ..] = self.ip;
        match self.family {
            4 => Ok(([a, b, c, d], self.port).into()),
            6 => {
                let ip = Ipv6Addr::from(self.ip);
                Ok(SocketAddrV6::new(ip, self.port, 0, self.scope).into())
            }
            _ => Err(Failure::Invalid),
        }
    }
}

impl From<SocketAddr> for arq_address {
    fn from(address: SocketAddr) -> Self {
        let mut ip = [0; 16];
        let (scope, family) = match address {
            SocketAddr::V4(v4) => {
                ip[..4].copy_from_slice(&v4.ip().octets());
                (0, 4)
            }
            SocketAddr::V6(v6) => {
                ip = v6.ip().octets();
                (v6.scope_id(), 6)
            }
        };
        Self { ip, scope, port: address.port(), family }
    }
}

/// See the header. 0 is the default of each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct arq_config {
    pub max_rate_bps: u64,
    pub window_bytes: u64,
    pub deadline_ms: u32,
    pub keep_alive_ms: u32,
    pub idle_timeout_ms: u32,
    pub handshake_timeout_ms: u32,
    pub linger_ms: u32,
    pub timer_granularity_us: u32,
    pub mtu: u16,
    pub congestion: u8,
    pub fec: u8,
}

impl arq_config {
    pub(crate) fn build(&self) -> Result<ValidConfig, Failure> {
        let default = Config::default();
        let ms =
            |ms: u32, default| if ms == 0 { default } else { Duration::from_millis(ms.into()) };
        let granularity = match self.timer_granularity_us {
            0 => default.timer_granularity,
            us => Duration::from_micros(us.into()),
        };
        let values = Config {
            mtu: (self.mtu != 0).then_some(self.mtu),
            max_rate_bps: (self.max_rate_bps != 0).then_some(self.max_rate_bps),
            deadline: (self.deadline_ms != 0)
                .then(|| Duration::from_millis(self.deadline_ms.into())),
            keep_alive: ms(self.keep_alive_ms, default.keep_alive),
            idle_timeout: ms(self.idle_timeout_ms, default.idle_timeout),
            handshake_timeout: ms(self.handshake_timeout_ms, default.handshake_timeout),
            linger: ms(self.linger_ms, default.linger),
            timer_granularity: granularity,
            congestion: match self.congestion {
                0 => default.congestion,
                1 => CongestionConfig::Cubic,
                2 => CongestionConfig::Aimd,
                3 => CongestionConfig::Constant { window_bytes: self.window_bytes },
                _ => return Err(Failure::Invalid),
            },
            fec: match self.fec {
                0 => default.fec,
                255 => FecConfig::Off,
                percent => FecConfig::Percent(percent),
            },
            // The header of IP is not the library's: it neither sees nor sets codepoints.
            ecn: false,
            ..default
        };
        values.validate().map_err(|_| Failure::Invalid)
    }
}

/// See the header.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct arq_event {
    pub connection: u64,
    pub kind: u8,
    pub lane: u8,
    pub accepted: u8,
}

impl arq_event {
    /// `None` for what C is not told of.
    pub(crate) fn new(told: &Told) -> Option<Self> {
        let (kind, lane) = match &told.event {
            Event::Connected => (1, None),
            Event::Readable(lane) => (2, Some(lane)),
            Event::Writable(lane) => (3, Some(lane)),
            Event::Closed(_) => (4, None),
            _ => return None,
        };
        // There are sixteen lanes.
        let lane = lane.map_or(0, |lane| LaneId::index(*lane) as u8);
        Some(Self { connection: told.connection, kind, lane, accepted: told.accepted.into() })
    }
}

/// See the header.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct arq_stats {
    pub packets_sent: u64,
    pub packets_received: u64,
    pub packets_lost: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub repair_symbols_sent: u64,
    pub messages_expired: u64,
    pub send_buffer_bytes: u64,
    pub window_bytes: u64,
    pub rtt_us: u64,
    pub min_rtt_us: u64,
    pub loss_ppm: u32,
    pub path_mtu_bytes: u16,
}

impl From<&Stats> for arq_stats {
    fn from(stats: &Stats) -> Self {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self {
            packets_sent: stats.packets_sent,
            packets_received: stats.packets_received,
            packets_lost: stats.packets_lost,
            bytes_sent: stats.bytes_sent,
            bytes_received: stats.bytes_received,
            repair_symbols_sent: stats.repair_symbols_sent,
            messages_expired: stats.messages_expired,
            send_buffer_bytes: stats.send_buffer_bytes,
            window_bytes: stats.window_bytes,
            rtt_us: us(stats.srtt),
            min_rtt_us: us(stats.min_rtt),
            // A share of at most 1.
            loss_ppm: (stats.loss.as_f64() * 1e6) as u32,
            path_mtu_bytes: stats.path_mtu_bytes,
        }
    }
}

/// A text as C has it, cut to fit; `None` if not even the zero at its end fits.
pub(crate) fn c_text(text: &str, capacity: usize) -> Option<Vec<u8>> {
    let mut length = text.len().min(capacity.checked_sub(1)?);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    // A zero within would end it early.
    let mut bytes: Vec<_> = text.bytes().take(length).filter(|byte| *byte != 0).collect();
    bytes.push(0);
    Some(bytes)
}

pub(crate) fn status_text(status: i32) -> &'static CStr {
    match status {
        0 => c"done",
        1 => c"there is none now",
        -1 => c"a pointer is null that must not be",
        -2 => c"an argument is outside its range",
        -3 => c"no such connection",
        -4 => c"the lane is full",
        -5 => c"the message is longer than any may be",
        -6 => c"the connection is not open",
        -7 => c"the buffer is too small",
        _ => c"no status of this library",
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// `tests/c/misuse.c` has the same numbers.
    #[test]
    fn structures_are_laid_out_as_in_c() {
        assert_eq!((size_of::<arq_address>(), offset_of!(arq_address, family)), (24, 22));
        assert_eq!((size_of::<arq_config>(), offset_of!(arq_config, fec)), (48, 43));
        assert_eq!((size_of::<arq_event>(), offset_of!(arq_event, accepted)), (16, 10));
        assert_eq!((size_of::<arq_stats>(), offset_of!(arq_stats, path_mtu_bytes)), (96, 92));
    }

    #[test]
    fn addresses_come_back_as_they_were() {
        for text in ["10.0.0.1:7447", "[2001:db8::1]:1", "[fe80::1%7]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(arq_address::from(address).socket_addr(), Ok(address), "{text}");
        }
        let wrong = arq_address { ip: [0; 16], scope: 0, port: 1, family: 5 };
        assert_eq!(wrong.socket_addr(), Err(Failure::Invalid));
    }

    #[test]
    fn a_text_is_cut_at_a_character_and_ends_with_a_zero() {
        assert_eq!(c_text("häm", 16).unwrap(), "häm\0".as_bytes());
        assert_eq!(c_text("häm", 3).unwrap(), b"h\0");
        assert_eq!(c_text("a\0b", 16).unwrap(), b"ab\0");
        assert_eq!(c_text("", 1).unwrap(), b"\0");
        assert_eq!(c_text("a", 0), None);
    }

    #[test]
    fn every_failure_has_a_text_of_its_own() {
        let mut texts: Vec<_> = (-7..=1).map(status_text).collect();
        texts.push(status_text(-8));
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), 10);
    }
}
