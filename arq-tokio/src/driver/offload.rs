// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does this host damage batches? The verdict of one connection holds for the whole process, because the kernel is the same.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
};

static DAMAGED: AtomicBool = AtomicBool::new(false);

/// Whether datagrams must leave one by one.
pub(super) fn is_damaged() -> bool {
    DAMAGED.load(Ordering::Relaxed)
}

/// Batches to `remote` are lost where single datagrams arrive: tells the operator which host is at fault.
pub(super) fn note_damage(remote: SocketAddr) {
    if DAMAGED.swap(true, Ordering::Relaxed) {
        return;
    }
    tracing::warn!(
        %remote,
        kernel = %kernel(),
        "datagrams that leave in one system call (UDP segmentation offload) are lost, and single ones are not: from now on \
         this process sends them one by one, which costs CPU. Linux 7.0 to 7.1.4 does that, and virtual machines may: \
         use another kernel, or try `ethtool -K <interface> tx-udp-segmentation off`; `gso=off` in a locator, or \
         `SocketOptions::batches`, never uses the offload"
    );
}

/// What runs here, e.g. `linux 7.1.2-generic`.
fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {}", std::env::consts::OS, release.trim()).trim_end().to_owned()
}
