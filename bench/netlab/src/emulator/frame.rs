// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which host is a frame for, and how long is the packet in it?

use std::time::Duration;

/// `struct virtio_net_hdr`
pub(super) const VNET_BYTES: usize = 10;
pub(super) const ETHERNET_BYTES: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// A frame with the virtio-net header before it, as it goes into and comes out of a socket.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    bytes: Vec<u8>,
}

/// What stands in the ring.
pub(super) enum Received {
    /// An IP packet for one host.
    Packet {
        /// The packet and its headers.
        frame: Frame,
        /// When it arrived, since 1970.
        arrived: Duration,
    },
    /// A frame that no wire carries: it is longer than a wire allows, so an offload must be on.
    Oversized,
    /// Neither IP nor for one host: ARP, multicast.
    Other,
}

impl Received {
    /// What these bytes are: a virtio-net header and a frame.
    pub(super) fn of(bytes: &[u8], arrived: Duration) -> Self {
        if bytes.len() < VNET_BYTES + ETHERNET_BYTES {
            return Self::Other;
        }
        let frame = Frame { bytes: bytes.to_vec() };
        if frame.is_ip_unicast() {
            Self::Packet { frame, arrived }
        } else {
            Self::Other
        }
    }
}

impl Frame {
    /// The length of the IP packet inside.
    pub(super) fn ip_len(&self) -> u16 {
        u16::try_from(self.bytes.len() - VNET_BYTES - ETHERNET_BYTES).unwrap_or(u16::MAX)
    }

    /// The number of the host that it is for: the last byte of its address, less one.
    pub(super) fn destination(&self) -> Option<usize> {
        usize::from(self.ethernet()[5]).checked_sub(1)
    }

    /// All of it, as sockets take it.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn is_ip_unicast(&self) -> bool {
        let header = self.ethernet();
        let is_ip = header[12..14] == IPV4 || header[12..14] == IPV6;
        is_ip && header[0] & 1 == 0
    }

    fn ethernet(&self) -> &[u8] {
        &self.bytes[VNET_BYTES..VNET_BYTES + ETHERNET_BYTES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(destination: [u8; 6], kind: [u8; 2]) -> Received {
        let mut bytes = vec![0; VNET_BYTES];
        bytes.extend(destination);
        bytes.extend([0; 6]);
        bytes.extend(kind);
        bytes.extend([0; 40]);
        Received::of(&bytes, Duration::ZERO)
    }

    #[test]
    fn only_ip_for_one_host_is_a_packet() {
        let host = [2, 0x77, 0, 0, 0, 3];
        for kind in [IPV4, IPV6] {
            let Received::Packet { frame, .. } = received(host, kind) else {
                panic!("an IP packet");
            };
            assert_eq!((frame.destination(), frame.ip_len()), (Some(2), 40));
        }
        assert!(matches!(received(host, [8, 6]), Received::Other), "ARP");
        assert!(matches!(received([0x33, 0x33, 0, 0, 0, 1], IPV6), Received::Other), "multicast");
        assert!(matches!(Received::of(&[0; 20], Duration::ZERO), Received::Other), "too short");
    }
}
