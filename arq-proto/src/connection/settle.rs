// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What follows from the fate of what was sent: lanes learn what arrived, and repair what is lost or in doubt.

use std::time::Instant;

use super::Connection;
use crate::{recovery::Outcome, sent::Content, units::LaneSet};

impl Connection {
    /// Tells the lanes the fate of what they sent.
    pub(super) fn settle(&mut self, now: Instant, mut outcome: Outcome) {
        for content in outcome.acked.drain(..) {
            match content {
                Content::Symbol { lane, seq, cut, symbol } => {
                    let settled = self.outgoing.lanes[lane].on_acked(seq, cut, symbol);
                    self.outgoing.credit.settle(settled);
                }
                Content::Close => self.drain(),
                Content::Forget(lane) => self.outgoing.lanes[lane].on_forget_settled(),
                Content::MaxData | Content::MaxLaneData(_) => {}
            }
        }
        let mut damaged = LaneSet::default();
        for content in outcome.lost.drain(..) {
            match content {
                Content::Symbol { lane, seq, cut, symbol } => {
                    self.outgoing.lanes[lane].on_lost(seq, cut, symbol);
                    damaged.insert(lane);
                }
                Content::MaxData => self.incoming.on_credit_lost(None),
                Content::MaxLaneData(lane) => self.incoming.on_credit_lost(Some(lane)),
                // Not repaired, but the next one need not wait for its answer.
                Content::Forget(lane) => self.outgoing.lanes[lane].on_forget_settled(),
                Content::Close => {}
            }
        }
        self.repair(damaged, outcome.by_time_out);
        let confidence = self.path.confidence().after_lost_answer(self.path.acks.loss.upper());
        self.outgoing.doubt(outcome.doubtful.drain(..), confidence);
        if self.close_reason.is_none() {
            self.learn_shapes(now, &outcome.settled);
        }
        self.path.recovery.recycle(outcome);
        self.finish_if_flushed(now);
    }

    /// Repairs these lanes. `by_time_out`: no acknowledgement has told what is missing.
    fn repair(&mut self, damaged: LaneSet, by_time_out: bool) {
        let mut confidence = self.path.confidence();
        if by_time_out {
            confidence = confidence.after_time_out(
                self.path.acks.loss.upper(),
                self.path.recovery.channel().is_bursty(),
            );
        }
        self.outgoing.repair(damaged, confidence);
    }
}
