// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A policer that passes far less than is offered: how much does a sender waste on it?

use arq_proto::{FecConfig, PathEvent, Reliability};
use arq_sim::{lane, DropPublisher, Pair, Policer, Scenario};

use super::*;

const TURN: Duration = Duration::from_millis(1);

/// No two runs have quite the same one.
fn policer(seed: u64) -> Policer {
    Policer { rate_bps: 235_000 + 5_000 * seed, burst_bytes: 5_600 + 140 * seed as u32 }
}
const MEASURED: Duration = Duration::from_secs(20);

/// What is offered.
#[derive(Debug, Clone, Copy)]
enum Offer {
    /// Publications of 10 KB, so many a second, which are dropped rather than wait.
    Images(u32),
    /// The same, beside 1 KB at 20 Hz.
    ImagesAndCommands(u32),
    /// Always something.
    Bulk,
}

impl Offer {
    fn publishers(self) -> Vec<DropPublisher> {
        let images = |hertz| {
            DropPublisher::new(lane(6, Reliability::Reliable), 10_000, SECOND / hertz, usize::MAX)
        };
        match self {
            Self::Bulk => Vec::new(),
            Self::Images(hertz) => vec![images(hertz)],
            Self::ImagesAndCommands(hertz) => {
                let commands = lane(1, Reliability::Reliable);
                vec![images(hertz), DropPublisher::new(commands, 1_000, 50 * MS, usize::MAX)]
            }
        }
    }
}

/// Bytes sent for each that arrived, and the share of the policer's rate that was of use.
fn waste(seed: u64, offer: Offer, config: Config) -> (f64, f64) {
    let policer = policer(seed);
    let up = WireConfig { policer: Some(policer), ..WireConfig::with_delay(40 * MS) };
    let scenario = Scenario::new(seed).config(config);
    let scenario = Scenario { up, down: WireConfig::with_delay(40 * MS), segments: 54, ..scenario };
    let mut pair = Pair::new(&scenario);
    pair.world.stop_log();
    pair.run_to_connected(10 * SECOND).unwrap();
    let conn = pair.conn;
    if let Offer::Bulk = offer {
        let flow = Flow::reliable(5, 10_000, u64::MAX);
        pair.world.with_conn(conn, |clock, _, app| app.add_flow(clock.offset(), flow));
    }
    let mut publishers = offer.publishers();
    let end = pair.world.now() + MEASURED;
    while pair.world.now() < end {
        publishers.iter_mut().for_each(|publisher| publisher.turn(&mut pair.world, conn));
        pair.world.run_for(TURN).unwrap();
    }
    let server = pair.server_side();
    let arrived = server.app.bytes_read();
    let passes = policer.rate_bps as f64 / 8.0 * MEASURED.as_secs_f64();
    let client = pair.client_side();
    let stats = client.connection().stats();
    let told = client.path_events.iter().filter(|(.., event)| is_limit(event)).count();
    assert_eq!(told as u64, stats.breaker_openings, "seed {seed}");
    let sent = stats.bytes_sent;
    (sent as f64 / arrived as f64, arrived as f64 / passes)
}

fn is_limit(event: &PathEvent) -> bool {
    matches!(event, PathEvent::Limited { .. })
}

// ARQ-CC-13
#[test]
fn a_policer_far_below_what_is_offered_is_not_fed() {
    let mut failed = Vec::new();
    for congestion in [CongestionConfig::Tolerant, CongestionConfig::Cubic, CongestionConfig::Aimd]
    {
        for fec in [FecConfig::Off, FecConfig::Auto] {
            for offer in
                [Offer::Images(4), Offer::Images(5), Offer::ImagesAndCommands(5), Offer::Bulk]
            {
                let config = Config { fec, ..config(congestion) };
                let runs: Vec<_> = SEEDS.map(|seed| waste(seed, offer, config.clone())).collect();
                let case = format!("{congestion:?}, {fec:?}, {offer:?}");
                println!("{case}: {runs:.2?}");
                if runs.iter().any(|&(bytes, share)| bytes > 1.6 || share < 0.8) {
                    failed.push(case);
                }
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
