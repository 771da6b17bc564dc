// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which hazards were told in range, and how long did each take to arrive?
//!
//! The world knows every hazard, so that those which never arrive count, too.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::book::CLOCKS_DIFFER;
use crate::v2v::clock::milliseconds;
use crate::v2v::radio::RANGE_M;
use crate::v2v::world::{Cause, Hazard, World};

/// Figures and the list tell of the time before them, so long.
pub(super) const HAZARD_WINDOW: Duration = Duration::from_secs(60);
/// A vehicle tells a hazard within this time of meeting it; one that is younger is not yet told.
const TELLING: Duration = Duration::from_millis(50);

/// Hazards by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HazardCount {
    /// Told within range.
    pub told: u64,
    /// Heard.
    pub heard: u64,
    /// The longest that one took, or takes, milliseconds.
    pub slowest_ms: f64,
}

/// A hazard that was told within range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HazardEntry {
    /// By this vehicle.
    pub vehicle: u32,
    /// Its number among those of its vehicle.
    pub number: u64,
    /// What it is.
    pub cause: Cause,
    /// When it was told, milliseconds since 1970.
    pub at_ms: f64,
    /// How long it took, milliseconds; `None` while it has not come.
    pub took_ms: Option<f64>,
}

/// Keeps hazards told and heard together.
#[derive(Debug)]
pub struct HazardBook {
    own: u32,
    seen_to: Duration,
    recent: VecDeque<HazardEntry>,
    /// Heard before they were met, by this clock: when that will be, vehicle, number.
    early: BTreeSet<(Duration, u32, u64)>,
    total: HazardCount,
}

impl HazardBook {
    /// Hazards count from now on.
    pub fn new(own: u32, began: Duration) -> Self {
        let (recent, early) = (VecDeque::new(), BTreeSet::new());
        Self { own, seen_to: began, recent, early, total: HazardCount::default() }
    }

    /// A hazard has come; one from out of range, from before the beginning, or of nobody is ignored.
    pub fn hear(&mut self, world: &World, vehicle: u32, number: u64, arrived: Duration) {
        self.look(world, arrived);
        let heard = self
            .recent
            .iter_mut()
            .rev()
            .find(|entry| entry.vehicle == vehicle && entry.number == number);
        if let Some(entry) = heard.filter(|entry| entry.took_ms.is_none()) {
            let took_ms = (milliseconds(arrived) - entry.at_ms).max(0.0);
            entry.took_ms = Some(took_ms);
            self.total.heard += 1;
            self.total.slowest_ms = self.total.slowest_ms.max(took_ms);
        } else if vehicle < world.vehicles() && vehicle != self.own {
            // The clock of its vehicle is ahead.
            let soon = world.hazards(vehicle, arrived..arrived + CLOCKS_DIFFER);
            let of_it = soon.into_iter().filter(|hazard| hazard.number == number);
            self.early.extend(of_it.map(|hazard| (hazard.at, vehicle, number)));
        }
    }

    /// Notes what has been told until now; of a longer time than the window's only the end, because a machine that was
    /// asleep, or whose clock was set, does not catch up.
    pub fn look(&mut self, world: &World, now: Duration) {
        let span = self.seen_to.max(now.saturating_sub(HAZARD_WINDOW))..now;
        if span.is_empty() {
            return;
        }
        let others = (0..world.vehicles()).filter(|vehicle| *vehicle != self.own);
        let mut told: Vec<(u32, Hazard)> = others
            .flat_map(|v| world.hazards(v, span.clone()).into_iter().map(move |hazard| (v, hazard)))
            .filter(|(v, hazard)| world.distance_m(self.own, *v, hazard.at) <= RANGE_M)
            .collect();
        told.sort_by_key(|(_, hazard)| hazard.at);
        self.total.told += told.len() as u64;
        for (vehicle, hazard) in told {
            let was_early = self.early.remove(&(hazard.at, vehicle, hazard.number));
            self.total.heard += u64::from(was_early);
            self.recent.push_back(HazardEntry {
                vehicle,
                number: hazard.number,
                cause: hazard.cause,
                at_ms: milliseconds(hazard.at),
                took_ms: was_early.then_some(0.0),
            });
        }
        self.early.retain(|(at, ..)| *at >= now);
        self.seen_to = now;
        let begin_ms = milliseconds(now.saturating_sub(HAZARD_WINDOW));
        while self.recent.front().is_some_and(|entry| entry.at_ms < begin_ms) {
            self.recent.pop_front();
        }
    }

