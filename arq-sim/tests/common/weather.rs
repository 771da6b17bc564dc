// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does the network do next, and for how long?

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::time::Duration;

use arq_sim::{Bottleneck, Loss, WireConfig};
use fastrand::Rng;

const SEC: Duration = Duration::from_secs(1);

/// A state of the network, how long it lasts, and whether anything gets through. A blackout does not
/// follow another: together they could outlast the idle time-out, which ends a connection rightly.
pub(crate) fn weather(rng: &mut Rng, works: bool) -> ([WireConfig; 2], Duration, bool) {
    if rng.u8(..8) == 0 && works {
        let black = WireConfig { blackouts: vec![Duration::ZERO..Duration::MAX], ..clear() };
        return ([black.clone(), black], SEC.mul_f64(0.2 + 7.8 * rng.f64()), false);
    }
    let delay = Duration::from_micros(500).mul_f64(300_f64.powf(rng.f64()));
    let bottleneck = rng.bool().then(|| Bottleneck {
        rate_bps: *rng.choice(&[8_000_000, 50_000_000, 1_000_000_000]).unwrap(),
        queue_bytes: *rng.choice(&[64 << 10, 1 << 20]).unwrap(),
    });
    let mut wire = || WireConfig {
        delay,
        jitter: delay.mul_f64(rng.f64() / 2.0),
        jitter_in_order: rng.bool(),
        loss: match rng.u8(..3) {
            0 => Loss::None,
            1 => Loss::Random(0.25 * rng.f32()),
            _ => Loss::Bursts {
                good_packets: 30.0 + 200.0 * rng.f32(),
                bad_packets: 1.0 + 15.0 * rng.f32(),
                loss_in_bad: 0.5 + 0.5 * rng.f32(),
            },
        },
        duplicate: *rng.choice(&[0.0, 0.0, 0.05]).unwrap(),
        reorder: *rng.choice(&[0.0, 0.0, 0.05]).unwrap(),
        hold_back: delay,
        corrupt: *rng.choice(&[0.0, 0.0, 0.01]).unwrap(),
        bottleneck,
        ..WireConfig::default()
    };
    let wires = [wire(), wire()];
    (wires, SEC.mul_f64(1.0 + 29.0 * rng.f64()), true)
}

/// Ten milliseconds each way, and nothing else.
pub(crate) fn clear() -> WireConfig {
    WireConfig::with_delay(Duration::from_millis(10))
}
