// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which lane goes next: strict priority, but nobody starves.

use crate::units::LaneId;

/// A lane that has something to send is passed over by at most so many chunks in a row of more urgent
/// ones: about 1.5 % of the chunks are the price of a bound.
pub(crate) const STARVATION_BOUND: u32 = 64;

/// Counts how often each waiting lane was passed over.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    passed_over: [u32; LaneId::COUNT],
}

impl Scheduler {
    /// Chooses among the lanes whose bit is set in `waiting`.
    pub(crate) fn pick(&self, waiting: u16) -> Option<LaneId> {
        let starved = LaneId::all().find(|lane| {
            waiting >> lane.index() & 1 == 1 && self.passed_over[lane.index()] >= STARVATION_BOUND
        });
        starved.or_else(|| LaneId::all().find(|lane| waiting >> lane.index() & 1 == 1))
    }

    /// A chunk of `served` was sent while the lanes in `waiting` could have sent something; those in `pending` had
    /// something, if without credit.
    pub(crate) fn on_sent(&mut self, served: LaneId, waiting: u16, pending: u16) {
        for lane in LaneId::all() {
            let count = &mut self.passed_over[lane.index()];
            if lane == served || pending >> lane.index() & 1 == 0 {
                *count = 0;
            } else if waiting >> lane.index() & 1 == 1 {
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
        let waiting = 0b1000_0000_0010_0001;
        let mut served = [0_u32; LaneId::COUNT];
        for _ in 0..10_000 {
            let lane = scheduler.pick(waiting).unwrap();
            scheduler.on_sent(lane, waiting, waiting);
            served[lane.index()] += 1;
        }
        assert!(served[0] > 9_600, "{served:?}");
        assert!(served[5] >= 150 && served[15] >= 150, "{served:?}");
        assert_eq!(served.iter().sum::<u32>(), 10_000);
        assert_eq!(scheduler.pick(0), None);
    }
}
