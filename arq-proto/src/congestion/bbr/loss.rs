// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does the path lose packets because of us, or anyway?
//!
//! A radio loses as much when we send slowly as when we send fast, and with an empty queue as with a
//! full one. So the *base loss* is what is lost in rounds whose round-trip time shows no queue, or
//! less, where less is lost with one. Two things speak for congestion: more than the base is lost
//! while there is a queue; or, where no queue can be seen (policers, tiny buffers, and a queue that
//! has been full for as long as we know the path), more is lost when we probe for rate than when we
//! hold back.

use std::collections::VecDeque;

use super::{
    phase::{HOLD_BACK_GAIN, PROBE_GAIN},
    rounds::Round,
};
use crate::units::PacketNumber;

/// Packets from which a share is computed, and shares of which the median is the base.
const WINDOW_PACKETS: f64 = 100.0;
const WINDOWS: usize = 8;
/// The most that is excused.
const MAX_BASE: f64 = 0.35;
/// Loss above the base that is still called chance (BBRv3's threshold for all loss).
pub(super) const TOLERANCE: f64 = 0.02;
/// Fewer packets lost in a round are chance, whatever their share.
const MIN_EXCESS_PACKETS: u64 = 3;
/// Of fewer packets sent in a round no loss is inexcusable.
const MIN_INEXCUSABLE: u64 = 30;
/// Packets of each kind before probing and holding back are compared.
const MIN_PROBED: f64 = 30.0;
const MIN_HELD_BACK: f64 = 15.0;
/// Packets of each kind after which older ones fade. On a thin path a probe is eight packets: many
/// must be taken together before their difference means anything.
const MAX_TALLIED: f64 = 400.0;
/// Comparisons in a row that must agree.
const STRIKES: u8 = 2;
/// Phases that may have packets under way.
const MAX_MARKS: usize = 16;

/// How packets were sent, in relation to the estimated rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    Above,
    At,
    Below,
}

/// Packets sent at one pace.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    lost: f64,
    sent: f64,
}

impl Tally {
    fn share(self) -> f64 {
        self.lost / self.sent.max(1.0)
    }

    fn variance(self) -> f64 {
        (self.share() * (1.0 - self.share())).max(0.005) / self.sent.max(1.0)
    }

    fn fade(&mut self) {
        if self.sent > MAX_TALLIED {
            self.lost /= 2.0;
            self.sent /= 2.0;
        }
    }
}

/// Loss that is not our fault, and signs of loss that is.
#[derive(Debug, Clone)]
pub(super) struct LossModel {
    /// Packets of rounds without a queue, and of rounds with one.
    clear: Tally,
    queued: Tally,
    shares: VecDeque<f64>,
    median: f64,
    /// From which packet on which pace was used.
    marks: VecDeque<(PacketNumber, Pace)>,
    above: Tally,
    below: Tally,
    strikes: u8,
}

impl LossModel {
    pub(super) const fn new() -> Self {
        Self {
            clear: Tally { lost: 0.0, sent: 0.0 },
            queued: Tally { lost: 0.0, sent: 0.0 },
            shares: VecDeque::new(),
            median: 0.0,
            marks: VecDeque::new(),
            above: Tally { lost: 0.0, sent: 0.0 },
            below: Tally { lost: 0.0, sent: 0.0 },
            strikes: 0,
        }
    }

    /// Packets from `first` on are sent at this pace.
    pub(super) fn mark(&mut self, first: PacketNumber, pace: Pace) {
        if self.marks.back().is_some_and(|&(_, last)| last == pace) {
            return;
        }
        if self.marks.len() == MAX_MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back((first, pace));
    }

    /// The fate of packets up to `largest`: they were sent at the same pace, or nearly all were.
    pub(super) fn tally(&mut self, largest: PacketNumber, packets: u64, lost: bool) {
        let Some(tally) = self.tally_of(largest) else { return };
        tally.sent += packets as f64;
        tally.lost += if lost { packets as f64 } else { 0.0 };
    }

    /// Packets up to `largest` that were counted as lost have arrived after all.
    pub(super) fn untally(&mut self, largest: PacketNumber, packets: u64) {
        let Some(tally) = self.tally_of(largest) else { return };
        tally.lost = (tally.lost - packets as f64).max(0.0);
    }

    fn tally_of(&mut self, largest: PacketNumber) -> Option<&mut Tally> {
        match self.marks.iter().rev().find(|&&(first, _)| first <= largest)?.1 {
            Pace::Above => Some(&mut self.above),
            Pace::Below => Some(&mut self.below),
            Pace::At => None,
        }
    }

