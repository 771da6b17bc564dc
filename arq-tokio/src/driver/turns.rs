// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Who sends next, of the connections that could not send all that they have?

use std::{collections::VecDeque, sync::Arc};

use arq_proto::SocketId;

use super::{
    connection::Inner,
    ports::{Mask, MOST_SOCKETS},
    sync::{AtomicU8, Mutex, Ordering},
};

/// Connections that have more to send, in the order of their turns.
#[derive(Default)]
pub(super) struct Turns {
    queues: Mutex<Queues>,
    /// Sockets for whose room somebody waits: who comes now waits behind. Asked before every send, so it takes no lock.
    full: AtomicU8,
}

/// The turn of a connection.
pub(super) struct Turn {
    pub(super) connection: Arc<Inner>,
    /// The socket that has room again; `None` if its turn was over.
    pub(super) socket: Option<SocketId>,
}

#[derive(Default)]
struct Queues {
    ready: VecDeque<Turn>,
    waiting: [Waiting; MOST_SOCKETS],
}

/// Those who wait for room in one socket.
#[derive(Default)]
struct Waiting {
    /// The socket was full before they had sent anything in their turn: these are the first when it has room.
    starved: VecDeque<Turn>,
    /// The socket was full when they had sent something.
    served: VecDeque<Turn>,
}

impl Turns {
    pub(super) fn later(&self, connection: Arc<Inner>) {
        self.queues.lock().ready.push_back(Turn { connection, socket: None });
    }

    /// A socket is full, for one that `is_starved` if this turn has brought it nothing.
    pub(super) fn wait_for_room(&self, connection: Arc<Inner>, socket: SocketId, is_starved: bool) {
        let mut queues = self.queues.lock();
        let Some(waiting) = queues.waiting.get_mut(usize::from(socket.0)) else { return };
        let queue = if is_starved { &mut waiting.starved } else { &mut waiting.served };
        queue.push_back(Turn { connection, socket: Some(socket) });
        self.full.fetch_or(Mask::of(socket).bits(), Ordering::Release);
    }

    /// A socket is full, for one that waits for it already, or is about to.
    pub(super) fn mark_full(&self, socket: SocketId) {
        self.full.fetch_or(Mask::of(socket).bits(), Ordering::Release);
    }

    /// Sockets for whose room somebody waits.
    pub(super) fn full(&self) -> Mask {
        Mask::from_bits(self.full.load(Ordering::Acquire))
    }

    /// Sockets have room again. One may be full before all who have waited are served: those who got nothing are the first
    /// next time, so that each gets its share.
    pub(super) fn unblock(&self, roomy: Mask) {
        let mut queues = self.queues.lock();
        let Queues { ready, waiting } = &mut *queues;
        let mut first = VecDeque::new();
        for socket in roomy.iter() {
            if let Some(Waiting { starved, served }) = waiting.get_mut(usize::from(socket.0)) {
                first.append(starved);
                first.append(served);
            }
        }
        // Those whose turn was over have sent more recently.
        first.append(ready);
        *ready = first;
        self.full.fetch_and(!roomy.bits(), Ordering::Release);
    }

    /// Those whose turn it is: each once, so that none is served twice before another.
    pub(super) fn take_ready(&self) -> VecDeque<Turn> {
        std::mem::take(&mut self.queues.lock().ready)
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.queues.lock().ready.is_empty()
    }
}
