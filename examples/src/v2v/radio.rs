// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What does the radio do to packets between two vehicles at a distance?
//!
//! The bench's presets `highway-near` (up to 200 m: 0.5 % lost, 2 ± 1 ms) and `highway-edge` (350 to 500 m: 5.7 to 62 %
//! lost in bursts of 3, 3 ± 2 ms) tell the ends; between and beyond them the loss follows a logistic curve through
//! those of `highway-edge`, as packet error rates do that follow the signal's strength. Bursts follow Gilbert's
//! model; their length is a choice of this project, not measured, and never below that of independent losses: a loss
//! makes no radio better. A pair has its own 6 Mb/s: vehicles do not compete for the channel here.

use serde::{Deserialize, Serialize};

use netlab::wire::{Fade, Loss, Wire};

/// Vehicles that are nearer than this are worth knowing, metres: the far end of the preset `highway-edge`.
pub const RANGE_M: f64 = 500.0;

/// The preset's ends: metres, and the share of packets lost there.
const NEAR_END: (f64, f64) = (350.0, 0.057);
const FAR_END: (f64, f64) = (500.0, 0.62);
/// No radio loses less: `highway-near`.
const LEAST_LOSS_PERCENT: f64 = 0.5;
/// Up to here the preset `highway-near` holds, from the other on `highway-edge`; metres.
const EDGE_BEGINS_M: [f64; 2] = [200.0, 350.0];
const RATE_MBPS: f64 = 6.0;
/// What a radio does that fades: all is lost for a second on the mean, a fifth of the time. Each does it at other times.
const FADE: Fade = Fade { share_percent: 20.0, mean_ms: 1_000.0 };
/// Where nearly everything is lost, bursts need no longer name.
const LONGEST_BURST_PACKETS: f64 = 100.0;

/// What somebody adds to the radio by hand, everywhere alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Impairment {
    /// Packets lost beside those that distance loses, per cent, 0 to 60.
    pub drop_percent: f64,
    /// The least mean length of a burst of losses, packets, 1 to 20.
    pub burst_packets: f64,
    /// Added to the delay in each direction, milliseconds, 0 to 200.
    pub delay_ms: f64,
    /// Whether radios fade.
    #[serde(default)]
    pub fades: bool,
    /// Whether the second radio is on, where there is one.
    #[serde(default)]
    pub second: bool,
}

/// No radio can be so.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{what} of {value} is not possible here: {least} to {most}")]
pub struct ImpairmentError {
    what: &'static str,
    value: f64,
    least: f64,
    most: f64,
}

/// The radio between two vehicles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Path {
    /// Packets lost, per cent.
    pub loss_percent: f64,
    /// The mean length of a burst of losses, packets.
    pub burst_packets: f64,
    /// In each direction, milliseconds.
    pub delay_ms: f64,
    /// Standard deviation of the delay, milliseconds.
    pub jitter_ms: f64,
    /// Whether it fades.
    pub fades: bool,
    /// Whether the second radio is on; it is of the same kind.
    pub second: bool,
}

impl Default for Impairment {
    fn default() -> Self {
        Self { drop_percent: 0.0, burst_packets: 1.0, delay_ms: 0.0, fades: false, second: false }
    }
}

impl Impairment {
    /// Refuses what is out of range, by name.
    pub fn check(self) -> Result<Self, ImpairmentError> {
        for (what, value, least, most) in [
            ("drop_percent", self.drop_percent, 0.0, 60.0),
            ("burst_packets", self.burst_packets, 1.0, 20.0),
            ("delay_ms", self.delay_ms, 0.0, 200.0),
        ] {
            // A NaN is in no range.
            if !(least..=most).contains(&value) {
                return Err(ImpairmentError { what, value, least, most });
            }
        }
        Ok(self)
    }
}

impl Path {
    /// The radio over a distance (metres), with what was added.
    pub fn over(distance_m: f64, added: &Impairment) -> Self {
        let [near_m, edge_m] = EDGE_BEGINS_M;
        let edge = ((distance_m - near_m) / (edge_m - near_m)).clamp(0.0, 1.0);
        let between = |near: f64, far: f64| near + (far - near) * edge;
        let kept = (1.0 - loss_percent(distance_m) / 100.0) * (1.0 - added.drop_percent / 100.0);
        Self {
            loss_percent: 100.0 * (1.0 - kept),
            burst_packets: between(1.0, 3.0)
                .max(added.burst_packets)
                .max((1.0 / kept).min(LONGEST_BURST_PACKETS)),
            delay_ms: between(2.0, 3.0) + added.delay_ms,
            jitter_ms: between(1.0, 2.0),
            fades: added.fades,
            second: added.second,
        }
    }

