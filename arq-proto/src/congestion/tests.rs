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
    Mark { rtt_ms: u64, packets: u64 },
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
        1 => (1_u64..500, 1_u64..1 << 62).prop_map(|(rtt_ms, packets)| Operation::Mark { rtt_ms, packets }),
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
        Just(CongestionConfig::Tolerant),
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
        CongestionConfig::Tolerant => 4 * PACKET,
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
        self.controller.on_time(now);
        self.controller.on_sent(&SentSample { now, number, bytes: MTU.into(), app_limited: false });
        self.number = self.number.next();
    }

    fn ack(&mut self, largest: PacketNumber, packets: u64, rtt: Duration, app_limited: bool) {
        let sample = self.acknowledgement(largest, packets, rtt, app_limited);
        self.controller.on_ack(&sample);
    }

    /// Of a window that was full.
    fn acknowledgement(
        &self,
        largest: PacketNumber,
        packets: u64,
        rtt: Duration,
        app_limited: bool,
    ) -> AckSample {
        AckSample {
            now: self.now,
            bytes: packets * PACKET,
            packets,
            largest,
            sent_at: self.now.checked_sub(rtt).unwrap_or(self.now),
            rtt: Some(RttSample { least: rtt, most: rtt }),
            smoothed_rtt: rtt,
            in_flight_bytes: self.controller.window(),
            app_limited,
        }
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
            Operation::Mark { rtt_ms, packets } => {
                let rtt = Duration::from_millis(rtt_ms);
                let sent_at = self.now.checked_sub(rtt).unwrap_or(self.now);
                self.controller.on_ce(&CeSample { now: self.now, packets, sent_at });
            }
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

/// Rounds of a transfer: the longest are some seconds.
const TRANSFER: std::ops::Range<u32> = 10..200;

/// Two that have seen the same and are in the middle of a transfer, until something happens to one of them.
struct Twins {
    one: Model,
    other: Model,
}

impl Twins {
    /// After so many rounds of a transfer, over a path that does not change.
    fn after(config: CongestionConfig, rounds: u32) -> Self {
        let [one, other] = [(); 2].map(|()| {
            let mut model = Model::new(config);
            (0..rounds).for_each(|_| model.clean_round());
            (0..3).for_each(|_| model.send());
            model
        });
        Self { one, other }
    }

    /// The one loses the three packets that both have just sent.
    fn lose(&mut self, cause: LossCause) -> LossSample {
        let largest = PacketNumber(self.one.number.0 - 1);
        let lost = LossSample { largest, ..self.one.loss(cause, 3) };
        self.one.controller.on_loss(&lost);
        lost
    }

    /// What happened to the one has cost it no window: not at once, and not when the rounds after it end, which is when a
    /// controller of rates draws its conclusions. A loss that counts costs more than an eighth.
    fn look(&mut self) -> Result<(), TestCaseError> {
        for round in 0..=2 {
            let (one, other) = (self.one.controller.window(), self.other.controller.window());
            let is_alike = one + one / 8 + 2 * PACKET >= other;
            prop_assert!(is_alike, "after {} clean rounds: {} of {}", round, one, other);
            self.one.clean_round();
            self.other.clean_round();
        }
        Ok(())
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
            let rate = controller.pacing_rate();
            prop_assert!(rate.is_none_or(|rate| rate > Rate::default()), "{operation:?}");
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
    fn a_time_out_alone_costs_no_window(
        config in controllers(), operations in operations(), rounds in TRANSFER,
    ) {
        let mut model = Model::after(config, &operations);
        let before = model.controller.window();
        model.lose(LossCause::Timeout, 3);
        prop_assert_eq!(model.controller.window(), before, "at once, whatever happened before");
        let mut twins = Twins::after(config, rounds);
        twins.lose(LossCause::Timeout);
        twins.look()?;
    }

    // ARQ-CC-2
    #[test]
    fn a_loss_that_was_none_costs_no_window(
        config in controllers(), operations in operations(), rounds in TRANSFER,
    ) {
        let mut model = Model::after(config, &operations);
        let before = model.controller.window();
        model.now += Duration::from_secs(1);
        model.lose(LossCause::Gap, 3);
        model.find(LossCause::Gap, 3);
        prop_assert!(model.controller.window() >= before, "at once, whatever happened before");
        let mut twins = Twins::after(config, rounds);
        let lost = twins.lose(LossCause::Gap);
        twins.one.controller.on_spurious_loss(&lost);
        twins.look()?;
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
    for config in [CongestionConfig::Aimd, CongestionConfig::Cubic, CongestionConfig::Tolerant] {
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

const LOSS_BASED: [CongestionConfig; 2] = [CongestionConfig::Aimd, CongestionConfig::Cubic];

/// Twins would not be alike if the one had lost something for good: the properties above can fail.
#[test]
fn a_loss_that_counts_is_seen() {
    for config in LOSS_BASED {
        let mut twins = Twins::after(config, 10);
        twins.lose(LossCause::Gap);
        assert!(twins.look().is_err(), "{config:?}");
    }
}

impl Model {
    fn packets(&self) -> u64 {
        self.controller.window() / PACKET
    }

    /// A round trip of 20 ms in which so many packets leave, of which the last says that there were no more; each is
    /// acknowledged alone.
    fn app_limited_round(&mut self, packets: u64) {
        let rtt = Duration::from_millis(20);
        let first = self.number.0;
        (0..packets).for_each(|_| self.send());
        self.now += rtt;
        for n in 0..packets {
            let largest = PacketNumber(first + n);
            let sample = self.acknowledgement(largest, 1, rtt, n + 1 == packets);
            let in_flight_bytes = packets * PACKET;
            self.controller.on_ack(&AckSample { in_flight_bytes, ..sample });
        }
    }

    /// Sends a packet and loses it.
    fn lose_one(&mut self) -> LossSample {
        self.now += Duration::from_millis(20);
        self.send();
        let largest = PacketNumber(self.number.0 - 1);
        let lost = LossSample { largest, ..self.loss(LossCause::Gap, 1) };
        self.controller.on_loss(&lost);
        lost
    }
}

// ARQ-CC-3
#[test]
fn however_long_the_silence_slow_start_follows() {
    for config in LOSS_BASED {
        let mut model = Model::new(config);
        while model.packets() < 200 {
            model.clean_round();
        }
        for _ in 0..3 {
            model.controller.on_silence();
            assert_eq!(model.packets(), 2, "{config:?}");
        }
        (0..10).for_each(|_| model.clean_round());
        assert!(model.packets() >= 100, "{config:?}: {} packets", model.packets());
    }
}

// ARQ-CC-5
#[test]
fn after_silence_a_longer_round_trip_ends_no_slow_start() {
    for config in LOSS_BASED {
        let mut model = Model::new(config);
        while model.packets() < 200 {
            model.clean_round();
        }
        model.controller.on_silence();
        for round in 1..=8 {
            let (first, packets) = (model.number.0, model.packets());
            let rtt = Duration::from_millis(20 * round);
            (0..packets).for_each(|_| model.send());
            model.now += rtt;
            (0..packets).for_each(|n| model.ack(PacketNumber(first + n), 1, rtt, false));
        }
        assert!(model.packets() >= 100, "{config:?}: {} packets", model.packets());
    }
}

// ARQ-CC-11
#[test]
fn a_window_that_is_not_used_does_not_grow() {
    for config in LOSS_BASED {
        let mut model = Model::new(config);
        (0..200).for_each(|_| model.app_limited_round(57));
        assert_eq!(model.packets(), 2 * 57, "{config:?}: slow start");
        // Once the threshold is known, a quarter more than what is used.
        while model.packets() > 30 {
            model.lose_one();
        }
        model.now += Duration::from_secs(1);
        (0..2_000).for_each(|_| model.app_limited_round(57));
        assert!((60..=72).contains(&model.packets()), "{config:?}: {} packets", model.packets());
    }
}

// ARQ-CC-3
#[test]
fn a_late_packet_undoes_no_reduction_but_its_own() {
    for (config, once, twice) in [(CongestionConfig::Aimd, 10, 5), (CongestionConfig::Cubic, 14, 9)]
    {
        let mut model = Model::new(config);
        (0..10).for_each(|_| model.ack(PacketNumber(0), 1, Duration::ZERO, false));
        assert_eq!(model.packets(), 20, "{config:?}");
        let first = model.lose_one();
        assert_eq!(model.packets(), once, "{config:?}");
        let second = model.lose_one();
        assert_eq!(model.packets(), twice, "{config:?}");
        model.controller.on_spurious_loss(&first);
        assert_eq!(model.packets(), twice, "{config:?}: the second is lost");
        model.controller.on_spurious_loss(&second);
        assert_eq!(model.packets(), once, "{config:?}");
    }
}

// ARQ-CC-3
#[test]
fn a_reduction_stands_until_all_that_it_was_made_for_has_arrived() {
    for config in LOSS_BASED {
        let mut model = Model::new(config);
        (0..3).for_each(|_| model.send());
        let lost = |model: &Model, number| LossSample {
            largest: PacketNumber(number),
            ..model.loss(LossCause::Gap, 1)
        };
        let samples = [0, 1, 2].map(|number| lost(&model, number));
        samples.iter().for_each(|sample| model.controller.on_loss(sample));
        let reduced = model.packets();
        assert!(reduced < 10, "{config:?}");
        model.controller.on_spurious_loss(&samples[2]);
        model.controller.on_spurious_loss(&samples[0]);
        assert_eq!(model.packets(), reduced, "{config:?}: one is lost for good");
        model.controller.on_spurious_loss(&samples[1]);
        assert_eq!(model.packets(), 10, "{config:?}");
    }
}
