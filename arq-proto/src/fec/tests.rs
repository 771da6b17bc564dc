// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

use proptest::prelude::*;
use reed_solomon_erasure::galois_8::ReedSolomon;

use super::*;

fn message(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// A block in which the chunks in `arrived` are in place and `held` fills the others.
fn block(message: &[u8], chunk_bytes: usize, arrived: u128, held: &[u8]) -> Vec<u8> {
    let count = message.len().div_ceil(chunk_bytes);
    let mut held = held.iter();
    let mut block = Vec::new();
    for index in 0..count {
        let start = block.len();
        if arrived >> index & 1 == 1 {
            let end = message.len().min(start + chunk_bytes);
            block.extend_from_slice(&message[start..end]);
            block.resize(start + chunk_bytes, 0);
        } else {
            let symbol = *held.next().expect("a repair symbol for each hole");
            encode(message, chunk_bytes, symbol.into(), &mut block);
        }
    }
    block
}

fn decodes(message: &[u8], chunk_bytes: usize, arrived: u128, held: &[u8]) {
    let count = message.len().div_ceil(chunk_bytes);
    let mut block = block(message, chunk_bytes, arrived, held);
    decode(&mut block, chunk_bytes, count, arrived, held);
    assert!(block[..message.len()] == *message, "{count} chunks, {arrived:b}, {held:?}");
    assert!(block[message.len()..].iter().all(|&byte| byte == 0), "the padding is restored");
}

// ARQ-FEC-2
#[test]
fn every_loss_pattern_of_small_blocks_decodes() {
    const SYMBOLS: usize = 10;
    for count in 1..=6_usize {
        let message = message(count * 5 - 2);
        // Any `count` of the first ten symbols: sources below, repair symbols above.
        for pattern in (0_u128..1 << SYMBOLS).filter(|p| p.count_ones() as usize == count) {
            let held: Vec<u8> = bits(pattern >> count).map(|symbol| symbol as u8).collect();
            decodes(&message, 5, pattern & lowest_bits(count), &held);
        }
    }
}

// ARQ-FEC-2
#[test]
fn the_largest_block_decodes_from_repair_symbols_alone() {
    let message = message(MAX_CHUNKS * 7 - 3);
    let all: Vec<u8> = (0..MAX_REPAIR_SYMBOLS).map(|symbol| symbol as u8).collect();
    decodes(&message, 7, 0, &all);
    let reversed: Vec<u8> = all.into_iter().rev().collect();
    decodes(&message, 7, 0, &reversed);
}

// ARQ-FEC-1
#[test]
fn repair_symbols_are_as_documented() {
    // 1 / (0 ^ 128), 1 / (1 ^ 128), 1 / (0 ^ 129), 1 / (1 ^ 129).
    let coefficients = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(s, c)| coefficient(s, c));
    assert_eq!(coefficients, [0x1b, 0x54, 0x54, 0x1b]);
    let mut symbol = Vec::new();
    encode(&[1, 0, 0, 1, 1], 2, 0, &mut symbol);
    assert_eq!(symbol, [0x1b ^ coefficient(0, 2), 0x54]);
}

proptest! {
    // ARQ-FEC-2
    #[test]
    fn any_symbols_decode(
        len in 1..=65_535_usize,
        chunk_bytes in 512..9_000_usize,
        order in Just((0..256_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let chunk_bytes = chunk_bytes.min(len);
        let count = len.div_ceil(chunk_bytes);
        let symbols = order.into_iter().filter(|&n| n < count || n >= MAX_CHUNKS).take(count);
        let (mut arrived, mut held) = (0, Vec::new());
        for symbol in symbols {
            match symbol.checked_sub(MAX_CHUNKS) {
                Some(repair) => held.push(repair as u8),
                None => arrived |= 1 << symbol,
            }
        }
        decodes(&message(len), chunk_bytes, arrived, &held);
    }

    /// Another library restores the same chunks from as many losses: its matrix is a different one,
    /// so this compares what both are for, and the table of products compares how.
    // ARQ-FEC-2
    #[test]
    fn agrees_with_another_implementation(
        count in 1_usize..40,
        repair in 1_usize..20,
        lost in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let chunk_bytes = 24;
        let message = message(count * chunk_bytes);
        let mut lost: Vec<usize> = lost.iter().take(repair).map(|n| n.index(count)).collect();
        lost.sort_unstable();
        lost.dedup();

        let other = ReedSolomon::new(count, repair).unwrap();
        let mut shards: Vec<Vec<u8>> = message.chunks(chunk_bytes).map(<[u8]>::to_vec).collect();
        shards.resize(count + repair, vec![0; chunk_bytes]);
        other.encode(&mut shards).unwrap();
        let mut shards: Vec<_> = shards.into_iter().map(Some).collect();
        lost.iter().for_each(|&n| shards[n] = None);
        other.reconstruct_data(&mut shards).unwrap();
        let theirs: Vec<u8> = shards.into_iter().take(count).flatten().flatten().collect();

        let arrived = lowest_bits(count) & !lost.iter().fold(0, |mask, n| mask | 1_u128 << n);
        let held: Vec<u8> = (0..lost.len() as u8).collect();
        let mut ours = block(&message, chunk_bytes, arrived, &held);
        decode(&mut ours, chunk_bytes, count, arrived, &held);
        prop_assert_eq!(ours, theirs);
    }
}
