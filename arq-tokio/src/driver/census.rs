// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does a message cost on its way to the wire? Locks and allocations, counted.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    task::{Context, Waker},
    time::Duration,
};

use arq_proto::{Config, CongestionConfig, EndpointConfig, LaneId, Reliability, ValidConfig};
use bytes::Bytes;
use tokio::runtime::Handle;

use super::{sync::counted::locks, Connection, Endpoint};
use crate::socket::memory::MemoryNetwork;

const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 7447);
const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 2], 1);
const LANE: LaneId = LaneId::new(5, Reliability::Reliable).unwrap();

/// What the calls of a task have taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    locks: u64,
    allocations: u64,
}

fn cost(work: impl FnOnce()) -> Cost {
    let before = locks();
    let counted = allocation_counter::measure(work);
    // The measuring itself is not measured.
    Cost { locks: locks() - before, allocations: counted.count_total }
}

async fn connected() -> (Connection, Connection, [Endpoint; 2]) {
    let network = MemoryNetwork::lossless();
    let config = Config {
        congestion: CongestionConfig::Constant { window_bytes: 10_000_000 },
        timer_granularity: Duration::from_millis(1),
        ..Config::default()
    };
    let config = config.validate().unwrap();
    let endpoint = |at: ([u8; 4], u16), accept: Option<ValidConfig>| {
        let socket = Box::new(network.bind(at.into()).unwrap());
        Endpoint::over(socket, EndpointConfig::new(accept), &Handle::current()).unwrap()
    };
    let (server, client) = (endpoint(SERVER, Some(config.clone())), endpoint(CLIENT, None));
    let near = client.connect(SERVER.into(), config).await.unwrap();
    let far = server.accept().await.unwrap();
    (near, far, [server, client])
}

/// The usual cost of a message of so many bytes that leaves at once.
async fn usual_cost(bytes: usize) -> Cost {
    let (near, far, _endpoints) = connected().await;
    let payload = vec![7; bytes];
    let mut costs = Vec::new();
    for _ in 0..100 {
        let mut message = Some(Bytes::from(payload.clone()));
        let mut cx = Context::from_waker(Waker::noop());
        costs.push(cost(|| {
            let mut message = message.take().unwrap();
            assert!(near.poll_send(&mut cx, LANE, &mut message, false).is_ready());
        }));
        assert_eq!(far.recv(LANE).await.unwrap().len(), bytes);
        near.delivered().await;
    }
    costs.sort();
    costs[costs.len() / 2]
}

#[tokio::test(start_paused = true)]
async fn a_message_takes_few_locks_and_allocations() {
    let small = usual_cost(100).await;
    let large = usual_cost(60_000).await;
    println!("{small:?} {large:?}");
    // The connection, the socket in use, the index of deadlines; and the copy that the network makes.
    assert_eq!(small, Cost { locks: 3, allocations: 1 });
    // In two batches.
    assert_eq!(large, Cost { locks: 4, allocations: 3 });
}
