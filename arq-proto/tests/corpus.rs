// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Every input that a fuzzer ever found worth keeping, again; and random ones, for a machine without
//! a fuzzer.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::{fs, path::Path};

use arq_sim::harness::{
    hostile_paths, hostile_peer, hostile_server, packet_decode, reassembly, secured,
    secured_client, secured_server,
};
use fastrand::Rng;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 8] = [
    ("packet_decode", packet_decode),
    ("hostile_peer", hostile_peer),
    ("hostile_server", hostile_server),
    ("hostile_paths", hostile_paths),
    ("reassembly", reassembly),
    ("secured", secured),
    ("secured_server", secured_server),
    ("secured_client", secured_client),
];

// ARQ-ERR-3
#[test]
fn the_corpus_breaks_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (name, target) in TARGETS {
        let mut files: Vec<_> = fs::read_dir(root.join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"))
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        assert!(!files.is_empty(), "{name} has no corpus");
        for file in &files {
            println!("{}", file.display());
            target(&fs::read(file).unwrap());
        }
        println!("{name}: {} inputs", files.len());
    }
}

// ARQ-ERR-3
#[test]
fn random_inputs_break_nothing() {
    for seed in common::seeds(300) {
        let mut rng = Rng::with_seed(seed);
        for (name, target) in TARGETS {
            let mut bytes = vec![0; rng.usize(..4_000)];
            rng.fill(&mut bytes);
            println!("{name}, ARQ_SEED={seed}");
            target(&bytes);
        }
    }
}
