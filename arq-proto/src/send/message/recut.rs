// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What becomes of a message under way whose chunks no longer fit a packet?
//!
//! The path carries less than when it was cut. It is cut once more, into smaller chunks, and of the old
//! ones only what the peer has acknowledged counts: a chunk is the bytes from here to there, whatever
//! the others look like. Repair symbols of the old cut are of no use any more.

use smallvec::smallvec;

use super::{chunk_bytes_for, Copies, Message, Repairs, Symbol};
use crate::{
    symbol::SymbolSet,
    wire::{frame::Shape, MIN_CHUNK_BYTES},
};

impl Message {
    /// Whether its chunks are longer than `most` bytes, and could be shorter.
    pub(crate) fn is_oversize(&self, most: usize) -> bool {
        self.has_begun() && self.chunk_bytes > most.max(MIN_CHUNK_BYTES.into())
    }

    /// Cuts what is not acknowledged anew, into chunks of at most `most` bytes.
    pub(crate) fn recut(&mut self, most: usize) {
        debug_assert!(self.is_oversize(most));
        let old = self.shape();
        self.earlier_cuts.push(old.chunk_bytes);
        self.chunk_bytes = chunk_bytes_for(self.len(), most);
        let new = self.shape();
        self.acked = self.acked.recut(old, new);
        self.sent_once = self.sent_once.recut(old, new);
        // What is in flight does not arrive: it is too long.
        self.to_send = SymbolSet::chunks_of(new) - self.acked;
        self.in_flight = SymbolSet::EMPTY;
        self.outstanding = smallvec![0; new.chunk_count()];
        self.sent_again = SymbolSet::EMPTY;
        (self.copies, self.repairs) = (Copies::default(), Repairs::default());
    }

    /// How often it was cut anew.
    pub(crate) fn cut(&self) -> u8 {
        // Each cut is into smaller chunks, of sizes that the path's MTU had.
        u8::try_from(self.earlier_cuts.len()).unwrap_or(u8::MAX)
    }

    /// A symbol of an earlier cut arrived after all. If it was a chunk, the peer has those of the next cut that lie
    /// within, of these those of the one after, and so on: it may have gone through each of them, and keeps whole
    /// chunks only.
    pub(super) fn on_earlier_acked(&mut self, cut: u8, symbol: Symbol) {
        let Symbol::Source(index) = symbol else { return };
        let Some(cuts) = self.earlier_cuts.get(usize::from(cut)..) else { return };
        let shape = |chunk_bytes| Shape { message_bytes: self.len(), chunk_bytes };
        let mut cuts = cuts.iter().copied().chain([self.chunk_bytes]).map(shape);
        let Some(mut old) = cuts.next() else { return };
        let mut there = SymbolSet::only(index.into());
        for new in cuts {
            there = there.recut(old, new);
            old = new;
        }
        self.acked |= there;
        self.to_send -= self.acked;
        self.stop_if_delivered();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{recovery::confidence::Confidence, wire::MAX_MESSAGE_BYTES, Probability};

    fn message(len: usize, max_chunk: usize) -> Message {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let now = std::time::Instant::now();
        let mut message = Message::new(bytes::Bytes::from(vec![7; len]), now, None);
        message.begin(max_chunk);
        message
    }

    fn send_all(message: &mut Message) -> Vec<Symbol> {
        std::iter::from_fn(|| {
            let symbol = message.next_symbol()?;
            message.on_sent(symbol);
            Some(symbol)
        })
        .collect()
    }

    // ARQ-MSG-6
    #[test]
    fn what_a_cut_in_between_may_have_dropped_is_sent() {
        let mut message = message(60_000, 8_572);
        send_all(&mut message);
        message.recut(1_154);
        message.recut(536);
        // The receiver may have kept of it only the chunks of 1,154 bytes that lie within: 9,232..16,156.
        message.on_acked(0, Symbol::Source(1));
        let acked = |byte: usize| message.acked.contains(byte / message.chunk_bytes);
        assert!(!acked(8_600) && !acked(16_600));
        assert!(acked(9_800) && acked(15_600));
    }

    // ARQ-MSG-6
    #[test]
    fn what_was_acknowledged_is_not_sent_again() {
        let mut message = message(9_000, 3_000);
        send_all(&mut message);
        message.on_acked(0, Symbol::Source(1));
        message.recut(1_000);
        let sent = send_all(&mut message);
        assert_eq!(sent, [0, 1, 2, 6, 7, 8].map(Symbol::Source));
        // A late acknowledgement of the first cut, and losses of it that are none of ours.
        message.on_lost(0, Symbol::Source(0));
        message.on_lost(0, Symbol::Source(2));
        message.on_acked(0, Symbol::Source(2));
        (0..3).for_each(|index| message.on_acked(1, Symbol::Source(index)));
        assert!(message.is_delivered());
    }

    // ARQ-MSG-6
    #[test]
    fn repair_symbols_of_an_earlier_cut_do_not_count() {
        let mut message = message(9_000, 3_000);
        let sent = send_all(&mut message);
        sent.iter().for_each(|&symbol| message.on_lost(0, symbol));
        message.repair(Confidence::new(Probability::from_ppm(250_000)));
        assert_eq!(message.next_symbol(), Some(Symbol::Repair(0)));
        send_all(&mut message);
        message.recut(1_000);
        message.on_acked(0, Symbol::Repair(0));
        assert_eq!(send_all(&mut message).len(), 9);
        assert!(!message.is_delivered());
    }

    #[test]
    fn a_whole_message_can_be_cut_and_a_small_chunk_stays() {
        let mut message = message(1_400, 1_400);
        assert!(message.is_oversize(1_300) && !message.is_oversize(1_400));
        send_all(&mut message);
        message.recut(1_300);
        assert_eq!((send_all(&mut message).len(), message.cut()), (2, 1));
        message.recut(600);
        assert_eq!((send_all(&mut message).len(), message.cut()), (3, 2));
        assert!(!message.is_oversize(100), "no chunk is smaller than 512 bytes");
    }

    proptest! {
        /// Bytes that were not sent before a cut are not counted as sent after it, and the other way
        /// round only at its seams.
        // ARQ-MSG-6
        #[test]
        fn coverage_is_by_byte(
            len in 1_025..=MAX_MESSAGE_BYTES,
            old_chunk in 1_025_usize..9_000,
            new_chunk in 512_usize..1_025,
            there in proptest::collection::btree_set(0_usize..128, 0..128),
        ) {
            let old_chunk = old_chunk.min(len);
            let old = Shape { message_bytes: len, chunk_bytes: old_chunk };
            let new = Shape { message_bytes: len, chunk_bytes: new_chunk };
            let chunks = there.iter().copied().collect::<SymbolSet>().recut(old, new);
            for index in 0..new.chunk_count() {
                let bytes = index * new_chunk..len.min((index + 1) * new_chunk);
                let all = bytes.into_iter().all(|byte| there.contains(&(byte / old_chunk)));
                prop_assert_eq!(chunks.contains(index), all);
            }
            prop_assert!((chunks - SymbolSet::chunks_of(new)).is_empty());
        }
    }
}
