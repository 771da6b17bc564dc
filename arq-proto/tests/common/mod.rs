// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What every integration test needs: seeds, and failures that say how to repeat them.

#![allow(dead_code, reason = "each test binary uses another part")]

use std::{ops::Range, time::Duration};

use arq_sim::{
    toy::{Flights, Toy},
    Failure, Loss, Report, Scenario, WireConfig,
};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SEC: Duration = Duration::from_secs(1);

/// `0..default`, or as many as `ARQ_SEEDS` says, or only the one that `ARQ_SEED` names.
pub(crate) fn seeds(default: u64) -> Range<u64> {
    if let Some(seed) = number("ARQ_SEED") {
        return seed..seed + 1;
    }
    0..number("ARQ_SEEDS").unwrap_or(default)
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is not a number")))
}

/// Runs a scenario that must succeed.
#[track_caller]
pub(crate) fn run(scenario: &Scenario) -> Report {
    scenario.run().unwrap_or_else(|failure| fail(&failure))
}

/// Runs a scenario that must succeed with several seeds.
#[track_caller]
pub(crate) fn run_seeds(count: u64, scenario: impl Fn(u64) -> Scenario) -> Vec<Report> {
    seeds(count).map(|seed| run(&scenario(seed))).collect()
}

#[track_caller]
pub(crate) fn fail(failure: &Failure) -> ! {
    panic!("{failure}\nrepeat with ARQ_SEED={}", failure.scenario.seed)
}

/// 10 ms one way and random loss.
pub(crate) fn lossy(share: f32) -> WireConfig {
    WireConfig { loss: Loss::Random(share), ..WireConfig::with_delay(10 * MS) }
}

/// The same in the clear and sealed, with a change of keys each 64 packets.
pub(crate) fn clear_and_sealed(scenario: Scenario) -> [Scenario; 2] {
    let sealed = scenario.clone().sealed(Toy::new(Flights::default()), 64);
    [scenario, sealed]
}
