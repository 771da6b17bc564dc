// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How old is what is known of each vehicle, and how many beacons came too late for their purpose?
//!
//! The age of information is the time since the newest beacon that has come was *made*: it grows while nothing comes,
//! whether the vehicle is silent, the radio loses, or a link holds back what it has. A beacon misses its deadline when
//! it comes more than [`DEADLINE`] after it was made, or never, which shows when a later one comes; of a vehicle that is
//! silent, the beacons that it has made by the rule are missing, too. Only vehicles within [`RANGE_M`] count, by where
//! they truly are: a link must not look better for having lost sight of somebody.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::v2v::message::Stamp;
use crate::v2v::radio::RANGE_M;
use crate::v2v::traffic::{BeaconRule, DEADLINE};
use crate::v2v::world::{Motion, World};

/// Figures tell of the time before them, so long.
pub(super) const WINDOW: Duration = Duration::from_secs(10);
/// After so many missing beacons a vehicle has been away, and is counted anew.
const LONGEST_GAP: u32 = 600;
/// A vehicle that was not heard for longer is silent: it beacons once a second at least.
const SILENCE: Duration = Duration::from_millis(1_100);

/// What is known of all vehicles.
#[derive(Debug)]
pub struct Awareness {
    own: u32,
    began: Duration,
    tracks: Vec<Track>,
    total: Deadlines,
}

/// The newest that is known of a vehicle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// When it was made, and its number.
    pub stamp: Stamp,
    /// How the vehicle moved then.
    pub motion: Motion,
}

/// Beacons of vehicles in range, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlines {
    /// Came in time.
    pub on_time: u64,
    /// Came after the deadline.
    pub late: u64,
    /// Did not come, although a later one did, or a silent vehicle has made it.
    pub missing: u64,
}

#[derive(Debug, Default)]
struct Track {
    newest: Option<Known>,
    outcomes: VecDeque<Outcome>,
}

#[derive(Clone, Copy, Debug)]
struct Outcome {
    sequence: u32,
    sent: Duration,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    OnTime,
    Late,
    Missing,
}

impl Awareness {
    /// Nothing is known yet; `vehicles` is how many there are.
    pub fn new(own: u32, vehicles: u32, began: Duration) -> Self {
        let tracks = (0..vehicles).map(|_| Track::default()).collect();
        Self { own, began, tracks, total: Deadlines::default() }
    }

    /// A beacon has come; one of an unknown vehicle is ignored.
    pub fn hear(&mut self, world: &World, vehicle: u32, known: Known, arrived: Duration) {
        let in_range = |sent| world.distance_m(self.own, vehicle, sent) <= RANGE_M;
        let Some(track) = self.tracks.get_mut(vehicle as usize) else {
            return;
        };
        let Stamp { sequence, sent } = known.stamp;
        let fate = match arrived.saturating_sub(sent) > DEADLINE {
            true => Fate::Late,
            false => Fate::OnTime,
        };
        let last = track.newest.map(|newest| newest.stamp);
        if last.is_some_and(|last| sent <= last.sent) {
            // It was overtaken, and counted as missing then.
            if let Some(outcome) = track.overtaken(sequence) {
                outcome.fate = fate;
                self.total.uncount(Fate::Missing);
                self.total.count(fate);
            }
            return;
        }
        track.newest = Some(known);
        let missing = last.into_iter().flat_map(|last| missing_between(last, known.stamp));
        let all = missing.map(|(sequence, sent)| Outcome { sequence, sent, fate: Fate::Missing });
        for outcome in all.chain([Outcome { sequence, sent, fate }]) {
            if in_range(outcome.sent) {
                self.total.count(outcome.fate);
                track.outcomes.push_back(outcome);
            }
        }
    }

    /// The newest that is known of a vehicle.
    pub fn known(&self, vehicle: u32) -> Option<Known> {
        self.tracks.get(vehicle as usize)?.newest
    }

    /// How old that is; without any, as old as this monitor.
    pub fn age(&self, vehicle: u32, now: Duration) -> Duration {
        let since = self.known(vehicle).map_or(self.began, |known| known.stamp.sent);
        now.saturating_sub(since)
    }

