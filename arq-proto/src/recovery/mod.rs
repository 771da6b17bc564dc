// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which packets arrived and which are lost: wires the ledger, the round-trip estimate, the loss
//! detector and the probe time-out together. It names what was acknowledged and lost; what to do
//! about it is the lanes' affair.
//!
//! Requirements, numbered as in `docs/protocol.md`, to which the sections belong:
//!
//! - **ARQ-NUM-3** A sender SHOULD skip a number now and then, unpredictably (here after 64 to 127 packets, then at
//!   doubling distances up to 8,191), against optimistic ACKs (RFC 9000 §21.4).
//! - **ARQ-RTT-1** A newly acknowledged *largest* gives a sample: now minus its sending minus *delay*
//!   (ARQ-ACK-4), smoothed by RFC 9002 §5.3. A client's first sample is the CHALLENGE to its *attempt*. Initially
//!   100 ms with a variation of 50 ms are assumed, at a server at most the cookie's age in packet 0; a greater
//!   age is a sample.
//! - **ARQ-RTT-2** A side driven 5 ms to 1 s after a timer was due was stalled by its host; that is no round
//!   trip.
//! - **ARQ-LOS-1** A packet in flight is lost once a later one was acknowledged and either the largest
//!   acknowledged number is at least *threshold* (3) above it, or more than `max(smoothed, latest) + window` (an
//!   eighth of *smoothed*) has passed since its sending (RFC 9002 §6.1, RFC 8985 §6.2).
//! - **ARQ-LOS-2** Spurious losses raise both; 16 round trips with losses but no spurious one reset them.
//! - **ARQ-LOS-3** A sender estimates the loss of both directions, 1 to 50 %: from its packets, and from gaps in
//!   the numbers received.
//! - **ARQ-LOS-5** A chunk acknowledged after it was declared lost is not sent again.
//! - **ARQ-PTO-1** While anything is in flight, a timer runs from the newest ack-eliciting packet: `base =
//!   max(smoothed + max(4 * variation, granularity), 1 ms)`.
//! - **ARQ-PTO-2** When it expires, everything in flight counts as lost and is repaired. One packet, if need be a
//!   PING, leaves beyond the window; no more than 64 leave until an ACK arrives or nothing is in flight.
//! - **ARQ-ACK-5** A sender sets ACK_NOW in the last ack-eliciting packet for now (nothing more is ready, or the
//!   window is full), and in probes (ARQ-PTO-3).
//! - **ARQ-PTO-4** With the estimates of ARQ-LOS-3 a probe and its ACK fail with `f = 1 - (1 - pf)(1 - pr)`. The
//!   first `K0 = ceil(ln 0.001 / ln f)` probes, 1 to 12, keep *base*; then the interval doubles, up to 1 s (or
//!   *base*), in the first 5 s without a packet of the peer up to 250 ms (or four times *base*).
//! - **ARQ-PTO-5** More than K0 failed probes are *silence* of the peer.
//! - **ARQ-PTO-6** Where independent loss cannot explain the missing ACK, the first two probes only ask
//!   (ARQ-REP-8).
//! - **ARQ-PTO-7** The end of a flight has a timer of its own that later packets do not restart.
//! - **ARQ-PTO-8** Timers exclude stalls (ARQ-RTT-2).
//! - **ARQ-PTO-9** Where only PINGs and FORGETs are in flight, the first probe waits at least 250 ms.
//! - **ARQ-PTO-10** After a stall (a spurious time-out by F-RTO, RFC 5682) no time-out declares anything lost until the
//!   silence is a quarter longer than that stall. A time-out that was not spurious ends this.

mod acknowledgement;
pub(crate) mod ecn;
pub(crate) mod loss;
mod outcome;
mod path;
pub(crate) mod pto;
mod rates;
pub(crate) mod rtt;
pub(crate) mod skipped_numbers;
pub(crate) mod sleep;
pub(crate) mod time_out;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use rand_core::RngCore;

