// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does an interface come to send each packet as it would stand on a wire?
//!
//! A veth takes segmentation-offload packets of 64 KB and more whole, so that one drop would lose 44 packets. Here its
//! `tx-…-segmentation` features are turned off by the ioctl that `ethtool -K` uses, so the kernel cuts a packet just
//! before it is sent, as it does for a network card without that offload: TCP still builds and paces large ones, at
//! the CPU cost it has everywhere (`gso_max_segs 1` would make it build small ones, and cost tcp/ more than users pay).
//! The checksum stays unfinished (`tx-checksum` on): it crosses the emulator in a virtio-net header, and kernels
//! before 6.11 refuse `UDP_SEGMENT` without it, which would take quic's and arq's offload away.

use std::io;

use super::namespace::Namespace;

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
/// The kernel has 64 features today; a kernel with more than this is refused.
const MOST_FEATURES: usize = 128;
const NAME_BYTES: usize = 32;

/// `struct ethtool_gstrings`
#[repr(C)]
struct Names {
    command: u32,
    set: u32,
    count: u32,
    names: [[u8; NAME_BYTES]; MOST_FEATURES],
}

/// `struct ethtool_sfeatures`
#[repr(C)]
struct Change {
    command: u32,
    words: u32,
    /// Pairs of (which bits are meant, what they become).
    bits: [[u32; 2]; MOST_FEATURES / 32],
}

/// `struct ifreq` with the union as a pointer.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut libc::c_void,
    rest: [u8; 16],
}

/// Turns every segmentation offload of this interface of the namespace off.
pub(super) fn disable_segmentation(namespace: &Namespace, interface: &str) -> io::Result<()> {
    let mut device = [0; libc::IFNAMSIZ];
    device.iter_mut().zip(interface.bytes()).for_each(|(to, byte)| *to = byte);
    namespace.inside(move || {
        let mut names = Names {
            command: ETHTOOL_GSTRINGS,
            set: ETH_SS_FEATURES,
            count: 0,
            names: [[0; NAME_BYTES]; MOST_FEATURES],
        };
        ioctl(device, (&raw mut names).cast())?;
        let count = names.count as usize;
        if count > MOST_FEATURES {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        let mut change = Change {
            command: ETHTOOL_SFEATURES,
            words: names.count.div_ceil(32),
            bits: [[0; 2]; MOST_FEATURES / 32],
        };
        for (bit, name) in names.names[..count].iter().enumerate() {
            if cuts_late(name) {
                change.bits[bit / 32][0] |= 1 << (bit % 32);
            }
        }
        ioctl(device, (&raw mut change).cast())
    })
}

/// Whether the feature of this name lets packets leave uncut. Generic segmentation does the cutting, so it stays.
fn cuts_late(name: &[u8; NAME_BYTES]) -> bool {
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
    let name = &name[..length];
    name == b"tx-gso-list"
        || (name.starts_with(b"tx-")
            && name.ends_with(b"segmentation")
            && name != b"tx-generic-segmentation")
}

/// System calls only: this runs between fork and exec.
fn ioctl(name: [u8; libc::IFNAMSIZ], data: *mut libc::c_void) -> io::Result<()> {
    let mut request = Request { name, data, rest: [0; 16] };
    // SAFETY: a plain socket that is closed below; `data` points at a structure of the command in its first word,
    // large enough for MOST_FEATURES, which is checked before the answer is used.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let outcome = libc::ioctl(socket, SIOCETHTOOL, &raw mut request);
        let error = io::Error::last_os_error();
        libc::close(socket);
        if outcome < 0 {
            return Err(error);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cuts_stays_and_what_leaves_uncut_goes() {
        let padded = |text: &str| {
            let mut name = [0; NAME_BYTES];
            name[..text.len()].copy_from_slice(text.as_bytes());
            name
        };
        for gone in
            ["tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-udp-segmentation", "tx-gso-list"]
        {
            assert!(cuts_late(&padded(gone)), "{gone}");
        }
        for kept in ["tx-generic-segmentation", "tx-checksum-ip-generic", "rx-gro"] {
            assert!(!cuts_late(&padded(kept)), "{kept}");
        }
    }
}
