// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does a message cost from one application to the other, without a network between?

#![allow(missing_docs, reason = "the macros of criterion make public functions")]

#[path = "../tests/common/direct.rs"]
mod direct;

use std::hint::black_box;

use arq_proto::{recv::reassembly::Reassembly, wire::frame::ChunkFrame, LaneId, Reliability};
use bytes::Bytes;
use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use direct::Link;

const MESSAGE_BYTES: usize = 65_535;
const CHUNK_BYTES: usize = 1_150;

fn lane() -> LaneId {
    LaneId::new(5, Reliability::Reliable).expect("the priority is in range")
}

fn messages(c: &mut Criterion) {
    let mut group = c.benchmark_group("message");
    for len in [100, 1_000, MESSAGE_BYTES] {
        let message = Bytes::from(vec![7; len]);
        let mut link = Link::new();
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(format!("{len} B from application to application"), |b| {
            b.iter(|| link.deliver(black_box(&message)));
        });
    }
    group.finish();
}

fn reassembly(c: &mut Criterion) {
    let mut group = c.benchmark_group("reassembly");
    let message = vec![7; MESSAGE_BYTES];
    let chunks: Vec<_> = message
        .chunks(CHUNK_BYTES)
        .enumerate()
        .map(|(index, data)| ChunkFrame {
            lane: lane(),
            seq: 0,
            message_bytes: MESSAGE_BYTES,
            chunk_bytes: CHUNK_BYTES,
            index,
            data,
        })
        .collect();
    group.throughput(Throughput::Bytes(MESSAGE_BYTES as u64));
    group.bench_function("65,535 B of 57 chunks, backwards", |b| {
        b.iter(|| {
            let mut reassembly = Reassembly::new(chunks[0].shape());
            for chunk in chunks.iter().rev() {
                assert_eq!(reassembly.insert(black_box(chunk)), Ok(true));
            }
            reassembly.into_message().len()
        });
    });
    group.finish();
}

criterion_group!(benches, messages, reassembly);
criterion_main!(benches);
