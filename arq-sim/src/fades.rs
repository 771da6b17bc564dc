// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How soon behind a fade of the radio do the commands arrive that were due in it, and for how many bytes?
//!
//! The bound sends each command at once, or at the end of the fade that it is due in: nothing over one radio is earlier.
//! Who does not know the fades hears of one a round trip after it began, and has packets to send each 20 ms.

use std::{fmt::Write as _, time::Duration};

use arq_proto::Reliability;
use impairments::Fades;

use crate::{lane, parallel, FadeConfig, Flow, Halt, Pair, Scenario, WireConfig};

const MS: Duration = Duration::from_millis(1);
/// The flow and the radio of the bench's scenario `fades`.
const MEANS_MS: [u32; 5] = [20, 37, 50, 100, 200];
const SHARE: f64 = 0.05;
const DELAY: Duration = Duration::from_millis(30);
const PRIORITY: u8 = 1;
const BYTES: usize = 200;
const INTERVAL: Duration = Duration::from_millis(20);
const MESSAGES: u64 = 1_500;
const SEEDS: u64 = 20;
/// Of IPv4 and UDP.
const HEADER_BYTES: u64 = 28;
const LIMIT: Duration = Duration::from_secs(3_600);

/// How a run went: 99th percentiles, and bytes on the wire per byte of message.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    latency: Duration,
    bound: Duration,
    bytes: f64,
}

impl Outcome {
    fn ratio(&self) -> f64 {
        self.latency.as_secs_f64() / self.bound.as_secs_f64()
    }
}

/// Fades of the mean length `mean`, the same in both directions.
fn run(mean: Duration, seed: u64) -> Result<Outcome, Halt> {
    let fades = FadeConfig { share: SHARE, mean, is_regular: false, lost: 1.0, seed };
    let wire = WireConfig { fades: Some(fades), ..WireConfig::with_delay(DELAY) };
    let flow = Flow::reliable(PRIORITY, BYTES, MESSAGES).every(INTERVAL);
    let scenario = Scenario::new(seed).wire(wire).client_sends([flow]);
    let mut pair = Pair::new(&Scenario { timer_lateness: MS / 5, ..scenario });
    pair.run_to_connected(LIMIT)?;
    pair.run_to_delivery(LIMIT)?;
    let (client, server) = (pair.client_side(), pair.server_side());
    let inbox = server.app.inbox(lane(PRIORITY, Reliability::Reliable));
    let began = client.connected_at.unwrap_or_default();
    let mut spells = Fades::new(fades, 0);
    let bounds = (0..inbox.latencies.len() as u32).map(|number| {
        let due = began + number * INTERVAL;
        DELAY + spells.at(due).map_or(Duration::ZERO, |fade| fade.end - due)
    });
    let all_bytes = |stats: arq_proto::Stats| stats.bytes_sent + HEADER_BYTES * stats.packets_sent;
    let sent = all_bytes(client.connection().stats()) + all_bytes(server.connection().stats());
    Ok(Outcome {
        latency: percentile_99(inbox.latencies.clone()),
        bound: percentile_99(bounds.collect()),
        bytes: sent as f64 / inbox.bytes as f64,
    })
}

fn percentile_99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let rank = (times.len() * 99).div_ceil(100);
    times.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

fn row(mean_ms: u32) -> String {
    let runs: Result<Vec<_>, Halt> = (1..=SEEDS).map(|seed| run(mean_ms * MS, seed)).collect();
    let mut runs = match runs {
        Ok(runs) => runs,
        Err(halt) => return format!("| {mean_ms} | {halt} |"),
    };
    runs.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    let mean = |of: &dyn Fn(&Outcome) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
    let [median, worst] = [runs.len() / 2, runs.len() - 1].map(|index| runs[index].ratio());
    let p99 = mean(&|run| run.latency.as_secs_f64() * 1e3);
    let bound = mean(&|run| run.bound.as_secs_f64() * 1e3);
    let sent = mean(&|run| run.bytes);
    format!("| {mean_ms} | {p99:.0} | {bound:.0} | {median:.2} | {worst:.2} | {sent:.2} |")
}

/// The table, in Markdown.
#[must_use]
pub fn render() -> String {
    let mut out = format!(
        "# Fades by the clock, simulated\n\n\
         Commands of {BYTES} bytes every {} ms, {} ms one way, no bottleneck. For {:.0} % of the time, in spells of \
         exponential length with this mean, all is lost, both ways. {MESSAGES} messages, {SEEDS} seeds. `bound` sends each \
         command at once, or at the end of the fade that it is due in. p99 of a run and its bound, ms, on the mean; p99 \
         beside the bound of the run, median and worst. `sent` is bytes on the wire, both directions, IP and UDP headers \
         included, per byte of message.\n\n\
         Written by `ARQ_UPDATE_SNAPSHOTS=1 cargo test -p arq-sim --test repair`.\n\n\
         | fades, ms | p99 | bound | p99 / bound | at worst | sent |\n\
         |---|---|---|---|---|---|\n",
        INTERVAL.as_millis(),
        DELAY.as_millis(),
        SHARE * 100.0,
    );
    for row in parallel::map(&MEANS_MS, |&mean_ms| row(mean_ms)) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{row}");
    }
    out
}