use ecn::Ecn;
use loss::{LossDetector, Verdict};
pub(crate) use outcome::Outcome;
use rtt::RttEstimator;
use skipped_numbers::SkippedNumbers;
use sleep::Sleeps;

use crate::{
    batches::Burst,
    config::ValidConfig,
    congestion::{
        self,
        breaker::{Breaker, Lost},
        Controller, LossSample, RttSample, SentSample,
    },
    observer::LostPacket,
    pacing::Pacer,
    path_loss::PathLoss,
    path_mtu::Side,
    sent::{Contents, Departure, Fate, LossCause, SentLedger, SentPacket, Stride},
    stats::Stats,
    units::{PacketNumber, Rate},
};

/// A reset, or a report, about a packet further back than this is out of date.
const PROOF_MEMORY_PACKETS: u64 = 1 << 16;
/// Flights at a time whose ends have a time-out of their own.
const MAX_TAILS: usize = 32;
/// Packets of which another path may tell before this one does.
const MAX_TOLD_ELSEWHERE: usize = 256;

/// The sender's view of the path.
#[derive(Debug)]
pub(crate) struct Recovery {
    ledger: SentLedger,
    /// The ledger forgets each as soon as all before it are settled.
    skipped_numbers: SkippedNumbers,
    rtt: RttEstimator,
    sleeps: Sleeps,
    detector: LossDetector,
    loss: PathLoss,
    pub(crate) ecn: Ecn,
    controller: Box<dyn Controller>,
    /// Limits what the controller wants, unless that is a constant.
    breaker: Option<Breaker>,
    /// Lets out what the controller counts: what is in flight.
    pacer: Pacer,
    /// Keeps all that leaves to the largest rate, if one is set.
    cap: Option<Pacer>,
    granularity: Duration,
    window_packets: Option<u32>,
    max_rate: Option<Rate>,
    largest_acked: Option<PacketNumber>,
    /// Packets before this one went over an earlier path: they are repaired like all others, but what becomes of
    /// them says nothing about this path. [`path::OFF_PATH`] while it is not known which one the peer is on.
    path_from: PacketNumber,
    /// Packets before this one also left on another path, since this one was silent: those that arrive made the copies
    /// needless.
    moved_below: PacketNumber,
    /// Packets before this one left before a silence was over, in which another path took over: those that are lost say nothing
    /// about what this path loses while it answers.
    forgiven_below: PacketNumber,
    /// Packets of which another path told first, and when they left: what this path says of them later is their round trip.
    told_elsewhere: VecDeque<(u64, Instant)>,
    /// A round trip that was learnt so, and not told the controller yet.
    late_sample: Option<RttSample>,
    loss_deadline: Option<Instant>,
    /// When the peer was last asked: the newest packet in flight left, or a time-out decided to ask again.
    asked_at: Option<Instant>,
    /// The last packets of flights, of which and of nothing later is heard yet, and when they left.
    tails: VecDeque<(PacketNumber, Instant)>,
    /// Nothing counts as silence before then: this host slept since the last acknowledgement.
    listen_until: Option<Instant>,
    /// When an acknowledgement last brought something new.
    acked_at: Option<Instant>,
    pto_count: u32,
    /// See [`is_overdue`](Self::is_overdue).
    is_overdue: bool,
    /// Packets that may still leave before an acknowledgement comes, after a probe time-out.
    probe_budget: Option<u32>,
    packets_lost: u64,
    packets_spuriously_lost: u64,
    /// What was declared lost and not told yet, if somebody wants to know.
    pub(crate) losses: Option<Vec<LostPacket>>,
    /// When something was last heard from the peer.
    heard_at: Instant,
    /// The number after those that were silent when the first probe of this silence was due.
    silent_from: PacketNumber,
    /// How long a silence may be taken for a stall: a quarter longer than the longest stall since the last outage.
    stall: Duration,
    /// What was found out and not told yet. Its buffers are filled for every acknowledgement.
    outcome: Outcome,
    mtu: u16,
    /// See [`is_probe_due`](Self::is_probe_due).
    probe_due: bool,
}

