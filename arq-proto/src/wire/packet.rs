// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The packets: four of the handshake that need no state at the answering side, and those that carry frames. What is
//! in HANDSHAKE and SEALED is the matter of [`flight`](super::flight) and [`protection`](super::protection).
//!
//! ```text
//!  HELLO      first, client -> server, padded so that no answer can be larger
//!  CHALLENGE  server -> client, carries the cookie that stands for the server's state
//!  DATA       frames; until the server has answered, the client's DATA carries the cookie too
//!  REFUSE     server -> client, no connection, why
//!  RESET      "I do not know this connection": a restarted peer is noticed at once
//!  HANDSHAKE  flights of a cryptographic handshake, both ways
//!  SEALED     frames under its keys
//! ```

use super::{
    checksum::{append_checksum, finish, verify_checksum, CHECKSUM_BYTES},
    cursor::{put_varint, DecodeError, Reader, MAX_VARINT_BYTES},
    params::Params,
    LEAST_HELLO_BYTES,
};
use crate::{
    error::RefuseReason,
    session::{Security, KNOCK_BYTES},
    units::ConnectionId,
};

const HELLO: u8 = 0xa0;
pub(super) const CHALLENGE: u8 = 0xa1;
const REFUSE: u8 = 0xa2;
const RESET: u8 = 0xa3;
pub(super) const HANDSHAKE: u8 = 0xa4;
/// The low bit of a sealed packet is its key phase, masked.
pub(super) const SEALED: u8 = 0xb0;
/// The low two bits of a data packet are flags.
const DATA: u8 = 0xa8;
const DATA_MASK: u8 = 0xfc;
const FLAG_ACK_NOW: u8 = 0x01;
const FLAG_COOKIE: u8 = 0x02;

/// Versions that a HELLO may offer.
const MAX_VERSIONS: usize = 8;
/// The longest cookie, in bytes.
pub(super) const MAX_COOKIE_BYTES: u64 = 64;

/// Which packet a datagram holds, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketKind {
    /// See the module.
    Hello,
    /// See the module.
    Challenge,
    /// See the module.
    Refuse,
    /// See the module.
    Reset,
    /// Frames; `cookie` when the packet carries one.
    Data {
        /// Whether a cookie follows the header.
        cookie: bool,
    },
    /// Flights of a cryptographic handshake.
    Handshake,
    /// Frames, encrypted.
    Sealed,
}

impl PacketKind {
    /// The kind of the packet that starts with `first`.
    pub const fn of(first: u8) -> Result<Self, DecodeError> {
        match first {
            HELLO => Ok(Self::Hello),
            CHALLENGE => Ok(Self::Challenge),
            REFUSE => Ok(Self::Refuse),
            RESET => Ok(Self::Reset),
            HANDSHAKE => Ok(Self::Handshake),
            _ if first & !1 == SEALED => Ok(Self::Sealed),
            _ if first & DATA_MASK == DATA => Ok(Self::Data { cookie: first & FLAG_COOKIE != 0 }),
            _ => Err(DecodeError::Invalid("packet.kind")),
        }
    }
}

/// The destination of any packet but HELLO, which has its sender's id in that place, or what a RESET is about,
/// unchecked: for routing before the packet is opened.
#[must_use]
pub fn peek_connection_id(datagram: &[u8]) -> Option<ConnectionId> {
    let mut reader = Reader::new(datagram.get(1..)?);
    reader.u64("dcid").ok().map(ConnectionId)
}

/// The destination and the truncated number of a DATA or SEALED packet, masked in the latter, of which there may be no
/// more than the begin.
#[must_use]
pub fn peek_number(datagram: &[u8]) -> Option<(ConnectionId, u32)> {
    let (first, rest) = datagram.split_first()?;
    let (PacketKind::Data { .. } | PacketKind::Sealed) = PacketKind::of(*first).ok()? else {
        return None;
    };
    let mut reader = Reader::new(rest);
    let id = reader.u64("data.dcid").ok()?;
    Some((ConnectionId(id), reader.u32("data.number").ok()?))
}

