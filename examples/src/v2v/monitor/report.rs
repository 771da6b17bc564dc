// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What does a monitor tell? One structure, which the terminal prints and the page of `v2v_demo` shows.
//!
//! [`Shown`] has the figures as people read them, so that no two places round or word them differently.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::awareness::Deadlines;
use super::encounters::Encounters;
use super::hazards::{HazardCount, HazardEntry};
use crate::v2v::radio::RANGE_M;
use crate::v2v::world::Point;

/// What a monitor knows at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Counts the reports of this monitor, from 0.
    pub number: u64,
    /// When, milliseconds since 1970.
    pub at_ms: f64,
    /// The link over which it hears.
    pub link: String,
    /// The vehicle that it rides in.
    pub own: u32,
    /// What it knows of each of the others.
    pub vehicles: Vec<VehicleReport>,
    /// How old that is.
    pub ages: Ages,
    /// Beacons of the last 10 s.
    pub beacons: Deadlines,
    /// Beacons since the beginning.
    pub beacons_total: Deadlines,
    /// Lists of perceived objects that have come since the beginning.
    pub perceptions: u64,
    /// Hazards of the last minute.
    pub hazards: HazardCount,
    /// Hazards since the beginning.
    pub hazards_total: HazardCount,
    /// The newest hazards, the newest first.
    pub hazard_list: Vec<HazardEntry>,
    /// Dangers since the beginning.
    pub encounters: Encounters,
    /// Collisions that lie ahead, as far as is known.
    pub collisions: Vec<Collision>,
    /// Messages that could not be read since the beginning.
    pub unreadable: u64,
    /// The same for people.
    pub shown: Shown,
}

/// What is known of one vehicle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct VehicleReport {
    /// Which.
    pub vehicle: u32,
    /// Where it truly is, metres from here.
    pub distance_m: f64,
    /// The age of what is known, milliseconds; `None` when it was never heard.
    pub age_ms: Option<f64>,
    /// Where its newest beacon says that it is.
    pub position: Option<Point>,
}

/// Ages of information on the vehicles within range, milliseconds, counted from when they came within range at most; `None`
/// when none is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ages {
    /// The oldest now.
    pub oldest_ms: Option<f64>,
    /// The median of the last 10 s.
    pub typical_ms: Option<f64>,
    /// The oldest in the last 10 s.
    pub worst_ms: Option<f64>,
}

/// A collision that lies ahead.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Collision {
    /// With this vehicle.
    pub vehicle: u32,
    /// In so many seconds.
    pub in_s: f64,
}

/// The figures as people read them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The oldest information of the last 10 s.
    pub worst_age: String,
    /// The median of the last 10 s.
    pub typical_age: String,
    /// The share of beacons that missed their deadline.
    pub missed: String,
    /// Beacons that missed it, of how many.
    pub missed_of: String,
    /// Hazards heard, of how many.
    pub hazards: String,
    /// The slowest of them.
    pub slowest_hazard: String,
    /// Dangers warned of, of how many.
    pub warned: String,
    /// The slowest of these warnings came so long after the danger began.
    pub slowest_warning: String,
    /// Vehicles in range of which something is known that is no older than a second, of how many.
    pub known: String,
    /// Collisions ahead, the nearest first, then hazards, the newest first.
    pub warnings: Vec<Warning>,
}

/// A warning as people read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// What it is about.
    pub kind: WarningKind,
    /// Which vehicle.
    pub vehicle: u32,
    /// Of what.
    pub what: String,
    /// When, or since when.
    pub when: String,
}

/// What a warning is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// A collision ahead.
    Collision,
    /// A hazard that was heard.
    Heard,
    /// A hazard that was told, and has not come.
    Waiting,
}

/// Warnings that are shown.
const MOST_WARNINGS: usize = 6;

/// Information older than this says little, milliseconds: a vehicle beacons once a second at least.
pub const STALE_MS: f64 = 1_000.0;

