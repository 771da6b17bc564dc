// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How late are messages in the cases for which there are models? Prints a row of CSV for each:
//! what `docs/model_vs_reality.py` puts beside the models and the bench.
//!
//! `cargo run --release -p arq-sim --example model_cases -- [messages per case] [seed]`

use std::time::Duration;

use arq_proto::{Config, FecConfig, Reliability};
use arq_sim::{lane, Flow, Halt, Loss, Pair, Scenario, WireConfig};

const MS: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(100_000);
/// Before these, the estimates are still being made.
const WARM_UP: usize = 200;
/// A single packet, the small and the large publication of the bench; the last is two messages.
const SIZES: [&[usize]; 3] = [&[300], &[10_000], &[65_447, 34_553]];
const DELAYS: [Duration; 2] = [Duration::from_micros(500), Duration::from_millis(10)];
const PERCENT_LOST: [u8; 3] = [5, 10, 25];
const FEC: [(&str, FecConfig); 4] = [
    ("off", FecConfig::Off),
    ("auto", FecConfig::Auto),
    ("20", FecConfig::Percent(20)),
    ("40", FecConfig::Percent(40)),
];

/// Messages with pauses, in which everything about the one before is settled.
fn row(
    (name, fec): (&str, FecConfig),
    sizes: &[usize],
    delay: Duration,
    percent: u8,
    messages: u64,
    seed: u64,
) -> Result<String, Halt> {
    let loss = Loss::Random(f32::from(percent) / 100.0);
    let wire = WireConfig { loss, ..WireConfig::with_delay(delay) };
    let interval = (50 * delay).max(50 * MS);
    let flows: Vec<_> =
        sizes.iter().map(|&n| Flow::reliable(5, n, messages).every(interval)).collect();
    let scenario = Scenario::new(seed)
        .wire(wire)
        .config(Config { fec, ..Config::default() })
        .client_sends(flows);
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(LIMIT)?;
    pair.run_to_delivery(LIMIT)?;
    let inbox = pair.server_side().app.inbox(lane(5, Reliability::Reliable));
    let whole = inbox.latencies.chunks(sizes.len()).skip(WARM_UP);
    let mut latencies: Vec<_> = whole.filter_map(|parts| parts.iter().max().copied()).collect();
    latencies.sort_unstable();
    // In round trips, as the models count.
    let rtt = |at: f64| {
        let rank = ((latencies.len() as f64 * at).ceil() as usize).clamp(1, latencies.len());
        latencies[rank - 1].as_secs_f64() / delay.as_secs_f64() / 2.0
    };
    let first_round = latencies.iter().filter(|&&latency| latency < 2 * delay).count();
    let stats = pair.client_side().connection().stats();
    Ok(format!(
        "{name},{},{},{percent},{:.3},{:.3},{:.3},{:.4},{:.3}",
        sizes.iter().sum::<usize>(),
        delay.as_secs_f64() * 1e3,
        rtt(0.5),
        rtt(0.99),
        rtt(0.999),
        first_round as f64 / latencies.len() as f64,
        stats.bytes_sent as f64 / inbox.bytes as f64,
    ))
}

fn main() -> Result<(), Halt> {
    let mut numbers = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let mut next = |default| numbers.next().map_or(default, |n| n.unwrap_or(default));
    let (messages, seed) = (next(4_000).max(WARM_UP as u64 + 1), next(1));
    println!("fec,bytes,delay_ms,drop_percent,p50_rtt,p99_rtt,p99.9_rtt,first_round,sent");
    for fec in FEC {
        for sizes in SIZES {
            for delay in DELAYS {
                for percent in PERCENT_LOST {
                    println!("{}", row(fec, sizes, delay, percent, messages, seed)?);
                }
            }
        }
    }
    Ok(())
}
