// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Sets of the symbols of one message: a bit for each, as no message has more than 128 (ADR 8).

use crate::wire::frame::Shape;

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

/// The chunks of `new` that lie within chunks of `old`, of which those in `there` are there.
pub(crate) fn covered(new: Shape, old: Shape, there: u128) -> u128 {
    let ends = |index: usize| (new.message_bytes).min((index + 1) * new.chunk_bytes);
    (0..new.chunk_count())
        .filter(|&index| {
            let first = index * new.chunk_bytes / old.chunk_bytes;
            let last = (ends(index) - 1) / old.chunk_bytes;
            (first..=last).all(|chunk| there >> chunk & 1 == 1)
        })
        .fold(0, |mask, index| mask | 1 << index)
}
