// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The receiver's side: what has arrived, and when is an acknowledgement due?
//!
//! At once when something is missing or asked for; otherwise thinned, because on a radio every
//! acknowledgement takes airtime from data.

use std::time::{Duration, Instant};

use crate::{
    ecn::{EcnCodepoint, EcnCounts},
    path_loss::PathLoss,
    range_set::RangeSet,
    units::{PacketNumber, PathNumber},
    wire::ack::Ack,
};

/// Ranges remembered: more than any acknowledgement can name (897: the largest number, and every second bit of the
/// longest bitmap), and a bound on memory.
const MAX_RANGES: usize = 1_024;
/// Acknowledgements per round trip.
const ACKS_PER_ROUND_TRIP: u64 = 16;
/// An ACK that covers so many packets has half a percent of their bytes, and a way back may carry only a hundredth of the way
/// here. Until ACKs cover that many they are rarer, down to [`MIN_ACKS_PER_ROUND_TRIP`]: one that queues on its way looks
/// to the sender like a slow path.
const CHEAP_ACK_PACKETS: u64 = 8;
const MIN_ACKS_PER_ROUND_TRIP: u64 = 8;
const MAX_PACKETS_PER_ACK: u64 = 32;
/// ACKs share the way back with data of our own. While that leaves, so many ACKs leave in a round trip.
const ACKS_BESIDE_DATA: u32 = 4;
/// An ACK that covers so many packets leaves in any case.
const PACKETS_PER_ACK_BESIDE_DATA: u64 = 16;
/// Who keeps nothing out of order tells at least so often what it has, while packets arrive.
const SILENT_FOR: Duration = Duration::from_secs(1);
/// Numbers that are missing at once and counted as lost: a longer gap is an outage, not loss.
const MAX_GAP_COUNTED: u64 = 64;
/// How far behind the largest number one may still arrive that is not counted as lost.
const MAX_LATE: u64 = 64;
/// How long what arrived is told again on other paths when somebody asks there.
const RETOLD_FOR: Duration = Duration::from_secs(1);

/// Whether a packet is news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    New,
    /// Received before, or so old that nobody waits for it.
    Duplicate,
}

/// Packets received and not yet acknowledged for good.
#[derive(Debug)]
pub(crate) struct AckManager {
    received: RangeSet,
    /// The sender no longer wants to hear of numbers below.
    floor: u64,
    largest: Option<(u64, Instant)>,
    /// Packets to be acknowledged since the last acknowledgement.
    unacked: u64,
    deadline: Option<Instant>,
    due: bool,
    /// When an ACK last left, or was first wanted.
    told_at: Option<Instant>,
    /// When data of our own last left, and how long its answer takes.
    data: Option<(Instant, Duration)>,
    /// A hole opened or closed since the last acknowledgement.
    gap: bool,
    /// Since it was last told on another path, something was added.
    untold: bool,
    max_delay: Duration,
    /// Packets per acknowledgement, from the rate of arrival.
    every: u64,
    round_start: Instant,
    round_packets: u64,
    /// Numbers below are counted as arrived or lost, in their order; the first to arrive is the first counted.
    counted: u64,
    /// With which codepoints packets have arrived.
    ecn: EcnCounts,
    /// When a mark last made an acknowledgement due.
    mark_told_at: Option<Instant>,
    /// How much of what the peer sends is lost.
    pub(crate) loss: PathLoss,
}

impl AckManager {
    pub(crate) fn new(max_delay: Duration, now: Instant) -> Self {
        Self {
            received: RangeSet::default(),
            floor: 0,
            largest: None,
            unacked: 0,
            deadline: None,
            due: false,
            told_at: None,
            data: None,
            gap: false,
            untold: false,
            max_delay,
            every: 1,
            round_start: now,
            round_packets: 0,
            counted: 0,
            ecn: EcnCounts::NONE,
            mark_told_at: None,
            loss: PathLoss::default(),
        }
    }

    /// What the next packet number is expected to be near.
    pub(crate) fn expected(&self) -> PacketNumber {
        PacketNumber(self.largest.map_or(0, |(largest, _)| largest + 1))
    }

    /// The number of a packet that names its low 32 bits; `None` if no packet may have it.
    pub(crate) fn expand(&self, truncated: u32) -> Option<PacketNumber> {
        Some(PacketNumber::expand(truncated, self.expected()))
            .filter(|&number| number < PacketNumber::MAX)
    }

