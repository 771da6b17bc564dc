// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The frames inside a packet.

use super::{
    ack::Ack,
    cursor::{put_varint, varint_len, DecodeError, Reader, MAX_VARINT_BYTES},
    MAX_CHUNKS, MAX_MESSAGE_BYTES, MAX_REPAIR_SYMBOLS, MIN_CHUNK_BYTES,
};
use crate::units::{LaneId, MessageSeq, PathNumber};

const PADDING: u8 = 0x00;
const PING: u8 = 0x01;
const CLOSE: u8 = 0x04;
const MAX_DATA: u8 = 0x05;
const PATH_CHALLENGE: u8 = 0x06;
const PATH_RESPONSE: u8 = 0x07;
const PATH_STATE: u8 = 0x0c;
/// The six below carry the lane in their low four bits.
const MESSAGE: u8 = 0x10;
const CHUNK: u8 = 0x20;
const REPAIR: u8 = 0x30;
const MAX_LANE_DATA: u8 = 0x40;
const FORGET: u8 = 0x50;
const TIMESTAMP: u8 = 0x60;

/// Bytes of a time in [`Frame::Timestamp`]: it comes round after four and a half hours.
const TIME_BYTES: usize = 3;

/// The longest reason of a close, in bytes of UTF-8.
pub const MAX_REASON_BYTES: usize = 200;

/// One frame. `Padding` stands for all padding in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Nothing.
    Padding,
    /// Asks for an acknowledgement.
    Ping,
    /// What has arrived.
    Ack(Ack),
    /// The connection ends.
    Close {
        /// Why, for people.
        reason: &'a str,
    },
    /// Credit for all reliable lanes together.
    MaxData {
        /// Bytes since the start that may be sent.
        bytes: u64,
    },
    /// Credit for one reliable lane.
    MaxLaneData {
        /// The lane.
        lane: LaneId,
        /// Bytes since the start that may be sent.
        bytes: u64,
    },
    /// Asks the owner of an address to answer from there.
    PathChallenge(u64),
    /// The answer to [`Frame::PathChallenge`].
    PathResponse(u64),
    /// Best-effort messages that nobody need wait for.
    Forget {
        /// The lane.
        lane: LaneId,
        /// Every message with a lower number is settled.
        below: MessageSeq,
    },
    /// An acknowledgement of packets that took another path.
    PathAck {
        /// The path that they took.
        path: PathNumber,
        /// Which of them arrived.
        ack: Ack,
    },
    /// What the sender of this wishes a path to be used for.
    PathState {
        /// The path.
        path: PathNumber,
        /// Of two wishes the one with the larger number holds.
        sequence: u64,
        /// The wish.
        wish: PathUse,
    },
    /// When the messages of a lane that follow in this packet were handed to their sender.
    Timestamp {
        /// The lane.
        lane: LaneId,
        /// Milliseconds by the sender's clock, the low 24 bits.
        ms: u32,
    },
    /// A message, or one chunk of it.
    Chunk(ChunkFrame<'a>),
    /// A sum of all chunks of a message that stands in for any of them.
    Repair(RepairFrame<'a>),
}

/// What a side wishes a path to be used for. The wish is of who receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathUse {
    /// For everything.
    #[default]
    Available,
    /// For when no other path answers.
    Backup,
    /// As a backup, and of messages only those of the priorities 0 to 2.
    Urgent,
    /// As a backup, and of messages only those of priority 0.
    Control,
    /// For nothing: what is sent there does not arrive.
    Paused,
}

impl PathUse {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Backup => "backup",
            Self::Urgent => "urgent",
            Self::Control => "control",
            Self::Paused => "paused",
        }
    }

    /// Whether other paths that answer come first.
    pub(crate) const fn is_backup(self) -> bool {
        matches!(self, Self::Backup | Self::Urgent | Self::Control)
    }

    const fn to_wire(self) -> u8 {
        match self {
            Self::Available => 0,
            Self::Backup => 1,
            Self::Urgent => 2,
            Self::Paused => 3,
            Self::Control => 4,
        }
    }

    /// An unknown wish is one that a later version knows: none.
    const fn from_wire(byte: u8) -> Self {
        match byte {
            1 => Self::Backup,
            2 => Self::Urgent,
            3 => Self::Paused,
            4 => Self::Control,
            _ => Self::Available,
        }
    }
}

