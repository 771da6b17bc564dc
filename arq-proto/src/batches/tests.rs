// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The decider against hosts that damage batches and networks that do not.

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::*;

/// What a host does to a batch.
#[derive(Debug, Clone, Copy)]
enum Damage {
    None,
    /// So many in a hundred are lost as a whole.
    Whole(u32),
    /// All, if they are of more packets than this.
    LongerThan(usize),
    /// Of each, all but the first packet.
    AllButFirst,
    /// Of each, the last packet.
    Last,
}

impl Damage {
    fn hits(self, index: usize, of: usize, luck: f64) -> bool {
        match self {
            Self::None => false,
            Self::Whole(percent) => luck < f64::from(percent) / 100.0,
            Self::LongerThan(packets) => of > packets,
            Self::AllButFirst => index > 0,
            Self::Last => index + 1 == of,
        }
    }
}

/// What the network does to packets: a Gilbert channel, whose bad state loses all.
#[derive(Debug, Clone, Copy)]
struct Network {
    loss: f64,
    mean_run: f64,
}

struct Run {
    batches: Batches,
    rng: ChaCha8Rng,
    is_bad: bool,
    packets: usize,
    transmissions: usize,
}

impl Run {
    fn new(seed: u64) -> Self {
        Self {
            batches: Batches::default(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            is_bad: false,
            packets: 0,
            transmissions: 0,
        }
    }

    fn luck(&mut self) -> f64 {
        f64::from(self.rng.next_u32()) / f64::from(u32::MAX)
    }

    fn network_loses(&mut self, network: Network) -> bool {
        let ends = 1.0 / network.mean_run;
        let begins = ends * network.loss / (1.0 - network.loss);
        let luck = self.luck();
        self.is_bad = if self.is_bad { luck >= ends } else { luck < begins };
        self.is_bad
    }

    /// A flight of `packets`, `most` at once; all of it is settled before the next one.
    fn flight(&mut self, packets: usize, most: usize, network: Network, damage: Damage) {
        let mut fates = Vec::new();
        while fates.len() < packets {
            let plan = self.batches.plan(most, false, &mut self.rng);
            let sent = plan.packets.min(packets - fates.len());
            self.batches.on_sent(Some(1_200));
            self.transmissions += 1;
            let luck = self.luck();
            for index in 0..sent {
                let damaged = sent > 1 && damage.hits(index, sent, luck);
                fates.push((plan.burst, damaged || self.network_loses(network)));
            }
        }
        self.batches.on_sent(None);
        self.packets += packets;
        fates.into_iter().for_each(|(burst, lost)| self.batches.on_settled(burst, lost));
    }
}

const CLEAN: Network = Network { loss: 0.0, mean_run: 1.0 };

/// Flights of so many packets until the verdict; `None` if there is none.
fn flights(seed: u64, packets: usize, network: Network, damage: Damage, limit: u32) -> Option<u32> {
    let mut run = Run::new(seed);
    (1..=limit).find(|_| {
        run.flight(packets, 54, network, damage);
        run.batches.are_stopped()
    })
}

// ARQ-BAT-2, ARQ-BAT-3
#[test]
fn damage_is_found_whatever_the_network_loses() {
    let networks = [
        ("clean", CLEAN),
        ("10 %", Network { loss: 0.1, mean_run: 1.0 / 0.9 }),
        ("30 %", Network { loss: 0.3, mean_run: 1.0 / 0.7 }),
        ("bursts", Network { loss: 0.1, mean_run: 20.0 }),
    ];
    for (name, network) in networks {
        for (damage, most) in [
            (Damage::Whole(99), 100),
            (Damage::Whole(50), 400),
            (Damage::Whole(25), 3_000),
            (Damage::LongerThan(4), 3_000),
            (Damage::AllButFirst, 400),
            (Damage::Last, 3_000),
        ] {
            let mut took: Vec<_> = (0..20)
                .map(|seed| flights(seed, 10, network, damage, 5_000).unwrap_or(u32::MAX))
                .collect();
            took.sort_unstable();
            println!("{name}, {damage:?}: {} to {} flights of ten", took[0], took[19]);
            // One of twenty may be late by chance; all are found.
            assert!(took[18] <= most && took[19] < u32::MAX, "{name}, {damage:?}: {took:?}");
        }
    }
}

// ARQ-BAT-2, ARQ-BAT-3
#[test]
fn damage_of_long_batches_alone_is_found() {
    let found = |seed| flights(seed, 54, CLEAN, Damage::LongerThan(20), 1_000);
    let mut took: Vec<_> = (0..20).map(|seed| found(seed).unwrap_or(u32::MAX)).collect();
    took.sort_unstable();
    println!("{} to {} flights of 54", took[0], took[19]);
    assert!(took[19] <= 300, "{took:?}");
}

// ARQ-BAT-2
#[test]
fn an_experiment_delays_little_where_little_is_lost() {
    let network = Network { loss: 0.1, mean_run: 1.1 };
    let each = (0..20).map(|seed| {
        let mut run = Run::new(seed);
        (0..50).for_each(|_| run.flight(70, 54, network, Damage::None));
        run.transmissions as f64 / 50.0
    });
    let most = each.fold(0.0, f64::max);
    println!("{most:.1} transmissions for each flight of 70");
    assert!(most <= 8.0, "{most}");
}

// ARQ-BAT-2
#[test]
fn batches_that_are_not_compared_tell_of_sizes_unless_their_loss_is_alarming() {
    for (loss, alarming) in [(0.1, false), (0.5, true)] {
        let mut run = Run::new(1);
        while !run.batches.are_compared() {
            run.flight(54, 54, CLEAN, Damage::None);
            run.flight(54, 54, Network { loss, mean_run: 1.0 / (1.0 - loss) }, Damage::None);
        }
        run.batches.loss = loss;
        let doubts = [Burst::Single, Burst::Apart(1), Burst::Together(1), Burst::Batch(1)]
            .map(|burst| run.batches.doubts(burst));
        assert_eq!(doubts, [false, false, true, alarming], "{loss}");
    }
}

// ARQ-BAT-3
#[test]
fn loss_of_the_network_is_not_taken_for_damage() {
    for (loss, mean_run) in [
        (0.02, 1.02),
        (0.1, 1.1),
        (0.1, 5.0),
        (0.1, 30.0),
        (0.3, 10.0),
        (0.5, 2.0),
        (0.5, 100.0),
        (0.9, 50.0),
    ] {
        let network = Network { loss, mean_run };
        for packets in [4, 10, 54, 300] {
            for seed in 0..10 {
                let found = flights(seed, packets, network, Damage::None, 100_000 / packets as u32);
                assert_eq!(found, None, "{network:?}, flights of {packets}, seed {seed}");
            }
        }
    }
}

// ARQ-BAT-2
#[test]
fn an_experiment_ends_and_is_not_repeated_soon() {
    let mut run = Run::new(1);
    let network = Network { loss: 0.1, mean_run: 1.1 };
    (0..20_000).for_each(|_| run.flight(10, 54, network, Damage::None));
    let each = run.packets as f64 / run.transmissions as f64;
    println!("{each:.1} packets a transmission");
    assert!(each > 6.0, "{each} of ten");
    assert!(matches!(run.batches.stage, Stage::Trusting { .. }));
    // Damage that begins meanwhile does not wait for the end of the rest.
    let found = (0..100).find(|_| {
        run.flight(10, 54, network, Damage::Whole(99));
        run.batches.are_stopped()
    });
    assert!(found.is_some(), "{:?}", run.batches);
}

// ARQ-BAT-1
#[test]
fn nothing_is_tried_where_little_is_lost_and_single_packets_leave_in_silence() {
    let mut run = Run::new(1);
    let network = Network { loss: 0.005, mean_run: 1.0 };
    (0..1_000).for_each(|_| run.flight(10, 54, network, Damage::None));
    assert_eq!(run.transmissions, 1_000);
    let plan = |run: &mut Run, most, silent| run.batches.plan(most, silent, &mut run.rng);
    assert_eq!(plan(&mut run, 54, false).packets, 54);
    for (most, silent) in [(1, false), (54, true)] {
        let single = Plan { burst: Burst::Single, packets: 1, bytes: None };
        assert_eq!(plan(&mut run, most, silent), single);
    }
}

// ARQ-BAT-4
#[test]
fn what_was_found_of_the_host_outlives_the_path() {
    let mut run = Run::new(1);
    while !run.batches.are_stopped() {
        run.flight(10, 54, CLEAN, Damage::Whole(99));
    }
    run.batches.on_path_change();
    assert_eq!(run.batches.plan(54, false, &mut run.rng).packets, 1);
    let mut run = Run::new(1);
    run.flight(10, 54, CLEAN, Damage::Whole(100));
    run.flight(10, 54, CLEAN, Damage::Whole(100));
    assert!(matches!(run.batches.stage, Stage::Comparing { .. }));
    run.batches.on_path_change();
    assert_eq!(run.batches.stage, Stage::default());
}