    /// Whether `number` would be news.
    pub(crate) fn classify(&self, number: PacketNumber) -> Arrival {
        if number.0 < self.floor || self.received.contains(number.0) {
            Arrival::Duplicate
        } else {
            Arrival::New
        }
    }

    /// Records a packet that is news. `floor`: numbers below are settled for the sender.
    pub(crate) fn on_packet(
        &mut self,
        now: Instant,
        number: PacketNumber,
        floor: u64,
        ack: AckRequest,
        rtt: Duration,
        ecn: Option<EcnCodepoint>,
    ) {
        ecn.into_iter().for_each(|codepoint| self.ecn.add(codepoint));
        let gap = self.changes_gaps(number.0);
        self.pass_outage(number.0);
        self.received.insert(number.0);
        if self.largest.is_none_or(|(largest, _)| largest < number.0) {
            self.largest = Some((number.0, now));
        }
        self.floor = self.floor.max(floor.min(number.0));
        self.count_below(self.floor.max(self.expected().0.saturating_sub(MAX_LATE)));
        // What is forgotten cannot be told from a duplicate any more.
        self.floor = self.floor.max(self.received.trim(MAX_RANGES).unwrap_or(0));
        self.received.remove_below(self.floor);
        self.gap |= gap;
        if ack == AckRequest::No {
            return;
        }
        self.count_round(now, rtt);
        self.untold = true;
        self.unacked += 1;
        let tells_mark = ecn == Some(EcnCodepoint::Ce) && self.takes_mark(now, rtt);
        let earliest = self.earliest_beside_data(now);
        let is_enough = self.unacked >= self.every && earliest <= now;
        if ack == AckRequest::Now || self.gap || is_enough || tells_mark {
            self.due = true;
        } else if self.deadline.is_none() {
            self.deadline = Some(earliest.max(now + (rtt / 8).min(self.max_delay)));
        }
    }

    /// When an acknowledgement that is not urgent may leave.
    fn earliest_beside_data(&self, now: Instant) -> Instant {
        let data = self.data.filter(|(at, rtt)| now.saturating_duration_since(*at) < *rtt);
        match self.told_at.zip(data) {
            Some((at, (_, rtt))) if self.unacked < PACKETS_PER_ACK_BESIDE_DATA => {
                at + rtt / ACKS_BESIDE_DATA
            }
            _ => now,
        }
    }

    /// Data of our own leaves. `rtt`: how long its answer takes.
    pub(crate) fn on_data_sent(&mut self, now: Instant, rtt: Duration) {
        self.data = Some((now, rtt));
    }

    /// A packet arrived that is not kept. Its sender shall know that somebody listens, but each ACK delays its time-outs.
    pub(crate) fn on_discarded(&mut self, now: Instant) {
        if self.received.max().is_none() {
            return; // There is nothing to tell yet.
        }
        let told_at = *self.told_at.get_or_insert(now);
        self.due |= now.saturating_duration_since(told_at) >= SILENT_FOR;
    }

    /// Whether a mark is to be told at once. The sender heeds one in a round trip: the others can wait.
    fn takes_mark(&mut self, now: Instant, rtt: Duration) -> bool {
        let is_new = self.mark_told_at.is_none_or(|at| now.saturating_duration_since(at) >= rtt);
        if is_new {
            self.mark_told_at = Some(now);
        }
        is_new
    }

    /// Packets that have arrived with the mark of a queue.
    pub(crate) fn marks(&self) -> u64 {
        self.ecn.ce
    }

    /// Whether a packet opens a hole or closes one (part of one).
    fn changes_gaps(&self, number: u64) -> bool {
        number != self.expected().0
    }

    /// Passes over what is missing before `number` and need not be counted: a jump costs no more than a few losses.
    fn pass_outage(&mut self, number: u64) {
        if self.largest.is_none() {
            self.counted = number;
        }
        let outage = self.expected().0 + MAX_GAP_COUNTED;
        if number > outage {
            self.count_below(outage);
            self.counted = number;
        }
    }

    /// Counts the numbers below `end`: what has not arrived by now is lost. A missing number alone is no loss yet, it
    /// may have been overtaken.
    fn count_below(&mut self, end: u64) {
        for number in self.counted..end {
            self.loss.record(!self.received.contains(number));
        }
        self.counted = self.counted.max(end);
    }

