// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Numbers that must not be mixed up, each with its own type.

use std::{
    fmt,
    ops::{BitAnd, Sub},
    time::Duration,
};

/// The number of a packet, counted per connection and direction. Never reused: a chunk that is
/// sent again travels under a new number (RFC 9000 §12.3), so every RTT sample is clean and the
/// loss of a retransmission is seen like any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PacketNumber(pub u64);

impl PacketNumber {
    /// The largest number that a connection may use. Reaching it closes the connection.
    pub const MAX: Self = Self((1 << 62) - 1);

    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// What travels in the header: the low 32 bits.
    #[must_use]
    pub const fn truncate(self) -> u32 {
        (self.0 & 0xffff_ffff) as u32
    }

    /// Restores a truncated number: the candidate nearest to `expected` (RFC 9000 §A.3).
    #[must_use]
    pub const fn expand(truncated: u32, expected: Self) -> Self {
        const WINDOW: u64 = 1 << 32;
        const HALF: u64 = WINDOW / 2;
        let candidate = (expected.0 & !(WINDOW - 1)) | truncated as u64;
        if candidate + HALF <= expected.0 && candidate + WINDOW <= Self::MAX.0 {
            Self(candidate + WINDOW)
        } else if candidate > expected.0 + HALF && candidate >= WINDOW {
            Self(candidate - WINDOW)
        } else {
            Self(candidate)
        }
    }
}

impl fmt::Display for PacketNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What identifies an association on the wire: 64 random bits chosen by the receiver of the
/// packets that carry it. Addresses may change beneath it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One of the ways that an association takes, from 0 on. A way through another interface is another path; a change of
/// address is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PathNumber(pub u8);

impl PathNumber {
    /// The path of the handshake.
    pub const FIRST: Self = Self(0);
    /// Paths of an association, at most.
    pub const COUNT: usize = 4;

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        // 4 numbers.
        (0..Self::COUNT as u8).map(Self)
    }
}

impl fmt::Display for PathNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A socket of the driver's: each interface that paths lead through has one. Who has one socket alone calls it 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SocketId(pub u8);

/// Whether a lane repairs until delivery or only until its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reliability {
    /// Every message arrives, once and in order.
    Reliable,
    /// A message arrives at most once and in order, or not at all.
    BestEffort,
}

/// A lane: one priority of one [`Reliability`], with an order of its own. A hole in one lane
/// never holds another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(u8);

impl LaneId {
    /// Priorities of a connection, `0` (most urgent) to `7`.
    pub const PRIORITIES: u8 = 8;
    /// Lanes of a connection.
    pub const COUNT: usize = 2 * Self::PRIORITIES as usize;

    /// The lane of `priority` (`0..=7`, `0` is the most urgent), or `None` outside that range.
    #[must_use]
    pub const fn new(priority: u8, reliability: Reliability) -> Option<Self> {
        if priority >= Self::PRIORITIES {
            return None;
        }
        Some(Self(priority << 1 | matches!(reliability, Reliability::BestEffort) as u8))
    }

    /// `0` (most urgent) to `7`.
    #[must_use]
    pub const fn priority(self) -> u8 {
        self.0 >> 1
    }

    /// Whether messages of this lane are repaired until they arrive.
    #[must_use]
    pub const fn reliability(self) -> Reliability {
        if self.0 & 1 == 0 {
            Reliability::Reliable
        } else {
            Reliability::BestEffort
        }
    }

    /// A dense index, `0..LaneId::COUNT`, in scheduling order.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// All lanes, the most urgent first.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> {
        (0..2 * Self::PRIORITIES).map(Self)
    }

    pub(crate) const fn from_wire(bits: u8) -> Self {
        Self(bits & 0x0f)
    }

    pub(crate) const fn to_wire(self) -> u8 {
        self.0
    }
}

impl fmt::Debug for LaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.reliability() {
            Reliability::Reliable => "rel",
            Reliability::BestEffort => "be",
        };
        write!(f, "{kind}{}", self.priority())
    }
}

/// A set of lanes. `&` is what two have in common, `-` what the first has alone.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneSet(u16);

impl LaneSet {
    pub(crate) const ALL: Self = Self(u16::MAX);
    pub(crate) const NONE: Self = Self(0);

    /// Whether no lane is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `lane` is in it.
    #[must_use]
    pub const fn contains(self, lane: LaneId) -> bool {
        self.0 & Self::of(lane).0 != 0
    }

    /// Adds `lane`.
    pub fn insert(&mut self, lane: LaneId) {
        self.0 |= Self::of(lane).0;
    }

    /// Takes `lane` out.
    pub fn remove(&mut self, lane: LaneId) {
        self.0 &= !Self::of(lane).0;
    }

    /// Its lanes, the most urgent first.
    pub fn iter(self) -> impl Iterator<Item = LaneId> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let first = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            // Of nothing, sixteen zeros trail.
            (first < u16::BITS).then_some(LaneId(first as u8))
        })
    }

    const fn of(lane: LaneId) -> Self {
        Self(1 << lane.0)
    }
}

impl BitAnd for LaneSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Sub for LaneSet {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl FromIterator<LaneId> for LaneSet {
    fn from_iter<I: IntoIterator<Item = LaneId>>(lanes: I) -> Self {
        lanes.into_iter().fold(Self::default(), |set, lane| Self(set.0 | Self::of(lane).0))
    }
}

impl fmt::Debug for LaneSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The number of a message within its lane, counted from 0 without gaps.
pub(crate) type MessageSeq = u64;

/// Bytes in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Rate(u64);

impl Rate {
    /// So many bytes per second.
    #[must_use]
    pub(crate) const fn from_bytes_per_second(bytes: u64) -> Self {
        Self(bytes)
    }