impl Recovery {
    pub(crate) fn new(
        config: &ValidConfig,
        mtu: u16,
        skipped_numbers: SkippedNumbers,
        now: Instant,
    ) -> Self {
        let max_rate = config.max_rate_bps.map(Rate::from_bits_per_second);
        Self {
            ledger: SentLedger::default(),
            skipped_numbers,
            rtt: RttEstimator::default(),
            sleeps: Sleeps::default(),
            detector: LossDetector::new(config.timer_granularity),
            loss: PathLoss::default(),
            ecn: Ecn::new(config.ecn && config.congestion.adapts()),
            controller: congestion::build(config.congestion, mtu, max_rate),
            breaker: config.congestion.adapts().then(|| Breaker::new(mtu, now)),
            pacer: Pacer::new(mtu, now),
            cap: max_rate.map(|_| Pacer::new(mtu, now)),
            granularity: config.timer_granularity,
            window_packets: config.window_packets,
            max_rate,
            largest_acked: None,
            path_from: PacketNumber(0),
            moved_below: PacketNumber(0),
            forgiven_below: PacketNumber(0),
            told_elsewhere: VecDeque::new(),
            late_sample: None,
            loss_deadline: None,
            asked_at: None,
            tails: VecDeque::new(),
            acked_at: None,
            listen_until: None,
            pto_count: 0,
            is_overdue: false,
            probe_budget: None,
            packets_lost: 0,
            packets_spuriously_lost: 0,
            losses: None,
            heard_at: now,
            silent_from: PacketNumber(0),
            stall: Duration::ZERO,
            outcome: Outcome::default(),
            mtu,
            probe_due: false,
        }
    }

    pub(crate) fn next_number(&self) -> PacketNumber {
        self.ledger.next_number()
    }

    /// How far the least packet whose fate the peer should still tell lies below the next one.
    pub(crate) fn least_unacked_offset(&self) -> u64 {
        self.next_number().0 - self.ledger.least_unacked().0
    }

    /// The round trip.
    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// The handshake has measured a round trip.
    pub(crate) fn on_handshake_rtt(&mut self, sample: Duration) {
        self.rtt.update(sample, Duration::ZERO);
    }

    /// The round trip is known to be no longer.
    pub(crate) fn assume_rtt_at_most(&mut self, bound: Duration) {
        self.rtt.assume_at_most(bound);
    }

    /// What the path loses.
    pub(crate) fn loss(&self) -> &PathLoss {
        &self.loss
    }

    /// Whether a probe must leave although there may be nothing to repair.
    pub(crate) fn is_probe_due(&self) -> bool {
        self.probe_due
    }

    /// Bytes that the controller allows in flight.
    pub(crate) fn window_bytes(&self) -> u64 {
        self.controller.window()
    }

    pub(crate) fn in_flight_bytes(&self) -> u64 {
        self.ledger.in_flight_bytes()
    }

    /// Whether nothing in flight would be repaired.
    pub(crate) fn only_asks(&self) -> bool {
        self.ledger.only_asks()
    }

    /// The number that this one stands for, if it was used lately: proof that a reset, or a report about the packet,
    /// is not made up.
    pub(crate) fn sent_lately(&self, truncated: u32) -> Option<PacketNumber> {
        let next = self.next_number();
        let number = PacketNumber::expand(truncated, next);
        (number < next && next.0 - number.0 <= PROOF_MEMORY_PACKETS).then_some(number)
    }

    /// Leaves the next number out if its turn has come.
    pub(crate) fn leave_out_number_if_due(&mut self, now: Instant, rng: &mut impl RngCore) {
        if !self.skipped_numbers.take(self.ledger.next_number(), rng) {
            return;
        }
        self.ledger.push(SentPacket {
            sent_at: now,
            bytes: 0,
            fate: Fate::Skipped,
            departure: Departure::default(),
            burst: Burst::Single,
            side: Side::Neither,
            contents: Contents::new(),
            stride: Stride::default(),
        });
    }

