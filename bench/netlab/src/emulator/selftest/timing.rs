// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Do packets come when they should, as fast as they may, and as often and in the order that was asked for?

use std::time::Duration;

use super::probe::{Arrival, Load, Pace, Probe};
use super::row::{Near, Row};
use crate::emulator::{EmulatorError, Network};
use crate::wire::{Conditions, Policer, Wire, WireCount};

const LEN_BYTES: u16 = 1_400;

/// Delay, jitter, rate and queue, policer, duplication, reordering.
pub(super) fn rows(
    network: &mut Network,
    packets: u32,
    seed: u64,
) -> Result<Vec<Row>, EmulatorError> {
    let mut bench = Bench { network, seed, packets };
    let mut rows = bench.delay()?;
    rows.extend(bench.rate(10.0)?);
    rows.extend(bench.rate(100.0)?);
    rows.push(bench.policer()?);
    rows.extend(bench.copies_and_order()?);
    Ok(rows)
}

struct Bench<'a> {
    network: &'a mut Network,
    seed: u64,
    packets: u32,
}

/// What became of a load.
struct Run {
    arrivals: Vec<Arrival>,
    count: WireCount,
    /// What reached the receiving host and found our own socket full, because we were not scheduled in time.
    overflows: u64,
}

impl Run {
    /// Sorted, milliseconds.
    fn latencies(&self) -> Vec<f64> {
        let mut latencies: Vec<_> = self.arrivals.iter().map(Arrival::latency_ms).collect();
        latencies.sort_by(f64::total_cmp);
        latencies
    }

    /// IP bytes that reached the receiving host, from the first to the last.
    fn throughput_mbps(&self) -> f64 {
        let (Some(first), Some(last)) = (self.arrivals.first(), self.arrivals.last()) else {
            return 0.0;
        };
        let seconds = last.arrived.as_secs_f64() - first.arrived.as_secs_f64();
        (self.reached_host() - 1) as f64 * f64::from(LEN_BYTES) * 8.0 / seconds / 1e6
    }

    fn reached_host(&self) -> u64 {
        self.arrivals.len() as u64 + self.overflows
    }
}

