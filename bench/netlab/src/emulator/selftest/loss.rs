// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Are as many packets lost as was asked for, the ones that the seed says, and others in the other direction?

use std::time::Duration;

use super::probe::{lost, Load, Pace, Probe};
use super::row::{Near, Row};
use crate::emulator::{EmulatorError, Network};
use crate::wire::{Conditions, Loss, Wire};
use impairments::{expected_share, pattern};

const SEEDS: u64 = 2;
const LEN_BYTES: u16 = 100;
const ALLOWED_POINTS: f64 = 0.3;
const ENOUGH_PACKETS: usize = 100_000;

/// Every model of loss with two seeds in both directions.
pub(super) fn rows(
    network: &mut Network,
    packets: u32,
    seed: u64,
) -> Result<Vec<Row>, EmulatorError> {
    let mut rows = Vec::new();
    for (name, loss) in models() {
        let mut runs = Vec::new();
        for seed in seed..seed + SEEDS {
            let [there, back] = both_ways(network, loss, packets, seed)?;
            rows.push(share_row(format!("lost, {name}, seed {seed}, there"), loss, &there));
            rows.push(share_row(format!("lost, {name}, seed {seed}, back"), loss, &back));
            rows.push(pattern_row(loss, seed, [&there, &back]));
            rows.push(correlation_row(loss, &there, &back));
            runs.push(there);
        }
        if let Loss::Gilbert { burst_packets, .. } = loss {
            rows.push(burst_row(burst_packets, &runs));
        }
    }
    rows.push(repeat_row(network, packets, seed)?);
    Ok(rows)
}

fn models() -> [(&'static str, Loss); 6] {
    [
        ("random 1 %", Loss::Random { percent: 1.0 }),
        ("random 10 %", Loss::Random { percent: 10.0 }),
        ("random 25 %", Loss::Random { percent: 25.0 }),
        ("netem 25 % 25 %", Loss::Correlated { percent: 25.0, correlation_percent: 25.0 }),
        ("Gilbert 10 %, L 5", Loss::Gilbert { percent: 10.0, burst_packets: 5.0 }),
        ("state 1 % 5 %", Loss::State { enter_percent: 1.0, leave_percent: 5.0 }),
    ]
}

fn both_ways(
    network: &mut Network,
    loss: Loss,
    packets: u32,
    seed: u64,
) -> Result<[Vec<bool>; 2], EmulatorError> {
    let wire = Wire { loss, ..Wire::default() };
    network.begin(
        &Conditions { forward: wire.clone(), backward: wire, ..Conditions::default() },
        seed,
    )?;
    let load = Load {
        packets,
        len_bytes: LEN_BYTES,
        pace: Pace::ReceiverTakes,
        burst: 1,
        patience: Duration::from_millis(200),
    };
    let run = |from, to| -> Result<_, EmulatorError> {
        Ok(lost(&Probe::new(network, from, to)?.run(load)?, packets))
    };
    Ok([run(0, 1)?, run(1, 0)?])
}

fn share_row(name: String, loss: Loss, lost: &[bool]) -> Row {
    let asked = expected_share(&loss) * 100.0;
    // The fates are the seed's, to the packet (the next row), so chance has no part in it but by the choice of the seed.
    // Only bursts, and fewer packets, leave too few independent fates for any seed to be so near: four deviations.
    let is_bursty = matches!(loss, Loss::Gilbert { .. } | Loss::State { .. });
    let by_chance = 4.0 * deviation(&loss, lost.len()) * 100.0;
    let is_certain = !is_bursty && lost.len() >= ENOUGH_PACKETS;
    let allowed = if is_certain { ALLOWED_POINTS } else { by_chance.max(ALLOWED_POINTS) };
    let near = Near { asked: round(asked), measured: share(lost) * 100.0, allowed };
    Row::near(name, "%", near)
}

fn pattern_row(loss: Loss, seed: u64, runs: [&[bool]; 2]) -> Row {
    // Of two hosts, from the first to the second and from the second to the first.
    let wrong = [1, 2].into_iter().zip(runs).map(|(direction, lost)| {
        let expected = pattern(loss, seed, direction, lost.len());
        expected.iter().zip(lost).filter(|(a, b)| a != b).count()
    });
    Row::exact("  fates that are not the seed's", 0, wrong.sum::<usize>() as u64)
}

/// The correlation of the two directions, packet by packet, as far from 0 as chance allows.
fn correlation_row(loss: Loss, there: &[bool], back: &[bool]) -> Row {
    let (a, b) = (share(there), share(back));
    let both = there.iter().zip(back).filter(|(a, b)| **a && **b).count() as f64;
    let covariance = both / there.len() as f64 - a * b;
    let measured = covariance / (a * (1.0 - a) * b * (1.0 - b)).sqrt();
    let memory = memory(&loss);
    let effective = there.len() as f64 * (1.0 - memory * memory) / (1.0 + memory * memory);
    let allowed = 4.0 / effective.sqrt();
    Row::near("  correlation of there and back", "", Near { asked: 0.0, measured, allowed })
}

fn burst_row(asked: f64, runs: &[Vec<bool>]) -> Row {
    let bursts = |run: &Vec<bool>| run.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    let lost: f64 = runs.iter().map(|run| share(run) * run.len() as f64).sum();
    let count = runs.iter().map(bursts).sum::<usize>() as f64;
    // A geometric length deviates by nearly its mean.
    let allowed = 3.0 * asked / count.sqrt();
    Row::near("  mean burst", "packets", Near { asked, measured: lost / count, allowed })
}

/// The same seed a second time, with other packets at another pace.
fn repeat_row(network: &mut Network, packets: u32, seed: u64) -> Result<Row, EmulatorError> {
    let loss = Loss::Random { percent: 10.0 };
    let first = both_ways(network, loss, packets.min(20_000), seed)?;
    let second = both_ways(network, loss, packets.min(20_000), seed)?;
    let differ = |a: &[bool], b: &[bool]| a.iter().zip(b).filter(|(a, b)| a != b).count() as u64;
    let wrong = differ(&first[0], &second[0]) + differ(&first[1], &second[1]);
    Ok(Row::exact("lost otherwise when the same seed runs again", 0, wrong))
}

fn share(lost: &[bool]) -> f64 {
    lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
}

/// The standard deviation of the share lost among so many packets.
fn deviation(loss: &Loss, packets: usize) -> f64 {
    let (p, memory) = (expected_share(loss), memory(loss));
    (p * (1.0 - p) * (1.0 + memory) / (1.0 - memory) / packets as f64).sqrt()
}

/// The correlation of one packet's loss with the next one's.
fn memory(loss: &Loss) -> f64 {
    match *loss {
        Loss::None | Loss::Random { .. } => 0.0,
        Loss::Correlated { correlation_percent, .. } => correlation_percent / 100.0,
        Loss::Gilbert { percent, burst_packets } => {
            1.0 - 1.0 / burst_packets - percent / (100.0 - percent) / burst_packets
        }
        Loss::State { enter_percent, leave_percent } => {
            1.0 - (enter_percent + leave_percent) / 100.0
        }
    }
}

fn round(percent: f64) -> f64 {
    (percent * 100.0).round() / 100.0
}
