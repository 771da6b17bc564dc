// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Numbered messages on one priority of one link, and is each that arrives the one that is due?

use std::{
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        Arc,
    },
    time::Duration,
};

use fastrand::Rng;
use tokio::time::{interval, MissedTickBehavior};
use zenoh_link_arq::ARQ_MTU;
use zenoh_link_commons::LinkUnicastTrait;
use zenoh_protocol::core::Priority;

/// How a fragment of zenoh's begins, a reliable one and one of best effort: the link looks at no more of a message.
const FRAGMENT: u8 = 0x26;
const BEST_EFFORT_FRAGMENT: u8 = 0x06;
/// That and the number.
const HEAD_BYTES: usize = 9;

/// One direction of one priority.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) name: String,
    pub(crate) priority: Priority,
    /// Between two messages.
    pub(crate) interval: Duration,
    /// The longest message, bytes; the shortest is [`HEAD_BYTES`] long.
    pub(crate) longest: usize,
    /// Messages may be missing, but not come late.
    pub(crate) may_lose: bool,
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

impl Flow {
    pub(crate) fn new(
        name: &str,
        priority: Priority,
        interval_ms: u64,
        longest: usize,
    ) -> Arc<Self> {
        Arc::new(Self::plain(name, priority, interval_ms, longest))
    }

    /// The same, of best effort.
    pub(crate) fn lossy(
        name: &str,
        priority: Priority,
        interval_ms: u64,
        longest: usize,
    ) -> Arc<Self> {
        Arc::new(Self { may_lose: true, ..Self::plain(name, priority, interval_ms, longest) })
    }

    fn plain(name: &str, priority: Priority, interval_ms: u64, longest: usize) -> Self {
        Self {
            name: name.to_owned(),
            priority,
            interval: Duration::from_millis(interval_ms),
            longest,
            may_lose: false,
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Messages that were sent and have not arrived.
    pub(crate) fn outstanding(&self) -> u64 {
        self.sent.load(Relaxed).saturating_sub(self.received.load(Relaxed))
    }

    /// Sends until `stop`, or `at_most` messages.
    pub(crate) async fn send(
        &self,
        link: &dyn LinkUnicastTrait,
        seed: u64,
        stop: &AtomicBool,
        at_most: u64,
    ) {
        let mut rng = Rng::with_seed(seed);
        let mut due = interval(self.interval);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for number in 0..at_most {
            due.tick().await;
            if stop.load(Relaxed) {
                return;
            }
            let first = if self.may_lose { BEST_EFFORT_FRAGMENT } else { FRAGMENT };
            let message = message(first, number, rng.usize(HEAD_BYTES..=self.longest));
            // Counted first: nobody may see it arrive before it was sent.
            self.sent.fetch_add(1, Relaxed);
            let written = link.write_all(&message, Some(self.priority)).await;
            written.unwrap_or_else(|error| panic!("{}, number {number}: {error}", self.name));
        }
    }

    /// Receives for ever, or `at_most` messages.
    pub(crate) async fn receive(&self, link: &dyn LinkUnicastTrait, at_most: u64) {
        let mut buffer = vec![0; usize::from(ARQ_MTU)];
        let mut expected = 0;
        for _ in 0..at_most {
            let read = link.read(&mut buffer, Some(self.priority)).await;
            let read = read.unwrap_or_else(|error| panic!("{}: {error}", self.name));
            let number = number_of(&buffer[..read])
                .unwrap_or_else(|| panic!("{}: {read} bytes that nobody sent", self.name));
            let in_order = number == expected || self.may_lose && number > expected;
            assert!(in_order, "{}: number {number} where {expected} was due", self.name);
            expected = number + 1;
            self.received.fetch_add(1, Relaxed);
            self.bytes.fetch_add(read as u64, Relaxed);
        }
    }
}

/// Message `number`, `len` bytes long.
fn message(first: u8, number: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len);
    out.push(first);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend((HEAD_BYTES..len).map(|at| filler(number, len, at)));
    out
}

/// The number of a message that is whole and as it was sent.
fn number_of(message: &[u8]) -> Option<u64> {
    let (head, rest) = message.split_first_chunk::<HEAD_BYTES>()?;
    let [FRAGMENT | BEST_EFFORT_FRAGMENT, number @ ..] = head else { return None };
    let number = u64::from_le_bytes(*number);
    let mut bytes = rest.iter().enumerate();
    let is_filler = bytes.all(|(at, b)| *b == filler(number, message.len(), HEAD_BYTES + at));
    is_filler.then_some(number)
}

/// Differs between neighbours, messages and lengths.
fn filler(number: u64, len: usize, at: usize) -> u8 {
    (number ^ len as u64).wrapping_mul(0x9e37_79b9).wrapping_add(at as u64 * 167).to_le_bytes()[1]
}

#[test]
fn a_damaged_message_is_noticed() {
    let good = message(FRAGMENT, 7, 500);
    assert_eq!(number_of(&good), Some(7));
    for at in (0..500).filter(|at| *at == 0 || *at >= HEAD_BYTES) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert_eq!(number_of(&bad), None, "byte {at}");
    }
    assert_eq!(number_of(&good[..499]), None);
}
