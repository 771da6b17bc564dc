// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Any scenario that must work, from a seed.
//!
//! The ranges are those that the protocol promises to survive. The amount of data follows the
//! scheme, the loss and the delay: not to be kind to the protocol, but to spend the time of a test
//! run on many different seeds.

use std::time::Duration;

use arq_proto::{Config, CongestionConfig, FecConfig, LaneId, Reliability, Scheme};
use fastrand::Rng;
use impairments::{
    CoDel, Discipline, FadeConfig, Frame, Limit, LinkConfig, Opportunities, Rate, RateTrace,
};

use crate::{
    app::{AppPlan, Flow, Pacing, Reading, Sizes},
    toy::{Flights, Toy},
    wire::{Bottleneck, EcnFault, Loss, WireConfig},
    Scenario,
};

const MS: Duration = Duration::from_millis(1);

impl Scenario {
    /// A scenario that is decided by `seed` alone.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let scheme = random_scheme(&mut rng);
        let config = random_config(&mut rng, scheme);
        let delay = random_delay(&mut rng);
        let mut up = random_wire(&mut rng, delay, config.mtu.unwrap_or(1_200));
        let mut down = random_wire(&mut rng, delay, config.mtu.unwrap_or(1_200));
        let blackout = random_blackout(&mut rng);
        up.blackouts.extend(blackout.clone());
        down.blackouts.extend(blackout);
        // From luck of their own, so that the rest of a seed's scenario is what it was.
        let mut sizes = Rng::with_seed(seed ^ 0x6d74_755f_6d74_755f);
        let config = Config { mtu: random_ceiling(&mut sizes).or(config.mtu), ..config };
        random_mtu(&mut sizes, &mut up);
        random_mtu(&mut sizes, &mut down);
        let mut radio = Rng::with_seed(seed ^ 0x7261_6469_6f5f_7261);
        if radio.u8(..4) == 0 {
            random_radio(&mut radio, [&mut up, &mut down]);
        }
        let mut ecn = Rng::with_seed(seed ^ 0x6563_6e5f_6563_6e5f);
        let has_ecn = ecn.bool();
        for wire in [&mut up, &mut down] {
            wire.ecn_fault = sometimes(&mut ecn, random_ecn_fault);
        }
        // About as many packets as a fast run can afford.
        let bytes = match scheme {
            Scheme::SelectiveRepeat => 400_000,
            Scheme::GoBackN => 60_000,
            Scheme::StopAndWait => 30_000,
        };
        Self {
            seed,
            up,
            down,
            radios: Vec::new(),
            config,
            server_paths: None,
            metered_rate_bps: None,
            moves: Vec::new(),
            client: random_plan(&mut rng, bytes),
            server: random_plan(&mut rng, bytes / 2),
            timer_lateness: if rng.bool() { Duration::ZERO } else { 3 * MS.mul_f64(rng.f64()) },
            segments: rng.usize(1..=16),
            reads_together: rng.bool(),
            batch_loss: if rng.u8(..8) == 0 { rng.f32() } else { 0.0 },
            has_ecn,
            toy: None,
            max_unvalidated_handshakes: 64,
            limit: Duration::from_secs(1_200),
        }
    }
}

impl Scenario {
    /// The same with one to three radios more, each with wires of its own, and in half of the cases with sealed packets
    /// whose keys change often.
    #[must_use]
    pub fn random_with_radios(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x7061_7468_735f_6d70);
        let mut scenario = Self::random(seed);
        scenario.config.paths = 4;
        scenario.config.copies_percent = pick(&mut rng, &[0, 10, 10, 100]);
        let mtu = scenario.config.mtu.unwrap_or(1_452);
        for _ in 0..rng.u8(1..=3) {
            let delay = random_delay(&mut rng);
            let [mut up, mut down] = [0; 2].map(|_| random_wire(&mut rng, delay, mtu));
            random_mtu(&mut rng, &mut up);
            random_mtu(&mut rng, &mut down);
            if rng.u8(..4) == 0 {
                random_radio(&mut rng, [&mut up, &mut down]);
            }
            scenario.radios.push((up, down));
        }
        let is_sealed = rng.bool();
        scenario.config.duplicate = match rng.u8(..4) {
            0 => Some(0..=7),
            1 => Some(2..=4),
            _ => None,
        };
        scenario.metered_rate_bps =
            sometimes(&mut rng, |rng| Some(pick(rng, &[1_000, 100_000_000])));
        match is_sealed {
            true => scenario.sealed(Toy::new(Flights::default()), 64),
            false => scenario,
        }
    }
}

fn random_scheme(rng: &mut Rng) -> Scheme {
    match rng.u8(..10) {
        0 => Scheme::StopAndWait,
        1 => Scheme::GoBackN,
        _ => Scheme::SelectiveRepeat,
    }
}

