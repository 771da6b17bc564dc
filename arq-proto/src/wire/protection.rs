// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The seam for packet protection: every packet is sealed and opened here and nowhere else.
//!
//! Today the tag is a checksum, CRC-32C (RFC 3720 §B.4), which makes damaged packets count as lost
//! where UDP's own 16 bits are weak or switched off. It keeps out accidents, not attackers. An AEAD
//! takes its place without a change elsewhere: the packet number is a nonce that is never reused,
//! the header is associated data, and the size arithmetic asks for [`TAG_BYTES`].

use super::cursor::DecodeError;
use crate::units::PacketNumber;

/// Bytes that a tag adds to each packet.
pub const TAG_BYTES: usize = 4;

/// Appends the tag of the packet that starts at `start`.
pub fn seal(_number: PacketNumber, out: &mut Vec<u8>, start: usize) {
    let tag = crc32c::crc32c(&out[start..]);
    out.extend_from_slice(&tag.to_be_bytes());
}

/// Checks a datagram and returns it without its tag.
pub fn open(_number: PacketNumber, datagram: &[u8]) -> Result<&[u8], DecodeError> {
    let (packet, tag) =
        datagram.split_last_chunk::<TAG_BYTES>().ok_or(DecodeError::Truncated("tag"))?;
    if crc32c::crc32c(packet) == u32::from_be_bytes(*tag) {
        Ok(packet)
    } else {
        Err(DecodeError::Integrity)
    }
}
