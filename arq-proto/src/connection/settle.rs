// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What follows from the fate of what was sent: lanes learn what arrived, and repair what is lost or suspect.
//! [`redundancy`](crate::redundancy) says how much.

use std::time::Instant;

use super::{Connection, PathEvent};
use crate::{recovery::Outcome, sent::Content, units::LaneSet};

impl Connection {
    /// Tells the lanes the fate of what they sent.
    pub(super) fn settle(&mut self, now: Instant, mut outcome: Outcome) {
        for content in outcome.acked.drain(..) {
            match content {
                Content::Symbol { lane, seq, segmentation, symbol } => {
                    let lane = &mut self.outgoing.lanes[lane];
                    let settled = lane.on_acked(now, seq, segmentation, symbol);
                    self.outgoing.credit.settle(settled);
                }
                Content::Close => self.drain(),
                Content::Forget(lane) => self.outgoing.lanes[lane].on_forget_settled(),
                Content::MaxData | Content::MaxLaneData(_) | Content::PathState(_) => {}
            }
        }
        let mut damaged = LaneSet::default();
        let out_elsewhere = self.out_on_silent_paths(&outcome.lost);
        for content in outcome.lost.drain(..) {
            match content {
                Content::Symbol { lane, seq, segmentation, symbol } => {
                    self.forgive_double(now, lane, seq, symbol);
                    self.outgoing.lanes[lane].on_lost(seq, segmentation, symbol);
                    damaged.insert(lane);
                }
                Content::MaxData => self.incoming.on_credit_lost(None),
                Content::MaxLaneData(lane) => self.incoming.on_credit_lost(Some(lane)),
                // Not repaired, but the next one need not wait for its ACK.
                Content::Forget(lane) => self.outgoing.lanes[lane].on_forget_settled(),
                Content::PathState(number) => self.on_wish_lost(number),
                Content::Close => {}
            }
        }
        self.do_without(&out_elsewhere);
        self.doubt_long_packets(!damaged.is_empty());
        if !(damaged.is_empty() && outcome.suspect.is_empty()) {
            let redundancy = self.redundancy();
            self.outgoing.repair(damaged, redundancy.target(outcome.by_time_out));
            let suspect = outcome.suspect.drain(..);
            self.outgoing.on_acks_lost(suspect, redundancy.target_of_suspects());
        }
        if self.close_reason.is_none() {
            self.learn_shapes(now, &outcome.settled);
        }
        if let Some(rate) = outcome.limited_to {
            self.tell_path(PathEvent::Limited { bytes_per_second: rate.bytes_per_second() });
        }
        self.path.recovery.recycle(outcome);
        self.finish_if_flushed(now);
        self.tell_losses(now);
    }

    /// Tells the observer, if there is one, what was lost, and how the connection stands.
    fn tell_losses(&mut self, now: Instant) {
        let Some(mut observer) = self.observer.take() else { return };
        for lost in self.path.recovery.losses.iter_mut().flat_map(std::mem::take) {
            observer.packet_lost(now, &lost);
        }
        observer.stats_updated(now, &self.stats());
        self.observer = Some(observer);
    }
}
