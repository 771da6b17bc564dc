// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! CUBIC (RFC 9438) with HyStart++ (RFC 9406): what most TCP senders do.
//!
//! After a reduction the window grows as a cubic of the time since then: fast, flat where the last
//! loss was, then fast again. Like NewReno it takes every loss for congestion: right beside other
//! traffic, slow on links that lose. Section numbers below are those of RFC 9438.

use std::time::{Duration, Instant};

use super::{
    hystart::HyStart,
    loss_based::{growth_limit, RecoveryPeriod, INITIAL_PACKETS, MIN_WINDOW_PACKETS},
    AckSample, CeSample, Controller, LossSample, SentSample, MAX_WINDOW_BYTES,
};

/// §4.1 (`C`, in packets per second cubed).
const GROWTH: f64 = 0.4;
/// §4.6 (`beta_cubic`).
const BETA: f64 = 0.7;
/// The same for marks: a queue that marks is short (RFC 8511 §3.1).
const BETA_OF_MARKS: f64 = 0.85;
/// §4.3 (`alpha_cubic`): the growth that makes NewReno with this beta take an equal share.
const RENO_GROWTH: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// The least window, in packets.
const MIN_WINDOW: f64 = MIN_WINDOW_PACKETS as f64;

/// Growth since the last reduction (§4.2).
#[derive(Debug, Clone, Copy)]
struct Epoch {
    start: Instant,
    /// Seconds until the window is back where it was.
    k: f64,
    /// Packets at the plateau.
    origin: f64,
    /// What NewReno would have by now, in packets (§4.3).
    reno: f64,
}

/// What a reduction changes, to be restored when it proves unfounded (§4.9).
#[derive(Debug, Clone, Copy)]
struct Shape {
    window: f64,
    /// Where slow start ends: not known before the first congestion.
    threshold: Option<f64>,
    last_max: f64,
    epoch: Option<Epoch>,
}

/// CUBIC. Windows are in packets of `mtu` bytes, as in the RFC.
#[derive(Debug, Clone)]
pub(super) struct Cubic {
    mtu: f64,
    shape: Shape,
    /// The window before the last reduction (`cwnd_prior`).
    prior: f64,
    recovery: RecoveryPeriod,
    before_reduction: Option<Shape>,
    /// Nothing was acknowledged since the last silence.
    silent: bool,
    /// The last acknowledgement: time without use of the window does not count as growth (§5.8).
    acked_at: Option<Instant>,
    hystart: HyStart,
}

impl Cubic {
    /// For datagrams of `mtu` bytes.
    #[must_use]
    pub(super) fn new(mtu: u16) -> Self {
        let window = INITIAL_PACKETS as f64;
        let shape = Shape { window, threshold: None, last_max: 0.0, epoch: None };
        Self {
            mtu: mtu.into(),
            shape,
            prior: 0.0,
            recovery: RecoveryPeriod::default(),
            before_reduction: None,
            silent: false,
            acked_at: None,
            hystart: HyStart::new(),
        }
    }

    /// §4.2 to §4.5: the window one round trip from now.
    fn avoid_congestion(&mut self, now: Instant, rtt: Duration, acked: f64) {
        let shape = &mut self.shape;
        let window = shape.window;
        let last_max = shape.last_max;
        let epoch = shape.epoch.get_or_insert_with(|| {
            let origin = last_max.max(window);
            Epoch { start: now, k: ((origin - window) / GROWTH).cbrt(), origin, reno: window }
        });
        let cubic = |time: f64| epoch.origin + GROWTH * (time - epoch.k).powi(3);
        let elapsed = now.saturating_duration_since(epoch.start).as_secs_f64();
        let (here, target) = (cubic(elapsed), cubic(elapsed + rtt.as_secs_f64()));
        let growth = if epoch.reno < self.prior { RENO_GROWTH } else { 1.0 };
        epoch.reno += growth * acked / window;
        if here < epoch.reno {
            shape.window = window.max(epoch.reno);
        } else {
            let target = target.clamp(window, 1.5 * window);
            shape.window += (target - window) / window * acked;
        }
    }

    fn reduce(&mut self, beta: f64) {
        self.before_reduction = Some(self.shape);
        let shape = &mut self.shape;
        self.prior = shape.window;
        // Fast convergence (§4.7): whoever did not get back to its share leaves room for others.
        let converging = shape.window < shape.last_max;
        shape.last_max = if converging { shape.window * (1.0 + beta) / 2.0 } else { shape.window };
        shape.window = (shape.window * beta).max(MIN_WINDOW);
        shape.threshold = Some(shape.window);
        shape.epoch = None;
    }
}