/// The shape of a message that travels in chunks, as every frame of it tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Length of the whole message, in bytes, `1..=MAX_MESSAGE_BYTES`.
    pub message_bytes: usize,
    /// Size of every chunk but the last, in bytes.
    pub chunk_bytes: usize,
}

impl Shape {
    /// Chunks of the message.
    #[must_use]
    pub const fn chunk_count(&self) -> usize {
        self.message_bytes.div_ceil(self.chunk_bytes)
    }

    /// Whether repair symbols can stand in for its chunks: there are two or more, so nearly equal
    /// that a receiver needs hardly more memory for the symbols than for the message.
    #[must_use]
    pub const fn is_codable(&self) -> bool {
        let padding = self.chunk_count() * self.chunk_bytes - self.message_bytes;
        self.chunk_count() > 1 && padding < MIN_CHUNK_BYTES as usize
    }
}

/// A repair symbol: see [`crate::fec`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairFrame<'a> {
    /// The lane.
    pub lane: LaneId,
    /// The message within the lane.
    pub seq: MessageSeq,
    /// The message's shape.
    pub shape: Shape,
    /// Which symbol, `0..MAX_REPAIR_SYMBOLS`.
    pub index: usize,
    /// The symbol, as long as the first chunk.
    pub data: &'a [u8],
}

impl RepairFrame<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(REPAIR | self.lane.to_wire());
        put_varint(out, self.seq);
        put_varint(out, self.shape.message_bytes as u64);
        put_varint(out, self.shape.chunk_bytes as u64);
        put_varint(out, self.index as u64);
        out.extend_from_slice(self.data);
    }
}

/// A piece of a message: all chunks of one message have the same size, the last may be shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkFrame<'a> {
    /// The lane.
    pub lane: LaneId,
    /// The message within the lane.
    pub seq: MessageSeq,
    /// Length of the whole message, in bytes, `1..=MAX_MESSAGE_BYTES`.
    pub message_bytes: usize,
    /// Size of every chunk but the last, in bytes.
    pub chunk_bytes: usize,
    /// Which chunk, `0..chunk_count`.
    pub index: usize,
    /// The bytes of the chunk.
    pub data: &'a [u8],
}

impl ChunkFrame<'_> {
    /// The message's shape.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        Shape { message_bytes: self.message_bytes, chunk_bytes: self.chunk_bytes }
    }

    /// Whether this is the whole message, which then needs no chunk size nor index.
    fn is_whole(&self) -> bool {
        self.data.len() == self.message_bytes
    }

    /// Bytes beside the data, at most: kind, number of the message, its length, size and index of the chunk.
    pub const MAX_OVERHEAD: usize = 1 + MAX_VARINT_BYTES + 4 + 4 + 2;

    /// Bytes that the frame takes in a packet beside its data.
    #[must_use]
    pub fn overhead(
        seq: MessageSeq,
        message_bytes: usize,
        chunk_bytes: usize,
        index: usize,
    ) -> usize {
        let shape = 1 + varint_len(seq) + varint_len(message_bytes as u64);
        if chunk_bytes >= message_bytes {
            shape
        } else {
            shape + varint_len(chunk_bytes as u64) + varint_len(index as u64)
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let kind = if self.is_whole() { MESSAGE } else { CHUNK };
        out.push(kind | self.lane.to_wire());
        put_varint(out, self.seq);
        put_varint(out, self.message_bytes as u64);
        if !self.is_whole() {
            put_varint(out, self.chunk_bytes as u64);
            put_varint(out, self.index as u64);
        }
        out.extend_from_slice(self.data);
    }
}

impl<'a> Frame<'a> {
    /// Whether the peer must acknowledge a packet with this frame.
    #[must_use]
    pub const fn is_ack_eliciting(&self) -> bool {
        !matches!(
            self,
            Self::Padding | Self::Ack(_) | Self::PathAck { .. } | Self::Timestamp { .. }
        )
    }

