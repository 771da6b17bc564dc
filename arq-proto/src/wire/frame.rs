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
            Self::Paused => "paused",
        }
    }

    const fn to_wire(self) -> u8 {
        match self {
            Self::Available => 0,
            Self::Backup => 1,
            Self::Paused => 3,
        }
    }

    /// An unknown wish is one that a later version knows: none.
    const fn from_wire(byte: u8) -> Self {
        match byte {
            1 => Self::Backup,
            3 => Self::Paused,
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
mod tests {
    use proptest::prelude::*;
    use smallvec::smallvec;

    use super::*;
    use crate::ecn::EcnCounts;

    fn lanes() -> impl Strategy<Value = LaneId> {
        (0_u8..16).prop_map(LaneId::from_wire)
    }

    static PAYLOAD: [u8; MAX_MESSAGE_BYTES] = [0xa5; MAX_MESSAGE_BYTES];

    fn chunks() -> impl Strategy<Value = Frame<'static>> {
        (
            lanes(),
            0_u64..1 << 40,
            1..=MAX_MESSAGE_BYTES,
            512_usize..9_000,
            any::<prop::sample::Index>(),
        )
            .prop_map(|(lane, seq, message_bytes, chunk_bytes, index)| {
                let chunk_bytes = chunk_bytes.min(message_bytes);
                let index = index.index(message_bytes.div_ceil(chunk_bytes));
                let len = chunk_bytes.min(message_bytes - index * chunk_bytes);
                let data = &PAYLOAD[..len];
                Frame::Chunk(ChunkFrame { lane, seq, message_bytes, chunk_bytes, index, data })
            })
    }

    fn whole() -> impl Strategy<Value = Frame<'static>> {
        (lanes(), 0_u64..1 << 40, 1..=MAX_MESSAGE_BYTES).prop_map(|(lane, seq, len)| {
            let data = &PAYLOAD[..len];
            let (message_bytes, chunk_bytes) = (len, len);
            Frame::Chunk(ChunkFrame { lane, seq, message_bytes, chunk_bytes, index: 0, data })
        })
    }

    fn of_paths() -> impl Strategy<Value = Frame<'static>> {
        let wish = prop::sample::select(&[PathUse::Available, PathUse::Backup, PathUse::Paused]);
        (0..PathNumber::COUNT as u8, 0_u64..1 << 62, wish, any::<bool>()).prop_map(
            |(path, sequence, wish, acks)| {
                let path = PathNumber(path);
                let ack = Ack { delay_us: sequence, ranges: smallvec![(0, 3)], ecn: None };
                match acks {
                    true => Frame::PathAck { path, ack },
                    false => Frame::PathState { path, sequence, wish },
                }
            },
        )
    }

    fn repairs() -> impl Strategy<Value = Frame<'static>> {
        (lanes(), 0_u64..1 << 40, 2..=MAX_CHUNKS, 512_usize..9_000, 0..MAX_REPAIR_SYMBOLS).prop_map(
            |(lane, seq, count, chunk_bytes, index)| {
                let count = count.min(MAX_MESSAGE_BYTES / chunk_bytes).max(2);
                let shape = Shape { message_bytes: count * chunk_bytes - 1, chunk_bytes };
                let data = &PAYLOAD[..chunk_bytes];
                Frame::Repair(RepairFrame { lane, seq, shape, index, data })
            },
        )
    }

    fn frames() -> impl Strategy<Value = Frame<'static>> {
        let value = 0_u64..1 << 62;
        prop_oneof![
            Just(Frame::Ping),
            Just(Frame::Close { reason: "bye – später" }),
            (Just(None), 1_u64..1 << 62).prop_map(|(none, ce)| {
                let ecn =
                    if ce % 2 == 0 { none } else { Some(EcnCounts { ce, ..EcnCounts::NONE }) };
                Frame::Ack(Ack { delay_us: 9, ranges: smallvec![(20, 30), (7, 9), (0, 3)], ecn })
            }),
            value.clone().prop_map(|bytes| Frame::MaxData { bytes }),
            (lanes(), value.clone()).prop_map(|(lane, bytes)| Frame::MaxLaneData { lane, bytes }),
            (lanes(), value).prop_map(|(lane, below)| Frame::Forget { lane, below }),
            (lanes(), 0_u32..1 << 24).prop_map(|(lane, ms)| Frame::Timestamp { lane, ms }),
            any::<u64>().prop_map(Frame::PathChallenge),
            any::<u64>().prop_map(Frame::PathResponse),
            chunks(),
            whole(),
            repairs(),
            of_paths(),
        ]
    }

    // ARQ-ERR-3
    #[test]
    fn the_limits_of_fields_are_kept() {
        let last = PathNumber::COUNT as u8 - 1;
        let longest = vec![b'x'; MAX_REASON_BYTES];
        let reason = |text: &[u8]| {
            let mut bytes = vec![CLOSE];
            put_varint(&mut bytes, text.len() as u64);
            bytes.extend_from_slice(text);
            bytes
        };
        let chunk = |chunk_bytes, index| {
            let (lane, data) = (LaneId::from_wire(0), &PAYLOAD[..chunk_bytes]);
            let message_bytes = 2 * chunk_bytes;
            let frame = ChunkFrame { lane, seq: 0, message_bytes, chunk_bytes, index, data };
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            bytes
        };
        for (allowed, beyond, field) in [
            (vec![PATH_STATE, last, 0, 0], vec![PATH_STATE, last + 1, 0, 0], "path.number"),
            (reason(&longest), reason(&[&longest[..], b"x"].concat()), "close.reason"),
            (chunk(512, 1), chunk(511, 1), "chunk.size"),
            (chunk(600, 1), chunk(600, 2), "chunk.index"),
        ] {
            assert!(Frame::decode(&mut Reader::new(&allowed)).is_ok(), "{field}");
            let refused = Frame::decode(&mut Reader::new(&beyond));
            assert_eq!(refused, Err(DecodeError::Invalid(field)));
        }
    }

    // ARQ-FRM-2
    #[test]
    fn padding_ends_where_another_frame_begins() {
        let mut reader = Reader::new(&[PADDING, PADDING, PADDING, PING]);
        for frame in [Some(Frame::Padding), Some(Frame::Ping), None] {
            assert_eq!(Frame::decode(&mut reader), Ok(frame));
        }
    }

    // ARQ-ACK-1
    #[test]
    fn what_only_tells_needs_no_acknowledgement() {
        let ack = Ack { delay_us: 0, ranges: smallvec![(0, 1)], ecn: None };
        let path = PathNumber(1);
        for (frame, elicits) in [
            (Frame::Padding, false),
            (Frame::Ack(ack.clone()), false),
            (Frame::PathAck { path, ack }, false),
            (Frame::Timestamp { lane: LaneId::from_wire(0), ms: 0 }, false),
            (Frame::Ping, true),
            (Frame::MaxData { bytes: 0 }, true),
            (Frame::PathState { path, sequence: 0, wish: PathUse::Backup }, true),
        ] {
            assert_eq!(frame.is_ack_eliciting(), elicits, "{frame:?}");
        }
    }

    proptest! {
        // ARQ-FRM-2
        #[test]
        fn frames_round_trip(frames in prop::collection::vec(frames(), 1..6)) {
            let mut out = Vec::new();
            for frame in &frames {
                let before = out.len();
                frame.encode(&mut out);
                if let Frame::Chunk(c) = frame {
                    let overhead = ChunkFrame::overhead(c.seq, c.message_bytes, c.chunk_bytes, c.index);
                    prop_assert_eq!(out.len() - before, overhead + c.data.len());
                }
                if let Frame::Repair(r) = frame {
                    // A repair symbol takes no more room than a chunk of its message.
                    let shape = r.shape;
                    let overhead = ChunkFrame::overhead(
                        r.seq, shape.message_bytes, shape.chunk_bytes, r.index,
                    );
                    prop_assert_eq!(out.len() - before, overhead + r.data.len());
                }
            }
            let mut reader = Reader::new(&out);
            for frame in frames {
                prop_assert_eq!(Frame::decode(&mut reader), Ok(Some(frame)));
            }
            prop_assert_eq!(Frame::decode(&mut reader), Ok(None));
        }

        // ARQ-FEC-3
        #[test]
        fn a_repair_symbol_that_cannot_be_used_is_malformed(padding in 512_usize..600) {
            let shape = Shape { message_bytes: 2_000 - padding, chunk_bytes: 1_000 };
            let lane = LaneId::from_wire(0);
            let data = &PAYLOAD[..1_000];
            for (shape, index, field) in [
                (shape, 0, "repair.size"),
                (Shape { message_bytes: 2_000, ..shape }, MAX_REPAIR_SYMBOLS, "repair.index"),
                (Shape { message_bytes: 1_000, ..shape }, 0, "chunk.size"),
            ] {
                let mut out = Vec::new();
                Frame::Repair(RepairFrame { lane, seq: 0, shape, index, data }).encode(&mut out);
                let decoded = Frame::decode(&mut Reader::new(&out));
                prop_assert_eq!(decoded, Err(DecodeError::Invalid(field)));
            }
        }

        // ARQ-ERR-3
        #[test]
        fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = Reader::new(&bytes);
            let mut steps = 0;
            while let Ok(Some(_)) = Frame::decode(&mut reader) {
                steps += 1;
                prop_assert!(steps <= bytes.len());
            }
        }
    }
}
