// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The socket of the real world: UDP with segmentation offload through `quinn-udp`, which also
//! forbids IP fragmentation.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket as StdSocket},
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
    task::{Context, Poll},
};

use arq_proto::{EcnCodepoint, UnreachableReport};
use quinn_udp::{Transmit, UdpSocketState};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use super::{interface, readiness::Watched, reports, DatagramSocket, ReceiveBatch, Segments};

/// How a UDP socket is set up. The defaults bind to any free port of any interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SocketOptions {
    /// Bytes asked of the kernel for what is sent and not yet on the wire.
    pub send_buffer_bytes: usize,
    /// Bytes asked of the kernel for what has arrived and is not yet read. Small ones lose bursts.
    pub receive_buffer_bytes: usize,
    /// Bind to this network interface.
    pub interface: Option<String>,
    /// The type-of-service byte of every datagram, but for its low two bits, which are those of ECN. Costs segmentation
    /// offload on sending.
    pub dscp: Option<u32>,
    /// Whether several datagrams may leave in one call (segmentation offload, GSO).
    pub batches: bool,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            send_buffer_bytes: 4 << 20,
            receive_buffer_bytes: 4 << 20,
            interface: None,
            dscp: None,
            batches: true,
        }
    }
}

/// A UDP socket of the kernel.
#[derive(Debug)]
pub struct UdpDatagramSocket {
    socket: Watched,
    offload: UdpSocketState,
    /// Datagrams in one call. `quinn-udp` has a number of its own, which any EINVAL ends, such as one for a
    /// source address that is gone.
    max_segments: AtomicUsize,
    local: SocketAddr,
    options: SocketOptions,
    /// The type-of-service byte, if there is one, without the bits of ECN. With it datagrams go one by one: `quinn-udp`
    /// would overwrite the byte with those bits.
    tos: Option<u8>,
}

impl UdpDatagramSocket {
    /// Binds to `address` and applies `options`. Needs a tokio runtime's context.
    ///
    /// # Errors
    /// What the kernel answers, `AddrInUse` for a taken port.
    pub fn bind(address: SocketAddr, options: &SocketOptions) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        // Before the address: which interface is meant decides whether a port is taken, and what a
        // link-local address is. Nor does anything come in from another interface meanwhile.
        if let Some(interface) = &options.interface {
            bind_device(&socket, interface)?;
        }
        socket.bind(&SockAddr::from(address))?;
        let socket = StdSocket::from(socket);
        let offload = UdpSocketState::new((&socket).into())?;
        let local = socket.local_addr()?;
        // Only its low byte travels.
        let tos = options.dscp.map(|tos| (tos & 0xfc) as u8);
        if let Some(tos) = tos {
            set_type_of_service(&socket, local, tos.into())?;
        }
        reports::ask(&socket);
        resize_buffers(&socket, &offload, options);
        let may_batch = options.batches && tos.is_none();
        let max_segments = if may_batch { offload.max_gso_segments() } else { 1 };
        let socket = Watched::new(socket)?;
        let options = options.clone();
        Ok(Self { socket, offload, max_segments: max_segments.into(), local, options, tos })
    }

    fn send_one_by_one(&self, segments: &Segments<'_>) -> io::Result<()> {
        let mut sent_any = false;
        for datagram in segments.datagrams() {
            let one = Segments { contents: datagram, segment_bytes: datagram.len(), ..*segments };
            match self.send_once(&one) {
                Ok(()) => sent_any = true,
                // The rest is lost, as in a full queue further on.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && sent_any => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn send_once(&self, segments: &Segments<'_>) -> io::Result<()> {
        if let Some(tos) = self.tos {
            return self.socket.try_write(|socket| {
                reports::past(|| send_plainly(&SockRef::from(socket), segments, tos))
            });
        }
        let transmit = Transmit {
            destination: segments.destination,
            ecn: segments.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn.bits())),
            contents: segments.contents,
            segment_size: Some(segments.segment_bytes),
            src_ip: segments.source,
        };
        self.socket
            .try_write(|socket| reports::past(|| self.offload.try_send(socket.into(), &transmit)))
    }
}

