// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The budgets of metered interfaces, one for all endpoints of the process: a link that is dialled again goes on with what
//! the one before has left.

use std::time::Instant;

use arq_proto::Budget;
use parking_lot::Mutex;

/// Interface, rate in bits per second, and what is left. As many as were ever configured.
static BUDGETS: Mutex<Vec<(String, u64, Budget)>> = Mutex::new(Vec::new());

/// The budget of an interface at this rate.
pub(super) fn of(interface: &str, rate_bps: u64, now: Instant) -> Budget {
    let mut budgets = BUDGETS.lock();
    let known = budgets.iter().find(|(name, rate, _)| name == interface && *rate == rate_bps);
    if let Some((_, _, budget)) = known {
        return budget.clone();
    }
    let budget = Budget::new(rate_bps, now);
    budgets.push((interface.to_owned(), rate_bps, budget.clone()));
    budget
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn links_share_the_budget_of_an_interface() {
        let now = crate::driver::now();
        let first = of("shared-wwan0", 16_000, now);
        assert_eq!(of("shared-wwan0", 16_000, now), first);
        assert_ne!(of("shared-wwan0", 8_000, now), first);
        assert_ne!(of("shared-wwan1", 16_000, now), first);
    }
}
