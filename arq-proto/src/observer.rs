// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does a connection do, packet by packet? It tells an [`Observer`], if it has one: for logs such as qlog, not for
//! what is always on, which [`Stats`] is for.

use std::{fmt, time::Instant};

use crate::{
    ecn::EcnCounts,
    error::ConnectionError,
    sent::LossCause,
    stats::Stats,
    units::{LaneId, MessageSeq, PathNumber},
    wire::{
        ack::Ack,
        cursor::Reader,
        frame::{ChunkFrame, Frame as WireFrame, RepairFrame},
    },
};

/// Is told what happens in a connection, within the call that makes it happen: it must not take long.
pub trait Observer: fmt::Debug + Send {
    /// A packet leaves.
    fn packet_sent(&mut self, at: Instant, packet: &Packet<'_>);
    /// A packet has arrived that is authentic and new.
    fn packet_received(&mut self, at: Instant, packet: &Packet<'_>);
    /// A packet is declared lost. It may still turn out to have arrived.
    fn packet_lost(&mut self, at: Instant, lost: &LostPacket);
    /// The fate of some packets has become known, and with it how the connection stands.
    fn stats_updated(&mut self, at: Instant, stats: &Stats);
    /// The connection has ended, or begins to tell the peer so.
    fn closed(&mut self, at: Instant, reason: &ConnectionError);
}

/// A numbered packet.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Packet<'a> {
    /// Its number, in full.
    pub number: u64,
    /// UDP payload, in bytes.
    pub bytes: usize,
    frames: Reader<'a>,
}

impl<'a> Packet<'a> {
    pub(crate) fn new(number: u64, bytes: usize, frames: &'a [u8]) -> Self {
        Self { number, bytes, frames: Reader::new(frames) }
    }

    /// Its frames, up to the first that is malformed.
    pub fn frames(&self) -> impl Iterator<Item = Frame<'a>> {
        let mut rest = self.frames;
        std::iter::from_fn(move || WireFrame::decode(&mut rest).ok().flatten()).map(Frame::from)
    }
}

/// A packet that is declared lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostPacket {
    /// Its number.
    pub number: u64,
    /// UDP payload, in bytes.
    pub bytes: usize,
    /// No ACK has come for a probe time-out; otherwise later packets were acknowledged.
    pub by_time_out: bool,
}

impl LostPacket {
    pub(crate) fn new(number: u64, bytes: u16, cause: LossCause) -> Self {
        Self { number, bytes: bytes.into(), by_time_out: cause == LossCause::Timeout }
    }
}

/// A frame, without the bytes of messages. `docs/protocol.md` §4 says what each is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Frame<'a> {
    /// All padding in a row.
    Padding,
    /// Asks for an acknowledgement.
    Ping,
    /// What has arrived.
    Ack {
        /// Microseconds since the arrival of the largest number.
        delay_us: u64,
        /// First and last number of each range, the highest range first.
        ranges: Vec<(u64, u64)>,
        /// With which codepoints of ECN packets have arrived, if any has one.
        ecn: Option<EcnCounts>,
    },
    /// The connection ends.
    Close {
        /// Why, for people.
        reason: &'a str,
    },
    /// Credit for all reliable lanes together, in bytes since the start.
    MaxData(u64),
    /// Credit for a lane, in bytes since the start.
    MaxLaneData(LaneId, u64),
    /// Asks the owner of an address to answer from there.
    PathChallenge(u64),
    /// The answer.
    PathResponse(u64),
    /// What arrived of packets that took another path.
    PathAck {
        /// The path that they took.
        path: PathNumber,
        /// Microseconds since the arrival of the largest number.
        delay_us: u64,
        /// First and last number of each range, the highest range first.
        ranges: Vec<(u64, u64)>,
        /// With which codepoints of ECN packets have arrived, if any has one.
        ecn: Option<EcnCounts>,
    },
    /// What a path is to be used for.
    PathState {
        /// The path.
        path: PathNumber,
        /// Of two, the larger one holds.
        sequence: u64,
        /// `available`, `backup` or `paused`.
        wish: &'static str,
    },
    /// Messages of a lane below this one will not come any more.
    Forget(LaneId, MessageSeq),
    /// When the messages of a lane that follow were handed to their sender: milliseconds, the low 24 bits.
    Timestamp(LaneId, u32),
    /// A message, or a chunk of it.
    Chunk(Piece),
    /// A repair symbol of a message.
    Repair(Piece),
}

/// A chunk or a repair symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Piece {
    /// The lane.
    pub lane: LaneId,
    /// The message in the lane.
    pub message: MessageSeq,
    /// Length of the whole message, in bytes.
    pub message_bytes: usize,
    /// Which chunk, or which repair symbol.
    pub index: usize,
    /// Chunks of the message.
    pub chunks: usize,
    /// Length of the piece, in bytes.
    pub bytes: usize,
}

impl From<ChunkFrame<'_>> for Piece {
    fn from(chunk: ChunkFrame<'_>) -> Self {
        Self {
            lane: chunk.lane,
            message: chunk.seq,
            message_bytes: chunk.message_bytes,
            index: chunk.index,
            chunks: chunk.shape().chunk_count(),
            bytes: chunk.data.len(),
        }
    }
}

impl From<RepairFrame<'_>> for Piece {
    fn from(repair: RepairFrame<'_>) -> Self {
        Self {
            lane: repair.lane,
            message: repair.seq,
            message_bytes: repair.shape.message_bytes,
            index: repair.index,
            chunks: repair.shape.chunk_count(),
            bytes: repair.data.len(),
        }
    }
}

impl<'a> From<WireFrame<'a>> for Frame<'a> {
    fn from(frame: WireFrame<'a>) -> Self {
        match frame {
            WireFrame::Padding => Self::Padding,
            WireFrame::Ping => Self::Ping,
            WireFrame::Ack(ack) => {
                let Ack { delay_us, ranges, ecn } = ack;
                Self::Ack { delay_us, ranges: ranges.into_vec(), ecn }
            }
            WireFrame::Close { reason } => Self::Close { reason },
            WireFrame::MaxData { bytes } => Self::MaxData(bytes),
            WireFrame::MaxLaneData { lane, bytes } => Self::MaxLaneData(lane, bytes),
            WireFrame::PathChallenge(token) => Self::PathChallenge(token),
            WireFrame::PathResponse(token) => Self::PathResponse(token),
            WireFrame::PathAck { path, ack } => {
                let Ack { delay_us, ranges, ecn } = ack;
                Self::PathAck { path, delay_us, ranges: ranges.into_vec(), ecn }
            }
            WireFrame::PathState { path, sequence, wish } => {
                Self::PathState { path, sequence, wish: wish.name() }
            }
            WireFrame::Forget { lane, below } => Self::Forget(lane, below),
            WireFrame::Timestamp { lane, ms } => Self::Timestamp(lane, ms),
            WireFrame::Chunk(chunk) => Self::Chunk(chunk.into()),
            WireFrame::Repair(repair) => Self::Repair(repair.into()),
        }
    }
}
