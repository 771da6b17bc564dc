// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The seam for packet protection: every numbered packet is sealed and opened by the [`PacketProtection`] of its
//! association and nowhere else. Whether that is a checksum or an AEAD only this module knows.

mod sealed;

use std::time::{Duration, Instant};

pub use sealed::{echo_of, Sealed, HEADER_BYTES as SEALED_HEADER_BYTES};

use super::{
    checksum::{append_checksum, verify_checksum, CHECKSUM_BYTES},
    cursor::{DecodeError, Reader},
    packet::{peek_connection_id, Cookie, DataHeader, PacketKind},
};
use crate::{
    session::TAG_BYTES,
    units::{ConnectionId, PacketNumber, PathNumber},
};

/// Bytes of the longest tag.
pub const MAX_TAG_BYTES: usize = TAG_BYTES;

/// Why a packet cannot be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealError {
    /// Its number is not above all before it: under an AEAD, to seal with it would give the key away.
    NumberUsed,
    /// There are no keys, or these have sealed as many packets as they may.
    KeyUsedUp,
}

/// What an authentic packet says.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    /// Its number.
    pub number: PacketNumber,
    /// The receiver shall not wait with its acknowledgement.
    pub ack_now: bool,
    /// How far below this packet the oldest one lies that the sender still wants to hear of.
    pub span: u64,
    /// Its frames.
    pub frames: &'a [u8],
}

/// Seals what one side of an association sends, and opens what the other does.
#[derive(Debug, Default)]
pub struct PacketProtection {
    /// The least number that was not used, of each path.
    unused: [PacketNumber; PathNumber::COUNT],
    method: Method,
}

#[derive(Debug, Default)]
enum Method {
    #[default]
    Clear,
    /// Packets will be sealed: the handshake has not come to keys yet.
    Keyless,
    Sealed(Box<Sealed>),
}

impl PacketProtection {
    /// Of an association whose keys are still to come.
    #[must_use]
    pub fn keyless() -> Self {
        Self { method: Method::Keyless, ..Self::default() }
    }

    /// With keys.
    #[must_use]
    pub fn sealed(sealed: Sealed) -> Self {
        Self { method: Method::Sealed(Box::new(sealed)), ..Self::default() }
    }

    /// Whether packets are sealed, or will be.
    #[must_use]
    pub const fn is_sealed(&self) -> bool {
        !matches!(self.method, Method::Clear)
    }

    /// Bytes that a tag adds to each packet.
    #[must_use]
    pub const fn tag_bytes(&self) -> usize {
        match self.method {
            Method::Clear => CHECKSUM_BYTES,
            Method::Keyless | Method::Sealed(_) => TAG_BYTES,
        }
    }

    /// Packets that did not open, though they named the association.
    #[must_use]
    pub fn forged(&self) -> u64 {
        self.keys().map_or(0, Sealed::forged)
    }

    /// Times that the keys changed.
    #[must_use]
    pub fn key_updates(&self) -> u64 {
        self.keys().map_or(0, Sealed::updates)
    }

    /// Whether the keys must open no more.
    #[must_use]
    pub fn is_worn_out(&self) -> bool {
        self.keys().is_some_and(Sealed::is_worn_out)
    }

    fn keys(&self) -> Option<&Sealed> {
        match &self.method {
            Method::Sealed(sealed) => Some(sealed),
            Method::Clear | Method::Keyless => None,
        }
    }

    /// Changes the keys if it is time, before a packet is begun. `largest_acked` of this side's packets on `path` is what
    /// the peer has acknowledged; it answers within `pto`.
    pub fn update_if_due(
        &mut self,
        now: Instant,
        path: PathNumber,
        largest_acked: Option<PacketNumber>,
        pto: impl FnOnce() -> Duration,
    ) {
        if let Method::Sealed(sealed) = &mut self.method {
            sealed.update_if_due(now, path, largest_acked, pto());
        }
    }

    /// Appends the header of a packet. Frames follow, then [`seal`](Self::seal).
    pub fn write_header(
        &self,
        dcid: ConnectionId,
        number: PacketNumber,
        span: u64,
        cookie: Option<Cookie<'_>>,
        out: &mut Vec<u8>,
    ) {
        match &self.method {
            Method::Sealed(sealed) => sealed.write_header(dcid, number, span, out),
            Method::Clear | Method::Keyless => {
                let number = number.truncate();
                DataHeader { dcid, ack_now: false, number, span, cookie }.encode(out);
            }
        }
    }

    /// Asks for an immediate acknowledgement in a packet that is not sealed yet.
    pub fn set_ack_now(&self, packet: &mut [u8]) {
        match self.method {
            Method::Sealed(_) => Sealed::set_ack_now(packet),
            Method::Clear | Method::Keyless => DataHeader::set_ack_now(packet),
        }
    }

