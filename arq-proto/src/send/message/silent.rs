// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What if something of a message is lost on one path, while the rest of it is out on another one that is silent?
//!
//! What left on a silent path may still arrive, and counts as expected. It must not be waited for: the path may be dead for
//! good.

use super::Message;
use crate::{
    redundancy::repair::{self, Addition},
    sent::Content,
    symbol::{Symbol, SymbolSet},
    wire::MAX_CHUNKS,
};

impl Message {
    /// Something was lost, and `silent` is out on silent paths: sends again what is out on no other path.
    pub(crate) fn do_without(&mut self, silent: &[Content], coding: bool) {
        // Of what left on two paths at once, the part on silent ones counts as lost already.
        if self.is_doubled {
            return;
        }
        let present = self.segmentation();
        let mut counts = [0_u8; MAX_CHUNKS];
        let mut repairs = SymbolSet::EMPTY;
        for content in silent {
            let Content::Symbol { segmentation, symbol, .. } = *content else { continue };
            match symbol {
                _ if segmentation != present => {}
                Symbol::Source(index) => {
                    let count = &mut counts[usize::from(index)];
                    *count = count.saturating_add(1);
                }
                Symbol::Repair(index) => repairs.insert(index.into()),
            }
        }
        let is_only_there = |&index: &usize| self.outstanding[index] <= counts[index];
        let waiting = self.in_flight - (self.acked | self.to_send);
        let chunks: SymbolSet = waiting.iter().filter(is_only_there).collect();
        let only_there = chunks.len() + (repairs & self.repairs.in_flight).len();
        match repair::instead_of(&self.out(), only_there, coding) {
            Addition::Unacked(_) => self.to_send |= chunks | self.lost(),
            addition => self.add(addition),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        redundancy::repair::Target,
        units::{LaneId, MessageSeq},
        wire::MAX_MESSAGE_BYTES,
        Probability, Reliability,
    };

    fn contents(symbols: &[Symbol]) -> Vec<Content> {
        let lane = LaneId::new(2, Reliability::Reliable).unwrap();
        let seq = MessageSeq::default();
        let content = |&symbol: &Symbol| Content::Symbol { lane, seq, segmentation: 0, symbol };
        symbols.iter().map(content).collect()
    }

    fn send_all(message: &mut Message) -> Vec<Symbol> {
        std::iter::from_fn(|| {
            let symbol = message.next_symbol()?;
            message.on_sent(symbol);
            Some(symbol)
        })
        .collect()
    }

    fn message(len: usize, max_chunk: usize) -> Message {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let now = std::time::Instant::now();
        let mut message = Message::new(Bytes::from(vec![7; len]), now, None);
        message.begin(max_chunk);
        message
    }

    // ARQ-MP-5
    #[test]
    fn repair_symbols_on_a_path_that_answers_are_waited_for() {
        let mut message = message(10_000, 1_112);
        let sent = send_all(&mut message);
        message.protect(2);
        send_all(&mut message);
        sent[..2].iter().for_each(|&symbol| message.on_lost(0, symbol));
        message.do_without(&[], true);
        assert_eq!(send_all(&mut message), []);
    }

    // ARQ-MP-5
    #[test]
    fn a_copy_on_a_silent_path_of_what_has_arrived_is_not_missed() {
        let mut message = message(10_000, 1_112);
        let sent = send_all(&mut message);
        message.on_sent(sent[0]);
        message.on_acked(0, sent[0]);
        message.do_without(&contents(&sent[..1]), true);
        assert_eq!(send_all(&mut message), []);
    }

    // ARQ-MP-5
    #[test]
    fn what_is_out_of_an_earlier_segmentation_stands_for_no_chunk_of_this_one() {
        let mut message = message(2_000, 2_000);
        let earlier = send_all(&mut message);
        message.resegment(1_000);
        let sent = send_all(&mut message);
        message.on_lost(1, sent[1]);
        message.do_without(&contents(&earlier), false);
        assert_eq!(send_all(&mut message), sent[1..]);
    }

    /// A symbol arrives, or is lost and repaired.
    fn settle(message: &mut Message, symbol: Symbol, arrives: bool, how: (Target, bool)) {
        if arrives {
            return message.on_acked(0, symbol);
        }
        message.on_lost(0, symbol);
        match how {
            (target, true) => message.repair(target),
            (_, false) => message.add(crate::textbook::REPAIR),
        }
    }

    proptest! {
        /// Nothing is heard of the silent path ever again.
        // ARQ-MP-5
        #[test]
        fn a_message_is_completed_by_the_path_that_answers(
            len in prop_oneof![1..=1_100_usize, 1_101..=4_400_usize, 1..=MAX_MESSAGE_BYTES],
            (percent, parity, coding) in (1_u32..50, 0_usize..3, any::<bool>()),
            first in prop::collection::vec(any::<(prop::sample::Index, bool)>(), 0..40),
            silent in prop::collection::vec(any::<bool>(), 8),
            fates in prop::collection::vec(any::<(prop::sample::Index, bool)>(), 600),
        ) {
            let target = Target::new(Probability::from_ppm(percent * 10_000));
            let mut message = message(len, 1_100);
            let mut out = send_all(&mut message);
            message.protect(if coding { parity } else { 0 });
            // Both paths answer.
            for (at, arrives) in first {
                out.extend(send_all(&mut message));
                if !out.is_empty() {
                    let symbol = out.swap_remove(at.index(out.len()));
                    settle(&mut message, symbol, arrives, (target, coding));
                }
            }
            let mut is_silent = silent.iter().cycle();
            let (there, mut here): (Vec<_>, Vec<_>) =
                out.into_iter().partition(|_| is_silent.next() == Some(&true));
            message.on_silence(&there, coding);
            for (at, arrives) in fates {
                here.extend(send_all(&mut message));
                if here.is_empty() {
                    break;
                }
                let symbol = here.swap_remove(at.index(here.len()));
                if !arrives {
                    message.on_lost(0, symbol);
                    message.do_without(&contents(&there), coding);
                }
                settle(&mut message, symbol, arrives, (target, coding));
            }
            prop_assert!(!here.is_empty() || message.is_delivered());
        }
    }
}
