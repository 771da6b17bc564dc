// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What arrives of a publisher that drops rather than waits, and how late?

use std::time::Duration;

use arq_proto::{Config, LaneId, Reliability};
use arq_sim::{lane, Bottleneck, DropPublisher, Flow, Loss, Pair, Scenario, WireConfig};

use crate::common::{seeds, MS, SEC};

const TURN: Duration = Duration::from_micros(250);
const QUEUE_BYTES: u64 = 256 << 10;
const BATCH_BYTES: u64 = 65_535;

fn data() -> LaneId {
    lane(5, Reliability::Reliable)
}

/// A path, and what is published on it.
#[derive(Debug, Clone, Copy)]
struct Case {
    rate_mbps: u64,
    delay: Duration,
    loss: f32,
    message_bytes: usize,
    interval: Duration,
    messages: usize,
}

#[derive(Debug)]
struct Outcome {
    /// Of what arrived, sorted.
    latencies: Vec<Duration>,
    /// The most that was queued in the sender.
    queued_bytes: u64,
    /// The worst of small urgent messages that are sent meanwhile.
    urgent: Duration,
}

impl Case {
    fn new(rate_mbps: u64, delay: Duration, message_bytes: usize, per_second: u32) -> Self {
        let interval = SEC / per_second;
        Self { rate_mbps, delay, loss: 0.0, message_bytes, interval, messages: 6 }
    }

    /// A queue of 20 ms.
    fn wire(&self) -> WireConfig {
        let rate_bps = self.rate_mbps * 1_000_000;
        let queue_bytes = (rate_bps / 8 / 50).max(15_000) as u32;
        let loss = if self.loss == 0.0 { Loss::None } else { Loss::Random(self.loss) };
        WireConfig {
            bottleneck: Some(Bottleneck { rate_bps, queue_bytes }),
            loss,
            ..WireConfig::with_delay(self.delay)
        }
    }

    fn run(&self, seed: u64, config: Config) -> Outcome {
        let mut pair = Pair::new(&Scenario::new(seed).wire(self.wire()).config(config));
        pair.run_to_connected(10 * SEC).unwrap();
        let (conn, urgent) = (pair.conn, lane(1, Reliability::Reliable));
        let beacons = (self.interval * self.messages as u32).as_millis() / 20;
        pair.world.with_conn(conn, |clock, _, app| {
            let flow = Flow::reliable(1, 100, beacons as u64).every(20 * MS);
            app.add_flow(clock.offset(), flow);
        });
        let mut publisher =
            DropPublisher::new(data(), self.message_bytes, self.interval, self.messages);
        let mut queued_bytes = 0;
        while !publisher.is_done() {
            publisher.turn(&mut pair.world, conn);
            pair.world.run_for(TURN).unwrap();
            queued_bytes = queued_bytes.max(pair.client_side().connection().stats().queued_bytes);
        }
        pair.world.run_for(10 * SEC).unwrap();
        let inbox = |lane| &pair.server_side().app.inbox(lane).latencies;
        let mut latencies = publisher.latencies(inbox(data()));
        assert_eq!(latencies.len() + publisher.dropped(), self.messages, "seed {seed}: {self:?}");
        let urgent = inbox(urgent).iter().max().copied().unwrap_or_default();
        latencies.sort_unstable();
        Outcome { latencies, queued_bytes, urgent }
    }
}

/// A path that carries them gets each of them whole. The first ones may come before it is known what it carries.
// ARQ-LAN-4, ARQ-LAN-5
#[test]
fn long_messages_arrive() {
    let cases = [
        Case::new(100, 2 * MS, 125_000, 10),
        Case::new(100, 20 * MS, 125_000, 10),
        Case::new(100, 20 * MS, 800_000, 5),
        Case::new(100, 20 * MS, 1_000_000, 10),
        Case::new(100, 2 * MS, 2_000_000, 4),
        Case::new(100, 20 * MS, 2_000_000, 4),
        Case::new(100, 20 * MS, 4_000_000, 2),
        Case::new(1_000, 2 * MS, 4_000_000, 5),
    ];
    for seed in seeds(1) {
        for case in cases {
            for loss in [0.0, 0.02] {
                let case = Case { loss, ..case };
                let got = case.run(seed, Config::default());
                let arrived = got.latencies.len();
                assert!(arrived + 1 >= case.messages, "seed {seed}: {case:?}: {arrived}");
                // A round trip to repair it, the path's queue of 20 ms, and the start.
                let bound = 5 * case.delay + 60 * MS;
                assert!(got.urgent < bound, "seed {seed}: {case:?}: {:?}", got.urgent);
            }
        }
    }
}

