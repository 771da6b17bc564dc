// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does the process hold just now?

use std::fs;

/// A reading of the process; zero where the system does not tell.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Census {
    /// Resident memory, KiB.
    pub(crate) resident_kib: u64,
    /// Open file descriptors.
    pub(crate) descriptors: usize,
    /// Associations that live.
    pub(crate) associations: usize,
}

impl Census {
    pub(crate) fn take() -> Self {
        Self {
            resident_kib: resident_kib(),
            descriptors: fs::read_dir("/proc/self/fd").map_or(0, Iterator::count),
            associations: zenoh_link_arq::statistics().len(),
        }
    }
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok()).unwrap_or(0)
}
