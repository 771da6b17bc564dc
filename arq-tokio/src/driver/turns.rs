// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which connection sends next, of those that could not send everything?

use std::{collections::VecDeque, sync::Arc};

use super::{
    connection::Inner,
    sync::{AtomicBool, Mutex, Ordering},
};

/// Connections that have more to send, in the order of their turns.
#[derive(Default)]
pub(super) struct Turns {
    queues: Mutex<Queues>,
    /// Set while connections wait for room in the socket: newcomers queue behind them. Read before every send, without a
    /// lock.
    blocked: AtomicBool,
}

#[derive(Default)]
struct Queues {
    /// Their turn was over.
    ready: VecDeque<Arc<Inner>>,
    /// The socket was full before they had sent anything in their turn: these are the first when it has room.
    starved: VecDeque<Arc<Inner>>,
    /// The socket was full when they had sent something.
    served: VecDeque<Arc<Inner>>,
}

impl Turns {
    pub(super) fn later(&self, connection: Arc<Inner>) {
        self.queues.lock().ready.push_back(connection);
    }

    /// Queues a connection for room; `is_starved`: it has sent nothing in this turn.
    pub(super) fn wait_for_room(&self, connection: Arc<Inner>, is_starved: bool) {
        let mut queues = self.queues.lock();
        let queue = if is_starved { &mut queues.starved } else { &mut queues.served };
        queue.push_back(connection);
        self.blocked.store(true, Ordering::Release);
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Acquire)
    }

    /// The socket has room again. It may be full before all waiting connections are served: those that sent nothing are the
    /// first next time, so that each gets its share.
    pub(super) fn unblock(&self) {
        let mut queues = self.queues.lock();
        let Queues { ready, starved, served } = &mut *queues;
        // Connections whose turn was over have sent more recently.
        starved.append(served);
        starved.append(ready);
        std::mem::swap(ready, starved);
        self.blocked.store(false, Ordering::Release);
    }

    /// Connections whose turn it is, each once, so that none is served twice before another.
    pub(super) fn take_ready(&self) -> VecDeque<Arc<Inner>> {
        std::mem::take(&mut self.queues.lock().ready)
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.queues.lock().ready.is_empty()
    }
}
