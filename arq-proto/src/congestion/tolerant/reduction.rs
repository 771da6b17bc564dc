// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Did going slower help?
//!
//! Who overfills a queue and then sends less loses less, by as much as he sends less. Where the loss
//! stays what it was, time after time, it is the medium's, and what was taken for a queue is
//! something else: jitter that keeps the order makes the round trip grow with the rate, because each
//! packet waits for the one before it.
//!
//! Several flows that overfill a queue together look alike, since one of them hardly lessens the loss
//! by sending less. But their queue stands, where jitter comes and goes; and a flow that joins makes
//! the loss grow.

use super::{
    rounds::Round,
    tuning::{
        BACK_OFF, CHANCE, ECHO_ROUNDS, IN_A_ROW, JUDGED_PACKETS, LONG_HOLD_ROUNDS,
        MAX_QUEUED_PER_CLEAR, MAX_SHARE, RECENT_ROUNDS, TOLERANCE,
    },
};
use crate::{
    chance::{share, standard_error},
    units::Rate,
};

/// The reductions for a queue, one after the other.
#[derive(Debug, Clone, Default)]
pub(super) struct Reductions {
    /// The round of the last one, for whatever reason.
    last: Option<u64>,
    /// The rate before the first of the row.
    rate: Option<Rate>,
    /// The share that was lost before the last one.
    share: f64,
    /// What was sent and lost since it was answered.
    sent: u64,
    lost: u64,
    /// Those at the end of the row that did not help.
    futile: u8,
    /// Rounds since they do not help, without a queue and with one.
    clear: u64,
    queued: u64,
}

/// What was learnt from reductions that did not help.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unfounded {
    /// The rate before them.
    pub(super) rate: Rate,
    /// What is lost, at whatever rate.
    pub(super) share: f64,
}

impl Reductions {
    /// Takes round `number`, in which there was a queue or not. Whether what it lost may be due to what was sent
    /// before the last reduction.
    pub(super) fn on_round(&mut self, number: u64, round: &Round, queue: bool) -> bool {
        *(if queue { &mut self.queued } else { &mut self.clear }) += 1;
        let answered = self.last.is_some_and(|last| number <= last + ECHO_ROUNDS);
        if !answered {
            self.sent += round.sent_packets();
            self.lost += round.lost_packets;
        }
        answered
    }

    /// Whether the rate was reduced not long before round `number`, for whatever reason.
    pub(super) fn are_recent(&self, number: u64) -> bool {
        self.last.is_some_and(|last| number <= last + RECENT_ROUNDS)
    }

    /// The rate is about to be reduced in round `number`, from `rate`. If those before did not help, it should not be.
    pub(super) fn on_reduction(
        &mut self,
        number: u64,
        rate: Rate,
        round: &Round,
    ) -> Option<Unfounded> {
        let in_row =
            self.rate.is_some() && self.last.is_some_and(|last| number <= last + LONG_HOLD_ROUNDS);
        if !in_row {
            *self = Self::default();
        }
        let first = *self.rate.get_or_insert(rate);
        let share =
            if in_row { share(self.lost as f64, self.sent as f64) } else { round.lost_share() };
        if in_row && self.sent >= JUDGED_PACKETS {
            self.judge(share);
        }
        let stands = self.queued > MAX_QUEUED_PER_CLEAR * self.clear;
        if self.futile >= IN_A_ROW && !stands && share <= MAX_SHARE {
            *self = Self::default();
            // Those of the row that did help had a reason: they stand.
            let before_them = rate.mul_f64(BACK_OFF.powi(IN_A_ROW.into()).recip());
            return Some(Unfounded { rate: first.min(before_them), share });
        }
        if !in_row || self.sent >= JUDGED_PACKETS {
            self.share = share;
        }
        (self.last, self.sent, self.lost) = (Some(number), 0, 0);
        None
    }

    /// Counts whether the last one helped, after which this share is lost.
    fn judge(&mut self, share: f64) {
        // Had it been our own excess, this would be left of the loss; half way counts as help.
        let expected = (1.0 - (1.0 - self.share) / BACK_OFF).max(0.0);
        let grown = self.share + TOLERANCE + CHANCE * standard_error(self.share, self.sent as f64);
        let same = (self.share + expected) / 2.0..grown;
        if same.contains(&share) {
            self.futile = self.futile.saturating_add(1);
        } else {
            (self.futile, self.clear, self.queued) = (0, 0, 0);
        }
    }

    /// The rate is reduced in round `number` for another reason: the rounds after it belong to that, and no row does.
    pub(super) fn begin_anew(&mut self, number: u64) {
        *self = Self { last: Some(number), ..Self::default() };
    }
}
