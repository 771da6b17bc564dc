// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Additive increase, multiplicative decrease: NewReno (RFC 9002 §7, RFC 6582) with HyStart++.
//!
//! It takes every loss for congestion, so on a link that loses 10 % it holds about four packets in
//! flight. A conservative citizen, and the yardstick for controllers that tell the two apart.

use super::{
    hystart::HyStart,
    loss_based::{growth_limit, RecoveryPeriod, INITIAL_PACKETS, MIN_WINDOW_PACKETS},
    AckSample, CeSample, Controller, LossSample, SentSample, MAX_WINDOW_BYTES,
};

/// What marks leave of the window, in tenths: a queue that marks is short (RFC 8511 §3.1).
const LEFT_BY_MARKS: u64 = 8;

/// NewReno.
#[derive(Debug, Clone)]
pub(super) struct Aimd {
    mtu: u16,
    /// In bytes.
    window: u64,
    /// Where slow start ends: not known before the first congestion.
    threshold: Option<u64>,
    /// Bytes acknowledged towards the next increase.
    credit: u64,
    recovery: RecoveryPeriod,
    /// Window and threshold before the last reduction, for when it proves unfounded.
    before_reduction: Option<(u64, Option<u64>)>,
    /// Nothing was acknowledged since the last silence.
    silent: bool,
    hystart: HyStart,
}

impl Aimd {
    /// For datagrams of `mtu` bytes.
    #[must_use]
    pub(super) fn new(mtu: u16) -> Self {
        Self {
            mtu,
            window: INITIAL_PACKETS * u64::from(mtu),
            threshold: None,
            credit: 0,
            recovery: RecoveryPeriod::default(),
            before_reduction: None,
            silent: false,
            hystart: HyStart::new(),
        }
    }

    fn min_window(&self) -> u64 {
        MIN_WINDOW_PACKETS * u64::from(self.mtu)
    }

    fn reduce_to(&mut self, window: u64) {
        self.window = window.max(self.min_window());
        self.threshold = Some(self.window);
        self.credit = 0;
    }
}

impl Controller for Aimd {
    fn on_sent(&mut self, sample: &SentSample) {
        self.hystart.on_sent(sample.number);
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.silent = false;
        let slow_start = self.hystart.slow_start(self.window, &mut self.threshold, sample);
        if sample.app_limited || self.recovery.covers(sample.sent_at) {
            return;
        }
        let mtu = self.mtu.into();
        let limit = growth_limit(sample, mtu, slow_start.is_some()).min(MAX_WINDOW_BYTES);
        if let Some(divisor) = slow_start {
            let most = self.threshold.map_or(limit, |threshold| threshold.min(limit));
            let grown = (self.window + sample.bytes / divisor).min(most);
            self.window = self.window.max(grown);
        } else if self.window + mtu <= limit {
            self.credit += sample.bytes;
            if self.credit >= self.window {
                self.credit -= self.window;
                self.window += mtu;
            }
        }
    }

    fn on_loss(&mut self, sample: &LossSample) {
        if !self.recovery.on_loss(sample) {
            return;
        }
        self.before_reduction = Some((self.window, self.threshold));
        self.reduce_to(self.window / 2);
    }

    fn on_ce(&mut self, sample: &CeSample) {
        self.before_reduction = None;
        if !self.recovery.on_ce(sample) {
            return;
        }
        let in_slow_start = self.threshold.is_none_or(|threshold| self.window < threshold);
        self.reduce_to(match in_slow_start {
            true => self.window / 2,
            false => self.window / 10 * LEFT_BY_MARKS,
        });
    }

    fn on_spurious_loss(&mut self, sample: &LossSample) {
        if !self.recovery.on_spurious_loss(sample) {
            return;
        }
        if let Some((window, threshold)) = self.before_reduction.take() {
            self.window = self.window.max(window);
            // Before the first one there was none.
            self.threshold = threshold.and_then(|_| self.threshold.max(threshold));
        }
    }

    fn on_silence(&mut self) {
        // Further silence tells of the same congestion (RFC 5681 §3.1).
        if !std::mem::replace(&mut self.silent, true) {
            self.threshold = Some((self.window / 2).max(self.min_window()));
        }
        self.window = self.min_window();
        self.recovery.close();
        self.before_reduction = None;
        self.credit = 0;
    }

    fn on_path_change(&mut self) {
        *self = Self::new(self.mtu);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.window = self.window.max(self.min_window());
    }

    fn window(&self) -> u64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{sent::LossCause, units::PacketNumber};

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
            smoothed_rtt: Duration::from_millis(20),
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

    // ARQ-CC-12
    #[test]
    fn a_mark_costs_a_fifth_once_a_round_trip_and_is_never_spurious() {
        let (t0, ms) = (t0(), Duration::from_millis(1));
        let mut aimd = Aimd::new(1_200);
        let mark = |aimd: &mut Aimd, now, sent_at| {
            aimd.on_ce(&CeSample { now, packets: 3, sent_at });
        };
        mark(&mut aimd, t0 + 20 * ms, t0);
        assert_eq!(aimd.window(), 5 * MTU, "in slow start as a loss");
        mark(&mut aimd, t0 + 25 * ms, t0 + 5 * ms);
        assert_eq!(aimd.window(), 5 * MTU, "one reduction for one flight");
        mark(&mut aimd, t0 + 60 * ms, t0 + 40 * ms);
        assert_eq!(aimd.window(), 4 * MTU);
        lose(&mut aimd, t0 + 100 * ms, t0 + 80 * ms);
        mark(&mut aimd, t0 + 101 * ms, t0 + 81 * ms);
        aimd.on_spurious_loss(&loss(t0 + 102 * ms, t0 + 80 * ms, LossCause::Gap));
        assert_eq!(aimd.window(), 2 * MTU);
        (0..20_u32)
            .for_each(|n| mark(&mut aimd, t0 + (200 + n * 30) * ms, t0 + (190 + n * 30) * ms));
        assert_eq!(aimd.window(), 2 * MTU, "whatever the peer claims");
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
