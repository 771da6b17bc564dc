// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does the application on a connection send and read, and was everything it read right?

use std::{collections::BTreeSet, time::Duration};

use arq_proto::{Connection, LaneId, Reliability, SendError};
use bytes::Bytes;
use fastrand::Rng;

use crate::{
    payload::{self, Description, DESCRIBED_BYTES},
    Clock,
};

/// How long the messages of a flow are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// All the same, in bytes.
    Fixed(usize),
    /// Evenly distributed between two lengths, both possible.
    Between(usize, usize),
}

/// When a flow wants its messages sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// As fast as the lane takes them.
    AsAccepted,
    /// One per interval; one that the lane does not take yet is late and waits.
    Every(Duration),
}

/// A sequence of messages on one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// The lane.
    pub lane: LaneId,
    /// Their lengths. Best-effort messages are made long enough to describe themselves.
    pub sizes: Sizes,
    /// Their times.
    pub pacing: Pacing,
    /// How many.
    pub messages: u64,
}

impl Flow {
    /// `messages` of `bytes` each on the reliable lane of `priority`, as fast as it takes them.
    #[must_use]
    pub fn reliable(priority: u8, bytes: usize, messages: u64) -> Self {
        let lane = lane(priority, Reliability::Reliable);
        Self { lane, sizes: Sizes::Fixed(bytes), pacing: Pacing::AsAccepted, messages }
    }

    /// The same on the best-effort lane.
    #[must_use]
    pub fn best_effort(priority: u8, bytes: usize, messages: u64) -> Self {
        Self {
            lane: lane(priority, Reliability::BestEffort),
            ..Self::reliable(priority, bytes, messages)
        }
    }

    /// The same flow, one message per `interval`.
    #[must_use]
    pub fn every(self, interval: Duration) -> Self {
        Self { pacing: Pacing::Every(interval), ..self }
    }

    fn next_len(&self, rng: &mut Rng) -> usize {
        let len = match self.sizes {
            Sizes::Fixed(len) => len,
            Sizes::Between(min, max) => rng.usize(min..=max),
        };
        match self.lane.reliability() {
            Reliability::Reliable => len,
            Reliability::BestEffort => len.max(DESCRIBED_BYTES),
        }
    }
}

/// The lane of a priority.
///
/// # Panics
/// `priority` is above 7: a mistake in a test.
#[must_use]
pub fn lane(priority: u8, reliability: Reliability) -> LaneId {
    LaneId::new(priority, reliability).expect("priorities are 0 to 7")
}

/// When messages are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// As soon as they are there.
    #[default]
    AtOnce,
    /// One per interval.
    Every(Duration),
    /// Not at all.
    Never,
    /// At once, except for one lane, which is not read at all.
    AllBut(LaneId),
}

/// What an application does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppPlan {
    /// What it sends.
    pub flows: Vec<Flow>,
    /// How it reads.
    pub reading: Reading,
}

impl AppPlan {
    /// Sends these, reads at once.
    #[must_use]
    pub fn sends(flows: impl Into<Vec<Flow>>) -> Self {
        Self { flows: flows.into(), reading: Reading::AtOnce }
    }

    /// Messages that will be sent on `lane`.
    #[must_use]
    pub fn messages_on(&self, lane: LaneId) -> u64 {
        self.flows.iter().filter(|flow| flow.lane == lane).map(|flow| flow.messages).sum()
    }
}

/// A flow under way.
#[derive(Debug)]
struct Sender {
    flow: Flow,
    sent: u64,
    next_at: Duration,
    /// Built, but not accepted yet.
    pending: Option<(Duration, usize)>,
}

/// What arrived on one lane.
#[derive(Debug, Default, Clone)]
pub struct LaneInbox {
    /// Messages read.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From the time each was meant to be sent to the time it was read, in order of arrival; only
    /// of messages that describe themselves.
    pub latencies: Vec<Duration>,
    /// When the last one was read.
    pub last_at: Duration,
    /// The lowest number that the next message may have.
    next_seq: u32,
}

/// An application on one connection.
#[derive(Debug)]
pub struct App {
    tag: u16,
    reading: Reading,
    senders: Vec<Sender>,
    rng: Rng,
    started: bool,
    paused: bool,
    /// Lanes that refused a message and did not report room since.
    blocked: BTreeSet<LaneId>,
    next_send_seq: [u32; LaneId::COUNT],
    /// Lanes that may have messages.
    readable: BTreeSet<LaneId>,
    next_read_at: Duration,
    peer_tag: Option<u16>,
    inbox: Vec<LaneInbox>,
    bytes_accepted: u64,
    violation: Option<String>,
}

