// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What becomes of a message under way whose chunks no longer fit a packet?
//!
//! The path carries less than when the message was segmented. It is resegmented into smaller chunks. Of the old chunks only
//! acknowledged ones count, as the range of bytes that they cover. Repair symbols of the old segmentation are of no use.

use smallvec::smallvec;

use super::{chunk_bytes_for, Copies, Message, Repairs};
use crate::{
    symbol::{Symbol, SymbolSet},
    wire::{frame::Shape, MIN_CHUNK_BYTES},
};

impl Message {
    /// Whether its chunks are longer than `most` bytes, and could be shorter.
    pub(crate) fn is_oversize(&self, most: usize) -> bool {
        self.has_begun() && self.chunk_bytes > most.max(MIN_CHUNK_BYTES.into())
    }

    /// Resegments what is not acknowledged, into chunks of at most `most` bytes.
    pub(crate) fn resegment(&mut self, most: usize) {
        debug_assert!(self.is_oversize(most));
        let old = self.shape();
        self.earlier_chunk_bytes.push(old.chunk_bytes);
        self.chunk_bytes = chunk_bytes_for(self.len(), most);
        let new = self.shape();
        self.acked = self.acked.resegment(old, new);
        self.sent_once = self.sent_once.resegment(old, new);
        // What is in flight does not arrive: it is too long.
        self.to_send = SymbolSet::chunks_of(new) - self.acked;
        self.in_flight = SymbolSet::EMPTY;
        self.outstanding = smallvec![0; new.chunk_count()];
        self.sent_again = SymbolSet::EMPTY;
        (self.copies, self.repairs) = (Copies::default(), Repairs::default());
    }

    /// How often it was resegmented.
    pub(crate) fn segmentation(&self) -> u8 {
        // Each is into smaller chunks, of sizes that the path's MTU had.
        u8::try_from(self.earlier_chunk_bytes.len()).unwrap_or(u8::MAX)
    }

    /// A symbol of an earlier segmentation arrived after all. A chunk counts for the chunks of the next segmentation that lie
    /// within it, those for the ones of the segmentation after, and so on: the peer may have resegmented as often, and keeps
    /// whole chunks only.
    pub(super) fn on_earlier_acked(&mut self, segmentation: u8, symbol: Symbol) {
        let Symbol::Source(index) = symbol else { return };
        let Some(sizes) = self.earlier_chunk_bytes.get(usize::from(segmentation)..) else {
            return;
        };
        let shape = |chunk_bytes| Shape { message_bytes: self.len(), chunk_bytes };
        let mut shapes = sizes.iter().copied().chain([self.chunk_bytes]).map(shape);
        let Some(mut old) = shapes.next() else { return };
        let mut there = SymbolSet::only(index.into());
        for new in shapes {
            there = there.resegment(old, new);
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
    use crate::{redundancy::repair::Target, wire::MAX_MESSAGE_BYTES, Probability};

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
    fn what_a_segmentation_in_between_may_have_dropped_is_sent() {
        let mut message = message(60_000, 8_572);
        send_all(&mut message);
        message.resegment(1_154);
        message.resegment(536);
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
        message.resegment(1_000);
        let sent = send_all(&mut message);
        assert_eq!(sent, [0, 1, 2, 6, 7, 8].map(Symbol::Source));
        // A late acknowledgement of the first segmentation, and losses of it that are none of ours.
        message.on_lost(0, Symbol::Source(0));
        message.on_lost(0, Symbol::Source(2));
        message.on_acked(0, Symbol::Source(2));
        (0..3).for_each(|index| message.on_acked(1, Symbol::Source(index)));
        assert!(message.is_delivered());
    }

    // ARQ-MSG-6
    #[test]
    fn repair_symbols_of_an_earlier_segmentation_do_not_count() {
        let mut message = message(9_000, 3_000);
        let sent = send_all(&mut message);
        sent.iter().for_each(|&symbol| message.on_lost(0, symbol));
        message.repair(Target::new(Probability::from_ppm(250_000)));
        assert_eq!(message.next_symbol(), Some(Symbol::Repair(0)));
        send_all(&mut message);
        message.resegment(1_000);
        message.on_acked(0, Symbol::Repair(0));
        assert_eq!(send_all(&mut message).len(), 9);
        assert!(!message.is_delivered());
    }

    #[test]
    fn a_whole_message_can_be_resegmented_and_a_small_chunk_stays() {
        let mut message = message(1_400, 1_400);
        assert!(message.is_oversize(1_300) && !message.is_oversize(1_400));
        send_all(&mut message);
        message.resegment(1_300);
        assert_eq!((send_all(&mut message).len(), message.segmentation()), (2, 1));
        message.resegment(600);
        assert_eq!((send_all(&mut message).len(), message.segmentation()), (3, 2));
        assert!(!message.is_oversize(100), "no chunk is smaller than 512 bytes");
    }

    proptest! {
        /// Bytes that were not sent before are not counted as sent after it, and the other way
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
            let chunks = there.iter().copied().collect::<SymbolSet>().resegment(old, new);
            for index in 0..new.chunk_count() {
                let bytes = index * new_chunk..len.min((index + 1) * new_chunk);
                let all = bytes.into_iter().all(|byte| there.contains(&(byte / old_chunk)));
                prop_assert_eq!(chunks.contains(index), all);
            }
            prop_assert!((chunks - SymbolSet::chunks_of(new)).is_empty());
        }
    }
}
