// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does the system report about datagrams that did not arrive?
//!
//! Linux keeps ICMP messages in a queue beside the data (`IP_RECVERR`, ip(7)), each with the begin of the datagram that it
//! answers, also on sockets that are not connected. Elsewhere such a socket hears nothing of them.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use linux::{ask, past, take};

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) use elsewhere::{ask, past, take};

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use std::{
        io::{self, IoSliceMut},
        net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket},
        os::fd::AsRawFd,
    };

    use arq_proto::{Unreachable, UnreachableReport};
    use nix::{
        libc,
        sys::socket::{
            recvmsg, setsockopt, sockopt, ControlMessageOwned, MsgFlags, RecvMsg, SockaddrStorage,
        },
    };

    /// Reports that are taken at a time: anybody can send them.
    const MAX_REPORTS: usize = 64;
    /// Bytes of a quoted datagram that identify its connection.
    const QUOTE_BYTES: usize = 64;
    /// Room for control messages: error, reporter, interface, type of service.
    const CONTROL_BYTES: usize = 256;
    /// Tries of a call: while reports are taken, the kernel may leave several errors behind.
    const MAX_TRIES: usize = 3;

    /// Asks the kernel for reports. Without them only time-outs remain.
    pub(in super::super) fn ask(socket: &UdpSocket) {
        // A socket of both IP versions has an option for each.
        let is_ipv6 = socket.local_addr().is_ok_and(|local| local.is_ipv6());
        let ipv6 = is_ipv6.then(|| setsockopt(socket, sockopt::Ipv6RecvErr, &true));
        let ipv4 = setsockopt(socket, sockopt::Ipv4RecvErr, &true);
        if let Err(error) = ipv6.unwrap_or(ipv4) {
            tracing::debug!(%error, "the kernel does not report what is unreachable");
        }
    }

    /// Calls once more where an error may be one that a report has left behind: the next call is told of it, and does
    /// nothing (udp(7)). The report itself stays in its queue.
    pub(in super::super) fn past<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        for _ in 1..MAX_TRIES {
            match call() {
                Err(error) if may_be_left_behind(&error) => {}
                result => return result,
            }
        }
        call()
    }

    /// Whether the kernel makes this error of an ICMP message.
    fn may_be_left_behind(error: &io::Error) -> bool {
        matches!(
            error.raw_os_error(),
            Some(
                libc::ECONNREFUSED
                    | libc::EHOSTUNREACH
                    | libc::ENETUNREACH
                    | libc::EACCES
                    | libc::EMSGSIZE
                    | libc::EHOSTDOWN
                    | libc::ENONET
                    | libc::ENOPROTOOPT
                    | libc::EOPNOTSUPP
                    | libc::EPROTO
            )
        )
    }

    /// Shows what has been reported since, up to a bound; the kernel makes the socket ready again for the rest.
    pub(in super::super) fn take(socket: &UdpSocket, show: &mut dyn FnMut(&UnreachableReport<'_>)) {
        let mut control = Vec::with_capacity(CONTROL_BYTES);
        for _ in 0..MAX_REPORTS {
            let mut quote = [0; QUOTE_BYTES];
            let mut room = [IoSliceMut::new(&mut quote)];
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let received = recvmsg(socket.as_raw_fd(), &mut room, Some(&mut control), flags);
            let Ok(message) = received else { return };
            let bytes = message.bytes.min(QUOTE_BYTES);
            let Some((cause, destination, reporter)) = read(&message) else { continue };
            let quote = &quote[..bytes];
            show(&UnreachableReport::new(cause, destination, reporter, quote));
        }
    }

    /// The cause, the datagram's destination, and the reporter.
    fn read(
        message: &RecvMsg<'_, '_, SockaddrStorage>,
    ) -> Option<(Unreachable, SocketAddr, IpAddr)> {
        let mut reports = message.cmsgs().ok()?.filter_map(|control| match control {
            ControlMessageOwned::Ipv4RecvErr(error, reporter) => {
                let reporter = Ipv4Addr::from(u32::from_be(reporter?.sin_addr.s_addr));
                Some((cause(error)?, IpAddr::V4(reporter)))
            }
            ControlMessageOwned::Ipv6RecvErr(error, reporter) => {
                let reporter = Ipv6Addr::from(reporter?.sin6_addr.s6_addr);
                Some((cause(error)?, IpAddr::V6(reporter)))
            }
            _ => None,
        });
        let (cause, reporter) = reports.next()?;
        let destination = message.address.as_ref()?;
        let ipv4 = destination.as_sockaddr_in().map(|v4| SocketAddrV4::from(*v4).into());
        let ipv6 = || destination.as_sockaddr_in6().map(|v6| SocketAddrV6::from(*v6).into());
        Some((cause, ipv4.or_else(ipv6)?, reporter))
    }

    /// What an ICMP message says (RFC 792, 1122 §3.2.2.1, 1812 §5.2.7.1, 4443 §3), if it is about reaching somebody.
    fn cause(error: libc::sock_extended_err) -> Option<Unreachable> {
        match (error.ee_origin, error.ee_type, error.ee_code) {
            (libc::SO_EE_ORIGIN_ICMP, 3, 2 | 3) | (libc::SO_EE_ORIGIN_ICMP6, 1, 4) => {
                Some(Unreachable::Port)
            }
            (libc::SO_EE_ORIGIN_ICMP, 3, 1 | 7 | 12) | (libc::SO_EE_ORIGIN_ICMP6, 1, 3) => {
                Some(Unreachable::Host)
            }
            (libc::SO_EE_ORIGIN_ICMP, 3, 9 | 10 | 13..=15)
            | (libc::SO_EE_ORIGIN_ICMP6, 1, 1 | 5 | 6) => Some(Unreachable::Prohibited),
            (libc::SO_EE_ORIGIN_ICMP, 3, 0 | 5 | 6 | 8 | 11)
            | (libc::SO_EE_ORIGIN_ICMP6, 1, 0 | 2) => Some(Unreachable::Network),
            // The time to live is over: the packet went in circles.
            (libc::SO_EE_ORIGIN_ICMP, 11, 0) | (libc::SO_EE_ORIGIN_ICMP6, 3, 0) => {
                Some(Unreachable::Network)
            }
            _ => None,
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod elsewhere {
    use std::{io, net::UdpSocket};

    use arq_proto::UnreachableReport;

    pub(in super::super) fn ask(_socket: &UdpSocket) {}

    pub(in super::super) fn past<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        call()
    }

    pub(in super::super) fn take(_: &UdpSocket, _: &mut dyn FnMut(&UnreachableReport<'_>)) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{
        future::poll_fn,
        net::{SocketAddr, UdpSocket},
        time::Duration,
    };

    use arq_proto::Unreachable;

    use crate::socket::{
        udp::{SocketOptions, UdpDatagramSocket},
        DatagramSocket, Segments,
    };

    /// Far above what is needed: only a hang runs into it.
    const HANG: Duration = Duration::from_secs(30);

    fn send(socket: &UdpDatagramSocket, destination: SocketAddr, contents: &[u8]) {
        let segment_bytes = contents.len();
        socket
            .try_send(&Segments { destination, source: None, ecn: None, contents, segment_bytes })
            .expect("it leaves");
    }

    /// A port of this host that was free a moment ago.
    fn closed(ip: &str) -> SocketAddr {
        let socket = UdpSocket::bind((ip, 0)).expect("a port");
        socket.local_addr().expect("its address")
    }

    #[tokio::test]
    async fn a_closed_port_is_reported_with_the_begin_of_what_was_sent() {
        for (bound, ip, seen) in [
            ("127.0.0.1:0", "127.0.0.1", "127.0.0.1"),
            ("0.0.0.0:0", "127.0.0.1", "127.0.0.1"),
            ("[::]:0", "::1", "::1"),
            ("[::]:0", "127.0.0.1", "::ffff:127.0.0.1"),
        ] {
            let options = SocketOptions::default();
            let socket = UdpDatagramSocket::bind(bound.parse().unwrap(), &options).unwrap();
            let port = closed(ip).port();
            let destination = SocketAddr::new(seen.parse().unwrap(), port);
            send(&socket, destination, b"to nobody");
            let ready = tokio::time::timeout(HANG, poll_fn(|cx| socket.poll_reports(cx)));
            ready.await.expect("the socket is ready");
            let mut reports = 0;
            socket.take_reports(&mut |report| {
                reports += 1;
                assert_eq!(report.cause, Unreachable::Port);
                assert_eq!(report.destination, destination);
                assert_eq!(report.reporter.to_canonical(), destination.ip().to_canonical());
                assert_eq!(report.quote, b"to nobody");
            });
            assert_eq!(reports, 1, "{bound} to {ip}");
            socket.take_reports(&mut |report| panic!("{report:?}"));
        }
    }

    /// A report is an error of the socket, which the next call is told of, whomever that is for.
    #[tokio::test]
    async fn a_report_costs_nobody_else_a_datagram() {
        let options = SocketOptions::default();
        let socket = UdpDatagramSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.set_read_timeout(Some(HANG)).unwrap();
        let nobody = closed("127.0.0.1");
        for _ in 0..100 {
            send(&socket, nobody, b"to nobody");
            send(&socket, peer.local_addr().unwrap(), b"to somebody");
            assert_eq!(peer.recv(&mut [0; 64]).unwrap(), b"to somebody".len());
            let ready = tokio::time::timeout(HANG, poll_fn(|cx| socket.poll_reports(cx)));
            ready.await.expect("each report makes the socket ready");
            socket.take_reports(&mut |_| ());
        }
    }
}
