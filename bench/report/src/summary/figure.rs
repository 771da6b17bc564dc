// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which figures are compared, in which unit, and what is better?

use serde::{Deserialize, Serialize};

use crate::record::nearest_rank;
use crate::record::{FlowResult, Measurement};
use crate::scenario::flow::Pattern;

/// A figure of a flow or of a whole cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Messages delivered, per cent of those offered.
    Share,
    /// Mean latency of what was delivered.
    Mean,
    /// Standard deviation of the latency of what was delivered.
    Deviation,
    /// The smallest latency.
    Min,
    /// Median latency of all messages.
    P50,
    /// The latency that nine of ten do not exceed.
    P90,
    /// The latency that 99 of 100 do not exceed.
    P99,
    /// The latency that 999 of 1,000 do not exceed.
    P99_9,
    /// The largest latency.
    Max,
    /// The longest time without any arrival.
    Silence,
    /// The time between two arrivals that 99 of 100 do not exceed.
    GapP99,
    /// Payload delivered per second: of a flood at least over the time that it was meant to last, of a transfer only
    /// if all was there.
    Goodput,
    /// How long a transfer took until all was there.
    Duration,
    /// Bytes of IP packets in both directions per byte of payload delivered.
    WireBytes,
    /// IP packets that the publisher's host sent per message delivered: what a radio charges for beside the bytes.
    WirePackets,
    /// CPU time of both processes per 10^9 bytes of payload delivered.
    CpuPerGb,
    /// The same of the whole machine, with the emulator and the kernel.
    MachineCpuPerGb,
    /// Resident memory of the larger process at its peak.
    PeakMemory,
    /// Packets or segments that were sent again.
    Retransmissions,
    /// Bytes sent over several paths that were copies of what arrived anyway.
    Needless,
}

/// Of all latencies: what the emulator and the clocks of two processes add, now to one link and now to the other.
pub(crate) const LATENCY_NOISE_MS: f64 = 0.05;

impl Figure {
    /// All, in the order of tables.
    pub const ALL: [Self; 20] = [
        Self::Share,
        Self::Mean,
        Self::Deviation,
        Self::Min,
        Self::P50,
        Self::P90,
        Self::P99,
        Self::P99_9,
        Self::Max,
        Self::Silence,
        Self::GapP99,
        Self::Goodput,
        Self::Duration,
        Self::WireBytes,
        Self::WirePackets,
        Self::CpuPerGb,
        Self::MachineCpuPerGb,
        Self::PeakMemory,
        Self::Retransmissions,
        Self::Needless,
    ];

