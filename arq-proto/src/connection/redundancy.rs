// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How much leaves beside what is needed: asks [`Redundancy`], and carries out what it says.

use std::time::Instant;

use super::{draft::Draft, outgoing::Outgoing, timestamps::timestamp_of, Connection};
use crate::{
    redundancy::Redundancy,
    send::lane::ChunkLimits,
    sent::Content,
    symbol::SymbolRef,
    units::{LaneId, MessageSeq},
    wire::BASE_MTU,
};

impl Connection {
    /// What decisions about redundancy rest on now.
    pub(super) fn redundancy(&self) -> Redundancy {
        let recovery = &self.path.recovery;
        Redundancy {
            fec: self.config.fec,
            coding: self.outgoing.peer_takes_repair,
            counts_packets: self.config.window_packets.is_some(),
            channel: recovery.channel(self.others.iter().map(|path| path.recovery.loss())),
            ack_loss: self.path.acks.loss.upper(),
            repair_delay: recovery.repair_delay(),
            rate: recovery.pacing_rate(),
            is_overdue: recovery.is_overdue(),
        }
    }

    /// How long chunks may be, with the message that begins next in a lane segmented as its protection wants it.
    pub(super) fn chunk_limits_of_next(
        &self,
        redundancy: &Redundancy,
        id: LaneId,
        from: MessageSeq,
        credit: u64,
    ) -> ChunkLimits {
        let limits = self.chunk_limits();
        if self.config.chunk_bytes.is_some() || !redundancy.is_auto() {
            return limits;
        }
        let lane = &self.outgoing.lanes[id];
        let Some((seq, bytes)) = lane.begins_next(from, credit) else { return limits };
        let (base, bulk) = (self.chunk_bytes_in(BASE_MTU), lane.is_blocked());
        let new = redundancy.chunk_bytes(seq, bytes, limits.new, base, bulk);
        ChunkLimits { new, ..limits }
    }

    /// Repair symbols to follow the chunk that is being sent, ahead of any loss.
    pub(super) fn parity(&mut self, redundancy: &Redundancy, id: LaneId, next: SymbolRef) -> usize {
        let lane = &self.outgoing.lanes[id];
        let Some(shape) = lane.first_round_ends(next, redundancy.coding) else { return 0 };
        let packet_bytes = self.path.mtu.size_in_use().into();
        let parity = redundancy.parity(next.seq, shape, packet_bytes, lane.backlog());
        match shape.chunk_count() {
            1 if parity == 0 => self.copies(redundancy, id, next),
            _ => parity,
        }
    }

    /// Copies of a message of one chunk that is being sent. None of what is not repaired: nobody waits for a repair. None in
    /// bulk, and none where each byte costs money.
    fn copies(&mut self, redundancy: &Redundancy, id: LaneId, next: SymbolRef) -> usize {
        let lane = &self.outgoing.lanes[id];
        let is_wanted = lane.is_new(next) && lane.repairs() && !lane.is_blocked();
        if !is_wanted || self.path.meter.is_some() {
            return 0;
        }
        self.outgoing.copies.take(id, next.frame_len, redundancy.copies())
    }

    /// A message left for the first time: remembers it if it may be bundled.
    pub(super) fn remember_small(&mut self, now: Instant, id: LaneId, at: SymbolRef) {
        if self.outgoing.lanes[id].unacked_sendings(at.seq).is_some() {
            self.outgoing.bundle.on_sent(now, id, at);
        }
    }

    /// Small messages of which nothing is heard yet leave again in the last packet of a flight, in a suspected fade in each
    /// packet.
    pub(super) fn offer_bundle(&mut self, now: Instant, out: &mut Vec<u8>, draft: &mut Draft) {
        if self.outgoing.bundle.is_empty() {
            return;
        }
        let redundancy = self.redundancy();
        let in_fade = redundancy.suspects_fade();
        let may = in_fade || redundancy.may_bundle() && self.waiting().is_empty();
        if !may || self.path.recovery.fills_path() {
            return;
        }
        // Small packets stay small: what drops long ones must not take the new message.
        draft.end = draft.end.min(draft.start + usize::from(BASE_MTU) - self.tag_bytes());
        let Self { outgoing, counters, config, clock, .. } = self;
        let Outgoing { bundle, lanes, scratch, .. } = outgoing;
        bundle.retain(|small| lanes[small.lane].is_unacked(small.at.seq));
        for small in bundle.candidates(in_fade) {
            let SymbolRef { seq, segmentation, symbol, frame_len } = small.at;
            let lane = &mut lanes[small.lane];
            let content = Content::Symbol { lane: small.lane, seq, segmentation, symbol };
            let is_wanted = match in_fade {
                true => lane.may_repeat(seq) && redundancy.repeats(now, small),
                false => {
                    let sendings = lane.unacked_sendings(seq);
                    sendings.is_some_and(|count| redundancy.bundles(now, small, count))
                }
            };
            if !is_wanted || draft.has_symbol(small.lane, seq, &content) {
                continue;
            }
            let timestamp = timestamp_of(config, clock.epoch, small.lane, lane, seq);
            let fits = draft.len_with(frame_len, timestamp) <= draft.room(out);
            if fits {
                small.left_at = now;
                draft.put_timestamp(out, timestamp);
                draft.put(out, &lane.frame(small.at, scratch), Some(content));
                lane.on_bundled(seq);
                counters.chunks_bundled += 1;
            }
        }
    }
}