    /// Something may leave now: asked before [`window_allows`](Self::window_allows).
    pub(crate) fn on_time(&mut self, now: Instant) {
        self.controller.on_time(now);
    }

    /// Whether the controller and the window in packets allow another packet of `bytes`.
    pub(crate) fn window_allows(&self, bytes: u64) -> bool {
        let in_flight = self.ledger.in_flight_bytes();
        // With nothing in flight nobody would answer, and no timer runs.
        if in_flight == 0 {
            return true;
        }
        in_flight + bytes <= self.controller.window()
            && !self.is_full()
            && self.probe_budget != Some(0)
    }

    /// Whether the window in packets is full.
    fn is_full(&self) -> bool {
        self.window_packets.is_some_and(|most| self.ledger.in_flight_packets() >= most.into())
    }

    /// Whether the next packet leaves as ECT(0).
    pub(crate) fn marks_next(&mut self, in_flight: bool) -> bool {
        let may = in_flight && self.pto_count == 0 && self.is_on_path();
        self.ecn.mark_next(may)
    }

    /// Whether the configuration, not the controller, stops the next packet: what is delivered then
    /// says nothing about the path.
    fn is_capped(&self) -> bool {
        self.window_packets.is_some_and(|most| self.ledger.in_flight_packets() + 1 >= most.into())
    }

    /// Takes the packet that was given [`next_number`](Self::next_number). `app_limited`: it is all there was to send.
    pub(crate) fn on_sent(&mut self, mut packet: SentPacket) {
        let (now, number, bytes) = (packet.sent_at, self.next_number(), u64::from(packet.bytes));
        let in_flight = packet.fate == Fate::InFlight;
        self.cap.iter_mut().for_each(|cap| match in_flight {
            true => cap.on_sent(bytes),
            false => cap.owe(bytes),
        });
        let ect = packet.departure.is_ect();
        let app_limited =
            packet.departure.is_app_limited() || self.is_capped() || self.limit().is_some();
        packet.departure = Departure::new(app_limited, ect);
        if ect {
            self.ecn.on_sent(in_flight);
        }
        if in_flight {
            // Acknowledgements are not paced (RFC 9002 §7.7), and nobody tells of their delivery: were they paid for, a
            // controller would measure what they left over, and take that for the path's rate.
            self.pacer.on_sent(bytes);
            if self.ledger.in_flight_packets() == 0 {
                self.listen_until = None;
            }
            self.controller.on_sent(&SentSample { now, number, bytes, app_limited });
            self.asked_at = Some(now);
            self.probe_due = false;
            self.probe_budget = self.probe_budget.map(|budget| budget.saturating_sub(1));
        }
        self.ledger.push(packet);
        // Whoever only acknowledges hears of no acknowledgement that would prune the ledger.
        self.prune(now);
    }

    /// The packet was sent that ends a flight: nobody else makes the peer tell of it soon.
    pub(crate) fn on_tail(&mut self, now: Instant, number: PacketNumber) {
        // Those beyond wait for later packets, or the last one's time-out.
        if self.tails.len() < MAX_TAILS {
            self.tails.push_back((number, now));
        }
    }

    /// This side is driven again, after `driven_at`, and something was `due` meanwhile. If the host slept, that was no
    /// silence of the peer's.
    pub(crate) fn on_awake(&mut self, driven_at: Instant, due: Instant, now: Instant) {
        let Some(asleep) = self.sleeps.record(driven_at, due, now) else { return };
        self.controller.on_sleep();
        // Something may have been sent meanwhile, by whoever had a processor.
        let later = |at: Instant| (at + asleep).min(now);
        self.acked_at = self.acked_at.map(later);
        self.asked_at = self.asked_at.map(later);
        self.tails.iter_mut().for_each(|(_, at)| *at = later(*at));
        // The peer may live on the same starved machine: it gets that time, too, but once.
        let wait = asleep.min(self.pto_base());
        self.listen_until.get_or_insert(now + wait);
    }

