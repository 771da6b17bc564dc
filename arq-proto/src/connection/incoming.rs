// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What comes in: lanes, the age of their messages, and how much more the peer may send.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::{
    config::{ValidConfig, MIN_WINDOW_BYTES},
    error::Violation,
    flow::Granted,
    per_lane::PerLane,
    recv::{
        age::Ages,
        lane::{Received, ReceivedSymbol, RecvLane},
        spare::Spare,
    },
    sent::Content,
    stats::Stats,
    units::{LaneId, LaneSet, MessageSeq, Reliability},
    wire::frame::Frame,
};

/// The receiving half of a connection.
#[derive(Debug)]
pub(super) struct Incoming {
    lanes: PerLane<RecvLane>,
    ages: Ages,
    granted: Granted,
    lane_granted: PerLane<Granted>,
    /// The connection's window, in bytes.
    window: u64,
    /// What the windows of reliable lanes may grow by, all together.
    spare_window: u64,
    spare: Spare,
}

impl Incoming {
    pub(super) fn new(config: &ValidConfig, now: Instant) -> Self {
        let window = u64::from(config.connection_window_bytes);
        let of_lanes = u64::from(LaneId::PRIORITIES) * u64::from(config.lane_window_bytes);
        Self {
            lanes: PerLane::new(|id| RecvLane::new(id, receive_limit(config, id))),
            ages: Ages::new(now),
            granted: Granted::new(window),
            lane_granted: PerLane::new(|_| Granted::new(config.lane_window_bytes.into())),
            window,
            spare_window: window.saturating_sub(of_lanes),
            spare: Spare::default(),
        }
    }

    /// The peer's deadline of best effort.
    pub(super) fn set_hold(&mut self, hold: Duration) {
        for lane in &mut self.lanes {
            lane.set_hold(hold);
        }
        self.ages.set_deadline(hold);
    }

    /// Takes the next message of a lane.
    pub(super) fn pop(&mut self, now: Instant, lane: LaneId) -> Option<Bytes> {
        let (message, credit) = self.lanes[lane].pop(now)?;
        if credit > 0 {
            self.granted.on_consumed(credit);
            self.lane_granted[lane].on_consumed(credit);
        }
        Some(message)
    }

    /// Keeps the memory of a message that was read.
    pub(super) fn recycle(&mut self, message: Bytes) {
        self.spare.keep(message);
    }

    /// A packet of so many bytes came.
    pub(super) fn on_packet(&mut self, bytes: usize) {
        self.spare.on_packet(bytes);
    }

    /// Gives memory back that has not served for a while.
    pub(super) fn age_memory(&mut self, now: Instant) {
        self.spare.age(now);
    }

    /// The message that a lane releases next, and the bytes of it that are there without a hole.
    pub(super) fn next_in_order(&self, lane: LaneId) -> (MessageSeq, usize) {
        self.lanes[lane].next_in_order()
    }

    /// How long the messages that follow have waited in this host.
    pub(super) fn on_timestamp(&mut self, now: Instant, ms: u32) -> Option<Duration> {
        self.ages.on_timestamp(now, ms)
    }

    /// Returns whether the lane can be read.
    pub(super) fn on_forget(&mut self, now: Instant, lane: LaneId, below: MessageSeq) -> bool {
        self.lanes[lane].on_forget(now, below)
    }

    /// A chunk or repair symbol, which has `waited` in this host.
    pub(super) fn on_symbol(
        &mut self,
        now: Instant,
        symbol: ReceivedSymbol<'_>,
        waited: Option<Duration>,
    ) -> Result<Received, Violation> {
        let lane = symbol.lane();
        let received = self.lanes[lane].on_symbol(now, symbol, waited, &mut self.spare)?;
        if self.lanes[lane].is_held_up() {
            self.widen_window(lane);
        }
        Ok(received)
    }

    /// The peer must not send more than it was granted.
    pub(super) fn check_credit(&self) -> Result<(), Violation> {
        match self.credited() > self.window {
            true => Err(Violation::Credit),
            false => Ok(()),
        }
    }