fn random_config(rng: &mut Rng, scheme: Scheme) -> Config {
    Config {
        congestion: random_congestion(rng),
        max_rate_bps: sometimes(rng, |rng| Some(pick(rng, &[500_000, 5_000_000, 50_000_000]))),
        mtu: Some(pick(rng, &[576, 1_200, 1_452, 1_452, 9_000])),
        chunk_bytes: pick(rng, &[None, None, Some(512), Some(1_000)]),
        fec: pick(
            rng,
            &[
                FecConfig::Off,
                FecConfig::Auto,
                FecConfig::Auto,
                FecConfig::Percent(20),
                FecConfig::Percent(100),
            ],
        ),
        lane_window_bytes: pick(rng, &[128 << 10, 512 << 10, 2 << 20]),
        connection_window_bytes: pick(rng, &[128 << 10, 1 << 20, 8 << 20]),
        queue_bytes: pick(rng, &[None, Some(1), Some(16 << 10)]),
        deadline: pick(rng, &[None, Some(20 * MS), Some(500 * MS)]),
        max_ack_delay: pick(rng, &[Duration::ZERO, MS, 5 * MS, 25 * MS]),
        // Longer than any blackout and the bad luck after it.
        idle_timeout: Duration::from_secs(60),
        handshake_timeout: Duration::from_secs(60),
        ..Config::default()
    }
    .scheme(scheme)
}

fn random_congestion(rng: &mut Rng) -> CongestionConfig {
    match rng.u8(..4) {
        0 => CongestionConfig::Constant { window_bytes: 1 << rng.u32(14..=20) },
        1 => CongestionConfig::Aimd,
        2 => CongestionConfig::Cubic,
        _ => CongestionConfig::Tolerant,
    }
}

/// 0.1 to 300 ms, short ones as likely as long ones.
fn random_delay(rng: &mut Rng) -> Duration {
    Duration::from_micros(100).mul_f64(3_000_f64.powf(rng.f64()))
}

fn random_wire(rng: &mut Rng, delay: Duration, mtu: u16) -> WireConfig {
    let hold_back = delay.mul_f64(2.0 * rng.f64());
    WireConfig {
        delay,
        jitter: sometimes(rng, |rng| delay.mul_f64(rng.f64())),
        jitter_in_order: rng.bool(),
        loss: random_loss(rng),
        duplicate: sometimes(rng, |rng| pick(rng, &[0.01, 0.3, 1.0])),
        reorder: sometimes(rng, |rng| pick(rng, &[0.01, 0.2, 0.5])),
        hold_back,
        corrupt: sometimes(rng, |rng| rng.f32() * 0.05),
        truncate: sometimes(rng, |rng| rng.f32() * 0.05),
        bottleneck: rng.bool().then(|| Bottleneck {
            rate_bps: pick(rng, &[2_000_000, 10_000_000, 100_000_000, 1_000_000_000]),
            queue_bytes: pick(rng, &[32 << 10, 128 << 10, 1 << 20]),
        }),
        blackouts: Vec::new(),
        mtu: rng.bool().then(|| usize::from(mtu.max(1_200))),
        // Congestion has tests of its own.
        ..WireConfig::default()
    }
}

/// The longest datagram that is looked for.
fn random_ceiling(rng: &mut Rng) -> Option<u16> {
    sometimes(rng, |rng| Some(pick(rng, &[1_300, 1_472, 8_972])))
}

/// A path that carries what it likes, and other sizes later on; for a while also less than every path
/// should.
fn random_mtu(rng: &mut Rng, wire: &mut WireConfig) {
    if rng.bool() {
        wire.mtu = Some(pick(rng, &[1_200, 1_252, 1_452, 1_472, 8_972]));
    }
    for _ in 0..sometimes(rng, |rng| rng.usize(1..=3)) {
        let at = MS * rng.u32(300..6_000);
        wire.mtu_changes.push((at, pick(rng, &[700, 1_200, 1_252, 1_472, 4_000, 8_972])));
        // A handshake that is late must pass in the end.
        wire.mtu_changes.push((6_000 * MS, pick(rng, &[1_200, 1_252, 1_472, 8_972])));
    }
    wire.bit_error_rate = sometimes(rng, |rng| pick(rng, &[1e-6, 1e-5, 3e-5]));
}

