// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! For how much of a run did this machine's processors have work and wait for its hypervisor?
//!
//! Two readings of `cpu` in `/proc/stat`. A machine of its own has none stolen. On a virtual one the host runs others
//! meanwhile, or is slow to wake a processor that had been idle: latencies then contain a waiting that no figure of the
//! network explains. It is a share of all time, as in `top`, and not of the time with work: that one is counted in
//! ticks by many kernels, and the short work of a link falls between them.

use procfs::{CurrentSI as _, KernelStats};

/// A reading, in ticks of all processors together since the machine was started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProcessorTime {
    all: u64,
    stolen: u64,
}

impl ProcessorTime {
    /// `None` where the kernel does not tell.
    pub(super) fn now() -> Option<Self> {
        let time = KernelStats::current().ok()?.total;
        let stolen = time.steal?;
        // What guests of this machine used is within `user` and `nice`.
        let rest = [time.iowait, time.irq, time.softirq].into_iter().flatten().sum::<u64>();
        let all = time.user + time.nice + time.system + time.idle + rest + stolen;
        Some(Self { all, stolen })
    }

    /// Per cent of the time since an earlier reading.
    pub(super) fn stolen_percent_since(self, earlier: Self) -> f64 {
        // Linux lets single counts run back by a little.
        let all = self.all.saturating_sub(earlier.all).max(1);
        let stolen = self.stolen.saturating_sub(earlier.stolen);
        100.0 * stolen as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_the_time_since_then() {
        let reading = |all, stolen| ProcessorTime { all, stolen };
        let share = |now: ProcessorTime| now.stolen_percent_since(reading(1_000, 500));
        assert_eq!(share(reading(1_400, 600)), 25.0);
        assert_eq!(share(reading(1_400, 500)), 0.0);
        assert_eq!(share(reading(1_000, 500)), 0.0, "no time at all");
        assert_eq!(share(reading(999, 499)), 0.0, "run back");
    }

    #[test]
    fn this_kernel_tells() {
        let now = ProcessorTime::now().expect("/proc/stat has steal since Linux 2.6.11");
        assert!(now.all > now.stolen, "{now:?}");
    }
}
