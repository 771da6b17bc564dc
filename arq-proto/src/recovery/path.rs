// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does another path mean for what was learnt of this one?

use super::{loss::LossDetector, Recovery};
use crate::{path_loss::PathLoss, units::PacketNumber};

/// No packet has this number.
pub(super) const OFF_PATH: PacketNumber = PacketNumber(u64::MAX);

impl Recovery {
    /// The path changed: keep the ledger, forget what was learnt about the old path.
    pub(crate) fn on_path_change(&mut self) {
        self.forget_losses();
        self.rtt.reset();
        self.detector = LossDetector::new(self.granularity);
        self.tails.clear();
    }

    /// What was lost until now, and the rate that came of it, say nothing about what leaves from now on.
    pub(crate) fn forget_losses(&mut self) {
        self.path_from = self.next_number();
        self.loss = PathLoss::default();
        self.outcome.settled.clear();
        self.controller.on_path_change();
        self.pto_count = 0;
        self.probe_budget = None;
    }

    /// The peer may have moved: until it is known where it is, packets go to two addresses of which one may be dead.
    /// What becomes of them says nothing about either path.
    pub(crate) fn leave_path(&mut self) {
        self.path_from = OFF_PATH;
    }

    /// The peer has not moved. What was lost on the way to where it is not is no loss of this path.
    pub(crate) fn enter_path(&mut self) {
        self.path_from = self.next_number();
        // Rounds under way lack what went elsewhere.
        self.controller.on_sleep();
    }

    /// Whether it is known where the peer is.
    pub(crate) fn is_on_path(&self) -> bool {
        self.path_from != OFF_PATH
    }
}
