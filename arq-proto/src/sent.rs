// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The ledger of packets sent: a ring indexed by packet number, O(1) for every operation.
//!
//! Each acknowledgement names all of the window that has arrived. A packet is *open* while its acknowledgement would be
//! news. Open packets are found without a look at the others: from each that is not open a stride leads towards the next
//! open one, and each walk makes the strides longer (a union-find with path compression).

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use smallvec::SmallVec;

use crate::{
    batches::Burst,
    path_mtu::Side,
    symbol::Symbol,
    units::{LaneId, MessageSeq, PacketNumber, PathNumber},
};

/// What a packet carried and must be told of its fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// A chunk or repair symbol of a message, which had been resegmented so often before.
    Symbol { lane: LaneId, seq: MessageSeq, segmentation: u8, symbol: Symbol },
    /// The connection's receive credit.
    MaxData,
    /// A lane's receive credit.
    MaxLaneData(LaneId),
    /// The messages of a lane that nobody need wait for.
    Forget(LaneId),
    /// What a path is to be used for.
    PathState(PathNumber),
    /// The end of the connection.
    Close,
}

/// Most packets carry one symbol; small messages share one.
pub(crate) type Contents = SmallVec<[Content; 2]>;

/// How a loss was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LossCause {
    /// Later packets were acknowledged.
    Gap,
    /// No ACK came for a probe time-out.
    Timeout,
}

/// What is known of a packet number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// On its way, as far as we know.
    InFlight,
    /// Acknowledged.
    Acked,
    /// Declared lost at this time, and why; may still turn out to have arrived.
    Lost(Instant, LossCause),
    /// Sent, and not counted: it asks for no acknowledgement, or its loss would say nothing about the path
    /// (RFC 9002 §2; probes of size and of another path).
    NeverInFlight,
    /// Never sent: an acknowledgement of it is made up.
    Skipped,
}

/// What was true of a packet when it left: one byte, since the ledger may hold many packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Departure(u8);

impl Departure {
    const APP_LIMITED: u8 = 1;
    const ECT: u8 = 2;

    /// `app_limited`: nothing followed that could leave. `ect`: it left as ECT(0).
    pub(crate) fn new(app_limited: bool, ect: bool) -> Self {
        let (limited, ect) = (u8::from(app_limited), u8::from(ect));
        Self((limited * Self::APP_LIMITED) | (ect * Self::ECT))
    }

    /// Whether the application, or a limit of the configuration's, kept more from following.
    pub(crate) const fn is_app_limited(self) -> bool {
        self.0 & Self::APP_LIMITED != 0
    }

    /// Whether it left as ECT(0).
    pub(crate) const fn is_ect(self) -> bool {
        self.0 & Self::ECT != 0
    }
}

/// A packet in the ledger.
#[derive(Debug, Clone)]
pub(crate) struct SentPacket {
    pub(crate) sent_at: Instant,
    pub(crate) bytes: u16,
    pub(crate) fate: Fate,
    pub(crate) departure: Departure,
    pub(crate) burst: Burst,
    pub(crate) side: Side,
    pub(crate) contents: Contents,
    pub(crate) stride: Stride,
}

/// How many packets in a row, from this one on, are known not to be open, if it is not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stride(u16);

impl Default for Stride {
    fn default() -> Self {
        Self(1)
    }
}

/// A packet whose fate is final.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) number: PacketNumber,
    pub(crate) bytes: u32,
    pub(crate) burst: Burst,
    pub(crate) side: Side,
    pub(crate) lost: bool,
}

impl SentPacket {
    /// Whether an acknowledgement of it would be news.
    fn is_open(&self) -> bool {
        matches!(self.fate, Fate::InFlight | Fate::Lost(..))
    }

    /// Whether a loss of it would be repaired: that of PING and FORGET is not.
    fn is_awaited(&self) -> bool {
        self.contents.iter().any(|content| !matches!(content, Content::Forget(_)))
    }
}

