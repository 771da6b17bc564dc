// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What does the kernel tell about the TCP connections of this process?

use std::os::fd::RawFd;

use nix::libc;

use super::sampler::Reading;

/// Segments that this host has sent again, of all connections in its namespace.
pub(super) fn retransmitted_segments() -> Option<u64> {
    read_retransmissions(&std::fs::read_to_string("/proc/self/net/snmp").ok()?)
}

/// The table has a line of names and a line of values for each protocol.
fn read_retransmissions(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|name| name == "RetransSegs")?;
    values.split_whitespace().nth(at)?.parse().ok()
}

/// What is in flight on all TCP connections of this process, as the kernel's congestion control counts it: sent and
/// neither acknowledged nor given up for lost.
pub(super) fn in_flight() -> Option<Reading> {
    let connections: Vec<_> = sockets().into_iter().filter_map(tcp_info).collect();
    if connections.is_empty() {
        return None;
    }
    let sum = |bytes: fn(&libc::tcp_info) -> u64| connections.iter().map(bytes).sum();
    Some(Reading { bytes: sum(in_flight_bytes), window_bytes: Some(sum(window_bytes)) })
}

/// Lets the connections of this process end at once when it does. The kernel would go on to send what is left in
/// their buffers, into the next measurement.
pub(super) fn abandon() {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    for fd in sockets().into_iter().filter(|fd| tcp_info(*fd).is_some()) {
        let (pointer, length) = (std::ptr::from_ref(&linger), size_of::<libc::linger>());
        // SAFETY: the pointer is to a value of that length, which lives until the call returns; a descriptor that was
        // closed meanwhile is an error that nobody misses.
        unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                pointer.cast(),
                length as libc::socklen_t,
            );
        }
    }
}

fn in_flight_bytes(info: &libc::tcp_info) -> u64 {
    let sent = u64::from(info.tcpi_unacked) + u64::from(info.tcpi_retrans);
    let gone = u64::from(info.tcpi_sacked) + u64::from(info.tcpi_lost);
    sent.saturating_sub(gone) * u64::from(info.tcpi_snd_mss)
}

fn window_bytes(info: &libc::tcp_info) -> u64 {
    u64::from(info.tcpi_snd_cwnd) * u64::from(info.tcpi_snd_mss)
}

/// The sockets of this process.
fn sockets() -> Vec<RawFd> {
    let Ok(descriptors) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    descriptors
        .flatten()
        .filter(|entry| {
            std::fs::read_link(entry.path())
                .is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Of an established TCP connection.
fn tcp_info(fd: RawFd) -> Option<libc::tcp_info> {
    const ESTABLISHED: u8 = 1;
    // SAFETY: the structure is made of integers, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: pointer and length describe `info`, which lives until the call returns; a descriptor that is no TCP
    // socket, or was closed meanwhile, is an error.
    let status = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            std::ptr::from_mut(&mut info).cast(),
            &raw mut length,
        )
    };
    (status == 0 && info.tcpi_state == ESTABLISHED).then_some(info)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn retransmissions_are_read_by_name() {
        let snmp = "Ip: Forwarding\nIp: 1\nTcp: InSegs OutSegs RetransSegs InErrs\nTcp: 9 8 7 6\n";
        assert_eq!(read_retransmissions(snmp), Some(7));
        assert_eq!(read_retransmissions("Udp: A\nUdp: 1\n"), None);
        assert!(retransmitted_segments().is_some());
    }

    #[test]
    fn a_connection_is_seen_and_its_window_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _accepted = listener.accept().unwrap();
        stream.write_all(b"hello").unwrap();
        let reading = in_flight().unwrap();
        assert!(reading.window_bytes > Some(1_000), "{reading:?}");
    }
}