impl Controller for Cubic {
    fn on_sent(&mut self, sample: &SentSample) {
        self.hystart.on_sent(sample.number);
    }

    fn on_ack(&mut self, sample: &AckSample) {
        let idle = sample.now.saturating_duration_since(self.acked_at.unwrap_or(sample.now));
        self.acked_at = Some(sample.now);
        self.silent = false;
        let Shape { window, threshold, .. } = &mut self.shape;
        let slow_start = self.hystart.slow_start(*window, threshold, sample);
        let limit = growth_limit(sample, self.mtu as u64, slow_start.is_some()) as f64;
        let limit = limit.min(MAX_WINDOW_BYTES as f64) / self.mtu;
        let unused = sample.app_limited || self.shape.window >= limit;
        if unused || self.recovery.covers(sample.sent_at) {
            if let Some(epoch) = &mut self.shape.epoch {
                epoch.start += idle;
            }
            return;
        }
        let acked = sample.bytes as f64 / self.mtu;
        if let Some(divisor) = slow_start {
            let grown = self.shape.window + acked / divisor as f64;
            self.shape.window = self.shape.threshold.map_or(grown, |most| grown.min(most));
        } else {
            self.avoid_congestion(sample.now, sample.smoothed_rtt, acked);
        }
        self.shape.window = self.shape.window.min(limit);
    }

    fn on_loss(&mut self, sample: &LossSample) {
        if self.recovery.on_loss(sample) {
            self.reduce(BETA);
        }
    }

    fn on_ce(&mut self, sample: &CeSample) {
        if self.recovery.on_ce(sample) {
            let Shape { window, threshold, .. } = self.shape;
            let in_slow_start = threshold.is_none_or(|threshold| window < threshold);
            self.reduce(if in_slow_start { BETA } else { BETA_OF_MARKS });
        }
        self.before_reduction = None;
    }

    fn on_spurious_loss(&mut self, sample: &LossSample) {
        if !self.recovery.on_spurious_loss(sample) {
            return;
        }
        if let Some(before) = self.before_reduction.take() {
            if before.window > self.shape.window {
                self.shape = before;
            }
        }
    }

    fn on_silence(&mut self) {
        // Further silence tells of the same congestion (RFC 5681 §3.1).
        if !std::mem::replace(&mut self.silent, true) {
            self.reduce(BETA);
            // Where slow start ends, the curve begins anew (§4.8).
            self.shape.last_max = 0.0;
        }
        self.shape.window = MIN_WINDOW;
        self.shape.epoch = None;
        self.recovery.close();
        self.before_reduction = None;
    }

    fn on_path_change(&mut self) {
        // The constructor took a u16.
        *self = Self::new(self.mtu as u16);
    }

    fn on_mtu(&mut self, mtu: u16) {
        // The same bytes in other packets; where the curve stood is found anew.
        let scale = self.mtu / f64::from(mtu);
        self.mtu = mtu.into();
        let shape = &mut self.shape;
        shape.window = (shape.window * scale).max(MIN_WINDOW);
        shape.threshold = shape.threshold.map(|threshold| threshold * scale);
        shape.last_max *= scale;
        shape.epoch = None;
        self.prior *= scale;
        self.before_reduction = None;
    }

