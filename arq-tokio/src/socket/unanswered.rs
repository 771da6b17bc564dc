// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Why does nobody answer what leaves by an interface?
//!
//! A socket that is bound to an interface sends there whatever the routing table prefers. What comes back meets two traps of
//! Linux: a filter drops answers that arrive by another interface than the one that a packet to the peer would leave by,
//! and without a route the peer is taken for a neighbour, so that datagrams end in a search for its hardware address.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::udp::bind_device;

/// The filter drops what arrives by another interface than the best (RFC 3704, strict).
const STRICT: u8 = 1;

/// What stands in the way, as the end of a sentence; empty where nothing does that is known.
pub(crate) fn why_unanswered(interface: &str, remote: SocketAddr) -> String {
    let filter = |of: &str| {
        let path = format!("/proc/sys/net/ipv4/conf/{of}/rp_filter");
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    let ip = remote.ip().to_canonical();
    let table = fs::read_to_string("/proc/net/route").ok();
    let has_route = match ip {
        IpAddr::V4(ip) => table.map(|table| has_route(&table, interface, ip)),
        IpAddr::V6(_) => None,
    };
    let facts = Facts {
        unreachable: probe(interface, remote).err().map(|error| error.to_string()),
        filter: filter("all").max(filter(interface)).filter(|_| ip.is_ipv4()),
        has_route,
    };
    facts.tell(interface, ip)
}

/// What is known of the way to a peer.
#[derive(Debug, Default)]
struct Facts {
    /// Why the system would not send there at all.
    unreachable: Option<String>,
    /// The stricter of the two settings that count.
    filter: Option<u8>,
    /// The main routing table has a route. There may be one in another table.
    has_route: Option<bool>,
}

impl Facts {
    fn tell(&self, interface: &str, remote: IpAddr) -> String {
        if let Some(reason) = &self.unreachable {
            return format!("; there is no route to {remote} on {interface}: {reason}");
        }
        let mut causes = Vec::new();
        if self.filter == Some(STRICT) {
            causes.push(format!(
                "the kernel drops answers that arrive on {interface} while its route to {remote} leads elsewhere \
                 (rp_filter=1): try `sysctl -w net.ipv4.conf.{interface}.rp_filter=2`"
            ));
        }
        if self.has_route == Some(false) {
            causes.push(format!(
                "the main routing table has no route to {remote} on {interface}: add one, e.g. \
                 `ip route add default via <its gateway> dev {interface} metric 1000`"
            ));
        }
        match causes.is_empty() {
            true => String::new(),
            false => format!("; {}", causes.join("; ")),
        }
    }
}

/// Whether the system would send there. Nothing is sent.
fn probe(interface: &str, remote: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(remote), Type::DGRAM, Some(Protocol::UDP))?;
    bind_device(&socket, interface)?;
    socket.connect(&SockAddr::from(remote))
}

/// Whether `/proc/net/route` has a route to `remote` by an interface. Its numbers are in the byte order of the network, read
/// as the host reads them.
fn has_route(table: &str, interface: &str, remote: Ipv4Addr) -> bool {
    let remote = u32::from_ne_bytes(remote.octets());
    table.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let hex =
            |place: usize| fields.get(place).and_then(|field| u32::from_str_radix(field, 16).ok());
        fields.first() == Some(&interface)
            && matches!((hex(1), hex(7)), (Some(to), Some(mask)) if remote & mask == to)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);

    #[test]
    fn the_likely_cause_is_named_with_what_to_do() {
        let tell = |facts: Facts| facts.tell("wwan0", PEER.into());
        assert_eq!(tell(Facts::default()), "");
        assert_eq!(tell(Facts { filter: Some(2), has_route: Some(true), ..Facts::default() }), "");
        let strict = tell(Facts { filter: Some(1), ..Facts::default() });
        assert!(strict.contains("`sysctl -w net.ipv4.conf.wwan0.rp_filter=2`"), "{strict}");
        let none = tell(Facts { has_route: Some(false), ..Facts::default() });
        assert!(none.contains("no route to 192.0.2.7 on wwan0"), "{none}");
        let refused =
            tell(Facts { unreachable: Some("what it says".to_owned()), ..Facts::default() });
        assert!(refused.contains("what it says"), "{refused}");
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_route_is_found_in_the_table_of_the_kernel() {
        let table =
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                     eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
                     wlan0\t000200C0\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0\n";
        assert!(has_route(table, "eth0", PEER), "the default route");
        assert!(has_route(table, "wlan0", PEER), "192.0.2.0/24");
        assert!(!has_route(table, "wlan0", Ipv4Addr::new(192, 0, 3, 7)));
        assert!(!has_route(table, "wwan0", PEER));
    }
}
