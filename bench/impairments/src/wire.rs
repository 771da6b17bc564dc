// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What may be asked of the network between two hosts, and what has crossed it?

use serde::{Deserialize, Serialize};

/// One direction of the network. The default is a wire without delay, limit or fault.
///
/// A packet passes in this order: MTU, blackout, policer, bottleneck queue, loss, duplication, delay with jitter and
/// reordering. Loss comes behind the bottleneck, as on a radio behind a queue, so that goodput can reach
/// rate x (1 - loss) and no more. Whether a radio fades is asked when the packet enters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wire {
    /// Time from one end to the other, milliseconds.
    pub delay_ms: f64,
    /// Standard deviation of the delay, milliseconds; normal, cut off at zero delay.
    pub jitter_ms: f64,
    /// Whether jitter may change the order of packets, as netem's does.
    pub jitter_reorders: bool,
    /// Which packets are lost.
    pub loss: Loss,
    /// The chance of each bit to be wrong; a packet with any wrong bit is lost, so that long packets suffer more.
    pub bit_error_rate: f64,
    /// Packets that arrive twice, per cent.
    pub duplicate_percent: f64,
    /// Packets that are held back so that later ones overtake them, per cent.
    pub reorder_percent: f64,
    /// How long those are held back, milliseconds.
    pub reorder_hold_ms: f64,
    /// The bottleneck's rate in Mb/s (10^6 bits of IP packets per second); none without.
    pub rate_mbps: Option<f64>,
    /// What waits before the bottleneck at most, bytes; the packet that does not fit is dropped (drop-tail).
    pub queue_bytes: u32,
    /// A token bucket that drops what exceeds it and delays nothing.
    pub policer: Option<Policer>,
    /// Longer IP packets vanish.
    pub mtu_bytes: Option<u16>,
    /// Spells in which everything is lost, by the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fade: Option<Fade>,
    /// A recorded radio instead of `rate_mbps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
}

impl Default for Wire {
    fn default() -> Self {
        Self {
            delay_ms: 0.0,
            jitter_ms: 0.0,
            jitter_reorders: true,
            loss: Loss::None,
            bit_error_rate: 0.0,
            duplicate_percent: 0.0,
            reorder_percent: 0.0,
            reorder_hold_ms: 0.0,
            rate_mbps: None,
            queue_bytes: 250_000,
            policer: None,
            mtu_bytes: None,
            fade: None,
            recording: None,
        }
    }
}

/// Which packets are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each with the same probability.
    Random {
        /// Per cent.
        percent: f64,
    },
    /// As netem's `loss P% C%`: each outcome depends on the one before.
    Correlated {
        /// Per cent.
        percent: f64,
        /// Per cent.
        correlation_percent: f64,
    },
    /// Gilbert: everything is lost in the bad state, nothing in the good one. Bad to good 1/L, good to bad
    /// loss / (L (1 - loss)), per packet.
    Gilbert {
        /// Long-run share lost, per cent.
        percent: f64,
        /// Mean length of a burst, packets (L, at least 1).
        burst_packets: f64,
    },
    /// As netem's `loss state P13 P31`: the chance to enter and to leave the bad state, per packet.
    State {
        /// Good to bad, per cent.
        enter_percent: f64,
        /// Bad to good, per cent.
        leave_percent: f64,
    },
}

/// When a radio fades; good and bad spells are exponential. Both directions of a radio fade together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fade {
    /// Of the time, per cent: 0 to 90.
    pub share_percent: f64,
    /// The mean length of a fade, milliseconds: 1 to 60,000.
    pub mean_ms: f64,
}

/// A recorded radio. After its end it begins again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// Its moments of delivery, such as `nyc-lte/taxi.down`: see [`crate::recording::text`].
    pub name: String,
    /// A file with its delay for each 10 ms, which comes on top of `delay_ms`; none without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<String>,
    /// Where it begins, seconds; at a place that the seed decides when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_s: Option<f64>,
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policer {
    /// Mb/s.
    pub rate_mbps: f64,
    /// The bucket, bytes.
    pub burst_bytes: u32,
}

/// A change of the network. Times are seconds of the network's clock, which begins with the order to go: 5 ms, and what
/// the order takes, before the first message is due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "EventTable", into = "EventTable")]
pub struct Event {
    /// When it begins.
    pub at_s: f64,
    /// When it is over: a blackout ends, a ramp has arrived.
    pub until_s: Option<f64>,
    /// It happens again each so many seconds.
    pub every_s: Option<f64>,
    /// What changes.
    pub change: Change,
}

