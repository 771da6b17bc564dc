// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does a child hand a socket to its parent? As an `SCM_RIGHTS` message of one byte and one descriptor.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{recvmsg, ControlMessageOwned, MsgFlags};

/// Room for one control message with one descriptor, aligned as its header must be.
#[repr(C, align(8))]
struct Control([u8; 24]);

/// Sends `descriptor` through `channel` without allocating: this runs between fork and exec.
pub(super) fn send_descriptor(channel: RawFd, descriptor: RawFd) -> io::Result<()> {
    let mut byte = 0u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut control = Control([0; 24]);
    let size = size_of::<RawFd>() as libc::c_uint;
    // SAFETY: the header points at values that live until the call returns, and `control` has CMSG_SPACE(4) bytes,
    // so the first header and its data lie within it.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(descriptor);
        libc::sendmsg(channel, &raw const message, 0)
    };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Takes the descriptor that a child has sent.
pub(super) fn receive_descriptor(channel: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut parts = [io::IoSliceMut::new(&mut byte)];
    let mut control = nix::cmsg_space!(RawFd);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<()>(channel.as_raw_fd(), &mut parts, Some(&mut control), flags)?;
    let received = message.cmsgs()?.find_map(|part| match part {
        ControlMessageOwned::ScmRights(descriptors) => descriptors.first().copied(),
        _ => None,
    });
    let raw = received.ok_or_else(|| io::Error::other("the child sent no socket"))?;
    // SAFETY: the kernel has just installed this descriptor for us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}