    /// What became of the beacons of the last ten seconds.
    pub fn deadlines(&mut self, world: &World, now: Duration) -> Deadlines {
        let begin = now.saturating_sub(WINDOW);
        let mut recent = Deadlines::default();
        for track in &mut self.tracks {
            while track.outcomes.front().is_some_and(|outcome| outcome.sent < begin) {
                track.outcomes.pop_front();
            }
            track.outcomes.iter().for_each(|outcome| recent.count(outcome.fate));
        }
        let others = (0..world.vehicles()).filter(|vehicle| *vehicle != self.own);
        recent.missing += others.map(|vehicle| self.overdue(world, vehicle, now)).sum::<u64>();
        recent
    }

    /// The beacons of the last [`WINDOW`] that a silent vehicle has made and that should be here.
    fn overdue(&self, world: &World, vehicle: u32, now: Duration) -> u64 {
        let age = self.age(vehicle, now);
        if age <= SILENCE {
            return 0;
        }
        let mut time = now.saturating_sub(age.min(WINDOW));
        let (mut rule, mut overdue) = (BeaconRule::default(), 0);
        while time + DEADLINE < now {
            let is_due =
                world.motion(vehicle, time).is_some_and(|motion| rule.is_due(time, &motion));
            if is_due && world.distance_m(self.own, vehicle, time) <= RANGE_M {
                overdue += 1;
            }
            time += BeaconRule::CHECK_EVERY;
        }
        overdue
    }

    /// What became of all beacons since the beginning.
    pub fn total(&self) -> Deadlines {
        self.total
    }
}

impl Track {
    fn overtaken(&mut self, sequence: u32) -> Option<&mut Outcome> {
        let mut missing = self.outcomes.iter_mut().filter(|o| o.fate == Fate::Missing);
        missing.find(|outcome| outcome.sequence == sequence)
    }
}

impl Deadlines {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.on_time + self.late + self.missing
    }

    /// Those that missed their deadline.
    pub fn missed(&self) -> u64 {
        self.late + self.missing
    }

    fn count(&mut self, fate: Fate) {
        *self.of(fate) += 1;
    }

    fn uncount(&mut self, fate: Fate) {
        *self.of(fate) -= 1;
    }

    fn of(&mut self, fate: Fate) -> &mut u64 {
        match fate {
            Fate::OnTime => &mut self.on_time,
            Fate::Late => &mut self.late,
            Fate::Missing => &mut self.missing,
        }
    }
}

