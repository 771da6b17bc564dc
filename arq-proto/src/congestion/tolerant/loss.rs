// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does the path lose packets because of us, or anyway?
//!
//! A radio loses as much when we send slowly as when we send fast, and with an empty queue as with a
//! full one. So the *base loss* is what is lost in rounds whose round-trip time shows no queue, or
//! less, where less is lost with one. Two things speak for congestion: more than the base is lost
//! while there is a queue; or, where no queue can be seen (policers, tiny buffers, and a queue that
//! has been full for as long as we know the path), more is lost when we probe for rate, or start, than
//! when we hold back.

use std::collections::VecDeque;

use super::{
    phase::{Pace, Phase},
    rounds::Round,
    tuning::{
        CERTAIN, CHANCE, JUDGED_PACKETS, LIKELY, MAX_BASE, MAX_REDUCTIONS, MAX_RUN, MAX_TALLIED,
        MAX_UNDER_WAY, MIN_EXCESS_PACKETS, MIN_HELD_BACK, MIN_PROBED, MIN_UNCERTAIN, MIN_VARIANCE,
        SHARES, SHARE_PACKETS, TOLERANCE, TWICE,
    },
};
use crate::{
    chance::{share, standard_error, variance},
    units::PacketNumber,
};

/// Packets sent at one pace.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    lost: f64,
    sent: f64,
    /// Runs of packets that were lost.
    runs: f64,
    /// The rates at which they left, as multiples of the estimate, added up.
    gains: f64,
}

impl Tally {
    const NONE: Self = Self { lost: 0.0, sent: 0.0, runs: 0.0, gains: 0.0 };

    fn of(round: &Round) -> Self {
        let (lost, sent) = (round.lost_packets as f64, round.sent_packets() as f64);
        Self { lost, sent, ..Self::NONE }
    }

    fn count(&mut self, round: &Round) {
        let round = Self::of(round);
        self.lost += round.lost;
        self.sent += round.sent;
    }

    fn share(self) -> f64 {
        share(self.lost, self.sent)
    }

    /// The mean rate at which they left, as a multiple of the estimate.
    fn gain(self) -> f64 {
        share(self.gains, self.sent)
    }

    fn variance(self) -> f64 {
        variance(self.share(), self.sent).max(MIN_VARIANCE / self.sent.max(1.0))
    }

    /// Whether more of these are lost than of `others`, by so many standard errors.
    fn exceeds(self, others: Self, errors: f64) -> bool {
        let sigma = (self.variance() + others.variance()).sqrt();
        self.share() - others.share() > TOLERANCE + errors * sigma
    }

    /// Whether that is certain.
    fn surely_exceeds(self, others: Self) -> bool {
        let has_enough = self.sent >= MIN_PROBED && others.sent >= MIN_HELD_BACK;
        let is_scattered = self.lost + others.lost <= MAX_RUN * (self.runs + others.runs);
        has_enough && is_scattered && self.exceeds(others, CERTAIN)
    }

    fn fade(&mut self) {
        if self.sent > MAX_TALLIED {
            self.lost /= 2.0;
            self.sent /= 2.0;
            self.runs /= 2.0;
            self.gains /= 2.0;
        }
    }
}

/// Loss that is not our fault, and signs of loss that is.
#[derive(Debug, Clone)]
pub(super) struct LossModel {
    /// Packets of rounds without a queue, and of rounds with one.
    clear: Tally,
    queued: Tally,
    /// Packets of all rounds without a queue, whatever lay between them; older ones fade.
    all_clear: Tally,
    shares: VecDeque<f64>,
    median: f64,
    /// From which packet on which pace was used, and the gain.
    marks: VecDeque<(PacketNumber, Pace, f64)>,
    above: Tally,
    below: Tally,
    strikes: u8,
    /// What is lost beyond this is not the medium's, until holding back has lost as much.
    cap: f64,
    /// Reductions still to be made for loss that is ours, though no queue may show.
    ours: u8,
    /// The last packet was lost: a run goes on.
    in_run: bool,
}

