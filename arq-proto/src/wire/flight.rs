// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The packets of a cryptographic handshake, before there are application keys: HELLO with its extensions, its CHALLENGE, and
//! HANDSHAKE.
//!
//! The flights of a handshake are coded as messages are (see [`crate::fec`]): any *k* of their symbols are enough, and
//! each repetition brings other ones.

use std::net::IpAddr;

use super::{
    checksum::{append_checksum, finish, CHECKSUM_BYTES},
    cursor::{put_varint, DecodeError, Reader},
    frame::{Shape, MAX_REASON_BYTES},
    packet::{open_unnumbered, CHALLENGE, HANDSHAKE, MAX_COOKIE_BYTES},
    params::Params,
    Version, MAX_CHUNKS, MAX_REPAIR_SYMBOLS,
};
use crate::{
    session::{Security, TAG_BYTES},
    units::ConnectionId,
};

const PADDING: u8 = 0x00;
const COOKIE: u8 = 0x01;
const CLOSE: u8 = 0x04;
const HOST: u8 = 0x08;
const LOCAL_ADDRESS: u8 = 0x0a;
const FLIGHT: u8 = 0x09;

/// The longest flight, in bytes: certificate chains of three RSA-4096 keys are a third of it.
pub const MAX_FLIGHT_BYTES: usize = 16_384;

const CLIENT_ID: u64 = 9;
const SERVER_ID: u64 = 10;
const VERSIONS: u64 = 11;

/// A symbol of a flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlightFrame<'a> {
    /// Which flight of its sender, from 0.
    pub stage: u64,
    /// Length of the flight, and of each chunk but the last.
    pub shape: Shape,
    /// A chunk, or from [`MAX_CHUNKS`] on a repair symbol.
    pub index: usize,
    /// Its bytes.
    pub data: &'a [u8],
}

impl<'a> FlightFrame<'a> {
    /// Bytes of the frame beside its data, at most.
    pub const MAX_OVERHEAD: usize = 1 + 2 + 4 + 4 + 2;

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FLIGHT);
        put_varint(out, self.stage);
        put_varint(out, self.shape.message_bytes as u64);
        put_varint(out, self.shape.chunk_bytes as u64);
        put_varint(out, self.index as u64);
        out.extend_from_slice(self.data);
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let stage = reader.varint("flight.stage")?;
        let message_bytes = reader.varint_max(MAX_FLIGHT_BYTES as u64, "flight.length")? as usize;
        let chunk_bytes = reader.varint_max(message_bytes as u64, "flight.size")? as usize;
        if chunk_bytes == 0 || message_bytes.div_ceil(chunk_bytes) > MAX_CHUNKS {
            return Err(DecodeError::Invalid("flight.size"));
        }
        let shape = Shape { message_bytes, chunk_bytes };
        let last = (MAX_CHUNKS + MAX_REPAIR_SYMBOLS - 1) as u64;
        let index = reader.varint_max(last, "flight.index")? as usize;
        let len = match index {
            0..MAX_CHUNKS if index < shape.chunk_count() => {
                chunk_bytes.min(message_bytes - index * chunk_bytes)
            }
            MAX_CHUNKS.. if shape.is_codable() => chunk_bytes,
            _ => return Err(DecodeError::Invalid("flight.index")),
        };
        let data = reader.bytes(len, "flight.data")?;
        Ok(Self { stage, shape, index, data })
    }
}

