// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Writes that zenoh has given up while their lane was full: they leave before the next one.
//!
//! zenoh closes a session by dropping the write that waits, and then writes what is queued behind
//! it. The peer does not ask for what is missing in between: a link that promises reliability must
//! not leave the gap.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll},
};

use arq_proto::{LaneId, Reliability};
use arq_tokio::{Connection, SendError};
use bytes::Bytes;
use parking_lot::Mutex;
use thiserror::Error;

/// zenoh gives up one, and one more when the rest does not leave in time; then it writes no more.
const MOST_OF_A_LANE: usize = 4;

/// The writes that were given up, of all lanes of a link.
#[derive(Debug, Default)]
pub(crate) struct GivenUp {
    /// Nearly never, so that a write need not look.
    any: AtomicBool,
    writes: Mutex<VecDeque<Batch>>,
}

/// What zenoh writes.
#[derive(Debug)]
struct Batch {
    lane: LaneId,
    message: Bytes,
    /// The lane's next one belongs to the same message of zenoh's, and is of no use without this one.
    more: bool,
}

/// Why a batch was not written.
#[derive(Debug, Error)]
pub(crate) enum WriteError {
    #[error(transparent)]
    Send(#[from] SendError),
    /// Whoever gives up write after write would have all of them kept.
    #[error("{MOST_OF_A_LANE} batches before it were given up and have not left yet")]
    TooMany,
}

impl GivenUp {
    /// Begins to write `message` to `lane`. `more`: see [`Connection::poll_send`].
    pub(crate) fn write(&self, lane: LaneId, message: &[u8], more: bool) -> Write<'_> {
        let batch = Batch { lane, message: Bytes::copy_from_slice(message), more };
        Write { given_up: self, batch, is_done: false }
    }

    /// Nothing of them will leave any more.
    pub(crate) fn forget(&self) {
        let mut writes = self.writes.lock();
        writes.clear();
        self.any.store(false, Ordering::Release);
    }

    fn keep(&self, batch: Batch) {
        let mut writes = self.writes.lock();
        writes.push_back(batch);
        self.any.store(true, Ordering::Release);
    }

    /// Sends those of `lane`, in order.
    fn poll_resume(
        &self,
        cx: &mut Context<'_>,
        lane: LaneId,
        connection: &Connection,
    ) -> Poll<Result<(), WriteError>> {
        // Held while they are sent, or another task's write would come between.
        let mut writes = self.writes.lock();
        while let Some(at) = writes.iter().position(|batch| batch.lane == lane) {
            let Batch { message, more, .. } = &mut writes[at];
            match connection.poll_send(cx, lane, message, *more) {
                Poll::Ready(sent) => {
                    writes.remove(at);
                    sent?;
                }
                Poll::Pending
                    if writes.iter().filter(|batch| batch.lane == lane).count()
                        >= MOST_OF_A_LANE =>
                {
                    return Poll::Ready(Err(WriteError::TooMany));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        self.any.store(!writes.is_empty(), Ordering::Release);
        Poll::Ready(Ok(()))
    }
}

/// A batch on its way into a lane. Dropped before it is in, a reliable one is kept.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    given_up: &'a GivenUp,
    batch: Batch,
    is_done: bool,
}

impl Write<'_> {
    /// Waits while the lane is full.
    pub(crate) async fn send(mut self, connection: &Connection) -> Result<(), WriteError> {
        let send = std::future::poll_fn(|cx| self.poll_send(cx, connection));
        tokio::task::coop::cooperative(send).await
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        connection: &Connection,
    ) -> Poll<Result<(), WriteError>> {
        let resumed = match self.given_up.any.load(Ordering::Acquire) {
            true => self.given_up.poll_resume(cx, self.batch.lane, connection),
            false => Poll::Ready(Ok(())),
        };
        let sent = match resumed {
            Poll::Ready(Ok(())) => {
                let Batch { lane, message, more } = &mut self.batch;
                connection.poll_send(cx, *lane, message, *more).map_err(WriteError::from)
            }
            not_yet => not_yet,
        };
        self.is_done = sent.is_ready();
        sent
    }
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        let Batch { lane, message, more } = &mut self.batch;
        if !self.is_done && lane.reliability() == Reliability::Reliable {
            let message = std::mem::take(message);
            self.given_up.keep(Batch { lane: *lane, message, more: *more });
        }
    }
}
