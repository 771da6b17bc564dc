// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do frames get from the end of a cable to us and back?
//!
//! One packet socket for each port of the middle namespace. It receives through a ring in shared memory
//! (`PACKET_RX_RING`, TPACKET_V2): the kernel's time of each frame's arrival comes with it, no system call is spent per
//! frame, and the ring may be large without root, where an ordinary socket buffer may hold some 180 frames only. Both
//! ways a virtio-net header goes with each frame, so that a checksum which the sender left to its network card stays
//! "to be filled in" up to the receiver, as between virtual machines.
//!
//! The kept crates for packet sockets (`afpacket`, `pnet`, `pcap`) have neither that header nor, most of them, the ring.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::frame::{Frame, Received, ETHERNET_BYTES, VNET_BYTES};
use super::EmulatorError;
use crate::lab::{Namespace, SocketKind};

/// Room for a wire-sized frame with both its headers.
const FRAME_BYTES: usize = 2048;
const BLOCK_BYTES: usize = 1 << 16;
const FRAMES_PER_BLOCK: usize = BLOCK_BYTES / FRAME_BYTES;

// From <linux/if_packet.h>, those that the libc crate lacks.
const PACKET_RX_RING: libc::c_int = 5;
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_VERSION: libc::c_int = 10;
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const TPACKET_V2: libc::c_int = 1;
const TP_STATUS_KERNEL: u32 = 0;
const TP_STATUS_USER: u32 = 1;

/// `struct tpacket_req`
#[repr(C)]
struct RingRequest {
    block_size: u32,
    block_count: u32,
    frame_size: u32,
    frame_count: u32,
}

/// `struct tpacket2_hdr`
#[repr(C)]
struct Header {
    status: u32,
    len: u32,
    captured: u32,
    mac: u16,
    net: u16,
    seconds: u32,
    nanoseconds: u32,
}

/// One end of a cable.
pub(super) struct Port {
    socket: OwnedFd,
    ring: NonNull<u8>,
    frames: usize,
    next: usize,
}

// SAFETY: the ring belongs to this value alone, and the kernel's side of it does not care about threads.
unsafe impl Send for Port {}

impl Port {
    /// Opens `port{index}` of the namespace with a ring for about this many frames.
    pub(super) fn open(
        middle: &Namespace,
        index: usize,
        frames: usize,
    ) -> Result<Self, EmulatorError> {
        let kind = SocketKind {
            domain: libc::AF_PACKET,
            kind: libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            protocol: 0, // Nothing comes before it is bound.
        };
        let socket = middle.socket(kind).map_err(EmulatorError::socket("open a packet socket"))?;
        let configure = || {
            set_option(&socket, PACKET_VERSION, &TPACKET_V2)?;
            set_option(&socket, PACKET_VNET_HDR, &1i32)?;
            set_option(&socket, PACKET_IGNORE_OUTGOING, &1i32)
        };
        configure()
            .map_err(EmulatorError::socket("set its packet socket up (Linux 4.20 or later?)"))?;
        let (ring, frames) =
            map_ring(&socket, frames).map_err(EmulatorError::socket("map a packet ring"))?;
        let port = Self { socket, ring, frames, next: 0 };
        port.bind(&format!("port{index}\0"))
            .map_err(EmulatorError::socket("bind a packet socket to its port"))?;
        Ok(port)
    }

    /// The next frame that has arrived.
    pub(super) fn receive(&mut self) -> Option<Received> {
        let slot = self.next * FRAME_BYTES;
        // SAFETY: `slot` lies within the ring, whose frames are aligned to their size; the kernel leaves a frame alone
        // while its status has TP_STATUS_USER, and the status word is only touched as an atomic.
        let (status, received) = unsafe {
            let frame = self.ring.add(slot);
            let status = frame.cast::<AtomicU32>().as_ref();
            if status.load(Ordering::Acquire) & TP_STATUS_USER == 0 {
                return None;
            }
            (status, read_frame(frame))
        };
        status.store(TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.frames;
        Some(received)
    }

    /// Whether a frame waits.
    pub(super) fn is_readable(&self) -> bool {
        // SAFETY: as in `receive`.
        let status = unsafe { self.ring.add(self.next * FRAME_BYTES).cast::<AtomicU32>().as_ref() };
        status.load(Ordering::Acquire) & TP_STATUS_USER != 0
    }

    /// Sends frames out of the port; how many the kernel refused.
    pub(super) fn send(&self, frames: &[&Frame]) -> usize {
        let mut parts: Vec<_> = frames
            .iter()
            .map(|frame| libc::iovec {
                iov_base: frame.bytes().as_ptr().cast_mut().cast(),
                iov_len: frame.bytes().len(),
            })
            .collect();
        let mut messages: Vec<_> = parts.iter_mut().map(message).collect();
        let mut refused = 0;
        let mut done = 0;
        while done < messages.len() {
            let rest = &mut messages[done..];
            let count = u32::try_from(rest.len()).unwrap_or(u32::MAX);
            // SAFETY: the messages point at `parts` and the frames, which live until the call returns.
            let sent = unsafe {
                libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    rest.as_mut_ptr(),
                    count,
                    libc::MSG_DONTWAIT,
                )
            };
            // An error tells of the first message: leave it out and go on with the others.
            refused += usize::from(sent < 1);
            done += usize::try_from(sent).unwrap_or(0).max(1);
        }
        refused
    }

