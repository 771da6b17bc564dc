// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! When does the next deadline of any connection fall, and who wakes the driver then?
//!
//! All deadlines of an endpoint are in one ordered index, the earliest is armed on one timer. On
//! Linux that is a `timerfd`: a runtime's own timer wheel ticks in milliseconds and overshoots by
//! one or two, which at LAN round trips is longer than the repair of a loss.

use std::{
    collections::BTreeSet,
    io,
    time::{Duration, Instant},
};

use arq_proto::ConnectionHandle;
use tokio::sync::Notify;

use super::{now, sync::Mutex};

/// How late a deadline may fire, for `ValidConfig::timer_granularity`.
pub const TIMER_GRANULARITY: Duration =
    if cfg!(target_os = "linux") { Duration::from_micros(100) } else { Duration::from_millis(1) };

/// If the next deadline is further away, the connection is idle, and the alarm should not go off in vain.
const QUIET: Duration = Duration::from_millis(250);
/// An alarm is not moved back again within this time, but goes off in vain once: otherwise flights in quick succession would
/// set it twice each.
const MOVED_LATELY: Duration = Duration::from_millis(5);

/// The deadlines of an endpoint's connections.
#[derive(Debug)]
pub(super) struct Deadlines {
    index: Mutex<Index>,
    alarm: Alarm,
}

#[derive(Debug, Default)]
struct Index {
    by_time: BTreeSet<(Instant, ConnectionHandle)>,
    armed: Option<Instant>,
    /// When the alarm was last moved back for the sake of quiet.
    moved_back_at: Option<Instant>,
}

impl Deadlines {
    /// Needs a tokio runtime's context. `virtual_time` follows the runtime's clock, which a test may
    /// have paused, at the runtime's resolution.
    pub(super) fn new(virtual_time: bool) -> io::Result<Self> {
        let alarm = if virtual_time { Alarm::runtime() } else { Alarm::precise()? };
        Ok(Self { index: Mutex::default(), alarm })
    }

    /// Whether a connection in the index at `armed` is woken in time for `deadline`. Waking a little early is fine: the deadline
    /// of a busy connection moves back with every packet, and looking again is cheaper than moving the index each time.
    pub(super) fn is_soon_enough(armed: Option<Instant>, deadline: Option<Instant>) -> bool {
        match (armed, deadline) {
            (Some(armed), Some(deadline)) => armed <= deadline && deadline < armed + QUIET,
            (armed, deadline) => armed == deadline,
        }
    }

    /// Moves the deadline of a connection. `true`: the alarm is too late for it, see [`Self::arm_sooner`].
    #[must_use]
    pub(super) fn change(
        &self,
        handle: ConnectionHandle,
        old: Option<Instant>,
        new: Option<Instant>,
    ) -> bool {
        let mut index = self.index.lock();
        if let Some(old) = old {
            index.by_time.remove(&(old, handle));
        }
        let Some(new) = new else { return false };
        index.by_time.insert((new, handle));
        index.armed.is_none_or(|armed| new < armed)
    }

    /// Sets the alarm if it is too late for the earliest deadline.
    pub(super) fn arm_sooner(&self) {
        self.arm_earliest(&mut self.index.lock());
    }

    /// Takes the connections whose deadline has come.
    pub(super) fn take_due(&self, now: Instant, due: &mut Vec<ConnectionHandle>) {
        let mut index = self.index.lock();
        while let Some(&(deadline, handle)) = index.by_time.first() {
            if deadline > now {
                break;
            }
            index.by_time.pop_first();
            due.push(handle);
        }
    }

    /// Arms the alarm for the earliest deadline, before the driver sleeps.
    pub(super) fn arm(&self) {
        let mut index = self.index.lock();
        let earliest = index.by_time.first().map(|(deadline, _)| *deadline);
        let now = now();
        let is_quiet = earliest.is_some_and(|earliest| earliest > now + QUIET);
        let lately = index.moved_back_at.is_some_and(|at| now < at + MOVED_LATELY);
        if is_quiet && index.armed != earliest && !lately {
            index.armed = None;
            index.moved_back_at = Some(now);
        }
        self.arm_earliest(&mut index);
    }

    /// A deadline that has moved back, as with every packet of a busy connection, is not worth a system call: the alarm goes off
    /// in vain once, then the next is armed.
    fn arm_earliest(&self, index: &mut Index) {
        let Some(&(earliest, _)) = index.by_time.first() else { return };
        if index.armed.is_none_or(|armed| earliest < armed) {
            index.armed = Some(earliest);
            self.alarm.arm(earliest);
        }
    }

    /// Returns when the alarm goes off, possibly for nothing.
    pub(super) async fn expired(&self) -> io::Result<()> {
        self.alarm.expired(&self.index).await?;
        // What fired is no longer armed.
        self.index.lock().armed = None;
        Ok(())
    }
}

#[derive(Debug)]
enum Alarm {
    /// The runtime's timer; the notification says that the armed deadline has changed.
    Runtime(Notify),
    #[cfg(target_os = "linux")]
    TimerFd(linux::TimerFd),
}

impl Alarm {
    fn runtime() -> Self {
        Self::Runtime(Notify::new())
    }

