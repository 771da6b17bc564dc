// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What is in a message, and is it the one that was sent?
//!
//! A message of [`DESCRIBED_BYTES`] or more describes itself: who sent it, on which lane, as which
//! one, how long it is, when it was meant to be sent, and a checksum over all of it. A shorter one
//! has only room for a pattern made of its lane, number and length, which the receiver of a
//! reliable lane can recompute, because it knows which message comes next.

use std::time::Duration;

use arq_proto::LaneId;
use bytes::Bytes;
use thiserror::Error;

/// The shortest message that describes itself.
pub const DESCRIBED_BYTES: usize = 2 + 1 + 4 + 4 + 8 + 4;

/// What a message says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// The sending application.
    pub tag: u16,
    /// The lane, as [`LaneId::index`].
    pub lane: u8,
    /// The number of the message in its lane.
    pub seq: u32,
    /// When the application wanted it sent, since the start of the world.
    pub intended_at: Duration,
}

/// Why a received message is not one that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PayloadError {
    /// The length it names is not its length.
    #[error("the message of {actual} bytes says that it has {named}")]
    Length {
        /// What it says.
        named: usize,
        /// What it has.
        actual: usize,
    },
    /// The checksum does not match.
    #[error("the message of {0} bytes is damaged")]
    Damaged(usize),
}

/// Builds a message of `len` bytes.
#[must_use]
pub fn build(description: Description, len: usize) -> Bytes {
    if len < DESCRIBED_BYTES {
        return Bytes::from(short(description.lane, description.seq, len));
    }
    let mut out = Vec::with_capacity(len);
    out.extend_from_slice(&description.tag.to_le_bytes());
    out.push(description.lane);
    out.extend_from_slice(&description.seq.to_le_bytes());
    out.extend_from_slice(&(len as u32).to_le_bytes());
    out.extend_from_slice(&(description.intended_at.as_nanos() as u64).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    fill(&mut out, len, mix(description.lane, description.seq, len));
    let sum = checksum(&out);
    out[DESCRIBED_BYTES - 4..DESCRIBED_BYTES].copy_from_slice(&sum.to_le_bytes());
    Bytes::from(out)
}

/// Reads the description of a message that has one: `None` when it is too short for that.
///
/// # Errors
/// The message is not as it was built.
pub fn describe(message: &[u8]) -> Result<Option<Description>, PayloadError> {
    let Some((head, _)) = message.split_first_chunk::<DESCRIBED_BYTES>() else {
        return Ok(None);
    };
    let [t0, t1, lane, s0, s1, s2, s3, l0, l1, l2, l3, at @ .., _, _, _, _] = *head;
    let named = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if named != message.len() {
        return Err(PayloadError::Length { named, actual: message.len() });
    }
    if message[DESCRIBED_BYTES - 4..DESCRIBED_BYTES] != checksum(message).to_le_bytes() {
        return Err(PayloadError::Damaged(named));
    }
    Ok(Some(Description {
        tag: u16::from_le_bytes([t0, t1]),
        lane,
        seq: u32::from_le_bytes([s0, s1, s2, s3]),
        intended_at: Duration::from_nanos(u64::from_le_bytes(at)),
    }))
}

/// Whether `message`, too short for a description, is number `seq` of `lane`.
#[must_use]
pub fn is_short_message(message: &[u8], lane: LaneId, seq: u32) -> bool {
    message == short(lane.index() as u8, seq, message.len())
}

fn short(lane: u8, seq: u32, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len);
    fill(&mut out, len, mix(lane, seq, len));
    out
}

/// Over everything but the checksum itself.
fn checksum(message: &[u8]) -> u32 {
    let head = crc32c::crc32c(&message[..DESCRIBED_BYTES - 4]);
    crc32c::crc32c_append(head, &message[DESCRIBED_BYTES..])
}

/// Extends `out` to `len` bytes with a pattern that differs for each `state`.
fn fill(out: &mut Vec<u8>, len: usize, mut state: u64) {
    while out.len() < len {
        // xorshift64* (Vigna 2016): cheap, and no two messages look alike.
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let word = state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
        out.extend_from_slice(&word[..word.len().min(len - out.len())]);
    }
}

fn mix(lane: u8, seq: u32, len: usize) -> u64 {
    let value = (u64::from(lane) << 56) ^ (u64::from(seq) << 20) ^ len as u64;
    value.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

#[cfg(test)]
mod tests {
    use arq_proto::Reliability;

    use super::*;

    const DESCRIPTION: Description =
        Description { tag: 7, lane: 2, seq: 99, intended_at: Duration::from_micros(1_234) };

    #[test]
    fn a_message_describes_itself() {
        for len in [DESCRIBED_BYTES, DESCRIBED_BYTES + 1, 1_000, 65_535] {
            let message = build(DESCRIPTION, len);
            assert_eq!(message.len(), len);
            assert_eq!(describe(&message), Ok(Some(DESCRIPTION)));
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let message = build(DESCRIPTION, 64);
        for bit in 0..message.len() * 8 {
            let mut damaged = message.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(describe(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_short_message_is_told_from_its_neighbours() {
        let lane = LaneId::new(1, Reliability::Reliable).unwrap();
        let message = build(DESCRIPTION, 9);
        assert_eq!(describe(&message), Ok(None));
        assert!(is_short_message(&message, lane, 99));
        assert!(!is_short_message(&message, lane, 98));
        assert!(!is_short_message(&message[..8], lane, 99));
    }
}
