// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How old are the messages? The receiver drops what is past its deadline, so the peer hears when they were handed over.

use std::time::{Duration, Instant};

use super::{draft::Draft, has_deadline, Connection};
use crate::{
    config::ValidConfig,
    send::lane::SendLane,
    units::{LaneId, MessageSeq},
    wire::frame::Frame,
};

/// The peer hears the time at least so often while anything leaves.
const TIME_INTERVAL: Duration = Duration::from_secs(1);
/// No message follows: which lane does not matter.
const TIME_LANE: LaneId = LaneId::from_wire(0);

/// The low bits of a time on the wire.
fn timestamp(epoch: Instant, at: Instant) -> u32 {
    (at.saturating_duration_since(epoch).as_millis() & 0xff_ffff) as u32
}

/// What the peer is told about the age of a message, if that has the deadline of which it was told.
pub(super) fn timestamp_of(
    config: &ValidConfig,
    epoch: Instant,
    id: LaneId,
    lane: &SendLane,
    seq: MessageSeq,
) -> Option<(LaneId, u32)> {
    has_deadline(config, id).then(|| (id, timestamp(epoch, lane.handed_over_at(seq))))
}

impl Connection {
    /// Tells the peer the time now and then: a message may be the first one, and wait for it.
    pub(super) fn offer_time(&mut self, now: Instant, out: &mut Vec<u8>, draft: &mut Draft) {
        if self.config.deadline.is_none() || !draft.in_flight {
            return;
        }
        let is_due = now >= self.outgoing.time_due_at && draft.timestamp.is_none();
        if is_due && draft.room(out) >= Frame::TIMESTAMP_BYTES {
            draft.put_timestamp(out, Some((TIME_LANE, timestamp(self.clock.epoch, now))));
        }
        if draft.timestamp.is_some() {
            self.outgoing.time_due_at = now + TIME_INTERVAL;
        }
    }
}
