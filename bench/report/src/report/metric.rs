// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How is a figure of the summary called and counted for readers?
//!
//! Called *metric* here, because a report has figures of another kind.

use super::units::Unit;
pub(crate) use crate::summary::Figure as Metric;

/// Latencies, in the order of tables.
pub(crate) const LATENCIES: [Metric; 5] =
    [Metric::P50, Metric::P90, Metric::P99, Metric::P99_9, Metric::Max];
/// What a run costs as a whole, in the order of tables.
pub(crate) const COSTS: [Metric; 7] = [
    Metric::WireBytes,
    Metric::WirePackets,
    Metric::Retransmissions,
    Metric::CpuPerGb,
    Metric::MachineCpuPerGb,
    Metric::PeakMemory,
    Metric::Needless,
];

/// For headings and axes.
pub(crate) trait Told {
    /// In words.
    fn title(self) -> &'static str;
    /// What its numbers count.
    fn counts(self) -> Unit;
}

impl Told for Metric {
    fn title(self) -> &'static str {
        match self {
            Self::Share => "messages delivered",
            Self::Mean => "mean latency of what arrived",
            Self::Deviation => "standard deviation of latency of what was delivered",
            Self::Min => "least latency",
            Self::P50 => "median latency",
            Self::P90 => "90th percentile of latency",
            Self::P99 => "99th percentile of latency",
            Self::P99_9 => "99.9th percentile of latency",
            Self::Max => "greatest latency",
            Self::Silence => "longest silence",
            Self::GapP99 => "99th percentile of the time between arrivals",
            Self::Goodput => "goodput",
            Self::Duration => "time until all had arrived",
            Self::WireBytes => "bytes on the wire per byte delivered",
            Self::WirePackets => "packets sent forward per message delivered",
            Self::CpuPerGb => "CPU seconds per GB delivered",
            Self::MachineCpuPerGb => "CPU seconds of the whole machine per GB delivered",
            Self::PeakMemory => "peak memory of the larger process",
            Self::Retransmissions => "packets sent again",
            Self::Needless => "share of bytes that were needless copies",
        }
    }

    fn counts(self) -> Unit {
        match self {
            Self::Share | Self::Needless => Unit::Percent,
            Self::Goodput => Unit::MegabitsPerSecond,
            Self::Duration => Unit::Seconds,
            Self::PeakMemory => Unit::Mebibytes,
            Self::WireBytes
            | Self::WirePackets
            | Self::CpuPerGb
            | Self::MachineCpuPerGb
            | Self::Retransmissions => Unit::Number,
            Self::Mean
            | Self::Deviation
            | Self::Min
            | Self::P50
            | Self::P90
            | Self::P99
            | Self::P99_9
            | Self::Max
            | Self::Silence
            | Self::GapP99 => Unit::Milliseconds,
        }
    }
}
