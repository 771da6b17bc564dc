// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What fuzzers do with their bytes: one function per target, which panics when a rule is broken.
//! The tests replay the committed corpus through the same functions.

mod frames;
mod keyed;
mod operations;
mod paths;
mod secured;
mod victim;

use arq_proto::{
    fec,
    recv::reassembly::Reassembly,
    wire::{
        cursor::Reader,
        flight::{HandshakeFrame, HandshakeHeader, SealedChallenge, Terms},
        frame::{ChunkFrame, Frame, RepairFrame},
        packet::{peek_connection_id, Challenge, DataHeader, Hello, PacketKind, Refuse, Reset},
        params::Params,
        MAX_CHUNKS, MAX_REPAIR_SYMBOLS,
    },
    LaneId,
};
pub use frames::FrameOp;
pub use keyed::{secured_client, secured_server};
pub use operations::{hostile_peer, hostile_server, Operation};
pub use paths::{hostile_paths, path_id};
pub use secured::secured;
pub use victim::{SentClose, Victim};

use crate::hostile::sealed;

/// Bytes into every decoder, as they are and with a valid tag. What decodes must survive being
/// encoded and decoded again.
///
/// # Panics
/// A rule is broken.
pub fn packet_decode(data: &[u8]) {
    decode_packet(data);
    decode_packet(&sealed(data));
    decode_frames(data);
    if let Ok(params) = Params::decode(data) {
        let mut out = Vec::new();
        params.encode(&mut out);
        assert_eq!(Params::decode(&out), Ok(params));
    }
}

/// The packets of a cryptographic handshake, and their frames.
fn decode_handshake(datagram: &[u8]) {
    let mut out = Vec::new();
    if let Ok(challenge) = SealedChallenge::decode(datagram) {
        challenge.encode(None, &mut out);
        assert_eq!(SealedChallenge::decode(&out), Ok(challenge));
    }
    out.clear();
    if let Ok((header, sealed_at)) = HandshakeHeader::decode(datagram) {
        header.encode(&mut out);
        assert_eq!(HandshakeHeader::decode(&out), Ok((header, out.len())));
        decode_handshake_frames(Reader::new(header.clear));
        decode_handshake_frames(Reader::new(&datagram[sealed_at..]));
    }
    if let Ok((_, frames)) = Hello::decode_with(datagram) {
        decode_handshake_frames(frames);
    }
    decode_handshake_frames(Reader::new(datagram));
    if let Ok(terms) = Terms::decode(datagram) {
        assert_eq!(Terms::decode(&terms.encoded()), Ok(terms));
    }
}

fn decode_handshake_frames(mut reader: Reader<'_>) {
    while let Ok(Some(frame)) = HandshakeFrame::decode(&mut reader) {
        let mut out = Vec::new();
        frame.encode(&mut out);
        assert_eq!(HandshakeFrame::decode(&mut Reader::new(&out)), Ok(Some(frame)));
    }
}

fn decode_packet(datagram: &[u8]) {
    decode_handshake(datagram);
    let _ = peek_connection_id(datagram);
    if let Some(first) = datagram.first() {
        let _ = PacketKind::of(*first);
    }
    let mut out = Vec::new();
    if let Ok(hello) = Hello::decode(datagram) {
        hello.encode(&mut out);
        assert_eq!(Hello::decode(&out), Ok(hello));
    }
    out.clear();
    if let Ok(challenge) = Challenge::decode(datagram) {
        challenge.encode(&mut out);
        assert_eq!(Challenge::decode(&out), Ok(challenge));
    }
    out.clear();
    if let Ok(refuse) = Refuse::decode(datagram) {
        refuse.encode(&mut out);
        assert_eq!(Refuse::decode(&out), Ok(refuse));
    }
    out.clear();
    if let Ok(reset) = Reset::decode(datagram) {
        reset.encode(&mut out);
        assert_eq!(Reset::decode(&out), Ok(reset));
    }
    out.clear();
    let mut reader = Reader::new(datagram);
    if let Ok(header) = DataHeader::decode(&mut reader) {
        header.encode(&mut out);
        assert_eq!(DataHeader::decode(&mut Reader::new(&out)), Ok(header));
        decode_frames(&datagram[datagram.len() - reader.remaining()..]);
    }
}

fn decode_frames(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let before = reader.remaining();
        let Ok(Some(frame)) = Frame::decode(&mut reader) else { return };
        assert!(reader.remaining() < before, "a frame of no bytes: {frame:?}");
        // Acknowledgements may name far more numbers than it is sensible to list again.
        if !matches!(frame, Frame::Ack(_) | Frame::PathAck { .. }) {
            let mut out = Vec::new();
            frame.encode(&mut out);
            assert_eq!(Frame::decode(&mut Reader::new(&out)), Ok(Some(frame)));
        }
    }
}

/// Chunks and repair symbols in any order, doubled, and some of another shape: is the message right
/// in the end?
///
/// The first four bytes give the message's length and chunk size; every further byte is a chunk, or,
/// after a byte of 0xe0 to 0xef, a repair symbol.
///
/// # Panics
/// A rule is broken.
pub fn reassembly(data: &[u8]) {
    let Some(([l0, l1, c0, c1], picks)) = data.split_first_chunk::<4>() else { return };
    let len = usize::from(u16::from_le_bytes([*l0, *l1])).max(1);
    let chunk_bytes = usize::from(u16::from_le_bytes([*c0, *c1])).clamp(512, 65_535).min(len);
    let message: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
    let shape = piece(&message, chunk_bytes, 0).shape();
    let count = shape.chunk_count();
    let mut reassembly = Reassembly::new(shape);
    let mut seen = std::collections::BTreeSet::new();
    let mut picks = picks.iter().copied();
    while let Some(pick) = picks.next() {
        if pick >= 0xf0 && len > 1 {
            // A liar: the same message with another length.
            let other = piece(&message[..len - 1], chunk_bytes.min(len - 1), 0);
            assert!(reassembly.insert(&other).is_err(), "a chunk of another shape was taken");
        }
        let complete = seen.len() >= count;
        let repair = (0xe0..0xf0).contains(&pick) && shape.is_codable();
        let (symbol, new) = if repair {
            let index = usize::from(picks.next().unwrap_or(0)) % MAX_REPAIR_SYMBOLS;
            let mut data = Vec::new();
            fec::encode(&message, chunk_bytes, index, &mut data);
            let repair = RepairFrame { lane: first_lane(), seq: 0, shape, index, data: &data };
            (MAX_CHUNKS + index, reassembly.insert_repair(&repair))
        } else {
            let index = usize::from(pick) % count;
            (index, reassembly.insert(&piece(&message, chunk_bytes, index)))
        };
        assert_eq!(new, Ok(!complete && seen.insert(symbol)));
        assert_eq!(reassembly.is_complete(), seen.len() >= count);
    }
    if reassembly.is_complete() {
        assert_eq!(reassembly.into_message(), message);
    }
}

fn first_lane() -> LaneId {
    LaneId::all().next().expect("there are lanes")
}

fn piece(message: &[u8], chunk_bytes: usize, index: usize) -> ChunkFrame<'_> {
    let start = index * chunk_bytes;
    ChunkFrame {
        lane: first_lane(),
        seq: 0,
        message_bytes: message.len(),
        chunk_bytes,
        index,
        data: &message[start..message.len().min(start + chunk_bytes)],
    }
}
