// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What do all controllers have in common, whatever happens to them? One model drives each of them.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Operation {
    Send,
    Ack { rtt_ms: u64, packets: u64, app_limited: bool },
    Lose { cause: LossCause, packets: u64 },
    Spurious { cause: LossCause, packets: u64 },
    Silence,
    PathChange,
    Wait(u64),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let cause = prop_oneof![2 => Just(LossCause::Gap), 1 => Just(LossCause::Timeout)];
    let loss = (cause, 1_u64..20);
    let operation = prop_oneof![
        8 => Just(Operation::Send),
        8 => (1_u64..500, 1_u64..20, any::<bool>()).prop_map(|(rtt_ms, packets, app_limited)| {
            Operation::Ack { rtt_ms, packets, app_limited }
        }),
        3 => loss.clone().prop_map(|(cause, packets)| Operation::Lose { cause, packets }),
        1 => loss.prop_map(|(cause, packets)| Operation::Spurious { cause, packets }),
        1 => Just(Operation::Silence),
        1 => Just(Operation::PathChange),
        4 => (0_u64..2_000).prop_map(Operation::Wait),
    ];
    prop::collection::vec(operation, 1..300)
}

const MTU: u16 = 1_200;
const PACKET: u64 = MTU as u64;

fn adaptive() -> impl Strategy<Value = CongestionConfig> {
    prop_oneof![
        Just(CongestionConfig::Aimd),
        Just(CongestionConfig::Cubic),
        Just(CongestionConfig::Bbr),
    ]
}

fn controllers() -> impl Strategy<Value = CongestionConfig> {
    prop_oneof![
        3 => adaptive(),
        1 => (PACKET..1 << 24).prop_map(|window_bytes| CongestionConfig::Constant { window_bytes }),
    ]
}

fn least_window(config: CongestionConfig) -> u64 {
    match config {
        CongestionConfig::Constant { .. } => PACKET,
        CongestionConfig::Aimd | CongestionConfig::Cubic => 2 * PACKET,
        CongestionConfig::Bbr => 4 * PACKET,
    }
}

/// A controller and what it has been told.
struct Model {
    controller: Box<dyn Controller>,
    now: Instant,
    number: PacketNumber,
}

impl Model {
    fn new(config: CongestionConfig) -> Self {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let now = Instant::now();
        Self { controller: build(config, MTU, None), now, number: PacketNumber(0) }
    }

    fn send(&mut self) {
        let (now, number) = (self.now, self.number);
        self.controller.on_sent(&SentSample { now, number, app_limited: false });
        self.number = self.number.next();
    }

    fn ack(&mut self, largest: PacketNumber, packets: u64, rtt: Duration, app_limited: bool) {
        self.controller.on_ack(&AckSample {
            now: self.now,
            bytes: packets * PACKET,
            packets,
            largest,
            sent_at: self.now.checked_sub(rtt).unwrap_or(self.now),
            rtt: Some(RttSample { least: rtt, most: rtt }),
            latest_rtt: rtt,
            min_rtt: Duration::from_millis(1),
            in_flight_bytes: self.controller.window(),
            app_limited,
        });
    }

    fn loss(&self, cause: LossCause, packets: u64) -> LossSample {
        let (now, largest, bytes) = (self.now, self.number, packets * PACKET);
        LossSample { now, bytes, packets, largest, sent_at: now, cause }
    }

    fn lose(&mut self, cause: LossCause, packets: u64) {
        let sample = self.loss(cause, packets);
        self.controller.on_loss(&sample);
    }