    /// The same as the emulated network has it, one direction.
    pub fn wire(&self) -> Wire {
        let loss = Loss::Gilbert { percent: self.loss_percent, burst_packets: self.burst_packets };
        Wire {
            delay_ms: self.delay_ms,
            jitter_ms: self.jitter_ms,
            jitter_reorders: false,
            loss,
            rate_mbps: Some(RATE_MBPS),
            fade: self.fades.then_some(FADE),
            ..Wire::default()
        }
    }

    /// That of the second radio: nothing passes while it is off.
    pub fn second_wire(&self) -> Wire {
        match self.second {
            true => self.wire(),
            false => Wire { loss: Loss::Random { percent: 100.0 }, ..Wire::default() },
        }
    }
}

/// Packets that the distance loses, per cent.
fn loss_percent(distance_m: f64) -> f64 {
    let logit = |share: f64| (share / (1.0 - share)).ln();
    let slope = (logit(FAR_END.1) - logit(NEAR_END.1)) / (FAR_END.0 - NEAR_END.0);
    let at = logit(FAR_END.1) + slope * (distance_m - FAR_END.0);
    (100.0 / (1.0 + (-at).exp())).max(LEAST_LOSS_PERCENT)
}

#[cfg(test)]
mod tests {
    use netlab::expected_share;

    use super::*;

    #[test]
    fn the_presets_ends_are_met_and_loss_grows_with_distance() {
        for (distance_m, percent) in [(0.0, 0.5), (200.0, 0.5), (350.0, 5.7), (500.0, 62.0)] {
            assert!((loss_percent(distance_m) - percent).abs() < 1e-9, "{distance_m} m");
        }
        assert!((0..2_000).map(|m| loss_percent(f64::from(m))).is_sorted());
        assert!(loss_percent(2_000.0) <= 100.0 && loss_percent(800.0) > 99.9);
        let path = |distance_m| Path::over(distance_m, &Impairment::default());
        let (near, edge) = (path(100.0), path(400.0));
        assert_eq!((near.delay_ms, near.jitter_ms), (2.0, 1.0));
        assert_eq!((edge.delay_ms, edge.jitter_ms, edge.burst_packets), (3.0, 2.0, 3.0));
    }

    #[test]
    fn what_is_added_comes_on_top() {
        let added = Impairment {
            drop_percent: 20.0,
            burst_packets: 5.0,
            delay_ms: 40.0,
            ..Impairment::default()
        };
        let near = Path::over(50.0, &added);
        assert!((near.loss_percent - 20.4).abs() < 1e-9, "{}", near.loss_percent);
        assert_eq!((near.burst_packets, near.delay_ms), (5.0, 42.0));
        assert!((expected_share(&near.wire().loss) - 0.204).abs() < 1e-9);
        let far = Path::over(3_000.0, &Impairment { drop_percent: 60.0, ..added });
        assert!(expected_share(&far.wire().loss) <= 1.0);
    }

    #[test]
    fn a_second_radio_is_as_the_first_or_silent() {
        let on = Impairment { fades: true, second: true, ..Impairment::default() };
        let path = Path::over(50.0, &on);
        assert!(path.wire().fade.is_some() && path.second_wire() == path.wire());
        let off = Path::over(50.0, &Impairment { second: false, ..on });
        assert!((expected_share(&off.second_wire().loss) - 1.0).abs() < 1e-9);
        assert!(Path::over(50.0, &Impairment::default()).wire().fade.is_none());
    }

    /// The mean length of a burst is 1 / (1 - p) if each packet is lost by a chance of its own.
    #[test]
    fn a_loss_never_makes_the_next_one_less_likely() {
        for drop_percent in [0.0, 10.0, 25.0, 50.0, 60.0] {
            for distance_m in [0.0, 200.0, 500.0, 600.0, 2_000.0] {
                let added = Impairment { drop_percent, ..Impairment::default() };
                let path = Path::over(distance_m, &added);
                let independent = 1.0 / (1.0 - path.loss_percent / 100.0);
                let least = independent.min(LONGEST_BURST_PACKETS) - 1e-9;
                assert!(path.burst_packets >= least, "{drop_percent} %, {distance_m} m: {path:?}");
                assert!(path.burst_packets.is_finite());
            }
        }
    }

    #[test]
    fn impossible_figures_are_refused_by_name() {
        let none = Impairment::default();
        assert_eq!(none.check(), Ok(none));
        for (added, named) in [
            (Impairment { drop_percent: -1.0, ..none }, "drop_percent"),
            (Impairment { burst_packets: 0.0, ..none }, "burst_packets"),
            (Impairment { delay_ms: f64::NAN, ..none }, "delay_ms"),
        ] {
            let error = added.check().unwrap_err().to_string();
            assert!(error.starts_with(named), "{error}");
        }
    }
}
