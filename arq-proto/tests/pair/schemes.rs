// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Do the textbook schemes behave as the textbook says?

use std::time::Duration;

use arq_proto::{Config, CongestionConfig, Scheme};
use arq_sim::{Flow, Pair, Report, Scenario, WireConfig};

use crate::common::{lossy, run, run_seeds, MS, SEC};

const SCHEMES: [Scheme; 3] = [Scheme::StopAndWait, Scheme::GoBackN, Scheme::SelectiveRepeat];

fn transfer(scheme: Scheme, wire: WireConfig, seed: u64) -> Scenario {
    Scenario::new(seed)
        .wire(wire)
        .config(Config::default().scheme(scheme))
        .both_send([Flow::reliable(2, 10_000, 10), Flow::reliable(5, 100, 20)])
        .within(300 * SEC)
}

// ARQ-GBN-1
#[test]
fn all_deliver_under_loss_and_reordering() {
    for scheme in SCHEMES {
        run_seeds(10, |seed| transfer(scheme, lossy(0.25), seed));
        let shuffled = WireConfig {
            reorder: 0.5,
            hold_back: 20 * MS,
            duplicate: 1.0,
            ..WireConfig::with_delay(10 * MS)
        };
        run_seeds(10, |seed| transfer(scheme, shuffled.clone(), seed));
    }
}

#[test]
fn every_controller_delivers() {
    for congestion in [
        CongestionConfig::Constant { window_bytes: 20_000 },
        CongestionConfig::Aimd,
        CongestionConfig::Cubic,
        CongestionConfig::Tolerant,
    ] {
        let config = Config { congestion, ..Config::default() };
        run_seeds(10, |seed| {
            Scenario::new(seed)
                .wire(lossy(0.10))
                .config(config.clone())
                .both_send([Flow::reliable(2, 50_000, 20)])
        });
    }
}

// ARQ-CC-1, ARQ-GBN-1
#[test]
fn stop_and_wait_sends_one_packet_per_round_trip() {
    let wire = WireConfig::with_delay(10 * MS);
    let config = Config::default().scheme(Scheme::StopAndWait);
    let scenario =
        Scenario::new(0).wire(wire).config(config).client_sends([Flow::reliable(5, 60_000, 1)]);
    let report = run(&scenario);
    // At least 51 packets of at most 1,200 bytes, each answered before the next.
    assert!(report.transfer >= 50 * 20 * MS, "{:?}", report.transfer);
}

/// Nothing else may leave while a PING is under way: here its answer is waited for.
// ARQ-PTO-9
#[test]
fn a_lost_keep_alive_holds_stop_and_wait_no_longer_than_a_lost_chunk() {
    let wire = WireConfig::with_delay(MS);
    let black = WireConfig { blackouts: vec![Duration::ZERO..Duration::MAX], ..wire.clone() };
    let config = Config::default().scheme(Scheme::StopAndWait);
    let mut pair = Pair::new(&Scenario::new(1).wire(wire.clone()).config(config));
    pair.run_to_connected(SEC).unwrap();
    pair.world.run_for(SEC / 10).unwrap();
    let (client, server, id) = (pair.client, pair.server, pair.conn);
    pair.world.lay_wire(client, server, black);
    let asks = |pair: &Pair| pair.client_side().connection().stats().in_flight_bytes > 0;
    pair.run(10 * SEC, asks).unwrap();
    pair.world.lay_wire(client, server, wire);
    let flow = Flow::reliable(5, 100, 1);
    pair.world.with_conn(id, |clock, _, app| app.add_flow(clock.offset(), flow.clone()));
    pair.world.run_for(SEC).unwrap();
    let latencies = &pair.server_side().app.inbox(flow.lane).latencies;
    assert!(latencies[0] < 60 * MS, "{latencies:?}");
}

#[test]
fn each_scheme_is_faster_than_the_one_before_it() {
    let at = |scheme| -> (Duration, Report) {
        let flows = [Flow::reliable(5, 50_000, 10)];
        let scenario = Scenario::new(3)
            .wire(lossy(0.05))
            .config(Config::default().scheme(scheme))
            .client_sends(flows)
            .within(300 * SEC);
        let report = run(&scenario);
        (report.transfer, report)
    };
    let [(wait, _), (back, back_report), (selective, selective_report)] = SCHEMES.map(at);
    assert!(selective < back && back < wait, "{selective:?} {back:?} {wait:?}");
    let repeated = |report: &Report| report.client_stats.chunks_retransmitted;
    assert!(repeated(&selective_report) * 2 < repeated(&back_report), "go-back-N repeats more");
}

// ARQ-REP-4, ARQ-FEC-4
#[test]
fn a_peer_that_has_no_use_for_repair_symbols_gets_none() {
    for scheme in SCHEMES {
        let report = run(&transfer(scheme, lossy(0.25), 7));
        let coded = |sent| if scheme == Scheme::GoBackN { sent == 0 } else { sent > 0 };
        let [client, server] = [&report.client_stats, &report.server_stats];
        assert!(coded(client.repair_symbols_sent), "{scheme:?}: {client:?}");
        assert!(coded(server.repair_symbols_received), "{scheme:?}: {server:?}");
    }
    let report = run(&transfer(Scheme::SelectiveRepeat, lossy(0.25), 7));
    assert!(report.server_stats.chunks_recovered > 0, "{:?}", report.server_stats);
}
