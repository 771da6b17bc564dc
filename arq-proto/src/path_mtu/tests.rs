// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The discovery against a path that carries so much, and loses so much of it.

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use smallvec::smallvec;

use super::*;

const MS: Duration = Duration::from_millis(1);
const RTT: Duration = Duration::from_millis(20);

#[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
fn t0() -> Instant {
    Instant::now()
}

fn ack(numbers: &[u64]) -> Ack {
    let mut ranges: Vec<_> = numbers.iter().map(|&n| (n, n)).collect();
    ranges.sort_unstable_by_key(|&(start, _)| std::cmp::Reverse(start));
    Ack { delay_us: 0, ranges: ranges.into(), ecn: None }
}

/// A path and the discovery on it. A probe is followed by a small packet.
struct Model {
    mtu: PathMtu,
    now: Instant,
    next: u64,
    carries: u16,
    loss: f64,
    estimate: Probability,
    silent: bool,
    rng: ChaCha8Rng,
    largest_acked: Option<PacketNumber>,
}

impl Model {
    fn new(ceiling: u16, carries: u16, loss: f64, seed: u64) -> Self {
        Self {
            mtu: PathMtu::new(ceiling),
            now: t0(),
            next: 0,
            carries,
            loss,
            estimate: Probability::from_f64(loss.max(0.01)),
            silent: false,
            rng: ChaCha8Rng::seed_from_u64(seed),
            largest_acked: None,
        }
    }

    fn arrives(&mut self, size: u16) -> bool {
        let lucky = f64::from(self.rng.next_u32()) / f64::from(u32::MAX) >= self.loss;
        lucky && !self.silent && size <= self.carries
    }

    /// One packet of `size` bytes, whose fate is known at once.
    fn packet(&mut self, size: u16) -> bool {
        let (number, arrived) = (self.next, self.arrives(size));
        self.next += 1;
        if arrived {
            self.largest_acked = Some(PacketNumber(number));
            self.mtu.on_ack(self.now, &ack(&[number]));
        }
        self.mtu.on_settled(self.now, size.into(), !arrived, self.estimate);
        arrived
    }

    /// Sends a probe if one is due, and lets its answer or its deadline come. Returns its size.
    fn turn(&mut self) -> Option<u16> {
        let size = self.mtu.next_probe(self.now, self.estimate, true)?;
        let number = self.next;
        self.next += 1;
        self.mtu.on_probe_sent(PacketNumber(number), size, self.now + 2 * RTT);
        let arrived = self.arrives(size);
        if arrived {
            self.mtu.on_ack(self.now, &ack(&[number]));
        }
        self.packet(30);
        self.now += if arrived { RTT } else { 2 * RTT };
        self.mtu.on_deadline(self.now, self.largest_acked, self.estimate);
        Some(size)
    }

    /// Until nothing is asked any more; an application that sends small packets meanwhile.
    fn settle(&mut self) {
        for _ in 0..500 {
            if self.turn().is_none() {
                if self.mtu.hear_first.is_none() {
                    return;
                }
                self.packet(100);
            }
        }
        panic!("the search does not end: {:?}", self.mtu);
    }

    fn is_complete(&self) -> bool {
        matches!(self.mtu.state, SearchState::SearchComplete { .. })
    }
}

// ARQ-MTU-1, ARQ-MTU-2
#[test]
fn common_paths_are_found() {
    for (carries, ceiling, found) in [
        (1_472, 1_452, 1_452),
        (1_472, 8_972, 1_472),
        (1_252, 8_972, 1_252),
        (8_972, 8_972, 8_972),
        (1_200, 8_972, 1_200),
        (1_400, 1_472, 1_392),
        (65_507, 65_507, 65_507),
    ] {
        let mut model = Model::new(ceiling, carries, 0.0, 1);
        assert_eq!(model.mtu.size(), 1_200, "nothing larger is used unasked");
        model.settle();
        assert_eq!((model.mtu.size(), model.is_complete()), (found, true), "{carries}, {ceiling}");
    }
}

// ARQ-MTU-1
#[test]
fn without_room_above_base_nothing_is_asked() {
    for ceiling in [576, 1_000, 1_200] {
        let mut model = Model::new(ceiling, 9_000, 0.0, 1);
        model.settle();
        assert_eq!((model.mtu.counters.probes_sent, model.mtu.size()), (0, ceiling));
    }
    let mut mtu = PathMtu::new(8_972);
    mtu.limit(9_000, false);
    assert_eq!(mtu.next_probe(t0(), Probability::ZERO, true), None, "who takes no second cut");
    let mut mtu = PathMtu::new(8_972);
    mtu.limit(1_000, true);
    assert_eq!((mtu.next_probe(t0(), Probability::ZERO, true), mtu.size()), (None, 1_000));
}

