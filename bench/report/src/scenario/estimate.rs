// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How long will a scenario take, about?

use std::time::Duration;

use netlab::wire::Conditions;

use super::flow::{Flow, Pattern};
use super::network::loses;
use super::Scenario;

/// Starting two processes, opening the session, collecting what came, seconds.
const AROUND_EACH_RUN_S: f64 = 1.5;
/// The share of its grace that a run uses where packets are lost: some links are done early, some never.
const GRACE_USED: f64 = 0.25;
/// What a message of a ping-pong or a session to open takes beside its round trips, seconds.
const BESIDE_ROUND_TRIPS_S: f64 = 0.001;
/// From nothing to the first message over a link that opens with several handshakes.
const ROUND_TRIPS_TO_OPEN: f64 = 6.0;
/// What a link moves where nothing limits it, Mb/s.
const UNLIMITED_MBPS: f64 = 300.0;

impl Scenario {
    /// How long all of it takes, within a factor of two or so: it depends on how many links fail to deliver in time.
    pub fn estimated_duration(&self) -> Duration {
        let seconds = |network: &Conditions, flows: &[Flow]| {
            let traffic = flows.iter().map(|flow| flow.start_s + flow.estimated_s(network));
            let grace = if loses(network) { GRACE_USED * self.grace.as_secs_f64() } else { 0.0 };
            AROUND_EACH_RUN_S + traffic.fold(0.0, f64::max) + grace
        };
        let once: f64 =
            self.grounds.iter().map(|ground| seconds(&ground.network, &ground.flows)).sum();
        let all = once * self.links.len() as f64 * f64::from(self.repeats);
        Duration::try_from_secs_f64(all).unwrap_or(Duration::MAX)
    }
}

impl Flow {
    fn estimated_s(&self, network: &Conditions) -> f64 {
        let round_trip_s = (network.forward.delay_ms + network.backward.delay_ms) / 1000.0;
        match self.pattern {
            Pattern::Periodic { rate_hz, messages } => messages as f64 / rate_hz,
            Pattern::Flood { seconds } => seconds,
            Pattern::Transfer { messages } => {
                let bits = messages as f64 * self.payload_bytes as f64 * 8.0;
                bits / (network.forward.rate_mbps.unwrap_or(UNLIMITED_MBPS) * 1e6) + round_trip_s
            }
            Pattern::PingPong { messages } => {
                messages as f64 * (round_trip_s + BESIDE_ROUND_TRIPS_S)
            }
            Pattern::Opening { messages } => {
                messages as f64 * (ROUND_TRIPS_TO_OPEN * round_trip_s + BESIDE_ROUND_TRIPS_S)
            }
        }
    }
}
