// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What can somebody do who sees, sends and forges packets, short of knowing a key? Count and drop,
//! or end with a named reason; never panic, grow, or serve as an amplifier.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../common/mod.rs"]
mod common;

mod client;
mod deaths;
mod endings;
mod frames;
mod handshake;
mod marks;
mod parameters;
mod paths;
mod radios;
mod reports;
mod secured;
mod strangers;

use std::net::SocketAddr;

use arq_proto::{
    wire::{packet::Hello, VERSION},
    ConnectionId,
};
use arq_sim::{Flow, Pair};
use common::MS;
use fastrand::Rng;

const AMPLIFICATION: u64 = 3;

fn stranger(n: u16) -> SocketAddr {
    ([192, 0, (n >> 8) as u8, n as u8], 666).into()
}

fn talk() -> [Flow; 2] {
    [Flow::reliable(5, 2_000, 100).every(10 * MS), Flow::best_effort(2, 500, 100).every(10 * MS)]
}

/// Nobody but the client got more than three times what it sent.
fn assert_no_amplification(pair: &Pair) {
    assert_no_amplification_but_for(pair, &[pair.world.address(pair.client)]);
}

fn assert_no_amplification_but_for(pair: &Pair, clients: &[SocketAddr]) {
    for (address, exchange) in pair.world.exchanges(pair.server) {
        let bound = AMPLIFICATION * exchange.received_bytes;
        let is_fair = clients.contains(&address) || exchange.sent_bytes <= bound;
        assert!(is_fair, "{address}: {exchange:?}");
    }
}

fn hello(rng: &mut Rng) -> Vec<u8> {
    let mut out = Vec::new();
    Hello {
        scid: ConnectionId(rng.u64(..)),
        instance: rng.u64(..),
        attempt: 0,
        versions: vec![VERSION],
        bytes: 1_200,
    }
    .encode(&mut out);
    out
}