/// The client's first packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Where the answers shall go.
    pub scid: ConnectionId,
    /// The client's endpoint: a restarted one has another instance.
    pub instance: u64,
    /// Counts the HELLOs of this attempt; echoed, so that the round trip is measured cleanly.
    pub attempt: u8,
    /// The versions offered, the best first.
    pub versions: Vec<u32>,
    /// Length of the packet, which is padded to it: at least [`LEAST_HELLO_BYTES`].
    pub bytes: u16,
}

impl Hello {
    /// Bytes of the packet beside its padding, at most.
    pub const MAX_OVERHEAD: usize = 1 + 8 + 8 + 1 + 1 + 4 + 1 + KNOCK_BYTES + CHECKSUM_BYTES;

    /// Appends the packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_with(&[], None, out);
    }

    /// The same with frames of a handshake in the place of padding.
    pub fn encode_with(&self, frames: &[u8], security: Option<&dyn Security>, out: &mut Vec<u8>) {
        let start = out.len();
        out.push(HELLO);
        out.extend_from_slice(&self.scid.0.to_be_bytes());
        out.extend_from_slice(&self.instance.to_be_bytes());
        out.push(self.attempt);
        out.push(self.versions.len().min(MAX_VERSIONS) as u8);
        for version in self.versions.iter().take(MAX_VERSIONS) {
            out.extend_from_slice(&version.to_be_bytes());
        }
        out.extend_from_slice(frames);
        // What follows is no frame, padding or not.
        out.push(0);
        let bytes = self.bytes.max(LEAST_HELLO_BYTES);
        let knock = security.and_then(|security| security.knock(&[])).map_or(0, |code| code.len());
        out.resize(start + usize::from(bytes) - CHECKSUM_BYTES - knock, 0);
        finish(out, start, security);
    }

    /// Reads a whole datagram.
    pub fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_with(datagram).map(|(hello, _)| hello)
    }

    /// Reads a whole datagram, and returns what stands in the place of padding, too.
    pub fn decode_with(datagram: &[u8]) -> Result<(Self, Reader<'_>), DecodeError> {
        if datagram.len() < usize::from(LEAST_HELLO_BYTES) {
            return Err(DecodeError::Truncated("hello.padding"));
        }
        let bytes = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
        let mut reader = open_unnumbered(datagram, HELLO)?;
        let scid = ConnectionId(reader.u64("hello.scid")?);
        let instance = reader.u64("hello.instance")?;
        let attempt = reader.u8("hello.attempt")?;
        let count = usize::from(reader.u8("hello.versions")?);
        if count == 0 || count > MAX_VERSIONS {
            return Err(DecodeError::Invalid("hello.versions"));
        }
        let versions =
            (0..count).map(|_| reader.u32("hello.versions")).collect::<Result<_, _>>()?;
        Ok((Self { scid, instance, attempt, versions, bytes }, reader))
    }
}

/// The server's answer to a HELLO. The server keeps nothing of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// The client.
    pub dcid: ConnectionId,
    /// Where the client's packets shall go.
    pub scid: ConnectionId,
    /// The version chosen.
    pub version: u32,
    /// From the HELLO.
    pub attempt: u8,
    /// To be returned.
    pub cookie: Vec<u8>,
    /// The server's limits.
    pub params: Params,
}

impl Challenge {
    /// Appends the packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.push(CHALLENGE);
        out.extend_from_slice(&self.dcid.0.to_be_bytes());
        out.extend_from_slice(&self.scid.0.to_be_bytes());
        out.extend_from_slice(&self.version.to_be_bytes());
        out.push(self.attempt);
        put_varint(out, self.cookie.len() as u64);
        out.extend_from_slice(&self.cookie);
        self.params.encode(out);
        append_checksum(out, start);
    }

    /// Reads a whole datagram.
    pub fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = open_unnumbered(datagram, CHALLENGE)?;
        let dcid = ConnectionId(reader.u64("challenge.dcid")?);
        let scid = ConnectionId(reader.u64("challenge.scid")?);
        let version = reader.u32("challenge.version")?;
        let attempt = reader.u8("challenge.attempt")?;
        let cookie = decode_cookie(&mut reader)?.to_vec();
        let params = Params::decode(reader.bytes(reader.remaining(), "challenge.params")?)?;
        Ok(Self { dcid, scid, version, attempt, cookie, params })
    }
}

