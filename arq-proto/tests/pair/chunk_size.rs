// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! When do chunks become shorter than what the path carries, and when not?

use arq_proto::{Config, Stats};
use arq_sim::{Flow, Pair, Scenario, WireConfig};

use crate::common::{lossy, seeds, MS, SEC};

fn config() -> Config {
    Config { mtu: Some(1_472), ..Config::default() }
}

/// 14 KB, a hundred times a second.
fn stream() -> [Flow; 1] {
    [Flow::reliable(5, 14_000, u64::MAX).every(10 * MS)]
}

fn noisy(bit_error_rate: f64) -> WireConfig {
    WireConfig { bit_error_rate, ..WireConfig::with_delay(2 * MS) }
}

fn lay_wires(pair: &mut Pair, wire: &WireConfig) {
    for (from, to) in [(pair.client, pair.server), (pair.server, pair.client)] {
        pair.world.lay_wire(from, to, wire.clone());
    }
}

/// The path is clean until its MTU is known: where two packets in three are lost, that is not found.
fn after(seed: u64, wire: WireConfig, config: Config, seconds: u32) -> (Pair, Stats) {
    let clean = noisy(0.0);
    let mut pair =
        Pair::new(&Scenario::new(seed).wire(clean).config(config).client_sends(stream()));
    pair.run_to_connected(5 * SEC).unwrap_or_else(|halt| panic!("ARQ_SEED={seed}: {halt}"));
    pair.world.run_for(SEC).unwrap_or_else(|halt| panic!("ARQ_SEED={seed}: {halt}"));
    assert_eq!(pair.client_side().connection().stats().path_mtu_bytes, 1_472);
    lay_wires(&mut pair, &wire);
    pair.world.run_for(seconds * SEC).unwrap_or_else(|halt| panic!("ARQ_SEED={seed}: {halt}"));
    let stats = pair.client_side().connection().stats();
    (pair, stats)
}

// ARQ-CHK-2, ARQ-CHK-3
#[test]
fn bit_errors_lower_the_chunk_size_and_their_end_raises_it() {
    for seed in seeds(2) {
        let (mut pair, stats) = after(seed, noisy(1e-4), config(), 10);
        println!(
            "ARQ_SEED={seed}: {} bytes, changed {}",
            stats.chunk_bytes, stats.chunk_size_changes
        );
        assert!(stats.chunk_bytes <= 700, "ARQ_SEED={seed}: {}", stats.chunk_bytes);
        lay_wires(&mut pair, &noisy(0.0));
        pair.world.run_for(15 * SEC).unwrap();
        let stats = pair.client_side().connection().stats();
        assert!(stats.chunk_bytes > 1_350, "ARQ_SEED={seed}: {}", stats.chunk_bytes);
    }
}

// ARQ-CHK-1
#[test]
fn loss_of_any_other_kind_does_not() {
    for seed in seeds(2) {
        for loss in [0.05, 0.25] {
            let (_, stats) = after(seed, lossy(loss), config(), 20);
            let case = format!("ARQ_SEED={seed}, loss {loss}");
            assert!(
                stats.chunk_size_changes == 0 && stats.chunk_bytes > 1_350,
                "{case}: {stats:?}"
            );
        }
    }
}

// ARQ-CHK-3
#[test]
fn shorter_chunks_save_bytes_where_bits_are_flipped() {
    let sent = |chunk_bytes| {
        let per_seed = (1..=6).map(|seed| {
            let config = Config { chunk_bytes, ..config() };
            let (pair, stats) = after(seed, noisy(1e-4), config, 15);
            stats.bytes_sent as f64 / pair.server_side().app.bytes_read() as f64
        });
        per_seed.sum::<f64>() / 6.0
    };
    let (fixed, tuned) = (sent(Some(1_430)), sent(None));
    println!("bytes sent per byte delivered: {fixed:.2} in chunks of 1,430, {tuned:.2} by itself");
    // Where the chunk is fixed the path MTU comes down instead: two in three of the long packets are lost.
    assert!(tuned < 0.95 * fixed && tuned < 2.6, "{tuned} against {fixed}");
}

// ARQ-CHK-1
#[test]
fn a_configured_size_holds_whatever_is_lost() {
    for chunk in [512, 1_000] {
        let config = Config { chunk_bytes: Some(chunk), ..config() };
        let (_, stats) = after(1, noisy(3e-5), config, 5);
        assert_eq!(stats.chunk_bytes, chunk);
    }
}