    /// So many bits per second, rounded down to whole bytes.
    #[must_use]
    pub(crate) const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits / 8)
    }

    /// `bytes` within `time`; `None` if that is no time, or more than 2^64 bytes per second.
    #[must_use]
    pub(crate) fn over(bytes: u64, time: Duration) -> Option<Self> {
        let rate = (u128::from(bytes) * NANOS_PER_SECOND).checked_div(time.as_nanos())?;
        u64::try_from(rate).ok().map(Self)
    }

    /// In bytes per second.
    #[must_use]
    pub(crate) const fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// Bytes in `time`, rounded down.
    #[must_use]
    pub(crate) fn bytes_in(self, time: Duration) -> u64 {
        let bytes = time.as_nanos().saturating_mul(self.0.into()) / NANOS_PER_SECOND;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// How long `bytes` take, rounded up: not a nanosecond less. An hour at most, which is as good as never: the rate
    /// will have changed.
    #[must_use]
    pub(crate) fn time_for(self, bytes: u64) -> Duration {
        const HOUR: Duration = Duration::from_secs(3_600);
        let nanos = (u128::from(bytes) * NANOS_PER_SECOND).div_ceil(self.0.max(1).into());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(HOUR)
    }

    /// So many times the rate, rounded down; `factor` is not negative.
    #[must_use]
    pub(crate) fn mul_f64(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor) as u64)
    }
}

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A probability in parts per million, so that estimates stay exact and comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Probability(u32);

impl Probability {
    /// Never.
    pub const ZERO: Self = Self(0);
    /// Always.
    pub const ONE: Self = Self(1_000_000);

    /// `ppm` parts per million, at most one.
    #[must_use]
    pub const fn from_ppm(ppm: u32) -> Self {
        Self(if ppm > 1_000_000 { 1_000_000 } else { ppm })
    }

    /// A share `0.0..=1.0`; values outside are clamped.
    #[must_use]
    pub fn from_f64(share: f64) -> Self {
        // The clamp bounds the cast.
        Self((share.clamp(0.0, 1.0) * 1e6).round() as u32)
    }

    /// As a share of one.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1e6
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} %", self.as_f64() * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lanes_are_dense_and_ordered_by_urgency() {
        let indices: Vec<_> = LaneId::all().map(LaneId::index).collect();
        assert_eq!(indices, (0..LaneId::COUNT).collect::<Vec<_>>());
        assert!(LaneId::new(8, Reliability::Reliable).is_none());
        for lane in LaneId::all() {
            assert_eq!(LaneId::new(lane.priority(), lane.reliability()), Some(lane));
        }
    }

    #[test]
    fn a_set_has_the_lanes_that_were_put_in_and_tells_them_by_urgency() {
        let mut set: LaneSet = LaneId::all().rev().collect();
        assert!(set.iter().eq(LaneId::all()));
        let (reliable, best_effort): (Vec<_>, Vec<_>) =
            LaneId::all().partition(|lane| lane.reliability() == Reliability::Reliable);
        best_effort.iter().for_each(|lane| set.remove(*lane));
        assert!(set.iter().eq(reliable.iter().copied()));
        assert!(LaneId::all().all(|lane| set.contains(lane) == reliable.contains(&lane)));
        let urgent: LaneSet = LaneId::all().take(3).collect();
        assert!((set & urgent).iter().eq([reliable[0], reliable[1]]));
        assert!((urgent - set).iter().eq([best_effort[0]]));
        reliable.iter().for_each(|lane| set.remove(*lane));
        assert!(set.is_empty() && set.iter().next().is_none());
        set.insert(best_effort[7]);
        assert_eq!(format!("{set:?}"), "{be7}");
    }

    #[test]
    fn a_rate_is_bytes_in_time() {
        let (second, rate) = (Duration::from_secs(1), Rate::from_bytes_per_second(1_000_000));
        assert_eq!(Rate::from_bits_per_second(8_000_007), rate);
        assert_eq!(Rate::over(20_000, second / 50), Some(rate));
        assert_eq!(Rate::over(1, Duration::ZERO), None);
        assert_eq!(Rate::over(u64::MAX, Duration::from_nanos(1)), None);
        assert_eq!(rate.bytes_in(Duration::from_nanos(2_999)), 2);
        assert_eq!(rate.bytes_in(Duration::MAX), u64::MAX);
        assert_eq!(Rate::from_bytes_per_second(3).time_for(1), Duration::from_nanos(333_333_334));
        assert_eq!(Rate::default().time_for(u64::MAX), 3_600 * second);
        assert_eq!(rate.mul_f64(1.25).bytes_per_second(), 1_250_000);
    }

    proptest! {
        // ARQ-NUM-2
        #[test]
        fn a_truncated_packet_number_is_restored(
            expected in 0..PacketNumber::MAX.0 - (1 << 32),
            offset in -(1_i64 << 31) + 1..(1_i64 << 31),
        ) {
            let actual = PacketNumber(expected.saturating_add_signed(offset));
            prop_assert_eq!(
                PacketNumber::expand(actual.truncate(), PacketNumber(expected)),
                actual
            );
        }
    }
}