    /// Seals the packet that starts at `start` and appends its tag.
    ///
    /// # Errors
    /// See [`SealError`]: the association must end.
    pub fn seal(
        &mut self,
        path: PathNumber,
        number: PacketNumber,
        out: &mut Vec<u8>,
        start: usize,
    ) -> Result<(), SealError> {
        let unused = &mut self.unused[path.index()];
        if number < *unused {
            return Err(SealError::NumberUsed);
        }
        match &mut self.method {
            Method::Clear => append_checksum(out, start),
            Method::Keyless => return Err(SealError::KeyUsedUp),
            Method::Sealed(sealed) => sealed.seal(path, number, out, start)?,
        }
        *unused = number.next();
        Ok(())
    }

    /// Opens a packet of `path` for `dcid` where it lies; `expand` restores its number.
    ///
    /// # Errors
    /// It is for somebody else, or its tag does not match. Nothing but counts has changed.
    pub fn open<'a>(
        &mut self,
        now: Instant,
        pto: impl FnOnce() -> Duration,
        (path, dcid): (PathNumber, ConnectionId),
        packet: &'a mut [u8],
        expand: impl FnOnce(u32) -> Option<PacketNumber>,
    ) -> Result<Opened<'a>, DecodeError> {
        let first = packet.first().copied().unwrap_or_default();
        match (&mut self.method, PacketKind::of(first)?) {
            (Method::Clear, PacketKind::Data { .. }) => open_clear(dcid, packet, expand),
            (Method::Sealed(sealed), PacketKind::Sealed) => {
                if peek_connection_id(packet) != Some(dcid) {
                    return Err(DecodeError::Invalid("data.dcid"));
                }
                sealed.open(now, pto(), path, packet, expand)
            }
            _ => Err(DecodeError::Invalid("packet.kind")),
        }
    }

    /// The packet that a RESET echoes, if it was one of the last that were sealed.
    #[must_use]
    pub fn sent_with_echo(&self, echo: u64) -> Option<PacketNumber> {
        self.keys()?.sent_with_echo(echo)
    }

    /// The packet of which others saw this number, if it was one of the last that were sealed.
    #[must_use]
    pub fn sent_with_masked(&self, masked: u32) -> Option<PacketNumber> {
        self.keys()?.sent_with_masked(masked)
    }
}

fn open_clear(
    dcid: ConnectionId,
    packet: &[u8],
    expand: impl FnOnce(u32) -> Option<PacketNumber>,
) -> Result<Opened<'_>, DecodeError> {
    let mut reader = Reader::new(packet);
    let header = DataHeader::decode(&mut reader)?;
    if header.dcid != dcid {
        return Err(DecodeError::Invalid("data.dcid"));
    }
    let (ack_now, span) = (header.ack_now, header.span);
    let number = expand(header.number).ok_or(DecodeError::Invalid("data.number"))?;
    let header_len = packet.len() - reader.remaining();
    let packet = verify_checksum(packet)?;
    let frames = packet.get(header_len..).ok_or(DecodeError::Truncated("tag"))?;
    Ok(Opened { number, ack_now, span, frames })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ConnectionId = ConnectionId(7);

    fn packet(protection: &PacketProtection, number: PacketNumber) -> Vec<u8> {
        let mut out = Vec::new();
        protection.write_header(ID, number, 0, None, &mut out);
        out.extend_from_slice(&[7; 6]);
        out
    }

    // ARQ-SEC-1, ARQ-SEC-2
    #[test]
    fn no_number_is_used_twice_in_any_build() {
        let mut clear = PacketProtection::default();
        let mut seal =
            |number| clear.seal(PathNumber::FIRST, PacketNumber(number), &mut vec![0; 20], 0);
        assert_eq!([0, 1, 5].map(&mut seal), [Ok(()); 3]);
        assert_eq!([5, 4, 0].map(&mut seal), [Err(SealError::NumberUsed); 3]);
        assert_eq!(seal(6), Ok(()), "what was refused changes nothing");
        assert_eq!(
            clear.seal(PathNumber(1), PacketNumber(0), &mut vec![0; 20], 0),
            Ok(()),
            "of another path"
        );
        let mut keyless = PacketProtection::keyless();
        let sealed = keyless.seal(PathNumber::FIRST, PacketNumber(0), &mut vec![0; 20], 0);
        assert_eq!(sealed, Err(SealError::KeyUsedUp), "nothing leaves in the clear");
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn a_header_that_reaches_into_the_tag_is_no_packet() {
        let now = Instant::now();
        let mut clear = PacketProtection::default();
        let mut whole = packet(&clear, PacketNumber(0));
        clear.seal(PathNumber::FIRST, PacketNumber(0), &mut whole, 0).unwrap();
        let mut opened = |bytes: &mut [u8], id| {
            let expand = |number| Some(PacketNumber(u64::from(number)));
            let opened = clear.open(now, || Duration::ZERO, (PathNumber::FIRST, id), bytes, expand);
            opened.map(|opened| opened.frames.to_vec())
        };
        assert_eq!(opened(&mut whole.clone(), ID), Ok(vec![7; 6]));
        assert!(opened(&mut whole.clone(), ConnectionId(8)).is_err());
        // A valid tag behind too short a header.
        let mut short = whole[..12].to_vec();
        append_checksum(&mut short, 0);
        assert!(opened(&mut short, ID).is_err());
    }
}
