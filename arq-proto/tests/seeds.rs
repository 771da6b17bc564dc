// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Any scenario, many of them: is everything delivered, once and in order, with every rule kept
//! after every step?
//!
//! `ARQ_SEEDS=10000` runs that many, `ARQ_SEED=n` repeats one.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use arq_sim::Scenario;

const DEFAULT_SEEDS: u64 = 300;

// ARQ-LAN-1, ARQ-LAN-3, ARQ-BEF-1, ARQ-CC-1
#[test]
fn random_scenarios_deliver_everything() {
    deliver_everything(Scenario::random);
}

// ARQ-MP-4, ARQ-MP-5, ARQ-MP-7
#[test]
fn random_scenarios_over_several_radios_deliver_everything() {
    deliver_everything(Scenario::random_with_radios);
}

fn deliver_everything(scenario: impl Fn(u64) -> Scenario + Sync) {
    let seeds = common::seeds(DEFAULT_SEEDS);
    let next = AtomicU64::new(seeds.start);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    // Each thread takes the next seed; failures are collected so that one run shows them all.
    let failures: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut failures = Vec::new();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= seeds.end {
                            return failures;
                        }
                        if let Err(failure) = scenario(seed).run() {
                            failures.push(failure);
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    println!("{} scenarios, {} failed", seeds.end - seeds.start, failures.len());
    if let Some(first) = failures.iter().min_by_key(|failure| failure.scenario.seed) {
        for failure in &failures {
            println!("seed {}: {}", failure.scenario.seed, failure.halt);
        }
        common::fail(first);
    }
}
