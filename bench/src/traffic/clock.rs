// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What time is it for all processes of a measurement, and how does one of them wake in time?

use std::time::Duration;

use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use nix::time::{clock_gettime, clock_nanosleep, ClockId, ClockNanosleepFlags};

/// The time that all processes of one machine share: the monotonic clock, nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// Lets the timers of this thread, and of no other, fire when they are due instead of up to 50 µs later.
pub(crate) fn be_punctual() {
    // Refused nowhere on Linux; without it a message leaves 50 µs late, which its latency then says.
    let _ = set_timerslack(1);
}

/// Sleeps until a time of [`now_ns`]; not at all when it has passed.
pub(crate) fn sleep_until(time_ns: u64) {
    let time = TimeSpec::from_duration(Duration::from_nanos(time_ns));
    let absolute = ClockNanosleepFlags::TIMER_ABSTIME;
    // A signal may end the sleep early.
    while now_ns() < time_ns {
        let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, absolute, &time);
    }
}

/// A duration in nanoseconds.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_wakes_early_and_where_a_core_is_free_within_a_tenth_of_a_millisecond() {
        be_punctual();
        let mut late: Vec<_> = (0..101)
            .map(|_| {
                let due = now_ns() + 300_000;
                sleep_until(due);
                now_ns().checked_sub(due).expect("awake before the time")
            })
            .collect();
        late.sort_unstable();
        // Tests run on busy machines, too: one in ten finds a free core.
        assert!(late[10] < 100_000, "nine of ten wake {} ns late or more", late[10]);
    }
}
