// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which messages does a vehicle publish, where, how often, and with which of zenoh's promises?
//!
//! | | key | priority | reliability | when full | how often |
//! |---|---|---|---|---|---|
//! | beacon (CAM) | `v2v/<vehicle>/cam` | data high | best effort | drop | 1 to 10 Hz, by movement |
//! | hazard (DENM) | `v2v/<vehicle>/denm` | real-time, express | reliable | block | when it happens |
//! | perceived objects (CPM) | `v2v/<vehicle>/cpm` | data | best effort | drop | 2 Hz |
//! | camera | `v2v/<vehicle>/camera` | background | best effort | drop | on request |
//!
//! A beacon that is 100 ms old is soon followed by a better one: over `arq/` the locator's `deadline_ms` (100 with
//! `preset=v2v`) ends its repair. A hazard is told once and must arrive, and nothing may hold it back.

use std::time::Duration;

use zenoh::pubsub::Publisher;
use zenoh::qos::{CongestionControl, Priority, Reliability};
use zenoh::{Session, Wait};

use super::world::Motion;

/// After this time a beacon is late.
pub const DEADLINE: Duration = Duration::from_millis(100);
/// How often perceived objects are told.
pub const CPM_EVERY: Duration = Duration::from_millis(500);

/// What a vehicle publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Where it is and how it moves.
    Cam,
    /// What it warns of.
    Denm,
    /// What it sees of others.
    Cpm,
    /// Pictures.
    Camera,
}

impl Kind {
    /// The last part of its key.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cam => "cam",
            Self::Denm => "denm",
            Self::Cpm => "cpm",
            Self::Camera => "camera",
        }
    }

    /// The kind of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Cam, Self::Denm, Self::Cpm, Self::Camera]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    /// Where a vehicle publishes it.
    pub fn key(self, vehicle: u32) -> String {
        format!("v2v/{vehicle}/{}", self.name())
    }

    /// A publisher with the promises that it needs.
    pub fn publisher(self, session: &Session, vehicle: u32) -> zenoh::Result<Publisher<'static>> {
        let (priority, reliability, when_full) = match self {
            Self::Cam => (Priority::DataHigh, Reliability::BestEffort, CongestionControl::Drop),
            Self::Denm => (Priority::RealTime, Reliability::Reliable, CongestionControl::Block),
            Self::Cpm => (Priority::Data, Reliability::BestEffort, CongestionControl::Drop),
            Self::Camera => {
                (Priority::Background, Reliability::BestEffort, CongestionControl::Drop)
            }
        };
        session
            .declare_publisher(self.key(vehicle))
            .priority(priority)
            .reliability(reliability)
            .congestion_control(when_full)
            .express(self == Self::Denm)
            .wait()
    }
}

/// The vehicle and the kind of a key; `None` for a key that is not ours.
pub fn parse_key(key: &str) -> Option<(u32, Kind)> {
    let (vehicle, kind) = key.strip_prefix("v2v/")?.split_once('/')?;
    Some((vehicle.parse().ok()?, Kind::of_name(kind)?))
}

/// When is a beacon due? ETSI EN 302 637-2 (6.1.3): when the vehicle has turned by more than 4 degrees, moved by more
/// than 4 m or changed its speed by more than 0.5 m/s, never within 100 ms; and otherwise after as long as the last such
/// change took to come (`T_GenCam`), three times (`N_GenCam`), then once a second.
#[derive(Clone, Copy, Debug)]
pub struct BeaconRule {
    last: Option<(Duration, Motion)>,
    /// `T_GenCam`: the next one is due after this time whatever happens.
    interval: Duration,
    /// Beacons in a row that only the time called for.
    by_time: u8,
}

impl Default for BeaconRule {
    fn default() -> Self {
        Self { last: None, interval: Self::MOST, by_time: 0 }
    }
}

impl BeaconRule {
    /// How often to ask.
    pub const CHECK_EVERY: Duration = Duration::from_millis(50);
    const LEAST: Duration = Duration::from_millis(100);
    const MOST: Duration = Duration::from_secs(1);
    const N_GEN_CAM: u8 = 3;

