// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How many bytes may leave at once, after a pause?
//!
//! Pacing keeps packets apart that the path would queue. What it takes without a queue need not be
//! kept apart, and an application that sends a message now and then wants it to leave at once. So a
//! burst is an experiment: if the packets of its second half came back without a queue showing, the
//! path takes as much, and the next one may be twice as long (slow start, of bursts). If a queue
//! shows or more is lost than usual, it is cut to half and does not grow for a while.
//!
//! The first half of such a burst passed within the delay that would have shown as a queue, and
//! the time that the burst took to leave: a rate that the path has at least.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{
    loss::LossModel,
    path::MinRtt,
    tuning::{
        HELD_AFTER_LOSS, HOLD_ROUNDS, HOST_DELAY, IN_A_ROW, LEAST_PACKETS, MAX_BURST_BYTES,
        MAX_UNDER_WAY,
    },
};
use crate::{
    congestion::{AckSample, SentSample},
    units::{PacketNumber, Rate},
};

/// Packets that left at once.
#[derive(Debug, Clone, Copy)]
struct Burst {
    first: PacketNumber,
    began: Instant,
    /// From the first to the last of those that left within [`HOST_DELAY`].
    sent_over: Duration,
    /// Their numbers end before this one; between them are those of packets that only acknowledge.
    end: PacketNumber,
    packets: u64,
    bytes: u64,
    lost: u64,
    /// The last packet before the pause, once it has left.
    last: Option<PacketNumber>,
    /// The least round trip of the second half.
    least_rtt: Option<Duration>,
}

impl Burst {
    /// Whether `number` is one that left at once.
    fn holds(&self, number: PacketNumber) -> bool {
        (self.first..self.end).contains(&number)
    }

    fn middle(&self) -> PacketNumber {
        PacketNumber(self.first.0.midpoint(self.end.0))
    }
}

/// The learned length of a burst.
#[derive(Debug, Clone, Default)]
pub(super) struct Bursts {
    bytes: u64,
    hold: u64,
    bursts: VecDeque<Burst>,
    /// Bursts in a row that showed a queue.
    queued: u8,
}

impl Bursts {
    /// Whether bursts queue, and not by chance: the path gives no more.
    pub(super) const fn show_queue(&self) -> bool {
        self.queued >= IN_A_ROW
    }