    /// The hazards of the last minute, the newest first.
    pub fn recent(&self) -> impl Iterator<Item = HazardEntry> + '_ {
        self.recent.iter().rev().copied()
    }

    /// How many of the last minute were heard. One that is under way is told, and slow, when it is late.
    pub fn count(&self, now: Duration) -> HazardCount {
        let mut count = HazardCount::default();
        for entry in &self.recent {
            let waiting_ms = milliseconds(now) - entry.at_ms;
            if entry.took_ms.is_none() && waiting_ms < milliseconds(TELLING) {
                continue;
            }
            count.told += 1;
            count.heard += u64::from(entry.took_ms.is_some());
            count.slowest_ms = count.slowest_ms.max(entry.took_ms.unwrap_or(waiting_ms));
        }
        count
    }

    /// How many since the beginning; `slowest_ms` is of those that were heard.
    pub fn total(&self) -> HazardCount {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v2v::world::WorldArgs;

    const NOW: Duration = Duration::from_secs(1_795_000_000);

    fn first_in_range(world: &World) -> (u32, Hazard) {
        let all = (1..world.vehicles()).map(|vehicle| (vehicle, world.next_hazard(vehicle, NOW)));
        all.filter(|(v, hazard)| world.distance_m(0, *v, hazard.at) < RANGE_M)
            .min_by_key(|(_, hazard)| hazard.at)
            .expect("a hazard in range")
    }

    #[test]
    fn hazards_count_from_when_they_are_told_whether_they_come_or_not() {
        let world = World::new(WorldArgs { seed: 2, vehicles: 20 });
        let (vehicle, hazard) = first_in_range(&world);
        let mut book = HazardBook::new(0, NOW);
        book.look(&world, hazard.at + TELLING / 2);
        assert_eq!(book.count(hazard.at + TELLING / 2).told, 0, "not yet told");
        assert_eq!(book.recent().count(), 1);

        let later = hazard.at + TELLING;
        assert_eq!((book.count(later).told, book.count(later).heard), (1, 0));
        assert!((book.count(later).slowest_ms - 50.0).abs() < 1e-3, "it is late");

        let arrived = hazard.at + Duration::from_millis(40);
        book.hear(&world, vehicle, hazard.number, arrived);
        book.hear(&world, vehicle, hazard.number, later);
        let count = book.count(later);
        assert_eq!((count.told, count.heard), (1, 1));
        assert!((count.slowest_ms - 40.0).abs() < 1e-3, "{}", count.slowest_ms);
        assert_eq!(book.total().heard, 1);

        book.look(&world, hazard.at + HAZARD_WINDOW * 2);
        assert!(book.recent().all(|entry| entry.at_ms > milliseconds(hazard.at)));
        assert!(book.total().told > 1);
    }

    #[test]
    fn a_machine_that_was_asleep_does_not_catch_up() {
        let world = World::new(WorldArgs { seed: 2, vehicles: 20 });
        let mut book = HazardBook::new(0, Duration::ZERO);
        book.look(&world, NOW);
        let told = book.total().told;
        // One in twenty seconds each.
        assert!((1..=4 * 19).contains(&told), "{told}");
    }

    #[test]
    fn one_from_a_vehicle_whose_clock_is_ahead_is_heard() {
        let world = World::new(WorldArgs { seed: 2, vehicles: 20 });
        let (vehicle, hazard) = first_in_range(&world);
        let mut book = HazardBook::new(0, NOW);
        for _ in 0..2 {
            book.hear(&world, vehicle, hazard.number, hazard.at - Duration::from_millis(5));
        }
        book.hear(&world, vehicle, hazard.number + 9, hazard.at - Duration::from_millis(5));
        assert_eq!((book.total().told, book.total().heard), (0, 0), "not yet");
        book.look(&world, hazard.at + TELLING);
        book.hear(&world, vehicle, hazard.number, hazard.at + TELLING);
        assert_eq!((book.total().told, book.total().heard), (1, 1));
        assert_eq!(book.recent().next().and_then(|entry| entry.took_ms), Some(0.0));
        assert!(book.early.is_empty());
    }

    #[test]
    fn one_that_comes_before_anybody_looked_is_noted() {
        let world = World::new(WorldArgs { seed: 2, vehicles: 20 });
        let (vehicle, hazard) = first_in_range(&world);
        let mut book = HazardBook::new(0, NOW);
        book.hear(&world, vehicle, hazard.number, hazard.at + Duration::from_millis(5));
        assert_eq!(book.total().heard, 1);
        book.hear(&world, vehicle, hazard.number + 9, hazard.at + TELLING);
        book.hear(&world, 4_000, hazard.number, hazard.at + TELLING);
        assert_eq!(book.total().heard, 1);
    }
}