/// No connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refuse {
    /// The client.
    pub dcid: ConnectionId,
    /// Why.
    pub reason: RefuseReason,
    /// The versions that the server accepts, where it is about those.
    pub versions: Vec<u32>,
}

impl Refuse {
    /// Appends the packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_with(None, out);
    }

    /// The same, of a server that strangers shall not find.
    pub fn encode_with(&self, security: Option<&dyn Security>, out: &mut Vec<u8>) {
        let start = out.len();
        out.push(REFUSE);
        out.extend_from_slice(&self.dcid.0.to_be_bytes());
        match self.reason {
            RefuseReason::Version => {
                out.extend_from_slice(&[1, self.versions.len().min(MAX_VERSIONS) as u8]);
                for version in self.versions.iter().take(MAX_VERSIONS) {
                    out.extend_from_slice(&version.to_be_bytes());
                }
            }
            RefuseReason::Busy => out.push(2),
            RefuseReason::Handshake { alert } => out.extend_from_slice(&[3, alert]),
        }
        finish(out, start, security);
    }

    /// Reads a whole datagram.
    pub fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = open_unnumbered(datagram, REFUSE)?;
        let dcid = ConnectionId(reader.u64("refuse.dcid")?);
        let mut versions = Vec::new();
        let reason = match reader.u8("refuse.reason")? {
            1 => {
                // Beyond the reason there may be nothing.
                let count = usize::from(reader.u8("refuse.versions").unwrap_or(0));
                let version = |_| reader.u32("refuse.versions");
                versions = (0..count.min(MAX_VERSIONS)).map(version).collect::<Result<_, _>>()?;
                RefuseReason::Version
            }
            2 => RefuseReason::Busy,
            3 => RefuseReason::Handshake { alert: reader.u8("refuse.alert")? },
            _ => return Err(DecodeError::Invalid("refuse.reason")),
        };
        Ok(Self { dcid, reason, versions })
    }
}

/// The answer to a packet for an unknown connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reset {
    /// The destination that the packet named.
    pub unknown: ConnectionId,
    /// What only who has seen the packet knows.
    pub echo: Echo,
}

/// What shows that the sender of a [`Reset`] has seen the packet which it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Echo {
    /// The truncated number of a DATA packet.
    Number(u32),
    /// The last eight bytes of a SEALED one.
    Tag(u64),
}

impl Reset {
    /// Appends the packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.push(RESET);
        out.extend_from_slice(&self.unknown.0.to_be_bytes());
        match self.echo {
            Echo::Number(number) => out.extend_from_slice(&number.to_be_bytes()),
            Echo::Tag(tag) => out.extend_from_slice(&tag.to_be_bytes()),
        }
        append_checksum(out, start);
    }

    /// Reads a whole datagram.
    pub fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = open_unnumbered(datagram, RESET)?;
        let unknown = ConnectionId(reader.u64("reset.unknown")?);
        let echo = match reader.remaining() {
            8.. => Echo::Tag(reader.u64("reset.echo")?),
            _ => Echo::Number(reader.u32("reset.number")?),
        };
        Ok(Self { unknown, echo })
    }
}

/// The header of a data packet: associated data of the packet protection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataHeader<'a> {
    /// The connection, as its receiver named it.
    pub dcid: ConnectionId,
    /// The receiver shall not wait with its acknowledgement.
    pub ack_now: bool,
    /// The packet number, truncated.
    pub number: u32,
    /// How far below this packet the oldest one lies that the sender still wants to hear of.
    pub span: u64,
    /// Present until the server has answered.
    pub cookie: Option<Cookie<'a>>,
}

/// What a client repeats until the server has answered, from which the server makes its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cookie<'a> {
    /// Where the server's packets shall go.
    pub scid: ConnectionId,
    /// The version chosen by the server.
    pub version: u32,
    /// From the CHALLENGE.
    pub cookie: &'a [u8],
    /// The client's limits, encoded.
    pub params: &'a [u8],
}

impl Cookie<'_> {
    /// Bytes that it adds to a header, at most.
    #[must_use]
    pub const fn max_bytes(&self) -> usize {
        8 + 4 + MAX_VARINT_BYTES + self.cookie.len() + MAX_VARINT_BYTES + self.params.len()
    }
}

