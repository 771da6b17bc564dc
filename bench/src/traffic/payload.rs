// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What is in each message, and how does the receiver tell that nothing of it was damaged?
//!
//! A stamp, then bytes of a random pool that both sides make from the seed. Where in the pool a message begins follows
//! from its stamp, so checking is one comparison, and a message with the body of another is found out.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// The bytes of a stamp: number and intended departure.
pub(crate) const STAMP_BYTES: usize = 16;
/// Beginnings of bodies.
const BEGINNINGS: usize = 4096;

/// Number and intended departure of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) sequence: u64,
    pub(crate) intended_ns: u64,
}

/// All payloads of a flow.
pub(crate) struct Payloads {
    pool: Vec<u8>,
    body_bytes: usize,
}

/// A payload that is not as it was sent.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    #[error("{found} bytes came instead of {expected}")]
    Length { found: usize, expected: usize },
    #[error("the content of message {0} is not what was sent")]
    Content(u64),
}

impl Payloads {
    /// The payloads of flow number `flow`, each of `bytes` (at least a stamp's).
    pub(crate) fn new(seed: u64, flow: usize, bytes: usize) -> Self {
        let body_bytes = bytes.saturating_sub(STAMP_BYTES);
        let mut pool = vec![0; body_bytes + BEGINNINGS];
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(flow as u64);
        random.fill_bytes(&mut pool);
        Self { pool, body_bytes }
    }

    /// The bytes of each.
    pub(crate) fn bytes(&self) -> usize {
        STAMP_BYTES + self.body_bytes
    }

    /// A message.
    pub(crate) fn make(&self, stamp: Stamp) -> Vec<u8> {
        let mut payload = Vec::with_capacity(self.bytes());
        payload.extend_from_slice(&stamp.sequence.to_be_bytes());
        payload.extend_from_slice(&stamp.intended_ns.to_be_bytes());
        payload.extend_from_slice(self.body(stamp));
        payload
    }

    /// Reads the stamp of a message that came in these pieces, and checks every byte of it.
    pub(crate) fn check<'a>(
        &self,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Stamp, Damage> {
        let mut head = [0; STAMP_BYTES];
        let mut at = 0;
        let mut stamp = None;
        let mut is_intact = true;
        for mut piece in pieces {
            if at < STAMP_BYTES {
                let (stamped, rest) = piece.split_at(piece.len().min(STAMP_BYTES - at));
                head[at..at + stamped.len()].copy_from_slice(stamped);
                at += stamped.len();
                piece = rest;
            }
            if at >= STAMP_BYTES {
                let stamp = *stamp.get_or_insert_with(|| Stamp::read(head));
                let from = at - STAMP_BYTES;
                is_intact &= self.body(stamp).get(from..from + piece.len()) == Some(piece);
                at += piece.len();
            }
        }
        let expected = self.bytes();
        match stamp {
            Some(stamp) if at == expected && is_intact => Ok(stamp),
            Some(stamp) if at == expected => Err(Damage::Content(stamp.sequence)),
            _ => Err(Damage::Length { found: at, expected }),
        }
    }

    fn body(&self, stamp: Stamp) -> &[u8] {
        // A multiplicative hash: a wrong bit anywhere in the stamp moves the beginning.
        let mixed = (stamp.sequence ^ stamp.intended_ns.rotate_left(32))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let from = (mixed >> 52) as usize % BEGINNINGS;
        &self.pool[from..from + self.body_bytes]
    }
}

impl Stamp {
    fn read(bytes: [u8; STAMP_BYTES]) -> Self {
        let whole = u128::from_be_bytes(bytes);
        Self { sequence: (whole >> 64) as u64, intended_ns: whole as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { sequence: 3, intended_ns: u64::MAX - 1 };

    fn check(payloads: &Payloads, message: &[u8], piece: usize) -> Result<Stamp, Damage> {
        payloads.check(message.chunks(piece))
    }

    #[test]
    fn what_is_sent_passes_however_it_is_cut() {
        let payloads = Payloads::new(1, 0, 300);
        let message = payloads.make(STAMP);
        assert_eq!(message.len(), 300);
        for piece in [1, 7, 16, 17, 300] {
            assert_eq!(check(&payloads, &message, piece), Ok(STAMP), "pieces of {piece}");
        }
        let smallest = Payloads::new(1, 0, STAMP_BYTES);
        assert_eq!(check(&smallest, &smallest.make(STAMP), 5), Ok(STAMP));
    }

    #[test]
    fn every_wrong_byte_is_found() {
        let payloads = Payloads::new(1, 0, 100);
        let message = payloads.make(STAMP);
        for at in 0..message.len() {
            let mut damaged = message.clone();
            damaged[at] ^= 0x10;
            assert!(
                matches!(check(&payloads, &damaged, 100), Err(Damage::Content(_))),
                "byte {at}"
            );
        }
        let short = Damage::Length { found: 99, expected: 100 };
        assert_eq!(check(&payloads, &message[..99], 99), Err(short));
        let long = [message.as_slice(), &[0]].concat();
        assert_eq!(check(&payloads, &long, 50), Err(Damage::Length { found: 101, expected: 100 }));
        assert_eq!(check(&payloads, &[], 1), Err(Damage::Length { found: 0, expected: 100 }));
    }

    #[test]
    fn flows_and_seeds_have_their_own_content() {
        let message = Payloads::new(1, 0, 100).make(STAMP);
        assert!(check(&Payloads::new(1, 1, 100), &message, 100).is_err());
        assert!(check(&Payloads::new(2, 0, 100), &message, 100).is_err());
        assert_eq!(check(&Payloads::new(1, 0, 100), &message, 100), Ok(STAMP));
    }
}