    /// Credit that the peer has used and the application has not taken.
    fn credited(&self) -> u64 {
        self.lanes.iter().map(RecvLane::credited).sum()
    }

    /// Doubles a lane's window, as far as the connection's goes.
    fn widen_window(&mut self, lane: LaneId) {
        let growth = self.lane_granted[lane].window().min(self.spare_window);
        self.spare_window -= growth;
        self.lane_granted[lane].widen(growth);
        self.lanes[lane].widen(growth);
    }

    /// Whether reading has made room that the peer should hear of.
    pub(super) fn has_credit_to_grant(&self) -> bool {
        self.is_credit_due() || self.lane_granted.iter().any(Granted::is_due)
    }

    fn is_credit_due(&self) -> bool {
        self.granted.is_due_beside(|| self.credited())
    }

    /// The credit of the connection, if the peer should hear of it.
    pub(super) fn take_credit(&mut self) -> Option<(Frame<'static>, Content)> {
        self.is_credit_due()
            .then(|| (Frame::MaxData { bytes: self.granted.announce() }, Content::MaxData))
    }

    /// The credit of a lane, if the peer should hear of it. The window is too short for a path of this least round trip
    /// if a whole one is consumed within two.
    pub(super) fn take_lane_credit(
        &mut self,
        now: Instant,
        lane: LaneId,
        least_rtt: Duration,
    ) -> Option<(Frame<'static>, Content)> {
        if !self.lane_granted[lane].is_due() {
            return None;
        }
        if self.lane_granted[lane].is_consumed_within(now, 2 * least_rtt) {
            self.widen_window(lane);
        }
        let bytes = self.lane_granted[lane].announce();
        Some((Frame::MaxLaneData { lane, bytes }, Content::MaxLaneData(lane)))
    }

    /// The packet was lost that told of credit: of a lane's, or of the connection's.
    pub(super) fn on_credit_lost(&mut self, lane: Option<LaneId>) {
        match lane {
            Some(lane) => self.lane_granted[lane].on_lost(),
            None => self.granted.on_lost(),
        }
    }

    /// When a lane waits for what is missing no longer.
    pub(super) fn hold_deadline(&self) -> Option<Instant> {
        self.lanes.iter().filter_map(RecvLane::hold_deadline).min()
    }

    /// Passes over what lanes have waited for long enough; returns those that can be read.
    pub(super) fn on_hold_deadline(&mut self, now: Instant) -> LaneSet {
        self.readable_after(|lane| lane.on_hold_deadline(now))
    }

    /// Nothing more comes; returns the lanes that can be read.
    pub(super) fn end_hold(&mut self, now: Instant) -> LaneSet {
        self.readable_after(|lane| lane.end_hold(now))
    }

    fn readable_after(&mut self, mut pass_over: impl FnMut(&mut RecvLane) -> bool) -> LaneSet {
        let mut readable = LaneSet::default();
        for id in LaneId::all() {
            if pass_over(&mut self.lanes[id]) {
                readable.insert(id);
            }
        }
        readable
    }

    /// When to look whether the host sleeps.
    pub(super) fn watch_deadline(&self, now: Instant) -> Option<Instant> {
        self.ages.watch_deadline(now)
    }

    /// The host has slept since `driven_at`.
    pub(super) fn on_awake(&mut self, driven_at: Instant, now: Instant) {
        self.ages.on_awake(driven_at, now);
    }

    pub(super) fn fill(&self, stats: &mut Stats) {
        stats.receive_buffer_bytes = self.lanes.iter().map(RecvLane::held).sum();
        stats.chunks_recovered = self.lanes.iter().map(RecvLane::recovered).sum();
        stats.messages_stale = self.lanes.iter().map(RecvLane::stale).sum();
    }
}

/// What a lane may hold at first: its credit, or a share of the connection's window if it is best effort.
fn receive_limit(config: &ValidConfig, id: LaneId) -> u64 {
    match id.reliability() {
        Reliability::Reliable => config.lane_window_bytes.into(),
        Reliability::BestEffort => {
            let share = config.connection_window_bytes / u32::from(LaneId::PRIORITIES);
            u64::from(share).max(MIN_WINDOW_BYTES)
        }
    }
}
