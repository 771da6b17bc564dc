// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What leaves on which path? Pure decisions over what is known of each.
//!
//! Small messages begin on one path, the *primary*: the one on which a message that leaves at a random moment arrives
//! soonest, silences included. Another path takes over when it is better by an eighth and 2 ms for 100 ms, or at once until
//! both have answered 32 packets: which path the handshake took is chance. Bulk also
//! leaves on the others, each chunk on the path that finishes it first (earliest completion first: Lim, Nahum, Towsley,
//! Gibbens, CoNEXT 2017). A lane's chunk leaves beside the primary only if what is queued before it would keep the primary
//! busy for so long.
//!
//! Requirements, numbered as in `docs/protocol.md` §11.3:
//!
//! - **ARQ-MP-6** Messages begin on the primary: the path that is soonest, by the first answers at once, by more of them for
//!   100 ms. A path that is a backup, or fell silent three times in 10 s, is one only while
//!   there is no other; the latter for 1 s, and twice as long each time that it goes on, up to 60 s.
//! - **ARQ-MP-7** A chunk of a reliable lane, or of one whose messages are held, leaves beside the primary if it arrives no later
//!   than the last byte of what is queued at its urgency and above would on the primary.

use std::time::{Duration, Instant};

use crate::units::{LaneId, LaneSet, PathNumber, Rate, Reliability};

/// How much sooner messages must arrive on another path than on the primary, for how long.
const BETTER_BY: u32 = 8;
const BETTER_BY_AT_LEAST: Duration = Duration::from_millis(2);
const BETTER_FOR: Duration = Duration::from_millis(100);

/// What may leave on a path now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Chunks of these lanes.
    pub(crate) lanes: LaneSet,
    /// Credit, and what else concerns the association and not the path.
    pub(crate) control: bool,
    /// What left on another path and is to leave on two.
    pub(crate) doubles: bool,
}

impl Offer {
    pub(crate) const ALL: Self = Self { lanes: LaneSet::ALL, control: true, doubles: false };
    pub(crate) const NOTHING: Self = Self { lanes: LaneSet::NONE, control: false, doubles: false };
}

/// What is known of a path on which messages may leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) number: PathNumber,
    /// Only for when no other answers.
    pub(crate) is_backup: bool,
    /// Its bytes cost money.
    pub(crate) is_metered: bool,
    /// It does not answer, nor does any other.
    pub(crate) is_silent: bool,
    /// It falls silent again and again, or is heard of by others alone.
    pub(crate) is_restless: bool,
    /// It has answered often enough to be judged by that.
    pub(crate) is_known: bool,
    pub(crate) one_way: Duration,
    /// What a silence costs a message, on average.
    pub(crate) mean_wait: Duration,
    pub(crate) rate: Rate,
    /// When window and pacer let the next packet leave, from now.
    pub(crate) free_in: Duration,
    pub(crate) packet_bytes: u64,
}

impl Candidate {
    /// When what leaves now arrives, silences included, from now.
    fn expected(&self) -> Duration {
        self.one_way + self.rate.time_for(self.packet_bytes) + self.mean_wait
    }

    fn cost(&self) -> (bool, bool) {
        (self.is_backup, self.is_metered)
    }

    fn rank(&self) -> ((bool, bool), bool, Duration) {
        (self.cost(), self.is_restless, self.expected())
    }

    /// When the last of so many bytes arrives.
    fn finishes(&self, bytes: u64) -> Duration {
        self.free_in + self.rate.time_for(bytes) + self.one_way
    }
}

/// Which path messages begin on.
#[derive(Debug, Default)]
pub(crate) struct Primary {
    number: PathNumber,
    /// A path that is better, and since when.
    challenger: Option<(PathNumber, Instant)>,
}

impl Primary {
    pub(crate) fn number(&self) -> PathNumber {
        self.number
    }

    /// The best path beside it, if it is to be used while that answers.
    pub(crate) fn second(&self, candidates: &[Candidate]) -> Option<PathNumber> {
        let others = candidates.iter().filter(|path| path.number != self.number);
        let usable = others.filter(|path| !path.is_backup && !path.is_silent);
        usable.min_by_key(|path| path.rank()).map(|path| path.number)
    }

    /// Chooses among the paths that can be used.
    pub(crate) fn choose(&mut self, now: Instant, candidates: &[Candidate]) {
        let Some(best) = candidates.iter().min_by_key(|path| path.rank()) else { return };
        let Some(current) = candidates.iter().find(|path| path.number == self.number) else {
            // It answers no more.
            *self = Self { number: best.number, challenger: None };
            return;
        };
        let is_ranked = (best.cost(), best.is_restless) < (current.cost(), current.is_restless);
        let gain = current.expected().saturating_sub(best.expected());
        let is_better = gain > BETTER_BY_AT_LEAST.max(current.expected() / BETTER_BY);
        if is_ranked {
            *self = Self { number: best.number, challenger: None };
        } else if best.number == self.number || !is_better {
            self.challenger = None;
        } else {
            match self.challenger {
                // The path of the handshake is the first one by chance.
                _ if !(current.is_known && best.is_known) => {
                    *self = Self { number: best.number, challenger: None };
                }
                Some((number, since)) if number == best.number => {
                    if now.saturating_duration_since(since) >= BETTER_FOR {
                        *self = Self { number, challenger: None };
                    }
                }
                _ => self.challenger = Some((best.number, now)),
            }
        }
    }
}

