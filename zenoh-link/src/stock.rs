// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which links does this build carry, and which cargo feature brings one that it lacks?

use zenoh_protocol::core::Reliability::{self, BestEffort, Reliable};

use crate::{registry, LinkDescriptor as Link};

/// One entry per link that is compiled in; of two with one protocol, the default one first.
#[rustfmt::skip]
pub(crate) fn links() -> Vec<Link> {
    vec![
        #[cfg(feature = "transport_arq")]
        Link::new::<crate::arq::ArqLocatorInspector>()
            .unicast(crate::arq::LinkManagerUnicastArq::new)
            .configured_by::<crate::arq::ArqConfigurator>(),
        #[cfg(feature = "transport_quic")]
        Link::new::<crate::quic::QuicLocatorInspector>()
            .only(Reliable)
            .unicast(crate::quic::LinkManagerUnicastQuic::new)
            .configured_by::<crate::quic::QuicConfigurator>(),
        #[cfg(feature = "transport_quic_datagram")]
        Link::new::<crate::quic_datagram::QuicDatagramLocatorInspector>()
            .only(BestEffort)
            .unicast(crate::quic_datagram::LinkManagerUnicastQuicDatagram::new)
            .configured_by::<crate::quic_datagram::QuicDatagramConfigurator>(),
        #[cfg(feature = "transport_tcp")]
        Link::new::<crate::tcp::TcpLocatorInspector>()
            .unicast(crate::tcp::LinkManagerUnicastTcp::new)
            .configured_by::<crate::tcp::TcpConfigurator>(),
        #[cfg(feature = "transport_tls")]
        Link::new::<crate::tls::TlsLocatorInspector>()
            .unicast(crate::tls::LinkManagerUnicastTls::new)
            .configured_by::<crate::tls::TlsConfigurator>(),
        #[cfg(feature = "transport_udp")]
        Link::new::<crate::udp::UdpLocatorInspector>()
            .unicast(crate::udp::LinkManagerUnicastUdp::new)
            .multicast(|| crate::udp::LinkManagerMulticastUdp),
        #[cfg(feature = "transport_ws")]
        Link::new::<crate::ws::WsLocatorInspector>()
            .unicast(crate::ws::LinkManagerUnicastWs::new),
        #[cfg(all(feature = "transport_unixsock-stream", target_family = "unix"))]
        Link::new::<crate::unixsock_stream::UnixSockStreamLocatorInspector>()
            .unicast(crate::unixsock_stream::LinkManagerUnicastUnixSocketStream::new),
        #[cfg(feature = "transport_serial")]
        Link::new::<crate::serial::SerialLocatorInspector>()
            .unicast(crate::serial::LinkManagerUnicastSerial::new),
        #[cfg(feature = "transport_unixpipe")]
        Link::new::<crate::unixpipe::UnixPipeLocatorInspector>()
            .unicast(crate::unixpipe::LinkManagerUnicastPipe::new)
            .configured_by::<crate::unixpipe::UnixPipeConfigurator>(),
        #[cfg(all(feature = "transport_vsock", target_os = "linux"))]
        Link::new::<crate::vsock::VsockLocatorInspector>()
            .unicast(crate::vsock::LinkManagerUnicastVsock::new),
    ]
}

/// What to do about a locator that no entry of the table serves.
pub(crate) fn remedy(protocol: &str, asked: Option<Reliability>) -> String {
    let feature = FEATURES.iter().find(|(stock, serves, _)| {
        *stock == protocol && (asked.is_none() || serves.is_none() || *serves == asked)
    });
    match feature {
        Some((_, _, feature)) => format!("build with the cargo feature {feature}"),
        None => format!("the links are {:?}", registry::kinds()),
    }
}

/// Every link that can be compiled in: protocol, the one reliability it serves, cargo feature.
const FEATURES: &[(&str, Option<Reliability>, &str)] = &[
    ("arq", None, "transport_arq"),
    ("quic", Some(Reliable), "transport_quic"),
    ("quic", Some(BestEffort), "transport_quic_datagram"),
    ("serial", None, "transport_serial"),
    ("tcp", None, "transport_tcp"),
    ("tls", None, "transport_tls"),
    ("udp", None, "transport_udp"),
    ("unixpipe", None, "transport_unixpipe"),
    ("unixsock-stream", None, "transport_unixsock-stream"),
    ("vsock", None, "transport_vsock"),
    ("ws", None, "transport_ws"),
];
