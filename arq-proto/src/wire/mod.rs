// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How bytes become values and values bytes: `docs/protocol.md` §3 to §5 in code.
//!
//! Decoding is fallible and never allocates more than the input justifies; encoding is infallible;
//! each is the other's inverse (property tests in [`frame`], [`ack`] and [`packet`]).

pub mod ack;
pub mod checksum;
pub mod cursor;
pub mod flight;
pub mod frame;
pub mod packet;
pub mod params;
pub mod protection;

pub use cursor::DecodeError;

use crate::session::Protection;

/// The versions that this crate speaks: one format with two protections of packets. A side offers and takes the one that
/// its [`Protection`] says, and no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Packets have a checksum.
    Clear,
    /// Packets are sealed.
    Sealed,
}

impl From<&Protection> for Version {
    fn from(protection: &Protection) -> Self {
        match protection {
            Protection::Clear => Self::Clear,
            Protection::Sealed(_) => Self::Sealed,
        }
    }
}

impl Version {
    /// Its number in HELLO, CHALLENGE and REFUSE. A change of any byte on the wire changes it and `docs/protocol.md` in
    /// the same commit.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Clear => 0x61_72_71_01,
            Self::Sealed => 0x61_72_71_02,
        }
    }
}

/// Whether to handle this datagram may take a step of a cryptographic handshake, a signature or a key exchange, which other
/// connections should not have to wait for.
#[must_use]
pub fn is_handshake(datagram: &[u8]) -> bool {
    let kind = datagram.first().map(|first| packet::PacketKind::of(*first));
    matches!(kind, Some(Ok(packet::PacketKind::Hello | packet::PacketKind::Handshake)))
}

/// The version in which packets have a checksum.
pub const VERSION: u32 = Version::Clear.number();

/// The longest message, in bytes: what fits the `u16` of a zenoh batch.
pub const MAX_MESSAGE_BYTES: usize = 65_535;

/// The smallest chunk size, in bytes. With it the longest message has [`MAX_CHUNKS`] chunks.
pub const MIN_CHUNK_BYTES: u16 = 512;

/// Chunks of a message: one bit each in a `u128`, and within what a GF(256) block code covers.
pub const MAX_CHUNKS: usize = 128;

/// Repair symbols of a message: indices `0..128`.
pub const MAX_REPAIR_SYMBOLS: usize = 128;

/// The datagram size that every path must carry (RFC 8899 §5.1.2, `BASE_PLPMTU`).
pub const BASE_MTU: u16 = 1_200;

/// The smallest datagram that the link works with: the smallest chunk and every header.
pub const MIN_MTU: u16 = 576;

/// The smallest receive credit: three quarters of it cover the longest message with its overhead, so that no message
/// waits for credit that is not announced (ARQ-FLW-4).
pub const MIN_WINDOW_BYTES: u64 = 128 << 10;

/// The least HELLO: as long as the longest CHALLENGE of this crate, which has a cookie of 34 bytes and parameters whose
/// values are all at their longest.
pub const LEAST_HELLO_BYTES: u16 = 168;

/// Messages of a lane that may be open at once, from the one that the receiver waits for.
pub const LANE_MESSAGE_WINDOW: u64 = 1_024;
