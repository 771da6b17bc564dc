// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which tasks wait on a connection, and which event wakes them.
//!
//! A task registers under the connection's lock, after it saw that it has to wait. Events become wake-ups under the same
//! lock, so none is lost. Wakers are only collected here; they are called after the lock is released.

use std::task::{Context, Waker};

use arq_proto::{Event, LaneId};

/// The tasks that wait for one thing.
#[derive(Debug, Default)]
struct Waiters(Vec<Waker>);

impl Waiters {
    fn register(&mut self, cx: &Context<'_>) {
        // A cancelled wait leaves its waker behind: the next wait of the same task must not add one.
        if !self.0.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.0.push(cx.waker().clone());
        }
    }
}

/// All tasks that wait on one connection.
#[derive(Debug)]
pub(super) struct LaneWaiters {
    readers: [Waiters; LaneId::COUNT],
    writers: [Waiters; LaneId::COUNT],
    /// For the connection to be established or to end.
    lifecycle: Waiters,
    /// For the peer to be heard again.
    life_signs: Waiters,
    /// For anything to happen at all.
    progress: Waiters,
}

impl Default for LaneWaiters {
    fn default() -> Self {
        Self {
            readers: std::array::from_fn(|_| Waiters::default()),
            writers: std::array::from_fn(|_| Waiters::default()),
            lifecycle: Waiters::default(),
            life_signs: Waiters::default(),
            progress: Waiters::default(),
        }
    }
}

impl LaneWaiters {
    /// Wakes the caller when `lane` may have a message.
    pub(super) fn wait_readable(&mut self, lane: LaneId, cx: &Context<'_>) {
        self.readers[lane.index()].register(cx);
    }

    /// Wakes the caller when `lane` may take a message.
    pub(super) fn wait_writable(&mut self, lane: LaneId, cx: &Context<'_>) {
        self.writers[lane.index()].register(cx);
    }

    /// Wakes the caller when the connection is established or ends.
    pub(super) fn wait_lifecycle(&mut self, cx: &Context<'_>) {
        self.lifecycle.register(cx);
    }

    /// Wakes the caller when the peer has given a sign of life.
    pub(super) fn wait_life_sign(&mut self, cx: &Context<'_>) {
        self.life_signs.register(cx);
    }

    /// Wakes the caller when anything changes: for the rare wait that no event announces.
    pub(super) fn wait_progress(&mut self, cx: &Context<'_>) {
        self.progress.register(cx);
    }

    /// Moves the wakers of those who wait for any change into `wake`.
    pub(super) fn collect_progress(&mut self, wake: &mut Vec<Waker>) {
        wake.append(&mut self.progress.0);
    }

    /// Moves the wakers of those who wait for a sign of life into `wake`.
    pub(super) fn collect_life_sign(&mut self, wake: &mut Vec<Waker>) {
        wake.append(&mut self.life_signs.0);
    }

    /// Moves the wakers of those who wait for a step in the connection's life into `wake`.
    pub(super) fn collect_lifecycle(&mut self, wake: &mut Vec<Waker>) {
        wake.append(&mut self.lifecycle.0);
    }

    /// Moves the wakers of those whom `event` concerns into `wake`.
    pub(super) fn collect(&mut self, event: &Event, wake: &mut Vec<Waker>) {
        match event {
            Event::Readable(lane) => wake.append(&mut self.readers[lane.index()].0),
            Event::Writable(lane) => wake.append(&mut self.writers[lane.index()].0),
            Event::Connected => self.collect_lifecycle(wake),
            Event::Closed(_) => {
                let everyone = self.readers.iter_mut().chain(&mut self.writers);
                everyone.for_each(|waiters| wake.append(&mut waiters.0));
                self.collect_lifecycle(wake);
            }
            // No task waits for lost batches, nor for events that are added later.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            atomic::{AtomicUsize, Ordering},
            Arc,
        },
        task::Wake,
    };

    use arq_proto::{ConnectionError, Reliability};

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn lane(priority: u8) -> LaneId {
        LaneId::new(priority, Reliability::Reliable).unwrap()
    }

    fn wake_all(waiters: &mut LaneWaiters, event: &Event) -> usize {
        let mut wake = Vec::new();
        waiters.collect(event, &mut wake);
        wake.len()
    }

    #[test]
    fn an_event_wakes_only_its_lane_and_only_once() {
        let waker = Waker::from(Arc::new(Counter::default()));
        let cx = Context::from_waker(&waker);
        let mut waiters = LaneWaiters::default();
        waiters.wait_readable(lane(1), &cx);
        waiters.wait_writable(lane(1), &cx);
        assert_eq!(wake_all(&mut waiters, &Event::Readable(lane(2))), 0);
        assert_eq!(wake_all(&mut waiters, &Event::Readable(lane(1))), 1);
        assert_eq!(wake_all(&mut waiters, &Event::Readable(lane(1))), 0);
        assert_eq!(wake_all(&mut waiters, &Event::Writable(lane(1))), 1);
    }

    #[test]
    fn repeated_waits_of_one_task_do_not_pile_up() {
        let waker = Waker::from(Arc::new(Counter::default()));
        let cx = Context::from_waker(&waker);
        let mut waiters = LaneWaiters::default();
        for _ in 0..100 {
            waiters.wait_readable(lane(0), &cx);
        }
        assert_eq!(wake_all(&mut waiters, &Event::Readable(lane(0))), 1);
    }

    #[test]
    fn the_end_wakes_everyone() {
        let waker = Waker::from(Arc::new(Counter::default()));
        let cx = Context::from_waker(&waker);
        let mut waiters = LaneWaiters::default();
        for lane in LaneId::all() {
            waiters.wait_readable(lane, &cx);
            waiters.wait_writable(lane, &cx);
        }
        waiters.wait_lifecycle(&cx);
        let closed = Event::Closed(ConnectionError::LocallyClosed);
        assert_eq!(wake_all(&mut waiters, &closed), 2 * LaneId::COUNT + 1);
    }
}