    /// Takes a round in which a queue was seen, or not.
    pub(super) fn on_round(&mut self, round: &Round, queue: bool) {
        let tally = if queue {
            // What is lost right after it may be its doing.
            self.clear = Tally::default();
            &mut self.queued
        } else {
            &mut self.clear
        };
        tally.lost += round.lost_packets as f64;
        tally.sent += round.sent_packets() as f64;
        if tally.sent < WINDOW_PACKETS {
            return;
        }
        let (share, sent) = (tally.share(), tally.sent);
        *tally = Tally::default();
        // A queue only adds to what the medium loses: with one, less than the base disproves it, more says nothing.
        if queue && share >= self.base() - 2.0 * sigma(self.base(), sent as u64) {
            return;
        }
        self.shares.push_back(share);
        if self.shares.len() > WINDOWS {
            self.shares.pop_front();
        }
        let mut sorted: Vec<f64> = self.shares.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        self.median = sorted[(sorted.len() - 1) / 2];
    }

    /// What was taken for the medium's loss may be something else.
    pub(super) fn forget_base(&mut self) {
        (self.clear, self.queued, self.median) = (Tally::default(), Tally::default(), 0.0);
        self.shares.clear();
    }

    /// The medium loses this share, with a queue or without, until more rounds say otherwise.
    pub(super) fn accept(&mut self, share: f64) {
        self.median = share;
        self.shares = VecDeque::from([share; WINDOWS / 2]);
    }

    /// What the medium loses, as far as that is known. Beyond the most that is excused ever less is: such a path is in
    /// trouble, whatever the reason, and a policer would have its victims excused that it makes of our own excess.
    pub(super) fn base(&self) -> f64 {
        self.median.min(2.0 * MAX_BASE - self.median).max(0.0)
    }

    /// Bytes of a round that the path would have carried, had it not been for the base loss.
    pub(super) fn excused_bytes(&self, round: &Round) -> u64 {
        // Half a sigma more: the base is a median, and a share too low would let the rate sink.
        let sigma = sigma(self.base(), round.sent_packets());
        let most = (self.base() + sigma / 2.0) * (round.bytes + round.lost_bytes) as f64;
        round.lost_bytes.min(most as u64)
    }

    /// Whether a round lost more than chance explains.
    pub(super) fn is_excessive(&self, round: &Round) -> bool {
        let sent = round.sent_packets();
        let base = self.base();
        let limit = base + TOLERANCE + 2.0 * sigma(base.max(0.01), sent);
        round.lost_share() > limit && round.lost_packets >= MIN_EXCESS_PACKETS
    }

    /// Whether a round lost more than is ever excused, and not by chance.
    pub(super) fn is_inexcusable(round: &Round) -> bool {
        let sent = round.sent_packets();
        let limit = MAX_BASE + TOLERANCE + 2.0 * sigma(MAX_BASE, sent);
        sent >= MIN_INEXCUSABLE && round.lost_share() > limit
    }

    /// Whether so many of `sent` packets lost are more than chance explains, whatever the base: as
    /// long as none is known, the largest that may be is assumed.
    pub(super) fn is_beyond_chance(&self, lost: u64, sent: u64) -> bool {
        let base = if self.shares.is_empty() { MAX_BASE } else { self.base() };
        let limit = base + TOLERANCE + 3.0 * sigma(base.max(0.01), sent);
        lost >= MIN_EXCESS_PACKETS && lost as f64 / sent.max(1) as f64 > limit
    }

    /// Whether loss grows with our rate, asked once per probe. If it does, what would be lost at no
    /// rate at all, on the line through both, becomes the base.
    pub(super) fn grows_with_rate(&mut self) -> bool {
        if self.above.sent < MIN_PROBED || self.below.sent < MIN_HELD_BACK {
            return false;
        }
        let difference = self.above.share() - self.below.share();
        let sigma = (self.above.variance() + self.below.variance()).sqrt();
        if difference > TOLERANCE + 1.5 * sigma {
            self.strikes += 1;
        } else {
            self.strikes = self.strikes.saturating_sub(1);
        }
        let below = self.below.share();
        self.above.fade();
        self.below.fade();
        if self.strikes < STRIKES {
            return false;
        }
        (self.strikes, self.above, self.below) = (0, Tally::default(), Tally::default());
        // Where several flows cause the loss, most of it stays when one of them holds back.
        let slope = difference / (PROBE_GAIN - HOLD_BACK_GAIN);
        let at_rest = (below - slope * HOLD_BACK_GAIN).max(0.0);
        self.accept(self.median.min(at_rest));
        true
    }
}

/// The standard error of a share of so many packets.
pub(super) fn sigma(share: f64, packets: u64) -> f64 {
    (share * (1.0 - share) / packets.max(1) as f64).sqrt()
}
