// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does the controller's circuit breaker ask of those who fill packets?

use super::Recovery;

impl Recovery {
    /// See [`Controller::tries_rates`].
    pub(crate) fn tries_rates(&self) -> bool {
        self.controller.tries_rates()
    }

    /// See [`Controller::is_limited`].
    pub(crate) fn is_limited(&self) -> bool {
        self.controller.is_limited()
    }
}
