// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Frames that a fuzzer composes: well-formed ones with any content, and plain bytes.

use arbitrary::Arbitrary;
use arq_proto::{
    wire::{
        cursor::put_varint,
        frame::{ChunkFrame, Frame, RepairFrame, Shape},
        MAX_MESSAGE_BYTES, MIN_CHUNK_BYTES,
    },
    LaneId,
};

/// Integers of variable length hold this much.
const VARINT_MASK: u64 = (1 << 62) - 1;
const ACK_RANGES: u8 = 0x02;
const ACK_BITMAP: u8 = 0x03;
/// Added to the first byte of an ACK: counts of ECN follow. A delay with this bit has some.
const WITH_COUNTS: u8 = 0x06;
const DELAY_WITH_COUNTS: u32 = 1 << 31;

static CONTENT: [u8; MAX_MESSAGE_BYTES] = [0x5a; MAX_MESSAGE_BYTES];

/// A frame.
#[derive(Debug, Clone, Arbitrary)]
pub enum FrameOp {
    /// Asks for an acknowledgement.
    Ping,
    /// Padding.
    Padding(u8),
    /// Acknowledges up to so far below (or beyond) the newest packet, with gaps and lengths.
    AckRanges {
        /// The largest number, below the newest that was seen; negative ones were never sent.
        below: i8,
        /// In microseconds; with the highest bit the counts of ECN follow.
        delay: u32,
        /// Gap and length of each further range.
        ranges: Vec<(u8, u8)>,
    },
    /// The same as a bitmap.
    AckBitmap {
        /// See above.
        below: i8,
        /// One bit per number.
        map: Vec<u8>,
    },
    /// The end.
    Close,
    /// Credit for all.
    MaxData(u64),
    /// Credit for a lane.
    MaxLaneData(u8, u64),
    /// A question about the path.
    PathChallenge(u64),
    /// An answer to one, which was perhaps never asked.
    PathResponse(u64),
    /// Messages nobody need wait for.
    Forget(u8, u64),
    /// A piece of a message.
    Chunk {
        /// The lane.
        lane: u8,
        /// The message.
        seq: u16,
        /// Its length.
        message_bytes: u16,
        /// The length of each chunk.
        chunk_bytes: u16,
        /// Which one.
        index: u8,
    },
    /// What claims to stand in for a piece of a message.
    Repair {
        /// The lane.
        lane: u8,
        /// The message.
        seq: u16,
        /// Its chunks.
        count: u8,
        /// The length of each chunk and of this symbol.
        chunk_bytes: u16,
        /// By how much the last one is shorter.
        padding: u8,
        /// Which one.
        index: u8,
    },
    /// A message number that is far away.
    FarChunk(u8, u64),
    /// Any bytes.
    Bytes(Vec<u8>),
}

impl FrameOp {
    /// Appends the frame; `newest` is the newest packet number seen from the victim.
    pub fn encode(&self, newest: u64, out: &mut Vec<u8>) {
        match self {
            Self::Ping => Frame::Ping.encode(out),
            Self::Padding(len) => out.extend(std::iter::repeat_n(0, usize::from(*len))),
            Self::AckRanges { below, delay, ranges } => {
                let counts = delay & DELAY_WITH_COUNTS != 0;
                out.push(if counts { ACK_RANGES + WITH_COUNTS } else { ACK_RANGES });
                put_varint(out, newest.saturating_add_signed(-i64::from(*below)) & VARINT_MASK);
                put_varint(out, u64::from(*delay));
                put_varint(out, ranges.len() as u64);
                put_varint(out, 0);
                for (gap, len) in ranges {
                    put_varint(out, u64::from(*gap));
                    put_varint(out, u64::from(*len));
                }
                if counts {
                    // Few packets as ECT(0), and any number of marks.
                    put_varint(out, u64::from(delay & 0xff));
                    put_varint(out, u64::from(delay >> 8 & 0x3));
                    put_varint(
                        out,
                        u64::from(*delay).wrapping_mul(1 << (delay >> 10 & 0x1f)) & VARINT_MASK,
                    );
                }
            }
            Self::AckBitmap { below, map } => {
                out.push(ACK_BITMAP);
                put_varint(out, newest.saturating_add_signed(-i64::from(*below)) & VARINT_MASK);
                put_varint(out, 0);
                put_varint(out, map.len() as u64);
                out.extend_from_slice(map);
            }
            Self::Close => Frame::Close { reason: "bye" }.encode(out),
            Self::MaxData(bytes) => Frame::MaxData { bytes: bytes & VARINT_MASK }.encode(out),
            Self::MaxLaneData(lane, bytes) => {
                Frame::MaxLaneData { lane: lane_of(*lane), bytes: bytes & VARINT_MASK }.encode(out);
            }
            Self::PathChallenge(token) => Frame::PathChallenge(*token).encode(out),
            Self::PathResponse(token) => Frame::PathResponse(*token).encode(out),
            Self::Forget(lane, below) => {
                Frame::Forget { lane: lane_of(*lane), below: below & VARINT_MASK }.encode(out);
            }
            Self::Chunk { lane, seq, message_bytes, chunk_bytes, index } => {
                chunk(*lane, (*seq).into(), *message_bytes, *chunk_bytes, *index).encode(out);
            }
            Self::Repair { lane, seq, count, chunk_bytes, padding, index } => {
                let chunk_bytes = usize::from((*chunk_bytes).max(MIN_CHUNK_BYTES));
                let message_bytes = usize::from(*count) * chunk_bytes;
                let message_bytes = message_bytes.saturating_sub(usize::from(*padding));
                let shape = Shape { message_bytes, chunk_bytes };
                let (lane, seq) = (lane_of(*lane), u64::from(*seq));
                let data = &CONTENT[..chunk_bytes];
                Frame::Repair(RepairFrame { lane, seq, shape, index: usize::from(*index), data })
                    .encode(out);
            }
            Self::FarChunk(lane, seq) => chunk(*lane, seq & VARINT_MASK, 1, 1, 0).encode(out),
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
        }
    }
}

/// The lane with this index, counted around.
pub(crate) fn lane_of(index: u8) -> LaneId {
    let lane = LaneId::all().nth(usize::from(index) % LaneId::COUNT);
    lane.expect("the index is in range")
}

fn chunk(lane: u8, seq: u64, message_bytes: u16, chunk_bytes: u16, index: u8) -> Frame<'static> {
    let message_bytes = usize::from(message_bytes).max(1);
    let chunk_bytes = usize::from(chunk_bytes.max(MIN_CHUNK_BYTES)).min(message_bytes);
    let index = usize::from(index) % message_bytes.div_ceil(chunk_bytes);
    let len = chunk_bytes.min(message_bytes - index * chunk_bytes);
    let data = &CONTENT[..len];
    Frame::Chunk(ChunkFrame { lane: lane_of(lane), seq, message_bytes, chunk_bytes, index, data })
}
