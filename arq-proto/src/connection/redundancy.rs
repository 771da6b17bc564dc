// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What leaves before anything is known to be lost: how messages are cut for it, and parity. [`policy`] says what pays.

use super::Connection;
use crate::{
    config::FecConfig,
    fec::policy,
    send::lane::{ChunkLimits, SymbolRef},
    units::LaneId,
};

impl Connection {
    /// How long chunks may be, with the message that begins next in a lane cut finer where parity wants that.
    pub(super) fn chunk_limits_of_next(&mut self, id: LaneId, credit: u64) -> ChunkLimits {
        let limits = self.chunk_limits();
        let auto = self.config.fec == FecConfig::Auto && self.config.chunk_bytes.is_none();
        if !auto || !self.peer_takes_repair {
            return limits;
        }
        let lane = &mut self.send_lanes[id.index()];
        let Some(bytes) = lane.begins_next(credit) else { return limits };
        let (_, bulk) = lane.backlog();
        if self.is_dear(bulk) {
            return limits;
        }
        let new = policy::chunk_bytes(bytes, limits.new, self.recovery.channel());
        ChunkLimits { new, ..limits }
    }

    /// Repair symbols to follow the chunk that is being sent, ahead of any loss.
    pub(super) fn parity(&self, id: LaneId, next: SymbolRef) -> usize {
        let lane = &self.send_lanes[id.index()];
        let Some(shape) = lane.first_round_ends(next, self.peer_takes_repair) else { return 0 };
        let (behind, bulk) = lane.backlog();
        let stakes = || self.recovery.stakes(self.path_mtu.size(), behind);
        match self.config.fec {
            FecConfig::Off => 0,
            FecConfig::Percent(percent) => policy::fixed(percent, shape.chunk_count()),
            FecConfig::Auto if self.is_dear(bulk) => 0,
            FecConfig::Auto => policy::auto(shape, self.recovery.channel(), stakes()),
        }
    }

    /// Whether parity costs more than bytes: in bulk, another round trip delays nobody, and a window in
    /// packets makes each of them dear.
    fn is_dear(&self, bulk: bool) -> bool {
        bulk || self.config.window_packets.is_some()
    }
}
