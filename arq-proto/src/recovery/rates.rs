// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How fast may packets leave, and what is to be expected of those that do?

use std::time::{Duration, Instant};

use super::Recovery;
use crate::{
    congestion::breaker::{Breaker, Sending},
    pacing::Pacer,
    path_loss::PathLoss,
    redundancy::Channel,
    units::{Probability, Rate},
};

impl Recovery {
    /// When the pacer lets the next packet leave; `None` is now.
    pub(crate) fn pacing_delay(&mut self, now: Instant) -> Option<Instant> {
        let rate = self.pacing_rate();
        // Who sets a largest rate does not want bursts above it.
        let is_limited = self.max_rate.is_some() || self.limit().is_some();
        let burst = (!is_limited).then(|| self.controller.burst());
        let delay = self.pacer.delay_until(now, rate, burst);
        let capped = self.max_rate.zip(self.cap.as_mut());
        delay.max(capped.and_then(|(most, cap)| cap.delay_until(now, most, None)))
    }

    /// Whether packets that leave next are to leave in short bursts, where longer ones queue.
    pub(crate) fn shorten_bursts(&mut self, shortens: bool) {
        self.pacer.shorten_bursts(shortens && self.controller.bursts_queue());
    }

    /// Nothing waits for the pacer.
    pub(crate) fn rest(&mut self) {
        self.pacer.rest();
        self.cap.iter_mut().for_each(Pacer::rest);
    }

    pub(crate) fn pacing_rate(&self) -> Rate {
        let rate = self.wanted_rate();
        self.limit().map_or(rate, |limit| rate.min(limit))
    }

    /// The rate that the circuit breaker allows.
    pub(super) fn limit(&self) -> Option<Rate> {
        self.breaker.as_ref().and_then(Breaker::limit)
    }

    /// Other lengths are lost otherwise.
    pub(crate) fn on_chunk_size_change(&mut self) {
        self.breaker.iter_mut().for_each(Breaker::forget);
    }

    /// Whether the circuit breaker wants packets to leave one by one.
    pub(crate) fn wants_single_packets(&self) -> bool {
        self.breaker.as_ref().is_some_and(Breaker::wants_single_packets)
    }

    /// The rate that the controller wants.
    fn wanted_rate(&self) -> Rate {
        let rate = self.controller.pacing_rate().unwrap_or_else(|| {
            let window = self.controller.window();
            self.each_round_trip(window + window / 4)
        });
        self.max_rate.map_or(rate, |most| rate.min(most))
    }

    /// What the circuit breaker is told of this sender.
    pub(super) fn sending(&self) -> Sending {
        Sending {
            smoothed_rtt: self.rtt.smoothed(),
            next: self.next_number(),
            wanted: self.wanted_rate(),
        }
    }

    /// What the path carries, as far as it is known.
    pub(crate) fn carried_rate(&self) -> Rate {
        let measured = self.controller.carried_rate();
        let rate = measured.unwrap_or_else(|| self.each_round_trip(self.controller.window()));
        let rate = self.limit().map_or(rate, |limit| rate.min(limit));
        self.max_rate.map_or(rate, |most| rate.min(most))
    }

    /// Whether more is in flight than the path carries in its least round trip: what is added waits in its queue, and all
    /// that follows waits longer.
    pub(crate) fn fills_path(&self) -> bool {
        let product = self.carried_rate().bytes_in(self.rtt.min());
        self.in_flight_bytes() > product
    }

    fn each_round_trip(&self, bytes: u64) -> Rate {
        let round_trip = self.rtt.smoothed().max(Duration::from_micros(1));
        Rate::over(bytes, round_trip).unwrap_or(Rate::from_bytes_per_second(u64::MAX))
    }

    /// What the path does to packets, beside others that lose so much.
    pub(crate) fn channel<'a>(&self, others: impl Iterator<Item = &'a PathLoss>) -> Channel {
        if let Some(medium) = self.breaker.as_ref().and_then(Breaker::medium_loss) {
            // The rest is lost to the rate: more packets would be lost as well.
            return Channel::independent(Probability::from_f64(medium));
        }
        Channel {
            upper: self.loss.upper(),
            calm: self.loss.calm_beside(others),
            mean: self.loss.mean(),
            mean_run: self.loss.mean_run(),
            loses: self.loss.loses(),
        }
    }
}