    /// Whether to look every few milliseconds whether the host sleeps: other timers may be far ahead.
    pub(crate) fn watches_for_sleep(&self, now: Instant) -> bool {
        self.ledger.in_flight_packets() > 0 && self.sleeps.are_recent(now)
    }

    /// When something was last received on this path.
    pub(crate) fn heard_at(&self) -> Instant {
        self.heard_at
    }

    /// Anything authentic was received: the peer lives. Probing goes on until an acknowledgement
    /// comes: a peer that talks does not prove that it hears.
    pub(crate) fn on_heard(&mut self, now: Instant) {
        self.heard_at = now;
    }

    /// The time of [`loss_deadline`](Self::loss_deadline) has come.
    pub(crate) fn on_loss_timer(&mut self, now: Instant) -> Outcome {
        self.detect(now);
        self.take_outcome()
    }

    /// Declares lost what the detector finds lost, and notes when to look again.
    fn detect(&mut self, now: Instant) {
        self.loss_deadline = None;
        let Some(largest) = self.largest_acked else { return };
        let mut lost = Vec::new();
        for (number, packet) in self.ledger.in_flight() {
            if number >= largest.0 {
                break;
            }
            // What arrived during a sleep is read one by one after it.
            let sent_at = packet.sent_at + self.sleeps.asleep_since(packet.sent_at);
            match self.detector.judge(now, sent_at, largest.0 - number, &self.rtt) {
                Verdict::Lost => lost.push(number),
                // Later packets were sent later and lie closer to the largest: none is lost either.
                Verdict::LostAt(deadline) => {
                    self.loss_deadline = Some(deadline);
                    break;
                }
            }
        }
        if !lost.is_empty() {
            self.detector.on_loss_event(now, &self.rtt);
            self.declare_lost(now, &lost, LossCause::Gap);
            self.ecn.judge_test(self.next_number().0);
        }
    }

    fn declare_lost(&mut self, now: Instant, numbers: &[u64], cause: LossCause) {
        self.outcome.by_time_out |= cause == LossCause::Timeout;
        let (mut bytes, mut packets, mut newest) = (0, 0, None);
        let sending = self.sending();
        for &number in numbers {
            self.ledger.set_fate(number, Fate::Lost(now, cause));
            let Some(packet) = self.ledger.get(number) else { continue };
            self.outcome.lost.extend_from_slice(&packet.contents);
            if packet.departure.is_ect() {
                self.ecn.on_lost(number);
            }
            self.packets_lost += 1;
            if let Some(losses) = &mut self.losses {
                losses.push(LostPacket::new(number, packet.bytes, cause));
            }
            if number >= self.path_from.max(self.forgiven_below).0 {
                bytes += u64::from(packet.bytes);
                packets += 1;
                let number = PacketNumber(number);
                newest = newest.max(Some((number, packet.sent_at)));
                let (bytes, burst) = (packet.bytes.into(), packet.burst);
                if let Some(breaker) = &mut self.breaker {
                    let opened =
                        breaker.on_lost(now, Lost { number, bytes, cause, burst }, sending);
                    self.outcome.limited_to = opened.or(self.outcome.limited_to);
                }
            }
        }
        if let Some((largest, sent_at)) = newest {
            self.loss.on_first_sign();
            self.controller.on_loss(&LossSample { now, bytes, packets, largest, sent_at, cause });
        }
    }

    /// The peer does not decide how much is remembered until it answers: beyond that, what is oldest counts as lost.
    /// Nothing, if there is room.
    pub(crate) fn give_up_oldest(&mut self, now: Instant) -> Option<Outcome> {
        if !self.ledger.is_crowded() {
            return None;
        }
        self.prune(now);
        let mut given_up = false;
        while self.ledger.is_crowded() {
            // All but what is in flight was passed.
            self.declare_lost(now, &[self.ledger.least_unacked().0], LossCause::Timeout);
            self.prune(now);
            given_up = true;
        }
        given_up.then(|| self.take_outcome())
    }

