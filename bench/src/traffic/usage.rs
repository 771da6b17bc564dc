// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What did this process use since the first message?

use std::time::Duration;

use arq_report::record::ProcessUse;
use nix::sys::resource::{getrusage, UsageWho};
use nix::time::{clock_gettime, ClockId};

/// Counts from its beginning.
pub(super) struct Meter {
    cpu_s: f64,
}

impl Meter {
    /// Begins: what opening the sessions took does not count, neither in time nor in memory.
    pub(super) fn start() -> Self {
        // "5" makes the kernel forget the peak of the resident memory (proc(5)); where it refuses, the peak of the
        // opening counts as well, for every link alike.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        Self { cpu_s: process_cpu_s() }
    }

    /// What was used since, less the seconds that the bench's own sampling took.
    pub(super) fn read(&self, own_s: f64) -> ProcessUse {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        ProcessUse {
            cpu_s: (process_cpu_s() - self.cpu_s - own_s).max(0.0),
            peak_rss_bytes: peak_rss_bytes(&status).unwrap_or(0),
        }
    }
}

/// Seconds that this thread has run on a processor.
pub(super) fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(0.0, |time| Duration::from(time).as_secs_f64())
}

/// Seconds that this process has run on a processor.
pub(crate) fn process_cpu_s() -> f64 {
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    getrusage(UsageWho::RUSAGE_SELF)
        .map_or(0.0, |usage| seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn peak_rss_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_memory_are_seen() {
        let meter = Meter::start();
        let mut block = vec![1_u8; 32 << 20];
        let from = thread_cpu_s();
        while thread_cpu_s() - from < 0.05 {
            block.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(3));
        }
        let used = meter.read(0.0);
        assert!(used.cpu_s >= 0.045, "{used:?}");
        assert!(used.peak_rss_bytes >= 32 << 20, "{used:?}");
    }

    #[test]
    fn the_peak_is_read_from_the_status() {
        let status = "VmPeak:\t  9 kB\nVmHWM:\t    3236 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(peak_rss_bytes(status), Some(3236 * 1024));
        assert_eq!(peak_rss_bytes("Name: x\n"), None);
    }
}
