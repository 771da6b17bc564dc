// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What was carried in one round trip?
//!
//! A round runs from one acknowledgement to the first one of a packet that was sent after it. One
//! sample per round, not per acknowledgement: maxima over single acknowledgements are biased by
//! every irregularity of the wire. A round ends early where the application had no more to send:
//! a train of packets between two pauses tells the rate as well, if it is long enough.

use std::time::{Duration, Instant};

use super::tuning::{BURST_PACKETS, HOST_DELAY, LEAST_PACKETS, MIN_TRAIN_PACKETS};
use crate::{
    chance::share,
    congestion::{AckSample, LossSample, RttSample, SentSample},
    units::{PacketNumber, Rate},
};

/// What happened between two acknowledgements, a round trip apart.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Round {
    /// Packets acknowledged, and their bytes.
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Packets found missing, and their bytes.
    pub(super) lost_packets: u64,
    pub(super) lost_bytes: u64,
    /// Packets that queues have marked.
    pub(super) marked_packets: u64,
    /// From the first acknowledgement to the last.
    acked_over: Duration,
    /// From the sending of the first to the sending of the last, without the burst at the head.
    sent_over: Duration,
    /// The least round trip, if there was a sample: of those over which the host did not sleep, if there was one.
    pub(super) min_rtt: Option<Duration>,
    /// The application paused within it.
    pub(super) app_limited: bool,
    /// It ended where the application paused.
    pub(super) is_train: bool,
    /// The host slept within it, or while its first packet was under way.
    pub(super) slept: bool,
}

impl Round {
    /// Packets sent, whatever became of them.
    pub(super) fn sent_packets(&self) -> u64 {
        self.packets + self.lost_packets
    }

    /// Bytes sent, whatever became of them.
    pub(super) const fn sent_bytes(&self) -> u64 {
        self.bytes + self.lost_bytes
    }

    /// The share of what was sent that is missing.
    pub(super) fn lost_share(&self) -> f64 {
        share(self.lost_packets as f64, self.sent_packets() as f64)
    }

    /// The rate with which `bytes` of this round passed, never more than was sent: what a path holds
    /// back and then releases at once (Wi-Fi aggregation) is no rate.
    pub(super) fn rate_of(&self, bytes: u64) -> Option<Rate> {
        if self.is_train && self.sent_packets() < MIN_TRAIN_PACKETS {
            return None;
        }
        Rate::over(bytes, self.acked_over.max(self.sent_over))
    }

    /// Whether it left the sender faster than `rate`: then the path, not the application, decided
    /// how fast it arrived.
    pub(super) fn was_sent_above(&self, rate: Rate) -> bool {
        Rate::over(self.sent_bytes(), self.sent_over).is_none_or(|sent| sent > rate)
    }
}

/// A round under way.
#[derive(Debug, Clone, Copy)]
struct Open {
    since: Instant,
    first: PacketNumber,
    first_sent_at: Instant,
    /// The least round trip over which the host did not sleep.
    exact_rtt: Option<Duration>,
    /// What the others took at least.
    least_rtt: Option<Duration>,
    round: Round,
}

impl Open {
    fn take_rtt(&mut self, rtt: RttSample) {
        let exact = rtt.exact();
        let least = if exact.is_some() { &mut self.exact_rtt } else { &mut self.least_rtt };
        *least = (*least).into_iter().chain([rtt.least]).min();
        self.round.min_rtt = self.exact_rtt.or(self.least_rtt);
    }
}

/// Cuts the course of acknowledgements into rounds.
#[derive(Debug, Clone)]
pub(super) struct Rounds {
    next_number: PacketNumber,
    /// The last packet before a pause of the application.
    paused_after: Option<PacketNumber>,
    /// The host has slept since the packets before this one left.
    slept_before: PacketNumber,
    /// The round ends when this packet is acknowledged.
    end: PacketNumber,
    open: Option<Open>,
}

impl Rounds {
    pub(super) const fn new() -> Self {
        let first = PacketNumber(0);
        Self { next_number: first, paused_after: None, slept_before: first, end: first, open: None }
    }

