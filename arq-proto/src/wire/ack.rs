// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Acknowledgements that describe the whole open window.
//!
//! Any one of them that arrives makes up for all that were lost before it. Few holes are cheapest as
//! ranges, many as a bitmap: with a window of W packets and loss p there are W·p(1-p) ranges of
//! about two bytes, against W/8 bytes of bitmap. The encoder takes the form that reaches further back,
//! and the shorter one where both reach equally far; both are bounded by [`MAX_ACK_BYTES`], and what does
//! not fit is the oldest part.

use smallvec::SmallVec;

use super::cursor::{put_varint, varint_len, DecodeError, Reader};
use crate::{
    ecn::EcnCounts,
    range_set::RangeSet,
    units::{PacketNumber, PathNumber},
};

/// An acknowledgement never takes more of a packet than this.
pub const MAX_ACK_BYTES: usize = 256;
/// Ranges in one acknowledgement.
const MAX_RANGES: u64 = 64;
/// Bytes of bitmap in one acknowledgement.
const MAX_BITMAP_BYTES: u64 = 224;

const RANGES: u8 = 0x02;
const BITMAP: u8 = 0x03;
/// The same two with the counts of ECN.
const ECN_RANGES: u8 = 0x08;
const ECN_BITMAP: u8 = 0x09;
/// The four of another path than the one they travel on, whose number follows.
const PATH_RANGES: u8 = 0x0a;
const PATH_BITMAP: u8 = 0x0b;
const PATH_ECN_RANGES: u8 = 0x0e;
const PATH_ECN_BITMAP: u8 = 0x0f;

/// A decoded acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// Time between the arrival of the largest packet and the sending of this, in microseconds.
    pub delay_us: u64,
    /// What has arrived, the highest range first, disjoint, at least one.
    pub ranges: SmallVec<[(u64, u64); 16]>,
    /// With which codepoints of ECN packets have arrived on that path, if any has one.
    pub ecn: Option<EcnCounts>,
}

impl Ack {
    /// The largest packet number acknowledged.
    #[must_use]
    pub fn largest(&self) -> PacketNumber {
        PacketNumber(self.ranges.first().map_or(0, |&(_, end)| end))
    }

    /// Whether `kind` is the first byte of an acknowledgement.
    #[must_use]
    pub const fn is_kind(kind: u8) -> bool {
        matches!(kind, RANGES | BITMAP | ECN_RANGES | ECN_BITMAP)
    }

    /// Whether `kind` is the first byte of one of packets that took another path.
    #[must_use]
    pub const fn is_path_kind(kind: u8) -> bool {
        matches!(kind, PATH_RANGES | PATH_BITMAP | PATH_ECN_RANGES | PATH_ECN_BITMAP)
    }

    /// The packets that it names, one by one.
    pub(super) fn received(&self) -> RangeSet {
        let mut set = RangeSet::default();
        for number in self.ranges.iter().flat_map(|&(start, end)| start..=end) {
            set.insert(number);
        }
        set
    }

    /// Appends an acknowledgement of `received` in at most `room` bytes. `false`: it does not fit;
    /// with [`MAX_ACK_BYTES`] of room it always does, if need be without its oldest part. Counts that are all zero are
    /// left out.
    pub fn encode(
        received: &RangeSet,
        delay_us: u64,
        ecn: EcnCounts,
        room: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        Self::write(None, received, delay_us, ecn, room, out)
    }

    /// The same of packets that took another path than this acknowledgement.
    pub fn encode_of_path(
        path: PathNumber,
        received: &RangeSet,
        delay_us: u64,
        ecn: EcnCounts,
        room: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        Self::write(Some(path), received, delay_us, ecn, room, out)
    }

