// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does a message cost from one application to the other, without a network between?

#![allow(missing_docs, reason = "the macros of criterion make public functions")]

use std::{
    hint::black_box,
    net::SocketAddr,
    time::{Duration, Instant},
};

use arq_proto::{
    recv::reassembly::Reassembly, wire::frame::ChunkFrame, Config, ConfigBuilder, CongestionConfig,
    Connection, Endpoint, EndpointConfig, LaneId, Reliability, Routed,
};
use bytes::Bytes;
use criterion::{criterion_group, criterion_main, Criterion, Throughput};

const MESSAGE_BYTES: usize = 65_535;
const CHUNK_BYTES: usize = 1_150;
/// Segments of one transmission: what GSO takes at this packet size.
const SEGMENTS: usize = 44;

fn lane() -> LaneId {
    LaneId::new(5, Reliability::Reliable).expect("the priority is in range")
}

/// Two connected sides. Time moves by what a packet would take at 10 Gb/s.
struct Link {
    now: Instant,
    ends: [Connection; 2],
    addresses: [SocketAddr; 2],
    buf: Vec<u8>,
}

impl Link {
    fn new() -> Self {
        // A benchmark is a driver: it owns the clock.
        #[allow(clippy::disallowed_methods, reason = "the clock of the driver")]
        let now = Instant::now();
        let config = ConfigBuilder {
            congestion: CongestionConfig::Constant { window_bytes: 4 << 20 },
            ..Config::builder()
        };
        let config = config.build().expect("the configuration is valid");
        let addresses: [SocketAddr; 2] = [([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into()];
        let accept = EndpointConfig { accept: Some(config.clone()), ..EndpointConfig::default() };
        let mut server = Endpoint::new(accept, [1; 32], now);
        let mut endpoint = Endpoint::new(EndpointConfig::default(), [2; 32], now);
        let (_, mut client) = endpoint.connect(now, addresses[1], config);
        let (mut buf, mut reply) = (Vec::new(), Vec::new());
        loop {
            buf.clear();
            client.poll_transmit(now, &mut buf, 1).expect("the handshake goes on");
            match server.route(now, addresses[0], &buf, &mut reply) {
                Routed::Reply => client.handle_datagram(now, addresses[1], &reply),
                Routed::Accepted { mut connection, .. } => {
                    connection.handle_datagram(now, addresses[0], &buf);
                    return Self { now, ends: [client, *connection], addresses, buf };
                }
                Routed::Connection(_) | Routed::Dropped => panic!("the handshake failed"),
            }
        }
    }

    /// Everything that one side has to say, to the other.
    fn carry(&mut self, from: usize) -> usize {
        let mut datagrams = 0;
        let (now, to) = (self.now, 1 - from);
        self.buf.clear();
        while let Some(transmit) = self.ends[from].poll_transmit(now, &mut self.buf, SEGMENTS) {
            for datagram in self.buf.chunks(transmit.segment_size) {
                self.ends[to].handle_datagram(now, self.addresses[from], datagram);
                datagrams += 1;
            }
            self.buf.clear();
        }
        datagrams
    }

    /// Sends a message and reads it at the other side.
    fn deliver(&mut self, message: &Bytes) -> usize {
        let sent = self.ends[0].send(self.now, lane(), message.clone());
        assert!(sent.is_ok(), "{sent:?}");
        loop {
            self.now += Duration::from_micros(50);
            let now = self.now;
            self.ends.iter_mut().for_each(|end| end.handle_timeout(now));
            self.carry(0);
            self.carry(1);
            while self.ends.iter_mut().any(|end| end.poll_event().is_some()) {}
            if let Some(message) = self.ends[1].recv(now, lane()) {
                return message.len();
            }
        }
    }
}

fn messages(c: &mut Criterion) {
    let mut group = c.benchmark_group("message");
    for len in [100, 1_000, MESSAGE_BYTES] {
        let message = Bytes::from(vec![7; len]);
        let mut link = Link::new();
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(format!("{len} B from application to application"), |b| {
            b.iter(|| assert_eq!(link.deliver(black_box(&message)), len));
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