    /// Frames that found the ring full since the last call.
    pub(super) fn overruns(&self) -> u64 {
        #[derive(Default)]
        #[repr(C)]
        struct Statistics {
            packets: u32,
            drops: u32,
        }
        let mut statistics = Statistics::default();
        let mut size = size_of::<Statistics>() as libc::socklen_t;
        // SAFETY: the option fills at most `size` bytes of `statistics`.
        unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut size,
            );
        }
        u64::from(statistics.drops)
    }

    fn bind(&self, name: &str) -> io::Result<()> {
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: plain system calls with structures that live until they return; an all-zero ifreq is a valid one.
        let bound = unsafe {
            let mut request: libc::ifreq = std::mem::zeroed();
            for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
                *to = from as libc::c_char;
            }
            if libc::ioctl(self.socket.as_raw_fd(), libc::SIOCGIFINDEX, &raw mut request) < 0 {
                return Err(io::Error::last_os_error());
            }
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = protocol;
            address.sll_ifindex = request.ifr_ifru.ifru_ifindex;
            let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), size)
        };
        if bound < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and nobody else refers to it.
        unsafe {
            libc::munmap(self.ring.as_ptr().cast(), self.frames * FRAME_BYTES);
        }
    }
}

/// # Safety
/// `frame` must be a frame of a ring that belongs to user space.
unsafe fn read_frame(frame: NonNull<u8>) -> Received {
    // SAFETY: the kernel has written a header at the start of the frame.
    let header = unsafe { frame.cast::<Header>().as_ref() };
    let (start, captured) = (usize::from(header.mac), header.captured as usize);
    if header.len > header.captured || start + captured > FRAME_BYTES {
        return Received::Oversized;
    }
    if captured < ETHERNET_BYTES || start < VNET_BYTES {
        return Received::Other;
    }
    // SAFETY: the virtio-net header and the frame lie within the slot, as checked above.
    let bytes = unsafe {
        std::slice::from_raw_parts(frame.add(start - VNET_BYTES).as_ptr(), captured + VNET_BYTES)
    };
    Received::of(bytes, Duration::new(u64::from(header.seconds), header.nanoseconds))
}

fn map_ring(socket: &OwnedFd, frames: usize) -> io::Result<(NonNull<u8>, usize)> {
    let blocks = frames.div_ceil(FRAMES_PER_BLOCK);
    let frames = blocks * FRAMES_PER_BLOCK;
    let too_large = |_| io::Error::from_raw_os_error(libc::EINVAL);
    let request = RingRequest {
        block_size: BLOCK_BYTES as u32,
        block_count: u32::try_from(blocks).map_err(too_large)?,
        frame_size: FRAME_BYTES as u32,
        frame_count: u32::try_from(frames).map_err(too_large)?,
    };
    set_option(socket, PACKET_RX_RING, &request)?;
    // SAFETY: a new mapping of the ring that was just made, with its size.
    let ring = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            blocks * BLOCK_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            socket.as_raw_fd(),
            0,
        )
    };
    if ring == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let ring = NonNull::new(ring.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
    Ok((ring, frames))
}

fn message(part: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: all zeroes are a valid, empty message.
    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
    message.msg_hdr.msg_iov = part;
    message.msg_hdr.msg_iovlen = 1;
    message
}

fn set_option<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` has `size` bytes and is only read.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            std::ptr::from_ref(value).cast(),
            size,
        )
    };
    if set < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