/// The beacons between two, and when they were made if they were evenly spread. None where the later one is of a
/// vehicle that began anew or was away.
fn missing_between(last: Stamp, next: Stamp) -> impl Iterator<Item = (u32, Duration)> {
    let steps = next.sequence.checked_sub(last.sequence).filter(|steps| *steps <= LONGEST_GAP);
    let steps = steps.unwrap_or(0);
    let span = next.sent.saturating_sub(last.sent);
    (1..steps).map(move |step| (last.sequence + step, last.sent + span * step / steps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v2v::world::WorldArgs;

    const NOW: Duration = Duration::from_secs(1_795_000_000);
    const MS: Duration = Duration::from_millis(1);

    /// A world, two vehicles of it that are near each other for the next seconds, and two that are not.
    fn world() -> (World, u32, u32) {
        let world = World::new(WorldArgs { seed: 1, vehicles: 40 });
        let always = |vehicle: u32, wanted: fn(f64) -> bool| {
            (0..20).all(|s| wanted(world.distance_m(0, vehicle, NOW + s * 1_000 * MS)))
        };
        let near = (1..40).find(|v| always(*v, |m| m < RANGE_M)).expect("somebody is near");
        let far = (1..40).find(|v| always(*v, |m| m > RANGE_M)).expect("somebody is far");
        (world, near, far)
    }

    struct Case {
        world: World,
        vehicle: u32,
        awareness: Awareness,
    }

    impl Case {
        fn near() -> Self {
            let (world, vehicle, _) = world();
            let awareness = Awareness::new(0, world.vehicles(), NOW);
            Self { world, vehicle, awareness }
        }

        fn hear(&mut self, sequence: u32, sent_ms: u32, arrived_ms: u32) {
            let sent = NOW + MS * sent_ms;
            let motion = self.world.motion(self.vehicle, sent).unwrap();
            let known = Known { stamp: Stamp { sequence, sent }, motion };
            self.awareness.hear(&self.world, self.vehicle, known, NOW + MS * arrived_ms);
        }

        fn deadlines(&mut self, now_ms: u32) -> [u64; 3] {
            let (world, now) = (&self.world, NOW + MS * now_ms);
            let Deadlines { on_time, late, missing } = self.awareness.deadlines(world, now);
            // Nobody else in this world says anything.
            let others = (1..world.vehicles()).filter(|vehicle| *vehicle != self.vehicle);
            let others = others.map(|vehicle| self.awareness.overdue(world, vehicle, now));
            [on_time, late, missing - others.sum::<u64>()]
        }

        fn age_ms(&self, now_ms: u32) -> u128 {
            self.awareness.age(self.vehicle, NOW + MS * now_ms).as_millis()
        }
    }

    #[test]
    fn the_age_counts_from_when_the_newest_was_made() {
        let mut case = Case::near();
        assert_eq!(case.age_ms(700), 700, "nothing yet");
        case.hear(0, 600, 900);
        assert_eq!(case.age_ms(900), 300);
        case.hear(2, 800, 950);
        case.hear(1, 700, 960);
        assert_eq!(case.age_ms(1_000), 200, "an older one tells nothing new");
    }

    #[test]
    fn beacons_are_in_time_late_or_missing() {
        let mut case = Case::near();
        case.hear(0, 0, 100);
        case.hear(1, 100, 201);
        case.hear(4, 400, 410);
        assert_eq!(case.deadlines(410), [2, 1, 2]);
        assert_eq!(case.deadlines(10_150)[..2], [1, 0], "two are out of the window");
        let total = case.awareness.total();
        assert_eq!((total.all(), total.missed()), (5, 3));
    }

    #[test]
    fn the_beacons_of_a_silent_vehicle_are_missing() {
        let mut case = Case::near();
        case.hear(0, 0, 5);
        assert_eq!(case.deadlines(1_100), [1, 0, 0], "it need not have made another");
        let [_, _, missing] = case.deadlines(5_000);
        assert!((5..=50).contains(&missing), "{missing} in five seconds");
        let [_, _, later] = case.deadlines(9_000);
        assert!(later > missing);
        assert_eq!(case.awareness.total().all(), 1, "the total waits for a later one");
    }

    #[test]
    fn one_that_was_overtaken_is_counted_once() {
        let mut case = Case::near();
        case.hear(0, 0, 5);
        case.hear(3, 300, 310);
        case.hear(2, 200, 320);
        case.hear(2, 200, 321);
        case.hear(1, 100, 160);
        assert_eq!(case.deadlines(400), [3, 1, 0]);
        assert_eq!(case.awareness.total().all(), 4);
    }

    #[test]
    fn a_vehicle_that_began_anew_or_was_away_is_no_loss() {
        let mut case = Case::near();
        case.hear(500, 0, 5);
        case.hear(0, 1_000, 1_005);
        case.hear(LONGEST_GAP + 1, 2_000, 2_005);
        assert_eq!(case.deadlines(2_005), [3, 0, 0]);
    }

    #[test]
    fn vehicles_out_of_range_and_unknown_ones_do_not_count() {
        let (world, _, far) = world();
        let mut case = Case { vehicle: far, ..Case::near() };
        case.hear(0, 0, 5);
        case.hear(9, 900, 2_000);
        assert_eq!(case.deadlines(2_000), [0, 0, 0]);
        let known = case.awareness.known(far).unwrap();
        case.awareness.hear(&world, 4_000_000_000, known, NOW);
        assert_eq!(case.awareness.known(4_000_000_000), None);
    }
}