// ARQ-MTU-3
#[test]
fn random_loss_fakes_no_small_path() {
    let mut wrong = 0;
    for seed in 0..2_000 {
        let mut model = Model::new(1_472, 1_472, 0.25, seed);
        model.settle();
        wrong += u32::from(model.mtu.size() != 1_472);
    }
    // 1 in 10,000 each; three of 2,000 have a chance of one in a thousand.
    assert!(wrong <= 2, "{wrong} of 2,000 searches found less than the path carries");
}

// ARQ-MTU-4
#[test]
fn silence_is_no_answer() {
    let mut model = Model::new(1_472, 1_472, 0.0, 1);
    model.silent = true;
    assert_eq!(model.turn(), Some(1_472));
    assert_eq!(model.turn(), None, "nothing is asked of a silent path");
    assert_eq!(model.mtu.counters.probes_lost, 0);
    model.silent = false;
    model.packet(100);
    model.settle();
    assert_eq!(model.mtu.size(), 1_472);
}

// ARQ-MTU-4
#[test]
fn a_late_answer_counts() {
    let mut model = Model::new(1_472, 1_200, 0.0, 1);
    assert_eq!(model.turn(), Some(1_472));
    assert_eq!((model.mtu.counters.probes_lost, model.mtu.size()), (1, 1_200));
    model.mtu.on_ack(model.now, &ack(&[0]));
    assert_eq!(model.mtu.size(), 1_472);
}

// ARQ-MTU-4
#[test]
fn a_refusal_by_the_system_is_one_loss_and_no_more() {
    let mut model = Model::new(1_472, 1_200, 0.0, 1);
    model.mtu.on_probe_sent(PacketNumber(0), 1_472, model.now + RTT);
    model.mtu.on_refused(model.now, 1_200, model.estimate);
    assert_eq!(model.mtu.counters.probes_lost, 0, "of another size");
    model.mtu.on_refused(model.now, 1_472, model.estimate);
    model.mtu.on_refused(model.now, 1_472, model.estimate);
    assert_eq!(model.mtu.counters.probes_lost, 1);
    assert!(!model.is_complete() && model.mtu.deadline().is_none());
}

// ARQ-MTU-5
#[test]
fn after_ten_minutes_a_larger_size_is_tried_if_the_link_is_in_use() {
    let mut model = Model::new(8_972, 1_472, 0.0, 1);
    model.settle();
    model.carries = 8_972;
    model.now += RAISE_AFTER - MS;
    assert_eq!(model.turn(), None);
    model.now += MS;
    assert_eq!(model.mtu.next_probe(model.now, model.estimate, false), None, "an idle link");
    model.settle();
    assert_eq!(model.mtu.size(), 8_972);
}

// ARQ-MTU-6
#[test]
fn a_black_hole_is_left_and_the_path_searched_again_once() {
    let mut model = Model::new(8_972, 8_972, 0.05, 1);
    model.settle();
    for carries in [1_472, 1_252] {
        model.carries = carries;
        let mut packets = 0;
        while model.mtu.size() > 1_200 {
            model.packet(model.mtu.size());
            model.packet(100);
            packets += 1;
            assert!(packets < 60, "not noticed: {:?}", model.mtu);
        }
        assert_eq!(model.mtu.state, SearchState::Base { lost: 0 });
        model.settle();
        // The second time within ten minutes it stays at base.
        assert_eq!(model.mtu.size(), if carries == 1_472 { 1_472 } else { 1_200 });
    }
    assert_eq!(model.mtu.counters.black_holes, 2);
}

// ARQ-MTU-6
#[test]
fn neither_loss_nor_fades_are_black_holes() {
    for seed in 0..20 {
        let mut model = Model::new(1_472, 1_472, 0.25, seed);
        model.settle();
        let size = model.mtu.size();
        for round in 0..5_000 {
            model.silent = round % 100 < 10;
            model.packet(size);
            model.packet(100);
        }
        assert_eq!((model.mtu.size(), model.mtu.counters.black_holes), (size, 0), "seed {seed}");
    }
}

// ARQ-MTU-6
#[test]
fn loss_that_grows_with_length_is_no_black_hole() {
    for seed in 0..20 {
        let mut model = Model::new(1_200, 1_472, 0.0, seed);
        model.settle();
        // Of eleven packets one is large: what all of them lose says little of that one.
        model.estimate = Probability::from_f64(0.06);
        for _ in 0..2_000 {
            model.loss = 0.25;
            model.packet(1_200);
            model.loss = 0.03;
            for _ in 0..10 {
                model.packet(100);
            }
        }
        assert_eq!((model.mtu.size(), model.mtu.counters.black_holes), (1_200, 0), "seed {seed}");
    }
}

// ARQ-MTU-7
#[test]
fn a_path_below_base_is_served_and_left_when_it_recovers() {
    let mut model = Model::new(1_472, 1_472, 0.0, 1);
    model.settle();
    model.carries = 900;
    for _ in 0..200 {
        model.packet(model.mtu.size());
        model.packet(100);
        model.turn();
        model.now += MS;
    }
    assert_eq!(model.mtu.size(), 872, "of 900");
    assert!(matches!(model.mtu.state, SearchState::Error { .. }));
    let asked = model.mtu.counters.probes_sent;
    for _ in 0..3_600 {
        model.now += Duration::from_secs(1);
        model.turn();
    }
    let asked = model.mtu.counters.probes_sent - asked;
    assert!((10..20).contains(&asked), "base is asked about less and less often: {asked} times");
    model.carries = 1_472;
    model.now += RAISE_AFTER;
    model.settle();
    assert_eq!(model.mtu.size(), 1_472);
}

