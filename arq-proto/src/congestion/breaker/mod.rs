// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does far more leave than arrives? A circuit breaker (RFC 8083: what is sent against what arrives, over seconds).
//!
//! A policer drops what exceeds its rate, and no round trip grows. A controller that excuses loss may feed it without end.
//! So losses have a budget in bytes: each byte that is delivered adds half a byte. The breaker opens when the budget is
//! spent, and limits the rate to what arrives. The limit says nothing of the path yet. It follows the best of several
//! [periods](Period) and grows after each that loses little, so a wrong one does little harm. Trials at lesser rates then
//! tell whether the rate or the medium makes the loss ([`limit`]).
//!
//! Losses that a radio or a host makes take little of the budget:
//!
//! | what | counts as |
//! |---|---|
//! | a burst | 20 packets at most |
//! | an outage, a peer that stands still: no acknowledgement tells of the loss | 16 packets at most |
//! | packets longer than what arrives | none |
//! | batches that are compared with single packets ([`batches`](crate::batches)) | none |
//! | one flight | the budget lasts for 200 ms at least |

mod limit;

use std::time::{Duration, Instant};

use limit::{Judged, Limit};

use super::bytes_of;
use crate::{
    batches::Burst,
    chance::share,
    sent::LossCause,
    units::{PacketNumber, Rate},
};

/// The budget at first, in packets: an overshoot of start-up on a thin path.
const BUDGET_PACKETS: u64 = 24;
/// And that of a fast path: what it may lose of the bytes that it delivers within so long.
const BUDGET_TIME: Duration = Duration::from_secs(1);
/// It is not spent in less time: one flight is no evidence, and damaged batches are found meanwhile.
const PATIENCE: Duration = Duration::from_millis(200);
/// Bytes that may be lost for each that arrives: a third of what is sent.
const TOLERANCE: f64 = 0.5;
/// The same, as a multiple of what the medium loses.
const MEDIUM_TOLERANCE: f64 = 2.0;
/// Packets lost in a row count as so many at most.
const MAX_RUN: u64 = 20;
/// And those of which no acknowledgement tells.
const MAX_UNTOLD: u64 = 16;
/// The longest of so many packets that arrived tells what is not too long.
const LENGTH_PACKETS: u64 = 24;
/// A period has so many packets; and so many that arrived, so much time, and so many round trips.
const PERIOD_PACKETS: u64 = 20;
const PERIOD_ARRIVED: u64 = 6;
const PERIOD_TIME: Duration = Duration::from_millis(100);
const PERIOD_ROUNDS: u32 = 2;
/// Where less arrives, it has so much time instead.
const LONG_PERIOD_TIME: Duration = Duration::from_secs(1);
/// Periods of which the best tells what arrives.
const PERIODS: usize = 4;
/// A packet each so often may leave, and one each round trip (RFC 8085 §3.1.2).
const LEAST_RATE_RTT: Duration = Duration::from_millis(50);

/// What the sender is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sending {
    /// The smoothed round trip.
    pub(crate) smoothed_rtt: Duration,
    /// The number that the next packet gets.
    pub(crate) next: PacketNumber,
    /// The rate that the controller wants.
    pub(crate) wanted: Rate,
}

/// What one acknowledgement newly acknowledged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivered {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// Bytes of the longest of them.
    pub(crate) longest: u64,
    pub(crate) largest: PacketNumber,
}

/// A packet that was declared lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lost {
    pub(crate) number: PacketNumber,
    pub(crate) bytes: u64,
    pub(crate) cause: LossCause,
    pub(crate) burst: Burst,
}

/// What became of packets for some time.
#[derive(Debug, Clone, Copy, Default)]
struct Period {
    began: Option<Instant>,
    acked_bytes: u64,
    acked: u64,
    lost: u64,
}

impl Period {
    fn packets(&self) -> u64 {
        self.acked + self.lost
    }

    fn lost_share(&self) -> f64 {
        share(self.lost as f64, self.packets() as f64)
    }

    fn time(&self, now: Instant) -> Duration {
        self.began.map_or(Duration::ZERO, |began| now.saturating_duration_since(began))
    }

