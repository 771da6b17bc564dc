// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How does a connection do in its first two seconds, when it knows nothing of the path yet?
//!
//! The cells of the bench's drop-rate scenario: 100 messages, 50 a second, from the first one on, with
//! every byte counted that the bench counts. Hosts read together what arrives together, as the driver
//! does: one acknowledgement for a whole message, which may be lost.

use std::{fmt::Write as _, time::Duration};

use arq_proto::{Reliability, Stats};

use crate::{lane, parallel, Flow, Halt, Loss, Pair, Scenario, WireConfig};

const DELAYS: [Duration; 2] = [Duration::from_micros(500), Duration::from_millis(10)];
/// 10 KB, and 100 KB as zenoh cuts them.
const SIZES: [&[usize]; 2] = [&[10_000], &[65_535, 34_465]];
const LOSSES_PERCENT: [u8; 5] = [0, 1, 5, 10, 25];
const MESSAGES: u64 = 100;
const INTERVAL: Duration = Duration::from_millis(20);
const SEEDS: u64 = 20;
const LIMIT: Duration = Duration::from_secs(3_600);
/// Of IPv4 and UDP.
const HEADER_BYTES: u64 = 28;

#[derive(Debug, Clone, Copy)]
struct Cell {
    sizes: &'static [usize],
    delay: Duration,
    loss_percent: u8,
}

/// What one run gave.
struct Run {
    latencies: Vec<Duration>,
    wire_bytes: u64,
    message_bytes: u64,
}

impl Cell {
    fn all() -> Vec<Self> {
        let cells = SIZES.into_iter().flat_map(|sizes| {
            DELAYS.into_iter().flat_map(move |delay| {
                LOSSES_PERCENT.map(|loss_percent| Self { sizes, delay, loss_percent })
            })
        });
        cells.collect()
    }

    fn run(self, seed: u64) -> Result<Run, Halt> {
        let loss = match self.loss_percent {
            0 => Loss::None,
            percent => Loss::Random(f32::from(percent) / 100.0),
        };
        let wire = WireConfig { loss, ..WireConfig::with_delay(self.delay) };
        let flows = self.sizes.iter().map(|&n| Flow::reliable(5, n, MESSAGES).every(INTERVAL));
        let scenario = Scenario { reads_together: true, ..Scenario::new(seed).wire(wire) };
        let mut pair = Pair::new(&scenario.client_sends(flows.collect::<Vec<_>>()));
        pair.run_to_connected(LIMIT)?;
        pair.run_to_delivery(LIMIT)?;
        let inbox = pair.server_side().app.inbox(lane(5, Reliability::Reliable));
        let whole = inbox.latencies.chunks(self.sizes.len());
        let latencies = whole.filter_map(|parts| parts.iter().max().copied()).collect();
        let wire = |stats: Stats| stats.bytes_sent + HEADER_BYTES * stats.packets_sent;
        let (client, server) = (pair.client_side().connection(), pair.server_side().connection());
        let wire_bytes = wire(client.stats()) + wire(server.stats());
        Ok(Run { latencies, wire_bytes, message_bytes: inbox.bytes })
    }

    fn row(self) -> String {
        let bytes: usize = self.sizes.iter().sum();
        let rtt = self.delay.as_secs_f64() * 2e3;
        let row = format!("| {} | {rtt} | {} |", bytes / 1_000, self.loss_percent);
        let runs: Result<Vec<Run>, Halt> = (1..=SEEDS).map(|seed| self.run(seed)).collect();
        let mut runs = match runs {
            Ok(runs) => runs,
            Err(halt) => return format!("{row} {halt}"),
        };
        let wire: u64 = runs.iter().map(|run| run.wire_bytes).sum();
        let messages: u64 = runs.iter().map(|run| run.message_bytes).sum();
        let of_runs = runs.iter_mut().map(|run| quantile(&mut run.latencies, 0.99));
        let mut of_runs: Vec<_> = of_runs.collect();
        let mut all: Vec<_> = runs.into_iter().flat_map(|run| run.latencies).collect();
        let [p50, p99] = [0.5, 0.99].map(|q| quantile(&mut all, q));
        let [usual, worst] = [0.5, 1.0].map(|q| quantile(&mut of_runs, q));
        let times = [p50, p99, usual, worst].map(|t| format!("{:.1}", t.as_secs_f64() * 1e3));
        let sent = wire as f64 / messages as f64;
        format!("{row} {} | {sent:.3} |", times.join(" | "))
    }
}

/// Sorts, and picks the time that this share does not exceed.
fn quantile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    let rank = times.len().saturating_sub(1) as f64 * share;
    times.get(rank as usize).copied().unwrap_or_default()
}

/// The whole table, in Markdown.
#[must_use]
pub fn render() -> String {
    let cells = Cell::all();
    let mut out = format!(
        "# The first two seconds, simulated\n\n\
         The bench's drop-rate scenario with default knobs: {MESSAGES} messages of 10 or 100 KB, one \
         every {} ms from the start, loss in both directions, no bottleneck, {SEEDS} seeds. Hosts read \
         together what arrives together. p50 and p99 of all messages, then p99 of the single runs: the \
         median and the largest; ms. `sent` is bytes on the wire, both directions, IP and UDP headers \
         included, per byte of message.\n\n\
         Written by `ARQ_UPDATE_SNAPSHOTS=1 cargo test -p arq-sim --test repair`.\n\n\
         | KB | RTT, ms | loss, % | p50 | p99 | p99 of a run | at worst | sent |\n\
         |---|---|---|---|---|---|---|---|\n",
        INTERVAL.as_millis(),
    );
    for row in parallel::map(&cells, |cell| cell.row()) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{row}");
    }
    out
}
