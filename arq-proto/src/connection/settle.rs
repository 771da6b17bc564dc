// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What follows from the fate of what was sent: lanes learn what arrived, and repair what is lost or in doubt.

use std::time::Instant;

use super::Connection;
use crate::{
    per_lane::PerLane,
    recovery::{confidence::Confidence, time_out::PACKETS_PER_TIME_OUT},
    send::{lane::SendLane, message::Silence},
    sent::Content,
    units::LaneSet,
};

impl Connection {
    /// Tells the lanes the fate of what they sent.
    pub(super) fn settle(&mut self, now: Instant) {
        let mut outcome = std::mem::take(&mut self.outcome);
        for content in outcome.acked.drain(..) {
            match content {
                Content::Symbol { lane, seq, cut, symbol } => {
                    let settled = self.send_lanes[lane].on_acked(seq, cut, symbol);
                    self.send_credit.settle(settled);
                }
                Content::Close => self.drain(),
                Content::Forget(lane) => self.send_lanes[lane].on_forget_settled(),
                Content::MaxData | Content::MaxLaneData(_) => {}
            }
        }
        let mut damaged = LaneSet::default();
        for content in outcome.lost.drain(..) {
            match content {
                Content::Symbol { lane, seq, cut, symbol } => {
                    self.send_lanes[lane].on_lost(seq, cut, symbol);
                    damaged.insert(lane);
                }
                Content::MaxData => self.incoming.on_credit_lost(None),
                Content::MaxLaneData(lane) => self.incoming.on_credit_lost(Some(lane)),
                // Not repaired, but the next one need not wait for its answer.
                Content::Forget(lane) => self.send_lanes[lane].on_forget_settled(),
                Content::Close => {}
            }
        }
        self.repair(damaged, std::mem::take(&mut outcome.by_time_out));
        self.doubt(outcome.doubtful.drain(..));
        // Keep the buffers: they are filled for every acknowledgement.
        self.outcome = outcome;
        self.learn_shapes(now);
        self.finish_if_flushed(now);
    }

    /// Repairs these lanes. `by_time_out`: no acknowledgement has told what is missing.
    fn repair(&mut self, damaged: LaneSet, by_time_out: bool) {
        let mut confidence = Confidence::new(self.recovery.loss.upper());
        if by_time_out {
            confidence = confidence
                .after_time_out(self.acks.loss.upper(), self.recovery.channel().is_bursty());
        }
        for lane in damaged.iter() {
            if self.send_lanes[lane].repair(confidence, self.peer_takes_repair) {
                self.pending_lanes.insert(lane);
            }
        }
    }

    /// The answers about these are lost: none of their messages is as sure to be completed as it seemed.
    fn doubt(&mut self, contents: impl IntoIterator<Item = Content>) {
        if !self.peer_takes_repair {
            return;
        }
        let confidence = Confidence::new(self.recovery.loss.upper());
        let confidence = confidence.after_lost_answer(self.acks.loss.upper());
        let mut left = PACKETS_PER_TIME_OUT;
        let mut doubted = None;
        for content in contents {
            let Content::Symbol { lane, seq, .. } = content else { continue };
            // The symbols of a message lie side by side.
            if doubted.replace((lane, seq)) == Some((lane, seq)) {
                continue;
            }
            let symbols = self.send_lanes[lane].doubt(seq, confidence, left);
            if symbols > 0 {
                self.pending_lanes.insert(lane);
                left -= symbols;
            }
        }
    }

    /// Whether silence means that an answer was lost, rather than what it would have answered.
    pub(super) fn has_enough_in_flight(&self) -> bool {
        let confidence = Confidence::new(self.recovery.loss.upper());
        let lanes = self.send_lanes.iter();
        let enough = lanes.filter_map(|lane| lane.has_enough_in_flight(confidence));
        enough.reduce(|all, enough| all && enough).unwrap_or(false)
    }
}

/// What silence about the packet with this content is.
pub(super) fn judge_silence(
    lanes: &PerLane<SendLane>,
    content: &Content,
    chance: Option<Confidence>,
) -> Silence {
    match *content {
        Content::Symbol { lane, seq, .. } => lanes[lane].judge_silence(seq, chance),
        Content::MaxData | Content::MaxLaneData(_) | Content::Forget(_) | Content::Close => {
            Silence::Expected
        }
    }
}