impl Report {
    /// Puts the figures into words.
    pub fn with_words(mut self) -> Self {
        let in_range = || self.vehicles.iter().filter(|v| v.distance_m <= RANGE_M);
        let fresh = in_range().filter(|v| v.age_ms.is_some_and(|age| age <= STALE_MS)).count();
        let of = |part: u64, all: u64| format!("{part} of {all}");
        let Encounters { dangers, unwarned, slowest_ms } = self.encounters;
        self.shown = Shown {
            worst_age: time(self.ages.worst_ms),
            typical_age: time(self.ages.typical_ms),
            missed: percent(self.beacons.missed(), self.beacons.all()),
            missed_of: of(self.beacons.missed(), self.beacons.all()),
            hazards: of(self.hazards.heard, self.hazards.told),
            slowest_hazard: time((self.hazards.told > 0).then_some(self.hazards.slowest_ms)),
            warned: of(dangers - unwarned, dangers),
            slowest_warning: time((dangers > unwarned).then_some(slowest_ms)),
            known: of(fresh as u64, in_range().count() as u64),
            warnings: self.warnings(),
        };
        self
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut collisions = self.collisions.clone();
        collisions.sort_by(|one, other| one.in_s.total_cmp(&other.in_s));
        let collisions = collisions.into_iter().map(|Collision { vehicle, in_s }| Warning {
            kind: WarningKind::Collision,
            vehicle,
            what: "collision ahead".to_owned(),
            when: format!("in {in_s:.1} s"),
        });
        let hazards = self.hazard_list.iter().map(|entry| {
            let (kind, when) = match entry.took_ms {
                Some(took_ms) => {
                    (WarningKind::Heard, format!("heard after {}", time(Some(took_ms))))
                }
                None => {
                    let waited_ms = (self.at_ms - entry.at_ms).max(0.0);
                    (WarningKind::Waiting, format!("not heard for {}", time(Some(waited_ms))))
                }
            };
            Warning { kind, vehicle: entry.vehicle, what: entry.cause.name().to_owned(), when }
        });
        collisions.chain(hazards).take(MOST_WARNINGS).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown { worst_age, typical_age, missed, missed_of, .. } = &self.shown;
        let Shown { hazards, slowest_hazard, warned, slowest_warning, known, warnings, .. } =
            &self.shown;
        let (own, link) = (self.own, &self.link);
        writeln!(
            f,
            "vehicle {own} over {link}: fresh news of {known} vehicles within {RANGE_M} m"
        )?;
        writeln!(f, "  oldest information    {worst_age:>8}   typical {typical_age} (last 10 s)")?;
        writeln!(f, "  beacons late or lost  {missed:>8}   {missed_of} (last 10 s)")?;
        writeln!(
            f,
            "  hazards heard         {hazards:>8}   slowest {slowest_hazard} (last minute)"
        )?;
        writeln!(
            f,
            "  dangers warned of     {warned:>8}   slowest after {slowest_warning} (since the beginning)"
        )?;
        for vehicle in self.vehicles.iter().filter(|v| v.distance_m <= RANGE_M) {
            let VehicleReport { vehicle, distance_m, age_ms, .. } = *vehicle;
            let age = age_ms.map_or_else(|| "never heard".to_owned(), |age| time(Some(age)));
            writeln!(f, "    vehicle {vehicle:<3} {distance_m:>5.0} m   heard of it {age} ago")?;
        }
        if self.unreadable > 0 {
            let count = self.unreadable;
            writeln!(
                f,
                "  {count} messages could not be read: another version, or a clock that is ahead?"
            )?;
        }
        for Warning { vehicle, what, when, .. } in warnings {
            writeln!(f, "  ! vehicle {vehicle:<3} {what:<22} {when}")?;
        }
        Ok(())
    }
}

/// A time as people read it.
pub fn time(milliseconds: Option<f64>) -> String {
    match milliseconds {
        None => "–".to_owned(),
        Some(ms) if ms < 999.5 => format!("{ms:.0} ms"),
        Some(ms) if ms < 9_950.0 => format!("{:.1} s", ms / 1e3),
        Some(ms) => format!("{:.0} s", ms / 1e3),
    }
}

fn percent(part: u64, all: u64) -> String {
    if all == 0 {
        return "–".to_owned();
    }
    let percent = 100.0 * part as f64 / all as f64;
    if percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_worded_once_and_the_nearest_danger_stands_first() {
        use crate::v2v::world::Cause;

        let hazard = |number: u64, took_ms: Option<f64>| HazardEntry {
            vehicle: 3,
            number,
            cause: Cause::ObstacleOnRoad,
            at_ms: 1_000.0,
            took_ms,
        };
        let report = Report {
            number: 0,
            at_ms: 1_312.5,
            link: String::new(),
            own: 0,
            vehicles: Vec::new(),
            ages: Ages::default(),
            beacons: Deadlines::default(),
            beacons_total: Deadlines::default(),
            perceptions: 0,
            hazards: HazardCount::default(),
            hazards_total: HazardCount::default(),
            hazard_list: vec![hazard(2, None), hazard(1, Some(40.0))],
            encounters: Encounters { dangers: 3, unwarned: 1, slowest_ms: 700.0 },
            collisions: [(1, 3.2), (2, 0.9)]
                .map(|(vehicle, in_s)| Collision { vehicle, in_s })
                .into(),
            unreadable: 0,
            shown: Shown::default(),
        };
        let report = report.with_words();
        let words: Vec<_> =
            report.shown.warnings.iter().map(|w| (w.kind, w.vehicle, w.when.as_str())).collect();
        assert_eq!(
            words,
            [
                (WarningKind::Collision, 2, "in 0.9 s"),
                (WarningKind::Collision, 1, "in 3.2 s"),
                (WarningKind::Waiting, 3, "not heard for 312 ms"),
                (WarningKind::Heard, 3, "heard after 40 ms"),
            ]
        );
        assert_eq!(
            (report.shown.warned.as_str(), report.shown.slowest_warning.as_str()),
            ("2 of 3", "700 ms")
        );
        assert!(report.to_string().contains("obstacle on the road"), "{report}");
    }

    #[test]
    fn times_and_shares_are_short_and_never_pretend() {
        for (ms, words) in [
            (0.4, "0 ms"),
            (312.3, "312 ms"),
            (999.6, "1.0 s"),
            (2_340.0, "2.3 s"),
            (14_400.0, "14 s"),
        ] {
            assert_eq!(time(Some(ms)), words);
        }
        assert_eq!(time(None), "–");
        assert_eq!(percent(0, 0), "–");
        assert_eq!((percent(1, 250), percent(3, 4)), ("0.4 %".to_owned(), "75 %".to_owned()));
    }
}
