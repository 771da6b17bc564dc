// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How many bytes may be in flight, and how fast they may leave.
//!
//! A [`Controller`] is driven by plain numbers, so that each one can be tested without a connection
//! and all of them against one shared model (`tests` below).

mod aimd;
mod constant;
mod hystart;

use std::{
    fmt,
    time::{Duration, Instant},
};

pub use aimd::Aimd;
pub use constant::Constant;

use crate::{config::CongestionConfig, units::PacketNumber};

/// What one acknowledgement newly acknowledged.
#[derive(Debug, Clone, Copy)]
pub struct AckSample {
    /// Now.
    pub now: Instant,
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// The largest packet newly acknowledged, and when it was sent.
    pub largest: PacketNumber,
    /// When that packet was sent.
    pub sent_at: Instant,
    /// The newest round-trip sample.
    pub latest_rtt: Duration,
    /// The smallest round-trip sample.
    pub min_rtt: Duration,
    /// Bytes in flight before this acknowledgement.
    pub in_flight_bytes: u64,
    /// Whether the application, not the window, limited what was in flight.
    pub app_limited: bool,
}

/// How a loss was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossCause {
    /// Later packets were acknowledged.
    Gap,
    /// The tail was silent for a probe time-out.
    Timeout,
}

/// What was declared lost at once.
#[derive(Debug, Clone, Copy)]
pub struct LossSample {
    /// Now.
    pub now: Instant,
    /// Bytes lost.
    pub bytes: u64,
    /// When the newest lost packet was sent.
    pub sent_at: Instant,
    /// How it was noticed.
    pub cause: LossCause,
}

/// A congestion controller.
pub trait Controller: Send + fmt::Debug {
    /// A packet was sent.
    fn on_sent(&mut self, number: PacketNumber);
    /// Packets were acknowledged.
    fn on_ack(&mut self, sample: &AckSample);
    /// Packets were declared lost.
    fn on_loss(&mut self, sample: &LossSample);
    /// Packets declared lost earlier were acknowledged: the last reaction was unfounded.
    fn on_spurious_loss(&mut self);
    /// More probes went unanswered than bad luck explains (RFC 9002 §7.6, persistent congestion).
    fn on_silence(&mut self);
    /// The path changed.
    fn on_path_change(&mut self);
    /// Bytes that may be in flight.
    fn window(&self) -> u64;
    /// Bytes per second at which they may leave, or `None` to follow the window: 5/4 of it per
    /// smoothed round trip (RFC 9002 §7.7).
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
}

/// The controller that a configuration names, for datagrams of `mtu` bytes.
#[must_use]
pub fn build(config: CongestionConfig, mtu: u16) -> Box<dyn Controller> {
    match config {
        CongestionConfig::Constant { window_bytes } => {
            Box::new(Constant::new(window_bytes.max(mtu.into())))
        }
        CongestionConfig::Aimd => Box::new(Aimd::new(mtu)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Operation {
        Send,
        Ack { rtt_ms: u64, app_limited: bool },
        Lose(LossCause),
        Spurious,
        Silence,
        PathChange,
        Wait(u64),
    }

    fn operations() -> impl Strategy<Value = Operation> {
        prop_oneof![
            8 => Just(Operation::Send),
            8 => (1_u64..500, any::<bool>())
                .prop_map(|(rtt_ms, app_limited)| Operation::Ack { rtt_ms, app_limited }),
            2 => Just(Operation::Lose(LossCause::Gap)),
            1 => Just(Operation::Lose(LossCause::Timeout)),
            1 => Just(Operation::Spurious),
            1 => Just(Operation::Silence),
            1 => Just(Operation::PathChange),
            4 => (0_u64..2_000).prop_map(Operation::Wait),
        ]
    }

    const MTU: u16 = 1_200;

    fn controllers() -> impl Strategy<Value = CongestionConfig> {
        prop_oneof![
            Just(CongestionConfig::Aimd),
            (u64::from(MTU)..1 << 24)
                .prop_map(|window_bytes| CongestionConfig::Constant { window_bytes }),
        ]
    }

    proptest! {
        /// The bounds that every controller keeps under every sequence of operations: room for two
        /// datagrams (one when a constant window says so), and no absurd window or rate.
        // ARQ-CC-2
        #[test]
        fn bounds(config in controllers(), operations in prop::collection::vec(operations(), 1..300)) {
            #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
            let mut now = Instant::now();
            let mut controller = build(config, MTU);
            let mut number = PacketNumber(0);
            for operation in operations {
                match operation {
                    Operation::Send => {
                        controller.on_sent(number);
                        number = number.next();
                    }
                    Operation::Ack { rtt_ms, app_limited } => controller.on_ack(&AckSample {
                        now,
                        bytes: MTU.into(),
                        largest: number,
                        sent_at: now.checked_sub(Duration::from_millis(rtt_ms)).unwrap_or(now),
                        latest_rtt: Duration::from_millis(rtt_ms),
                        min_rtt: Duration::from_millis(1),
                        in_flight_bytes: controller.window(),
                        app_limited,
                    }),
                    Operation::Lose(cause) => controller.on_loss(&LossSample {
                        now,
                        bytes: MTU.into(),
                        sent_at: now,
                        cause,
                    }),
                    Operation::Spurious => controller.on_spurious_loss(),
                    Operation::Silence => controller.on_silence(),
                    Operation::PathChange => controller.on_path_change(),
                    Operation::Wait(ms) => now += Duration::from_millis(ms),
                }
                let least = match config {
                    CongestionConfig::Constant { .. } => u64::from(MTU),
                    CongestionConfig::Aimd => 2 * u64::from(MTU),
                };
                prop_assert!(controller.window() >= least);
                prop_assert!(controller.window() <= 1 << 30);
                prop_assert!(controller.pacing_rate().unwrap_or(1) > 0);
            }
        }
    }
}