impl<'a> DataHeader<'a> {
    /// Bytes of a header without cookie, for the largest span in use.
    pub const MAX_BYTES: usize = 1 + 8 + 4 + 4;

    /// Appends the header. Frames follow, then the tag.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut kind = DATA;
        if self.ack_now {
            kind |= FLAG_ACK_NOW;
        }
        if self.cookie.is_some() {
            kind |= FLAG_COOKIE;
        }
        out.push(kind);
        out.extend_from_slice(&self.dcid.0.to_be_bytes());
        out.extend_from_slice(&self.number.to_be_bytes());
        put_varint(out, self.span);
        if let Some(cookie) = &self.cookie {
            out.extend_from_slice(&cookie.scid.0.to_be_bytes());
            out.extend_from_slice(&cookie.version.to_be_bytes());
            put_varint(out, cookie.cookie.len() as u64);
            out.extend_from_slice(cookie.cookie);
            put_varint(out, cookie.params.len() as u64);
            out.extend_from_slice(cookie.params);
        }
    }

    /// Sets the flag that asks for an immediate acknowledgement in an encoded, unsealed header.
    pub fn set_ack_now(packet: &mut [u8]) {
        if let Some(kind) = packet.first_mut() {
            *kind |= FLAG_ACK_NOW;
        }
    }

    /// Reads the header at the front of a packet.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let kind = reader.u8("packet.kind")?;
        let PacketKind::Data { cookie } = PacketKind::of(kind)? else {
            return Err(DecodeError::Invalid("packet.kind"));
        };
        Ok(Self {
            dcid: ConnectionId(reader.u64("data.dcid")?),
            ack_now: kind & FLAG_ACK_NOW != 0,
            number: reader.u32("data.number")?,
            span: reader.varint("data.span")?,
            cookie: if cookie { Some(Cookie::decode(reader)?) } else { None },
        })
    }
}

impl<'a> Cookie<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            scid: ConnectionId(reader.u64("cookie.scid")?),
            version: reader.u32("cookie.version")?,
            cookie: decode_cookie(reader)?,
            params: reader.prefixed("cookie.params")?,
        })
    }
}

fn decode_cookie<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let len = reader.varint_max(MAX_COOKIE_BYTES, "cookie")?;
    reader.bytes(len as usize, "cookie")
}

