// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Where does the memory of the next message come from?
//!
//! An allocator gives the pages of a large message back to the system as soon as it is freed, and
//! taking them again costs more than all that is copied into them. So the memory of messages that
//! were read serves the next ones, as long as the connection is busy.

use bytes::{Bytes, BytesMut};

/// Memory in reserve.
#[derive(Debug, Default)]
pub(crate) struct Spare(Vec<BytesMut>);

impl Spare {
    /// Buffers kept: as many large messages as arrive before the first is read.
    const MOST: usize = 16;
    /// What is smaller, allocators keep themselves.
    const WORTHWHILE_BYTES: usize = 16 << 10;

    /// An empty buffer with room for `bytes`.
    pub(crate) fn take(&mut self, bytes: usize) -> BytesMut {
        if bytes >= Self::WORTHWHILE_BYTES {
            if let Some(at) = self.0.iter().position(|spare| spare.capacity() >= bytes) {
                return self.0.swap_remove(at);
            }
        }
        BytesMut::with_capacity(bytes)
    }

    /// Keeps the memory of a message, unless somebody else still reads it.
    pub(crate) fn keep(&mut self, message: Bytes) {
        if self.0.len() >= Self::MOST || message.len() < Self::WORTHWHILE_BYTES {
            return;
        }
        if let Ok(mut buffer) = message.try_into_mut() {
            buffer.clear();
            self.0.push(buffer);
        }
    }

    /// Gives all back: nothing is to be expected soon.
    pub(crate) fn release(&mut self) {
        self.0 = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_was_read_lends_its_memory_to_the_next() {
        let mut spare = Spare::default();
        let mut buffer = spare.take(40_000);
        buffer.resize(40_000, 7);
        let memory = buffer.as_ptr();
        spare.keep(buffer.freeze());
        let next = spare.take(30_000);
        assert_eq!((next.as_ptr(), next.len()), (memory, 0));
        let other = spare.take(30_000);
        assert_ne!(other.as_ptr(), memory);
    }

    #[test]
    fn only_so_much_is_kept_and_nothing_that_is_still_read() {
        let message = |bytes: usize| Bytes::from(vec![7; bytes]);
        let mut spare = Spare::default();
        let read = message(40_000);
        spare.keep(read.clone());
        spare.keep(message(100));
        assert!(spare.0.is_empty());
        for _ in 0..2 * Spare::MOST {
            spare.keep(message(40_000));
        }
        assert_eq!(spare.0.len(), Spare::MOST);
        spare.release();
        assert!(spare.0.is_empty());
        drop(read);
    }
}
