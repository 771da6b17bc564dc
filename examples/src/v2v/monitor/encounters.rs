// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Is a collision near, and was the driver told in time?
//!
//! Two vehicles that go straight on at their speeds come nearest to each other at one moment. If that is within
//! [`HORIZON_S`] and nearer than [`WIDTH_M`], it is a danger. The same rule is applied to what is true and to what is
//! believed from beacons: the difference is what the link costs. A belief older than [`OLDEST_BELIEF`] warns of nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::v2v::world::Motion;

/// Collisions further ahead are the driver's own business, seconds.
const HORIZON_S: f64 = 4.0;
/// Two vehicles of 1.8 m and a margin; opposite lanes are 5 m apart.
const WIDTH_M: f64 = 4.0;
/// A vehicle beacons once a second at least: without news for longer, nobody knows where it is.
const OLDEST_BELIEF: Duration = Duration::from_secs(1);
/// A danger that is shorter is a flicker of the rule.
const SHORTEST: Duration = Duration::from_millis(300);
/// A danger that comes back so soon is still the same.
const PAUSE: Duration = Duration::from_millis(500);

/// A collision that lies ahead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Approach {
    /// In so many seconds.
    pub in_s: f64,
    /// So near, metres.
    pub gap_m: f64,
}

/// How the dangers since the beginning were warned of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Encounters {
    /// Dangers that are over.
    pub dangers: u64,
    /// Those that were never warned of.
    pub unwarned: u64,
    /// The largest time by which a warning came after the danger began, milliseconds.
    pub slowest_ms: f64,
}

/// Keeps dangers and warnings together.
#[derive(Debug, Default)]
pub struct EncounterBook {
    open: BTreeMap<u32, Danger>,
    over: Encounters,
}

#[derive(Clone, Copy, Debug)]
struct Danger {
    began: Duration,
    last: Duration,
    warned: Option<Duration>,
}

/// When two vehicles come nearest to each other, if that is a danger.
pub fn approach(own: &Motion, other: &Motion) -> Option<Approach> {
    let (v, w) = (own.velocity(), other.velocity());
    let (x, y) = (other.position.x_m - own.position.x_m, other.position.y_m - own.position.y_m);
    let (vx, vy) = (w.x - v.x, w.y - v.y);
    let closing = vx * vx + vy * vy;
    // Two vehicles at one speed and heading keep their distance.
    let in_s = if closing < 1e-6 { 0.0 } else { -(x * vx + y * vy) / closing };
    let gap_m = (x + vx * in_s).hypot(y + vy * in_s);
    let is_danger = closing >= 1e-6 && (0.0..=HORIZON_S).contains(&in_s) && gap_m < WIDTH_M;
    is_danger.then_some(Approach { in_s, gap_m })
}

/// The same, from what is believed of the other: it goes straight on since the beacon.
pub fn believed_approach(own: &Motion, other: &Motion, age: Duration) -> Option<Approach> {
    if age > OLDEST_BELIEF {
        return None;
    }
    approach(own, &other.ahead(age.as_secs_f64()))
}

impl EncounterBook {
    /// Notes for one vehicle whether a danger is there and whether it is warned of.
    pub fn note(&mut self, vehicle: u32, now: Duration, is_danger: bool, is_warned: bool) {
        if is_danger {
            let fresh = Danger { began: now, last: now, warned: None };
            self.open.entry(vehicle).or_insert(fresh).last = now;
        }
        let Some(danger) = self.open.get_mut(&vehicle) else {
            return;
        };
        if is_warned {
            danger.warned.get_or_insert(now);
        }
        if now.saturating_sub(danger.last) > PAUSE {
            let danger = *danger;
            self.open.remove(&vehicle);
            self.over.count(danger);
        }
    }

    /// How the dangers that are over were warned of.
    pub fn over(&self) -> Encounters {
        self.over
    }
}

impl Encounters {
    fn count(&mut self, danger: Danger) {
        if danger.last.saturating_sub(danger.began) < SHORTEST {
            return;
        }
        self.dangers += 1;
        // A warning after the danger is none.
        match danger.warned.filter(|warned| *warned <= danger.last) {
            Some(warned) => {
                let delay_ms = warned.saturating_sub(danger.began).as_secs_f64() * 1e3;
                self.slowest_ms = self.slowest_ms.max(delay_ms);
            }
            None => self.unwarned += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::world::Point;
    use super::*;

    const NOW: Duration = Duration::from_secs(1_795_000_000);

    fn motion(x_m: f64, y_m: f64, heading_deg: f64, speed_mps: f64) -> Motion {
        let position = Point { x_m, y_m };
        Motion { position, heading_deg, speed_mps, acceleration_mps2: 0.0, yaw_rate_dps: 0.0 }
    }

    #[test]
    fn crossing_ways_collide_if_both_are_there_at_once() {
        let own = motion(0.0, -30.0, 0.0, 10.0);
        let hit = approach(&own, &motion(-30.0, 0.0, 90.0, 10.0)).expect("both arrive after 3 s");
        assert!((hit.in_s - 3.0).abs() < 1e-9 && hit.gap_m < 1e-6, "{hit:?}");
        assert_eq!(approach(&own, &motion(-60.0, 0.0, 90.0, 10.0)), None, "the other comes later");
        assert_eq!(approach(&own, &motion(-30.0, 0.0, 270.0, 10.0)), None, "it drives away");
        let far = motion(-100.0, 0.0, 90.0, 10.0);
        assert_eq!(approach(&motion(0.0, -100.0, 0.0, 10.0), &far), None, "not within 4 s");
    }

    #[test]
    fn lanes_and_columns_are_no_danger_but_a_slow_vehicle_ahead_is() {
        let own = motion(2.5, 0.0, 0.0, 15.0);
        assert_eq!(approach(&own, &motion(-2.5, 60.0, 180.0, 15.0)), None, "the opposite lane");
        assert_eq!(approach(&own, &motion(2.5, 20.0, 0.0, 15.0)), None, "the same speed");
        let ahead = approach(&own, &motion(2.5, 20.0, 0.0, 8.0)).expect("a slower one");
        assert!((ahead.in_s - 20.0 / 7.0).abs() < 1e-9);
    }

    #[test]
    fn a_belief_goes_on_straight_ahead_and_expires() {
        let own = motion(0.0, 0.0, 0.0, 10.0);
        let beacon = motion(-35.0, 30.0, 90.0, 10.0);
        let half = Duration::from_millis(500);
        let expected = approach(&own, &motion(-30.0, 30.0, 90.0, 10.0));
        assert_eq!(believed_approach(&own, &beacon, half), expected);
        assert!(expected.is_some());
        assert_eq!(believed_approach(&own, &beacon, OLDEST_BELIEF * 2), None);
    }

    #[test]
    fn dangers_are_warned_of_at_once_late_or_never() {
        let mut book = EncounterBook::default();
        for tenth in 0..40 {
            let now = NOW + Duration::from_millis(100) * tenth;
            book.note(1, now, tenth < 20, tenth < 20);
            book.note(2, now, tenth < 20, (7..20).contains(&tenth));
            book.note(3, now, tenth < 20, (21..30).contains(&tenth));
            book.note(4, now, tenth < 2, false);
            book.note(5, now, false, true);
        }
        let Encounters { dangers, unwarned, slowest_ms } = book.over();
        assert_eq!((dangers, unwarned), (3, 1));
        assert!((slowest_ms - 700.0).abs() < 1e-6, "{slowest_ms}");
    }
}