impl LossModel {
    pub(super) const fn new() -> Self {
        Self {
            clear: Tally::NONE,
            queued: Tally::NONE,
            all_clear: Tally::NONE,
            shares: VecDeque::new(),
            median: 0.0,
            marks: VecDeque::new(),
            above: Tally::NONE,
            below: Tally::NONE,
            strikes: 0,
            cap: MAX_BASE,
            ours: 0,
            in_run: false,
        }
    }

    /// Packets from `first` on are sent in this phase.
    pub(super) fn mark(&mut self, first: PacketNumber, phase: Phase) {
        let (pace, gain) = (phase.pace(), phase.gain());
        if self.marks.back().is_some_and(|&(_, last, of_last)| (last, of_last) == (pace, gain)) {
            return;
        }
        if self.marks.len() == MAX_UNDER_WAY {
            self.marks.pop_front();
        }
        self.marks.push_back((first, pace, gain));
    }

    /// The fate of the next packet, in the order of sending: however many an acknowledgement covers, a run of losses is as
    /// long as it was.
    pub(super) fn tally(&mut self, number: PacketNumber, lost: bool) {
        let begins = lost && !self.in_run;
        self.in_run = lost;
        let mark = self.marks.iter().rev().find(|&&(first, ..)| first <= number);
        let Some(&(_, pace, gain)) = mark else { return };
        let tally = match pace {
            Pace::Above => &mut self.above,
            Pace::Below => &mut self.below,
            Pace::At => return,
        };
        tally.sent += 1.0;
        tally.gains += gain;
        tally.lost += f64::from(u8::from(lost));
        tally.runs += f64::from(u8::from(begins));
    }

    /// Takes a round in which a queue was seen, or not.
    pub(super) fn on_round(&mut self, round: &Round, queue: bool) {
        let tally = if queue {
            // What is lost right after it may be its doing.
            self.clear = Tally::default();
            &mut self.queued
        } else {
            self.all_clear.count(round);
            self.all_clear.fade();
            &mut self.clear
        };
        tally.count(round);
        if tally.sent < SHARE_PACKETS {
            return;
        }
        let (share, sent) = (tally.share(), tally.sent);
        *tally = Tally::default();
        // A queue only adds to what the medium loses: with one, less than the base disproves it, more says nothing.
        if queue && share >= self.base() - CHANCE * standard_error(self.base(), sent) {
            return;
        }
        self.shares.push_back(share);
        if self.shares.len() > SHARES {
            self.shares.pop_front();
        }
        let mut sorted: Vec<f64> = self.shares.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        self.median = sorted[(sorted.len() - 1) / 2];
    }

    /// Start-up and the draining after it are over. What was taken for the medium's loss may be another's queue: where
    /// draining has lost less than start-up, the medium loses no more than draining did. Packets of both whose fate is not
    /// known yet count no more: they were sent faster than any probe.
    pub(super) fn end_start_up(&mut self) {
        let (above, below) = (self.above, self.below);
        *self = Self { in_run: self.in_run, ..Self::new() };
        if above.surely_exceeds(below) {
            (self.cap, self.ours) = (below.share(), MAX_REDUCTIONS);
        }
    }

    /// The path may be another. What the start-up that follows loses may be a queue's, though none shows: until it ends,
    /// not more than was known is the medium's.
    pub(super) fn doubt(&mut self) {
        self.cap = self.base();
    }

    /// The medium loses this share, with a queue or without, until more rounds say otherwise.
    pub(super) fn accept(&mut self, share: f64) {
        self.cap = self.cap.max(share);
        self.ours = 0;
        self.median = share;
        self.shares = VecDeque::from([share; SHARES / 2]);
    }

    /// What the medium loses, as far as that is known. Beyond the most that is excused ever less is: such a path is in
    /// trouble, whatever the reason, and a policer would have its victims excused that it makes of our own excess.
    pub(super) fn base(&self) -> f64 {
        self.median.min(2.0 * MAX_BASE - self.median).min(self.cap).max(0.0)
    }

