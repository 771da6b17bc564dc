// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What leaves before anything is known to be lost: how messages are cut, parity, and small messages that ride along.
//! [`policy`] says what pays.

use std::time::Instant;

use super::{
    outgoing::Outgoing,
    transmit::{timestamp_of, Draft},
    Connection,
};
use crate::{
    config::FecConfig,
    fec::policy,
    per_lane::PerLane,
    send::{
        bundle::Rider,
        lane::{ChunkLimits, SendLane, SymbolRef},
    },
    sent::Content,
    units::{LaneId, MessageSeq},
    wire::BASE_MTU,
};

impl Connection {
    /// How long chunks may be, with the message that begins next in a lane cut finer where parity wants that.
    pub(super) fn chunk_limits_of_next(
        &self,
        id: LaneId,
        from: MessageSeq,
        credit: u64,
    ) -> ChunkLimits {
        let limits = self.chunk_limits();
        let auto = self.config.fec == FecConfig::Auto && self.config.chunk_bytes.is_none();
        if !auto || !self.outgoing.peer_takes_repair {
            return limits;
        }
        let lane = &self.outgoing.lanes[id];
        let Some((seq, bytes)) = lane.begins_next(from, credit) else { return limits };
        let (_, bulk) = lane.backlog();
        if self.is_dear(bulk) {
            return limits;
        }
        let (overhead, channel) = (policy::overhead(seq), self.path.recovery.channel());
        // Few long chunks leave parity less to choose than many short ones.
        let longest = match policy::expects_loss(channel) {
            true => limits.new.min(self.chunk_bytes_in(BASE_MTU)),
            false => limits.new,
        };
        let delay = self.path.recovery.repair_delay();
        ChunkLimits { new: policy::chunk_bytes(bytes, longest, overhead, channel, delay), ..limits }
    }

    /// Whether so much is lost that the symbols of a message, of which some may be lost, should not share packets.
    pub(super) fn spreads_symbols(&self) -> bool {
        self.config.fec == FecConfig::Auto
            && self.outgoing.peer_takes_repair
            && policy::expects_loss(self.path.recovery.channel())
    }

    /// Repair symbols to follow the chunk that is being sent, ahead of any loss.
    pub(super) fn parity(&self, id: LaneId, next: SymbolRef) -> usize {
        let lane = &self.outgoing.lanes[id];
        let Some(shape) = lane.first_round_ends(next, self.outgoing.peer_takes_repair) else {
            return 0;
        };
        let (behind, bulk) = lane.backlog();
        let stakes = || self.path.recovery.stakes(self.path.mtu.size_in_use().into(), behind);
        match self.config.fec {
            FecConfig::Off => 0,
            FecConfig::Percent(percent) => policy::fixed(percent, shape.chunk_count()),
            FecConfig::Auto if self.is_dear(bulk) => 0,
            FecConfig::Auto => policy::auto(
                shape,
                policy::overhead(next.seq),
                self.path.recovery.channel(),
                stakes(),
            ),
        }
    }

    /// Whether parity costs more than bytes: in bulk, another round trip delays nobody, and a window in
    /// packets makes each of them dear.
    fn is_dear(&self, bulk: bool) -> bool {
        bulk || self.config.window_packets.is_some()
    }

    /// A message left for the first time: remembers it if it may ride along.
    pub(super) fn remember_rider(&mut self, now: Instant, id: LaneId, at: SymbolRef) {
        if self.outgoing.lanes[id].unanswered_sendings(at.seq).is_some() {
            self.outgoing.riders.on_sent(now, id, at);
        }
    }

    /// Small messages of which nothing is heard yet ride along in the last packet of a flight.
    pub(super) fn offer_riders(&mut self, now: Instant, out: &mut Vec<u8>, draft: &mut Draft) {
        let auto = self.config.fec == FecConfig::Auto && self.outgoing.peer_takes_repair;
        if !auto || self.outgoing.riders.is_empty() {
            return;
        }
        let channel = self.path.recovery.channel();
        if !policy::may_bundle(channel) || !self.outgoing.find_waiting().is_empty() {
            return;
        }
        // Small packets stay small: what drops long ones must not take the new message.
        draft.end = draft.end.min(draft.start + usize::from(BASE_MTU) - self.tag_bytes());
        let Self { outgoing, path, counters, config, epoch, .. } = self;
        let Outgoing { riders, lanes, scratch, .. } = outgoing;
        let sendings = |lanes: &PerLane<SendLane>, rider: &Rider| {
            lanes[rider.lane].unanswered_sendings(rider.at.seq)
        };
        riders.retain(|rider| sendings(lanes, rider).is_some());
        for rider in riders.iter_mut() {
            let SymbolRef { seq, cut, symbol, frame_len } = rider.at;
            let Some(sendings) = sendings(lanes, rider) else { continue };
            let [age, apart] =
                [rider.sent_at, rider.left_at].map(|at| now.saturating_duration_since(at));
            let pays = policy::bundles(channel, path.recovery.stakes(frame_len, 0), sendings, age);
            let lane = &mut lanes[rider.lane];
            let timestamp = timestamp_of(config, *epoch, rider.lane, lane, seq);
            let fits = draft.len_with(frame_len, timestamp) <= draft.room(out);
            if apart >= policy::MIN_BUNDLING_INTERVAL && pays && fits {
                rider.left_at = now;
                draft.put_timestamp(out, timestamp);
                let content = Content::Symbol { lane: rider.lane, seq, cut, symbol };
                draft.put(out, &lane.frame(rider.at, scratch), Some(content));
                lane.on_bundled(seq);
                counters.chunks_bundled += 1;
            }
        }
    }
}
