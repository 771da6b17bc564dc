// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What do the controllers make of a bottleneck: how much of it do they use, how long is its queue,
//! and what do they leave to others?
//!
//! Each run is decided by its seed; figures in Mb/s are of messages delivered.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod goodput;
mod messages;
mod policed;
mod sharing;
mod traps;

use std::time::Duration;

use arq_proto::{Config, CongestionConfig, EndpointConfig};
use arq_sim::{AppPlan, Bottleneck, Flow, HostConfig, Loss, Shared, WireConfig, World};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const SEED: u64 = 1;
/// Where one run says little.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

/// A bottleneck at the end of a round trip.
#[derive(Debug, Clone, Copy)]
struct Path {
    mbps: u64,
    round_trip: Duration,
    /// What waits at most, in bandwidth-delay products; at least eight packets.
    queue: f64,
    loss: f32,
}

/// 100 Mb/s, 20 ms, a queue of one bandwidth-delay product.
const PATH: Path = Path { mbps: 100, round_trip: Duration::from_millis(20), queue: 1.0, loss: 0.0 };

impl Path {
    fn rate_bps(self) -> u64 {
        self.mbps * 1_000_000
    }

    fn up(self) -> WireConfig {
        let product = self.rate_bps() as f64 / 8.0 * self.round_trip.as_secs_f64();
        let queue_bytes = ((product * self.queue) as u32).max(9_600);
        WireConfig {
            bottleneck: Some(Bottleneck { rate_bps: self.rate_bps(), queue_bytes }),
            ..self.down()
        }
    }

    fn down(self) -> WireConfig {
        let loss = if self.loss > 0.0 { Loss::Random(self.loss) } else { Loss::None };
        WireConfig { loss, ..WireConfig::with_delay(self.round_trip / 2) }
    }

    fn shared(self) -> Shared {
        self.shared_by(SEED)
    }

    fn shared_by(self, seed: u64) -> Shared {
        Shared::new(seed, self.up(), self.down())
    }

    /// Deliverable without redundancy, in Mb/s.
    fn capacity(self) -> f64 {
        self.mbps as f64 * f64::from(1.0 - self.loss)
    }

    /// How long so many full datagrams take to leave the bottleneck.
    fn queue_time(self, datagrams: usize) -> Duration {
        Duration::from_secs_f64(datagrams as f64 * 1_200.0 * 8.0 / self.rate_bps() as f64)
    }
}

/// Median and worst of eight runs, where more is better: what one run says of a system that chance drives is luck.
fn of_eight(run: impl Fn(u64) -> f64) -> (f64, f64) {
    let mut runs: Vec<_> = (1..=8).map(run).collect();
    println!("seeds 1 to 8: {runs:.2?}");
    runs.sort_by(f64::total_cmp);
    ((runs[3] + runs[4]) / 2.0, runs[0])
}

fn config(congestion: CongestionConfig) -> Config {
    Config { congestion, ..Config::default() }
}

/// One lane with always something to send.
fn bulk() -> AppPlan {
    plan([Flow::reliable(5, 60_000, u64::MAX)])
}

fn plan(flows: impl IntoIterator<Item = Flow>) -> AppPlan {
    AppPlan { flows: flows.into_iter().collect(), ..AppPlan::default() }
}

/// The goodput of one bulk transfer over `measured`, after two seconds of start-up.
fn goodput_alone(shared: &mut Shared, congestion: CongestionConfig, measured: Duration) -> f64 {
    shared.join(config(congestion), bulk());
    shared.world.run_for(2 * SECOND).unwrap();
    shared.goodput(measured).unwrap()[0]
}
