// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does an acknowledgement tell of packets, and of the round trip?

use std::time::{Duration, Instant};

use super::{Outcome, Recovery, MAX_TOLD_ELSEWHERE};
use crate::{
    congestion::{breaker::Delivered, AckSample, CeSample, LossSample, RttSample},
    error::Violation,
    sent::{Fate, LossCause},
    units::PacketNumber,
    wire::ack::Ack,
};

/// A silence is a stall if it is longer than so many probe time-outs. A shorter one costs one repetition.
const LEAST_STALL: u32 = 2;

impl Recovery {
    /// Takes an acknowledgement. `took_this_path`: only then it tells of the round trip (draft-ietf-quic-multipath,
    /// "Computing Path RTT").
    ///
    /// # Errors
    /// It acknowledges what was never sent.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        ack: &Ack,
        took_this_path: bool,
    ) -> Result<Outcome, Violation> {
        // A receiver names what has arrived, so an honest one names none, however old its acknowledgement is.
        let made_up =
            ack.ranges.iter().any(|&(start, end)| self.skipped_numbers.includes_any(start, end));
        if made_up || ack.largest() >= self.next_number() {
            return Err(Violation::AckOfUnsent);
        }
        self.judge_silence(now, ack);
        let in_flight_before = self.ledger.in_flight_bytes();
        let mut newly = NewlyAcked { took_this_path, ..NewlyAcked::default() };
        if took_this_path {
            self.sample_told_elsewhere(now, ack);
        }
        for &(start, end) in ack.ranges.iter().rev() {
            let mut from = start;
            while let Some(number) = self.ledger.next_open(from, end) {
                self.acknowledge(now, number, &mut newly);
                from = number + 1;
            }
        }
        let is_newest = self.largest_acked < Some(ack.largest());
        let next = self.next_number().0;
        let marks = self.ecn.on_counts(ack.ecn, newly.marked_here, is_newest, next);
        self.largest_acked = self.largest_acked.max(Some(ack.largest()));
        while self.tails.front().is_some_and(|&(number, _)| number <= ack.largest()) {
            self.tails.pop_front();
        }
        if let Some((number, sent_at, app_limited)) = newly.largest {
            self.end_silence(now);
            let of_this_path = number >= self.path_from;
            let is_sample = of_this_path && took_this_path && number == ack.largest();
            if took_this_path {
                self.outcome.delay = Some(now.saturating_duration_since(sent_at));
            }
            self.outcome.answers = true;
            self.outcome.acked_bytes = newly.bytes;
            self.outcome.needless_bytes = newly.needless_bytes;
            let rtt = is_sample.then(|| self.take_rtt(now, sent_at, ack.delay_us));
            let rtt = rtt.or_else(|| self.late_sample.take());
            if of_this_path && marks > 0 {
                self.controller.on_ce(&CeSample { now, packets: marks, sent_at });
            }
            if of_this_path && newly.bytes > 0 {
                let sample = AckSample {
                    now,
                    bytes: newly.bytes,
                    packets: newly.packets,
                    largest: number,
                    sent_at,
                    rtt,
                    smoothed_rtt: self.rtt.smoothed(),
                    in_flight_bytes: in_flight_before,
                    app_limited,
                };
                self.on_delivered(&sample, newly.longest);
            }
        }
        self.detect(now);
        self.prune(now);
        Ok(self.take_outcome())
    }

    fn end_silence(&mut self, now: Instant) {
        self.acked_at = Some(now);
        self.listen_until = None;
        self.pto_count = 0;
        self.is_overdue = false;
        self.probe_budget = None;
    }

    /// Tells the controller and the circuit breaker. `longest`: bytes of the longest packet.
    fn on_delivered(&mut self, sample: &AckSample, longest: u64) {
        self.controller.on_ack(sample);
        let sending = self.sending();
        if let Some(breaker) = &mut self.breaker {
            let &AckSample { now, bytes, packets, largest, .. } = sample;
            breaker.on_ack(now, Delivered { bytes, packets, longest, largest }, sending);
        }
    }

    /// An acknowledgement on this path is too late to be news: it still tells how long this path takes.
    fn sample_told_elsewhere(&mut self, now: Instant, ack: &Ack) {
        let largest = ack.largest();
        let told = self.told_elsewhere.iter().find(|(number, _)| *number == largest.0).copied();
        self.told_elsewhere.retain(|(number, _)| *number > largest.0);
        if let Some((_, sent_at)) = told.filter(|_| largest >= self.path_from) {
            self.outcome.delay = Some(now.saturating_duration_since(sent_at));
            self.late_sample = Some(self.take_rtt(now, sent_at, ack.delay_us));
        }
    }

    /// Takes the round-trip sample of a packet.
    fn take_rtt(&mut self, now: Instant, sent_at: Instant, delay_us: u64) -> RttSample {
        let delay = Duration::from_micros(delay_us.min(1_000_000));
        let (sample, slept) =
            (now.saturating_duration_since(sent_at), self.sleeps.unread_since(sent_at, now));
        self.rtt.update_over_sleep(sample, slept, delay)
    }

    fn acknowledge(&mut self, now: Instant, number: u64, newly: &mut NewlyAcked) {
        let before = self.ledger.set_fate(number, Fate::Acked);
        let contents = self.ledger.take_contents(number);
        let only_asks = contents.is_empty();
        self.outcome.acked.extend(contents);
        let Some(packet) = self.ledger.get(number) else { return };
        let (sent_at, bytes, app_limited) =
            (packet.sent_at, u64::from(packet.bytes), packet.departure.is_app_limited());
        if packet.departure.is_ect() {
            newly.marked_here |= self.ecn.on_acked(number);
        }
        if !newly.took_this_path {
            if self.told_elsewhere.len() == MAX_TOLD_ELSEWHERE {
                self.told_elsewhere.pop_front();
            }
            self.told_elsewhere.push_back((number, sent_at));
        }
        if let Some(Fate::Lost(_, cause)) = before {
            let largest = PacketNumber(number);
            let lost = LossSample { now, bytes, packets: 1, largest, sent_at, cause };
            self.on_spurious_loss(&lost);
        } else if number >= self.path_from.0 {
            newly.bytes += bytes;
            newly.longest = newly.longest.max(bytes);
            newly.packets += 1;
        }
        if number < self.moved_below.0 && !only_asks {
            newly.needless_bytes += bytes;
        }
        newly.largest = Some((PacketNumber(number), sent_at, app_limited));
    }

    /// What the first acknowledgement after a silence tells of it. If it is about a packet that left before the time-out,
    /// that one was late; had only its acknowledgement been lost, a later packet would be named (F-RTO, RFC 5682).
    fn judge_silence(&mut self, now: Instant, ack: &Ack) {
        let largest = ack.largest();
        let given_up = self
            .ledger
            .get(largest.0)
            .filter(|packet| matches!(packet.fate, Fate::Lost(_, LossCause::Timeout)));
        if self.pto_count > 0 && largest >= self.silent_from {
            self.stall = Duration::ZERO;
        } else if let Some(packet) = given_up {
            let read_late = self.sleeps.asleep_since(packet.sent_at);
            let late = now.saturating_duration_since(packet.sent_at + read_late);
            if late > LEAST_STALL * self.pto_base() {
                self.stall = self.stall.max(late * 5 / 4);
            }
        }
    }

    fn on_spurious_loss(&mut self, lost: &LossSample) {
        self.packets_spuriously_lost += 1;
        if lost.largest < self.path_from {
            return;
        }
        let largest_acked = self.largest_acked.unwrap_or_default();
        let distance = largest_acked.0.saturating_sub(lost.largest.0);
        // What nothing overtook was late with all the others: a longer delay, no reordering.
        if distance > 0 {
            let read_late = self.sleeps.asleep_since(lost.sent_at);
            let late = lost.now.saturating_duration_since(lost.sent_at + read_late);
            self.detector.on_spurious_loss(distance, late.saturating_sub(self.rtt.conservative()));
        }
        self.controller.on_spurious_loss(lost);
        if let Some(breaker) = &mut self.breaker {
            breaker.on_spurious_loss(lost.now, lost.bytes);
        }
    }
}

/// What one acknowledgement brought.
#[derive(Default)]
struct NewlyAcked {
    took_this_path: bool,
    /// One of them left as ECT(0) since the peer moved here.
    marked_here: bool,
    bytes: u64,
    longest: u64,
    /// Of packets whose contents also left on another path.
    needless_bytes: u64,
    packets: u64,
    largest: Option<(PacketNumber, Instant, bool)>,
}
