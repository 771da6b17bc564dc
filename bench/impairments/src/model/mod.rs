// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What becomes of each packet that enters one direction of the network, and when does it leave?
//!
//! Sans-IO: packets go in with the time of their arrival, departures come out with the time when they are due, and
//! nothing here knows a clock or a socket. The order of the stages is [`Wire`]'s. A packet's fate is settled when it
//! enters; only the time of its departure is still open.
//!
//! The crate `str0m-netem`, with which this project's simulator works, was tried first and is not used here: its loss,
//! duplication and jitter share one random stream (to switch one on changes the others, and timing decides who meets
//! which loss), its jitter is uniform, it has no correlated loss, bit errors or changing rates, and its queue counts
//! packets that are already in flight.

mod bottleneck;
mod flight;
mod loss;
mod opportune;
mod schedule;
mod streams;

use std::time::Duration;

use bottleneck::{service_time, Bottleneck};
use flight::{Flights, Passage};
use loss::LossState;
use opportune::Opportune;
use schedule::Schedule;
use streams::{Chances, Streams};

use crate::{
    policer::TokenBucket,
    recording::Recorded,
    wire::{Event, Fade, Loss, Wire, WireCount},
    FadeConfig, Fades,
};

pub use loss::expected_share;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It left at the other end, or is on its way.
    Passed,
    /// Lost by the loss model, in a fade or by a bit error.
    Lost,
    /// Dropped by the bottleneck's queue.
    QueueFull,
    /// Dropped by the policer.
    Policed,
    /// Dropped in a blackout.
    BlackedOut,
    /// Dropped for its length.
    TooLong,
}

/// One direction between two hosts, with packets of type `P` on their way.
pub struct Model<P> {
    wire: Wire,
    direction: u32,
    /// Directions of one radio fade together.
    radio: u32,
    seed: u64,
    streams: Streams,
    loss: LossState,
    fades: Option<Fades>,
    recorded: Option<Opportune>,
    schedule: Schedule,
    /// The zero of the schedule's times.
    began: Duration,
    bucket: TokenBucket,
    bottleneck: Bottleneck<Passage<P>>,
    flights: Flights<P>,
    count: WireCount,
}

/// A packet that leaves.
#[derive(Debug, PartialEq, Eq)]
pub struct Departure<P> {
    /// What was pushed.
    pub packet: P,
    /// When it should leave.
    pub due: Duration,
}

impl<P: Clone> Model<P> {
    /// A clean wire for direction number `direction` of radio number `radio`, without events.
    pub fn new(direction: u32, radio: u32) -> Self {
        Self {
            wire: Wire::default(),
            direction,
            radio,
            seed: 0,
            streams: Streams::new(0, direction),
            loss: LossState::default(),
            fades: None,
            recorded: None,
            schedule: Schedule::default(),
            began: Duration::ZERO,
            bucket: TokenBucket::default(),
            bottleneck: Bottleneck::new(),
            flights: Flights::new(),
            count: WireCount::default(),
        }
    }

    /// Changes the wire from now on; packets on their way and the random streams stay. `recorded` is what
    /// [`Wire::recording`] names.
    pub fn set_wire(&mut self, wire: Wire, recorded: Option<Recorded>) {
        if wire.fade != self.wire.fade {
            self.fades = self.fades_of(wire.fade);
        }
        self.recorded = recorded.map(Opportune::new);
        self.wire = wire;
    }

    fn fades_of(&self, fade: Option<Fade>) -> Option<Fades> {
        let Fade { share_percent, mean_ms } = fade?;
        let config = FadeConfig {
            share: share_percent / 100.0,
            mean: Duration::from_secs_f64(mean_ms / 1e3),
            is_regular: false,
            lost: 1.0,
            seed: self.seed ^ (u64::from(self.radio) + 1) << 32,
        };
        Some(Fades::new(config, self.seed))
    }

    /// Forgets the packets on their way.
    pub fn clear(&mut self) {
        self.bottleneck = Bottleneck::new();
        self.flights = Flights::new();
    }

    /// Sets random streams, counts and the clock of the `events` to their beginning; packets on their way stay.
    pub fn restart(&mut self, now: Duration, seed: u64, events: Vec<Event>) {
        self.seed = seed;
        self.streams = Streams::new(seed, self.direction);
        self.loss = LossState::default();
        self.fades = self.fades_of(self.wire.fade);
        self.recorded.iter_mut().for_each(Opportune::restart);
        self.schedule = Schedule::new(events);
        self.began = now;
        self.bucket = TokenBucket::default();
        self.count = WireCount::default();
    }

    /// What has happened since the last [`Model::restart`].
    pub fn count(&self) -> WireCount {
        self.count
    }

    /// The fades since the last [`Model::restart`], by its clock; `None` where nothing fades.
    pub fn fades(&self) -> Option<Fades> {
        self.fades.clone()
    }

