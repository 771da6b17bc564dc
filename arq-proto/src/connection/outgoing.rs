// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What goes out: lanes, which of them have something to send, and how much the peer takes.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::{
    config::ValidConfig,
    flow::SendCredit,
    per_lane::PerLane,
    redundancy::{
        bundle::Bundle,
        copies::CopyBudget,
        repair::{NoAck, Target, PACKETS_PER_TIME_OUT},
    },
    send::{
        lane::{Readiness, SendLane},
        queue::{Outlet, QueueLimits},
        scheduler::Scheduler,
        urgent::UrgentLane,
    },
    sent::Content,
    stats::Stats,
    symbol::{Symbol, SymbolRef},
    units::{LaneId, LaneSet, Reliability},
};

/// The sending half of a connection.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) lanes: PerLane<SendLane>,
    /// Lanes that may have a chunk to send.
    pub(super) pending: LaneSet,
    pub(super) scheduler: Scheduler,
    /// Small messages that may leave again in later packets.
    pub(super) bundle: Bundle,
    /// What copies of small urgent messages may take.
    pub(super) copies: CopyBudget,
    /// The lane for whose sake less urgent ones send short bursts.
    pub(super) urgent: UrgentLane,
    pub(super) credit: SendCredit,
    /// The peer takes repair symbols.
    pub(super) peer_takes_repair: bool,
    /// A message was longer than a packet: longer packets would be of use.
    pub(super) has_long_messages: bool,
    /// When the peer is told the time, although no message with a deadline leaves.
    pub(super) time_due_at: Instant,
    /// Where repair symbols are computed.
    pub(super) scratch: Vec<u8>,
}

impl Outgoing {
    pub(super) fn new(config: &ValidConfig, now: Instant) -> Self {
        let limits = QueueLimits::new(config);
        Self {
            lanes: PerLane::new(|id| SendLane::new(id, limits, repair_time(config, id))),
            pending: LaneSet::default(),
            scheduler: Scheduler::default(),
            bundle: Bundle::default(),
            copies: CopyBudget::default(),
            urgent: UrgentLane::default(),
            credit: SendCredit::new(config.connection_window_bytes.into()),
            peer_takes_repair: false,
            has_long_messages: false,
            time_due_at: now,
            scratch: Vec::new(),
        }
    }

    /// The peer grants each lane so much since the start.
    pub(super) fn set_lane_credit(&mut self, bytes: u64) {
        for lane in &mut self.lanes {
            lane.set_credit(bytes);
        }
    }

    /// Takes a message, for which there is room. `more`: the next one of the lane is a part of it.
    pub(super) fn push(&mut self, now: Instant, lane: LaneId, message: Bytes, more: bool) {
        self.lanes[lane].push(now, message, more);
        self.pending.insert(lane);
    }

    /// Whether an application waits for room in a lane.
    pub(super) fn is_blocked(&self) -> bool {
        self.lanes.iter().any(SendLane::is_blocked)
    }

    /// Lanes whose application waits for room, and now finds some.
    pub(super) fn writable(&mut self, now: Instant, outlet: impl Fn() -> Outlet) -> LaneSet {
        let mut writable = LaneSet::default();
        for id in LaneId::all() {
            let lane = &mut self.lanes[id];
            if lane.is_blocked() && lane.has_room(now, &outlet) {
                lane.on_told();
                writable.insert(id);
            }
        }
        writable
    }