/// A lost packet is remembered for this long, if memory allows: an acknowledgement that comes late
/// because a queue has built up gives the round-trip sample that ends needless repairs.
const LOST_MEMORY: Duration = Duration::from_secs(15);
/// Packets remembered beside those of interest, and acknowledgements among those.
const MAX_REMEMBERED: u64 = 4_096;
/// Before the peer's first answer a packet that counts as lost may just wait, until so many packets follow it.
const OPEN_WHILE_UNHEARD: u64 = 256;
/// The peer decides when it answers, and until then may have every packet of its own acknowledged at once. So no
/// more packets than these follow the least unacked one, beside those of so many of the largest flights since the last
/// pause: a packet that was lost is waited for about three round trips.
const MAX_OPEN: u64 = 16_384;
const OPEN_FLIGHTS: u64 = 4;
/// No more than a few pings and acknowledgements are remembered in a pause.
const PAUSE_PACKETS: usize = 8;

/// Every packet number from the oldest of interest to the newest used.
#[derive(Debug, Default)]
pub(crate) struct SentLedger {
    base: u64,
    packets: VecDeque<SentPacket>,
    /// The oldest number whose fate the peer should still tell.
    least_unacked: u64,
    /// No packet below this number is in flight.
    first_in_flight: u64,
    in_flight_packets: u64,
    in_flight_bytes: u64,
    /// Packets in flight of which something would be repaired.
    awaited_packets: u64,
    /// Most packets in flight at once since the last pause, and most remembered.
    most_in_flight: u64,
    most: usize,
    /// Packets looked at by [`next_open`](Self::next_open).
    #[cfg(test)]
    steps: u64,
}

impl SentLedger {
    /// The number that the next packet gets.
    pub(crate) fn next_number(&self) -> PacketNumber {
        PacketNumber(self.base + self.packets.len() as u64)
    }

    /// The oldest number whose fate the peer should still tell.
    pub(crate) fn least_unacked(&self) -> PacketNumber {
        PacketNumber(self.least_unacked)
    }

    pub(crate) fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    pub(crate) fn in_flight_packets(&self) -> u64 {
        self.in_flight_packets
    }

    /// Whether nothing in flight would be repaired: PINGs just ask.
    pub(crate) fn only_asks(&self) -> bool {
        self.awaited_packets == 0
    }

    /// Records the packet that was given [`next_number`](Self::next_number).
    pub(crate) fn push(&mut self, packet: SentPacket) {
        if packet.fate == Fate::InFlight {
            if self.in_flight_packets == 0 {
                self.first_in_flight = self.next_number().0;
            }
            self.in_flight_packets += 1;
            self.most_in_flight = self.most_in_flight.max(self.in_flight_packets);
            self.in_flight_bytes += u64::from(packet.bytes);
            self.awaited_packets += u64::from(packet.is_awaited());
        }
        self.packets.push_back(packet);
        self.most = self.most.max(self.packets.len());
    }