    fn find(&mut self, cause: LossCause, packets: u64) {
        let sample = self.loss(cause, packets);
        self.controller.on_spurious_loss(&sample);
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Send => self.send(),
            Operation::Ack { rtt_ms, packets, app_limited } => {
                self.ack(self.number, packets, Duration::from_millis(rtt_ms), app_limited);
            }
            Operation::Lose { cause, packets } => self.lose(cause, packets),
            Operation::Spurious { cause, packets } => self.find(cause, packets),
            Operation::Silence => self.controller.on_silence(),
            Operation::PathChange => self.controller.on_path_change(),
            Operation::Wait(ms) => self.now += Duration::from_millis(ms),
        }
    }

    fn after(config: CongestionConfig, operations: &[Operation]) -> Self {
        let mut model = Self::new(config);
        operations.iter().for_each(|operation| model.apply(operation));
        model
    }

    /// A round trip of 20 ms over 10 Mb/s without loss, with a window's packets, 40 at most.
    fn clean_round(&mut self) {
        let first = self.number;
        let packets = (self.controller.window() / PACKET).min(40);
        let sent_at = self.now;
        (0..packets).for_each(|_| self.send());
        self.now += Duration::from_millis(20);
        for n in 0..packets {
            self.now += Duration::from_micros(960);
            self.ack(PacketNumber(first.0 + n), 1, self.now - sent_at, false);
        }
    }
}

proptest! {
    /// Room for two datagrams (one when a constant window says so), and no absurd window or rate.
    // ARQ-CC-2
    #[test]
    fn bounds(config in controllers(), operations in operations()) {
        let mut model = Model::new(config);
        for operation in &operations {
            model.apply(operation);
            let controller = &model.controller;
            prop_assert!(controller.window() >= least_window(config), "{operation:?}");
            prop_assert!(controller.window() <= 1 << 30, "{operation:?}");
            prop_assert!(controller.pacing_rate().unwrap_or(1) > 0, "{operation:?}");
        }
    }

    // ARQ-CC-3
    #[test]
    fn silence_leaves_the_least_window(config in adaptive(), operations in operations()) {
        let mut model = Model::after(config, &operations);
        model.controller.on_silence();
        prop_assert_eq!(model.controller.window(), least_window(config));
    }

    // ARQ-CC-3
    #[test]
    fn a_time_out_alone_costs_no_window(config in controllers(), operations in operations()) {
        let mut model = Model::after(config, &operations);
        let before = model.controller.window();
        model.lose(LossCause::Timeout, 3);
        prop_assert_eq!(model.controller.window(), before);
    }

    // ARQ-CC-2
    #[test]
    fn a_loss_that_was_none_costs_no_window(config in controllers(), operations in operations()) {
        let mut model = Model::after(config, &operations);
        let before = model.controller.window();
        model.now += Duration::from_secs(1);
        model.lose(LossCause::Gap, 3);
        model.find(LossCause::Gap, 3);
        prop_assert!(model.controller.window() >= before);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever happened, half a minute on a clean path and the window covers its product, which is
    /// 21 packets.
    // ARQ-CC-2
    #[test]
    fn none_is_stuck(config in adaptive(), operations in operations()) {
        let mut model = Model::after(config, &operations);
        (0..1_000).for_each(|_| model.clean_round());
        let packets = model.controller.window() / PACKET;
        prop_assert!(packets >= 20, "{packets} packets");
    }
}

// ARQ-CC-2, ARQ-MTU-1
#[test]
fn other_packet_sizes_leave_the_window_in_bytes() {
    for config in [CongestionConfig::Aimd, CongestionConfig::Cubic, CongestionConfig::Bbr] {
        let mut model = Model::new(config);
        for _ in 0..200 {
            model.apply(&Operation::Send);
            model.apply(&Operation::Ack { rtt_ms: 20, packets: 1, app_limited: false });
        }
        let before = model.controller.window();
        model.controller.on_mtu(1_452);
        let after = model.controller.window();
        // BBR has some packets to spare beside its estimate.
        assert!(after.abs_diff(before) <= 16 * PACKET, "{config:?}: {before}, {after}");
        model.controller.on_silence();
        let least = least_window(config) / PACKET * 1_452;
        assert!(model.controller.window().abs_diff(least) <= 1, "{config:?}");
        model.controller.on_mtu(60_000);
        assert!(model.controller.window() >= 2 * 60_000 - 1, "{config:?}");
    }
}
