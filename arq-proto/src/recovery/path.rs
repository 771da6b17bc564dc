// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does another path mean for what was learnt of this one?

use std::time::{Duration, Instant};

use super::{loss::LossDetector, Recovery};
use crate::{
    congestion::breaker::Breaker,
    path_loss::PathLoss,
    sent::{Content, Fate},
    units::PacketNumber,
};

/// Packets that are looked at, at most, to see what was lost in a row.
const LOOKED_BACK: usize = 512;

/// A packet that is unheard for longer, in smoothed round trips, tells of an outage and not of a longer round trip.
const MOST_ROUND_TRIPS: u32 = 4;

/// No packet has this number.
pub(super) const OFF_PATH: PacketNumber = PacketNumber(u64::MAX);

impl Recovery {
    /// The path changed: keep the ledger, forget what was learnt about the old path.
    pub(crate) fn on_path_change(&mut self) {
        self.forget_losses();
        self.rtt.reset();
        self.test_ecn_anew();
        self.detector = LossDetector::new(self.granularity);
        self.stall = Duration::ZERO;
        self.tails.clear();
    }

    /// Marks may fare otherwise from now on.
    pub(crate) fn test_ecn_anew(&mut self) {
        self.ecn.on_path_change(self.next_number().0);
    }

    /// What was lost until now, and the rate that came of it, say nothing about what leaves from now on.
    pub(crate) fn forget_losses(&mut self) {
        self.path_from = self.next_number();
        self.loss = PathLoss::default();
        self.outcome.settled.clear();
        self.controller.on_path_change();
        self.breaker.iter_mut().for_each(Breaker::forget);
        self.pto_count = 0;
        self.probe_budget = None;
    }

    /// The peer may have moved: until it is known where it is, packets go to two addresses of which one may be dead.
    /// What becomes of them says nothing about either path.
    pub(crate) fn leave_path(&mut self) {
        self.path_from = OFF_PATH;
    }

    /// The peer has not moved. What was lost on the way to where it is not is no loss of this path.
    pub(crate) fn enter_path(&mut self) {
        self.path_from = self.next_number();
        // Rounds under way lack what went elsewhere.
        self.controller.on_sleep();
    }

    /// Whether it is known where the peer is.
    pub(crate) fn is_on_path(&self) -> bool {
        self.path_from != OFF_PATH
    }

    /// When the oldest packet left of which, and of nothing later, was heard.
    pub(crate) fn unheard_since(&mut self) -> Option<Instant> {
        let heard = self.largest_acked.map_or(0, |largest| largest.0 + 1);
        // One that was given up in the meantime counts as well.
        let oldest = self.ledger.next_open(heard, u64::MAX)?;
        let sent_at = self.ledger.get(oldest)?.sent_at;
        Some(sent_at.max(self.listen_until.unwrap_or(sent_at)))
    }

    /// The smoothed round trip, or what the oldest unheard packet has waited, up to [`MOST_ROUND_TRIPS`] times as much:
    /// a queue that grows shows there first.
    pub(crate) fn rtt_so_far(&mut self, now: Instant) -> Duration {
        let smoothed = self.rtt.smoothed();
        let waited = self.unheard_since().map(|at| now.saturating_duration_since(at));
        smoothed.max(waited.unwrap_or_default().min(MOST_ROUND_TRIPS * smoothed))
    }

    /// How many packets longer than `above` bytes, up to `up_to`, were lost since the last such one that arrived, in the order
    /// of sending. Later ones than the largest acknowledged do not count: everything may be lost there. Nor do those of
    /// long ago.
    pub(crate) fn lost_in_a_row(&self, above: u16, up_to: u16) -> usize {
        let Some(largest) = self.largest_acked else { return 0 };
        let passed = self.ledger.backwards_from(largest.0);
        passed
            .take(LOOKED_BACK)
            .take_while(|(number, _)| *number >= self.path_from.0)
            .filter(|(_, packet)| packet.bytes > above && packet.bytes <= up_to)
            .map(|(_, packet)| packet.fate)
            .take_while(|fate| *fate != Fate::Acked)
            .filter(|fate| matches!(fate, Fate::Lost(..)))
            .count()
    }

    /// What is in flight leaves on another path as well, since this one is silent. That is no loss, and no congestion.
    pub(crate) fn move_in_flight(&mut self) -> Vec<Content> {
        self.moved_below = self.next_number();
        self.forgiven_below = self.forgiven_below.max(self.moved_below);
        self.tails.clear();
        self.contents_in_flight().collect()
    }

    pub(crate) fn contents_in_flight(&mut self) -> impl Iterator<Item = Content> + '_ {
        self.ledger.in_flight().flat_map(|(_, packet)| packet.contents.iter().copied())
    }

    /// The path answers again.
    pub(crate) fn on_silence_ended(&mut self) {
        // What left meanwhile was lost to the silence, too.
        self.forgiven_below = self.next_number();
        // It need not be asked any more.
        self.probe_due = false;
        // Rounds under way lack what left elsewhere.
        self.controller.on_sleep();
    }

    /// The path is silent, and is only asked, after longer and longer times if the questions back off. `is_replaced`: others
    /// carry what it should.
    pub(crate) fn ask(&mut self, now: Instant, backs_off: bool, is_replaced: bool) {
        self.tails.clear();
        if is_replaced {
            // The question is lost to the silence as well, if it is; one number may be left out before it.
            self.forgiven_below = self.next_number().next().next();
        }
        self.pto_count += u32::from(backs_off);
        self.probe_due = true;
        self.asked_at = Some(now);
    }
}
