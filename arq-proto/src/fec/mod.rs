// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How do any `k` symbols restore a message of `k` chunks?
//!
//! A systematic Cauchy Reed-Solomon code over GF(2^8): the chunks are the *source symbols*, and up
//! to 128 *repair symbols* are linear combinations of them, each computable by its index alone. The
//! code is MDS: any `k` different symbols give a message of `k` chunks, so a repair symbol stands in
//! for whichever chunk was lost, known or not. A block is one message, complete when it is handed
//! over: sliding windows and rateless codes would gain nothing and cost more at 2 to 128 chunks.
//!
//! Repair symbol `j` is the sum over the chunks `i` of `d_i / (i ^ (128 + j))`. The matrix with the
//! entries `1 / (x_j + y_i)`, all `x_j` and `y_i` different, is a Cauchy matrix: every square part
//! of it is regular, which is why any set of symbols decodes, and without a search for pivots (Blömer
//! et al., "An XOR-Based Erasure-Resilient Coding Scheme", 1995).

pub mod gf256;
pub mod kernel;

use kernel::mul_add;

use crate::{
    symbol::{bits, lowest_bits},
    wire::{MAX_CHUNKS, MAX_REPAIR_SYMBOLS},
};

/// The coefficient of chunk `chunk` in repair symbol `symbol`.
fn coefficient(symbol: usize, chunk: usize) -> u8 {
    debug_assert!(symbol < MAX_REPAIR_SYMBOLS && chunk < MAX_CHUNKS);
    // Both sums lie below 256, and differ in the top bit.
    gf256::inverse((MAX_CHUNKS + symbol) as u8 ^ chunk as u8)
}

/// Appends repair symbol `symbol` of `message`, segmented into chunks of `chunk_bytes`; a shorter last one
/// counts as padded with zeros.
pub fn encode(message: &[u8], chunk_bytes: usize, symbol: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + chunk_bytes, 0);
    for (index, chunk) in message.chunks(chunk_bytes).enumerate() {
        mul_add(&mut out[start..start + chunk.len()], chunk, coefficient(symbol, index));
    }
}

/// Restores the missing chunks of a block of `count` chunks, in place.
///
/// `block` holds `count * chunk_bytes` bytes. The chunks in `arrived` are in their places; each
/// other place holds a repair symbol, whose index stands in `held` in the order of these places.
///
/// # Panics
/// `held` does not have one index for each missing chunk.
pub fn decode(block: &mut [u8], chunk_bytes: usize, count: usize, arrived: u128, held: &[u8]) {
    let missing = lowest_bits(count) & !arrived;
    assert_eq!(missing.count_ones() as usize, held.len(), "one repair symbol for each hole");
    let missing: Vec<usize> = bits(missing).collect();
    for (&place, &symbol) in missing.iter().zip(held) {
        for source in bits(arrived) {
            let factor = coefficient(symbol.into(), source);
            add_row(block, chunk_bytes, place, source, factor);
        }
    }
    solve(block, chunk_bytes, &missing, held);
}

/// Gauss-Jordan elimination: the places in `missing` hold sums of the missing chunks, and become
/// these chunks.
fn solve(block: &mut [u8], chunk_bytes: usize, missing: &[usize], held: &[u8]) {
    let size = missing.len();
    let mut matrix: Vec<u8> = held
        .iter()
        .flat_map(|&symbol| missing.iter().map(move |&chunk| coefficient(symbol.into(), chunk)))
        .collect();
    let mut scratch = Vec::with_capacity(chunk_bytes.max(size));
    for pivot in 0..size {
        // Every leading minor of a Cauchy matrix is regular: the pivot is never zero.
        let inverse = gf256::inverse(matrix[pivot * size + pivot]);
        scale(&mut matrix[pivot * size..][..size], inverse, &mut scratch);
        scale(&mut block[missing[pivot] * chunk_bytes..][..chunk_bytes], inverse, &mut scratch);
        for row in (0..size).filter(|&row| row != pivot) {
            let factor = matrix[row * size + pivot];
            add_row(&mut matrix, size, row, pivot, factor);
            add_row(block, chunk_bytes, missing[row], missing[pivot], factor);
        }
    }
}

/// Adds row `source` times `factor` to row `target`, another one.
fn add_row(rows: &mut [u8], len: usize, target: usize, source: usize, factor: u8) {
    let (low, high) = rows.split_at_mut(target.max(source) * len);
    if target < source {
        mul_add(&mut low[target * len..][..len], &high[..len], factor);
    } else {
        mul_add(&mut high[..len], &low[source * len..][..len], factor);
    }
}

/// Multiplies a row: adding `factor - 1` times itself needs no loop of its own, only a copy.
fn scale(row: &mut [u8], factor: u8, scratch: &mut Vec<u8>) {
    scratch.clear();
    scratch.extend_from_slice(row);
    mul_add(row, scratch, factor ^ 1);
}

#[cfg(test)]
mod tests;