    #[cfg(target_os = "linux")]
    fn precise() -> io::Result<Self> {
        linux::TimerFd::new().map(Self::TimerFd)
    }

    #[cfg(not(target_os = "linux"))]
    fn precise() -> io::Result<Self> {
        Ok(Self::runtime())
    }

    fn arm(&self, deadline: Instant) {
        match self {
            Self::Runtime(changed) => changed.notify_one(),
            #[cfg(target_os = "linux")]
            Self::TimerFd(timer) => timer.arm(deadline.saturating_duration_since(now())),
        }
        #[cfg(not(target_os = "linux"))]
        let _ = deadline;
    }

    async fn expired(&self, index: &Mutex<Index>) -> io::Result<()> {
        match self {
            Self::Runtime(changed) => loop {
                let armed = index.lock().armed;
                let sleep = async {
                    match armed {
                        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = changed.notified() => {}
                    () = sleep => return Ok(()),
                }
            },
            #[cfg(target_os = "linux")]
            Self::TimerFd(timer) => timer.expired().await,
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{io, os::fd::OwnedFd, time::Duration};

    use rustix::time::{
        timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags,
        TimerfdTimerFlags, Timespec,
    };
    use tokio::io::{unix::AsyncFd, Interest};

    /// A kernel timer as a file descriptor.
    #[derive(Debug)]
    pub(super) struct TimerFd(AsyncFd<OwnedFd>);

    impl TimerFd {
        #[allow(
            deprecated,
            reason = "the newer constructor is unsafe for types that may swap their descriptor; \
                      `OwnedFd` does not"
        )]
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            Ok(Self(AsyncFd::with_interest(fd, Interest::READABLE)?))
        }

        /// Fires once, after `wait`.
        pub(super) fn arm(&self, wait: Duration) {
            // Zero would disarm: a deadline that has passed fires as soon as can be.
            let wait = wait.max(Duration::from_nanos(1));
            let it_value = Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            };
            let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
            if let Err(error) = timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &spec)
            {
                tracing::warn!(%error, "cannot arm the timer");
            }
        }

        pub(super) async fn expired(&self) -> io::Result<()> {
            loop {
                let mut ready = self.0.readable().await?;
                let mut count = [0; 8];
                let read = ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut count)?));
                match read {
                    Ok(read) => return read.map(drop),
                    // It was armed again since it fired.
                    Err(_would_block) => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn change(
        deadlines: &Deadlines,
        handle: ConnectionHandle,
        old: Option<Instant>,
        new: Option<Instant>,
    ) {
        if deadlines.change(handle, old, new) {
            deadlines.arm_sooner();
        }
    }

    #[test]
    fn what_moves_back_a_little_is_left_where_it_is() {
        let at = now();
        let is_left = |deadline| Deadlines::is_soon_enough(Some(at), deadline);
        assert!(is_left(Some(at)) && is_left(Some(at + MS)));
        assert!(!is_left(Some(at - MS)), "it would be late");
        assert!(!is_left(Some(at + QUIET)) && !is_left(None), "nobody is woken for nothing");
        assert!(Deadlines::is_soon_enough(None, None));
        assert!(!Deadlines::is_soon_enough(None, Some(at)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_deadline_fires_first_and_a_moved_one_only_at_its_new_time() {
        let deadlines = Deadlines::new(true).unwrap();
        let start = now();
        change(&deadlines, ConnectionHandle(1), None, Some(start + 20 * MS));
        change(&deadlines, ConnectionHandle(2), None, Some(start + 10 * MS));
        change(&deadlines, ConnectionHandle(2), Some(start + 10 * MS), Some(start + 30 * MS));
        let mut fired = Vec::new();
        while fired.len() < 2 {
            deadlines.arm();
            deadlines.expired().await.unwrap();
            let mut due = Vec::new();
            deadlines.take_due(now(), &mut due);
            fired.extend(due.into_iter().map(|handle| (handle.0, (now() - start).as_millis())));
        }
        assert_eq!(fired, [(1, 20), (2, 30)]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_that_was_moved_back_lately_goes_off_for_nothing_once() {
        let deadlines = Deadlines::new(true).unwrap();
        let (link, start) = (ConnectionHandle(1), now());
        let (first, second, far) = (start + 10 * MS, start + 12 * MS, start + 400 * MS);
        change(&deadlines, link, None, Some(first));
        change(&deadlines, link, Some(first), Some(far));
        deadlines.arm();
        change(&deadlines, link, Some(far), Some(second));
        change(&deadlines, link, Some(second), Some(far));
        deadlines.arm();
        let mut woken = Vec::new();
        for _ in 0..2 {
            deadlines.expired().await.unwrap();
            let mut due = Vec::new();
            deadlines.take_due(now(), &mut due);
            woken.push(((now() - start).as_millis(), due.len()));
            deadlines.arm();
        }
        assert_eq!(woken, [(12, 0), (400, 1)]);
    }

    #[tokio::test]
    async fn the_precise_alarm_is_not_early() {
        let deadlines = Deadlines::new(false).unwrap();
        let start = now();
        change(&deadlines, ConnectionHandle(1), None, Some(start + 5 * MS));
        deadlines.expired().await.unwrap();
        assert!(now() >= start + 5 * MS);
    }
}
