// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What is an observer told?

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use arq_proto::{
    observer::{Frame, LostPacket, Observer, Packet},
    ConnectionError, Stats,
};
use arq_sim::{Flow, Pair, Scenario};

use crate::common::{lossy, seeds, SEC};

/// What was told, in order.
#[derive(Debug, Default)]
struct Seen {
    sent: Vec<u64>,
    received: Vec<u64>,
    lost: Vec<u64>,
    latest: Stats,
    repairs: usize,
    closed: Vec<ConnectionError>,
}

#[derive(Debug, Clone, Default)]
struct Witness(Arc<Mutex<Seen>>);

impl Observer for Witness {
    fn packet_sent(&mut self, _: Instant, packet: &Packet<'_>) {
        let mut seen = self.0.lock().unwrap();
        seen.sent.push(packet.number);
        seen.repairs += packet.frames().filter(|frame| matches!(frame, Frame::Repair(_))).count();
    }

    fn packet_received(&mut self, _: Instant, packet: &Packet<'_>) {
        assert!(packet.frames().count() > 0 || packet.bytes < 30, "{packet:?}");
        self.0.lock().unwrap().received.push(packet.number);
    }

    fn packet_lost(&mut self, _: Instant, lost: &LostPacket) {
        self.0.lock().unwrap().lost.push(lost.number);
    }

    fn stats_updated(&mut self, _: Instant, stats: &Stats) {
        self.0.lock().unwrap().latest = stats.clone();
    }

    fn closed(&mut self, _: Instant, reason: &ConnectionError) {
        self.0.lock().unwrap().closed.push(reason.clone());
    }
}

/// A transfer over a lossy path, seen by `witness` if there is one.
fn transfer(seed: u64, witness: Option<Witness>) -> Pair {
    let flows = [Flow::reliable(5, 20_000, 20), Flow::reliable(1, 100, 20)];
    let scenario = Scenario::new(seed).wire(lossy(0.1)).client_sends(flows);
    let mut pair = Pair::new(&scenario);
    let id = pair.conn;
    pair.world.with_conn(id, |_, connection, _| {
        witness.into_iter().for_each(|witness| connection.observe(Box::new(witness)));
    });
    pair.run_to_delivery(60 * SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
    pair
}

#[test]
fn an_observer_is_told_of_every_packet_and_changes_nothing() {
    for seed in seeds(20) {
        let witness = Witness::default();
        let (alone, mut observed) = (transfer(seed, None), transfer(seed, Some(witness.clone())));
        let hash = |pair: &Pair| pair.world.log().trace_hash();
        assert_eq!(hash(&observed), hash(&alone), "seed {seed}");

        let stats = observed.client_side().connection().stats();
        let seen = std::mem::take(&mut *witness.0.lock().unwrap());
        assert!(seen.sent.is_sorted_by(|a, b| a < b), "seed {seed}: {:?}", seen.sent);
        assert_eq!(seen.received.len() as u64, stats.packets_received, "seed {seed}");
        assert_eq!(seen.lost.len() as u64, stats.packets_lost, "seed {seed}");
        assert!(seen.lost.len() > 3, "seed {seed}: {:?}", seen.lost);
        assert!(seen.lost.iter().all(|lost| seen.sent.contains(lost)), "seed {seed}");
        assert_eq!(seen.latest.packets_lost, stats.packets_lost, "seed {seed}");
        assert_eq!(seen.repairs as u64, stats.repair_symbols_sent, "seed {seed}");
        assert_eq!(seen.closed, [], "seed {seed}");

        let id = observed.conn;
        observed
            .world
            .with_conn(id, |clock, connection, _| connection.close(clock.now(), "enough"));
        assert_eq!(witness.0.lock().unwrap().closed, [ConnectionError::LocallyClosed]);
    }
}