    /// Bytes of a [`Timestamp`](Self::Timestamp).
    pub const TIMESTAMP_BYTES: usize = 1 + TIME_BYTES;

    /// Bytes of the longest frame but those with a text, an acknowledgement or a piece of a message.
    pub const MAX_CONTROL_BYTES: usize = 1 + MAX_VARINT_BYTES;

    /// Bytes of the longest [`PathState`](Self::PathState).
    pub const MAX_PATH_STATE_BYTES: usize = 1 + 1 + MAX_VARINT_BYTES + 1;

    /// Appends the frame. A connection writes its acknowledgements with [`Ack::encode`], straight from the set of
    /// received packets: here each of their numbers is looked at.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Padding => out.push(PADDING),
            Self::Ping => out.push(PING),
            Self::Ack(ack) => {
                Ack::encode(
                    &ack.received(),
                    ack.delay_us,
                    ack.ecn.unwrap_or_default(),
                    usize::MAX,
                    out,
                );
            }
            Self::PathAck { path, ack } => {
                let ecn = ack.ecn.unwrap_or_default();
                Ack::encode_of_path(*path, &ack.received(), ack.delay_us, ecn, usize::MAX, out);
            }
            Self::PathState { path, sequence, wish } => {
                out.push(PATH_STATE);
                out.push(path.0);
                put_varint(out, *sequence);
                out.push(wish.to_wire());
            }
            Self::Close { reason } => {
                out.push(CLOSE);
                put_varint(out, reason.len() as u64);
                out.extend_from_slice(reason.as_bytes());
            }
            Self::MaxData { bytes } => {
                out.push(MAX_DATA);
                put_varint(out, *bytes);
            }
            Self::MaxLaneData { lane, bytes } => {
                out.push(MAX_LANE_DATA | lane.to_wire());
                put_varint(out, *bytes);
            }
            Self::PathChallenge(token) => {
                out.push(PATH_CHALLENGE);
                out.extend_from_slice(&token.to_be_bytes());
            }
            Self::PathResponse(token) => {
                out.push(PATH_RESPONSE);
                out.extend_from_slice(&token.to_be_bytes());
            }
            Self::Forget { lane, below } => {
                out.push(FORGET | lane.to_wire());
                put_varint(out, *below);
            }
            Self::Timestamp { lane, ms } => {
                out.push(TIMESTAMP | lane.to_wire());
                out.extend_from_slice(&ms.to_be_bytes()[4 - TIME_BYTES..]);
            }
            Self::Chunk(chunk) => chunk.encode(out),
            Self::Repair(repair) => repair.encode(out),
        }
    }

    /// Reads the next frame; `None` at the end of the packet.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Option<Self>, DecodeError> {
        if reader.is_empty() {
            return Ok(None);
        }
        let kind = reader.u8("frame.kind")?;
        let lane = LaneId::from_wire(kind);
        let frame = match kind {
            PADDING => {
                while reader.clone().u8("padding") == Ok(PADDING) {
                    reader.u8("padding")?;
                }
                Self::Padding
            }
            PING => Self::Ping,
            _ if Ack::is_kind(kind) => Self::Ack(Ack::decode(kind, reader)?),
            _ if Ack::is_path_kind(kind) => {
                let path = decode_path(reader)?;
                Self::PathAck { path, ack: Ack::decode(kind, reader)? }
            }
            PATH_STATE => Self::PathState {
                path: decode_path(reader)?,
                sequence: reader.varint("path_state.sequence")?,
                wish: PathUse::from_wire(reader.u8("path_state.wish")?),
            },
            CLOSE => Self::Close { reason: decode_reason(reader)? },
            MAX_DATA => Self::MaxData { bytes: reader.varint("max_data")? },
            PATH_CHALLENGE => Self::PathChallenge(reader.u64("path_challenge")?),
            PATH_RESPONSE => Self::PathResponse(reader.u64("path_response")?),
            _ => match kind & 0xf0 {
                MESSAGE => Self::Chunk(decode_message(lane, reader)?),
                CHUNK => Self::Chunk(decode_chunk(lane, reader)?),
                REPAIR => Self::Repair(decode_repair(lane, reader)?),
                MAX_LANE_DATA => Self::MaxLaneData { lane, bytes: reader.varint("max_lane_data")? },
                FORGET => Self::Forget { lane, below: reader.varint("forget.below")? },
                TIMESTAMP => {
                    let time = reader.bytes(TIME_BYTES, "timestamp.time")?;
                    let ms = time.iter().fold(0, |ms, byte| ms << 8 | u32::from(*byte));
                    Self::Timestamp { lane, ms }
                }
                _ => return Err(DecodeError::Invalid("frame.kind")),
            },
        };
        Ok(Some(frame))
    }
}

