// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Where does the memory of the next message come from, and how much of it may a packet claim?
//!
//! An allocator returns the pages of a large message to the system as soon as it is freed. Faulting them in again costs more
//! than copying the message. So the memory of messages that were read serves the next ones.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

/// Least bytes of a message whose memory is recycled: allocators keep that of smaller ones themselves.
pub const WORTH_RECYCLING_BYTES: usize = 16 << 10;
/// Buffers kept: about as many large messages as arrive before the first is read.
const MAX_BUFFERS: usize = 16;
/// Buffers are freed after this time without a large message.
const BUFFER_LIFETIME: Duration = Duration::from_secs(1);

/// A packet may begin this many best-effort messages in several chunks, and one more for each `BYTES_TO_OPEN_ONE`. Each message
/// claims as much memory as its header says, which is zeroed and, unlike a reliable lane's, given up for the next message.
/// Without a bound one packet could cost milliseconds. No sender segments its messages so that it needs more.
const MOST_OPENED: usize = 16;
const BYTES_TO_OPEN_ONE: usize = 512;

/// Memory in reserve.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    /// Messages that the current packet may still begin.
    may_open: usize,
    buffers: Vec<BytesMut>,
    /// When the last large message began.
    wanted_at: Option<Instant>,
}

impl Spare {
    /// A packet of so many bytes has come.
    pub(crate) fn on_packet(&mut self, bytes: usize) {
        self.may_open = MOST_OPENED + bytes / BYTES_TO_OPEN_ONE;
    }

    /// Whether it may begin one more message in several pieces, which is counted.
    pub(crate) fn may_open(&mut self) -> bool {
        let may_open = self.may_open > 0;
        self.may_open = self.may_open.saturating_sub(1);
        may_open
    }

    /// An empty buffer with room for `bytes`.
    pub(crate) fn take(&mut self, now: Instant, bytes: usize) -> BytesMut {
        if bytes >= WORTH_RECYCLING_BYTES {
            self.wanted_at = Some(now);
            // Not one that is much too large: a message is accounted by its length.
            let fits = |spare: &BytesMut| (bytes..2 * bytes).contains(&spare.capacity());
            if let Some(at) = self.buffers.iter().position(fits) {
                return self.buffers.swap_remove(at);
            }
            // None fits: one is dropped, to make room for this message's buffer later.
            self.buffers.pop();
        }
        BytesMut::with_capacity(bytes)
    }

    /// Keeps the memory of a message, unless somebody else still reads it.
    pub(crate) fn keep(&mut self, message: Bytes) {
        if self.buffers.len() >= MAX_BUFFERS || message.len() < WORTH_RECYCLING_BYTES {
            return;
        }
        if let Ok(mut buffer) = message.try_into_mut() {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// Frees all buffers once no large message has come for a while.
    pub(crate) fn age(&mut self, now: Instant) {
        if self.wanted_at.is_none_or(|at| at + BUFFER_LIFETIME < now) {
            self.buffers = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn t0() -> Instant {
        Instant::now()
    }

    fn bytes(spare: &Spare) -> usize {
        spare.buffers.iter().map(BytesMut::capacity).sum()
    }

    #[test]
    fn a_message_that_was_read_lends_its_memory_to_the_next() {
        let (mut spare, now) = (Spare::default(), t0());
        let mut buffer = spare.take(now, 40_000);
        buffer.resize(40_000, 7);
        let memory = buffer.as_ptr();
        spare.keep(buffer.freeze());
        let next = spare.take(now, 30_000);
        assert_eq!((next.as_ptr(), next.len()), (memory, 0));
        let other = spare.take(now, 30_000);
        assert_ne!(other.as_ptr(), memory);
    }

    #[test]
    fn a_message_does_not_hold_twice_its_length() {
        let (mut spare, now) = (Spare::default(), t0());
        spare.keep(Bytes::from(vec![7; 60_000]));
        spare.keep(Bytes::from(vec![7; 60_000]));
        assert!(spare.take(now, 30_000).capacity() < 2 * 30_000);
        assert_eq!(spare.take(now, 40_000).capacity(), 60_000);
    }

    #[test]
    fn only_so_much_is_kept_and_nothing_that_is_still_read() {
        let message = |bytes: usize| Bytes::from(vec![7; bytes]);
        let mut spare = Spare::default();
        let read = message(40_000);
        spare.keep(read.clone());
        spare.keep(message(WORTH_RECYCLING_BYTES - 1));
        assert_eq!(bytes(&spare), 0);
        spare.keep(message(WORTH_RECYCLING_BYTES));
        assert_eq!(bytes(&spare), WORTH_RECYCLING_BYTES);
        spare.buffers.clear();
        for _ in 0..2 * MAX_BUFFERS {
            spare.keep(message(40_000));
        }
        assert_eq!(bytes(&spare), MAX_BUFFERS * 40_000);
        drop(read);
    }

    #[test]
    fn buffers_that_are_too_small_make_room() {
        let (mut spare, now) = (Spare::default(), t0());
        for _ in 0..MAX_BUFFERS {
            spare.keep(Bytes::from(vec![7; 20_000]));
        }
        for _ in 0..MAX_BUFFERS {
            let mut buffer = spare.take(now, 60_000);
            buffer.resize(60_000, 7);
            spare.keep(buffer.freeze());
        }
        assert!(spare.take(now, 60_000).capacity() >= 60_000);
        assert!(bytes(&spare) > 0, "a large one was there");
    }

    #[test]
    fn what_is_of_no_use_is_given_back() {
        let (mut spare, now) = (Spare::default(), t0());
        spare.take(now, 60_000);
        spare.keep(Bytes::from(vec![7; 60_000]));
        spare.age(now + BUFFER_LIFETIME);
        assert_eq!(bytes(&spare), 60_000);
        spare.age(now + 2 * BUFFER_LIFETIME);
        assert_eq!(bytes(&spare), 0);
    }
}
