// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does the same seed give the same trace, and can the core know anything but its arguments?

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::process::Command;

use arq_sim::Scenario;

#[test]
fn the_same_seed_gives_the_same_trace() {
    let mut hashes = std::collections::BTreeSet::new();
    let seeds = common::seeds(20);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let scenario = Scenario::random(seed);
        let (first, second) = (common::run(&scenario), common::run(&scenario));
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        assert_eq!(first.client_stats, second.client_stats, "seed {seed}");
        hashes.insert(first.trace_hash);
    }
    assert_eq!(hashes.len() as u64, count, "different seeds give different traces");
}

#[test]
fn the_trace_does_not_depend_on_when_the_world_began() {
    let scenario = Scenario::random(7);
    let first = common::run(&scenario).trace_hash;
    // Something that takes real time, so that the second world begins at another instant.
    let other = common::run(&Scenario::random(8)).trace_hash;
    assert_ne!(first, other);
    assert_eq!(common::run(&scenario).trace_hash, first);
}

#[test]
fn the_core_depends_on_no_io() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "-p", "arq-proto", "-e", "normal", "--prefix", "none", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(tree.starts_with("arq-proto "), "{tree}");
    for name in tree.lines().filter_map(|line| line.split(' ').next()) {
        for forbidden in ["tokio", "mio", "socket2", "quinn", "zenoh", "async", "getrandom"] {
            assert!(!name.starts_with(forbidden), "{name} in\n{tree}");
        }
    }
}