    fn count_round(&mut self, now: Instant, rtt: Duration) {
        self.round_packets += 1;
        if now.saturating_duration_since(self.round_start) >= rtt {
            let usual = self.round_packets / ACKS_PER_ROUND_TRIP;
            let cheap = (self.round_packets / MIN_ACKS_PER_ROUND_TRIP).min(CHEAP_ACK_PACKETS);
            self.every = usual.max(cheap).clamp(1, MAX_PACKETS_PER_ACK);
            self.round_start = now;
            self.round_packets = 0;
        }
    }

    /// Whether an acknowledgement must be sent now.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// Whether there is anything new to acknowledge: a packet that leaves anyway takes it along.
    pub(crate) fn has_news(&self) -> bool {
        self.due || self.unacked > 0
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub(crate) fn on_deadline(&mut self) {
        self.deadline = None;
        self.due |= self.unacked > 0;
    }

    /// Whether another path should take along what arrived here: it is news there. `asked`: somebody waits for an
    /// answer there, who may not have heard what was said here of the last second.
    pub(crate) fn has_news_elsewhere(&self, now: Instant, asked: bool) -> bool {
        let lately = |(_, at)| now.saturating_duration_since(at) <= RETOLD_FOR;
        self.untold || asked && self.largest.is_some_and(lately)
    }

    /// Appends an acknowledgement to a packet that takes another path than `path`, as [`write`](Self::write) does to one of
    /// its own. That one is still due.
    pub(crate) fn write_elsewhere(
        &mut self,
        path: PathNumber,
        now: Instant,
        room: usize,
        out: &mut Vec<u8>,
    ) {
        let delay = self.delay_us(now);
        self.untold &= !Ack::encode_of_path(path, &self.received, delay, self.ecn, room, out);
    }

    fn delay_us(&self, now: Instant) -> u64 {
        let delay =
            self.largest.map_or(Duration::ZERO, |(_, at)| now.saturating_duration_since(at));
        u64::try_from(delay.as_micros()).unwrap_or(u64::MAX).min((1 << 30) - 1)
    }

    /// Appends an acknowledgement of everything in the window, if it fits into `room` bytes.
    pub(crate) fn write(&mut self, now: Instant, room: usize, out: &mut Vec<u8>) -> bool {
        if !Ack::encode(&self.received, self.delay_us(now), self.ecn, room, out) {
            return false;
        }
        self.told_at = Some(now);
        self.unacked = 0;
        self.due = false;
        self.gap = false;
        self.deadline = None;
        true
    }
}

/// How urgently a packet wants to be acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AckRequest {
    /// It carries nothing that needs it.
    No,
    /// Whenever it suits.
    Eventually,
    /// At once.
    Now,
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(16);

    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn t0() -> Instant {
        Instant::now()
    }

    fn receive(acks: &mut AckManager, now: Instant, number: u64, request: AckRequest) {
        acks.on_packet(now, PacketNumber(number), 0, request, RTT, None);
    }

    // ARQ-ACK-1, ARQ-ACK-2
    #[test]
    fn gaps_and_requests_are_answered_at_once_the_rest_is_thinned() {
        let t0 = t0();
        let mut acks = AckManager::new(Duration::from_millis(5), t0);
        // 64 packets in a round trip: from then on eight to an acknowledgement.
        for n in 0..64 {
            receive(&mut acks, t0 + Duration::from_micros(n * 253), n, AckRequest::Eventually);
            acks.write(t0, 1_000, &mut Vec::new());
        }
        receive(&mut acks, t0 + RTT, 64, AckRequest::Eventually);
        acks.write(t0 + RTT, 1_000, &mut Vec::new());
        receive(&mut acks, t0 + RTT, 65, AckRequest::Eventually);
        assert!(!acks.is_due() && acks.has_news());
        assert_eq!(acks.deadline(), Some(t0 + RTT + RTT / 8));
        receive(&mut acks, t0 + RTT, 66, AckRequest::Now);
        assert!(acks.is_due());
        acks.write(t0 + RTT, 1_000, &mut Vec::new());
        assert!(!acks.has_news() && acks.deadline().is_none());
        for n in [68, 67] {
            receive(&mut acks, t0 + RTT, n, AckRequest::Eventually);
            assert!(acks.is_due(), "a hole opens or closes at {n}");
            acks.write(t0 + RTT, 1_000, &mut Vec::new());
        }
        receive(&mut acks, t0 + RTT, 69, AckRequest::No);
        assert!(!acks.has_news(), "acknowledgements are not acknowledged");
    }