    /// A packet arrives at `now`.
    pub fn push(&mut self, now: Duration, len_bytes: u16, packet: P) -> Fate {
        let chances = self.streams.next();
        let lost = self.is_lost(now, len_bytes, &chances);
        self.count.entered_packets += 1;
        self.count.entered_bytes += u64::from(len_bytes);
        let fate = self.admit(now, len_bytes, lost);
        match fate {
            Fate::TooLong => self.count.too_long += 1,
            Fate::BlackedOut => self.count.blacked_out += 1,
            Fate::Policed => self.count.policed += 1,
            Fate::QueueFull => self.count.queue_full += 1,
            Fate::Lost => self.count.lost += 1,
            Fate::Passed => {}
        }
        if matches!(fate, Fate::Passed | Fate::Lost) {
            let passage = Passage {
                packet,
                len_bytes: u32::from(len_bytes),
                lost,
                duplicated: chances.duplicate < self.wire.duplicate_percent / 100.0,
                held: chances.reorder < self.wire.reorder_percent / 100.0,
                jitter: chances.jitter,
            };
            let (schedule, began, rate) = (&self.schedule, self.began, self.wire.rate_mbps);
            let finish = finish(schedule, began, rate, &mut self.recorded);
            self.bottleneck.push(now, passage.len_bytes, passage, finish);
        }
        fate
    }

    /// The next packet that is due at `now`; to be asked until there is none.
    pub fn poll(&mut self, now: Duration) -> Option<Departure<P>> {
        self.serve(now);
        let (departure, len_bytes) = self.flights.poll(now)?;
        self.count.left_packets += 1;
        self.count.left_bytes += u64::from(len_bytes);
        Some(departure)
    }

    /// When to ask again.
    pub fn deadline(&self) -> Option<Duration> {
        match (self.flights.deadline(), self.bottleneck.deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Packets on their way.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    fn is_lost(&mut self, now: Duration, len_bytes: u16, chances: &Chances) -> bool {
        let since = now.saturating_sub(self.began);
        let base = loss::percent_of(&self.wire.loss);
        let model = match self.schedule.loss_percent(since, base) {
            Some(percent) => loss::with_percent(&self.wire.loss, percent),
            None => self.wire.loss,
        };
        let lost = self.loss.is_lost(&model, chances.loss);
        let faded = self.fades.as_mut().is_some_and(|fades| fades.is_lost(since));
        lost || faded || chances.bit_error < bit_error_share(self.wire.bit_error_rate, len_bytes)
    }

    fn admit(&mut self, now: Duration, len_bytes: u16, lost: bool) -> Fate {
        if self.wire.mtu_bytes.is_some_and(|mtu| len_bytes > mtu) {
            return Fate::TooLong;
        }
        if self.schedule.is_blackout(now.saturating_sub(self.began)) {
            return Fate::BlackedOut;
        }
        let len_bytes = u32::from(len_bytes);
        if let Some(policer) = &self.wire.policer {
            let rate_bps = policer.rate_mbps * 1e6;
            if !self.bucket.conforms(rate_bps, policer.burst_bytes, now, len_bytes) {
                return Fate::Policed;
            }
        }
        // What was served before this packet came no longer waits.
        self.serve(now);
        if !self.bottleneck.has_room(len_bytes, self.wire.queue_bytes) {
            return Fate::QueueFull;
        }
        if lost {
            Fate::Lost
        } else {
            Fate::Passed
        }
    }

    /// Sends on what the bottleneck has served until `now`.
    fn serve(&mut self, now: Duration) {
        let (schedule, began, rate) = (&self.schedule, self.began, self.wire.rate_mbps);
        loop {
            let finish = finish(schedule, began, rate, &mut self.recorded);
            let Some((done, passage)) = self.bottleneck.poll(now, finish) else { return };
            if passage.lost {
                continue;
            }
            self.count.duplicated += u64::from(passage.duplicated);
            self.count.reordered += u64::from(passage.held);
            let since = done.saturating_sub(began);
            let delay_ms = schedule.delay_ms(since).unwrap_or(self.wire.delay_ms);
            let recorded =
                self.recorded.as_ref().map_or(Duration::ZERO, |radio| radio.delay(since));
            self.flights.launch(done + recorded, &self.wire, delay_ms, passage);
        }
    }
}

/// When the service of a packet ends: by the recording, else by the rate.
fn finish<'a>(
    schedule: &'a Schedule,
    began: Duration,
    rate: Option<f64>,
    recorded: &'a mut Option<Opportune>,
) -> impl FnOnce(Duration, u32) -> Duration + 'a {
    move |start, len_bytes| {
        let since = start.saturating_sub(began);
        match recorded {
            Some(radio) => start + (radio.finish(since, len_bytes) - since),
            None => start + service_time(len_bytes, schedule.rate_mbps(since).or(rate)),
        }
    }
}

/// The chance that a packet of this length has at least one wrong bit.
fn bit_error_share(bit_error_rate: f64, len_bytes: u16) -> f64 {
    -f64::exp_m1(f64::from(len_bytes) * 8.0 * f64::ln_1p(-bit_error_rate))
}

/// Which of `packets` packets this loss model loses on direction number `direction` with this seed: what a run through
/// the sockets must reproduce to the packet.
pub fn pattern(loss: Loss, seed: u64, direction: u32, packets: usize) -> Vec<bool> {
    let mut model = Model::new(direction, 0);
    model.set_wire(Wire { loss, ..Wire::default() }, None);
    model.restart(Duration::ZERO, seed, Vec::new());
    let lost = |_| {
        let fate = model.push(Duration::ZERO, 100, ());
        while model.poll(Duration::ZERO).is_some() {}
        fate == Fate::Lost
    };
    (0..packets).map(lost).collect()
}

#[cfg(test)]
mod tests;