impl DatagramSocket for UdpDatagramSocket {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_readable(cx)
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_writable(cx)
    }

    fn try_receive(&self, batch: &mut ReceiveBatch) -> io::Result<()> {
        batch.fill(|buffers, meta| {
            self.socket.try_read(|socket| {
                reports::past(|| self.offload.recv(socket.into(), buffers, meta))
            })
        })
    }

    fn try_send(&self, segments: &Segments<'_>) -> io::Result<()> {
        let several = segments.contents.len() > segments.segment_bytes;
        match self.send_once(segments) {
            // Some drivers refuse segmentation offload only when it is used. If the same datagrams
            // pass without it, that was the cause.
            Err(error) if several && is_offload_refusal(&error) => {
                self.send_one_by_one(segments)?;
                self.max_segments.store(1, Ordering::Relaxed);
                Ok(())
            }
            result => result,
        }
    }

    fn poll_reports(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.socket.poll_error(cx)
    }

    fn take_reports(&self, show: &mut dyn FnMut(&UnreachableReport<'_>)) {
        reports::take(self.socket.socket(), show);
    }

    fn at_other_port(&self) -> io::Result<Option<Arc<dyn DatagramSocket>>> {
        let address = SocketAddr::new(self.local.ip(), 0);
        Ok(Some(Arc::new(Self::bind(address, &self.options)?)))
    }

    fn mtu_toward(&self, remote: SocketAddr) -> Option<u16> {
        interface::mtu_toward(self.local.ip(), remote, self.options.interface.as_deref())
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn max_segments(&self) -> usize {
        self.max_segments.load(Ordering::Relaxed)
    }
}

fn is_offload_refusal(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    const EINVAL: i32 = 22;
    matches!(error.raw_os_error(), Some(EIO | EINVAL))
}

/// Sends one datagram with the type of service `tos`, which the socket has, too, and its codepoint.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn send_plainly(socket: &Socket, segments: &Segments<'_>, tos: u8) -> io::Result<()> {
    let destination = SockAddr::from(segments.destination);
    let contents = [io::IoSlice::new(segments.contents)];
    let mut control = segments.source.map(packet_info).unwrap_or_default();
    control.extend(
        segments.ecn.iter().flat_map(|ecn| type_of_service(segments.destination, tos, *ecn)),
    );
    let message = socket2::MsgHdr::new().with_addr(&destination).with_buffers(&contents);
    socket.sendmsg(&message.with_control(&control), 0).map(drop)
}

/// The source is left to the routing table, and nothing says that the datagram is capable of ECN.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn send_plainly(socket: &Socket, segments: &Segments<'_>, _tos: u8) -> io::Result<()> {
    socket.send_to(segments.contents, &SockAddr::from(segments.destination)).map(drop)
}

/// The control message that names the source of a datagram: the kernel's `in_pktinfo` or `in6_pktinfo` behind
/// a `cmsghdr`.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn packet_info(source: IpAddr) -> Vec<u8> {
    const IPPROTO_IP: i32 = 0;
    const IP_PKTINFO: i32 = 8;
    const IPPROTO_IPV6: i32 = 41;
    const IPV6_PKTINFO: i32 = 50;
    // Index 0: whichever interface leads there.
    let interface = [0_u8; 4];
    let (level, kind, info) = match source {
        IpAddr::V4(ip) => (IPPROTO_IP, IP_PKTINFO, [interface, ip.octets(), [0; 4]].concat()),
        IpAddr::V6(ip) => (IPPROTO_IPV6, IPV6_PKTINFO, [&ip.octets()[..], &interface].concat()),
    };
    control_message(level, kind, &info)
}