    fn write(
        path: Option<PathNumber>,
        received: &RangeSet,
        delay_us: u64,
        ecn: EcnCounts,
        room: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(largest) = received.max() else { return false };
        let room = room.min(MAX_ACK_BYTES);
        let ecn = (ecn != EcnCounts::NONE).then_some([ecn.ect0, ecn.ect1, ecn.ce]);
        let kinds = match (path, ecn) {
            (None, None) => [RANGES, BITMAP],
            (None, Some(_)) => [ECN_RANGES, ECN_BITMAP],
            (Some(_), None) => [PATH_RANGES, PATH_BITMAP],
            (Some(_), Some(_)) => [PATH_ECN_RANGES, PATH_ECN_BITMAP],
        };
        let counts_len: usize = ecn.iter().flatten().map(|&count| varint_len(count)).sum();
        let fixed = 1
            + usize::from(path.is_some())
            + varint_len(largest)
            + varint_len(delay_us)
            + counts_len
            + 2;
        if fixed + 8 > room {
            return false;
        }
        let ranges = RangesPlan::new(received, room - fixed);
        let bitmap = BitmapPlan::new(received, largest, room - fixed);
        let prefer_bitmap = match ranges.lowest.cmp(&bitmap.lowest) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => bitmap.bytes < ranges.bytes,
            std::cmp::Ordering::Greater => true,
        };
        let lowest = ranges.lowest.min(bitmap.lowest);
        let complete = received.iter_descending().last().is_none_or(|r| *r.start() >= lowest);
        if !complete && room < MAX_ACK_BYTES {
            return false;
        }
        out.push(kinds[usize::from(prefer_bitmap)]);
        out.extend(path.map(|path| path.0));
        put_varint(out, largest);
        put_varint(out, delay_us);
        if prefer_bitmap {
            bitmap.write(received, largest, out);
        } else {
            ranges.write(received, out);
        }
        ecn.iter().flatten().for_each(|&count| put_varint(out, count));
        true
    }

    /// Reads what follows the first byte `kind`.
    pub fn decode(kind: u8, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let largest = reader.varint("ack.largest")?;
        let delay_us = reader.varint("ack.delay")?;
        let ranges = match kind {
            RANGES | ECN_RANGES | PATH_RANGES | PATH_ECN_RANGES => decode_ranges(largest, reader)?,
            BITMAP | ECN_BITMAP | PATH_BITMAP | PATH_ECN_BITMAP => decode_bitmap(largest, reader)?,
            _ => return Err(DecodeError::Invalid("ack.kind")),
        };
        let ecn = match kind {
            ECN_RANGES | ECN_BITMAP | PATH_ECN_RANGES | PATH_ECN_BITMAP => Some(EcnCounts {
                ect0: reader.varint("ack.ect0")?,
                ect1: reader.varint("ack.ect1")?,
                ce: reader.varint("ack.ce")?,
            }),
            _ => None,
        };
        Ok(Self { delay_us, ranges, ecn })
    }
}

fn decode_ranges(
    largest: u64,
    reader: &mut Reader<'_>,
) -> Result<SmallVec<[(u64, u64); 16]>, DecodeError> {
    let count = reader.varint_max(MAX_RANGES - 1, "ack.count")?;
    let mut ranges = SmallVec::new();
    let mut end = largest;
    let mut start =
        end.checked_sub(reader.varint("ack.length")?).ok_or(DecodeError::Invalid("ack.length"))?;
    ranges.push((start, end));
    for _ in 0..count {
        // A gap of g stands for g + 1 missing numbers, so ranges can never touch.
        let gap = reader.varint("ack.gap")?;
        end = start.checked_sub(gap + 2).ok_or(DecodeError::Invalid("ack.gap"))?;
        start = end
            .checked_sub(reader.varint("ack.length")?)
            .ok_or(DecodeError::Invalid("ack.length"))?;
        ranges.push((start, end));
    }
    Ok(ranges)
}

