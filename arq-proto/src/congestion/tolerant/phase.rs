// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What is the connection trying to find out, and how fast does it send meanwhile?

use std::time::{Duration, Instant};

use super::tuning::{DRAIN_GAIN, HOLD_BACK_GAIN, PROBE_GAIN, QUEUED_GAIN, START_UP_GAIN};
use crate::units::Rate;

/// How packets were sent, in relation to the estimated rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    Above,
    At,
    Below,
}

/// What start-up has seen so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StartUp {
    /// The largest estimate.
    pub(super) best: Rate,
    /// Rounds without growth, though the path decided the rate or lost too much.
    pub(super) stalled: u8,
    /// Rounds in a row with a queue longer than start-up means to make.
    pub(super) bloated: u8,
}

impl StartUp {
    /// After a round in which the estimate grew to `best`.
    pub(super) const fn grown_to(best: Rate) -> Self {
        Self { best, stalled: 0, bloated: 0 }
    }
}

/// What the connection is doing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
    /// The rate more than doubles per round until the path gives no more.
    Startup(StartUp),
    /// What start-up put into the queue leaves it.
    Drain { rounds: u64 },
    /// Is there more?
    ProbeUp,
    /// What the probe put into the queue leaves it.
    ProbeDown { rounds: u64 },
    /// The path carries less than before: what is too much in flight leaves it.
    Slowdown { rounds: u64 },
    /// At the estimated rate.
    Cruise { since: Instant, rounds: u64, queue: bool },
    /// How long is the path when nothing waits?
    ProbeRtt { until: Instant, least: Option<Duration> },
}

impl Phase {
    pub(super) const START: Self = Self::Startup(StartUp::grown_to(Rate::from_bytes_per_second(0)));

    pub(super) const fn cruise(since: Instant, queue: bool) -> Self {
        Self::Cruise { since, rounds: 0, queue }
    }

    /// Rate of sending, as a multiple of the estimate.
    pub(super) const fn gain(self) -> f64 {
        match self {
            Self::Startup { .. } => START_UP_GAIN,
            Self::Drain { .. } => DRAIN_GAIN,
            Self::ProbeUp => PROBE_GAIN,
            Self::ProbeDown { .. } | Self::Slowdown { .. } => HOLD_BACK_GAIN,
            Self::Cruise { queue: true, .. } => QUEUED_GAIN,
            Self::Cruise { queue: false, .. } | Self::ProbeRtt { .. } => 1.0,
        }
    }

    /// How this relates to the rate, for telling whether loss does.
    pub(super) const fn pace(self) -> Pace {
        match self {
            Self::Startup { .. } | Self::ProbeUp => Pace::Above,
            Self::Drain { .. } | Self::ProbeDown { .. } | Self::Cruise { queue: true, .. } => {
                Pace::Below
            }
            Self::Slowdown { .. } | Self::Cruise { .. } | Self::ProbeRtt { .. } => Pace::At,
        }
    }
}