    /// Goes on from a beacon that was made then.
    pub fn after(made: Duration, motion: Motion) -> Self {
        Self { last: Some((made, motion)), ..Self::default() }
    }

    /// Whether a beacon is due; if it is, the next one is counted from here.
    pub fn is_due(&mut self, now: Duration, motion: &Motion) -> bool {
        let Some((told, last)) = self.last else {
            self.last = Some((now, *motion));
            return true;
        };
        let since = now.saturating_sub(told);
        if since >= Self::LEAST && has_changed(&last, motion) {
            (self.interval, self.by_time) = (since.min(Self::MOST), 0);
        } else if since >= self.interval {
            self.by_time = (self.by_time + 1).min(Self::N_GEN_CAM);
            if self.by_time == Self::N_GEN_CAM {
                self.interval = Self::MOST;
            }
        } else {
            return false;
        }
        self.last = Some((now, *motion));
        true
    }
}

fn has_changed(before: &Motion, now: &Motion) -> bool {
    let turned_deg = (now.heading_deg - before.heading_deg + 180.0).rem_euclid(360.0) - 180.0;
    turned_deg.abs() > 4.0
        || now.position.distance_m(before.position) > 4.0
        || (now.speed_mps - before.speed_mps).abs() > 0.5
}

#[cfg(test)]
mod tests {
    use super::super::world::Point;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn driving(speed_mps: f64, heading_deg: f64, x_m: f64) -> Motion {
        Motion {
            position: Point { x_m, y_m: 0.0 },
            heading_deg,
            speed_mps,
            acceleration_mps2: 0.0,
            yaw_rate_dps: 0.0,
        }
    }

    #[test]
    fn keys_lead_back_to_their_vehicle_and_kind() {
        for kind in [Kind::Cam, Kind::Denm, Kind::Cpm, Kind::Camera] {
            assert_eq!(parse_key(&kind.key(17)), Some((17, kind)));
        }
        for bad in ["v2v/x/cam", "v2v/1/jam", "v2v/1", "cam", "v2v/4294967296/cam"] {
            assert_eq!(parse_key(bad), None, "{bad}");
        }
    }

    #[test]
    fn beacons_follow_the_movement() {
        let mut rule = BeaconRule::default();
        assert!(rule.is_due(Duration::ZERO, &driving(20.0, 359.0, 0.0)), "the first one at once");
        assert!(!rule.is_due(MS * 50, &driving(20.0, 90.0, 9.0)), "not within 100 ms");
        assert!(!rule.is_due(MS * 150, &driving(20.0, 359.0, 3.0)));
        assert!(rule.is_due(MS * 200, &driving(20.0, 359.0, 4.1)), "4 m");
        assert!(!rule.is_due(MS * 350, &driving(20.0, 2.0, 4.1)), "3 degrees across north");
        assert!(rule.is_due(MS * 400, &driving(20.0, 3.5, 4.1)), "4 degrees");
        assert!(rule.is_due(MS * 550, &driving(19.4, 3.5, 4.1)), "0.5 m/s");
        for due in [700, 850, 1_000] {
            assert!(!rule.is_due(MS * (due - 1), &driving(19.4, 3.5, 4.1)));
            assert!(
                rule.is_due(MS * due, &driving(19.4, 3.5, 4.1)),
                "as long as the last change took"
            );
        }
        assert!(!rule.is_due(MS * 1_999, &driving(19.4, 3.5, 4.1)), "three times, no more");
        assert!(rule.is_due(MS * 2_000, &driving(19.4, 3.5, 4.1)), "1 s");
    }

    #[test]
    fn a_rule_goes_on_from_a_beacon() {
        let mut rule = BeaconRule::after(MS * 100, driving(20.0, 0.0, 0.0));
        assert!(!rule.is_due(MS * 250, &driving(20.0, 0.0, 3.0)));
        assert!(rule.is_due(MS * 350, &driving(20.0, 0.0, 5.0)));
    }
}