/// The control message that says what stands in the type-of-service or traffic-class byte of a datagram.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn type_of_service(destination: SocketAddr, tos: u8, ecn: EcnCodepoint) -> Vec<u8> {
    const IPPROTO_IP: i32 = 0;
    const IP_TOS: i32 = 1;
    const IPPROTO_IPV6: i32 = 41;
    const IPV6_TCLASS: i32 = 67;
    // An IPv4 address within one of IPv6 gets a header of IPv4.
    let (level, kind) = match destination.ip().to_canonical() {
        IpAddr::V4(_) => (IPPROTO_IP, IP_TOS),
        IpAddr::V6(_) => (IPPROTO_IPV6, IPV6_TCLASS),
    };
    control_message(level, kind, &i32::from(tos | ecn.bits()).to_ne_bytes())
}

/// A control message as the kernel wants it: a `cmsghdr`, and `data` filled up to a machine word.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn control_message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
    const HEADER_BYTES: usize = size_of::<usize>() + 2 * size_of::<i32>();
    let mut message = (HEADER_BYTES + data.len()).to_ne_bytes().to_vec();
    message.extend(level.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(data);
    message.resize(message.len().next_multiple_of(size_of::<usize>()), 0);
    message
}

fn resize_buffers(socket: &StdSocket, offload: &UdpSocketState, options: &SocketOptions) {
    // The kernel caps both silently at net.core.{w,r}mem_max: a smaller one is slower, not wrong.
    let set = offload
        .set_send_buffer_size(socket.into(), options.send_buffer_bytes)
        .and_then(|()| offload.set_recv_buffer_size(socket.into(), options.receive_buffer_bytes));
    if let Err(error) = set {
        tracing::debug!(%error, "the kernel refused the socket buffer sizes");
    }
    tracing::debug!(
        asked_send = options.send_buffer_bytes,
        asked_receive = options.receive_buffer_bytes,
        // Linux reports twice the usable size.
        got_send = offload.send_buffer_size(socket.into()).unwrap_or_default(),
        got_receive = offload.recv_buffer_size(socket.into()).unwrap_or_default(),
        "socket buffers"
    );
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn bind_device(socket: &Socket, interface: &str) -> io::Result<()> {
    let bound = socket.bind_device(Some(interface.as_bytes()));
    bound.map_err(|error| why_unbound(error, interface))
}

/// Tells who may bind a socket to an interface, and that there is none of this name.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn why_unbound(error: io::Error, interface: &str) -> io::Error {
    const ENODEV: i32 = 19;
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
            let reason = format!(
                "a socket cannot be bound to the interface {interface}: that needs Linux 5.7 or later, or the capability \
                 CAP_NET_RAW (`setcap cap_net_raw+ep <program>`); this is Linux {}",
                kernel.trim()
            );
            io::Error::new(error.kind(), reason)
        }
        _ if error.raw_os_error() == Some(ENODEV) => {
            let reason = format!("there is no network interface {interface}");
            io::Error::new(io::ErrorKind::NotFound, reason)
        }
        _ => error,
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn bind_device(_socket: &Socket, _interface: &str) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "binding to an interface needs Linux"))
}

fn set_type_of_service(socket: &StdSocket, local: SocketAddr, tos: u32) -> io::Result<()> {
    let socket = SockRef::from(socket);
    match local.ip() {
        IpAddr::V4(_) => socket.set_tos_v4(tos),
        #[cfg(unix)]
        IpAddr::V6(_) => {
            // What goes to IPv4 peers from a socket of both versions has a byte of its own. Not every
            // system has such sockets.
            if let Err(error) = socket.set_tos_v4(tos) {
                tracing::debug!(%error, "no type of service for IPv4 on a socket of IPv6");
            }
            socket.set_tclass_v6(tos)
        }
        #[cfg(not(unix))]
        IpAddr::V6(_) => Err(io::Error::new(io::ErrorKind::Unsupported, "dscp over IPv6")),
    }
}