    fn window(&self) -> u64 {
        (self.shape.window * self.mtu) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{congestion::RttSample, sent::LossCause, units::PacketNumber};

    const MTU: u64 = 1_000;
    const RTT: Duration = Duration::from_millis(100);

    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn t0() -> Instant {
        Instant::now()
    }

    /// One acknowledgement of a whole window, sent a round trip ago.
    fn ack_window(cubic: &mut Cubic, now: Instant, app_limited: bool) {
        let bytes = cubic.window();
        cubic.on_ack(&AckSample {
            now,
            bytes,
            packets: bytes / MTU,
            largest: PacketNumber(0),
            sent_at: now - RTT,
            rtt: Some(RttSample { least: RTT, most: RTT }),
            smoothed_rtt: RTT,
            in_flight_bytes: bytes,
            app_limited,
        });
    }

    fn loss(now: Instant, cause: LossCause) -> LossSample {
        LossSample { now, bytes: MTU, packets: 1, largest: PacketNumber(0), sent_at: now, cause }
    }

    fn lose(cubic: &mut Cubic, now: Instant) {
        cubic.on_loss(&loss(now, LossCause::Gap));
    }

    fn packets(cubic: &Cubic) -> u64 {
        cubic.window() / MTU
    }

    /// A window of 1,280 packets that has just lost one.
    fn reduced(t0: Instant) -> Cubic {
        let mut cubic = Cubic::new(1_000);
        while packets(&cubic) < 1_280 {
            ack_window(&mut cubic, t0, false);
        }
        lose(&mut cubic, t0 + RTT);
        assert_eq!(packets(&cubic), 896, "beta is 0.7");
        cubic
    }

    // ARQ-CC-5
    #[test]
    fn the_window_is_back_after_k_seconds_and_flat_there() {
        let t0 = t0();
        let mut cubic = reduced(t0);
        // K = cbrt(384 / 0.4) = 9.86 s
        let at = |cubic: &mut Cubic, from: u32, to: u32| {
            for round in from..to {
                ack_window(cubic, t0 + 3 * RTT + round * RTT, false);
            }
            packets(cubic)
        };
        let early = at(&mut cubic, 0, 20);
        assert!((1_040..1_120).contains(&early), "{early} after 2 s");
        let flat = at(&mut cubic, 20, 97);
        assert!((1_270..=1_282).contains(&flat), "{flat} after K");
        let later = at(&mut cubic, 97, 150);
        assert!((1_300..1_400).contains(&later), "{later} five seconds later");
    }

    // ARQ-CC-5
    #[test]
    fn a_small_window_grows_as_reno_would() {
        let t0 = t0();
        let mut cubic = Cubic::new(1_000);
        lose(&mut cubic, t0 + RTT);
        assert_eq!(packets(&cubic), 7);
        for round in 0..10 {
            ack_window(&mut cubic, t0 + 3 * RTT + round * RTT, false);
        }
        // 0.53 packets per round trip up to the former window, then one.
        assert!((12..=14).contains(&packets(&cubic)), "{}", packets(&cubic));
    }

    // ARQ-CC-12
    #[test]
    fn a_mark_costs_less_than_a_loss_once_a_round_trip() {
        let t0 = t0();
        let mut cubic = reduced(t0);
        let mark = |cubic: &mut Cubic, sent_at: Instant| {
            cubic.on_ce(&CeSample { now: sent_at + RTT, packets: 9, sent_at });
        };
        mark(&mut cubic, t0 + RTT / 2);
        assert_eq!(packets(&cubic), 896, "the reduction answers it");
        cubic.on_spurious_loss(&loss(t0 + 2 * RTT, LossCause::Gap));
        assert_eq!(packets(&cubic), 896, "which is not for a loss alone any more");
        mark(&mut cubic, t0 + 3 * RTT);
        mark(&mut cubic, t0 + 3 * RTT + RTT / 2);
        assert_eq!(packets(&cubic), 761, "896 x 0.85");
        let mut new = Cubic::new(1_000);
        mark(&mut new, t0);
        assert_eq!(packets(&new), 7, "in slow start as a loss");
        (1..30).for_each(|n| mark(&mut new, t0 + 3 * n * RTT));
        assert_eq!(packets(&new), 2, "whatever the peer claims");
    }

    // ARQ-CC-5
    #[test]
    fn a_second_reduction_before_the_plateau_leaves_room() {
        let t0 = t0();
        let mut cubic = reduced(t0);
        lose(&mut cubic, t0 + 3 * RTT);
        assert_eq!(cubic.shape.last_max as u64, 761, "896 x (1 + 0.7) / 2");
    }

    // ARQ-CC-5
    #[test]
    fn idle_time_is_no_time_of_growth_and_a_spurious_loss_costs_nothing() {
        let t0 = t0();
        let mut cubic = reduced(t0);
        ack_window(&mut cubic, t0 + 3 * RTT, false);
        let before = packets(&cubic);
        for second in 1..60 {
            ack_window(&mut cubic, t0 + 3 * RTT + second * 10 * RTT, true);
        }
        ack_window(&mut cubic, t0 + 594 * RTT, false);
        assert!(packets(&cubic) < before + 60, "{before} -> {}", packets(&cubic));

        let mut cubic = reduced(t0);
        cubic.on_spurious_loss(&loss(t0, LossCause::Timeout));
        assert!(packets(&cubic) < 1_280, "a time-out reduced nothing");
        cubic.on_spurious_loss(&loss(t0, LossCause::Gap));
        assert_eq!(packets(&cubic), 1_280);
        cubic.on_silence();
        assert_eq!(packets(&cubic), 2);
    }
}
