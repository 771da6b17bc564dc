// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What a cryptographic handshake must be able to do to protect an association.
//!
//! The shape is that of TLS 1.3 in QUIC (RFC 9001 §4): flights of the handshake go in and out as plain bytes, and
//! keys come out. The core knows no TLS, no certificate and no clock of the wall: who drives it brings them.

use std::{any::Any, fmt, sync::Arc};

use thiserror::Error;

/// Bytes of the tag of a sealed packet: AES-GCM (RFC 5116 §5.1) and ChaCha20-Poly1305 (RFC 8439 §2.8).
pub const TAG_BYTES: usize = 16;
/// Bytes of a packet from which its mask is made (RFC 9001 §5.4.2).
pub const SAMPLE_BYTES: usize = 16;

/// Bytes of the code by which strangers are told from who knows a common secret.
pub const KNOCK_BYTES: usize = 16;

/// Makes the sessions of an endpoint. Cheap to clone behind its [`Arc`].
pub trait Security: Send + Sync + fmt::Debug {
    /// Begins a handshake with the server `name`. `params` reach the server readable, and cannot be changed unnoticed.
    ///
    /// # Errors
    /// What the configuration lacks, in words for the operator.
    fn connect(&self, name: &str, params: &[u8]) -> Result<Box<dyn Session>, SessionError>;

    /// Begins a handshake that a client has asked for. `params` reach the client sealed.
    ///
    /// # Errors
    /// What the configuration lacks, in words for the operator.
    fn accept(&self, params: &[u8]) -> Result<Box<dyn Session>, SessionError>;

    /// A code over `packet` that only who knows a common secret can compute, for packets that come before there are
    /// keys. Where there is one, an endpoint answers nothing to who does not know the secret.
    fn knock(&self, packet: &[u8]) -> Option<[u8; KNOCK_BYTES]> {
        let _ = packet;
        None
    }

    /// Whether `code` over `packet` is of one who knows a common secret; whether there is none is [`knock`](Self::knock)'s
    /// to say. Compared in constant time, so that no byte of it is confirmed to one who guesses.
    fn is_knock(&self, packet: &[u8], code: &[u8; KNOCK_BYTES]) -> bool {
        self.knock(packet).is_none_or(|expected| is_equal(code, &expected))
    }
}

/// Whether two codes are equal, in constant time.
#[must_use]
pub fn is_equal(one: &[u8; KNOCK_BYTES], other: &[u8; KNOCK_BYTES]) -> bool {
    one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

/// What an endpoint does about security. There is no falling back from one to the other.
#[derive(Debug, Clone, Default)]
pub enum Protection {
    /// Packets can be read, and altered by who computes a checksum.
    #[default]
    Clear,
    /// Packets are sealed with the keys of a handshake.
    Sealed(Arc<dyn Security>),
}

/// One side of a handshake.
pub trait Session: Send + Sync + fmt::Debug {
    /// Takes bytes of the peer's flight, which follow on those taken before.
    ///
    /// # Errors
    /// The peer is not who it should be, or breaks the handshake's rules. The session is over.
    fn read(&mut self, flight: &[u8]) -> Result<(), SessionError>;

    /// Appends the bytes to send next and returns the keys that hold for all bytes after them. To be called until it
    /// gives neither.
    fn write(&mut self, flight: &mut Vec<u8>) -> Option<KeyChange>;

    /// Whether the peer has not yet proved who it is.
    fn is_handshaking(&self) -> bool;

    /// The parameters of the peer, once they have come. They are proven when [`is_handshaking`](Self::is_handshaking)
    /// is over.
    fn peer_params(&self) -> Option<&[u8]>;

    /// 16 bytes that only the two sides can compute (RFC 8446 §7.5), under the label `EXPORTER-zenoh-arq-paths`. Asked
    /// once, when the handshake is over. Without them the association has one path.
    fn export(&self) -> Option<[u8; 16]> {
        None
    }

    /// Bytes that are the same for all who have what the peer has proved to hold, e.g. its certificate. Asked once, when
    /// the handshake is over. Without them it has no former self to be told from others.
    fn peer_credential(&self) -> Option<&[u8]> {
        None
    }

    /// Who the peer is, for those who know the type behind: the driver hands it on unread. Asked once, when the handshake
    /// is over.
    fn peer(&self) -> Option<Arc<dyn Any + Send + Sync>>;
}

/// Keys that a session has come to.
#[derive(Debug)]
pub enum KeyChange {
    /// For the rest of the handshake.
    Handshake(Keys),
    /// For all packets of the association.
    Application {
        /// The first keys.
        keys: Keys,
        /// The source of those that follow by key update (RFC 9001 §6).
        updates: Box<dyn Updates>,
    },
}

/// The keys of both directions.
#[derive(Debug)]
pub struct Keys {
    /// Seals what this side sends.
    pub local: DirectionKeys,
    /// Opens what the peer sends.
    pub remote: DirectionKeys,
}

/// The keys of one direction.
#[derive(Debug)]
pub struct DirectionKeys {
    /// For the packet.
    pub packet: Box<dyn PacketKey>,
    /// For its number. It lasts as long as the association.
    pub header: Box<dyn HeaderKey>,
}

/// Gives the packet keys of the next phase.
pub trait Updates: Send + Sync + fmt::Debug {
    /// The keys of the next phase: of this side, and of the peer.
    fn next(&mut self) -> (Box<dyn PacketKey>, Box<dyn PacketKey>);
}

/// Seals or opens packets: an AEAD whose nonce is made of the packet's path and number (RFC 9001 §5.3; of several paths,
/// the QUIC multipath extension). The handshake, and all packets of an association that has one path, are of path 0.
pub trait PacketKey: Send + Sync + fmt::Debug {
    /// Encrypts `payload` in place and returns its tag; `header` is authenticated, too. No number of a path is used
    /// twice.
    fn seal(&self, path: u32, number: u64, header: &[u8], payload: &mut [u8]) -> [u8; TAG_BYTES];

    /// Decrypts `payload`, which ends with its tag, in place, and returns what it says.
    fn open<'a>(
        &self,
        path: u32,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Option<&'a mut [u8]>;

    /// Packets that may be sealed with it (RFC 9001 §6.6).
    fn confidentiality_limit(&self) -> u64;

    /// Forged packets after which it must not open another (RFC 9001 §6.6).
    fn integrity_limit(&self) -> u64;
}

/// Masks numbers of packets (RFC 9001 §5.4).
pub trait HeaderKey: Send + Sync + fmt::Debug {
    /// The mask that belongs to the sample: one byte for the flags, four for the number.
    fn mask(&self, sample: &[u8; SAMPLE_BYTES]) -> [u8; 5];
}

/// Why there is no session, or no longer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text}")]
#[non_exhaustive]
pub struct SessionError {
    /// The alert to tell the peer (RFC 8446 §6), if there is a fitting one.
    pub alert: Option<u8>,
    /// Cause and subject, for the operator. It holds no secret.
    pub text: String,
}

impl SessionError {
    /// An error with a text for the operator.
    #[must_use]
    pub fn new(alert: Option<u8>, text: impl Into<String>) -> Self {
        Self { alert, text: text.into() }
    }
}
