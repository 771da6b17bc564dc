// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What follows from the messages that have come? Without a clock or a session: both are passed in.

use std::collections::VecDeque;
use std::time::Duration;

use super::awareness::{Awareness, Known, WINDOW};
use super::encounters::{approach, believed_approach, EncounterBook};
use super::hazards::HazardBook;
use super::report::{Ages, Collision, Report, Shown, VehicleReport};
use crate::v2v::clock::milliseconds;
use crate::v2v::message::{Beacon, CodecError, Message, Notice, Perception, Stamp};
use crate::v2v::radio::RANGE_M;
use crate::v2v::traffic::Kind;
use crate::v2v::world::World;

/// Hazards count from here on, and the beacons of those who were never heard: before, sessions are still being opened,
/// over any link.
const SETTLING: Duration = Duration::from_secs(5);
/// Hazards in a report's list.
const LISTED: usize = 6;
/// The clocks of two vehicles differ by less. A message from further ahead would count as the newest for ever.
pub(super) const CLOCKS_DIFFER: Duration = Duration::from_secs(1);

/// All that a monitor remembers.
#[derive(Debug)]
pub struct Book {
    world: World,
    own: u32,
    link: String,
    awareness: Awareness,
    hazards: HazardBook,
    encounters: EncounterBook,
    /// Since when each vehicle is within range; `None` while it is not.
    near_since: Vec<Option<Duration>>,
    /// The ages of the last [`WINDOW`], by when they were taken.
    ages: VecDeque<(Duration, Vec<f64>)>,
    perceptions: u64,
    unreadable: u64,
    reports: u64,
}

impl Book {
    /// An empty one, of a monitor that rides in vehicle `own` and hears over `link`.
    pub fn new(world: World, own: u32, link: String, began: Duration) -> Self {
        Self {
            awareness: Awareness::new(own, world.vehicles(), began, began + SETTLING),
            hazards: HazardBook::new(own, began + SETTLING),
            encounters: EncounterBook::default(),
            near_since: vec![Some(began); world.vehicles() as usize],
            ages: VecDeque::new(),
            perceptions: 0,
            unreadable: 0,
            reports: 0,
            world,
            own,
            link,
        }
    }

    /// A message of another vehicle has come. What cannot be read is counted, and no more.
    pub fn hear(
        &mut self,
        vehicle: u32,
        kind: Kind,
        payload: &[u8],
        stamp: &[u8],
        arrived: Duration,
    ) {
        if self.try_hear(vehicle, kind, payload, stamp, arrived).is_err() {
            self.unreadable += 1;
        }
    }

    fn try_hear(
        &mut self,
        vehicle: u32,
        kind: Kind,
        payload: &[u8],
        stamp: &[u8],
        arrived: Duration,
    ) -> Result<(), CodecError> {
        match kind {
            Kind::Cam => {
                let stamp = Stamp::decode(stamp)?.not_after(arrived + CLOCKS_DIFFER)?;
                let known = Known { stamp, motion: Beacon::decode(payload)?.motion };
                self.awareness.hear(&self.world, vehicle, known, arrived);
            }
            Kind::Denm => {
                let notice = Notice::decode(payload)?;
                self.hazards.hear(&self.world, notice.vehicle, notice.number, arrived);
            }
            Kind::Cpm => {
                Perception::decode(payload)?;
                self.perceptions += 1;
            }
            Kind::Camera => {}
        }
        Ok(())
    }

    /// What is known now. Ages and dangers are taken by it, so it is to be asked for some ten times a second.
    pub fn report(&mut self, now: Duration) -> Report {
        self.hazards.look(&self.world, now);
        let vehicles: Vec<_> = self.others().map(|vehicle| self.vehicle(vehicle, now)).collect();
        let collisions = self.meet(now);
        let ages = self.take_ages(&vehicles, now);
        let number = self.reports;
        self.reports += 1;
        let report = Report {
            number,
            at_ms: milliseconds(now),
            link: self.link.clone(),
            own: self.own,
            vehicles,
            ages,
            beacons: self.awareness.deadlines(&self.world, now),
            beacons_total: self.awareness.total(),
            perceptions: self.perceptions,
            hazards: self.hazards.count(now),
            hazards_total: self.hazards.total(),
            hazard_list: self.hazards.recent().take(LISTED).collect(),
            encounters: self.encounters.over(),
            collisions,
            unreadable: self.unreadable,
            shown: Shown::default(),
        };
        report.with_words()
    }

