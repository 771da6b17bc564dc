// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! When does a packet that has left the bottleneck arrive at the other end, and does it arrive twice?

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::Departure;
use crate::wire::Wire;

/// A packet in the bottleneck, with what chance has already decided for it.
pub(super) struct Passage<P> {
    pub(super) packet: P,
    pub(super) len_bytes: u32,
    pub(super) lost: bool,
    pub(super) duplicated: bool,
    pub(super) held: bool,
    /// Standard normal.
    pub(super) jitter: f64,
}

/// A packet between the bottleneck and the other end.
struct Flight<P> {
    due: Duration,
    number: u64,
    len_bytes: u32,
    packet: P,
}

/// The packets between the bottleneck and the other end.
pub(super) struct Flights<P> {
    flights: BinaryHeap<Reverse<Flight<P>>>,
    /// Counts flights, so that equal times keep their order.
    flown: u64,
    /// The latest departure, for jitter that keeps the order.
    last_due: Duration,
}

impl<P: Clone> Flights<P> {
    pub(super) fn new() -> Self {
        Self { flights: BinaryHeap::new(), flown: 0, last_due: Duration::ZERO }
    }

    /// A packet begins its way at `at`; an event may have another delay than the wire.
    pub(super) fn launch(&mut self, at: Duration, wire: &Wire, delay_ms: f64, passage: Passage<P>) {
        let jittered_ms = delay_ms + wire.jitter_ms * passage.jitter;
        let mut due = at + milliseconds(jittered_ms.max(0.0));
        if !wire.jitter_reorders {
            due = due.max(self.last_due);
        }
        self.last_due = due;
        if passage.held {
            due += milliseconds(wire.reorder_hold_ms);
        }
        if passage.duplicated {
            self.fly(due, passage.len_bytes, passage.packet.clone());
        }
        self.fly(due, passage.len_bytes, passage.packet);
    }

    /// The next packet that is due at `now`, and its length in bytes.
    pub(super) fn poll(&mut self, now: Duration) -> Option<(Departure<P>, u32)> {
        let Reverse(flight) = self.flights.peek()?;
        if flight.due > now {
            return None;
        }
        let Reverse(flight) = self.flights.pop()?;
        Some((Departure { packet: flight.packet, due: flight.due }, flight.len_bytes))
    }

    /// When the next one is due.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.flights.peek().map(|Reverse(flight)| flight.due)
    }

    pub(super) fn len(&self) -> usize {
        self.flights.len()
    }

    fn fly(&mut self, due: Duration, len_bytes: u32, packet: P) {
        self.flown += 1;
        self.flights.push(Reverse(Flight { due, number: self.flown, len_bytes, packet }));
    }
}

impl<P> Flight<P> {
    fn key(&self) -> (Duration, u64) {
        (self.due, self.number)
    }
}

impl<P> PartialEq for Flight<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<P> Eq for Flight<P> {}

impl<P> PartialOrd for Flight<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for Flight<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

fn milliseconds(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}
