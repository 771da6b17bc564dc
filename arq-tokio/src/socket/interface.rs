// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which MTU has the interface toward a peer?
//!
//! The answer comes from a socket that is connected to the peer, sends nothing and is closed at once. It only spares probes
//! that the system would refuse; probing finds out what the path carries. The system may have been told less by a router, so
//! values below *base* are ignored.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use arq_proto::config::{MAX_MTU, MAX_MTU_IPV6};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::udp::bind_device;

/// Headers of IP and UDP.
const IPV4_HEADERS_BYTES: u32 = 28;
const IPV6_HEADERS_BYTES: u32 = 48;

/// Bytes of UDP payload that the interface carries on the way from `local` to `remote`; `None` where the system does not
/// say.
pub(super) fn mtu_toward(local: IpAddr, remote: SocketAddr, device: Option<&str>) -> Option<u16> {
    match ask(local, remote, device) {
        Ok(packet) => packet.map(|packet| payload(packet, remote.ip())),
        Err(error) => {
            tracing::debug!(%error, %remote, "the interface's MTU is not known");
            None
        }
    }
}

/// The payload of an IP packet of this length, bounded by the longest datagram.
fn payload(packet: u32, remote: IpAddr) -> u16 {
    let (headers, most) = match remote.to_canonical() {
        IpAddr::V4(_) => (IPV4_HEADERS_BYTES, MAX_MTU),
        IpAddr::V6(_) => (IPV6_HEADERS_BYTES, MAX_MTU_IPV6),
    };
    u16::try_from(packet.saturating_sub(headers)).unwrap_or(most).min(most)
}

fn ask(local: IpAddr, remote: SocketAddr, device: Option<&str>) -> io::Result<Option<u32>> {
    let address = SocketAddr::new(local, 0);
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if let Some(device) = device {
        bind_device(&socket, device)?;
    }
    socket.bind(&SockAddr::from(address))?;
    socket.connect(&SockAddr::from(remote))?;
    packet_bytes(&socket, remote)
}

/// The MTU of the route. A socket of IPv6 answers the option of IPv4, too: for whichever it is connected with.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn packet_bytes(socket: &Socket, _remote: SocketAddr) -> io::Result<Option<u32>> {
    use nix::sys::socket::{getsockopt, sockopt};

    let bytes = getsockopt(socket, sockopt::IpMtu)?;
    Ok(u32::try_from(bytes).ok())
}

/// Without such an option: where the route begins and ends at the same address, there is only memory between.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn packet_bytes(socket: &Socket, remote: SocketAddr) -> io::Result<Option<u32>> {
    let source = socket.local_addr()?.as_socket();
    Ok(source.is_some_and(|source| source.ip() == remote.ip()).then_some(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_not_payload() {
        let ipv4: IpAddr = "192.0.2.1".parse().unwrap();
        let ipv6: IpAddr = "2001:db8::1".parse().unwrap();
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        let of = |packet| [ipv4, ipv6, mapped].map(|remote| payload(packet, remote));
        assert_eq!(of(1_500), [1_472, 1_452, 1_472]);
        assert_eq!(of(1_280), [1_252, 1_232, 1_252]);
        assert_eq!(of(65_536), [65_507, 65_487, 65_507]);
        assert_eq!(of(u32::MAX), [65_507, 65_487, 65_507]);
        assert_eq!(of(0), [0, 0, 0]);
    }

    #[test]
    fn within_the_machine_there_is_no_limit_but_that_of_datagrams() {
        let loopback = |local: &str, remote: &str| {
            mtu_toward(local.parse().unwrap(), remote.parse().unwrap(), None)
        };
        assert_eq!(loopback("0.0.0.0", "127.0.0.1:7447"), Some(65_507));
        assert_eq!(loopback("::1", "[::1]:7447"), Some(65_487));
        assert_eq!(loopback("::", "[::ffff:127.0.0.1]:7447"), Some(65_507));
        // No such route.
        assert_eq!(loopback("127.0.0.1", "[::1]:7447"), None);
    }
}
