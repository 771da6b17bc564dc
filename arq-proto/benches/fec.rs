// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What do repair symbols cost the sender and the receiver, by each kernel that this machine has?

#![allow(missing_docs, reason = "the macros of criterion make public functions")]

use std::hint::black_box;

use arq_proto::fec::{self, kernel::Kernel};
use criterion::{criterion_group, criterion_main, BatchSize, BenchmarkId, Criterion, Throughput};

const CHUNK_BYTES: usize = 1_400;

fn message(count: usize) -> Vec<u8> {
    (0..count * CHUNK_BYTES).map(|n| (n % 251) as u8).collect()
}

fn mul_add(c: &mut Criterion) {
    let mut group = c.benchmark_group("mul_add of a chunk");
    group.throughput(Throughput::Bytes(CHUNK_BYTES as u64));
    let source = message(1);
    let mut target = source.clone();
    for kernel in Kernel::available() {
        group.bench_function(format!("{kernel:?}"), |b| {
            b.iter(|| kernel.mul_add(black_box(&mut target), black_box(&source), 0x8e));
        });
    }
    group.finish();
}

/// Chunks of a message, repair symbols sent, chunks lost.
const BLOCKS: [(usize, usize, usize); 4] = [(4, 1, 1), (10, 4, 2), (47, 10, 5), (47, 19, 12)];

fn blocks(c: &mut Criterion) {
    let mut group = c.benchmark_group("block");
    for (count, repair, lost) in BLOCKS {
        let message = message(count);
        let name = format!("{count}+{repair}, {lost} lost");
        let mut out = Vec::with_capacity(repair * CHUNK_BYTES);
        group.bench_function(BenchmarkId::new("encode", &name), |b| {
            b.iter(|| {
                out.clear();
                for symbol in 0..repair {
                    fec::encode(black_box(&message), CHUNK_BYTES, symbol, &mut out);
                }
            });
        });
        let mut block = Vec::new();
        let held: Vec<u8> = (0..lost as u8).collect();
        for &symbol in &held {
            fec::encode(&message, CHUNK_BYTES, symbol.into(), &mut block);
        }
        block.extend_from_slice(&message[lost * CHUNK_BYTES..]);
        let arrived = (u128::MAX >> (128 - count)) & !(u128::MAX >> (128 - lost));
        group.bench_function(BenchmarkId::new("decode", &name), |b| {
            b.iter_batched_ref(
                || block.clone(),
                |block| fec::decode(block, CHUNK_BYTES, count, arrived, &held),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, mul_add, blocks);
criterion_main!(benches);
