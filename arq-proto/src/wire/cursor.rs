// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A checked reader over received bytes, and the integers of variable length (RFC 9000 §16).

use thiserror::Error;

/// Why bytes are not what they should be: the field, and what is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The datagram ends before or inside the field.
    #[error("{0}: truncated")]
    Truncated(&'static str),
    /// The field holds a value outside its range.
    #[error("{0}: invalid value")]
    Invalid(&'static str),
    /// The integrity tag does not fit the bytes.
    #[error("integrity check failed")]
    Integrity,
}

/// Reads values from the front of a byte slice.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether everything has been read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes that are left.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize, field: &'static str) -> Result<&'a [u8], DecodeError> {
        if len > self.rest.len() {
            return Err(DecodeError::Truncated(field));
        }
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(DecodeError::Truncated(field));
        };
        self.rest = rest;
        Ok(*taken)
    }

    /// One byte.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(field)?[0])
    }

    /// A big-endian `u16`.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array(field)?))
    }

    /// A big-endian `u32`.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array(field)?))
    }

    /// A big-endian `u64`.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.array(field)?))
    }

    /// An integer of variable length, below 2^62.
    pub fn varint(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        let first = self.rest.first().ok_or(DecodeError::Truncated(field))?;
        let len = 1_usize << (first >> 6);
        let raw = self.bytes(len, field)?;
        let value = raw[1..]
            .iter()
            .fold(u64::from(raw[0] & 0x3f), |value, byte| value << 8 | u64::from(*byte));
        Ok(value)
    }

    /// An integer of variable length that must not exceed `max`.
    pub fn varint_max(&mut self, max: u64, field: &'static str) -> Result<u64, DecodeError> {
        match self.varint(field)? {
            value if value <= max => Ok(value),
            _ => Err(DecodeError::Invalid(field)),
        }
    }

    /// Bytes behind a length of variable size.
    pub fn prefixed(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let len = self.varint(field)?;
        self.bytes(usize::try_from(len).unwrap_or(usize::MAX), field)
    }
}

/// Appends an integer of variable length. Values are below 2^62 by construction everywhere.
pub fn put_varint(out: &mut Vec<u8>, value: u64) {
    debug_assert!(value < 1 << 62, "varints hold 62 bits");
    match varint_len(value) {
        1 => out.push(value as u8),
        2 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        4 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Bytes of the longest integer.
pub const MAX_VARINT_BYTES: usize = 8;

/// Bytes that [`put_varint`] appends.
#[must_use]
pub const fn varint_len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // ARQ-ENC-2
    #[test]
    fn examples_of_rfc_9000_appendix_a1() {
        for (bytes, value) in [
            (&[0x25][..], 37),
            (&[0x40, 0x25], 37),
            (&[0x7b, 0xbd], 15_293),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
        ] {
            assert_eq!(Reader::new(bytes).varint("x"), Ok(value));
        }
    }

    proptest! {
        // ARQ-ENC-2
        #[test]
        fn varints_round_trip(value in (0_u32..62).prop_flat_map(|bits| 0_u64..(1 << bits).max(1))) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_len(value));
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.varint("x"), Ok(value));
            prop_assert!(reader.is_empty());
            prop_assert_eq!(
                Reader::new(&out[..out.len() - 1]).varint("x"),
                Err(DecodeError::Truncated("x"))
            );
        }
    }
}