/// The frames of HELLO and HANDSHAKE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeFrame<'a> {
    /// From a CHALLENGE. In a HELLO alone.
    Cookie(&'a [u8]),
    /// A symbol of a flight.
    Flight(FlightFrame<'a>),
    /// What names the client's host as long as its system runs. Sealed alone.
    Host(u64),
    /// The client's IP address as its own system has it. Sealed alone.
    LocalAddress(IpAddr),
    /// There will be no association. Sealed alone.
    Close {
        /// The alert (RFC 8446 §6).
        alert: u8,
        /// Why, for people.
        reason: &'a str,
    },
}

impl<'a> HandshakeFrame<'a> {
    /// Bytes of a [`Self::Host`].
    pub const HOST_BYTES: usize = 1 + 8;
    /// Bytes of a [`Self::LocalAddress`], at most.
    pub const LOCAL_ADDRESS_BYTES: usize = 1 + 1 + 16;

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Cookie(cookie) => {
                out.push(COOKIE);
                put_varint(out, cookie.len() as u64);
                out.extend_from_slice(cookie);
            }
            Self::Flight(flight) => flight.encode(out),
            Self::Host(host) => {
                out.push(HOST);
                out.extend_from_slice(&host.to_be_bytes());
            }
            Self::LocalAddress(IpAddr::V4(ip)) => {
                out.extend_from_slice(&[LOCAL_ADDRESS, 4]);
                out.extend_from_slice(&ip.octets());
            }
            Self::LocalAddress(IpAddr::V6(ip)) => {
                out.extend_from_slice(&[LOCAL_ADDRESS, 16]);
                out.extend_from_slice(&ip.octets());
            }
            Self::Close { alert, reason } => {
                out.extend_from_slice(&[CLOSE, *alert]);
                put_varint(out, reason.len() as u64);
                out.extend_from_slice(reason.as_bytes());
            }
        }
    }

    /// Reads the next frame; `None` at the end, or where nothing but padding follows.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Option<Self>, DecodeError> {
        if reader.is_empty() {
            return Ok(None);
        }
        Ok(Some(match reader.u8("frame.kind")? {
            PADDING => return Ok(None),
            COOKIE => {
                let len = reader.varint_max(MAX_COOKIE_BYTES, "cookie")?;
                Self::Cookie(reader.bytes(len as usize, "cookie")?)
            }
            FLIGHT => Self::Flight(FlightFrame::decode(reader)?),
            HOST => Self::Host(reader.u64("host")?),
            LOCAL_ADDRESS => Self::LocalAddress(decode_address(reader)?),
            CLOSE => {
                let alert = reader.u8("close.alert")?;
                let reason = reader.prefixed("close.reason")?;
                let reason = std::str::from_utf8(reason)
                    .ok()
                    .filter(|reason| reason.len() <= MAX_REASON_BYTES)
                    .ok_or(DecodeError::Invalid("close.reason"))?;
                Self::Close { alert, reason }
            }
            _ => return Err(DecodeError::Invalid("frame.kind")),
        }))
    }
}

/// The CHALLENGE of version 0x61727102: the server keeps no state, and has no id yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedChallenge {
    /// The client.
    pub dcid: ConnectionId,
    /// From the HELLO.
    pub attempt: u8,
    /// To be returned in the next HELLO.
    pub cookie: Vec<u8>,
}

impl SealedChallenge {
    /// Appends the packet.
    pub fn encode(&self, security: Option<&dyn Security>, out: &mut Vec<u8>) {
        let start = out.len();
        out.push(CHALLENGE);
        out.extend_from_slice(&self.dcid.0.to_be_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&Version::Sealed.number().to_be_bytes());
        out.push(self.attempt);
        put_varint(out, self.cookie.len() as u64);
        out.extend_from_slice(&self.cookie);
        finish(out, start, security);
    }

    /// Reads a whole datagram.
    pub fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = open_unnumbered(datagram, CHALLENGE)?;
        let dcid = ConnectionId(reader.u64("challenge.dcid")?);
        reader.u64("challenge.scid")?;
        if reader.u32("challenge.version")? != Version::Sealed.number() {
            return Err(DecodeError::Invalid("challenge.version"));
        }
        let attempt = reader.u8("challenge.attempt")?;
        let len = reader.varint_max(MAX_COOKIE_BYTES, "cookie")?;
        let cookie = reader.bytes(len as usize, "cookie")?.to_vec();
        Ok(Self { dcid, attempt, cookie })
    }
}

/// The front of a HANDSHAKE packet. A sealed part follows as soon as there are keys: a number, frames, a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeHeader<'a> {
    /// The receiver.
    pub dcid: ConnectionId,
    /// The sender.
    pub scid: ConnectionId,
    /// From the HELLO that is answered at once; 255 if none is.
    pub attempt: u8,
    /// Frames that everybody can read.
    pub clear: &'a [u8],
}

