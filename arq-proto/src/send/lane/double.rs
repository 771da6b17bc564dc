// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What leaves on two paths at once.

use super::SendLane;
use crate::{
    symbol::{Symbol, SymbolRef},
    units::MessageSeq,
};

impl SendLane {
    /// Whether a chunk has not left yet.
    pub(crate) fn is_new(&self, at: SymbolRef) -> bool {
        self.message(at.seq).is_some_and(|message| message.is_new(at.symbol))
    }

    /// What leaves on another path beside a chunk that left; `None` if that is not needed any more. `coding`: the peer takes
    /// repair symbols.
    pub(crate) fn next_double(&self, at: SymbolRef, coding: bool) -> Option<SymbolRef> {
        let message =
            self.message(at.seq).filter(|message| message.segmentation() == at.segmentation)?;
        let symbol = message.next_double(at.symbol, coding)?;
        Some(SymbolRef { symbol, frame_len: message.frame_len(at.seq, symbol), ..at })
    }

    /// The next double left.
    pub(crate) fn on_doubled(&mut self, at: SymbolRef) {
        if let Some(message) = self.message_mut(at.seq) {
            message.on_doubled(at.symbol);
        }
    }

    /// Bytes of the frame of a symbol, if its message left on two paths at once.
    pub(crate) fn doubled_bytes(&self, seq: MessageSeq, symbol: Symbol) -> Option<u64> {
        let message = self.message(seq).filter(|message| message.is_doubled())?;
        Some(message.frame_len(seq, symbol) as u64)
    }
}
