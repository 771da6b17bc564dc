// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Go-back-N and stop-and-wait.
//!
//! Selective repeat needs nothing of this file. The two exist for the comparison of ARQ schemes over one wire (the bench's
//! scenario `arq-schemes`). Stop-and-wait is a window of one packet. Go-back-N is a receiver that keeps nothing out of
//! order, and so has no use for repair symbols.

use crate::{
    config::{Config, ValidConfig},
    redundancy::repair::Addition,
    units::{LaneId, MessageSeq, Reliability},
    wire::{cursor::Reader, frame::Frame},
};

/// The textbook ARQ schemes, as presets of two knobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Both windows are open: only what was lost is repeated.
    SelectiveRepeat,
    /// The receiver keeps nothing out of order: everything after a loss is repeated.
    GoBackN,
    /// One packet at a time.
    StopAndWait,
}

/// Packets in flight of the go-back-N preset: the window of the textbook comparison.
const GO_BACK_N_WINDOW: u32 = 100;

impl Config {
    /// Sets the knobs that make up a textbook scheme.
    #[must_use]
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        (self.window_packets, self.reorder) = match scheme {
            Scheme::SelectiveRepeat => (None, true),
            Scheme::GoBackN => (Some(GO_BACK_N_WINDOW), false),
            Scheme::StopAndWait => (Some(1), true),
        };
        self
    }
}

/// The repair for a peer without REPAIR: each lost chunk, once (ARQ-REP-4).
pub(crate) const REPAIR: Addition = Addition::Lost(1);

/// Whether repair symbols are of use to this side: go-back-N takes nothing but the next chunk.
pub(crate) fn takes_repair(config: &ValidConfig) -> bool {
    config.reorder
}

/// Whether this side takes the symbols of a packet. The first reliable chunk must be the next one of its lane, or an old one.
/// Otherwise go-back-N acts on the other frames, but neither keeps nor acknowledges the packet. `next_in_order`: the message
/// that a lane waits for, and how many of its bytes are there without a hole.
pub(crate) fn takes_symbols(
    config: &ValidConfig,
    mut frames: Reader<'_>,
    next_in_order: impl Fn(LaneId) -> (MessageSeq, usize),
) -> bool {
    if config.reorder {
        return true;
    }
    while let Ok(Some(frame)) = Frame::decode(&mut frames) {
        let Frame::Chunk(chunk) = frame else { continue };
        if chunk.lane.reliability() == Reliability::Reliable {
            let (next, there) = next_in_order(chunk.lane);
            let in_place = chunk.index * chunk.chunk_bytes <= there;
            return chunk.seq < next || chunk.seq == next && in_place;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::ChunkFrame;

    // ARQ-GBN-1
    #[test]
    fn go_back_n_takes_only_the_next_chunk() {
        let config = Config::default().scheme(Scheme::GoBackN).validate().unwrap();
        let takes = |seq, index: usize, there| {
            let lane = LaneId::new(3, Reliability::Reliable).unwrap();
            let data = &[7; 1_000];
            let (message_bytes, chunk_bytes) = (3_000, 1_000);
            let chunk = ChunkFrame { lane, seq, message_bytes, chunk_bytes, index, data };
            let mut packet = Vec::new();
            Frame::Ping.encode(&mut packet);
            Frame::Chunk(chunk).encode(&mut packet);
            takes_symbols(&config, Reader::new(&packet), |_| (5, there))
        };
        assert!(takes(5, 0, 0) && !takes(5, 1, 0));
        assert!(takes(5, 1, 1_000) && !takes(5, 2, 1_000));
        assert!(takes(4, 2, 0), "an old one");
        assert!(!takes(6, 0, 2_000), "not before the one that is waited for");
    }
}