    /// As results and the command line write it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Mean => "mean",
            Self::Deviation => "deviation",
            Self::Min => "min",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P99_9 => "p99_9",
            Self::Max => "max",
            Self::Silence => "silence",
            Self::GapP99 => "gap_p99",
            Self::Goodput => "goodput",
            Self::Duration => "duration",
            Self::WireBytes => "wire_bytes",
            Self::WirePackets => "wire_packets",
            Self::CpuPerGb => "cpu_per_gb",
            Self::MachineCpuPerGb => "machine_cpu_per_gb",
            Self::PeakMemory => "peak_memory",
            Self::Retransmissions => "retransmissions",
            Self::Needless => "needless",
        }
    }

    /// How tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Share => "delivered",
            Self::Mean => "mean",
            Self::Deviation => "deviation",
            Self::Min => "min",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P99_9 => "p99.9",
            Self::Max => "max",
            Self::Silence => "longest silence",
            Self::GapP99 => "p99 gap",
            Self::Goodput => "goodput",
            Self::Duration => "duration",
            Self::WireBytes => "wire bytes per byte",
            Self::WirePackets => "packets per message",
            Self::CpuPerGb => "CPU per GB",
            Self::MachineCpuPerGb => "machine's CPU per GB",
            Self::PeakMemory => "peak memory",
            Self::Retransmissions => "retransmissions",
            Self::Needless => "needless copies",
        }
    }

    /// The unit; empty for counts and ratios.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Share | Self::Needless => "%",
            Self::Goodput => "Mb/s",
            Self::Duration | Self::CpuPerGb | Self::MachineCpuPerGb => "s",
            Self::PeakMemory => "MiB",
            Self::WireBytes | Self::WirePackets | Self::Retransmissions => "",
            Self::Mean
            | Self::Deviation
            | Self::Min
            | Self::P50
            | Self::P90
            | Self::P99
            | Self::P99_9
            | Self::Max
            | Self::Silence
            | Self::GapP99 => "ms",
        }
    }

    /// Whether it is of the delivered messages only, and so favours who loses what is late.
    pub fn is_of_delivered_only(self) -> bool {
        matches!(self, Self::Mean | Self::Deviation | Self::Min)
    }

    /// Whether more of it is better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::Share | Self::Goodput)
    }

    /// Whether it grows with the messages of a run.
    pub fn is_total(self) -> bool {
        matches!(self, Self::Duration | Self::Retransmissions)
    }

    /// A difference below this is the machine's, not the link's, in the figure's unit.
    pub fn noise(self) -> f64 {
        match self {
            // A megabyte is what an allocator keeps or gives back as it likes.
            Self::PeakMemory => 1.0,
            Self::Share
            | Self::Goodput
            | Self::Duration
            | Self::WireBytes
            | Self::WirePackets
            | Self::CpuPerGb
            | Self::MachineCpuPerGb
            | Self::Retransmissions
            | Self::Needless => 0.0,
            Self::Mean
            | Self::Deviation
            | Self::Min
            | Self::P50
            | Self::P90
            | Self::P99
            | Self::P99_9
            | Self::Max
            | Self::Silence
            | Self::GapP99 => LATENCY_NOISE_MS,
        }
    }

    /// Which rank it is, per cent; `None` of what is no rank, and of the median.
    fn rank_percent(self) -> Option<f64> {
        match self {
            Self::P90 => Some(90.0),
            Self::P99 | Self::GapP99 => Some(99.0),
            Self::P99_9 => Some(99.9),
            _ => None,
        }
    }

    /// Whether the run has too few messages for this rank: it is their greatest under another name.
    pub(super) fn is_too_high_for(self, result: &FlowResult) -> bool {
        let ranked = match self {
            // Gaps between all that were offered: who lost some is not to be spared for it.
            Self::GapP99 => result.offered.saturating_sub(1),
            _ => result.offered,
        };
        self.rank_percent().is_some_and(|percent| ranked < least_messages(percent))
    }

    /// What a flow did in one run; infinite if that rank, or part of a transfer, was lost. `None` where the pattern
    /// gives the figure no meaning.
    pub(super) fn of_flow(self, result: &FlowResult) -> Option<f64> {
        let percentiles = &result.percentiles;
        let lost = f64::INFINITY;
        let is_timed = matches!(
            result.flow.pattern,
            Pattern::Periodic { .. } | Pattern::PingPong { .. } | Pattern::Opening { .. }
        );
        let latency = |value: Option<f64>| is_timed.then(|| value.unwrap_or(lost));
        match self {
            Self::Share => Some(100.0 * result.delivered as f64 / result.offered.max(1) as f64),
            Self::Mean => latency(percentiles.mean_of_delivered),
            Self::Deviation => is_timed.then(|| deviation_ms(result).unwrap_or(lost)),
            Self::Min => is_timed.then(|| latencies(result).min_by(f64::total_cmp).unwrap_or(lost)),
            Self::P50 => latency(percentiles.p50),
            Self::P90 => latency(percentiles.p90),
            Self::P99 => latency(percentiles.p99),
            Self::P99_9 => latency(percentiles.p99_9),
            Self::Max => latency(percentiles.max),
            Self::Silence => match result.flow.pattern {
                Pattern::Periodic { .. } => Some(result.longest_silence_ms),
                _ => None,
            },
            Self::GapP99 => gap_p99_ms(result),
            Self::Goodput => (!is_timed).then(|| goodput_mbps(result)),
            Self::Duration => match result.flow.pattern {
                Pattern::Transfer { .. } if result.delivered < result.offered => Some(lost),
                Pattern::Transfer { .. } => Some(result.duration_s),
                _ => None,
            },
            Self::WireBytes
            | Self::WirePackets
            | Self::CpuPerGb
            | Self::MachineCpuPerGb
            | Self::PeakMemory
            | Self::Retransmissions
            | Self::Needless => None,
        }
    }

    /// What a whole cell took in one run; infinite per byte or message if none was delivered. `None` where nobody
    /// counted, or only together with a rival's flow.
    pub(super) fn of_cell(self, measurement: &Measurement) -> Option<f64> {
        if measurement.flows.iter().any(|flow| flow.flow.link.is_some()) {
            return None;
        }
        let delivered: f64 = measurement.flows.iter().map(payload_bytes).sum();
        let processes = [measurement.publisher, measurement.subscriber];
        match self {
            Self::WireBytes => {
                let wire = measurement.forward.entered_bytes + measurement.backward.entered_bytes;
                (wire > 0).then(|| wire as f64 / delivered)
            }
            Self::WirePackets => {
                // Without those of the other host: how often it acknowledges is no matter of the messages.
                let packets = measurement.forward.entered_packets;
                let messages: u64 = measurement.flows.iter().map(|flow| flow.delivered).sum();
                (packets > 0).then(|| packets as f64 / messages as f64)
            }
            Self::CpuPerGb => {
                let cpu_s: f64 = processes.iter().map(|process| process.cpu_s).sum();
                (cpu_s > 0.0).then(|| cpu_s / (delivered / 1e9))
            }
            Self::MachineCpuPerGb => Some(measurement.machine_cpu_s? / (delivered / 1e9)),
            Self::PeakMemory => {
                let peak = processes.iter().map(|process| process.peak_rss_bytes).max()?;
                (peak > 0).then(|| peak as f64 / f64::from(1 << 20))
            }
            Self::Retransmissions => {
                let count = measurement.tcp_retransmissions.or(measurement.arq_retransmissions)?;
                Some(count as f64)
            }
            Self::Needless => measurement.needless_percent,
            _ => None,
        }
    }
}

