// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Over which network do the sessions open, and when is that over?

use std::time::{Duration, Instant};

use netlab::wire::{Conditions, Loss, Wire};
use netlab::{EmulatorError, Network};

use super::counts;

/// A delayed acknowledgement (40 ms) and a probe of the tail (two round trips) come within the round trips and this.
const SILENCE: Duration = Duration::from_millis(150);
/// A link that asks once a second whether the peer lives is never silent for longer.
const MOST_SILENCE: Duration = Duration::from_millis(900);
/// A link that is never silent is measured all the same.
const AT_MOST: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Waits until the openings have faded away. What is on its way when the network gets its faults is lost, and a link
/// would begin the measurement with a loss that no other had.
pub(super) fn wait_for_silence(
    network: &mut Network,
    asked: &Conditions,
) -> Result<(), EmulatorError> {
    // Jitter beyond four times its deviation is not to be expected in the few packets of an opening.
    let one_way_ms = |wire: &Wire| wire.delay_ms + 4.0 * wire.jitter_ms;
    let radios = [Some(asked), asked.second.as_deref()].into_iter().flatten();
    let round_trip = |radio: &Conditions| one_way_ms(&radio.forward) + one_way_ms(&radio.backward);
    let round_trip_ms = radios.map(round_trip).fold(0.0, f64::max);
    let silence = (SILENCE + Duration::from_secs_f64(2.0 * round_trip_ms / 1e3)).min(MOST_SILENCE);
    let began = Instant::now();
    let (mut seen, mut since) = (None, began);
    while since.elapsed() < silence && began.elapsed() < AT_MOST + silence {
        std::thread::sleep(LOOK_AGAIN);
        let packets = counts(network)?.map(|wire| (wire.entered_packets, wire.left_packets));
        if seen.replace(packets) != Some(packets) {
            since = Instant::now();
        }
    }
    Ok(())
}

/// The same network without anything that makes packets vanish, multiply or overtake each other, and without events.
/// Delay, rate and queue stay.
pub(super) fn faultless(network: &Conditions) -> Conditions {
    Conditions {
        forward: faultless_wire(&network.forward),
        backward: faultless_wire(&network.backward),
        events: Vec::new(),
        second: network.second.as_deref().map(faultless).map(Box::new),
    }
}

fn faultless_wire(wire: &Wire) -> Wire {
    Wire {
        loss: Loss::None,
        bit_error_rate: 0.0,
        duplicate_percent: 0.0,
        reorder_percent: 0.0,
        jitter_reorders: false,
        policer: None,
        fade: None,
        ..wire.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlab::wire::{Fade, Policer};

    #[test]
    fn what_is_slow_stays_slow_and_nothing_vanishes() {
        let wire = Wire {
            delay_ms: 300.0,
            jitter_ms: 5.0,
            rate_mbps: Some(1.0),
            loss: Loss::Random { percent: 50.0 },
            bit_error_rate: 1e-5,
            duplicate_percent: 100.0,
            reorder_percent: 50.0,
            policer: Some(Policer { rate_mbps: 1.0, burst_bytes: 3000 }),
            fade: Some(Fade { share_percent: 5.0, mean_ms: 50.0 }),
            ..Wire::default()
        };
        let both = Conditions { forward: wire.clone(), backward: wire, ..Conditions::default() };
        let network = Conditions { second: Some(Box::new(both.clone())), ..both };
        let slow = Wire {
            delay_ms: 300.0,
            jitter_ms: 5.0,
            jitter_reorders: false,
            rate_mbps: Some(1.0),
            ..Wire::default()
        };
        assert_eq!(faultless(&network).forward, slow);
        assert_eq!(faultless(&network).backward, slow);
        assert_eq!(faultless(&network).second.unwrap().forward, slow);
    }
}