fn decode_path(reader: &mut Reader<'_>) -> Result<PathNumber, DecodeError> {
    let number = reader.u8("path.number")?;
    match usize::from(number) < PathNumber::COUNT {
        true => Ok(PathNumber(number)),
        false => Err(DecodeError::Invalid("path.number")),
    }
}

fn decode_reason<'a>(reader: &mut Reader<'a>) -> Result<&'a str, DecodeError> {
    let reason = reader.prefixed("close.reason")?;
    if reason.len() > MAX_REASON_BYTES {
        return Err(DecodeError::Invalid("close.reason"));
    }
    std::str::from_utf8(reason).map_err(|_| DecodeError::Invalid("close.reason"))
}

fn decode_message_bytes(reader: &mut Reader<'_>) -> Result<usize, DecodeError> {
    match reader.varint_max(MAX_MESSAGE_BYTES as u64, "message.length")? {
        0 => Err(DecodeError::Invalid("message.length")),
        len => Ok(len as usize),
    }
}

fn decode_message<'a>(
    lane: LaneId,
    reader: &mut Reader<'a>,
) -> Result<ChunkFrame<'a>, DecodeError> {
    let seq = reader.varint("message.seq")?;
    let message_bytes = decode_message_bytes(reader)?;
    let data = reader.bytes(message_bytes, "message.data")?;
    Ok(ChunkFrame { lane, seq, message_bytes, chunk_bytes: message_bytes, index: 0, data })
}

/// The shape of a message in two or more chunks.
fn decode_shape(reader: &mut Reader<'_>) -> Result<Shape, DecodeError> {
    let message_bytes = decode_message_bytes(reader)?;
    let chunk_bytes = reader.varint_max(message_bytes as u64 - 1, "chunk.size")? as usize;
    if chunk_bytes < usize::from(MIN_CHUNK_BYTES) {
        return Err(DecodeError::Invalid("chunk.size"));
    }
    let shape = Shape { message_bytes, chunk_bytes };
    debug_assert!(shape.chunk_count() <= MAX_CHUNKS, "the smallest chunk size bounds the count");
    Ok(shape)
}

fn decode_repair<'a>(
    lane: LaneId,
    reader: &mut Reader<'a>,
) -> Result<RepairFrame<'a>, DecodeError> {
    let seq = reader.varint("repair.seq")?;
    let shape = decode_shape(reader)?;
    if !shape.is_codable() {
        return Err(DecodeError::Invalid("repair.size"));
    }
    let index = reader.varint_max(MAX_REPAIR_SYMBOLS as u64 - 1, "repair.index")? as usize;
    let data = reader.bytes(shape.chunk_bytes, "repair.data")?;
    Ok(RepairFrame { lane, seq, shape, index, data })
}

fn decode_chunk<'a>(lane: LaneId, reader: &mut Reader<'a>) -> Result<ChunkFrame<'a>, DecodeError> {
    let seq = reader.varint("chunk.seq")?;
    let shape = decode_shape(reader)?;
    let Shape { message_bytes, chunk_bytes } = shape;
    let count = shape.chunk_count();
    let index = reader.varint_max(count as u64 - 1, "chunk.index")? as usize;
    let len = chunk_bytes.min(message_bytes - index * chunk_bytes);
    let data = reader.bytes(len, "chunk.data")?;
    Ok(ChunkFrame { lane, seq, message_bytes, chunk_bytes, index, data })
}

#[cfg(test)]
mod tests;