    /// Bytes of a round that the path would have carried, had it not been for the base loss.
    pub(super) fn excused_bytes(&self, round: &Round) -> u64 {
        // Half a sigma more: the base is a median, and a share too low would let the rate sink.
        let sigma = standard_error(self.base(), round.sent_packets() as f64);
        let most = (self.base() + sigma / 2.0) * round.sent_bytes() as f64;
        round.lost_bytes.min(most as u64)
    }

    /// Whether sending less was seen to lose less: then what is lost beyond the medium's share is congestion, though no
    /// queue may show.
    pub(super) const fn is_ours(&self) -> bool {
        self.ours > 0
    }

    /// A reduction was made for it.
    pub(super) fn on_reduction(&mut self) {
        self.ours = self.ours.saturating_sub(1);
    }

    /// Whether a round lost more than chance explains.
    pub(super) fn is_excessive(&self, round: &Round) -> bool {
        let (lost, sent) = (round.lost_packets, round.sent_packets());
        lost >= MIN_EXCESS_PACKETS && exceeds(lost, sent, self.base(), CHANCE)
    }

    /// Whether a round of start-up that had a queue has surely lost more than those without one: a radio loses from the
    /// first packet on, and a peer that slept looks like a queue.
    pub(super) fn is_excessive_in_start_up(&self, round: &Round) -> bool {
        let (lost, sent) = (round.lost_packets, round.sent_packets());
        if self.all_clear.sent < MIN_HELD_BACK {
            return self.is_beyond_chance(lost, sent);
        }
        let allowed = self.cap * self.all_clear.sent;
        let mediums = Tally { lost: self.all_clear.lost.min(allowed), ..self.all_clear };
        lost >= MIN_EXCESS_PACKETS && Tally::of(round).exceeds(mediums, CERTAIN)
    }

    /// Whether a round lost more than is ever excused, and not by chance.
    pub(super) fn is_inexcusable(round: &Round) -> bool {
        let (lost, sent) = (round.lost_packets, round.sent_packets());
        sent >= JUDGED_PACKETS && exceeds(lost, sent, MAX_BASE, CHANCE)
    }

    /// Whether so many of `sent` packets lost are more than chance explains, whatever the base: as
    /// long as none is known, the largest that may be is assumed.
    pub(super) fn is_beyond_chance(&self, lost: u64, sent: u64) -> bool {
        let base = if self.shares.is_empty() { MAX_BASE } else { self.base() };
        lost >= MIN_EXCESS_PACKETS && exceeds(lost, sent, base, CERTAIN)
    }

    /// Judges a probe once it and the holding back after it are over: whether loss grows with our rate. If it does, what
    /// would be lost at no rate at all, on the line through both, becomes the base.
    pub(super) fn judge_probe(&mut self) -> bool {
        if self.above.sent < MIN_PROBED || self.below.sent < MIN_HELD_BACK {
            return false;
        }
        let below = self.below.share();
        let difference = self.above.share() - below;
        let is_certain = self.above.surely_exceeds(self.below);
        if self.above.exceeds(self.below, LIKELY) {
            self.strikes += 1;
        } else {
            self.strikes = self.strikes.saturating_sub(1);
            self.cap = self.cap.max(below).min(MAX_BASE);
            self.ours = 0;
        }
        self.above.fade();
        self.below.fade();
        if self.strikes < TWICE {
            return false;
        }
        // Where several flows cause the loss, most of it stays when one of them holds back.
        let (faster, slower) = (self.above.gain(), self.below.gain());
        let at_rest = (below - difference / (faster - slower) * slower).max(0.0);
        (self.strikes, self.above, self.below) = (0, Tally::default(), Tally::default());
        self.accept(self.median.min(at_rest));
        if is_certain {
            (self.cap, self.ours) = (self.median, MAX_REDUCTIONS);
        }
        true
    }
}

/// Whether more of `sent` are lost than `base`, the tolerance and so many standard errors explain.
fn exceeds(lost: u64, sent: u64, base: f64, errors: f64) -> bool {
    let (lost, sent) = (lost as f64, sent as f64);
    let error = standard_error(base.max(MIN_UNCERTAIN), sent);
    share(lost, sent) > base + TOLERANCE + errors * error
}
