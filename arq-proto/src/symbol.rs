// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Symbols of a message: chunks, and repair symbols that stand in for any of them.
//!
//! A [`SymbolSet`] has one bit for each, because no message has more than 128 of either (ADR 8).

use std::{
    fmt,
    ops::{BitAnd, BitOr, BitOrAssign, Sub, SubAssign},
};

use crate::{units::MessageSeq, wire::frame::Shape};

/// What one frame carries of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Symbol {
    /// The chunk with this index.
    Source(u8),
    /// The repair symbol with this index.
    Repair(u8),
}

/// A symbol chosen to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SymbolRef {
    pub(crate) seq: MessageSeq,
    /// How often the message had been resegmented.
    pub(crate) segmentation: u8,
    pub(crate) symbol: Symbol,
    /// Bytes of its frame.
    pub(crate) frame_len: usize,
}

/// Some of the chunks of a message, or of its repair symbols, by their indices below 128.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SymbolSet(u128);

impl SymbolSet {
    pub(crate) const EMPTY: Self = Self(0);

    /// The first `count`.
    pub(crate) const fn first(count: usize) -> Self {
        Self(lowest_bits(count))
    }

    /// This one alone.
    pub(crate) const fn only(index: usize) -> Self {
        Self(1 << index)
    }

    /// All chunks of a message.
    pub(crate) fn chunks_of(shape: Shape) -> Self {
        Self::first(shape.chunk_count())
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(crate) const fn contains(self, index: usize) -> bool {
        self.0 >> index & 1 == 1
    }

    pub(crate) fn insert(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    pub(crate) fn remove(&mut self, index: usize) {
        self.0 &= !(1 << index);
    }

    /// The least index.
    pub(crate) fn lowest(self) -> Option<usize> {
        self.iter().next()
    }

    /// The least index that is not in it.
    pub(crate) const fn lowest_missing(self) -> usize {
        self.0.trailing_ones() as usize
    }

    /// The indices, the least first.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        bits(self.0)
    }

    /// As the codec takes it: bit `n` stands for index `n`.
    pub(crate) const fn as_bits(self) -> u128 {
        self.0
    }

    /// The chunks of segmentation `new` that lie wholly within these chunks of segmentation `old`.
    pub(crate) fn resegment(self, old: Shape, new: Shape) -> Self {
        let ends = |index: usize| (new.message_bytes).min((index + 1) * new.chunk_bytes);
        let is_there = |index: &usize| {
            let first = index * new.chunk_bytes / old.chunk_bytes;
            let last = (ends(*index) - 1) / old.chunk_bytes;
            (first..=last).all(|chunk| self.contains(chunk))
        };
        (0..new.chunk_count()).filter(is_there).collect()
    }
}

impl BitOr for SymbolSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for SymbolSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Sub for SymbolSet {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOrAssign for SymbolSet {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl SubAssign for SymbolSet {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl FromIterator<usize> for SymbolSet {
    fn from_iter<I: IntoIterator<Item = usize>>(indices: I) -> Self {
        Self(indices.into_iter().fold(0, |set, index| set | 1 << index))
    }
}

impl fmt::Debug for SymbolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// A mask of the lowest `count` bits, `count <= 128`.
pub(crate) const fn lowest_bits(count: usize) -> u128 {
    if count >= 128 {
        u128::MAX
    } else {
        (1 << count) - 1
    }
}

/// The numbers of the bits that are set.
pub(crate) fn bits(mut mask: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros() as usize;
        let more = mask != 0;
        mask &= mask.wrapping_sub(1);
        more.then_some(bit)
    })
}