    // ARQ-ACK-2
    #[test]
    fn acks_cover_up_to_eight_packets_where_eight_of_them_are_left_in_a_round_trip() {
        for (packets, every) in
            [(1, 1), (15, 1), (16, 2), (64, 8), (128, 8), (160, 10), (1_000, 32)]
        {
            let t0 = t0();
            let mut acks = AckManager::new(Duration::from_millis(5), t0);
            for n in 0..packets - 1 {
                receive(&mut acks, t0, n, AckRequest::Eventually);
            }
            receive(&mut acks, t0 + RTT, packets - 1, AckRequest::Eventually);
            acks.write(t0 + RTT, 1_000, &mut Vec::new());
            let due_after = (1..).find(|n| {
                receive(&mut acks, t0 + RTT, packets - 1 + n, AckRequest::Eventually);
                acks.is_due()
            });
            assert_eq!(due_after, Some(every), "{packets} packets");
        }
    }

    // ARQ-ACK-2
    #[test]
    fn beside_data_an_ack_waits_for_a_quarter_of_a_round_trip_or_sixteen_packets() {
        let t0 = t0();
        let told = |now: Instant| {
            let mut acks = AckManager::new(Duration::from_millis(5), t0);
            receive(&mut acks, t0, 0, AckRequest::Eventually);
            acks.on_data_sent(t0, RTT);
            assert!(acks.write(t0, 1_000, &mut Vec::new()));
            receive(&mut acks, now, 1, AckRequest::Eventually);
            acks
        };
        let soon = t0 + RTT / 16;
        let mut acks = told(soon);
        assert!(!acks.is_due(), "each packet of so few is told otherwise");
        assert_eq!(acks.deadline(), Some(t0 + RTT / 4));
        (2..16).for_each(|n| receive(&mut acks, soon, n, AckRequest::Eventually));
        assert!(!acks.is_due());
        receive(&mut acks, soon, 16, AckRequest::Eventually);
        assert!(acks.is_due(), "sixteen packets");
        assert!(told(t0 + RTT / 4).is_due() && told(t0 + RTT).is_due());
        for (number, request) in [(2, AckRequest::Now), (3, AckRequest::Eventually)] {
            let mut acks = told(soon);
            receive(&mut acks, soon, number, request);
            assert!(acks.is_due(), "what is urgent does not wait");
        }
    }

    // ARQ-GBN-1
    #[test]
    fn while_packets_are_discarded_an_ack_leaves_each_second_once_there_is_something_to_tell() {
        let t0 = t0();
        let mut acks = AckManager::new(Duration::from_millis(5), t0);
        let discard_for_two_seconds = |acks: &mut AckManager, from: Instant| {
            acks.on_discarded(from);
            acks.on_discarded(from + 2 * SILENT_FOR);
            acks.is_due()
        };
        assert!(!discard_for_two_seconds(&mut acks, t0));
        receive(&mut acks, t0, 0, AckRequest::No);
        assert!(discard_for_two_seconds(&mut acks, t0));
        assert!(acks.write(t0 + 2 * SILENT_FOR, 1_000, &mut Vec::new()));
        acks.on_discarded(t0 + 2 * SILENT_FOR);
        assert!(!acks.is_due());
    }

    // ARQ-ECN-1
    #[test]
    fn a_mark_is_told_at_once_but_not_each() {
        let t0 = t0();
        let mut acks = AckManager::new(Duration::from_millis(5), t0);
        let due_after = |acks: &mut AckManager, number, at, codepoint| {
            // Many in a round trip: without a mark it would wait.
            acks.every = 32;
            let request = AckRequest::Eventually;
            acks.on_packet(at, PacketNumber(number), 0, request, RTT, codepoint);
            let due = acks.is_due();
            acks.write(at, 1_000, &mut Vec::new());
            due
        };
        let (ect, ce) = (Some(EcnCodepoint::Ect0), Some(EcnCodepoint::Ce));
        assert!(!due_after(&mut acks, 0, t0, ect));
        assert!(due_after(&mut acks, 1, t0, ce));
        assert!(!due_after(&mut acks, 2, t0 + RTT / 2, ce), "the round trip is not over");
        assert!(due_after(&mut acks, 3, t0 + RTT, ce));
        assert!(!due_after(&mut acks, 4, t0 + RTT, Some(EcnCodepoint::Ect1)));
        assert_eq!(acks.ecn, EcnCounts { ect0: 1, ect1: 1, ce: 3 });
    }