/// What an [`Event`] changes, in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Everything vanishes from `at_s` to `until_s`.
    Blackout,
    /// The share lost becomes this (the model and its burst length stay), gradually when `until_s` is given.
    LossPercent(f64),
    /// The delay becomes this: until `until_s` if given, else for good.
    DelayMs(f64),
    /// The rate becomes this: until `until_s` if given, else for good.
    RateMbps(f64),
}

/// Both directions and what happens to them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// From the publisher to the subscriber.
    pub forward: Wire,
    /// From the subscriber to the publisher.
    pub backward: Wire,
    /// In the order of their times.
    pub events: Vec<Event>,
    /// The publisher's second radio, which has no further one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<Box<Self>>,
}

impl Conditions {
    /// Whether nothing is asked of it. Such a setting measures the machine's own loopback, without the emulator,
    /// which would be the slowest part.
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }
}

/// What crossed one direction of the emulated network; IP packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WireCount {
    /// Packets that a host sent.
    pub entered_packets: u64,
    /// Their bytes, IP headers included.
    pub entered_bytes: u64,
    /// Packets that left at the other end, copies included.
    pub left_packets: u64,
    /// Their bytes.
    pub left_bytes: u64,
    /// Lost by the loss model, in a fade or by a bit error.
    pub lost: u64,
    /// Dropped by the bottleneck's queue.
    pub queue_full: u64,
    /// Dropped by the policer.
    pub policed: u64,
    /// Dropped in a blackout.
    pub blacked_out: u64,
    /// Dropped for their length.
    pub too_long: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets held back to be overtaken.
    pub reordered: u64,
    /// Dropped because the emulator itself could not keep up: a run with any is void.
    pub emulator_overrun: u64,
    /// Left more than 1 ms after their time.
    pub late: u64,
}

impl std::ops::Add for WireCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            entered_packets: self.entered_packets + other.entered_packets,
            entered_bytes: self.entered_bytes + other.entered_bytes,
            left_packets: self.left_packets + other.left_packets,
            left_bytes: self.left_bytes + other.left_bytes,
            lost: self.lost + other.lost,
            queue_full: self.queue_full + other.queue_full,
            policed: self.policed + other.policed,
            blacked_out: self.blacked_out + other.blacked_out,
            too_long: self.too_long + other.too_long,
            duplicated: self.duplicated + other.duplicated,
            reordered: self.reordered + other.reordered,
            emulator_overrun: self.emulator_overrun + other.emulator_overrun,
            late: self.late + other.late,
        }
    }
}

/// An event as it is written: one flat table, because serde cannot refuse unknown keys of a flattened one.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventTable {
    at_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    until_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blackout: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_mbps: Option<f64>,
}

/// The keys of an event do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// Nothing changes, or more than one thing.
    #[error("an event has one of `blackout = true`, `loss_percent`, `delay_ms`, `rate_mbps`; this has {0} of them")]
    Changes(usize),
    /// It would last for ever.
    #[error("a blackout needs `until_s`, the time of its end")]
    EndlessBlackout,
}

impl TryFrom<EventTable> for Event {
    type Error = EventError;

    fn try_from(table: EventTable) -> Result<Self, EventError> {
        let changes: Vec<Change> = [
            table.blackout.filter(|on| *on).map(|_| Change::Blackout),
            table.loss_percent.map(Change::LossPercent),
            table.delay_ms.map(Change::DelayMs),
            table.rate_mbps.map(Change::RateMbps),
        ]
        .into_iter()
        .flatten()
        .collect();
        let &[change] = changes.as_slice() else {
            return Err(EventError::Changes(changes.len()));
        };
        if change == Change::Blackout && table.until_s.is_none() {
            return Err(EventError::EndlessBlackout);
        }
        Ok(Self { at_s: table.at_s, until_s: table.until_s, every_s: table.every_s, change })
    }
}

impl From<Event> for EventTable {
    fn from(event: Event) -> Self {
        let (blackout, loss_percent, delay_ms, rate_mbps) = match event.change {
            Change::Blackout => (Some(true), None, None, None),
            Change::LossPercent(percent) => (None, Some(percent), None, None),
            Change::DelayMs(delay) => (None, None, Some(delay), None),
            Change::RateMbps(rate) => (None, None, None, Some(rate)),
        };
        let Event { at_s, until_s, every_s, .. } = event;
        Self { at_s, until_s, every_s, blackout, loss_percent, delay_ms, rate_mbps }
    }
}
