// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The seam for packet protection: every packet is sealed and opened here and nowhere else.
//!
//! A numbered packet is sealed by the [`Sealer`] of its association and opened by the [`Opener`] of the other side: there
//! is one of each for each direction, and sizes are asked of them. Packets without a number belong to no association
//! yet, or no longer: they carry a checksum in any case.
//!
//! Today the tag is that checksum for all, CRC-32C (RFC 3720 §B.4), which makes damaged packets count as lost
//! where UDP's own 16 bits are weak or switched off. It keeps out accidents, not attackers. An AEAD
//! takes its place without a change elsewhere: the packet number is a nonce that is never reused, the header
//! is associated data, and packets are opened where they lie.

use super::cursor::DecodeError;
use crate::units::PacketNumber;

/// Bytes of the checksum.
pub const CHECKSUM_BYTES: usize = 4;
/// Bytes of the longest tag that there will be: of AES-GCM and ChaCha20-Poly1305 (RFC 5116 §5.1, RFC 8439 §2.8).
pub const MAX_TAG_BYTES: usize = 16;

/// A packet number was not above all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberUsed;

/// Seals what one side of an association sends.
#[derive(Debug, Default)]
pub struct Sealer {
    /// The least number that was not used.
    unused: PacketNumber,
}

impl Sealer {
    /// Bytes that a tag adds to each packet.
    #[must_use]
    pub const fn tag_bytes(&self) -> usize {
        CHECKSUM_BYTES
    }

    /// Appends the tag of the packet that starts at `start` and has a header of `_header_len` bytes.
    ///
    /// # Errors
    /// The number is not above all before it: under an AEAD, to seal with it would give the key away.
    pub fn seal(
        &mut self,
        number: PacketNumber,
        out: &mut Vec<u8>,
        start: usize,
        _header_len: usize,
    ) -> Result<(), NumberUsed> {
        if number < self.unused {
            return Err(NumberUsed);
        }
        self.unused = number.next();
        append_checksum(out, start);
        Ok(())
    }
}

/// Opens what the other side of an association sends.
#[derive(Debug, Default)]
pub struct Opener;

impl Opener {
    /// Checks a packet that has a header of `header_len` bytes and returns its frames.
    ///
    /// # Errors
    /// Its tag does not match.
    pub fn open<'a>(
        &self,
        _number: PacketNumber,
        packet: &'a mut [u8],
        header_len: usize,
    ) -> Result<&'a [u8], DecodeError> {
        let packet = verify_checksum(packet)?;
        packet.get(header_len..).ok_or(DecodeError::Truncated("tag"))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    // ARQ-SEC-1, ARQ-SEC-2
    #[test]
    fn no_number_is_used_twice_in_any_build() {
        let mut sealer = Sealer::default();
        let mut seal = |number| sealer.seal(PacketNumber(number), &mut vec![0; 20], 0, 14);
        assert_eq!([0, 1, 5].map(&mut seal), [Ok(()); 3]);
        assert_eq!([5, 4, 0].map(&mut seal), [Err(NumberUsed); 3]);
        assert_eq!(seal(6), Ok(()), "what was refused changes nothing");
    }

    #[test]
    fn a_header_that_reaches_into_the_tag_is_no_packet() {
        let mut packet = vec![7; 20];
        Sealer::default().seal(PacketNumber(0), &mut packet, 0, 14).unwrap();
        assert_eq!(Opener.open(PacketNumber(0), &mut packet, 14), Ok(&[7; 6][..]));
        assert_eq!(Opener.open(PacketNumber(0), &mut packet, 20), Ok(&[][..]));
        assert!(Opener.open(PacketNumber(0), &mut packet, 21).is_err());
    }
}