// ARQ-MTU-8
#[test]
fn another_path_starts_at_base() {
    let mut model = Model::new(8_972, 8_972, 0.0, 1);
    model.settle();
    model.mtu.on_path_change(8_972);
    assert_eq!((model.mtu.size(), &model.mtu.state), (1_200, &SearchState::Base { lost: 0 }));
    model.carries = 1_472;
    assert_eq!(model.turn(), Some(1_200), "base is confirmed first");
    model.settle();
    assert_eq!(model.mtu.size(), 1_472);
}

// ARQ-MTU-1
#[test]
fn a_path_within_the_machine_is_asked_about_the_longest_and_another_one_is_not() {
    let mut model = Model::new(1_200, 65_507, 0.0, 1);
    model.settle();
    assert_eq!((model.mtu.counters.probes_sent, model.is_complete()), (0, true));
    model.mtu.set_ceiling(65_507);
    model.settle();
    assert_eq!((model.mtu.counters.probes_sent, model.mtu.size()), (1, 65_507));
    model.mtu.on_path_change(1_200);
    model.settle();
    assert_eq!(model.mtu.size(), 1_200);
    for (max_datagram, resegments, found) in [(1_400, true, 1_400), (9_000, false, 1_200)] {
        let mut model = Model::new(1_200, 65_507, 0.0, 1);
        model.mtu.limit(max_datagram, resegments);
        model.mtu.set_ceiling(65_507);
        model.settle();
        assert_eq!(model.mtu.size(), found, "what the peer takes");
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Turn,
    Packet(u16),
    Carries(u16),
    Silent(bool),
    Wait(u64),
    Refused(u16),
    StrayAck(u64),
    PathChange,
    Raise(u16),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let size = prop_oneof![Just(100), Just(1_200), 577_u16..9_000];
    let operation = prop_oneof![
        8 => Just(Operation::Turn),
        8 => size.clone().prop_map(Operation::Packet),
        1 => (500_u16..9_500).prop_map(Operation::Carries),
        1 => any::<bool>().prop_map(Operation::Silent),
        2 => (0_u64..1_000_000).prop_map(Operation::Wait),
        1 => size.prop_map(Operation::Refused),
        1 => (0_u64..500).prop_map(Operation::StrayAck),
        1 => Just(Operation::PathChange),
        1 => (1_200_u16..9_500).prop_map(Operation::Raise),
    ];
    prop::collection::vec(operation, 1..400)
}

proptest! {
    /// Whatever happens: the size is within its bounds, never one that was not confirmed (base and
    /// the least size aside), and the state stays small.
    // ARQ-MTU-1, ARQ-MTU-2
    #[test]
    fn the_size_in_use_is_always_one_that_passed(
        ceiling in 576_u16..9_500,
        loss in 0.0_f64..0.6,
        seed in any::<u64>(),
        operations in operations(),
    ) {
        let mut model = Model::new(ceiling, 9_500, loss, seed);
        let base = ceiling.min(1_200);
        let mut most = ceiling;
        let mut passed = std::collections::BTreeSet::from([576, base]);
        for operation in operations {
            match operation {
                Operation::Turn => {
                    let asked = model.turn();
                    passed.extend(asked.filter(|&size| size <= model.carries));
                }
                Operation::Packet(size) => {
                    model.packet(size.min(model.mtu.size()));
                }
                Operation::Carries(size) => model.carries = size,
                Operation::Silent(silent) => model.silent = silent,
                Operation::Wait(ms) => model.now += MS * ms as u32,
                Operation::Refused(size) => {
                    model.mtu.on_refused(model.now, size.into(), model.estimate);
                }
                // Numbers that may belong to probes judged lost: as if those had arrived.
                Operation::StrayAck(number) => {
                    let late = model.mtu.earlier.iter().find(|probe| probe.number.0 == number);
                    passed.extend(late.map(|probe| probe.size));
                    model.mtu.on_ack(model.now, &Ack { delay_us: 0, ranges: smallvec![(number, number)], ecn: None });
                }
                Operation::PathChange => model.mtu.on_path_change(ceiling),
                Operation::Raise(size) => {
                    most = most.max(size);
                    model.mtu.set_ceiling(size);
                }
            }
            let size = model.mtu.size();
            prop_assert!((576..=most).contains(&size), "{}", size);
            prop_assert!(passed.contains(&size), "{} was never confirmed", size);
            prop_assert!(model.mtu.earlier.len() <= REMEMBERED);
            prop_assert!(model.mtu.counters.probes_lost <= model.mtu.counters.probes_sent);
        }
    }
}