    /// Whether it tells what arrives, and what is lost.
    fn is_over(&self, now: Instant, smoothed_rtt: Duration) -> bool {
        let time = self.time(now);
        let least = PERIOD_TIME.max(PERIOD_ROUNDS * smoothed_rtt);
        let tells = self.acked >= PERIOD_ARRIVED && time >= least || time >= LONG_PERIOD_TIME;
        self.packets() >= PERIOD_PACKETS && tells
    }
}

/// The circuit breaker of a sender.
#[derive(Debug, Clone)]
pub(crate) struct Breaker {
    mtu: u16,
    /// Bytes that may still be lost. Negative: what had left before the limit.
    budget: i64,
    tolerance: f64,
    /// When nothing of the budget was spent, and what became of packets since then.
    full_at: Instant,
    spending: Period,
    /// Bytes delivered lately, which fade.
    recent_bytes: f64,
    recent_at: Instant,
    last_lost: Option<PacketNumber>,
    run: u64,
    untold: u64,
    /// The longest packet that arrived of the last ones that were counted, and of those before.
    longest: [u64; 2],
    counted: u64,
    period: Period,
    /// What arrived in the last periods.
    arrived: [Rate; PERIODS],
    /// Packets before this one left at another rate.
    since: PacketNumber,
    limit: Option<Limit>,
    opened: u64,
}

impl Breaker {
    /// Closed, for datagrams of `mtu` bytes.
    pub(crate) fn new(mtu: u16, now: Instant) -> Self {
        let mut breaker = Self {
            mtu,
            budget: 0,
            tolerance: TOLERANCE,
            full_at: now,
            spending: Period::default(),
            recent_bytes: 0.0,
            recent_at: now,
            last_lost: None,
            run: 0,
            untold: 0,
            longest: [0; 2],
            counted: 0,
            period: Period::default(),
            arrived: [Rate::default(); PERIODS],
            since: PacketNumber(0),
            limit: None,
            opened: 0,
        };
        breaker.budget = breaker.full_budget();
        breaker
    }

    /// What may be sent at most, while it is open.
    pub(crate) fn limit(&self) -> Option<Rate> {
        self.limit.map(|limit| limit.rate())
    }

    /// The share of packets that the medium loses, once a lesser rate has lost less than the former one.
    pub(crate) fn medium_loss(&self) -> Option<f64> {
        self.limit.and_then(|limit| limit.medium_loss())
    }

    /// Whether packets leave one by one: nothing but their rate shall differ, and who loses batches need not be limited.
    pub(crate) fn wants_single_packets(&self) -> bool {
        match self.limit {
            None => self.budget < self.full_budget() / 2,
            Some(limit) => limit.is_tried(),
        }
    }

    /// Times that the budget was spent.
    pub(crate) fn times_opened(&self) -> u64 {
        self.opened
    }

    /// Nothing that was seen holds any more.
    pub(crate) fn forget(&mut self) {
        *self = Self { opened: self.opened, ..Self::new(self.mtu, self.recent_at) };
    }

    /// Packets now have up to `mtu` bytes.
    pub(crate) fn on_mtu(&mut self, mtu: u16) {
        let shrinks = mtu < std::mem::replace(&mut self.mtu, mtu);
        // Longer ones were lost for their length.
        if shrinks {
            self.forget();
        }
    }

    pub(crate) fn on_ack(&mut self, now: Instant, delivered: Delivered, sending: Sending) {
        self.untold = 0;
        self.longest[0] = self.longest[0].max(delivered.longest);
        self.count(delivered.packets);
        let age = now.saturating_duration_since(self.recent_at);
        self.recent_bytes *= (-age.as_secs_f64() / BUDGET_TIME.as_secs_f64()).exp();
        self.recent_bytes += delivered.bytes as f64;
        self.recent_at = now;
        self.spending.acked += delivered.packets;
        self.fill(now, (delivered.bytes as f64 * self.tolerance) as i64);
        if delivered.largest < self.since {
            return;
        }
        let began = *self.period.began.get_or_insert(now);
        // What made it begin had left before.
        if began < now {
            self.period.acked_bytes += delivered.bytes;
            self.period.acked += delivered.packets;
        }
        if self.period.is_over(now, sending.smoothed_rtt) {
            self.end_period(now, sending);
        }
    }

