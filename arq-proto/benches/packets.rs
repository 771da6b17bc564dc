// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does a packet cost: written, read, and acknowledged among 1,024 in flight?

#![allow(missing_docs, reason = "the macros of criterion make public functions")]

use std::{
    hint::black_box,
    net::SocketAddr,
    time::{Duration, Instant},
};

use arq_proto::{
    range_set::RangeSet,
    wire::{
        ack::Ack,
        cursor::Reader,
        frame::{ChunkFrame, Frame},
        protection::{Opened, PacketProtection},
    },
    Config, CongestionConfig, ConnectionId, EcnCounts, LaneId, PacketNumber, PathNumber,
    Reliability,
};
use arq_sim::{
    harness::Victim,
    hostile::{data_packet, Sighting},
};
use bytes::Bytes;
use criterion::{criterion_group, criterion_main, BatchSize, Criterion, Throughput};

const CHUNK: [u8; 1_150] = [0x5a; 1_150];
const DCID: ConnectionId = ConnectionId(7);
const IN_FLIGHT: u64 = 1_024;

fn lane(priority: u8) -> LaneId {
    LaneId::new(priority, Reliability::Reliable).expect("the priority is in range")
}

fn write_packet(protection: &mut PacketProtection, number: PacketNumber, out: &mut Vec<u8>) {
    out.clear();
    protection.write_header(DCID, number, 500, None, out);
    protection.set_ack_now(out);
    let (message_bytes, chunk_bytes) = (60_000, CHUNK.len());
    let chunk =
        ChunkFrame { lane: lane(5), seq: 99, message_bytes, chunk_bytes, index: 3, data: &CHUNK };
    Frame::Chunk(chunk).encode(out);
    let sealed = protection.seal(PathNumber::FIRST, number, out, 0);
    assert_eq!(sealed, Ok(()));
}

fn read_packet(now: Instant, protection: &mut PacketProtection, datagram: &mut [u8]) -> usize {
    let expand = |number| Some(PacketNumber::expand(number, PacketNumber(1_000)));
    let opened =
        protection.open(now, || Duration::ZERO, (PathNumber::FIRST, DCID), datagram, expand);
    let Ok(Opened { frames, .. }) = opened else { return 0 };
    let mut reader = Reader::new(frames);
    let mut bytes = 0;
    while let Ok(Some(frame)) = Frame::decode(&mut reader) {
        if let Frame::Chunk(chunk) = frame {
            bytes += chunk.data.len();
        }
    }
    bytes
}

fn codec(c: &mut Criterion) {
    let mut group = c.benchmark_group("packet");
    let mut out = Vec::with_capacity(2_000);
    let (mut protection, mut number) = (PacketProtection::default(), PacketNumber(1_000));
    write_packet(&mut protection, number, &mut out);
    group.throughput(Throughput::Bytes(out.len() as u64));
    group.bench_function("encode a full packet", |b| {
        b.iter(|| {
            number = number.next();
            write_packet(&mut protection, number, black_box(&mut out));
        });
    });
    #[allow(clippy::disallowed_methods, reason = "the clock of the driver")]
    let now = Instant::now();
    assert_eq!(read_packet(now, &mut protection, &mut out), CHUNK.len());
    group.bench_function("decode a full packet", |b| {
        b.iter(|| read_packet(now, &mut protection, black_box(&mut out)));
    });
    group.finish();
}

/// The numbers of the last 1,024 packets, every tenth of them missing.
fn received(first: u64) -> RangeSet {
    let mut set = RangeSet::default();
    for number in (first..first + IN_FLIGHT).filter(|number| number % 10 != 0) {
        set.insert(number);
    }
    set
}

fn acks(c: &mut Criterion) {
    let mut group = c.benchmark_group("ack");
    let set = received(0);
    let mut out = Vec::new();
    group.bench_function("encode a window of 1,024 with 10 % missing", |b| {
        b.iter(|| {
            out.clear();
            Ack::encode(black_box(&set), 10, EcnCounts::NONE, 1_000, &mut out)
        });
    });
    group.bench_function("decode it", |b| {
        b.iter(|| Ack::decode(out[0], &mut Reader::new(black_box(&out[1..]))));
    });
    let ack_of = |holes: bool| {
        let (victim, at, first) = sender_in_flight();
        let mut frames = Vec::new();
        let mut set = received(first);
        if !holes {
            for number in first..first + IN_FLIGHT {
                set.insert(number);
            }
        }
        assert!(Ack::encode(&set, 10, EcnCounts::NONE, 1_000, &mut frames));
        (victim, data_packet(at, 0, false, &frames))
    };
    for (name, holes) in
        [("handle one of all 1,024 in flight", false), ("handle one with 10 % missing", true)]
    {
        group.bench_function(name, |b| {
            b.iter_batched(
                || ack_of(holes),
                |(mut victim, mut packet)| {
                    let from: SocketAddr = victim.peer();
                    let (now, connection) = victim.parts();
                    connection.handle_datagram(now, from, &mut packet);
                    assert!(connection.stats().in_flight_bytes < 200_000);
                    victim
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// A connection with 1,024 packets in flight, the packet in which its peer may answer, and the
/// number of the first one.
fn sender_in_flight() -> (Victim, Sighting, u64) {
    let config = Config {
        congestion: CongestionConfig::Constant { window_bytes: 16 << 20 },
        lane_window_bytes: 16 << 20,
        connection_window_bytes: 16 << 20,
        queue_bytes: Some(16 << 20),
        ..Config::default()
    };
    let mut victim = Victim::new(config.validate().expect("the configuration is valid"));
    let first = victim.newest() + 1;
    let message = Bytes::from_static(&CHUNK);
    let (mut lanes, mut tries) = ((0..8).cycle().map(lane), 0);
    while victim.newest() < first + IN_FLIGHT {
        let lane = lanes.next().expect("a cycle has no end");
        victim
            .with_connection(|now, conn| conn.send(now, lane, message.clone()))
            .expect("no lane has more open messages than it may");
        // The pacer sets the pace.
        victim.sleep(Duration::from_micros(1));
        tries += 1;
        assert!(tries < 2 * IN_FLIGHT, "the window is wide enough");
    }
    assert_eq!(victim.connection().stats().ptos, 0);
    let at = victim.next_packet(0);
    (victim, at, first)
}

criterion_group!(benches, codec, acks);
criterion_main!(benches);
