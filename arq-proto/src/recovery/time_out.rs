// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! When is silence long enough, and what follows from it? [`pto`] has the arithmetic,
//! [`redundancy::repair`](crate::redundancy::repair) the decisions.
//!
//! The probe time-out runs from the newest packet, so packets that leave meanwhile would put it off. The last packet
//! of a flight that holds something of a message's first round therefore has a timer of its own, for 32 flights at
//! most. It expires when a PTO has passed since that packet left, a round trip and the reordering window as well, and
//! that window since an acknowledgement last brought news. Then each message that lacks something, and has packets of
//! that flight in the air, is handled by what is known of it (ARQ-PTO-7):
//!
//! | message | its packets |
//! |---|---|
//! | one packet of 1,200 bytes at most, neither doubled nor repaired before | are lost, and repaired |
//! | independent losses; nothing acknowledged, or more in flight than chance can lose | an ACK is lost: suspect |
//! | otherwise, with a part acknowledged | are lost, and repaired |
//! | otherwise | are waited for: bursts make that an outage |
//!
//! A packet with several messages is lost as a whole if it is for one of them. These repairs stay within the window
//! and do not count as probes. They do not back off, so they stop while a probe is unanswered.
//!
//! For the same reason the first two probes only ask where more is in flight than chance can lose (ARQ-PTO-6).
//!
//! Radios stall as well: nothing arrives for seconds, and then everything does. What a time-out sends again waits behind
//! what it repeats. F-RTO (RFC 5682) tells a stall from an outage: its first ACK is about a packet that left before the
//! time-out. The next silence is then taken for another stall for as long as that packet took, and a quarter more:
//! probes only ask, and ends of flights are waited for. A silence that was an outage ends that (ARQ-PTO-10).

use std::time::{Duration, Instant};

use super::{pto, Outcome, Recovery};
use crate::{
    redundancy::repair::{NoAck, PACKETS_PER_TIME_OUT},
    sent::{Content, LossCause},
    units::Probability,
};

impl Recovery {
    /// When the silence after the last packet, or the one after the end of an earlier flight, is long enough.
    pub(crate) fn pto_deadline(&self, reverse: Probability) -> Option<Instant> {
        let silence = self.silence_deadline(reverse)?;
        Some(self.tail_deadline().map_or(silence, |tail| tail.min(silence)))
    }

    /// When the end of the earliest flight is silent. Not while acknowledgements come: its own may just
    /// be late.
    fn tail_deadline(&self) -> Option<Instant> {
        // Probes back off, these do not.
        if self.pto_count > 0 {
            return None;
        }
        let &(_, sent_at) = self.tails.front()?;
        let reordering = self.detector.reordering_window(&self.rtt);
        let due = sent_at + self.pto_base().max(self.rtt.conservative() + reordering);
        let pause = self.acked_at.map(|at| at + reordering);
        Some(due).max(pause).max(self.listen_until)
    }

    /// Whether it is all that was sent that is unanswered, and not only the end of an earlier flight.
    pub(crate) fn probe_is_due(&self, now: Instant, reverse: Probability) -> bool {
        self.silence_deadline(reverse).is_some_and(|deadline| deadline <= now)
    }

    fn silence_deadline(&self, reverse: Probability) -> Option<Instant> {
        if self.ledger.in_flight_packets() == 0 {
            return None;
        }
        let asked_at = self.asked_at?;
        let flat = pto::flat_count(self.loss.upper(), reverse);
        let silence = asked_at.saturating_duration_since(self.heard_at);
        let interval = pto::interval(self.pto_base(), self.pto_count, flat, silence);
        // Once something has been silent, an answer is waited for: until then only a few packets may leave.
        let nobody_waits = self.pto_count == 0 && self.ledger.only_asks() && !self.is_full();
        let patience = if nobody_waits { pto::MIN_PING_INTERVAL } else { Duration::ZERO };
        Some(asked_at + interval.max(patience)).max(self.listen_until)
    }

    /// The probe time-out without back-off.
    pub(crate) fn pto_base(&self) -> Duration {
        pto::base(&self.rtt, self.granularity)
    }

    /// Whether a time-out took what was not answered for lost, and no answer has come since. Not in what may be a stall: what
    /// it holds back is not repeated.
    pub(crate) fn is_overdue(&self) -> bool {
        self.is_overdue
    }

    /// Probe time-outs since the last acknowledgement.
    pub(crate) fn time_outs(&self) -> u32 {
        self.pto_count
    }

    /// For how long the peer has answered no probe: nothing, where the first one may still be answered.
    pub(crate) fn silence(&self, now: Instant) -> Duration {
        match self.pto_count {
            0 | 1 => Duration::ZERO,
            _ => now.saturating_duration_since(self.heard_at),
        }
    }

    /// Whether this silence is no longer than one after which everything arrived.
    pub(crate) fn may_be_stalled(&mut self, now: Instant) -> bool {
        self.unheard_since().is_some_and(|at| now.saturating_duration_since(at) < self.stall)
    }

    /// The tail was silent: everything in flight counts as lost and is repaired, not one or two
    /// packets of it. In a fade of the radio all of it is gone.
    ///
    /// `asks`: it is an ACK that is lost, rather than all that is in flight. Then the probe just asks, and messages in
    /// flight are suspect.
    pub(crate) fn on_pto(&mut self, now: Instant, reverse: Probability, asks: bool) -> Outcome {
        self.tails.clear();
        self.ecn.on_time_out(self.next_number().0);
        if self.pto_count == 0 {
            self.silent_from = self.next_number();
        }
        if asks {
            self.pto_count += 1;
            self.probe_due = true;
            // The next one is due a time-out after this, not after what it asks about.
            self.asked_at = Some(now);
            let in_flight = self.ledger.in_flight();
            let contents = in_flight.flat_map(|(_, packet)| packet.contents.iter().copied());
            self.outcome.suspect.extend(contents);
            return self.take_outcome();
        }
        self.is_overdue = true;
        let lost: Vec<u64> = self.ledger.in_flight().map(|(number, _)| number).collect();
        self.declare_lost(now, &lost, LossCause::Timeout);
        self.pto_count += 1;
        self.probe_due = true;
        self.probe_budget = Some(PACKETS_PER_TIME_OUT as u32);
        if self.pto_count > pto::flat_count(self.loss.upper(), reverse) && self.is_on_path() {
            self.controller.on_silence();
        }
        self.prune(now);
        self.take_outcome()
    }

    /// A flight's end is unanswered while later packets are under way. Their acknowledgements will tell of
    /// all before them, but a round trip after they left: what cannot wait counts as lost or suspect, as `judge` says.
    pub(crate) fn on_tail_time_out(
        &mut self,
        now: Instant,
        judge: impl Fn(&Content) -> NoAck,
    ) -> Outcome {
        let mut end = None;
        while self.tail_deadline().is_some_and(|deadline| deadline <= now) {
            end = self.tails.pop_front().map(|(number, _)| number);
        }
        let Some(end) = end else { return self.take_outcome() };
        let mut lost = Vec::new();
        for (number, packet) in self.ledger.in_flight().take_while(|&(number, _)| number <= end.0) {
            for content in &packet.contents {
                match judge(content) {
                    NoAck::Wait => {}
                    NoAck::Loss => lost.push(number),
                    NoAck::LostAck => self.outcome.suspect.push(*content),
                }
            }
        }
        lost.dedup();
        if !lost.is_empty() {
            self.is_overdue = true;
            self.declare_lost(now, &lost, LossCause::Timeout);
            self.prune(now);
        }
        self.take_outcome()
    }
}