    /// The peer is heard again, but from elsewhere: what it should have answered by now counts as lost.
    pub(crate) fn give_up_overdue(&mut self, now: Instant) -> Outcome {
        let delay = self.repair_delay();
        let is_overdue = |sent_at| sent_at + self.sleeps.asleep_since(sent_at) + delay <= now;
        let in_flight = self.ledger.in_flight();
        let overdue = in_flight.take_while(|(_, packet)| is_overdue(packet.sent_at));
        let overdue: Vec<u64> = overdue.map(|(number, _)| number).collect();
        if !overdue.is_empty() {
            self.declare_lost(now, &overdue, LossCause::Timeout);
        }
        self.take_outcome()
    }

    fn take_outcome(&mut self) -> Outcome {
        std::mem::take(&mut self.outcome)
    }

    /// Takes back what was acted upon, for its buffers.
    pub(crate) fn recycle(&mut self, mut outcome: Outcome) {
        debug_assert!(self.outcome.settled.is_empty(), "nothing leaves while it is acted upon");
        outcome.clear();
        self.outcome = outcome;
    }

    fn prune(&mut self, now: Instant) {
        // An acknowledgement later than this is not waited for.
        let settled_before = now.checked_sub(self.rtt.conservative() * 2);
        let is_heard = self.rtt.is_measured();
        let (loss, path_from) = (&mut self.loss, self.path_from);
        let forgiven_below = self.forgiven_below;
        let controller = &mut self.controller;
        let settled = &mut self.outcome.settled;
        self.ledger.prune(now, settled_before, is_heard, |packet| {
            let is_forgiven = packet.lost && packet.number < forgiven_below;
            if packet.number >= path_from && !is_forgiven {
                loss.record(packet.lost);
                controller.on_settled(packet.number, packet.lost);
                settled.push(packet);
            }
        });
    }

    /// What a lost message waits for.
    pub(crate) fn repair_delay(&self) -> Duration {
        self.rtt.conservative() + self.detector.reordering_window(&self.rtt)
    }

    /// When [`on_loss_timer`](Self::on_loss_timer) should look again.
    pub(crate) fn loss_deadline(&self) -> Option<Instant> {
        self.loss_deadline
    }

    pub(crate) fn largest_acked(&self) -> Option<PacketNumber> {
        self.largest_acked
    }

    /// Packets now have up to `mtu` bytes.
    pub(crate) fn set_mtu(&mut self, mtu: u16) {
        if std::mem::replace(&mut self.mtu, mtu) != mtu {
            self.pacer.set_mtu(mtu);
            self.cap.iter_mut().for_each(|cap| cap.set_mtu(mtu));
            self.controller.on_mtu(mtu);
            self.breaker.iter_mut().for_each(|breaker| breaker.on_mtu(mtu));
        }
    }

    /// Nothing sent before matters any more.
    pub(crate) fn forget_all(&mut self) {
        self.ledger.clear();
        self.outcome.settled.clear();
        self.loss_deadline = None;
    }

    pub(crate) fn fill(&self, stats: &mut Stats) {
        if self.rtt.is_measured() {
            stats.srtt = self.rtt.smoothed();
            stats.min_rtt = self.rtt.min();
            stats.rtt_variation = self.rtt.variation();
        }
        stats.packets_lost = self.packets_lost;
        stats.ecn = self.ecn.state();
        stats.packets_marked = self.ecn.marks();
        stats.packets_spuriously_lost = self.packets_spuriously_lost;
        stats.breaker_openings = self.breaker.as_ref().map_or(0, Breaker::times_opened);
        stats.host_sleeps = self.sleeps.count();
        stats.loss = self.loss.upper();
        // Burst lengths are small; the clamp bounds the cast.
        stats.loss_run_hundredths = (self.loss.mean_run() * 100.0).clamp(100.0, 1e6) as u32;
        stats.window_bytes = self.controller.window();
        stats.in_flight_bytes = self.in_flight_bytes();
        let rate = if self.rtt.is_measured() { self.pacing_rate() } else { Rate::default() };
        stats.pacing_bytes_per_sec = rate.bytes_per_second();
    }
}

#[cfg(test)]
mod tests;