    /// Bytes that may leave at once.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn on_sent(&mut self, sample: &SentSample) {
        if self.bursts.back().is_none_or(|burst| burst.last.is_some()) {
            if self.bursts.len() == MAX_UNDER_WAY {
                self.bursts.pop_front();
            }
            self.bursts.push_back(Burst {
                first: sample.number,
                began: sample.now,
                sent_over: Duration::ZERO,
                end: sample.number,
                packets: 0,
                bytes: 0,
                lost: 0,
                last: None,
                least_rtt: None,
            });
        }
        let Some(burst) = self.bursts.back_mut() else { return };
        let after = sample.now.saturating_duration_since(burst.began);
        if after <= HOST_DELAY {
            burst.sent_over = after;
            burst.end = PacketNumber(sample.number.0 + 1);
            burst.packets += 1;
            burst.bytes += sample.bytes;
        }
        if sample.app_limited {
            burst.last = Some(sample.number);
        }
    }

    /// Takes what an acknowledgement says about bursts. Returns the rate that a burst has shown the
    /// path to have at least.
    pub(super) fn on_ack(
        &mut self,
        sample: &AckSample,
        min_rtt: &MinRtt,
        loss: &LossModel,
    ) -> Option<Rate> {
        let number = sample.largest;
        let mut shown = None;
        while let Some(burst) = self.bursts.front_mut() {
            let Some(last) = burst.last else { return shown };
            // What left later, at its own pace, tells nothing of the burst; unless nothing else was acknowledged.
            let of_second_half = number < burst.end || burst.least_rtt.is_none();
            if (burst.middle()..=last).contains(&number) && of_second_half {
                burst.least_rtt =
                    burst.least_rtt.into_iter().chain(sample.rtt.map(|rtt| rtt.most)).min();
            }
            if number < last {
                return shown;
            }
            let burst = *burst;
            self.bursts.pop_front();
            shown = shown.max(self.judge(&burst, min_rtt, loss));
        }
        shown
    }

    pub(super) fn on_loss(&mut self, largest: PacketNumber, packets: u64) {
        if let Some(burst) = self.bursts.iter_mut().find(|burst| burst.holds(largest)) {
            burst.lost += packets;
        }
    }

    fn judge(&mut self, burst: &Burst, min_rtt: &MinRtt, loss: &LossModel) -> Option<Rate> {
        let (least_rtt, tested) = (burst.least_rtt?, burst.bytes);
        if burst.packets < LEAST_PACKETS {
            return None;
        }
        if loss.is_beyond_chance(burst.lost.min(burst.packets), burst.packets) {
            self.bytes = self.bytes.min(tested) / 2;
            self.hold = HELD_AFTER_LOSS;
            return None;
        }
        if min_rtt.may_show_queue(least_rtt) {
            self.bytes = self.bytes.min(tested / 2);
            self.hold = HOLD_ROUNDS;
            self.queued = self.queued.saturating_add(1);
            return None;
        }
        self.queued = 0;
        if self.hold > 0 {
            self.hold -= 1;
        } else {
            self.bytes = self.bytes.max(2 * tested).min(MAX_BURST_BYTES);
        }
        let within = min_rtt.queue_shown_from()? + burst.sent_over;
        Rate::over(tested / 2, within)
    }

    /// What was under way will not be judged: nobody knows when it came back.
    pub(super) fn abandon(&mut self) {
        self.bursts.clear();
    }

    /// The path is another, or unknown again.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::RttSample;

    const MS: Duration = Duration::from_millis(1);
    const RTT: Duration = Duration::from_millis(20);
    const MTU: u64 = 1_200;

    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn t0() -> Instant {
        Instant::now()
    }

    struct Path {
        bursts: Bursts,
        now: Instant,
        next: u64,
        min_rtt: MinRtt,
        loss: LossModel,
    }

    impl Path {
        fn new() -> Self {
            let (now, mut min_rtt) = (t0(), MinRtt::new());
            min_rtt.update(now, RTT);
            Self { bursts: Bursts::default(), now, next: 0, min_rtt, loss: LossModel::new() }
        }

        /// Sends so many packets at once, of which so many are lost, and whose last one waits in a
        /// queue for so long. Returns the rate that this has shown.
        fn burst(&mut self, packets: u64, lost: u64, queue: Duration) -> Option<Rate> {
            let number = |n| PacketNumber(self.next + n);
            for n in 0..packets {
                let app_limited = n + 1 == packets;
                self.bursts.on_sent(&SentSample {
                    now: self.now,
                    number: number(n),
                    bytes: MTU,
                    app_limited,
                });
            }
            self.bursts.on_loss(number(packets / 2), lost);
            self.now += RTT + queue;
            let ack = AckSample {
                now: self.now,
                bytes: packets * MTU,
                packets,
                largest: number(packets - 1),
                sent_at: self.now - RTT - queue,
                rtt: Some(RttSample { least: RTT + queue, most: RTT + queue }),
                smoothed_rtt: RTT + queue,
                in_flight_bytes: packets * MTU,
                app_limited: true,
            };
            self.next += packets;
            self.bursts.on_ack(&ack, &self.min_rtt, &self.loss)
        }
    }

    // ARQ-CC-9
    #[test]
    fn a_burst_that_queues_nowhere_may_be_twice_as_long() {
        let mut path = Path::new();
        assert_eq!(path.bursts.bytes(), 0);
        // 3 ms are no queue yet: half of ten packets in that time.
        assert_eq!(path.burst(10, 0, MS), Rate::over(5 * MTU, 3 * MS));
        assert_eq!(path.bursts.bytes(), 20 * MTU);
        path.burst(20, 0, MS);
        assert_eq!(path.bursts.bytes(), 40 * MTU);
        // Shorter ones show nothing new, tiny ones nothing at all.
        path.burst(10, 0, MS);
        assert_eq!(path.burst(3, 0, Duration::ZERO), None);
        assert_eq!(path.bursts.bytes(), 40 * MTU);
        for _ in 0..10 {
            path.burst(200, 0, MS);
        }
        assert_eq!(path.bursts.bytes(), MAX_BURST_BYTES);
    }

    // ARQ-CC-9
    #[test]
    fn a_burst_of_small_packets_shows_as_many_bytes_as_it_has() {
        let mut path = Path::new();
        // Between them are acknowledgements, of which controllers learn nothing.
        for n in 0..10 {
            let (now, number, app_limited) = (path.now, PacketNumber(2 * n), n == 9);
            path.bursts.on_sent(&SentSample { now, number, bytes: 60, app_limited });
        }
        let burst = *path.bursts.bursts.front().unwrap();
        assert_eq!((burst.packets, burst.bytes, burst.middle()), (10, 600, PacketNumber(9)));
        assert!(burst.holds(PacketNumber(18)) && !burst.holds(PacketNumber(19)));
        let judged =
            path.bursts.judge(&Burst { least_rtt: Some(RTT), ..burst }, &path.min_rtt, &path.loss);
        assert_eq!((judged, path.bursts.bytes()), (Rate::over(300, 3 * MS), 1_200));
    }

    // ARQ-CC-9
    #[test]
    fn a_queue_or_loss_cuts_it_and_nothing_grows_for_a_while() {
        for (lost, queue, hold) in [(0, 4 * MS, HOLD_ROUNDS), (35, MS, HELD_AFTER_LOSS)] {
            let mut path = Path::new();
            path.burst(20, 0, MS);
            assert_eq!(path.burst(40, lost, queue), None, "nothing is shown by that");
            assert_eq!(path.bursts.bytes(), 20 * MTU);
            for _ in 0..hold {
                path.burst(20, 0, MS);
                assert_eq!(path.bursts.bytes(), 20 * MTU);
            }
            path.burst(20, 0, MS);
            assert_eq!(path.bursts.bytes(), 40 * MTU);
        }
    }

    // ARQ-CC-9
    #[test]
    fn what_was_paced_says_nothing_about_bursts() {
        let mut path = Path::new();
        for n in 0..100 {
            let number = PacketNumber(n);
            let app_limited = n == 99;
            path.bursts.on_sent(&SentSample { now: path.now, number, bytes: MTU, app_limited });
            path.now += MS / 10;
        }
        assert_eq!(path.bursts.bursts.front().map(|burst| burst.packets), Some(11));
    }

    // ARQ-CC-9
    #[test]
    fn what_follows_a_burst_at_its_own_pace_does_not_hide_its_queue() {
        let mut path = Path::new();
        for n in 0..60 {
            let (number, app_limited) = (PacketNumber(n), n == 59);
            path.bursts.on_sent(&SentSample { now: path.now, number, bytes: MTU, app_limited });
            path.now += if n < 20 { Duration::ZERO } else { 2 * MS };
        }
        let mut acknowledge = |number, rtt| {
            let sample = AckSample {
                now: path.now,
                bytes: MTU,
                packets: 1,
                largest: PacketNumber(number),
                sent_at: path.now - rtt,
                rtt: Some(RttSample { least: rtt, most: rtt }),
                smoothed_rtt: rtt,
                in_flight_bytes: MTU,
                app_limited: number == 59,
            };
            path.bursts.on_ack(&sample, &path.min_rtt, &path.loss)
        };
        assert_eq!(acknowledge(19, RTT + 8 * MS), None);
        assert_eq!(acknowledge(59, RTT), None, "the burst has waited for 8 ms");
    }
}
