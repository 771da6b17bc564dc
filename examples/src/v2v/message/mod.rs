// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What do the messages between vehicles look like in bytes?
//!
//! They say what ETSI's messages say (CAM of EN 302 637-2, DENM of EN 302 637-3, CPM of TS 103 324) and are as long as
//! those are on the radio, with GeoNetworking headers, signature and certificate; they are *not* coded as those are,
//! but with `serde` and `postcard` behind a tag, and zero bytes up to the size. A link sees sizes and times only.
//! (The crate `rasn-its` has the signed envelope, IEEE 1609.2 and TS 103 097, but none of these messages.)
//!
//! Beside each message travels a [`Stamp`], as zenoh's attachment, so that a monitor can count what is missing and
//! measure ages without adding anything to a standard's message.

mod stamp;

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::world::{Cause, Motion, Point};

pub use stamp::Stamp;

/// A vehicle's own account of itself: CAM-sized.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beacon {
    /// Whose.
    pub vehicle: u32,
    /// How it moves.
    pub motion: Motion,
}

/// A vehicle's warning: DENM-sized.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Who warns.
    pub vehicle: u32,
    /// Its number among those of its vehicle.
    pub number: u64,
    /// When the hazard was met, since 1970.
    pub detected: Duration,
    /// Where.
    pub position: Point,
    /// What it is.
    pub cause: Cause,
}

/// What a vehicle sees: CPM-sized.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Perception {
    /// Who sees it.
    pub vehicle: u32,
    /// From where.
    pub position: Point,
    /// The vehicles that it sees.
    pub objects: Vec<Perceived>,
}

/// A vehicle that another one sees.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Perceived {
    /// Its number.
    pub vehicle: u32,
    /// How it moves.
    pub motion: Motion,
}

/// A message that can be written and read.
pub trait Message: Serialize + DeserializeOwned {
    /// The standard's name for such a message.
    const NAME: &'static str;
    /// What it begins with: the first letters and the version of this coding.
    const TAG: [u8; 4];
    /// Its length on the radio, bytes; one that says more is longer.
    const SIZE_BYTES: usize;

    /// Whether every number in it is one.
    fn is_finite(&self) -> bool;

    /// As it goes on the radio.
    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        let unwritable = |e: postcard::Error| CodecError::Unwritable {
            message: Self::NAME,
            reason: e.to_string(),
        };
        let bytes = postcard::to_extend(self, Self::TAG.to_vec());
        let mut bytes = bytes.map_err(unwritable)?;
        bytes.resize(Self::SIZE_BYTES.max(bytes.len()), 0);
        Ok(bytes)
    }

    /// The message in these bytes.
    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let unreadable = |reason: String| CodecError::Unreadable { message: Self::NAME, reason };
        let rest = bytes.strip_prefix(&Self::TAG);
        let rest =
            rest.ok_or_else(|| unreadable("another message or another version".to_owned()))?;
        let (message, _): (Self, _) =
            postcard::take_from_bytes(rest).map_err(|e| unreadable(e.to_string()))?;
        if !message.is_finite() {
            return Err(unreadable("a number that is none".to_owned()));
        }
        Ok(message)
    }
}

impl Message for Beacon {
    const NAME: &'static str = "beacon (CAM)";
    const TAG: [u8; 4] = *b"CAM\x01";
    /// Published CAM traces have 200 to 400.
    const SIZE_BYTES: usize = 300;

    fn is_finite(&self) -> bool {
        self.motion.is_finite()
    }
}

impl Message for Notice {
    const NAME: &'static str = "hazard (DENM)";
    const TAG: [u8; 4] = *b"DEN\x01";
    /// A choice, that of the bench's preset `urban-crossing`.
    const SIZE_BYTES: usize = 800;

    fn is_finite(&self) -> bool {
        self.position.is_finite()
    }
}

impl Message for Perception {
    const NAME: &'static str = "perceived objects (CPM)";
    const TAG: [u8; 4] = *b"CPM\x01";
    /// The largest of 3GPP TS 22.186.
    const SIZE_BYTES: usize = 1_600;

    fn is_finite(&self) -> bool {
        self.position.is_finite() && self.objects.iter().all(|object| object.motion.is_finite())
    }
}

/// A message could not be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// It has no place in bytes.
    #[error("the {message} cannot be written: {reason}")]
    Unwritable {
        /// Which message.
        message: &'static str,
        /// What the coder said.
        reason: String,
    },
    /// The bytes are no such message.
    #[error("no {message}: {reason}")]
    Unreadable {
        /// Which message was expected.
        message: &'static str,
        /// What the decoder said.
        reason: String,
    },
}

#[cfg(test)]
mod tests;
