// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! When does a packet leave the bottleneck, and which packets does its queue refuse?
//!
//! A server with a drop-tail queue: one packet is in service, the others wait in order. Service times follow from the
//! packets' arrivals alone, not from when somebody looks, so a late wake-up never lowers the rate. How long a service takes
//! is the caller's to say: a function of its beginning and the packet's length that returns its end.

use std::collections::VecDeque;
use std::time::Duration;

/// The queue and the server, of items of any kind.
pub(super) struct Bottleneck<T> {
    waiting: VecDeque<(u32, T)>,
    waiting_bytes: u32,
    /// When the one in service is done.
    service: Option<(Duration, T)>,
}

impl<T> Bottleneck<T> {
    pub(super) fn new() -> Self {
        Self { waiting: VecDeque::new(), waiting_bytes: 0, service: None }
    }

    /// Whether the queue takes `len_bytes` more when it may hold `limit_bytes`.
    pub(super) fn has_room(&self, len_bytes: u32, limit_bytes: u32) -> bool {
        self.service.is_none() || self.waiting_bytes.saturating_add(len_bytes) <= limit_bytes
    }

    /// Takes an item at `now`; `finish` is asked if it goes into service at once.
    pub(super) fn push(
        &mut self,
        now: Duration,
        len_bytes: u32,
        item: T,
        finish: impl FnOnce(Duration, u32) -> Duration,
    ) {
        if self.service.is_none() {
            self.service = Some((finish(now, len_bytes), item));
            return;
        }
        self.waiting_bytes += len_bytes;
        self.waiting.push_back((len_bytes, item));
    }

    /// The next item whose service is over at `now`, and when it was; `finish` is asked about the one after it.
    pub(super) fn poll(
        &mut self,
        now: Duration,
        finish: impl FnOnce(Duration, u32) -> Duration,
    ) -> Option<(Duration, T)> {
        let (done, item) = self.service.take_if(|(done, _)| *done <= now)?;
        if let Some((len_bytes, next)) = self.waiting.pop_front() {
            self.waiting_bytes -= len_bytes;
            self.service = Some((finish(done, len_bytes), next));
        }
        Some((done, item))
    }

    /// When the one in service is done.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.service.as_ref().map(|(done, _)| *done)
    }
}

/// How long a packet takes at this rate.
pub(super) fn service_time(len_bytes: u32, rate_mbps: Option<f64>) -> Duration {
    // 1 Mb/s is one bit per microsecond.
    rate_mbps.map_or(Duration::ZERO, |rate| {
        Duration::from_secs_f64(f64::from(len_bytes) * 8.0 / rate / 1e6)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(rate_mbps: f64) -> impl Fn(Duration, u32) -> Duration {
        move |start, len_bytes| start + service_time(len_bytes, Some(rate_mbps))
    }

    #[test]
    fn packets_leave_one_after_another_at_the_rate() {
        let mut bottleneck = Bottleneck::new();
        for item in 0..3 {
            bottleneck.push(MS, 1000, item, at(8.0));
        }
        let left: Vec<_> = std::iter::from_fn(|| bottleneck.poll(10 * MS, at(8.0))).collect();
        assert_eq!(left, [(2 * MS, 0), (3 * MS, 1), (4 * MS, 2)]);
    }

    #[test]
    fn the_queue_refuses_what_does_not_fit_and_the_one_in_service_does_not_count() {
        let mut bottleneck = Bottleneck::new();
        assert!(bottleneck.has_room(1000, 0), "an idle server needs no queue");
        bottleneck.push(MS, 1000, 0, at(8.0));
        assert!(bottleneck.has_room(1000, 1000));
        bottleneck.push(MS, 1000, 1, at(8.0));
        assert!(!bottleneck.has_room(1, 1000));
    }

    #[test]
    fn a_new_rate_holds_from_the_next_packet_on() {
        let mut bottleneck = Bottleneck::new();
        bottleneck.push(MS, 1000, 0, at(8.0));
        bottleneck.push(MS, 1000, 1, at(8.0));
        assert_eq!(bottleneck.poll(9 * MS, at(4.0)), Some((2 * MS, 0)));
        assert_eq!(bottleneck.poll(9 * MS, at(4.0)), Some((4 * MS, 1)));
        assert_eq!(bottleneck.deadline(), None);
    }
}
