// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How old is what is known of each vehicle, and how many beacons came too late for their purpose?
//!
//! The age of information is the time since the newest beacon that has come was *made*: it grows while nothing comes,
//! whether the vehicle is silent, the radio loses, or a link holds back what it has. A beacon misses its deadline when
//! it comes more than [`DEADLINE`] after it was made, or never, which shows when a later one comes. Of a vehicle that is
//! silent the beacons are presumed that it must have made by the rule, until a later one tells how many there were: a
//! link that falls silent for good does not end with the figures of its good days. Only vehicles within [`RANGE_M`]
//! count, by where they truly are: a link must not look better for having lost sight of somebody.

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
/// A beacon may be older than this when it comes, or say so: the time before is not looked at again.
const LOOKED_BACK: Duration = Duration::from_secs(60);
/// Beacons of a vehicle that are kept. It makes ten a second at most; only a false one counts more.
const MOST_OUTCOMES: usize = 1_000;
/// Presumed beacons that a later one may correct: those of ten minutes and more. Older ones stay as they are.
const MOST_PRESUMED: usize = 6_000;

/// What is known of all vehicles.
#[derive(Debug)]
pub struct Awareness {
    own: u32,
    began: Duration,
    tracks: Vec<Track>,
    total: Deadlines,
    /// When somebody asked last.
    asked_at: Duration,
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

#[derive(Debug)]
struct Track {
    newest: Option<Known>,
    outcomes: VecDeque<Outcome>,
    /// When the next beacon of a silent vehicle is due, looked at up to this time.
    rule: BeaconRule,
    looked_to: Duration,
    /// When the beacons were made that are presumed since the newest that has come.
    presumed: VecDeque<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// `None` where the beacon is only presumed.
    sequence: Option<u32>,
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
    /// Nothing is known yet; `vehicles` is how many there are, and of those that are never heard beacons are missing
    /// from `settled` on.
    pub fn new(own: u32, vehicles: u32, began: Duration, settled: Duration) -> Self {
        let tracks = (0..vehicles).map(|_| Track::new(settled)).collect();
        Self { own, began, tracks, total: Deadlines::default(), asked_at: began }
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
        let missing: Vec<_> =
            last.into_iter().flat_map(|last| missing_between(last, known.stamp)).collect();
        // The numbers of two beacons tell how many were between them. Without that, what was presumed before this one
        // stays as it is; what lies behind it is presumed anew.
        let counted_from = last.filter(|last| are_counted(*last, known.stamp));
        let known_from = counted_from.map_or(sent, |last| last.sent);
        self.total.missing -= track.forget_presumed(known_from);
        track.go_on_from(known);
        let missing = missing.into_iter().map(|(sequence, sent)| (sequence, sent, Fate::Missing));
        for (sequence, sent, fate) in missing.chain([(sequence, sent, fate)]) {
            if in_range(sent) {
                self.total.count(fate);
                track.keep(Outcome { sequence: Some(sequence), sent, fate });
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
        // A monitor that was asleep does not catch up: it would not have heard them.
        let was_asleep = now.saturating_sub(self.asked_at) > WINDOW;
        let since = now.saturating_sub(if was_asleep { WINDOW } else { LOOKED_BACK });
        self.asked_at = now;
        let own = self.own;
        let others = (0..world.vehicles()).filter(|vehicle| *vehicle != own);
        others.fold(Deadlines::default(), |all, vehicle| {
            self.presume(world, vehicle, since, now);
            all.with(self.deadlines_of(vehicle, now))
        })
    }

    fn deadlines_of(&mut self, vehicle: u32, now: Duration) -> Deadlines {
        let begin = now.saturating_sub(WINDOW);
        let mut recent = Deadlines::default();
        if let Some(track) = self.tracks.get_mut(vehicle as usize) {
            while track.outcomes.front().is_some_and(|outcome| outcome.sent < begin) {
                track.outcomes.pop_front();
            }
            track.outcomes.iter().for_each(|outcome| recent.count(outcome.fate));
        }
        recent
    }

    /// Counts the beacons that a silent vehicle has made `since` and that should be here.
    fn presume(&mut self, world: &World, vehicle: u32, since: Duration, now: Duration) {
        let is_silent = self.age(vehicle, now) > SILENCE;
        let Some(track) = self.tracks.get_mut(vehicle as usize).filter(|_| is_silent) else {
            return;
        };
        track.looked_to = track.looked_to.max(since);
        while track.looked_to + BeaconRule::CHECK_EVERY + DEADLINE < now {
            track.looked_to += BeaconRule::CHECK_EVERY;
            let time = track.looked_to;
            let is_due =
                world.motion(vehicle, time).is_some_and(|motion| track.rule.is_due(time, &motion));
            if is_due && world.distance_m(self.own, vehicle, time) <= RANGE_M {
                self.total.count(Fate::Missing);
                if track.presumed.len() == MOST_PRESUMED {
                    track.presumed.pop_front();
                }
                track.presumed.push_back(time);
                track.keep(Outcome { sequence: None, sent: time, fate: Fate::Missing });
            }
        }
    }

    /// What became of all beacons since the beginning.
    pub fn total(&self) -> Deadlines {
        self.total
    }
}

impl Track {
    fn new(settled: Duration) -> Self {
        Self {
            newest: None,
            outcomes: VecDeque::new(),
            rule: BeaconRule::default(),
            looked_to: settled,
            presumed: VecDeque::new(),
        }
    }

    fn overtaken(&mut self, sequence: u32) -> Option<&mut Outcome> {
        let mut missing = self.outcomes.iter_mut().filter(|o| o.fate == Fate::Missing);
        missing.find(|outcome| outcome.sequence == Some(sequence))
    }

    /// What was presumed of the time from `known_from` on is known now, or presumed anew; how many beacons that was.
    fn forget_presumed(&mut self, known_from: Duration) -> u64 {
        let is_of_it = |outcome: &Outcome| outcome.sequence.is_none() && outcome.sent >= known_from;
        while self.outcomes.back().is_some_and(is_of_it) {
            self.outcomes.pop_back();
        }
        let presumed = std::mem::take(&mut self.presumed);
        presumed.iter().filter(|made| **made >= known_from).count() as u64
    }

    fn go_on_from(&mut self, newest: Known) {
        self.newest = Some(newest);
        self.rule = BeaconRule::after(newest.stamp.sent, newest.motion);
        self.looked_to = newest.stamp.sent;
    }

    fn keep(&mut self, outcome: Outcome) {
        if self.outcomes.len() == MOST_OUTCOMES {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back(outcome);
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

    fn with(self, other: Self) -> Self {
        Self {
            on_time: self.on_time + other.on_time,
            late: self.late + other.late,
            missing: self.missing + other.missing,
        }
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

/// Whether the numbers of two beacons tell how many there were between them: not if the vehicle began anew or was away.
fn are_counted(last: Stamp, next: Stamp) -> bool {
    let steps = next.sequence.checked_sub(last.sequence);
    steps.is_some_and(|steps| (1..=LONGEST_GAP).contains(&steps))
}

/// The beacons between two, if they are counted, and when they were made if they were evenly spread.
fn missing_between(last: Stamp, next: Stamp) -> impl Iterator<Item = (u32, Duration)> {
    let steps = if are_counted(last, next) { next.sequence - last.sequence } else { 0 };
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
            let awareness = Awareness::new(0, world.vehicles(), NOW, NOW);
            Self { world, vehicle, awareness }
        }

        fn hear(&mut self, sequence: u32, sent_ms: u32, arrived_ms: u32) {
            let sent = NOW + MS * sent_ms;
            let motion = self.world.motion(self.vehicle, sent).unwrap();
            let known = Known { stamp: Stamp { sequence, sent }, motion };
            self.awareness.hear(&self.world, self.vehicle, known, NOW + MS * arrived_ms);
        }

        fn deadlines(&mut self, now_ms: u32) -> [u64; 3] {
            let now = NOW + MS * now_ms;
            self.awareness.presume(&self.world, self.vehicle, Duration::ZERO, now);
            let recent = self.awareness.deadlines_of(self.vehicle, now);
            [recent.on_time, recent.late, recent.missing]
        }

        /// Beacons that the vehicle makes after its first one at 0 ms, until so many milliseconds later.
        fn made_by(&self, end_ms: u32) -> u64 {
            let motion = |time| self.world.motion(self.vehicle, time).unwrap();
            let mut rule = BeaconRule::after(NOW, motion(NOW));
            let ticks = (1..=end_ms / 50).map(|tick| NOW + BeaconRule::CHECK_EVERY * tick);
            ticks.filter(|time| rule.is_due(*time, &motion(*time))).count() as u64
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
        let total = case.awareness.total();
        assert_eq!((total.all(), total.missed()), (5, 3));
        assert_eq!(case.deadlines(10_150)[..2], [1, 0], "two are out of the window");
    }

    #[test]
    fn the_beacons_of_a_silent_vehicle_are_missing_until_a_later_one_counts_them() {
        let mut case = Case::near();
        case.hear(0, 0, 5);
        assert_eq!(case.deadlines(1_100), [1, 0, 0], "it need not have made another");
        // Due by the rule, and more than the deadline ago.
        assert_eq!(case.deadlines(5_001), [1, 0, case.made_by(4_900)]);
        assert_eq!(case.deadlines(9_001), [1, 0, case.made_by(8_900)]);
        assert!(case.made_by(8_900) > case.made_by(4_900));
        assert_eq!(case.awareness.total().missing, case.made_by(8_900));
        case.hear(40, 9_000, 9_010);
        assert_eq!(case.deadlines(9_011), [2, 0, 39]);
        assert_eq!(case.awareness.total(), Deadlines { on_time: 2, late: 0, missing: 39 });
    }

    #[test]
    fn a_silence_that_nobody_can_count_stays_as_it_was_presumed() {
        let mut case = Case::near();
        case.hear(500, 0, 5);
        let [_, _, presumed] = case.deadlines(5_001);
        case.hear(0, 5_050, 5_055);
        assert_eq!(case.deadlines(5_056), [2, 0, presumed]);
        case.hear(3, 5_350, 5_355);
        assert_eq!(case.deadlines(5_356), [3, 0, presumed + 2]);
        assert_eq!(case.awareness.total().missing, presumed + 2);
    }

    #[test]
    fn what_was_presumed_and_comes_after_all_is_counted_once() {
        let mut case = Case::near();
        let [_, _, presumed] = case.deadlines(5_001);
        // The first that ever comes was made 3 s ago, and the next follow it.
        for n in 0..20 {
            case.hear(n, 2_000 + 100 * n, 5_010);
        }
        let [on_time, late, missing] = case.deadlines(5_011);
        assert_eq!((on_time, late), (0, 20));
        assert!((1..presumed).contains(&missing), "{missing} of {presumed}");
        assert_eq!(case.awareness.total().all(), 20 + missing);
    }

    #[test]
    fn a_vehicle_that_is_never_heard_is_missing_and_a_monitor_that_slept_does_not_catch_up() {
        let mut case = Case::near();
        let [on_time, late, missing] = case.deadlines(5_001);
        assert_eq!((on_time, late), (0, 0));
        assert!(missing >= 4, "{missing}");
        let mut missing_at = |now: Duration| {
            case.awareness.deadlines(&case.world, now);
            case.awareness.total().missing
        };
        let (before, after) = (missing_at(NOW + MS * 5_001), missing_at(NOW + MS * 3_600_000));
        // Ten a second of each of the others, ten seconds long.
        assert!(after - before <= 39 * 101, "{} in one report", after - before);
    }

    /// A vehicle whose clock was never set, or a false one.
    #[test]
    fn a_beacon_from_1970_costs_a_look_at_a_minute() {
        let mut case = Case::near();
        let motion = case.world.motion(case.vehicle, NOW).unwrap();
        let known = Known { stamp: Stamp { sequence: 0, sent: Duration::ZERO }, motion };
        case.awareness.hear(&case.world, case.vehicle, known, NOW);
        case.awareness.deadlines(&case.world, NOW + MS);
        let track = &case.awareness.tracks[case.vehicle as usize];
        assert!(track.presumed.len() <= 600, "{}", track.presumed.len());
    }

    #[test]
    fn false_beacons_cannot_fill_the_memory() {
        let mut case = Case::near();
        for n in 0..100 {
            case.hear(n * LONGEST_GAP, n * 10, n * 10);
        }
        assert!(case.awareness.tracks[case.vehicle as usize].outcomes.len() <= MOST_OUTCOMES);
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
        assert_eq!(case.deadlines(9_000), [0, 0, 0]);
        let known = case.awareness.known(far).unwrap();
        case.awareness.hear(&world, 4_000_000_000, known, NOW);
        assert_eq!(case.awareness.known(4_000_000_000), None);
    }
}
