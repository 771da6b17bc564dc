// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The checksum of all packets that are not sealed, and the code of those before there are keys.
//!
//! It is CRC-32C (RFC 3720 §B.4), which makes damaged packets count as lost where UDP's own 16 bits are weak or switched
//! off. It keeps out accidents, not attackers.

use super::cursor::DecodeError;
use crate::session::{Security, KNOCK_BYTES};

/// Bytes of the checksum.
pub const CHECKSUM_BYTES: usize = 4;

/// Appends the checksum of the packet that starts at `start`.
pub fn append_checksum(out: &mut Vec<u8>, start: usize) {
    let tag = crc32c::crc32c(&out[start..]);
    out.extend_from_slice(&tag.to_be_bytes());
}

/// Checks a packet that ends with a checksum and returns it without.
///
/// # Errors
/// It does not match.
pub fn verify_checksum(packet: &[u8]) -> Result<&[u8], DecodeError> {
    let (packet, tag) =
        packet.split_last_chunk::<CHECKSUM_BYTES>().ok_or(DecodeError::Truncated("tag"))?;
    if crc32c::crc32c(packet) == u32::from_be_bytes(*tag) {
        Ok(packet)
    } else {
        Err(DecodeError::Integrity)
    }
}

/// Appends the knock, if there is a knock key, and the checksum of the packet from `start` on.
pub fn finish(out: &mut Vec<u8>, start: usize, security: Option<&dyn Security>) {
    if let Some(code) = security.and_then(|security| security.knock(&out[start..])) {
        out.extend_from_slice(&code);
    }
    append_checksum(out, start);
}

/// Whether the knock of a packet (checksum included) is right, or there is no knock key.
#[must_use]
pub fn has_knocked(packet: &[u8], security: &dyn Security) -> bool {
    let Some((packet, code)) = packet
        .get(..packet.len().saturating_sub(CHECKSUM_BYTES))
        .and_then(|packet| packet.split_last_chunk::<KNOCK_BYTES>())
    else {
        return security.knock(&[]).is_none();
    };
    security.is_knock(packet, code)
}