/// Radios that stall, queue and fade by the clock, in place of the bottlenecks.
fn random_radio(rng: &mut Rng, wires: [&mut WireConfig; 2]) {
    let fades = sometimes(rng, |rng| {
        Some(FadeConfig {
            share: 0.2 * rng.f64(),
            mean: MS * rng.u32(10..=400),
            is_regular: rng.bool(),
            lost: pick(rng, &[1.0, 0.6]),
            seed: rng.u64(..),
        })
    });
    for wire in wires {
        wire.bottleneck = None;
        wire.fades = fades;
        let limit = pick(rng, &[Limit::Packets(50), Limit::Packets(1_000), Limit::Bytes(64 << 10)]);
        let codel = pick(rng, &[CoDel::DROPPING, CoDel::MARKING]);
        let queue = match rng.u8(..4) {
            0 => Discipline::CoDel(codel, limit),
            1 => Discipline::FqCoDel(codel, limit),
            _ => Discipline::DropTail(limit),
        };
        let packets = pick(rng, &[1, 1, 64]);
        let frame = Frame { packets, access: sometimes(rng, |rng| MS * rng.u32(..3)) };
        wire.link = random_rate(rng).map(|rate| LinkConfig { rate, queue, frame });
    }
}

fn random_ecn_fault(rng: &mut Rng) -> EcnFault {
    pick(rng, &[EcnFault::Bleaches, EcnFault::Drops, EcnFault::MarksAll, EcnFault::Remarks])
}

fn random_rate(rng: &mut Rng) -> Option<Rate> {
    match rng.u8(..4) {
        0 => Some(Rate::fixed(pick(rng, &[500e3, 5e6, 50e6]))),
        1 => {
            let mbps: Vec<_> = (0..10).map(|_| pick(rng, &[0.0, 1e6, 5e6, 20e6])).collect();
            RateTrace::new(Duration::from_millis(500), mbps, Duration::ZERO).map(Rate::Trace)
        }
        2 => {
            // Up to some twenty megabits a second, with gaps of up to a second.
            let mut at = 0;
            let gap =
                |rng: &mut Rng| if rng.u8(..100) == 0 { rng.u32(..1_000) } else { rng.u32(..3) };
            let ms = (0..2_000).map(|_| {
                at += gap(rng);
                at
            });
            Opportunities::new(ms.collect::<Vec<_>>(), 0).map(Rate::Opportunities)
        }
        _ => None,
    }
}

fn random_loss(rng: &mut Rng) -> Loss {
    match rng.u8(..4) {
        0 => Loss::None,
        1 | 2 => Loss::Random(rng.f32() * 0.25),
        _ => Loss::Bursts {
            good_packets: 20.0 + 200.0 * rng.f32(),
            bad_packets: 1.0 + 15.0 * rng.f32(),
            loss_in_bad: 0.5 + 0.5 * rng.f32(),
        },
    }
}

fn random_blackout(rng: &mut Rng) -> Option<std::ops::Range<Duration>> {
    rng.bool().then(|| {
        let start = Duration::from_secs_f64(2.0 * rng.f64());
        start..start + Duration::from_secs_f64(8.0 * rng.f64() * rng.f64())
    })
}

fn random_plan(rng: &mut Rng, bytes: usize) -> AppPlan {
    let flows = rng.usize(0..=4);
    let flows = (0..flows).map(|_| random_flow(rng, bytes / flows)).collect();
    let reading = match rng.u8(..8) {
        0 => Reading::Every(Duration::from_micros(rng.u64(100..20_000))),
        _ => Reading::AtOnce,
    };
    AppPlan { flows, reading }
}

fn random_flow(rng: &mut Rng, bytes: usize) -> Flow {
    let reliability =
        if rng.u8(..4) == 0 { Reliability::BestEffort } else { Reliability::Reliable };
    let sizes = match rng.u8(..5) {
        0 => Sizes::Fixed(1),
        1 => Sizes::Between(1, 40),
        2 => Sizes::Between(1, 3_000),
        3 => Sizes::Between(1, 65_535),
        // A large publication is a row of full messages.
        _ => Sizes::Fixed(65_535),
    };
    let mean = match sizes {
        Sizes::Fixed(len) => len,
        Sizes::Between(min, max) => (min + max) / 2,
    };
    let messages = (bytes / mean).clamp(1, 300) as u64;
    let pacing = if rng.bool() {
        Pacing::AsAccepted
    } else {
        Pacing::Every(Duration::from_micros(rng.u64(100..30_000)))
    };
    let lane = LaneId::new(rng.u8(..LaneId::PRIORITIES), reliability);
    let lane = lane.expect("the priority is in range");
    Flow { lane, sizes, pacing, messages: rng.u64(1..=messages) }
}

fn sometimes<T: Default>(rng: &mut Rng, value: impl FnOnce(&mut Rng) -> T) -> T {
    if rng.u8(..3) == 0 {
        value(rng)
    } else {
        T::default()
    }
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_random_configuration_is_valid() {
        for seed in 0..2_000 {
            let scenario = Scenario::random(seed);
            assert!(scenario.config.validate().is_ok(), "seed {seed}");
        }
    }

    #[test]
    fn the_seed_decides() {
        let text = |seed| format!("{:?}", Scenario::random(seed));
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
    }
}