/// `bound`'s address, or, where that is any, the one from which the routing table would reach `remote`.
/// Nothing is sent.
///
/// # Errors
/// What the kernel answers, e.g. that there is no route.
pub fn source_toward(remote: SocketAddr, bound: SocketAddr) -> io::Result<IpAddr> {
    if !bound.ip().is_unspecified() {
        return Ok(bound.ip());
    }
    let probe = StdSocket::bind(SocketAddr::new(bound.ip(), 0))?;
    probe.connect(remote)?;
    Ok(probe.local_addr()?.ip())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Far above what is needed: only a hang runs into it.
    const HANG: Duration = Duration::from_secs(30);

    /// The kernel before 5.7 has refused: what its answer becomes.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn who_may_not_bind_to_an_interface_is_told_both_ways_out() {
        const EPERM: i32 = 1;
        let error = why_unbound(io::Error::from_raw_os_error(EPERM), "wwan0");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let text = error.to_string();
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        for part in
            ["interface wwan0", "Linux 5.7 or later", "CAP_NET_RAW", "setcap", kernel.trim()]
        {
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
        assert!(!text.contains("  "), "{text}");
    }

    #[tokio::test]
    async fn the_interface_is_known_before_the_address() {
        let options =
            SocketOptions { interface: Some("lo".to_owned()), ..SocketOptions::default() };
        // The same on every interface: it can be bound only where one is chosen.
        let of_an_interface: SocketAddr = "[ff02::1]:0".parse().unwrap();
        UdpDatagramSocket::bind(of_an_interface, &options).unwrap();
        UdpDatagramSocket::bind(of_an_interface, &SocketOptions::default()).unwrap_err();
    }

    #[tokio::test]
    async fn why_an_interface_cannot_be_bound_to_is_told() {
        let options =
            SocketOptions { interface: Some("none-such".to_owned()), ..SocketOptions::default() };
        let error = UdpDatagramSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("none-such"), "{error}");
        let error = why_unbound(io::Error::from_raw_os_error(1), "wlan0").to_string();
        assert!(
            ["wlan0", "Linux 5.7", "CAP_NET_RAW"].iter().all(|word| error.contains(word)),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_type_of_service_holds_for_both_ip_versions_and_one_datagram_at_a_time() {
        let options = SocketOptions { dscp: Some(0xb8), ..SocketOptions::default() };
        let socket = UdpDatagramSocket::bind("[::]:0".parse().unwrap(), &options).unwrap();
        assert_eq!(socket.max_segments(), 1);
        let kernel = SockRef::from(socket.socket.socket());
        assert_eq!((kernel.tos_v4().unwrap(), kernel.tclass_v6().unwrap()), (0xb8, 0xb8));
    }

    #[tokio::test]
    async fn without_batches_datagrams_leave_one_at_a_time() {
        let options = SocketOptions { batches: false, ..SocketOptions::default() };
        let socket = UdpDatagramSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        assert_eq!(socket.max_segments(), 1);
    }

    #[tokio::test]
    async fn a_source_address_that_is_refused_costs_no_offload() {
        let any = "0.0.0.0:0".parse().unwrap();
        let socket = UdpDatagramSocket::bind(any, &SocketOptions::default()).unwrap();
        let peer = StdSocket::bind("127.0.0.1:0").unwrap();
        peer.set_read_timeout(Some(HANG)).unwrap();
        let destination = peer.local_addr().unwrap();
        let two_from = |source: Option<IpAddr>| Segments {
            destination,
            source,
            ecn: None,
            contents: &[7; 20],
            segment_bytes: 10,
        };
        let before = socket.max_segments();
        // For documentation (RFC 5737): no host has it.
        socket.try_send(&two_from(Some(IpAddr::from([192, 0, 2, 1])))).unwrap_err();
        assert_eq!(socket.max_segments(), before);
        socket.try_send(&two_from(None)).unwrap();
        for _ in 0..2 {
            assert_eq!(peer.recv(&mut [0; 100]).unwrap(), 10);
        }
    }
}