/// The least number of messages of which the rank at `percent` is not the greatest.
pub fn least_messages(percent: f64) -> u64 {
    // The quotient can exceed a whole number by a rounding error, which must not become a message.
    (100.0 / (100.0 - percent) - 1e-6).ceil() as u64
}

fn latencies(result: &FlowResult) -> impl Iterator<Item = f64> + '_ {
    result.messages.iter().filter_map(|(_, latency_ms)| *latency_ms)
}

/// Of the messages that were kept.
fn deviation_ms(result: &FlowResult) -> Option<f64> {
    let count = latencies(result).count() as f64;
    let mean = latencies(result).sum::<f64>() / count;
    let squares: f64 = latencies(result).map(|latency| (latency - mean).powi(2)).sum();
    (count >= 2.0).then(|| (squares / (count - 1.0)).sqrt())
}

/// Nearest rank over the times between arrivals. The wait for the first is left out; that after the last one counts
/// up to the last departure, once for each message that never came in it: a link that falls silent for good is silent
/// until the end, and its good time before must not outweigh that. Infinite when fewer than
/// two came; `None` where not every message was kept.
fn gap_p99_ms(result: &FlowResult) -> Option<f64> {
    let has_all = result.kept_every == 1 && matches!(result.flow.pattern, Pattern::Periodic { .. });
    let (last_departure_ms, _) = *result.messages.last().filter(|_| has_all)?;
    if result.messages.len() < 2 {
        return None;
    }
    let arrived = |&(intended_ms, latency_ms): &(f64, Option<f64>)| Some(intended_ms + latency_ms?);
    let mut arrivals: Vec<f64> = result.messages.iter().filter_map(arrived).collect();
    arrivals.sort_unstable_by(f64::total_cmp);
    let mut gaps: Vec<f64> = arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if gaps.is_empty() {
        return Some(f64::INFINITY);
    }
    let silence_ms = arrivals.last().map(|arrival_ms| last_departure_ms - arrival_ms);
    let missing = result.messages.iter().rev().take_while(|(_, latency_ms)| latency_ms.is_none());
    let silence_ms = silence_ms.filter(|silence_ms| *silence_ms > 0.0);
    gaps.extend(missing.filter_map(|_| silence_ms));
    gaps.sort_unstable_by(f64::total_cmp);
    nearest_rank(&gaps, gaps.len(), 99.0)
}

fn payload_bytes(result: &FlowResult) -> f64 {
    result.delivered as f64 * result.flow.payload_bytes as f64
}

fn goodput_mbps(result: &FlowResult) -> f64 {
    let seconds = match result.flow.pattern {
        // The last arrival is early where a link stalls, and nothing comes in the rest of the time.
        Pattern::Flood { seconds } => result.duration_s.max(seconds),
        // A part of the whole is of no use, however early it came.
        Pattern::Transfer { .. } if result.delivered < result.offered => return 0.0,
        Pattern::Transfer { .. }
        | Pattern::Periodic { .. }
        | Pattern::PingPong { .. }
        | Pattern::Opening { .. } => result.duration_s,
    };
    match seconds > 0.0 {
        true => payload_bytes(result) * 8.0 / 1e6 / seconds,
        false => 0.0,
    }
}