fn decode_bitmap(
    largest: u64,
    reader: &mut Reader<'_>,
) -> Result<SmallVec<[(u64, u64); 16]>, DecodeError> {
    let len = reader.varint_max(MAX_BITMAP_BYTES, "ack.bitmap")?;
    let map = reader.bytes(len as usize, "ack.bitmap")?;
    let mut ranges = SmallVec::new();
    let (mut start, mut end) = (largest, largest);
    for (offset, _) in bits(map).enumerate().filter(|&(_, is_set)| is_set) {
        let number =
            largest.checked_sub(1 + offset as u64).ok_or(DecodeError::Invalid("ack.bitmap"))?;
        if number + 1 == start {
            start = number;
        } else {
            ranges.push((start, end));
            (start, end) = (number, number);
        }
    }
    ranges.push((start, end));
    Ok(ranges)
}

fn bits(map: &[u8]) -> impl Iterator<Item = bool> + '_ {
    map.iter().flat_map(|byte| (0..8).map(move |bit| byte & (0x80 >> bit) != 0))
}

/// How much of the window the range form covers in the room there is.
struct RangesPlan {
    count: usize,
    bytes: usize,
    lowest: u64,
}

impl RangesPlan {
    fn new(received: &RangeSet, room: usize) -> Self {
        let mut plan = Self { count: 0, bytes: 0, lowest: u64::MAX };
        let mut above: Option<u64> = None;
        for range in received.iter_descending().take(MAX_RANGES as usize) {
            let (start, end) = range.into_inner();
            let cost = varint_len(end - start) + above.map_or(0, |a| varint_len(a - end - 2));
            if plan.bytes + cost > room {
                break;
            }
            plan.bytes += cost;
            plan.count += 1;
            plan.lowest = start;
            above = Some(start);
        }
        plan
    }

    fn write(&self, received: &RangeSet, out: &mut Vec<u8>) {
        put_varint(out, self.count.saturating_sub(1) as u64);
        let mut above: Option<u64> = None;
        for range in received.iter_descending().take(self.count) {
            let (start, end) = range.into_inner();
            if let Some(above) = above {
                put_varint(out, above - end - 2);
            }
            put_varint(out, end - start);
            above = Some(start);
        }
    }
}

/// How much of the window the bitmap form covers in the room there is.
struct BitmapPlan {
    bytes: usize,
    lowest: u64,
}

impl BitmapPlan {
    fn new(received: &RangeSet, largest: u64, room: usize) -> Self {
        let oldest = received.iter_descending().last().map_or(largest, |range| *range.start());
        let wanted = (largest - oldest).div_ceil(8);
        let bytes = wanted.min(MAX_BITMAP_BYTES).min(room as u64);
        let reach = largest.saturating_sub(8 * bytes);
        // The lowest number that the map can name and that was received.
        let lowest = received
            .iter_descending()
            .filter(|range| *range.end() >= reach)
            .last()
            .map_or(largest, |range| reach.max(*range.start()));
        Self { bytes: bytes as usize, lowest }
    }