    fn others(&self) -> impl Iterator<Item = u32> {
        let own = self.own;
        (0..self.world.vehicles()).filter(move |vehicle| *vehicle != own)
    }

    fn vehicle(&self, vehicle: u32, now: Duration) -> VehicleReport {
        let known = self.awareness.known(vehicle);
        VehicleReport {
            vehicle,
            distance_m: self.world.distance_m(self.own, vehicle, now),
            age_ms: known.map(|_| milliseconds(self.awareness.age(vehicle, now))),
            position: known.map(|known| known.motion.position),
        }
    }

    /// Holds true and believed dangers against each other; those that are believed.
    fn meet(&mut self, now: Duration) -> Vec<Collision> {
        let Some(own) = self.world.motion(self.own, now) else {
            return Vec::new();
        };
        let mut collisions = Vec::new();
        for vehicle in self.others() {
            let truth = self.world.motion(vehicle, now).and_then(|other| approach(&own, &other));
            let age = self.awareness.age(vehicle, now);
            let known = self.awareness.known(vehicle);
            let believed = known.and_then(|known| believed_approach(&own, &known.motion, age));
            self.encounters.note(vehicle, now, truth.is_some(), believed.is_some());
            collisions.extend(believed.map(|ahead| Collision { vehicle, in_s: ahead.in_s }));
        }
        collisions
    }

