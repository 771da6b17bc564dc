// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What did this machine's processors do during a run?
//!
//! Two readings of `/proc/stat`.
//!
//! *Stolen* is the time for which they had work and waited for the hypervisor. A machine of its own has none. On a virtual
//! one the host runs others meanwhile, or is slow to wake a processor that had been idle: latencies then contain a
//! waiting that no figure of the network explains. It is a share of all time, as in `top`.
//!
//! *Busy* is the time in which they were not idle. The kernel does much of TCP's work in whichever context it interrupts,
//! so the times of both processes do not have it; this one has, with the emulator and whatever else runs. It is not the
//! sum of the other columns: many kernels count work in ticks, and the short work of a link falls between them. Idle
//! time is measured by the clock.

use std::time::{Duration, Instant};

use procfs::{CurrentSI as _, KernelStats};

/// A reading; times of all processors together since the machine was started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Processors {
    at: Instant,
    count: u32,
    /// Ticks of all columns.
    all: u64,
    stolen: u64,
    idle: Duration,
}

impl Processors {
    /// `None` where the kernel does not tell.
    pub(super) fn now() -> Option<Self> {
        let stats = KernelStats::current().ok()?;
        let time = &stats.total;
        let stolen = time.steal?;
        // What guests of this machine used is within `user` and `nice`.
        let rest = [time.irq, time.softirq].into_iter().flatten().sum::<u64>();
        let idle = time.idle + time.iowait.unwrap_or(0);
        Some(Self {
            at: Instant::now(),
            count: stats.cpu_time.len().try_into().ok()?,
            all: time.user + time.nice + time.system + idle + rest + stolen,
            stolen,
            idle: Duration::from_secs_f64(idle as f64 / procfs::ticks_per_second() as f64),
        })
    }

    /// Per cent of the time since an earlier reading.
    pub(super) fn stolen_percent_since(self, earlier: Self) -> f64 {
        // Linux lets single counts run back by a little.
        let all = self.all.saturating_sub(earlier.all).max(1);
        let stolen = self.stolen.saturating_sub(earlier.stolen);
        100.0 * stolen as f64 / all as f64
    }

    /// Since an earlier reading; with what was stolen meanwhile.
    pub(super) fn busy_since(self, earlier: Self) -> Duration {
        let time = self.at.saturating_duration_since(earlier.at) * self.count;
        time.saturating_sub(self.idle.saturating_sub(earlier.idle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at: Instant, all: u64, stolen: u64, idle_s: u64) -> Processors {
        Processors { at, count: 2, all, stolen, idle: Duration::from_secs(idle_s) }
    }

    #[test]
    fn the_share_is_of_the_time_since_then() {
        let at = Instant::now();
        let share = |all, stolen| {
            reading(at, all, stolen, 0).stolen_percent_since(reading(at, 1_000, 500, 0))
        };
        assert_eq!(share(1_400, 600), 25.0);
        assert_eq!(share(1_400, 500), 0.0);
        assert_eq!(share(1_000, 500), 0.0, "no time at all");
        assert_eq!(share(999, 499), 0.0, "run back");
    }

    #[test]
    fn what_is_not_idle_is_busy_though_no_tick_saw_it() {
        let began = Instant::now();
        let end = began + Duration::from_secs(10);
        let busy =
            |idle_s| reading(end, 0, 0, idle_s).busy_since(reading(began, 0, 0, 100)).as_secs();
        assert_eq!(busy(115), 5);
        assert_eq!(busy(100), 20);
        assert_eq!(busy(121), 0, "idle time is told late");
        assert_eq!(busy(99), 20, "run back");
    }

    #[test]
    fn this_kernel_tells() {
        let before = Processors::now().expect("/proc/stat has steal since Linux 2.6.11");
        assert!(before.all > before.stolen && before.count > 0, "{before:?}");
        let work = Instant::now();
        while work.elapsed() < Duration::from_millis(200) {
            std::hint::spin_loop();
        }
        let busy = Processors::now().unwrap().busy_since(before);
        assert!(busy >= Duration::from_millis(150), "{busy:?}");
    }
}