    /// Returns the rate that it now limits to, if that opens it.
    pub(crate) fn on_lost(&mut self, now: Instant, lost: Lost, sending: Sending) -> Option<Rate> {
        if !self.counts(lost) {
            return None;
        }
        self.count(1);
        self.budget -= lost.bytes as i64;
        self.spending.lost += 1;
        if lost.number >= self.since {
            self.period.began.get_or_insert(now);
            self.period.lost += 1;
        }
        let lasted = now.saturating_duration_since(self.full_at) >= PATIENCE;
        if self.budget >= 0 || !lasted || self.limit.is_some() {
            return None;
        }
        self.open(now, sending);
        self.limit()
    }

    /// A packet that was declared lost has arrived.
    pub(crate) fn on_spurious_loss(&mut self, now: Instant, bytes: u64) {
        self.fill(now, bytes as i64);
    }

    /// Whether this loss says something about the rate.
    fn counts(&mut self, lost: Lost) -> bool {
        let is_compared = matches!(lost.burst, Burst::Together(_));
        let [longest, longest_before] = self.longest;
        if is_compared || lost.bytes > longest.max(longest_before) {
            return false;
        }
        match lost.cause {
            LossCause::Gap => {
                let follows = self.last_lost.is_some_and(|last| last.0 + 1 == lost.number.0);
                self.run = if follows { self.run + 1 } else { 1 };
                self.last_lost = Some(lost.number);
                self.run <= MAX_RUN
            }
            LossCause::Timeout => {
                self.untold += 1;
                self.untold <= MAX_UNTOLD
            }
        }
    }

    /// Which length arrives is soon forgotten.
    fn count(&mut self, packets: u64) {
        self.counted += packets;
        if self.counted >= LENGTH_PACKETS {
            self.counted = 0;
            self.longest = [0, self.longest[0]];
        }
    }

    fn full_budget(&self) -> i64 {
        let least = bytes_of(BUDGET_PACKETS, self.mtu.into());
        least.max((self.recent_bytes * TOLERANCE) as u64) as i64
    }

    fn fill(&mut self, now: Instant, bytes: i64) {
        let full = self.full_budget();
        self.budget = (self.budget + bytes).min(full);
        if self.budget == full {
            self.full_at = now;
            self.spending = Period::default();
        }
    }

    fn least_rate(&self, sending: Sending) -> Rate {
        Rate::over(self.mtu.into(), sending.smoothed_rtt.max(LEAST_RATE_RTT)).unwrap_or_default()
    }

    /// The most that arrived in one of the last periods.
    fn best(&self) -> Rate {
        self.arrived.iter().copied().max().unwrap_or_default()
    }

    fn open(&mut self, now: Instant, sending: Sending) {
        let time = self.period.time(now).max(sending.smoothed_rtt);
        let running = Rate::over(self.period.acked_bytes, time).unwrap_or_default();
        let arrived = self.best().max(running);
        self.arrived = [Rate::default(); PERIODS];
        self.arrived[0] = arrived;
        self.opened += 1;
        let limit = Limit::new(arrived, self.least_rate(sending), self.spending.lost_share());
        self.set_limit(limit, sending);
    }

    fn close(&mut self, now: Instant, medium_loss: f64) {
        self.limit = None;
        self.tolerance = TOLERANCE.max(MEDIUM_TOLERANCE * limit::odds(medium_loss));
        self.budget = self.full_budget();
        self.full_at = now;
        self.spending = Period::default();
        self.period = Period::default();
    }

    fn set_limit(&mut self, limit: Limit, sending: Sending) {
        if self.limit.is_none_or(|before| before.rate() != limit.rate()) {
            self.since = sending.next;
            self.period = Period::default();
        }
        self.limit = Some(limit);
    }

    fn end_period(&mut self, now: Instant, sending: Sending) {
        let period = std::mem::take(&mut self.period);
        self.period.began = Some(now);
        self.arrived.rotate_right(1);
        self.arrived[0] = Rate::over(period.acked_bytes, period.time(now)).unwrap_or_default();
        let Some(limit) = self.limit else { return };
        let judged = Judged {
            lost: period.lost_share(),
            packets: period.packets() as f64,
            arrived: self.arrived[0],
            best: self.best(),
            least: self.least_rate(sending),
            wanted: sending.wanted,
        };
        match limit.after(judged) {
            Ok(next) => self.set_limit(next, sending),
            Err(medium_loss) => self.close(now, medium_loss),
        }
    }
}

#[cfg(test)]
mod tests;