/// Each part of what is too long for the bound is refused in time.
// ARQ-LAN-4
#[test]
fn a_bound_that_is_given_binds_long_messages_too() {
    let case = Case::new(100, 20 * MS, 2_000_000, 4);
    for seed in seeds(2) {
        let config = Config { queue_bytes: Some(QUEUE_BYTES as u32), ..Config::default() };
        let got = case.run(seed, config);
        assert!(got.queued_bytes < QUEUE_BYTES + BATCH_BYTES, "seed {seed}: {got:?}");
        assert!(got.latencies.is_empty(), "seed {seed}: {got:?}");
    }
}

/// A tenth of what is published fits the path: messages of one batch wait no longer than with a fixed bound.
// ARQ-LAN-4
#[test]
fn a_thin_path_holds_little_back() {
    for seed in seeds(2) {
        for message_bytes in [1_000, 10_000, 50_000] {
            let per_second = (1_250_000 / message_bytes) as u32;
            let messages = 5 * per_second as usize;
            let case = Case { messages, ..Case::new(1, 20 * MS, message_bytes, per_second) };
            let got = case.run(seed, Config::default());
            let bound = Some(QUEUE_BYTES as u32);
            let bounded = case.run(seed, Config { queue_bytes: bound, ..Config::default() });
            assert_eq!(got.queued_bytes, bounded.queued_bytes, "seed {seed}: {case:?} {got:?}");
            assert_eq!(got.latencies, bounded.latencies, "seed {seed}: {case:?} {got:?}");
        }
    }
}

/// What a path does not carry within a second is not begun: it is known after the first one.
// ARQ-LAN-5
#[test]
fn a_thin_path_is_not_filled_with_one_message() {
    for seed in seeds(2) {
        let case = Case::new(1, 20 * MS, 2_000_000, 1);
        let got = case.run(seed, Config::default());
        // It seemed to carry 32 packets in a round trip of 40 ms.
        assert!(got.queued_bytes < 32 * 1_200 * 25 + BATCH_BYTES, "seed {seed}: {got:?}");
    }
}

/// zenoh ends a session when a message has waited for five seconds. It batches what waits meanwhile.
// ARQ-LAN-6
#[test]
fn a_peer_that_stands_still_lets_nobody_wait_for_long() {
    for seed in seeds(3) {
        let mut pair = Pair::new(&Scenario::new(seed).wire(WireConfig::with_delay(MS)));
        pair.run_to_connected(SEC).unwrap();
        let (conn, server) = (pair.conn, pair.server);
        pair.world.freeze(server, 9 * SEC);
        let start = pair.world.now();
        let (mut batch, mut refused_at, mut longest, mut taken) = (0, None, Duration::ZERO, 0);
        let mut next_at = start;
        while pair.world.now() < start + 12 * SEC {
            pair.world.run_for(20 * MS).unwrap();
            let now = pair.world.now();
            if batch + 2_000 <= BATCH_BYTES as usize && next_at <= now {
                next_at += 20 * MS;
                batch += 2_000;
            }
            let sent = batch > 0
                && pair.world.with_conn(conn, |clock, connection, app| {
                    app.hand_over(clock, connection, (data(), batch), false)
                });
            if sent {
                (batch, refused_at) = (0, None);
                taken += 1;
            } else if batch > 0 {
                longest = longest.max(now - *refused_at.get_or_insert(now));
            }
        }
        pair.world.run_for(SEC).unwrap();
        assert!(longest < 4 * SEC, "seed {seed}: {longest:?}");
        assert!(longest > SEC, "seed {seed}: it stood still for nothing");
        assert_eq!(pair.server_side().app.inbox(data()).messages, taken);
    }
}