/// Handshake packets have no number; their checksum is checked all the same.
pub(super) fn open_unnumbered(datagram: &[u8], kind: u8) -> Result<Reader<'_>, DecodeError> {
    let mut reader = Reader::new(verify_checksum(datagram)?);
    if reader.u8("packet.kind")? == kind {
        Ok(reader)
    } else {
        Err(DecodeError::Invalid("packet.kind"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;

    const ID: ConnectionId = ConnectionId(0x0123_4567_89ab_cdef);

    fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out);
        out
    }

    // ARQ-PKT-1, ARQ-HS-3
    #[test]
    fn handshake_packets_round_trip_and_notice_each_flipped_bit() {
        let versions = vec![crate::wire::VERSION, 1];
        let hello = Hello { scid: ID, instance: 7, attempt: 3, versions, bytes: 1_096 };
        let challenge = Challenge {
            dcid: ID,
            scid: ConnectionId(9),
            version: crate::wire::VERSION,
            attempt: 3,
            cookie: vec![1; 34],
            // The longest there are.
            params: Params {
                max_datagram_bytes: u16::MAX,
                lane_window_bytes: 1 << 40,
                connection_window_bytes: 1 << 40,
                hold: Duration::from_secs(3_600),
                repair: true,
                resegment: true,
                paths: 1,
                app: Bytes::from_static(&[b'x'; 64]),
            },
        };
        let versions = vec![1, 2, 3];
        let refuse = Refuse { dcid: ID, reason: RefuseReason::Version, versions };
        let reset = Reset { unknown: ID, echo: Echo::Number(77) };
        let hello_bytes = encoded(|out| hello.encode(out));
        let challenge_bytes = encoded(|out| challenge.encode(out));
        assert_eq!(hello_bytes.len(), 1_096);
        assert!(challenge_bytes.len() <= usize::from(LEAST_HELLO_BYTES), "no amplification");
        assert_eq!(Hello::decode(&hello_bytes), Ok(hello));
        assert_eq!(Challenge::decode(&challenge_bytes), Ok(challenge));
        assert_eq!(Refuse::decode(&encoded(|out| refuse.encode(out))), Ok(refuse));
        for reset in [reset, Reset { unknown: ID, echo: Echo::Tag(u64::MAX) }] {
            assert_eq!(Reset::decode(&encoded(|out| reset.encode(out))), Ok(reset));
        }

        for bit in 0..challenge_bytes.len() * 8 {
            let mut damaged = challenge_bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Challenge::decode(&damaged), Err(DecodeError::Integrity));
        }
    }

    // ARQ-PKT-1
    #[test]
    fn the_first_byte_tells_the_kind() {
        let data = |cookie| Ok(PacketKind::Data { cookie });
        for (first, kind) in [
            (HELLO, Ok(PacketKind::Hello)),
            (CHALLENGE, Ok(PacketKind::Challenge)),
            (REFUSE, Ok(PacketKind::Refuse)),
            (RESET, Ok(PacketKind::Reset)),
            (HANDSHAKE, Ok(PacketKind::Handshake)),
            (SEALED, Ok(PacketKind::Sealed)),
            (SEALED | 1, Ok(PacketKind::Sealed)),
            (DATA, data(false)),
            (DATA | FLAG_ACK_NOW, data(false)),
            (DATA | FLAG_COOKIE, data(true)),
            (0xff, Err(DecodeError::Invalid("packet.kind"))),
        ] {
            assert_eq!(PacketKind::of(first), kind, "{first:#x}");
        }
    }

    fn hello_with(versions: Vec<u32>) -> Hello {
        Hello { scid: ID, instance: 7, attempt: 3, versions, bytes: LEAST_HELLO_BYTES }
    }

    // ARQ-HS-3
    #[test]
    fn a_hello_has_a_least_length_and_a_version() {
        const COUNT: usize = 1 + 8 + 8 + 1;
        let decoded = |count: usize| {
            let mut bytes = encoded(|out| hello_with(vec![7; MAX_VERSIONS]).encode(out));
            bytes[COUNT] = count as u8;
            bytes.truncate(bytes.len() - CHECKSUM_BYTES);
            finish(&mut bytes, 0, None);
            Hello::decode(&bytes).map(|hello| hello.versions.len())
        };
        let none = Err(DecodeError::Invalid("hello.versions"));
        assert_eq!([1, MAX_VERSIONS].map(decoded), [Ok(1), Ok(MAX_VERSIONS)]);
        assert_eq!([0, MAX_VERSIONS + 1].map(decoded), [none, none]);
        let least = hello_with(vec![7]);
        assert_eq!(Hello::decode(&encoded(|out| least.encode(out))), Ok(least));
        for len in [0, usize::from(LEAST_HELLO_BYTES) - 1] {
            let short = Hello::decode(&vec![0; len]);
            assert_eq!(short, Err(DecodeError::Truncated("hello.padding")));
        }
    }

    // ARQ-HS-3
    #[test]
    fn each_reason_to_refuse_round_trips() {
        for reason in [RefuseReason::Busy, RefuseReason::Handshake { alert: 42 }] {
            let refuse = Refuse { dcid: ID, reason, versions: Vec::new() };
            assert_eq!(Refuse::decode(&encoded(|out| refuse.encode(out))), Ok(refuse));
        }
    }

    #[test]
    fn data_headers_round_trip() {
        for (ack_now, cookie) in [
            (false, None),
            (true, Some(Cookie { scid: ID, version: 5, cookie: b"cookie", params: b"params" })),
        ] {
            let header = DataHeader { dcid: ID, ack_now, number: 9, span: 70, cookie };
            let bytes = encoded(|out| header.encode(out));
            assert_eq!(peek_connection_id(&bytes), Some(ID));
            assert_eq!(peek_number(&bytes), Some((ID, 9)));
            assert_eq!(DataHeader::decode(&mut Reader::new(&bytes)), Ok(header.clone()));
            let mut asking = bytes;
            DataHeader::set_ack_now(&mut asking);
            let asking = DataHeader::decode(&mut Reader::new(&asking));
            assert_eq!(asking, Ok(DataHeader { ack_now: true, ..header }));
        }
    }
}