    // ARQ-NUM-2
    #[test]
    fn a_number_that_no_packet_may_have_is_not_taken() {
        let t0 = t0();
        let mut acks = AckManager::new(Duration::ZERO, t0);
        let last = PacketNumber(PacketNumber::MAX.0 - 1);
        acks.on_packet(t0, PacketNumber(last.0 - 1), last.0 - 1, AckRequest::No, RTT, None);
        assert_eq!(acks.expand(last.truncate()), Some(last));
        assert_eq!(acks.expand(PacketNumber::MAX.truncate()), None);
        acks.on_packet(t0, last, last.0, AckRequest::No, RTT, None);
        assert_eq!(acks.expand(PacketNumber::MAX.truncate()), None);
    }

    // ARQ-ACK-7, ARQ-NUM-4
    #[test]
    fn what_is_below_the_floor_is_old() {
        let t0 = t0();
        let mut acks = AckManager::new(Duration::ZERO, t0);
        acks.on_packet(t0, PacketNumber(100), 90, AckRequest::Eventually, RTT, None);
        assert_eq!(acks.classify(PacketNumber(89)), Arrival::Duplicate);
        assert_eq!(acks.classify(PacketNumber(90)), Arrival::New);
        assert_eq!(acks.classify(PacketNumber(100)), Arrival::Duplicate);
    }

    /// The estimate of who receives these numbers, from a sender that wants to hear of the last eight.
    fn upper_after(numbers: impl IntoIterator<Item = u64>) -> f64 {
        let t0 = t0();
        let mut acks = AckManager::new(Duration::ZERO, t0);
        for number in numbers {
            let floor = number.saturating_sub(8);
            acks.on_packet(t0, PacketNumber(number), floor, AckRequest::Eventually, RTT, None);
        }
        acks.loss.upper().as_f64()
    }

    // ARQ-LOS-3
    #[test]
    fn what_is_only_late_is_not_lost() {
        let t0 = t0();
        let mut acks = AckManager::new(Duration::ZERO, t0);
        for flight in 0..1_000 {
            for number in (flight * 10..flight * 10 + 10).rev() {
                receive(&mut acks, t0, number, AckRequest::Eventually);
            }
        }
        let mut nothing_lost = PathLoss::default();
        (0..10_000).for_each(|_| nothing_lost.record(false));
        assert_eq!(acks.loss.upper(), nothing_lost.upper());
        assert_eq!(acks.loss.calm(), nothing_lost.calm());
    }

    // ARQ-LOS-3
    #[test]
    fn what_is_lost_is_seen_as_soon_as_nobody_waits_for_it() {
        // Half of it: after 32 packets that arrive, and a sender that gives each up after eight.
        assert!(upper_after((0..32).map(|n| 2 * n)) > 0.45);
        let tenth = upper_after((0..200).filter(|n| n % 10 != 5));
        assert!((0.1..0.2).contains(&tenth), "{tenth}");
        // A sender that gives up nothing.
        let (t0, mut acks) = (t0(), AckManager::new(Duration::ZERO, t0()));
        (0..100).for_each(|n| receive(&mut acks, t0, 2 * n, AckRequest::Eventually));
        assert!(acks.loss.upper().as_f64() > 0.45);
    }

    // ARQ-LOS-3
    #[test]
    fn an_outage_counts_as_a_few_losses_however_long_it_is() {
        let up_to = |last| upper_after((0..1_000).chain([1_064, last]).chain(last + 1..last + 100));
        let (short, long) = (up_to(1_200), up_to(1 << 61));
        assert_eq!(short, long);
        // Every packet jumps: what it costs is bounded.
        assert_eq!(upper_after((0..10_000).map(|n| n << 40)), 0.5);
    }
}