    fn write(&self, received: &RangeSet, largest: u64, out: &mut Vec<u8>) {
        put_varint(out, self.bytes as u64);
        let start = out.len();
        out.resize(start + self.bytes, 0);
        let map: &mut [u8] = &mut out[start..];
        for range in received.iter_descending() {
            let (start, end) = range.into_inner();
            // The largest itself is implied.
            for number in start.max(self.lowest)..(end + 1).min(largest) {
                let offset = (largest - 1 - number) as usize;
                map[offset / 8] |= 0x80 >> (offset % 8);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set_of(numbers: impl IntoIterator<Item = u64>) -> RangeSet {
        let mut set = RangeSet::default();
        for n in numbers {
            set.insert(n);
        }
        set
    }

    fn round_trip(set: &RangeSet, room: usize) -> Option<Ack> {
        round_trip_with(set, EcnCounts::NONE, room)
    }

    fn round_trip_with(set: &RangeSet, ecn: EcnCounts, room: usize) -> Option<Ack> {
        let mut out = Vec::new();
        if !Ack::encode(set, 77, ecn, room, &mut out) {
            assert!(out.is_empty());
            return None;
        }
        assert!(out.len() <= room.min(MAX_ACK_BYTES));
        let mut reader = Reader::new(&out);
        let kind = reader.u8("kind").unwrap();
        let ack = Ack::decode(kind, &mut reader).unwrap();
        assert!(reader.is_empty());
        Some(ack)
    }

    #[test]
    fn a_dense_window_with_many_holes_becomes_a_bitmap() {
        let set = set_of((10_000..11_024).filter(|n| n % 3 != 0));
        let mut out = Vec::new();
        assert!(Ack::encode(&set, 0, EcnCounts::NONE, 1_000, &mut out));
        assert_eq!(out[0], BITMAP);
        let ack = round_trip(&set, 1_000).unwrap();
        let named: u64 = ack.ranges.iter().map(|(s, e)| e - s + 1).sum();
        assert_eq!(named, (10_000..11_024).filter(|n| n % 3 != 0).count() as u64);
    }

    // ARQ-ECN-1
    #[test]
    fn who_has_seen_no_mark_sends_no_byte_more() {
        let encoded = |ecn| {
            let mut out = Vec::new();
            assert!(Ack::encode(&set_of(0..9), 0, ecn, MAX_ACK_BYTES, &mut out));
            out
        };
        let (without, with) =
            (encoded(EcnCounts::NONE), encoded(EcnCounts { ect0: 9, ect1: 0, ce: 0 }));
        assert_eq!((without[0], with[0]), (RANGES, ECN_RANGES));
        assert_eq!(with[1..without.len()], without[1..]);
        assert_eq!(with[without.len()..], [9, 0, 0]);
    }

    // ARQ-FRM-3
    #[test]
    fn ranges_below_zero_are_refused() {
        let mut out = Vec::new();
        put_varint(&mut out, 3);
        put_varint(&mut out, 0);
        put_varint(&mut out, 0);
        put_varint(&mut out, 4);
        assert_eq!(
            Ack::decode(RANGES, &mut Reader::new(&out)),
            Err(DecodeError::Invalid("ack.length"))
        );
    }

    proptest! {
        // ARQ-ACK-3
        #[test]
        fn names_only_what_arrived_and_everything_when_it_fits(
            base in prop_oneof![Just(0), 0_u64..1 << 40],
            offsets in prop::collection::btree_set(0_u64..3_000, 1..400),
            room in 0_usize..400,
            counts in prop_oneof![Just([0; 3]), prop::array::uniform3(0_u64..1 << 62)],
        ) {
            let set = set_of(offsets.iter().map(|o| base + o));
            let ecn = EcnCounts { ect0: counts[0], ect1: counts[1], ce: counts[2] };
            let Some(ack) = round_trip_with(&set, ecn, room) else {
                prop_assert!(room < MAX_ACK_BYTES);
                return Ok(());
            };
            prop_assert_eq!(ack.delay_us, 77);
            prop_assert_eq!(ack.ecn, (ecn != EcnCounts::NONE).then_some(ecn));
            prop_assert_eq!(ack.largest().0, set.max().unwrap());
            let mut lowest = u64::MAX;
            for &(start, end) in &ack.ranges {
                prop_assert!(start <= end && end < lowest);
                lowest = start;
                for n in start..=end {
                    prop_assert!(set.contains(n));
                }
            }
            // It leaves out the oldest only where it has all the room it may have, and nothing above.
            prop_assert!(room >= MAX_ACK_BYTES || lowest == base + offsets.first().unwrap());
            let named: u64 = ack.ranges.iter().map(|(s, e)| e - s + 1).sum();
            let above = offsets.iter().filter(|&&o| base + o >= lowest).count() as u64;
            prop_assert_eq!(named, above);
        }

        // ARQ-ERR-3
        #[test]
        fn any_bytes_decode_or_fail(kind in 2_u8..16, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(ack) = Ack::decode(kind, &mut Reader::new(&bytes)) {
                prop_assert!(!ack.ranges.is_empty());
                prop_assert!(ack.ranges.iter().all(|(s, e)| s <= e));
            }
        }
    }
}
