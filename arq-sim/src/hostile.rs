// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What can somebody make of packets who knows the format: copies, damaged ones, and forgeries whose
//! integrity tag is right?

use arq_proto::{
    wire::{
        checksum::{append_checksum, CHECKSUM_BYTES},
        cursor::Reader,
        frame::Frame,
        packet::{DataHeader, PacketKind},
    },
    ConnectionId,
};
use fastrand::Rng;

use crate::wire::flip_bits;

/// Of a HANDSHAKE packet before the frames that everybody can read: kind, both ids, version, attempt.
const HANDSHAKE_FRONT_BYTES: usize = 1 + 8 + 8 + 4 + 1;
/// The longest datagram of random bytes.
const MAX_NOISE_BYTES: usize = 2_000;

/// What a data packet tells everybody who sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// The connection, as its receiver named it.
    pub dcid: ConnectionId,
    /// The truncated packet number.
    pub number: u32,
}

/// Reads the header of a data packet; `None` for anything else.
#[must_use]
pub fn sight(datagram: &[u8]) -> Option<Sighting> {
    let kind = PacketKind::of(*datagram.first()?).ok()?;
    if !matches!(kind, PacketKind::Data { .. }) {
        return None;
    }
    let header = DataHeader::decode(&mut Reader::new(datagram)).ok()?;
    Some(Sighting { dcid: header.dcid, number: header.number })
}

/// Shows the frames of a data packet, as far as they can be read; none of anything else.
pub fn each_frame(datagram: &[u8], mut see: impl FnMut(&DataHeader<'_>, Frame<'_>)) {
    if sight(datagram).is_none() {
        return;
    }
    let mut frames = Reader::new(&datagram[..datagram.len().saturating_sub(CHECKSUM_BYTES)]);
    let Ok(header) = DataHeader::decode(&mut frames) else { return };
    while let Ok(Some(frame)) = Frame::decode(&mut frames) {
        see(&header, frame);
    }
}

/// A data packet with these frames and a valid tag.
#[must_use]
pub fn data_packet(at: Sighting, span: u64, ack_now: bool, frames: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(frames.len() + DataHeader::MAX_BYTES + CHECKSUM_BYTES);
    DataHeader { dcid: at.dcid, ack_now, number: at.number, span, cookie: None }.encode(&mut out);
    out.extend_from_slice(frames);
    append_checksum(&mut out, 0);
    out
}

/// Appends a valid tag to any bytes.
#[must_use]
pub fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    append_checksum(&mut out, 0);
    out
}

/// Replaces the tag of a changed datagram by a valid one.
#[must_use]
pub fn resealed(datagram: &[u8]) -> Vec<u8> {
    sealed(&datagram[..datagram.len().saturating_sub(CHECKSUM_BYTES)])
}

/// The same for a packet of any kind, that of a HANDSHAKE being in front of its sealed part; `None` where there is no tag
/// that everybody can compute.
#[must_use]
pub fn rechecked(datagram: &[u8]) -> Option<Vec<u8>> {
    match PacketKind::of(*datagram.first()?).ok()? {
        PacketKind::Sealed => None,
        PacketKind::Handshake => {
            let mut reader = Reader::new(datagram);
            reader.bytes(HANDSHAKE_FRONT_BYTES, "front").ok()?;
            reader.prefixed("clear").ok()?;
            let (front, rest) = datagram.split_at(datagram.len() - reader.remaining());
            Some([&sealed(front)[..], rest.get(CHECKSUM_BYTES..)?].concat())
        }
        _ => Some(resealed(datagram)),
    }
}

/// Random bytes, every other time with the first byte of a packet.
#[must_use]
pub fn noise(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; rng.usize(..MAX_NOISE_BYTES)];
    rng.fill(&mut bytes);
    if let Some(first) = bytes.first_mut() {
        if rng.bool() {
            *first = 0xa0 | (*first & 0x0f);
        }
    }
    bytes
}

/// A copy with one fault: flipped bits, cut short, made longer, or nothing of it (a replay).
#[must_use]
pub fn mangled(datagram: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = datagram.to_vec();
    match rng.u8(..4) {
        0 => {}
        1 => flip_bits(&mut bytes, rng),
        2 => bytes.truncate(rng.usize(..=bytes.len())),
        _ => {
            let mut tail = vec![0; rng.usize(1..100)];
            rng.fill(&mut tail);
            bytes.extend(tail);
        }
    }
    bytes
}
