// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which thread moves the frames, and how does it wake in time?
//!
//! One thread of this process owns the [`Switch`] and sleeps until a frame arrives, one is due, or somebody asks for
//! something. It runs before other threads where the system allows that (`SCHED_FIFO`, else a higher `nice`), its
//! timers have no slack, and it spends the last [`SPIN`] before a departure awake.

use std::os::fd::AsFd;
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use nix::poll::{ppoll, PollFd, PollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;

use super::switch::Switch;
use super::EmulatorError;

/// A sleep that should end at a departure ends this much earlier.
const SPIN: Duration = Duration::from_micros(50);

type Order = Box<dyn FnOnce(&mut Switch) + Send>;

/// The thread, as the one who started it sees it. Dropping it ends the thread.
pub(super) struct Worker {
    /// Taken away to say that nothing more will come.
    orders: Option<Sender<Order>>,
    bell: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
    scheduling: Scheduling,
}

/// What the system has allowed the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// It runs before all ordinary threads.
    RealTime,
    /// It is preferred.
    Nice,
    /// It is as any other: departures may wait for their turn.
    Ordinary,
}

impl Worker {
    pub(super) fn start(switch: Switch) -> Result<Self, EmulatorError> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let bell = EventFd::from_flags(flags)
            .map_err(|e| EmulatorError::socket("make an event descriptor")(e.into()))?;
        let bell = Arc::new(bell);
        let (orders, inbox) = channel::<Order>();
        let (ready, is_ready) = channel();
        let ours = Arc::clone(&bell);
        let run = move || {
            let _ = ready.send(prefer_this_thread());
            serve(switch, &inbox, &ours);
        };
        let thread = std::thread::Builder::new()
            .name("emulator".into())
            .spawn(run)
            .map_err(EmulatorError::socket("start its thread"))?;
        let scheduling = is_ready.recv().map_err(|_| EmulatorError::Stopped)?;
        Ok(Self { orders: Some(orders), bell, thread: Some(thread), scheduling })
    }

    /// Lets the thread do something to its switch and waits for the outcome.
    pub(super) fn ask<T, F>(&self, order: F) -> Result<T, EmulatorError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Switch) -> T + Send + 'static,
    {
        let (answer, outcome) = channel();
        let order: Order = Box::new(move |switch| {
            let _ = answer.send(order(switch));
        });
        let orders = self.orders.as_ref().ok_or(EmulatorError::Stopped)?;
        orders.send(order).map_err(|_| EmulatorError::Stopped)?;
        let _ = self.bell.write(1);
        outcome.recv().map_err(|_| EmulatorError::Stopped)
    }

    pub(super) fn scheduling(&self) -> Scheduling {
        self.scheduling
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.bell.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Moves frames until nobody can give orders any more.
fn serve(mut switch: Switch, inbox: &Receiver<Order>, bell: &EventFd) {
    loop {
        loop {
            match inbox.try_recv() {
                Ok(order) => order(&mut switch),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        switch.receive();
        switch.release();
        sleep(&switch, bell);
    }
}

/// Until a frame, a departure or an order.
fn sleep(switch: &Switch, bell: &EventFd) {
    if switch.ports().iter().any(super::ring::Port::is_readable) {
        return;
    }
    let left = switch.deadline().map(|due| due.saturating_sub(switch.now()));
    if left.is_some_and(|left| left <= SPIN) {
        return;
    }
    let timeout = left.map(|left| TimeSpec::from(left - SPIN));
    let ports = switch.ports().iter().map(AsFd::as_fd);
    let mut waiting: Vec<_> = ports
        .chain(std::iter::once(bell.as_fd()))
        .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
        .collect();
    // An interruption is one more turn of the loop.
    let _ = ppoll(&mut waiting, timeout, None);
    let _ = bell.read();
}

/// Asks for the right to run first; being refused is no error.
fn prefer_this_thread() -> Scheduling {
    let _ = set_timerslack(1);
    let first = libc::sched_param { sched_priority: 10 };
    // SAFETY: plain system calls about the calling thread; the structure lives until they return.
    unsafe {
        if libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) == 0 {
            return Scheduling::RealTime;
        }
        let this_thread = libc::gettid() as libc::id_t;
        if libc::setpriority(libc::PRIO_PROCESS, this_thread, -15) == 0 {
            return Scheduling::Nice;
        }
    }
    Scheduling::Ordinary
}
