// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! When was a message made, and which of its kind is it?

use std::time::Duration;

use super::CodecError;

/// What travels beside each message: 12 bytes, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Counts the messages of one kind of one vehicle, from 0.
    pub sequence: u32,
    /// When it was made: since 1970, in whole microseconds.
    pub sent: Duration,
}

impl Stamp {
    /// Its bytes.
    pub fn encode(self) -> [u8; 12] {
        let sent_us = u64::try_from(self.sent.as_micros()).unwrap_or(u64::MAX);
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[4..].copy_from_slice(&sent_us.to_be_bytes());
        bytes
    }

    /// The stamp in these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let unreadable = || CodecError::Unreadable {
            message: "stamp",
            reason: format!("{} bytes instead of 12", bytes.len()),
        };
        let bytes: &[u8; 12] = bytes.try_into().map_err(|_| unreadable())?;
        let [a, b, c, d, sent @ ..] = *bytes;
        let sent = Duration::from_micros(u64::from_be_bytes(sent));
        Ok(Self { sequence: u32::from_be_bytes([a, b, c, d]), sent })
    }

    /// Refuses one that says it was made after `latest`.
    pub fn not_after(self, latest: Duration) -> Result<Self, CodecError> {
        if self.sent <= latest {
            return Ok(self);
        }
        let ahead_s = (self.sent - latest).as_secs_f64();
        let reason = format!("made {ahead_s:.1} s after what a clock could say");
        Err(CodecError::Unreadable { message: "stamp", reason })
    }
}