impl Bench<'_> {
    fn run(&mut self, wire: Wire, load: Load) -> Result<Run, EmulatorError> {
        let asked = Conditions { forward: wire, ..Conditions::default() };
        self.network.begin(&asked, self.seed)?;
        let before = self.network.host(1).udp_overflows();
        let arrivals = Probe::new(self.network, 0, 1)?.run(load)?;
        let overflows = self.network.host(1).udp_overflows() - before;
        Ok(Run { arrivals, count: self.network.counts(0, 1)?, overflows })
    }

    /// Latencies of packets one millisecond apart, sorted, milliseconds.
    fn latencies(&mut self, delay_ms: f64, jitter_ms: f64) -> Result<Vec<f64>, EmulatorError> {
        let wire = Wire { delay_ms, jitter_ms, ..Wire::default() };
        let load = Load {
            packets: (self.packets / 20).max(500),
            len_bytes: LEN_BYTES,
            pace: Pace::Every(Duration::from_millis(1)),
            burst: 1,
            patience: Duration::from_millis(300),
        };
        Ok(self.run(wire, load)?.latencies())
    }

    fn delay(&mut self) -> Result<Vec<Row>, EmulatorError> {
        let clean = self.latencies(0.0, 0.0)?;
        let mut rows = Vec::new();
        for asked in [0.5, 10.0, 50.0] {
            let delayed = self.latencies(asked, 0.0)?;
            for (name, percent, allowed) in [("p50", 50.0, 0.3), ("p99", 99.0, 1.0)] {
                let measured = percentile(&delayed, percent) - percentile(&clean, percent);
                let name = format!("added delay, {name}");
                rows.push(Row::near(name, "ms", Near { asked, measured, allowed }));
            }
        }
        let jittered = self.latencies(50.0, 10.0)?;
        // Three deviations of the estimate.
        let allowed = 3.0 * 10.0 / (2.0 * jittered.len() as f64).sqrt();
        let near = Near { asked: 10.0, measured: deviation(&jittered), allowed };
        rows.push(Row::near("jitter, standard deviation at 50 ms", "ms", near));
        Ok(rows)
    }

    /// Twice what the bottleneck takes, for two seconds: its queue stays full even if the sender has to pause.
    fn rate(&mut self, rate_mbps: f64) -> Result<Vec<Row>, EmulatorError> {
        // 40 ms of waiting.
        let queue_bytes = (rate_mbps * 1e6 / 8.0 * 0.040) as u32;
        let wire = Wire { rate_mbps: Some(rate_mbps), queue_bytes, ..Wire::default() };
        let run = self.run(wire, overload(rate_mbps * 2.0))?;
        let name = |what| format!("{what}, bottleneck of {rate_mbps} Mb/s");
        let near =
            Near { asked: rate_mbps, measured: run.throughput_mbps(), allowed: rate_mbps / 100.0 };
        // What waits, what is in service, and the packet itself.
        let waiting = f64::from(queue_bytes / u32::from(LEN_BYTES)) + 1.0;
        let full = waiting * f64::from(LEN_BYTES) * 8.0 / rate_mbps / 1e3;
        let queue =
            Near { asked: round(full), measured: percentile(&run.latencies(), 50.0), allowed: 2.0 };
        let left = run.count.entered_packets - run.count.queue_full;
        Ok(vec![
            Row::near(name("rate"), "Mb/s", near),
            Row::near(name("wait in the full queue"), "ms", queue),
            Row::exact(name("arrived of those that its queue took"), left, run.reached_host()),
        ])
    }

    fn policer(&mut self) -> Result<Row, EmulatorError> {
        let policer = Policer { rate_mbps: 8.0, burst_bytes: 20_000 };
        let wire = Wire { policer: Some(policer), ..Wire::default() };
        let load = overload(16.0);
        let Pace::Every(gap) = load.pace else { return Ok(Row::skipped("policer", "no pace")) };
        let arrived = self.run(wire, load)?.reached_host();
        let seconds = (gap * load.packets).as_secs_f64();
        let asked = (seconds * 8e6 / 8.0 + 20_000.0) / f64::from(LEN_BYTES);
        let near = Near { asked: asked.round(), measured: arrived as f64, allowed: asked / 100.0 };
        Ok(Row::near("let through by a policer of 8 Mb/s, 20 kB", "packets", near))
    }

    fn copies_and_order(&mut self) -> Result<Vec<Row>, EmulatorError> {
        let wire = Wire {
            duplicate_percent: 10.0,
            reorder_percent: 5.0,
            reorder_hold_ms: 5.0,
            ..Wire::default()
        };
        let packets = self.packets / 2;
        let load = Load {
            packets,
            len_bytes: 100,
            pace: Pace::ReceiverTakes,
            burst: 1,
            patience: Duration::from_millis(300),
        };
        let run = self.run(wire, load)?;
        let percent = |n: usize| n as f64 / f64::from(packets) * 100.0;
        let copies = run.arrivals.len() - distinct(&run.arrivals);
        // Three deviations of the estimate.
        let allowed = |share: f64| 300.0 * (share * (1.0 - share) / f64::from(packets)).sqrt();
        let duplicated =
            Near { asked: 10.0, measured: percent(copies), allowed: allowed(0.10).max(0.3) };
        let overtaken = Near {
            asked: 5.0,
            measured: percent(overtaken(&run.arrivals)),
            allowed: allowed(0.05).max(0.3),
        };
        Ok(vec![
            Row::near("duplicated", "%", duplicated),
            Row::near("held back and overtaken", "%", overtaken),
            Row::exact("arrived of those that left", run.count.left_packets, run.reached_host()),
        ])
    }
}

/// Two seconds of packets at this rate.
fn overload(mbps: f64) -> Load {
    let gap = Duration::from_secs_f64(f64::from(LEN_BYTES) * 8.0 / mbps / 1e6);
    Load {
        packets: (2.0 / gap.as_secs_f64()) as u32,
        len_bytes: LEN_BYTES,
        pace: Pace::Every(gap),
        burst: 1,
        patience: Duration::from_millis(300),
    }
}

fn distinct(arrivals: &[Arrival]) -> usize {
    arrivals.iter().map(|arrival| arrival.number).collect::<std::collections::BTreeSet<_>>().len()
}

/// Packets that came after one with a higher number, each once.
fn overtaken(arrivals: &[Arrival]) -> usize {
    let mut newest = 0;
    let late = arrivals.iter().filter(|arrival| {
        newest = newest.max(arrival.number);
        arrival.number < newest
    });
    late.map(|arrival| arrival.number).collect::<std::collections::BTreeSet<_>>().len()
}

/// The nearest rank of sorted values; not a number when there are none.
fn percentile(sorted: &[f64], percent: f64) -> f64 {
    // The product can exceed a whole number by a rounding error, which must not become a rank.
    let rank = (sorted.len() as f64 * percent / 100.0 - 1e-9).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

fn round(ms: f64) -> f64 {
    (ms * 10.0).round() / 10.0
}
