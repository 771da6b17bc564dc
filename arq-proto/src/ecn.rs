// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Explicit congestion notification (RFC 3168): what two bits of the IP header say.
//!
//! Who sends marks packets as capable, a queue that stands marks them instead of dropping them, the receiver counts
//! ([`acks`](crate::acks)), and the sender judges whether the path can be trusted with it
//! ([`recovery::ecn`](crate::recovery::ecn)).

/// The ECN field of an IP header, where it is not zero (RFC 3168 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EcnCodepoint {
    /// ECT(0): a queue may mark the packet.
    Ect0,
    /// ECT(1): the same, of other congestion control (RFC 9331). This side never sends it.
    Ect1,
    /// CE: a queue has marked the packet.
    Ce,
}

impl EcnCodepoint {
    /// What the low two bits of a type-of-service or traffic-class byte say; `None` for packets that are not capable.
    #[must_use]
    pub const fn from_bits(byte: u8) -> Option<Self> {
        match byte & 0b11 {
            0b10 => Some(Self::Ect0),
            0b01 => Some(Self::Ect1),
            0b11 => Some(Self::Ce),
            _ => None,
        }
    }

    /// The two bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::Ect0 => 0b10,
            Self::Ect1 => 0b01,
            Self::Ce => 0b11,
        }
    }
}

/// Packets that have arrived with each codepoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// ECT(0).
    pub ect0: u64,
    /// ECT(1).
    pub ect1: u64,
    /// CE.
    pub ce: u64,
}

impl EcnCounts {
    /// None has.
    pub const NONE: Self = Self { ect0: 0, ect1: 0, ce: 0 };

    /// Counts a packet.
    pub(crate) fn add(&mut self, codepoint: EcnCodepoint) {
        *match codepoint {
            EcnCodepoint::Ect0 => &mut self.ect0,
            EcnCodepoint::Ect1 => &mut self.ect1,
            EcnCodepoint::Ce => &mut self.ce,
        } += 1;
    }
}

/// Whether packets of a path are marked as capable (RFC 9000 §A.4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EcnState {
    /// Not, as the configuration says.
    #[default]
    Off,
    /// The first ones are: whether the marks arrive is not known yet.
    Testing,
    /// They are: marks arrive, and are heeded.
    Capable,
    /// Not any more: they, or their marks, did not arrive.
    Failed,
}