impl<'a> HandshakeHeader<'a> {
    /// Bytes of the packet beside its frames, at most.
    pub const MAX_OVERHEAD: usize = 1 + 8 + 8 + 4 + 1 + 4 + CHECKSUM_BYTES + 4 + TAG_BYTES;

    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.push(HANDSHAKE);
        out.extend_from_slice(&self.dcid.0.to_be_bytes());
        out.extend_from_slice(&self.scid.0.to_be_bytes());
        out.extend_from_slice(&Version::Sealed.number().to_be_bytes());
        out.push(self.attempt);
        put_varint(out, self.clear.len() as u64);
        out.extend_from_slice(self.clear);
        append_checksum(out, start);
    }

    /// Reads the front of a datagram, and tells where the sealed part begins.
    pub fn decode(datagram: &'a [u8]) -> Result<(Self, usize), DecodeError> {
        let mut reader = Reader::new(datagram);
        if reader.u8("packet.kind")? != HANDSHAKE {
            return Err(DecodeError::Invalid("packet.kind"));
        }
        let dcid = ConnectionId(reader.u64("handshake.dcid")?);
        let scid = ConnectionId(reader.u64("handshake.scid")?);
        if reader.u32("handshake.version")? != Version::Sealed.number() {
            return Err(DecodeError::Invalid("handshake.version"));
        }
        let attempt = reader.u8("handshake.attempt")?;
        let clear = reader.prefixed("handshake.clear")?;
        let end = datagram.len() - reader.remaining();
        if reader.u32("handshake.check")? != crc32c::crc32c(&datagram[..end]) {
            return Err(DecodeError::Integrity);
        }
        Ok((Self { dcid, scid, attempt, clear }, end + CHECKSUM_BYTES))
    }
}

/// The list that each side hands its session, which authenticates it: its limits, and what the packets before the keys said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// The limits of the side that tells.
    pub params: Params,
    /// The client's id.
    pub client: Option<ConnectionId>,
    /// The server's, if it is the server that tells.
    pub server: Option<ConnectionId>,
    /// Versions offered, or the one taken.
    pub versions: Vec<u32>,
}

impl Terms {
    /// As bytes.
    #[must_use]
    pub fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.params.encode(&mut out);
        for (key, id) in [(CLIENT_ID, self.client), (SERVER_ID, self.server)] {
            if let Some(ConnectionId(id)) = id {
                put_varint(&mut out, key);
                put_varint(&mut out, 8);
                out.extend_from_slice(&id.to_be_bytes());
            }
        }
        put_varint(&mut out, VERSIONS);
        put_varint(&mut out, 4 * self.versions.len() as u64);
        self.versions.iter().for_each(|version| out.extend_from_slice(&version.to_be_bytes()));
        out
    }

    /// Reads them.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let params = Params::decode(bytes)?;
        let mut terms = Self { params, client: None, server: None, versions: Vec::new() };
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let key = reader.varint("params.id")?;
            let mut value = Reader::new(reader.prefixed("params.value")?);
            match key {
                CLIENT_ID => terms.client = Some(ConnectionId(value.u64("params.client")?)),
                SERVER_ID => terms.server = Some(ConnectionId(value.u64("params.server")?)),
                VERSIONS => {
                    while !value.is_empty() {
                        terms.versions.push(value.u32("params.versions")?);
                    }
                }
                _ => {}
            }
        }
        Ok(terms)
    }
}
fn decode_address(reader: &mut Reader<'_>) -> Result<IpAddr, DecodeError> {
    let invalid = |_| DecodeError::Invalid("local_address");
    let len = reader.u8("local_address.length")?;
    let octets = reader.bytes(len.into(), "local_address")?;
    match len {
        4 => <[u8; 4]>::try_from(octets).map(IpAddr::from).map_err(invalid),
        _ => <[u8; 16]>::try_from(octets).map(IpAddr::from).map_err(invalid),
    }
}
