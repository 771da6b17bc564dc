// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Two connections without a network between them: for what counts or times the code alone.

#![allow(dead_code, reason = "each test binary uses another part")]

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use arq_proto::{
    Config, CongestionConfig, Connection, Endpoint, EndpointConfig, LaneId, Reliability, Routed,
};
use bytes::Bytes;

/// Segments of one transmission: what GSO takes at this packet size.
const SEGMENTS: usize = 44;

/// Two connected sides. Time moves by what a packet would take at 10 Gb/s.
pub(crate) struct Link {
    now: Instant,
    ends: [Connection; 2],
    addresses: [SocketAddr; 2],
    buf: Vec<u8>,
    /// Every how many-th datagram is lost on the way.
    pub(crate) lose: Option<u64>,
    /// Datagrams so far, both ways, the lost ones included.
    pub(crate) datagrams: u64,
}

impl Link {
    pub(crate) fn new() -> Self {
        #[allow(clippy::disallowed_methods, reason = "the clock of the driver")]
        let now = Instant::now();
        let config = Config {
            congestion: CongestionConfig::Constant { window_bytes: 4 << 20 },
            ..Config::default()
        };
        let config = config.validate().expect("the configuration is valid");
        let addresses: [SocketAddr; 2] = [([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into()];
        let accept = EndpointConfig::new(config.clone());
        let mut server = Endpoint::new(accept, [1; 32], now);
        let mut endpoint = Endpoint::new(EndpointConfig::default(), [2; 32], now);
        let (_, mut client) = endpoint.connect(now, addresses[1], config);
        let (mut buf, mut reply) = (Vec::new(), Vec::new());
        loop {
            buf.clear();
            client.poll_transmit(now, &mut buf, 1).expect("the handshake goes on");
            match server.route(now, addresses[0], &buf, &mut reply) {
                Routed::Reply => client.handle_datagram(now, addresses[1], &mut reply),
                Routed::Accepted { mut connection, .. } => {
                    connection.handle_datagram(now, addresses[0], &mut buf);
                    let ends = [client, *connection];
                    return Self { now, ends, addresses, buf, lose: None, datagrams: 0 };
                }
                Routed::Connection(_) | Routed::Dropped => panic!("the handshake failed"),
            }
        }
    }

    /// Everything that one side has to say, to the other.
    fn carry(&mut self, from: usize) {
        let (now, to) = (self.now, 1 - from);
        self.buf.clear();
        while let Some(transmit) = self.ends[from].poll_transmit(now, &mut self.buf, SEGMENTS) {
            for datagram in self.buf.chunks_mut(transmit.segment_size) {
                self.datagrams += 1;
                if self.lose.is_none_or(|lose| !self.datagrams.is_multiple_of(lose)) {
                    self.ends[to].handle_datagram(now, self.addresses[from], datagram);
                }
            }
            self.buf.clear();
        }
        // A driver asks no more, until something happens.
        let more = self.ends[from].poll_transmit(now, &mut self.buf, SEGMENTS);
        assert_eq!(more, None, "there was nothing to send, and now there is");
    }

    /// Sends a message and reads it at the other side.
    pub(crate) fn deliver(&mut self, message: &Bytes) {
        self.deliver_all(std::slice::from_ref(message));
    }

    /// Sends messages, all at once, and reads them at the other side.
    pub(crate) fn deliver_all(&mut self, messages: &[Bytes]) {
        let lane = LaneId::new(5, Reliability::Reliable).expect("the priority is in range");
        for message in messages {
            self.ends[0].send(self.now, lane, message.clone()).expect("there is room");
        }
        let mut expected = messages.iter();
        let mut next = expected.next();
        for _ in 0..100_000 {
            self.now += Duration::from_micros(50);
            let now = self.now;
            self.ends.iter_mut().for_each(|end| end.handle_timeout(now));
            self.carry(0);
            self.carry(1);
            while self.ends.iter_mut().any(|end| end.poll_event().is_some()) {}
            while let Some(received) = self.ends[1].recv(now, lane) {
                assert_eq!(Some(received.len()), next.map(Bytes::len));
                next = expected.next();
            }
            if next.is_none() {
                return;
            }
        }
        panic!("a message did not arrive");
    }
}
