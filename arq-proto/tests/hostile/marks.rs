// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Counts of ECN that no receiver has.

use arq_proto::{Config, CongestionConfig, EcnCounts, EcnState, Reliability};
use arq_sim::lane;
use bytes::Bytes;
use fastrand::Rng;

use super::client::Client;
use crate::common::{seeds, MS};

/// A client that sends, and whose server acknowledges with `counts`, made of how many packets left as ECT(0).
fn told(congestion: CongestionConfig, mut counts: impl FnMut(u64) -> EcnCounts) -> Client {
    let config = Config { congestion, ..Config::default() }.validate().unwrap();
    let mut client = Client::of_server(config, super::client::params());
    for _ in 0..60 {
        let message = Bytes::from_static(&[7; 20_000]);
        let _ = client.connection.send(client.now, lane(5, Reliability::Reliable), message);
        client.drive();
        client.now += 20 * MS;
        client.connection.handle_timeout(client.now);
        client.drive();
        client.counts = counts(client.marked);
        client.ack_all();
        assert!(client.error().is_none(), "{:?}", client.error());
    }
    client
}

const CONTROLLERS: [CongestionConfig; 3] =
    [CongestionConfig::Tolerant, CongestionConfig::Cubic, CongestionConfig::Aimd];

// ARQ-ECN-3, ARQ-ERR-3
#[test]
fn made_up_counts_end_nothing_but_ecn() {
    const MOST: u64 = (1 << 62) - 1;
    let ect0 = |ect0| EcnCounts { ect0, ..EcnCounts::NONE };
    for congestion in CONTROLLERS {
        for (name, counts) in [
            ("none", (|_| EcnCounts::NONE) as fn(u64) -> EcnCounts),
            ("more than was sent", |sent| EcnCounts { ect0: sent + 1, ect1: 0, ce: 0 }),
            ("more marks than packets", |sent| EcnCounts { ect0: sent, ect1: 0, ce: 1 }),
            ("the largest", |_| EcnCounts { ect0: MOST, ect1: MOST, ce: MOST }),
            ("of what was never sent", |sent| EcnCounts { ect0: sent, ect1: 1, ce: 0 }),
            ("too few", |sent| EcnCounts { ect0: sent / 2, ect1: 0, ce: 0 }),
            ("all marked", |sent| EcnCounts { ect0: 0, ect1: 0, ce: sent }),
        ] {
            let client = told(congestion, counts);
            let stats = client.connection.stats();
            assert_eq!((stats.ecn, stats.packets_marked), (EcnState::Failed, 0), "{name}");
            assert!(client.marked <= 64, "{name}: {} packets", client.marked);
        }
        let client = told(congestion, ect0);
        assert_eq!(client.connection.stats().ecn, EcnState::Capable);
        assert!(client.marked > 200, "{} packets", client.marked);
    }
}

// ARQ-CC-12
#[test]
fn who_claims_marks_gets_less_and_no_less_than_the_least_window() {
    for congestion in CONTROLLERS {
        // All but the first packet.
        let client =
            told(congestion, |sent| EcnCounts { ect0: 1, ect1: 0, ce: sent.saturating_sub(1) });
        let stats = client.connection.stats();
        assert_eq!(stats.ecn, EcnState::Capable);
        assert!(stats.packets_marked > 50, "{congestion:?}: {}", stats.packets_marked);
        assert!(
            (2_400..50_000).contains(&stats.window_bytes),
            "{congestion:?}: {}",
            stats.window_bytes
        );
    }
}

// ARQ-ERR-3
#[test]
fn no_counts_end_an_association() {
    for seed in seeds(60) {
        let mut rng = Rng::with_seed(seed);
        let congestion = CONTROLLERS[seed as usize % CONTROLLERS.len()];
        let client = told(congestion, |sent| {
            let mut count = || match rng.u8(..4) {
                0 => rng.u64(..1 << 62),
                1 => sent,
                2 => 0,
                _ => rng.u64(..=sent),
            };
            EcnCounts { ect0: count(), ect1: count() % 2, ce: count() }
        });
        let stats = client.connection.stats();
        assert!(
            stats.packets_marked <= client.marked && stats.window_bytes >= 2_400,
            "seed {seed}"
        );
    }
}
