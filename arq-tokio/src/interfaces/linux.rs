// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The kernel's list of interfaces, and its word that something has changed.

use std::{
    io,
    net::IpAddr,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
    time::Duration,
};

use nix::{
    ifaddrs::getifaddrs,
    libc,
    net::if_::{if_nametoindex, InterfaceFlags},
    poll::{poll, PollFd, PollFlags, PollTimeout},
    sys::socket::{
        bind, recv, socket, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType,
        SockaddrStorage,
    },
};

use super::Interfaces;

/// Interfaces, and their addresses of either IP version.
const GROUPS: i32 = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
/// Notices taken in one go: a host that makes more of them is asked again.
const MOST_NOTICES: usize = 1_000;

pub(super) fn list() -> io::Result<Interfaces> {
    let mut interfaces = Interfaces::new();
    for entry in getifaddrs()? {
        let reach = interfaces.entry(entry.interface_name.clone()).or_default();
        // The kernel's `lower up` is seen as `running`, unless something waits for a password.
        let usable = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
        reach.is_up = entry.flags.contains(usable);
        if let Some(address) = entry.address.as_ref().and_then(ip) {
            reach.add(address);
        }
    }
    for (name, reach) in &mut interfaces {
        // One that has gone meanwhile is as good as absent.
        reach.index = if_nametoindex(name.as_str()).unwrap_or(0);
        // Of what the kernel alone makes there is none (sysfs-class-net).
        reach.is_device = Path::new("/sys/class/net").join(name).join("device").exists();
    }
    interfaces.retain(|_, reach| reach.index != 0);
    Ok(interfaces)
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = || Some(IpAddr::from(address.as_sockaddr_in()?.ip()));
    let v6 = || Some(IpAddr::from(address.as_sockaddr_in6()?.ip()));
    v4().or_else(v6)
}

/// The kernel's notices of changes.
#[derive(Debug)]
pub(super) struct Changes(OwnedFd);

impl Changes {
    pub(super) fn new() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let protocol = SockProtocol::NetlinkRoute;
        let netlink = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
        bind(netlink.as_raw_fd(), &NetlinkAddr::new(0, GROUPS as u32))?;
        Ok(Self(netlink))
    }

    /// Waits until there is one.
    pub(super) fn wait(&self, at_most: Duration) -> io::Result<()> {
        let timeout = PollTimeout::try_from(at_most).unwrap_or(PollTimeout::MAX);
        let mut descriptors = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        match poll(&mut descriptors, timeout) {
            Ok(_) | Err(nix::Error::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes those that there are. What they say is of no interest: more may have been dropped.
    pub(super) fn drain(&self) {
        let mut notice = [0; 4_096];
        for _ in 0..MOST_NOTICES {
            match recv(self.0.as_raw_fd(), &mut notice, MsgFlags::empty()) {
                // Some were dropped; there may be others.
                Ok(_) | Err(nix::Error::ENOBUFS | nix::Error::EINTR) => {}
                Err(_) => return,
            }
        }
    }
}