    fn take_ages(&mut self, vehicles: &[VehicleReport], now: Duration) -> Ages {
        let mut ages = Vec::new();
        for &VehicleReport { vehicle, distance_m, .. } in vehicles {
            let Some(near_since) = self.near_since.get_mut(vehicle as usize) else { continue };
            if distance_m > RANGE_M {
                *near_since = None;
                continue;
            }
            // Nobody need have heard of it while it was away. Who was never heard is as old as this monitor.
            let near_for = now.saturating_sub(*near_since.get_or_insert(now));
            ages.push(milliseconds(self.awareness.age(vehicle, now).min(near_for)));
        }
        let oldest_ms = ages.iter().copied().reduce(f64::max);
        self.ages.push_back((now, ages));
        while self.ages.front().is_some_and(|(taken, _)| now.saturating_sub(*taken) > WINDOW) {
            self.ages.pop_front();
        }
        let mut all: Vec<f64> = self.ages.iter().flat_map(|(_, ages)| ages).copied().collect();
        all.sort_by(f64::total_cmp);
        Ages {
            oldest_ms,
            typical_ms: all.get(all.len() / 2).copied(),
            worst_ms: all.last().copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v2v::world::WorldArgs;

    const NOW: Duration = Duration::from_secs(1_795_000_000);
    const MS: Duration = Duration::from_millis(1);

    /// Ten seconds in which every vehicle beacons each 200 ms and each message takes `delay`.
    fn report(delay: Duration) -> Report {
        let world = World::new(WorldArgs { seed: 1, vehicles: 6 });
        let mut book = Book::new(world.clone(), 0, "test".to_owned(), NOW);
        let mut last = None;
        for tick in 0..100 {
            let now = NOW + MS * 100 * tick;
            for vehicle in (1..6).filter(|_| tick % 2 == 0) {
                let beacon = Beacon { vehicle, motion: world.motion(vehicle, now).unwrap() };
                let stamp = Stamp { sequence: tick / 2, sent: now }.encode();
                let payload = beacon.encode().unwrap();
                book.hear(vehicle, Kind::Cam, &payload, &stamp, now + delay);
            }
            last = Some(book.report(now + delay));
        }
        last.unwrap()
    }

    #[test]
    fn a_report_says_how_old_the_news_is() {
        let fast = report(MS * 20);
        assert_eq!(fast.number, 99);
        assert_eq!((fast.ages.worst_ms, fast.ages.oldest_ms), (Some(120.0), Some(120.0)));
        assert_eq!(fast.shown.worst_age, "120 ms");
        assert_eq!(fast.beacons.missed(), 0);
        assert!(fast.beacons.all() > 40, "{:?}", fast.beacons);
        let slow = report(MS * 300);
        assert_eq!(slow.ages.worst_ms, Some(400.0));
        assert_eq!((slow.beacons.on_time, slow.shown.missed.as_str()), (0, "100 %"));
    }

    #[test]
    fn a_report_survives_json_and_prints_its_own_figures() {
        let report = report(MS * 20);
        let json = serde_json::to_string(&report).unwrap();
        let read: Report = serde_json::from_str(&json).unwrap();
        // The last digit of a number may differ.
        assert_eq!((&read.shown, read.number), (&report.shown, report.number));
        assert_eq!(
            (read.beacons, read.hazard_list.len()),
            (report.beacons, report.hazard_list.len())
        );
        let printed = report.to_string();
        let shown = &report.shown;
        for figure in [&shown.worst_age, &shown.missed_of, &shown.hazards, &shown.known] {
            assert!(printed.contains(figure.as_str()), "{figure} is not in\n{printed}");
        }
    }

    #[test]
    fn the_age_of_who_comes_near_counts_from_then() {
        let world = World::new(WorldArgs { seed: 1, vehicles: 2 });
        let mut book = Book::new(world.clone(), 0, "test".to_owned(), NOW);
        let (mut near_since, mut meetings) = (Some(NOW), 0);
        // The other one comes and goes, and is never heard.
        for tick in 1..6_000 {
            let now = NOW + MS * 100 * tick;
            let oldest_ms = book.report(now).ages.oldest_ms;
            if world.distance_m(0, 1, now) > RANGE_M {
                near_since = None;
                assert_eq!(oldest_ms, None);
            } else {
                meetings += u32::from(near_since.is_none());
                let since = *near_since.get_or_insert(now);
                assert_eq!(oldest_ms, Some(milliseconds(now - since)), "tick {tick}");
            }
        }
        assert!(meetings > 2, "{meetings}");
    }

    #[test]
    fn a_beacon_from_the_future_hides_no_later_one() {
        let world = World::new(WorldArgs { seed: 1, vehicles: 3 });
        let mut book = Book::new(world.clone(), 0, "test".to_owned(), NOW);
        let mut hear = |sequence: u32, sent: Duration| {
            let beacon = Beacon { vehicle: 1, motion: world.motion(1, NOW).unwrap() };
            let stamp = Stamp { sequence, sent }.encode();
            book.hear(1, Kind::Cam, &beacon.encode().unwrap(), &stamp, NOW);
            (book.unreadable, book.awareness.age(1, NOW + MS * 100))
        };
        assert_eq!(hear(0, NOW + MS * 60_000), (1, MS * 100), "never heard yet");
        assert_eq!(hear(1, NOW - MS * 20), (1, MS * 120));
    }

    #[test]
    fn what_cannot_be_read_is_counted_and_changes_nothing() {
        let world = World::new(WorldArgs { seed: 1, vehicles: 3 });
        let mut book = Book::new(world, 0, "test".to_owned(), NOW);
        for kind in [Kind::Cam, Kind::Denm, Kind::Cpm] {
            book.hear(1, kind, b"nonsense", b"", NOW);
        }
        book.hear(1, Kind::Camera, b"a picture", b"", NOW);
        let report = book.report(NOW + MS * 700);
        assert_eq!((report.unreadable, report.perceptions), (3, 0));
        assert!(report.vehicles.iter().all(|vehicle| vehicle.age_ms.is_none()));
        assert!(
            report.ages.oldest_ms.is_none_or(|age| age == 700.0),
            "never heard: {:?}",
            report.ages
        );
    }
}