    /// Between rounds, with the numbers going on.
    pub(super) const fn restarted(&self) -> Self {
        Self { end: self.next_number, open: None, ..*self }
    }

    /// The number that the next packet will have.
    pub(super) const fn next_number(&self) -> PacketNumber {
        self.next_number
    }

    pub(super) fn on_sent(&mut self, sample: &SentSample) {
        self.next_number = sample.number.next();
        if sample.app_limited {
            self.paused_after = Some(sample.number);
        }
    }

    /// The host slept: what was sent before comes back when it may.
    pub(super) fn on_sleep(&mut self) {
        self.slept_before = self.next_number;
    }

    /// Returns the round that this acknowledgement completes.
    pub(super) fn on_ack(&mut self, sample: &AckSample) -> Option<Round> {
        let flight_over = sample.app_limited && sample.in_flight_bytes <= sample.bytes;
        let Some(open) = &mut self.open else {
            if !flight_over {
                self.start(sample);
            }
            return None;
        };
        if let Some(rtt) = sample.rtt {
            open.take_rtt(rtt);
        }
        let round = &mut open.round;
        round.packets += sample.packets;
        round.bytes += sample.bytes;
        // Not only what acknowledgements tell: the packet before the pause may have been lost.
        round.app_limited |= self.paused_after >= Some(open.first);
        round.slept |= self.slept_before > open.first;
        round.acked_over = sample.now.saturating_duration_since(open.since);
        round.sent_over = sample.sent_at.saturating_duration_since(open.first_sent_at);
        if flight_over {
            round.is_train = true;
            let packets = round.sent_packets();
            if let Some(spaced) = packets.checked_sub(BURST_PACKETS).filter(|&spaced| spaced > 0) {
                let stretch = packets as f64 / spaced as f64;
                round.sent_over = round.sent_over.mul_f64(stretch);
            }
            return self.open.take().map(|open| open.round);
        }
        let complete = sample.largest >= self.end
            && round.sent_packets() >= LEAST_PACKETS
            && round.acked_over >= HOST_DELAY;
        if !complete {
            return None;
        }
        let round = *round;
        self.start(sample);
        Some(round)
    }

    pub(super) fn on_loss(&mut self, sample: &LossSample) {
        // Silence belongs to the round: a policer that swallows whole flights would otherwise never be
        // seen. A fade makes one slow round, which the maximum over several forgives.
        if let Some(open) = &mut self.open {
            open.round.lost_packets += sample.packets;
            open.round.lost_bytes += sample.bytes;
        }
    }

    /// Packets were marked.
    pub(super) fn on_ce(&mut self, packets: u64) {
        if let Some(open) = &mut self.open {
            open.round.marked_packets = open.round.marked_packets.saturating_add(packets);
        }
    }

    /// What was counted as lost has arrived after all.
    pub(super) fn on_spurious_loss(&mut self, sample: &LossSample) {
        let Some(Open { round, first, .. }) = &mut self.open else { return };
        round.lost_packets = round.lost_packets.saturating_sub(sample.packets);
        round.lost_bytes = round.lost_bytes.saturating_sub(sample.bytes);
        // An older one may have been excused in the round that lost it.
        if sample.largest >= *first {
            round.packets += sample.packets;
            round.bytes += sample.bytes;
        }
    }

    /// The rate that the round under way has shown already, as if it had taken `min_rtt` at least:
    /// acknowledgements that come together are no rate. `None` while it tells too little.
    pub(super) fn rate_so_far(&self, min_rtt: Duration) -> Option<Rate> {
        let round = &self.open.as_ref()?.round;
        let tells = round.sent_packets() >= MIN_TRAIN_PACKETS && !round.slept;
        let time = round.acked_over.max(round.sent_over).max(min_rtt).max(HOST_DELAY);
        Rate::over(round.bytes, time).filter(|_| tells)
    }

    fn start(&mut self, sample: &AckSample) {
        self.end = self.next_number;
        self.open = Some(Open {
            since: sample.now,
            first: sample.largest,
            first_sent_at: sample.sent_at,
            exact_rtt: None,
            least_rtt: None,
            round: Round::default(),
        });
    }
}
