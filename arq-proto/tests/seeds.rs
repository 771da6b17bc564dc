// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Any scenario, many of them: is everything delivered, once and in order, with every rule kept
//! after every step?
//!
//! `ARQ_SEEDS=10000` runs that many, `ARQ_SEED=n` repeats one.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use arq_sim::{parallel, Scenario};

const DEFAULT_SEEDS: u64 = 300;

// ARQ-LAN-1, ARQ-LAN-3, ARQ-BEF-1, ARQ-CC-1
#[test]
fn random_scenarios_deliver_everything() {
    deliver_everything(DEFAULT_SEEDS, Scenario::random);
}

// ARQ-MP-4, ARQ-MP-5, ARQ-MP-7
#[test]
fn random_scenarios_over_several_radios_deliver_everything() {
    deliver_everything(DEFAULT_SEEDS, Scenario::random_with_radios);
}

// ARQ-MP-3, ARQ-MP-4, ARQ-MP-5, ARQ-MP-8
#[test]
fn random_scenarios_deliver_everything_over_radios_that_move_and_fail() {
    // Each lasts for 20 virtual seconds.
    deliver_everything(DEFAULT_SEEDS / 5, Scenario::random_that_moves);
}

fn deliver_everything(seeds: u64, scenario: impl Fn(u64) -> Scenario + Sync) {
    let seeds: Vec<_> = common::seeds(seeds).collect();
    // All failures are collected, so that one run shows them.
    let failures: Vec<_> =
        parallel::map(&seeds, |seed| scenario(*seed).run().err()).into_iter().flatten().collect();
    println!("{} scenarios, {} failed", seeds.len(), failures.len());
    if let Some(first) = failures.first() {
        for failure in &failures {
            println!("seed {}: {}", failure.scenario.seed, failure.halt);
        }
        common::fail(first);
    }
}
