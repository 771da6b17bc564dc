// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which network interfaces does this host have, which of them are up, and when does that change?
//!
//! One watcher serves the whole process. On Linux the kernel says by netlink that something has changed; what has, is then
//! listed anew, so an event that is lost costs time and nothing else. Where there is no netlink, as in some sandboxes, the
//! list is read once a second.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod other;
mod watcher;

use std::{collections::BTreeMap, io, net::IpAddr};

#[cfg(any(target_os = "linux", target_os = "android"))]
use linux as system;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
use other as system;

pub(crate) use watcher::watch;

/// How an interface stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The kernel's number of it, never used twice in a row; 0 if there is none of this name.
    pub(crate) index: u32,
    /// It is up and has a carrier.
    pub(crate) is_up: bool,
    pub(crate) has_ipv4: bool,
    pub(crate) has_ipv6: bool,
    /// An address that is good for this link alone.
    pub(crate) has_ipv6_link_local: bool,
    /// There is a device behind it, not only the kernel: no loopback, tunnel, bridge or VPN.
    pub(crate) is_device: bool,
}

impl Reach {
    /// One of which nothing is known but that it can be used.
    pub(crate) const ANYWHERE: Self = Self {
        index: u32::MAX,
        is_up: true,
        has_ipv4: true,
        has_ipv6: true,
        has_ipv6_link_local: true,
        is_device: true,
    };

    /// Whether datagrams to `remote` may leave there, as far as addresses tell.
    pub(crate) fn leads_to(self, remote: IpAddr) -> bool {
        self.is_up
            && match remote.to_canonical() {
                IpAddr::V4(_) => self.has_ipv4,
                IpAddr::V6(ip) if ip.is_unicast_link_local() => self.has_ipv6_link_local,
                IpAddr::V6(_) => self.has_ipv6,
            }
    }

    /// Whether a path may lead there that nobody has asked for by name.
    pub(crate) const fn suits_anyone(self) -> bool {
        self.is_device && self.is_up && (self.has_ipv4 || self.has_ipv6)
    }

    fn add(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(_) => self.has_ipv4 = true,
            IpAddr::V6(ip) if ip.is_unicast_link_local() => self.has_ipv6_link_local = true,
            IpAddr::V6(_) => self.has_ipv6 = true,
        }
    }
}

/// The interfaces of this host, by name.
pub(crate) type Interfaces = BTreeMap<String, Reach>;

/// The interfaces that there are now.
pub(crate) fn list() -> io::Result<Interfaces> {
    system::list()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_leads_to_peers_of_the_ip_versions_that_it_has_addresses_of() {
        let [v4, v6, near]: [IpAddr; 3] =
            ["192.0.2.1", "2001:db8::1", "fe80::1"].map(|ip| ip.parse().unwrap());
        let up = Reach { index: 3, is_up: true, ..Reach::default() };
        let leads = |reach: Reach| [v4, v6, near].map(|remote| reach.leads_to(remote));
        let with = |address: IpAddr| {
            let mut reach = up;
            reach.add(address);
            reach
        };
        assert_eq!(leads(up), [false; 3]);
        assert_eq!(leads(with(v4)), [true, false, false]);
        assert_eq!(leads(with(v6)), [false, true, false]);
        assert_eq!(leads(with(near)), [false, false, true]);
        assert_eq!(leads(Reach { is_up: false, ..Reach::ANYWHERE }), [false; 3]);
        assert!(Reach::ANYWHERE.leads_to("::ffff:192.0.2.1".parse().unwrap()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_loopback_is_listed() {
        let interfaces = list().unwrap();
        let loopback = interfaces.get("lo").expect("every network namespace has one");
        assert_ne!(loopback.index, 0);
        assert!(!loopback.suits_anyone());
    }
}