    /// Bytes of messages that have not all arrived, as far as it is known.
    pub(super) fn buffered_bytes(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.buffered_bytes() as u64).sum()
    }

    /// Bytes that have not left for the first time.
    pub(super) fn queued_bytes(&self) -> usize {
        self.lanes.iter().map(SendLane::unsent_bytes).sum()
    }

    /// Whether everything has arrived or was given up.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(SendLane::is_empty)
    }

    /// Forgets all messages.
    pub(super) fn clear(&mut self) {
        for lane in &mut self.lanes {
            lane.clear();
        }
    }

    /// When the first best-effort message is to be given up.
    pub(super) fn expiry(&self) -> Option<Instant> {
        self.lanes.iter().filter_map(SendLane::expiry).min()
    }

    /// Gives up best-effort messages whose time is over.
    pub(super) fn expire(&mut self, now: Instant) {
        for lane in &mut self.lanes {
            lane.expire(now);
        }
    }

    /// Whether the peer should hear soon of messages that it need not wait for.
    pub(super) fn has_urgent_forget(&self) -> bool {
        self.lanes.iter().any(SendLane::has_urgent_forget)
    }

    /// Whether a reliable message has begun that the peer does not have yet.
    fn awaits_delivery(&self) -> bool {
        self.lanes.iter().any(SendLane::awaits_delivery)
    }

    /// The lanes that have a chunk which credit allows. Lanes without any are no longer looked at.
    pub(super) fn find_waiting(&mut self) -> LaneSet {
        let mut credit = self.credit.available();
        let mut waiting = LaneSet::default();
        for lane in self.pending.iter() {
            match self.lanes[lane].readiness(credit) {
                Readiness::Ready => waiting.insert(lane),
                Readiness::NoCredit => {}
                // What the peer grants next is for this lane: shorter messages of less urgent ones would take it all.
                // Unless nothing is under way that it could be granted for.
                Readiness::NoConnectionCredit if self.awaits_delivery() => credit = 0,
                Readiness::NoConnectionCredit => {}
                Readiness::Nothing => self.pending.remove(lane),
            }
        }
        waiting
    }

    /// Whether the next of the lanes in `waiting` is to send short bursts.
    pub(super) fn yields(&self, now: Instant, waiting: LaneSet) -> bool {
        let next = self.scheduler.pick(waiting);
        next.is_some_and(|next| self.urgent.is_ahead_of(now, next, &self.lanes))
    }

    /// A chunk left for the first time.
    pub(super) fn on_new_chunk(&mut self, now: Instant, lane: LaneId, at: SymbolRef) {
        self.has_long_messages |= matches!(at.symbol, Symbol::Source(1..));
        self.urgent.on_sent(now, lane, at.frame_len);
        if !self.lanes[lane].is_blocked() {
            self.copies.on_sent(lane, at.frame_len);
        }
    }

    /// Repairs these lanes as surely as `target` says.
    pub(super) fn repair(&mut self, damaged: LaneSet, target: Target) {
        for lane in damaged.iter() {
            if self.lanes[lane].repair(target, self.peer_takes_repair) {
                self.pending.insert(lane);
            }
        }
    }

    /// The acknowledgements of these are lost: their messages are suspect, that is, not as sure to be completed as it
    /// seemed.
    pub(super) fn on_acks_lost(
        &mut self,
        contents: impl IntoIterator<Item = Content>,
        target: Target,
    ) {
        if !self.peer_takes_repair {
            return;
        }
        let mut left = PACKETS_PER_TIME_OUT;
        let mut done = None;
        for content in contents {
            let Content::Symbol { lane, seq, .. } = content else { continue };
            // The symbols of a message lie side by side.
            if done.replace((lane, seq)) == Some((lane, seq)) {
                continue;
            }
            let symbols = self.lanes[lane].on_ack_lost(seq, target, left);
            if symbols > 0 {
                self.pending.insert(lane);
                left -= symbols;
            }
        }
    }

    /// Whether no acknowledgement means that it was lost, rather than what it would have acknowledged.
    pub(super) fn has_enough_in_flight(&self, chance: Target) -> bool {
        let enough = self.lanes.iter().filter_map(|lane| lane.has_enough_in_flight(chance));
        enough.reduce(|all, enough| all && enough).unwrap_or(false)
    }

    /// What it means that no ACK came about the packet with this content.
    pub(super) fn without_ack(&self, content: &Content, chance: Option<Target>) -> NoAck {
        match *content {
            Content::Symbol { lane, seq, .. } => self.lanes[lane].without_ack(seq, chance),
            Content::MaxData
            | Content::MaxLaneData(_)
            | Content::Forget(_)
            | Content::PathState(_)
            | Content::Close => NoAck::Wait,
        }
    }

    pub(super) fn fill(&self, now: Instant, stats: &mut Stats) {
        stats.queued_bytes = self.queued_bytes() as u64;
        stats.send_buffer_bytes = self.buffered_bytes();
        let ages = self.lanes.iter().map(|lane| lane.oldest_unsent_age(now));
        stats.queue_age = ages.max().unwrap_or_default();
        stats.messages_expired = self.lanes.iter().map(SendLane::expired).sum();
        self.lanes.iter().zip(&mut stats.lanes).for_each(|(lane, stats)| lane.fill(stats));
    }
}

/// How long messages of a lane are repaired, if it is best effort.
fn repair_time(config: &ValidConfig, id: LaneId) -> Option<Duration> {
    match id.reliability() {
        Reliability::Reliable => None,
        Reliability::BestEffort => config.deadline,
    }
}