impl App {
    pub(crate) fn new(plan: AppPlan, tag: u16, seed: u64) -> Self {
        let sender = |flow| Sender { flow, sent: 0, next_at: Duration::ZERO, pending: None };
        Self {
            tag,
            reading: plan.reading,
            senders: plan.flows.into_iter().map(sender).collect(),
            rng: Rng::with_seed(seed),
            started: false,
            paused: false,
            blocked: BTreeSet::new(),
            next_send_seq: [0; LaneId::COUNT],
            readable: BTreeSet::new(),
            next_read_at: Duration::ZERO,
            peer_tag: None,
            inbox: vec![LaneInbox::default(); LaneId::COUNT],
            bytes_accepted: 0,
            violation: None,
        }
    }

    /// What was read on a lane.
    #[must_use]
    pub fn inbox(&self, lane: LaneId) -> &LaneInbox {
        &self.inbox[lane.index()]
    }

    /// Messages read on all lanes.
    #[must_use]
    pub fn messages_read(&self) -> u64 {
        self.inbox.iter().map(|lane| lane.messages).sum()
    }

    /// Bytes read on all lanes.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.inbox.iter().map(|lane| lane.bytes).sum()
    }

    /// Messages that the connection accepted on a lane.
    #[must_use]
    pub fn messages_accepted(&self, lane: LaneId) -> u64 {
        u64::from(self.next_send_seq[lane.index()])
    }

    /// Bytes that the connection accepted.
    #[must_use]
    pub fn bytes_accepted(&self) -> u64 {
        self.bytes_accepted
    }

    /// Whether every flow has handed over all its messages.
    #[must_use]
    pub fn has_sent_all(&self) -> bool {
        self.senders.iter().all(|sender| sender.sent == sender.flow.messages)
    }

    /// Adds a flow that starts now.
    pub fn add_flow(&mut self, now: Duration, flow: Flow) {
        self.senders.push(Sender { flow, sent: 0, next_at: now, pending: None });
    }

    /// Offers one message outside all flows, of which `more` follows; returns whether the lane took it.
    pub fn hand_over(
        &mut self,
        clock: &Clock,
        connection: &mut Connection,
        (lane, len): (LaneId, usize),
        more: bool,
    ) -> bool {
        let message = payload::build(self.describe(lane, clock.offset()), len);
        let taken = connection.send_part(clock.now(), lane, message, more).is_ok();
        if taken {
            self.on_accepted(lane, len);
        }
        taken
    }

    fn describe(&self, lane: LaneId, intended_at: Duration) -> Description {
        let seq = self.next_send_seq[lane.index()];
        Description { tag: self.tag, lane: lane.index() as u8, seq, intended_at }
    }

    fn on_accepted(&mut self, lane: LaneId, len: usize) {
        self.next_send_seq[lane.index()] += 1;
        self.bytes_accepted += len as u64;
    }

    /// Changes how messages are read.
    pub fn set_reading(&mut self, reading: Reading) {
        self.reading = reading;
    }

    /// Whether flows hand nothing over. One that goes on keeps its interval from `now` on and makes
    /// up for nothing.
    pub fn pause(&mut self, now: Duration, paused: bool) {
        self.paused = paused;
        for sender in self.senders.iter_mut().filter(|sender| !paused && sender.next_at < now) {
            sender.next_at = now;
        }
    }

    /// Forgets the latencies of what was read, so that a long run does not keep them all.
    pub fn forget_latencies(&mut self) {
        self.inbox.iter_mut().for_each(|lane| lane.latencies = Vec::new());
    }

    /// What went wrong first, if anything: a message twice, out of order, damaged, of a stranger.
    #[must_use]
    pub fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    pub(crate) fn on_readable(&mut self, lane: LaneId) {
        self.readable.insert(lane);
    }

    pub(crate) fn on_writable(&mut self, lane: LaneId) {
        self.blocked.remove(&lane);
    }

    /// The next time at which the application wants to act by itself.
    pub(crate) fn next_tick(&self) -> Option<Duration> {
        let send = self
            .senders
            .iter()
            .filter(|s| self.started && !self.paused && s.sent < s.flow.messages)
            .filter(|s| matches!(s.flow.pacing, Pacing::Every(_)))
            .filter(|s| !self.blocked.contains(&s.flow.lane))
            .map(|s| s.next_at);
        let waiting = !self.readable.is_empty() && matches!(self.reading, Reading::Every(_));
        send.chain(waiting.then_some(self.next_read_at)).min()
    }

    /// Hands over what is due; returns how many messages were accepted.
    pub(crate) fn write(&mut self, clock: &Clock, connection: &mut Connection) -> usize {
        if connection.is_closed() || !connection.is_established() {
            // What would be due wakes nobody: nothing can be handed over.
            self.started = false;
            return 0;
        }
        let now = clock.offset();
        if !self.started {
            self.started = true;
            self.senders.iter_mut().for_each(|sender| sender.next_at = now);
        }
        let mut accepted = 0;
        for index in 0..self.senders.len() {
            while let Some((intended_at, len)) = self.due(index, now) {
                match self.offer(index, intended_at, len, clock, connection) {
                    Ok(()) => accepted += 1,
                    Err(()) => break,
                }
            }
        }
        accepted
    }

    /// The next message of a sender, if it is due and its lane takes messages.
    fn due(&mut self, index: usize, now: Duration) -> Option<(Duration, usize)> {
        let sender = &mut self.senders[index];
        if sender.sent == sender.flow.messages || self.blocked.contains(&sender.flow.lane) {
            return None;
        }
        if sender.pending.is_none() {
            if self.paused || sender.next_at > now {
                return None;
            }
            let intended_at = match sender.flow.pacing {
                Pacing::AsAccepted => now,
                Pacing::Every(interval) => {
                    let at = sender.next_at;
                    sender.next_at = at + interval;
                    at
                }
            };
            sender.pending = Some((intended_at, sender.flow.next_len(&mut self.rng)));
        }
        sender.pending
    }

    fn offer(
        &mut self,
        index: usize,
        intended_at: Duration,
        len: usize,
        clock: &Clock,
        connection: &mut Connection,
    ) -> Result<(), ()> {
        let lane = self.senders[index].flow.lane;
        let description = self.describe(lane, intended_at);
        match connection.send(clock.now(), lane, payload::build(description, len)) {
            Ok(()) => {
                self.on_accepted(lane, len);
                let sender = &mut self.senders[index];
                sender.sent += 1;
                sender.pending = None;
                Ok(())
            }
            Err(SendError::Blocked(_)) => {
                self.blocked.insert(lane);
                Err(())
            }
            Err(error) => {
                if !connection.is_closed() {
                    self.fail(format!("a message of {len} bytes on {lane:?} was refused: {error}"));
                }
                Err(())
            }
        }
    }

    /// Reads what the plan allows; returns how many messages were taken.
    pub(crate) fn read(&mut self, clock: &Clock, connection: &mut Connection) -> usize {
        let now = clock.offset();
        match self.reading {
            Reading::Never => 0,
            Reading::AtOnce => self.read_all(clock, connection),
            Reading::AllBut(lane) => {
                let unread = self.readable.remove(&lane);
                let taken = self.read_all(clock, connection);
                if unread {
                    self.readable.insert(lane);
                }
                taken
            }
            Reading::Every(interval) => {
                if self.readable.is_empty() || self.next_read_at > now {
                    return 0;
                }
                let taken = self.read_one(clock, connection);
                if taken {
                    self.next_read_at = now + interval;
                }
                usize::from(taken)
            }
        }
    }

    fn read_all(&mut self, clock: &Clock, connection: &mut Connection) -> usize {
        let mut taken = 0;
        while self.read_one(clock, connection) {
            taken += 1;
        }
        taken
    }

    /// Takes one message of the most urgent lane that has any.
    fn read_one(&mut self, clock: &Clock, connection: &mut Connection) -> bool {
        while let Some(&lane) = self.readable.first() {
            if let Some(message) = connection.recv(clock.now(), lane) {
                self.check(clock.offset(), lane, &message);
                return true;
            }
            self.readable.remove(&lane);
        }
        false
    }

    fn check(&mut self, now: Duration, lane: LaneId, message: &Bytes) {
        let expected = self.inbox[lane.index()].next_seq;
        let inbox = &mut self.inbox[lane.index()];
        inbox.messages += 1;
        inbox.bytes += message.len() as u64;
        inbox.last_at = now;
        match payload::describe(message) {
            Err(error) => self.fail(format!("{lane:?} after number {expected}: {error}")),
            Ok(None) => {
                inbox.next_seq += 1;
                if !payload::is_short_message(message, lane, expected) {
                    self.fail(format!("{lane:?}: {message:02x?} is not number {expected}"));
                }
            }
            Ok(Some(description)) => {
                inbox.next_seq = description.seq + 1;
                inbox.latencies.push(now.saturating_sub(description.intended_at));
                self.check_description(lane, expected, description);
            }
        }
    }

    fn check_description(&mut self, lane: LaneId, expected: u32, got: Description) {
        let in_order = match lane.reliability() {
            Reliability::Reliable => got.seq == expected,
            Reliability::BestEffort => got.seq >= expected,
        };
        if !in_order {
            self.fail(format!("{lane:?}: number {} came where {expected} was due", got.seq));
        }
        if usize::from(got.lane) != lane.index() {
            self.fail(format!("{lane:?}: a message of lane {} came", got.lane));
        }
        let peer = *self.peer_tag.get_or_insert(got.tag);
        if peer != got.tag || peer == self.tag {
            self.fail(format!("{lane:?}: a message of application {} came", got.tag));
        }
    }

    fn fail(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }
}
