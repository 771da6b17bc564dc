// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A publisher of zenoh's that drops: what becomes of messages longer than a batch?
//!
//! zenoh cuts a message into batches, of which two exist for each priority: one is being written, or both wait. A message
//! that finds none waits for 1 ms, and up to 51 ms once its parts move. Then all of it is dropped, with a batch that
//! tells the peer; and while the link takes none, what is published later is dropped at once.

use std::{collections::VecDeque, time::Duration};

use arq_proto::LaneId;

use crate::{ConnId, World};

const BATCH_BYTES: usize = 65_535;
const BATCHES: usize = 2;
/// What a batch that tells of the drop has.
const STOP_BYTES: usize = 32;
const WAIT: Duration = Duration::from_millis(1);
const MOST_WAIT_OF_PARTS: Duration = Duration::from_millis(50);

/// Publishes messages of one size at an interval.
#[derive(Debug)]
pub struct DropPublisher {
    lane: LaneId,
    message_bytes: usize,
    interval: Duration,
    /// How many are still to be published.
    left: usize,
    next_at: Option<Duration>,
    /// The message that waits for batches.
    current: Option<Current>,
    /// Batches that the link has not taken: length, and whether more of the message follows.
    batches: VecDeque<(usize, bool)>,
    congested: bool,
    /// When the link has taken each batch.
    written_at: Vec<Duration>,
    whole: Vec<Whole>,
    dropped: usize,
}

/// A message that was not dropped.
#[derive(Debug, Clone, Copy)]
struct Whole {
    published_at: Duration,
    /// Batches of the lane up to its last one.
    batches: usize,
}

#[derive(Debug)]
struct Current {
    published_at: Duration,
    bytes_left: usize,
    deadline: Option<Duration>,
    wait: Duration,
    wait_left: Duration,
}

impl DropPublisher {
    /// `messages` of `message_bytes` each on `lane`, which nothing else uses.
    #[must_use]
    pub fn new(lane: LaneId, message_bytes: usize, interval: Duration, messages: usize) -> Self {
        Self {
            lane,
            message_bytes,
            interval,
            left: messages,
            next_at: None,
            current: None,
            batches: VecDeque::new(),
            congested: false,
            written_at: Vec::new(),
            whole: Vec::new(),
            dropped: 0,
        }
    }

    /// Whether all are published, and what was not dropped is in the link.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.left == 0 && self.current.is_none() && self.batches.is_empty()
    }

    /// Messages that were dropped.
    #[must_use]
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// How long after its publication each message arrived that did; `batches` has how long each batch took that
    /// arrived.
    #[must_use]
    pub fn latencies(&self, batches: &[Duration]) -> Vec<Duration> {
        let arrived = |whole: &Whole| {
            let last = whole.batches.checked_sub(1)?;
            Some(*self.written_at.get(last)? + *batches.get(last)? - whole.published_at)
        };
        self.whole.iter().filter_map(arrived).collect()
    }

    /// Does what is due now: to be called each fraction of a millisecond.
    pub fn turn(&mut self, world: &mut World, conn: ConnId) {
        let now = world.now();
        let due = *self.next_at.get_or_insert(now);
        if self.left > 0 && due <= now {
            self.next_at = Some(due + self.interval);
            self.publish(now);
        }
        while self.write(world, conn) | self.cut(now) {}
    }

    fn publish(&mut self, now: Duration) {
        self.left -= 1;
        if self.congested || self.current.is_some() {
            self.dropped += 1;
            return;
        }
        self.current = Some(Current {
            published_at: now,
            bytes_left: self.message_bytes,
            deadline: None,
            wait: WAIT,
            wait_left: MOST_WAIT_OF_PARTS,
        });
    }

    /// The link takes one batch.
    fn write(&mut self, world: &mut World, conn: ConnId) -> bool {
        let Some(&(bytes, more)) = self.batches.front() else { return false };
        let lane = self.lane;
        let taken = world.with_conn(conn, |clock, connection, app| {
            app.hand_over(clock, connection, (lane, bytes), more)
        });
        if taken {
            self.batches.pop_front();
            self.written_at.push(world.now());
            self.congested = false;
        }
        taken
    }

    /// The message gets one batch, or is dropped.
    fn cut(&mut self, now: Duration) -> bool {
        let Some(current) = &mut self.current else { return false };
        if self.batches.len() >= BATCHES {
            if now >= *current.deadline.get_or_insert(now + WAIT) {
                if current.bytes_left < self.message_bytes {
                    self.batches.push_back((STOP_BYTES, false));
                }
                self.current = None;
                self.congested = true;
                self.dropped += 1;
            }
            return false;
        }
        let bytes = current.bytes_left.min(BATCH_BYTES);
        current.bytes_left -= bytes;
        current.extend(now);
        let ends = current.bytes_left == 0;
        let published_at = current.published_at;
        self.batches.push_back((bytes, !ends));
        if ends {
            let batches = self.written_at.len() + self.batches.len();
            self.whole.push(Whole { published_at, batches });
            self.current = None;
        }
        true
    }
}

impl Current {
    /// Each part may wait for twice as long as the one before.
    fn extend(&mut self, now: Duration) {
        self.wait *= 2;
        let more = self.wait.min(self.wait_left);
        self.wait_left -= more;
        *self.deadline.get_or_insert(now + WAIT) += more;
    }
}
