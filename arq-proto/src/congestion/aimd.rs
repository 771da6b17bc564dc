// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Additive increase, multiplicative decrease: NewReno (RFC 9002 §7, RFC 6582) with HyStart++.
//!
//! It takes every loss for congestion, so on a link that loses 10 % it holds about four packets in
//! flight. A conservative citizen, and the yardstick for controllers that tell the two apart.

use std::time::Instant;

use super::{hystart::HyStart, AckSample, Controller, LossCause, LossSample, SentSample};

/// RFC 9002 §7.2.
const INITIAL_PACKETS: u64 = 10;
const MIN_PACKETS: u64 = 2;
/// No path needs more; keeps arithmetic far from overflow.
const MAX_WINDOW_BYTES: u64 = 1 << 30;

/// NewReno.
#[derive(Debug, Clone)]
pub struct Aimd {
    mtu: u64,
    window: u64,
    threshold: u64,
    /// Bytes acknowledged towards the next increase.
    credit: u64,
    /// Losses of packets sent before this belong to the reduction already made.
    recovery_start: Option<Instant>,
    /// Window and threshold before the last reduction, for when it proves unfounded.
    before_reduction: Option<(u64, u64)>,
    hystart: HyStart,
}

impl Aimd {
    /// For datagrams of `mtu` bytes.
    #[must_use]
    pub fn new(mtu: u16) -> Self {
        let mtu = u64::from(mtu);
        Self {
            mtu,
            window: INITIAL_PACKETS * mtu,
            threshold: u64::MAX,
            credit: 0,
            recovery_start: None,
            before_reduction: None,
            hystart: HyStart::new(),
        }
    }

    fn min_window(&self) -> u64 {
        MIN_PACKETS * self.mtu
    }

    fn in_recovery(&self, sent_at: Instant) -> bool {
        self.recovery_start.is_some_and(|start| sent_at <= start)
    }
}

impl Controller for Aimd {
    fn on_sent(&mut self, sample: &SentSample) {
        self.hystart.on_sent(sample.number);
    }

    fn on_ack(&mut self, sample: &AckSample) {
        let growth = if self.window < self.threshold {
            let growth = self.hystart.on_ack(sample.largest, sample.rtt.map(|rtt| rtt.least));
            if growth.is_none() {
                self.threshold = self.window;
            }
            growth
        } else {
            None
        };
        // A window that was not used says nothing about the path (RFC 7661).
        if sample.app_limited || self.in_recovery(sample.sent_at) {
            return;
        }
        if let Some(divisor) = growth {
            self.window += sample.bytes / divisor;
        } else {
            self.credit += sample.bytes;
            if self.credit >= self.window {
                self.credit -= self.window;
                self.window += self.mtu;
            }
        }
        self.window = self.window.min(MAX_WINDOW_BYTES);
    }

    fn on_loss(&mut self, sample: &LossSample) {
        // A time-out alone proves no congestion; silence does, and has a call of its own.
        if sample.cause == LossCause::Timeout || self.in_recovery(sample.sent_at) {
            return;
        }
        self.before_reduction = Some((self.window, self.threshold));
        self.recovery_start = Some(sample.now);
        self.window = (self.window / 2).max(self.min_window());
        self.threshold = self.window;
        self.credit = 0;
    }

    fn on_spurious_loss(&mut self, sample: &LossSample) {
        // A time-out reduced nothing, so it says nothing about a reduction.
        if sample.cause == LossCause::Timeout {
            return;
        }
        if let Some((window, threshold)) = self.before_reduction.take() {
            self.window = self.window.max(window);
            self.threshold = self.threshold.max(threshold);
            self.recovery_start = None;
        }
    }

    fn on_silence(&mut self) {
        self.threshold = (self.window / 2).max(self.min_window());
        self.window = self.min_window();
        self.recovery_start = None;
        self.before_reduction = None;
    }

    fn on_path_change(&mut self) {
        *self = Self { mtu: self.mtu, ..Self::new(u16::try_from(self.mtu).unwrap_or(u16::MAX)) };
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu.into();
        self.window = self.window.max(self.min_window());
    }

    fn window(&self) -> u64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::units::PacketNumber;

    const MTU: u64 = 1_200;

    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn t0() -> Instant {
        Instant::now()
    }

    fn ack(aimd: &mut Aimd, now: Instant, sent_at: Instant, app_limited: bool) {
        aimd.on_ack(&AckSample {
            now,
            bytes: MTU,
            packets: 1,
            largest: PacketNumber(0),
            sent_at,
            rtt: None,
            latest_rtt: Duration::from_millis(20),
            min_rtt: Duration::from_millis(20),
            in_flight_bytes: aimd.window(),
            app_limited,
        });
    }

    fn loss(now: Instant, sent_at: Instant, cause: LossCause) -> LossSample {
        LossSample { now, bytes: MTU, packets: 1, largest: PacketNumber(0), sent_at, cause }
    }

    fn lose(aimd: &mut Aimd, now: Instant, sent_at: Instant) {
        aimd.on_loss(&loss(now, sent_at, LossCause::Gap));
    }

    // ARQ-CC-3
    #[test]
    fn halves_once_a_round_trip_and_then_adds_a_packet() {
        let (t0, ms) = (t0(), Duration::from_millis(1));
        let mut aimd = Aimd::new(1_200);
        for _ in 0..10 {
            ack(&mut aimd, t0, t0, false);
        }
        assert_eq!(aimd.window(), 20 * MTU, "slow start doubles");
        lose(&mut aimd, t0 + 20 * ms, t0);
        lose(&mut aimd, t0 + 21 * ms, t0 + ms);
        assert_eq!(aimd.window(), 10 * MTU, "one reduction for one flight");
        for _ in 0..10 {
            ack(&mut aimd, t0 + 50 * ms, t0 + 30 * ms, false);
        }
        assert_eq!(aimd.window(), 11 * MTU);
        aimd.on_silence();
        assert_eq!(aimd.window(), 2 * MTU);
    }

    #[test]
    fn an_idle_application_grows_no_window_and_a_spurious_loss_costs_none() {
        let t0 = t0();
        let mut aimd = Aimd::new(1_200);
        ack(&mut aimd, t0, t0, true);
        assert_eq!(aimd.window(), 10 * MTU);
        lose(&mut aimd, t0, t0);
        aimd.on_spurious_loss(&loss(t0, t0, LossCause::Timeout));
        assert_eq!(aimd.window(), 5 * MTU, "a time-out reduced nothing");
        aimd.on_spurious_loss(&loss(t0, t0, LossCause::Gap));
        assert_eq!(aimd.window(), 10 * MTU);
    }
}
