// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Random scenarios, as those of `seeds`, sealed: with flights of any length, and a change of keys each 64 packets.

use arq_sim::{
    parallel,
    toy::{Flights, Toy},
    Scenario,
};
use fastrand::Rng;

use crate::common;

const DEFAULT_SEEDS: u64 = 200;
const KEY_UPDATE_PACKETS: u32 = 64;

pub(crate) fn random_flights(rng: &mut Rng) -> Flights {
    Flights {
        client_hello: rng.usize(200..=2_000),
        server_hello: rng.usize(60..=1_300),
        server: rng.usize(100..=16_000),
        client: rng.usize(60..=16_000),
        retry: rng.u8(..4) == 0,
        rejects_client: false,
    }
}

fn twin(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed ^ 0x5ea1);
    let toy = Toy::new(random_flights(&mut rng));
    let mut scenario = Scenario::random(seed).sealed(toy, KEY_UPDATE_PACKETS);
    if rng.u8(..4) == 0 {
        scenario.max_unvalidated_handshakes = 0;
    }
    scenario
}

// ARQ-SEC-1, ARQ-SEC-2, ARQ-KEY-1
#[test]
fn sealed_twins_deliver_everything_and_seal_no_number_twice() {
    let seeds: Vec<u64> = common::seeds(DEFAULT_SEEDS).collect();
    let count = seeds.len();
    let results = parallel::map(&seeds, |seed| twin(*seed).run());
    let (mut updates, mut failures) = (0, Vec::new());
    for result in results {
        match result {
            Ok(report) => {
                updates += report.client_stats.key_updates;
            }
            Err(failure) => failures.push(failure),
        }
    }
    println!("{count} scenarios, {} failed, {updates} key updates", failures.len());
    if let Some(first) = failures.iter().min_by_key(|failure| failure.scenario.seed) {
        for failure in &failures {
            println!("seed {}: {}", failure.scenario.seed, failure.halt);
        }
        common::fail(first);
    }
    assert!(updates as usize > count, "{updates}");
}
