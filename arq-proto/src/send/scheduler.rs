// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which lane goes next: strict priority, but nobody starves.
//!
//! Requirement, numbered as in `docs/protocol.md`:
//!
//! - **ARQ-LAN-2** A sender serves the most urgent lane first, reliable before best effort, the oldest message
//!   first; a lane passed over by 64 chunks in a row is next. While a lane waits for connection credit, no less
//!   urgent reliable lane begins a message, unless all begun ones are delivered.

use crate::units::{LaneId, LaneSet};

/// Most chunks in a row of more urgent lanes while another lane waits: the bound costs them about 1.5 % of the chunks.
pub(crate) const STARVATION_BOUND: u32 = 64;

/// Counts how often each waiting lane was passed over.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    passed_over: [u32; LaneId::COUNT],
}

impl Scheduler {
    /// Chooses among the lanes that are `waiting`.
    pub(crate) fn pick(&self, waiting: LaneSet) -> Option<LaneId> {
        let is_starved = |lane: &LaneId| self.passed_over[lane.index()] >= STARVATION_BOUND;
        waiting.iter().find(is_starved).or_else(|| waiting.iter().next())
    }

    /// A chunk of `served` was sent while the lanes in `waiting` could have sent something; those in `pending` had
    /// something, if without credit.
    pub(crate) fn on_sent(&mut self, served: LaneId, waiting: LaneSet, pending: LaneSet) {
        for lane in LaneId::all() {
            let count = &mut self.passed_over[lane.index()];
            if lane == served || !pending.contains(lane) {
                *count = 0;
            } else if waiting.contains(lane) {
                *count += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ARQ-LAN-2
    #[test]
    fn urgent_lanes_go_first_and_none_waits_for_ever() {
        let mut scheduler = Scheduler::default();
        let waiting = LaneId::all().filter(|lane| [0, 5, 15].contains(&lane.index())).collect();
        let mut served = [0_u32; LaneId::COUNT];
        for _ in 0..10_000 {
            let lane = scheduler.pick(waiting).unwrap();
            scheduler.on_sent(lane, waiting, waiting);
            served[lane.index()] += 1;
        }
        assert!(served[0] > 9_600, "{served:?}");
        assert!(served[5] >= 150 && served[15] >= 150, "{served:?}");
        assert_eq!(served.iter().sum::<u32>(), 10_000);
        assert_eq!(scheduler.pick(LaneSet::default()), None);
    }
}
