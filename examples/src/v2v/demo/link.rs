// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which two links are shown, and what does zenoh have to know about each?

use std::net::IpAddr;

use arq_report::opponent::{find, Opponent};
use clap::ValueEnum;

/// The link that `arq/` is shown beside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Against {
    /// tcp/ with the kernel's usual congestion control (cubic): what zenoh does by default.
    #[default]
    Tcp,
    /// tcp/ with the congestion control that minds loss least (bbr).
    TcpBbr,
    /// udp/ without repair.
    Udp,
    /// udp/ with rel=1: QUIC without TLS.
    UdpRel,
    /// quic/ with a stream for each priority.
    Quic,
}

/// One of the two links.
#[derive(Clone, Debug)]
pub struct Contender {
    /// How the page and the monitor call it.
    pub name: &'static str,
    opponent: Opponent,
    /// What only the side that connects adds.
    connect_suffix: &'static str,
    /// Vehicles have so many radios: one or two.
    pub(super) radios: u8,
    /// It is sealed, whether it has to be or not.
    is_secured: bool,
}

/// The port of every listener; each has a network of its own.
const PORT: u16 = 7447;

/// `arq/`, over so many radios and sealed if `is_secured`, and the other, which can use one radio.
pub fn choose(against: Against, is_secured: bool, radios: u8) -> zenoh::Result<[Contender; 2]> {
    let (name, link) = match against {
        Against::Tcp => ("tcp", "tcp-cubic"),
        Against::TcpBbr => ("tcp (bbr)", "tcp-bbr"),
        Against::Udp => ("udp", "udp"),
        Against::UdpRel => ("udp rel=1", "udp-rel"),
        Against::Quic => ("quic", "quic"),
    };
    // An attempt that was begun out of range is given up soon, as configs/v2v.json5 has it.
    let arq = Contender {
        name: "arq",
        opponent: find("arq-v2v")?,
        connect_suffix: match radios {
            1 => ";handshake_timeout_ms=2000",
            _ => ";handshake_timeout_ms=2000;paths=eth0,eth1",
        },
        radios,
        is_secured,
    };
    let opponent = find(link)?;
    let other = Contender { name, opponent, connect_suffix: "", radios: 1, is_secured: false };
    Ok([arq, other])
}

impl Contender {
    /// Where the monitor listens.
    pub(super) fn listener(&self, host: IpAddr) -> String {
        let endpoint = self.opponent.endpoint.replace("{host}", &host.to_string());
        endpoint.replace("{port}", &PORT.to_string())
    }

    /// Where the vehicles connect.
    pub(super) fn connector(&self, host: IpAddr) -> String {
        self.listener(host) + self.connect_suffix
    }

    /// The congestion control of the hosts' kernels, where that matters.
    pub(super) fn tcp_congestion_control(&self) -> Option<&str> {
        self.opponent.tcp_congestion_control.as_deref()
    }

    /// Whether it needs a certificate. With one in zenoh's configuration `arq/` seals all that it sends.
    pub(super) fn has_certificate(&self) -> bool {
        self.is_secured || self.opponent.endpoint.starts_with("quic/")
    }

    /// zenoh's settings by key, the same for both links but for what the link itself needs.
    pub(super) fn zenoh(&self) -> impl Iterator<Item = (&str, &str)> {
        let links = self.opponent.zenoh.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        COMMON.into_iter().chain(links)
    }
}

/// As configs/v2v.json5: contacts are short, so zenoh tries again soon. All that vehicles know of each other is the
/// endpoint, and messages must not pass by the network in shared memory.
const COMMON: [(&str, &str); 8] = [
    ("mode", "\"peer\""),
    ("scouting/multicast/enabled", "false"),
    ("scouting/gossip/enabled", "false"),
    ("transport/shared_memory/enabled", "false"),
    ("open/return_conditions/connect_scouted", "false"),
    ("connect/timeout_ms", "-1"),
    ("connect/exit_on_failure", "false"),
    ("connect/retry", "{period_init_ms:100,period_max_ms:500,period_increase_factor:2}"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use zenoh_config::EndPoint;

    #[test]
    fn every_choice_has_endpoints_and_settings_that_zenoh_takes() {
        let host = IpAddr::from([10, 77, 0, 1]);
        for against in Against::value_variants() {
            let contenders = choose(*against, false, 2).unwrap();
            assert_eq!((contenders[0].name, contenders[0].radios), ("arq", 2));
            assert!(contenders[0].connector(host).ends_with(";paths=eth0,eth1"));
            assert_eq!(contenders[1].radios, 1);
            assert!(!contenders[0].has_certificate());
            assert_eq!(contenders[1].has_certificate(), matches!(against, Against::Quic));
            assert!(choose(*against, true, 1).unwrap()[0].has_certificate());
            for contender in &contenders {
                for endpoint in [contender.listener(host), contender.connector(host)] {
                    endpoint.parse::<EndPoint>().unwrap_or_else(|e| panic!("{endpoint}: {e}"));
                }
                let mut config = zenoh::Config::default();
                for (key, value) in contender.zenoh() {
                    config.insert_json5(key, value).unwrap_or_else(|e| panic!("{key}: {e}"));
                }
            }
        }
    }
}