    pub(crate) fn get(&self, number: u64) -> Option<&SentPacket> {
        self.packets.get(self.index(number)?)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut SentPacket> {
        let index = self.index(number)?;
        self.packets.get_mut(index)
    }

    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.base)?).ok()
    }

    /// The first open packet in `from..=to`.
    pub(crate) fn next_open(&mut self, from: u64, to: u64) -> Option<u64> {
        let first = self.index(from.max(self.base))?;
        let mut open = first;
        while let Some(packet) = self.packets.get(open).filter(|packet| !packet.is_open()) {
            open += usize::from(packet.stride.0);
            #[cfg(test)]
            (self.steps += 1);
        }
        // All that were passed lead there from now on.
        let mut passed = first;
        while passed < open {
            let stride = Stride(u16::try_from(open - passed).unwrap_or(u16::MAX));
            let before = std::mem::replace(&mut self.packets[passed].stride, stride);
            passed += usize::from(before.0);
        }
        let found = self.base + open as u64;
        (found <= to && found < self.next_number().0).then_some(found)
    }

    /// Changes what is known of a packet; returns what was known before.
    pub(crate) fn set_fate(&mut self, number: u64, fate: Fate) -> Option<Fate> {
        let packet = self.get_mut(number)?;
        let before = std::mem::replace(&mut packet.fate, fate);
        if before == Fate::InFlight {
            let (bytes, awaited) = (u64::from(packet.bytes), u64::from(packet.is_awaited()));
            self.in_flight_packets -= 1;
            self.in_flight_bytes -= bytes;
            self.awaited_packets -= awaited;
        }
        Some(before)
    }

    /// What a packet carried: once that is told, it is not kept.
    pub(crate) fn take_contents(&mut self, number: u64) -> Contents {
        self.get_mut(number).map(|packet| std::mem::take(&mut packet.contents)).unwrap_or_default()
    }

    /// The packets in flight, the oldest first.
    pub(crate) fn in_flight(&mut self) -> impl Iterator<Item = (u64, &SentPacket)> {
        // Numbers only ever leave the set of those in flight, so the cursor never goes back.
        while self.first_in_flight < self.next_number().0
            && self.get(self.first_in_flight).map(|packet| packet.fate) != Some(Fate::InFlight)
        {
            self.first_in_flight += 1;
        }
        let skip = usize::try_from(self.first_in_flight.saturating_sub(self.base)).unwrap_or(0);
        let first = self.base + skip as u64;
        (first..)
            .zip(self.packets.range(skip.min(self.packets.len())..))
            .filter(|(_, packet)| packet.fate == Fate::InFlight)
    }

    /// This packet and those before it that are remembered, with their numbers, the newest first.
    pub(crate) fn backwards_from(&self, number: u64) -> impl Iterator<Item = (u64, &SentPacket)> {
        let end = self.index(number + 1).unwrap_or(0).min(self.packets.len());
        (self.base..self.base + end as u64).rev().zip(self.packets.range(..end).rev())
    }

    /// Packets from the least unacked one on.
    fn open_packets(&self) -> u64 {
        self.next_number().0 - self.least_unacked
    }

    /// Whether so many packets follow the least unacked one that it cannot be waited for any longer: if it is in flight,
    /// it must be given up.
    pub(crate) fn is_crowded(&self) -> bool {
        self.open_packets() > MAX_OPEN + OPEN_FLIGHTS * self.most_in_flight
    }

    /// Passes the packets whose fate is known or was decided before `settled_before`, and forgets the oldest of those
    /// that were passed. Tells `on_settled` of each packet that was in flight, in the order of sending. `is_heard`: the
    /// peer has answered; before it does, what counts as lost may just wait.
    pub(crate) fn prune(
        &mut self,
        now: Instant,
        settled_before: Option<Instant>,
        is_heard: bool,
        mut on_settled: impl FnMut(Settled),
    ) {
        while let Some(packet) = self.get(self.least_unacked) {
            let (fate, bytes) = (packet.fate, packet.bytes.into());
            let (burst, side) = (packet.burst, packet.side);
            let settled = match packet.fate {
                Fate::Acked | Fate::Skipped => true,
                // The peer drops what lies below the least unacked one: an acknowledgement that was overtaken should
                // not be.
                Fate::NeverInFlight => {
                    let many = self.open_packets() > MAX_REMEMBERED;
                    many || settled_before.is_some_and(|limit| packet.sent_at < limit)
                }
                Fate::Lost(at, _) => {
                    let waits = !is_heard && self.open_packets() <= OPEN_WHILE_UNHEARD;
                    let over = !waits && settled_before.is_some_and(|limit| at < limit);
                    over || self.is_crowded()
                }
                Fate::InFlight => false,
            };
            if !settled {
                break;
            }
            let lost = matches!(fate, Fate::Lost(..));
            if lost || fate == Fate::Acked {
                let number = PacketNumber(self.least_unacked);
                on_settled(Settled { number, bytes, burst, side, lost });
            }
            self.least_unacked += 1;
        }
        while self.base < self.least_unacked {
            let Some(front) = self.packets.front() else { return };
            if let Fate::Lost(at, _) = front.fate {
                let recent = now.saturating_duration_since(at) < LOST_MEMORY;
                if recent && self.least_unacked - self.base <= MAX_REMEMBERED {
                    return;
                }
            }
            self.packets.pop_front();
            self.base += 1;
        }
        self.give_back();
    }

    /// Gives memory back that the flights since the last pause had no use for: what an idle
    /// connection keeps of a busy one is little, and flights of equal size cost no allocation.
    fn give_back(&mut self) {
        if self.packets.len() > PAUSE_PACKETS {
            return;
        }
        let most = self.most.max(PAUSE_PACKETS);
        if most < self.packets.capacity() / 4 {
            self.packets.shrink_to(2 * most);
        }
        self.most = 0;
        self.most_in_flight = self.in_flight_packets;
    }

    /// Forgets everything: nothing that was sent matters any more.
    pub(crate) fn clear(&mut self) {
        self.base = self.next_number().0;
        self.least_unacked = self.base;
        self.packets.clear();
        self.first_in_flight = self.base;
        self.in_flight_packets = 0;
        self.in_flight_bytes = 0;
        self.awaited_packets = 0;
        self.most_in_flight = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn packet(sent_at: Instant, fate: Fate) -> SentPacket {
        let (burst, contents) = (Burst::Single, Contents::new());
        let side = Side::Neither;
        SentPacket {
            sent_at,
            bytes: 100,
            fate,
            departure: Departure::default(),
            burst,
            side,
            contents,
            stride: Stride::default(),
        }
    }

    #[test]
    fn memory_follows_the_largest_flight_since_the_last_pause() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        let mut ledger = SentLedger::default();
        let mut flight = |packets| {
            (0..packets).for_each(|_| ledger.push(packet(t0, Fate::Acked)));
            ledger.prune(t0, None, true, |_| ());
            ledger.packets.capacity()
        };
        let large = flight(4_000);
        assert!(large >= 4_000);
        assert_eq!(flight(3_000), large, "used again");
        assert!(flight(1) <= 4 * PAUSE_PACKETS, "a ping needs no more");
        assert!(flight(4_000) >= 4_000);
    }

    /// Acknowledges all that is open of `ranges`, and tells which packets that were and how many others were looked at.
    fn acknowledge(ledger: &mut SentLedger, ranges: &[(u64, u64)]) -> (Vec<u64>, u64) {
        let (mut news, before) = (Vec::new(), ledger.steps);
        for &(start, end) in ranges {
            let mut from = start;
            while let Some(number) = ledger.next_open(from, end) {
                ledger.set_fate(number, Fate::Acked);
                news.push(number);
                from = number + 1;
            }
        }
        (news, ledger.steps - before)
    }

    // ARQ-ACK-8
    #[test]
    fn an_acknowledgement_looks_at_what_is_open_and_not_at_the_window() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        let mut ledger = SentLedger::default();
        let send = |ledger: &mut SentLedger| {
            let number = ledger.next_number().0;
            // Each tenth is lost; acknowledgements and a number that was skipped lie between.
            ledger.push(packet(
                t0,
                match number % 100 {
                    7 => Fate::NeverInFlight,
                    8 => Fate::Skipped,
                    _ => Fate::InFlight,
                },
            ));
            number
        };
        let ranges = |end: u64| (0..end / 10).map(|n| (10 * n + 1, 10 * n + 9)).collect::<Vec<_>>();
        (0..10_000).for_each(|_| _ = send(&mut ledger));
        let (news, _) = acknowledge(&mut ledger, &ranges(10_000));
        assert_eq!(news.len(), 9_000 - 200);
        // Whoever passes them for the first time takes a step for each.
        let (news, steps) = acknowledge(&mut ledger, &ranges(10_000));
        assert!(news.is_empty() && steps <= 9_000, "{steps} steps");
        // From then on ten more packets at a time: a step for each range, and for each of the new ones that is passed.
        for _ in 0..100 {
            (0..10).for_each(|_| _ = send(&mut ledger));
            let ranges = ranges(ledger.next_number().0);
            let (news, steps) = acknowledge(&mut ledger, &ranges);
            assert!((7..=9).contains(&news.len()), "{news:?}");
            assert!(steps <= ranges.len() as u64 + 20, "{steps} steps, {} ranges", ranges.len());
        }
        // What is open outside of them stays.
        assert_eq!(ledger.next_open(0, u64::MAX), Some(0));
        assert_eq!(ledger.next_open(1, 9), None);
        assert_eq!(ledger.next_open(1, 10), Some(10));
        assert_eq!(ledger.next_open(ledger.next_number().0 - 9, u64::MAX), None);
    }

    proptest! {
        // ARQ-ACK-8
        #[test]
        fn what_is_open_is_found_whatever_came_before(
            fates in prop::collection::vec(0_u8..4, 1..120),
            ranges in prop::collection::vec((0_u64..140, 0_u64..30), 0..40),
        ) {
            #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
            let t0 = Instant::now();
            let mut ledger = SentLedger::default();
            for fate in &fates {
                ledger.push(packet(t0, match fate {
                    0 => Fate::Skipped,
                    1 => Fate::NeverInFlight,
                    2 => Fate::Lost(t0, LossCause::Gap),
                    _ => Fate::InFlight,
                }));
            }
            let mut open: BTreeSet<u64> = (0..).zip(&fates).filter(|(_, fate)| **fate > 1).map(|(n, _)| n).collect();
            for (start, len) in ranges {
                let (news, _) = acknowledge(&mut ledger, &[(start, start + len)]);
                let expected: Vec<u64> = open.range(start..=start + len).copied().collect();
                prop_assert_eq!(&news, &expected);
                open.retain(|number| !expected.contains(number));
                ledger.prune(t0, None, true, |_| ());
            }
        }
    }

    // ARQ-ACK-8, ARQ-ERR-3
    #[test]
    fn a_packet_is_waited_for_no_longer_than_there_is_room_for_later_ones() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        let mut ledger = SentLedger::default();
        let push = |ledger: &mut SentLedger, packets: u64, fate| {
            (0..packets).for_each(|_| ledger.push(packet(t0, fate)));
            ledger.prune(t0, None, true, |_| ());
        };
        push(&mut ledger, 1, Fate::InFlight);
        push(&mut ledger, MAX_OPEN + OPEN_FLIGHTS - 1, Fate::NeverInFlight);
        assert!(!ledger.is_crowded());
        push(&mut ledger, 1, Fate::NeverInFlight);
        assert!(ledger.is_crowded());
        assert_eq!(ledger.least_unacked(), PacketNumber(0), "not past what is in flight");
        ledger.set_fate(0, Fate::Lost(t0, LossCause::Timeout));
        push(&mut ledger, 0, Fate::NeverInFlight);
        assert!(!ledger.is_crowded() && ledger.packets.len() as u64 <= MAX_REMEMBERED);
        // Behind a large flight there is room for as many packets as leave while it is repaired.
        let mut ledger = SentLedger::default();
        push(&mut ledger, 20_000, Fate::InFlight);
        (1..20_000).for_each(|number| assert!(ledger.set_fate(number, Fate::Acked).is_some()));
        push(&mut ledger, 60_000, Fate::NeverInFlight);
        assert!(!ledger.is_crowded());
    }

    // ARQ-ACK-8
    #[test]
    fn counts_what_is_in_flight_and_forgets_from_the_front() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        let mut ledger = SentLedger::default();
        for fate in
            [Fate::InFlight, Fate::Skipped, Fate::InFlight, Fate::NeverInFlight, Fate::InFlight]
        {
            ledger.push(packet(t0, fate));
        }
        assert_eq!(ledger.in_flight_bytes(), 300);
        assert_eq!(ledger.set_fate(2, Fate::Acked), Some(Fate::InFlight));
        assert_eq!(ledger.set_fate(2, Fate::Acked), Some(Fate::Acked));
        assert_eq!(ledger.set_fate(9, Fate::Acked), None);
        let mut settled = Vec::new();
        ledger.prune(t0, None, true, |packet| settled.push(packet.lost));
        assert_eq!(ledger.least_unacked(), PacketNumber(0));
        ledger.set_fate(0, Fate::Lost(t0, LossCause::Gap));
        assert_eq!(ledger.in_flight().map(|(n, _)| n).collect::<Vec<_>>(), [4]);
        ledger.prune(t0, Some(t0), true, |packet| settled.push(packet.lost));
        assert_eq!(ledger.least_unacked(), PacketNumber(0), "lost just now");
        ledger.prune(t0, Some(t0 + Duration::from_millis(1)), true, |packet| {
            settled.push(packet.lost)
        });
        assert_eq!((ledger.least_unacked(), ledger.base), (PacketNumber(4), 0));
        ledger.prune(t0 + LOST_MEMORY, None, true, |packet| settled.push(packet.lost));
        assert_eq!(settled, [true, false], "in the order of sending, each once");
        assert_eq!(ledger.base, 4);
        assert_eq!((ledger.in_flight_packets(), ledger.in_flight_bytes()), (1, 100));
    }
}
