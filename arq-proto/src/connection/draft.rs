// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A packet under construction: what is in it, and what still fits.

use crate::{
    batches::Burst,
    path_mtu::Side,
    sent::{Content, Contents},
    units::{LaneId, MessageSeq},
    wire::frame::Frame,
};

/// How long a packet may become, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Length {
    pub(super) usual: usize,
    /// With a symbol of a message that was segmented for longer packets.
    pub(super) longest: usize,
    /// It is filled up to that.
    pub(super) fills: bool,
}

impl Length {
    pub(super) fn exactly(bytes: usize) -> Self {
        Self { usual: bytes, longest: bytes, fills: false }
    }
}

/// A packet under construction.
pub(super) struct Draft {
    pub(super) start: usize,
    /// Where the frames start.
    pub(super) frames: usize,
    /// Where the tag must start at the latest.
    pub(super) end: usize,
    /// The same for a packet with nothing but one symbol of a message that was segmented for longer packets.
    pub(super) longest_end: usize,
    pub(super) burst: Burst,
    pub(super) side: Side,
    pub(super) contents: Contents,
    /// Whether it counts as in flight: it elicits an acknowledgement whose absence says something about the path.
    pub(super) in_flight: bool,
    /// It holds something that leaves again.
    pub(super) repairs: bool,
    /// The time that holds for the messages of a lane that follow.
    pub(super) timestamp: Option<(LaneId, u32)>,
}

impl Draft {
    /// Whether a symbol is in the packet. Only copies ask for the same one again, right behind those of its message.
    pub(super) fn has_symbol(&self, lane: LaneId, seq: MessageSeq, content: &Content) -> bool {
        for other in self.contents.iter().rev() {
            match other {
                Content::Symbol { lane: l, seq: s, .. } if *l == lane && *s != seq => return false,
                other if other == content => return true,
                _ => {}
            }
        }
        false
    }

    pub(super) fn grow_for_the_first(&mut self) {
        if !self.in_flight {
            self.end = self.longest_end;
        }
    }

    /// Packets that end behind `short_end` seem to vanish. One whose content ends before that becomes no longer.
    pub(super) fn stay_short(&mut self, content_end: usize, short_end: Option<usize>) {
        if let Some(end) = short_end.filter(|end| content_end <= *end) {
            self.end = self.end.min(end);
        }
    }

    pub(super) fn room(&self, out: &[u8]) -> usize {
        self.end.saturating_sub(out.len())
    }

    pub(super) fn put(&mut self, out: &mut Vec<u8>, frame: &Frame<'_>, content: Option<Content>) {
        frame.encode(out);
        self.in_flight |= frame.is_ack_eliciting();
        self.contents.extend(content);
    }

    /// The same for the frame of a symbol that was encoded before.
    pub(super) fn put_encoded(&mut self, out: &mut Vec<u8>, frame: &[u8], content: Content) {
        out.extend_from_slice(frame);
        self.in_flight = true;
        self.contents.push(content);
    }

    /// Bytes of a frame of a message, and of the timestamp that it needs before it.
    pub(super) fn len_with(&self, frame_len: usize, timestamp: Option<(LaneId, u32)>) -> usize {
        let is_new = timestamp.is_some() && timestamp != self.timestamp;
        frame_len + if is_new { Frame::TIMESTAMP_BYTES } else { 0 }
    }

    /// Says when the messages that follow were handed over, if they have a deadline.
    pub(super) fn put_timestamp(&mut self, out: &mut Vec<u8>, timestamp: Option<(LaneId, u32)>) {
        let Some((lane, ms)) = timestamp.filter(|_| timestamp != self.timestamp) else { return };
        Frame::Timestamp { lane, ms }.encode(out);
        self.timestamp = timestamp;
    }

    /// Fills the packet with PADDING, which is zeros.
    pub(super) fn pad(&self, out: &mut Vec<u8>) {
        self.pad_to(out, usize::MAX);
    }

    /// Fills the packet up to so many bytes, as far as they fit.
    pub(super) fn pad_to(&self, out: &mut Vec<u8>, bytes: usize) {
        let end = self.start.saturating_add(bytes).min(self.end);
        out.resize(end.max(out.len()), 0);
    }
}