/// What may leave on `path`, when `primary` is another one. `queued` tells the bytes that wait in a lane.
pub(crate) fn beside_primary(
    path: &Candidate,
    primary: &Candidate,
    queued: impl Fn(LaneId) -> u64,
    may_overtake: impl Fn(LaneId) -> bool,
) -> Offer {
    let mut lanes = LaneSet::default();
    if path.is_metered || path.is_backup && !primary.is_backup {
        return Offer::NOTHING;
    }
    let finishes = path.finishes(path.packet_bytes);
    let mut ahead = 0;
    for lane in LaneId::all() {
        ahead += queued(lane);
        // What a newer message has overtaken a receiver drops, unless it holds that one back.
        let takes_any_order = lane.reliability() == Reliability::Reliable || may_overtake(lane);
        if takes_any_order && finishes <= primary.finishes(ahead) {
            lanes.insert(lane);
        }
    }
    Offer { lanes, ..Offer::NOTHING }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn path(number: u8, one_way_ms: u32, mbps: u64) -> Candidate {
        Candidate {
            number: PathNumber(number),
            is_backup: false,
            is_metered: false,
            is_silent: false,
            is_restless: false,
            is_known: true,
            one_way: one_way_ms * MS,
            mean_wait: Duration::ZERO,
            rate: Rate::from_bits_per_second(mbps * 1_000_000),
            free_in: Duration::ZERO,
            packet_bytes: 1_200,
        }
    }

    fn reliable(priority: u8) -> LaneId {
        LaneId::new(priority, Reliability::Reliable).unwrap()
    }

    // ARQ-MP-6
    #[test]
    fn messages_begin_where_they_arrive_soonest_and_not_in_turns() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        let mut primary = Primary::default();
        let mut choose = |after: u32, candidates: &[Candidate]| {
            primary.choose(t0 + after * MS, candidates);
            primary.number().0
        };
        let (near, far) = (path(1, 15, 20), path(0, 60, 20));
        assert_eq!(choose(0, &[far, near]), 0, "for a moment only");
        assert_eq!(choose(50, &[far, path(1, 59, 20)]), 0);
        assert_eq!(choose(90, &[far, near]), 0, "the time begins anew");
        assert_eq!(choose(189, &[far, near]), 0);
        assert_eq!(choose(190, &[far, near]), 1);
        assert_eq!(choose(9_000, &[path(0, 14, 20), near]), 1, "no better by an eighth");
        // Silences count: the slower path that never falls silent is the better one.
        let fades = Candidate { mean_wait: 80 * MS, ..near };
        assert_eq!([choose(9_001, &[far, fades]), choose(9_101, &[far, fades])], [1, 0]);
        // Before there is a history that time is not waited for: one of them may be all that is sent.
        let new = |path: Candidate| Candidate { is_known: false, ..path };
        assert_eq!(choose(10_001, &[new(path(0, 60, 20)), near]), 1);
        assert_eq!(choose(10_001, &[far, new(path(1, 70, 20))]), 0);
        assert_eq!(choose(10_001, &[new(path(0, 70, 20)), path(1, 69, 20)]), 0, "no better");
        assert_eq!(choose(10_001, &[new(path(0, 70, 20)), near]), 1);
        // A path that cannot be used is left at once, and so is a restless one, or a backup.
        assert_eq!(choose(10_002, &[near]), 1);
        assert_eq!(choose(10_003, &[far, Candidate { is_restless: true, ..near }]), 0);
        let backup = Candidate { is_backup: true, ..far };
        assert_eq!(choose(10_004, &[backup, near]), 1);
        // Of two backups the one that costs nothing.
        let metered = Candidate { is_backup: true, is_metered: true, ..near };
        assert_eq!(choose(10_005, &[backup, metered]), 0);
    }

    // ARQ-MP-7
    #[test]
    fn a_chunk_leaves_on_the_path_that_finishes_it_first() {
        let (quick, slow) = (path(0, 15, 20), path(1, 60, 5));
        let lanes = |queued: u64, quick: &Candidate, slow: &Candidate| {
            let in_lane = |lane| if lane == reliable(5) { queued } else { 0 };
            let offer = beside_primary(slow, quick, in_lane, |_| false);
            (offer.lanes.contains(reliable(1)), offer.lanes.contains(reliable(5)))
        };
        // The slow one takes 62 ms, in which the quick one finishes 117 KB.
        assert_eq!(lanes(1_200, &quick, &slow), (false, false));
        assert_eq!(lanes(110_000, &quick, &slow), (false, false));
        assert_eq!(lanes(125_000, &quick, &slow), (false, true), "not the urgent one before it");
        // The window of the quick one is shut: that alone is no reason.
        assert_eq!(lanes(1_200, &Candidate { free_in: 10 * MS, ..quick }, &slow), (false, false));
        assert!(lanes(1_200, &Candidate { free_in: 50 * MS, ..quick }, &slow).1);
        let backup = Candidate { is_backup: true, ..slow };
        assert_eq!(lanes(1 << 20, &quick, &backup), (false, false), "not while the first answers");
        let [quick_backup, metered] =
            [&quick, &slow].map(|path| Candidate { is_backup: true, ..*path });
        assert!(lanes(1 << 20, &quick_backup, &metered).1);
        let metered = Candidate { is_metered: true, ..metered };
        assert!(!lanes(1 << 20, &quick_backup, &metered).1, "never bulk beside another");
        // Best effort is not overtaken, unless its receiver waits.
        let best_effort = LaneId::new(5, Reliability::BestEffort).unwrap();
        for waits in [false, true] {
            let offer = beside_primary(&slow, &quick, |_| 1 << 20, |_| waits);
            assert_eq!(offer.lanes.contains(best_effort), waits);
        }
    }
}
