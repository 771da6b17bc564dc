// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which figures does a report draw from a measurement, and which way is better?

use super::units::Unit;
use crate::record::{FlowResult, Measurement};
use crate::scenario::flow::Pattern;

/// A figure of one flow, or of the whole run (then it is the same for each of its flows).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Metric {
    Mean,
    P50,
    P90,
    P99,
    P999,
    Max,
    Silence,
    Delivered,
    Goodput,
    Duration,
    Overhead,
    Retransmissions,
    CpuPerGb,
    PeakMemory,
}

impl Metric {
    /// Those of latency, in the order of tables.
    pub(crate) const LATENCIES: [Self; 5] =
        [Self::P50, Self::P90, Self::P99, Self::P999, Self::Max];
    /// What a link costs, in the order of tables.
    pub(crate) const COSTS: [Self; 4] =
        [Self::Overhead, Self::Retransmissions, Self::CpuPerGb, Self::PeakMemory];

    /// For headings.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Mean => "mean latency of what arrived",
            Self::P50 => "median latency",
            Self::P90 => "90th percentile",
            Self::P99 => "99th percentile",
            Self::P999 => "99.9th percentile",
            Self::Max => "greatest latency",
            Self::Silence => "longest silence",
            Self::Delivered => "messages delivered",
            Self::Goodput => "goodput",
            Self::Duration => "time until all had arrived",
            Self::Overhead => "bytes on the wire per byte delivered",
            Self::Retransmissions => "packets sent again",
            Self::CpuPerGb => "CPU seconds per GB delivered",
            Self::PeakMemory => "peak memory of both processes",
        }
    }

    /// For the head of a table's column.
    pub(crate) fn short(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Max => "max",
            Self::Silence => "longest silence",
            Self::Delivered => "delivered",
            Self::Goodput => "goodput",
            Self::Duration => "duration",
            Self::Overhead => "wire bytes / byte",
            Self::Retransmissions => "sent again",
            Self::CpuPerGb => "CPU s / GB",
            Self::PeakMemory => "peak memory",
        }
    }

    /// What its numbers count.
    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::Mean | Self::P50 | Self::P90 | Self::P99 | Self::P999 | Self::Max => {
                Unit::Milliseconds
            }
            Self::Silence => Unit::Milliseconds,
            Self::Delivered => Unit::Percent,
            Self::Goodput => Unit::MegabitsPerSecond,
            Self::Duration => Unit::Seconds,
            Self::Overhead | Self::Retransmissions | Self::CpuPerGb => Unit::Number,
            Self::PeakMemory => Unit::Bytes,
        }
    }

    /// Whether more is better.
    pub(crate) fn more_is_better(self) -> bool {
        matches!(self, Self::Delivered | Self::Goodput)
    }

    /// Whether it says something about a flow of this pattern.
    pub(crate) fn fits(self, pattern: Pattern) -> bool {
        let whole = matches!(pattern, Pattern::Flood { .. } | Pattern::Transfer { .. });
        match self {
            Self::Mean | Self::P50 | Self::P90 | Self::P99 | Self::P999 | Self::Max => !whole,
            Self::Goodput => whole,
            Self::Duration => matches!(pattern, Pattern::Transfer { .. }),
            Self::Silence => !matches!(pattern, Pattern::Opening { .. } | Pattern::PingPong { .. }),
            Self::Delivered => !matches!(pattern, Pattern::Flood { .. }),
            Self::Overhead | Self::Retransmissions | Self::CpuPerGb | Self::PeakMemory => true,
        }
    }

    /// Its value; a latency whose rank was lost is infinite, what was not measured is `None`.
    pub(crate) fn of(self, run: &Measurement, flow: &FlowResult) -> Option<f64> {
        let latency =
            |value: Option<f64>| (flow.offered > 0).then(|| value.unwrap_or(f64::INFINITY));
        let ranks = &flow.percentiles;
        match self {
            Self::Mean => ranks.mean_of_delivered,
            Self::P50 => latency(ranks.p50),
            Self::P90 => latency(ranks.p90),
            Self::P99 => latency(ranks.p99),
            Self::P999 => latency(ranks.p99_9),
            Self::Max => latency(ranks.max),
            Self::Silence => Some(flow.longest_silence_ms),
            Self::Delivered => {
                (flow.offered > 0).then(|| 100.0 * flow.delivered as f64 / flow.offered as f64)
            }
            Self::Goodput => {
                (flow.duration_s > 0.0).then(|| payload_bytes(flow) * 8e-6 / flow.duration_s)
            }
            Self::Duration if flow.delivered < flow.offered => Some(f64::INFINITY),
            Self::Duration => Some(flow.duration_s),
            Self::Overhead => per_byte(run, wire_bytes(run)),
            Self::Retransmissions => {
                run.arq_retransmissions.or(run.tcp_retransmissions).map(|count| count as f64)
            }
            Self::CpuPerGb => per_byte(run, (run.publisher.cpu_s + run.subscriber.cpu_s) * 1e9),
            Self::PeakMemory => {
                let bytes = run.publisher.peak_rss_bytes + run.subscriber.peak_rss_bytes;
                (bytes > 0).then_some(bytes as f64)
            }
        }
    }
}

fn payload_bytes(flow: &FlowResult) -> f64 {
    flow.delivered as f64 * flow.flow.payload_bytes as f64
}

/// What the hosts sent, both ways.
fn wire_bytes(run: &Measurement) -> f64 {
    (run.forward.entered_bytes + run.backward.entered_bytes) as f64
}

/// Infinite when something was spent and nothing was delivered.
fn per_byte(run: &Measurement, spent: f64) -> Option<f64> {
    let delivered: f64 = run.flows.iter().map(payload_bytes).sum();
    (spent > 0.0).then(|| spent / delivered)
}
