// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! When does a packet leave a bottleneck, or where is it dropped?
//!
//! Times of departure follow from the arrivals alone, not from when somebody looks: a late question never lowers the
//! rate.

use std::{collections::VecDeque, time::Duration};

use crate::{
    queue::{Discipline, Packet, Queue, Waiting},
    rate::{Opportunities, Rate, OPPORTUNITY_BYTES},
};

/// A queue and its server.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// How fast it sends.
    pub rate: Rate,
    /// What waits, and what is dropped.
    pub queue: Discipline,
    /// Whether packets leave one by one.
    pub frame: Frame,
}

/// A radio takes what waits as one frame: all packets of it arrive at once, and the way to the medium is paid once
/// (802.11n A-MPDU). Recorded opportunities know no frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Packets of a frame at most.
    pub packets: u32,
    /// The time until a frame begins.
    pub access: Duration,
}

impl Frame {
    /// Each packet by itself, without a pause.
    pub const SINGLE: Self = Self { packets: 1, access: Duration::ZERO };
}

/// A packet that has left the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit<T> {
    /// When.
    pub at: Duration,
    /// When it had come.
    pub entered: Duration,
    /// The packet; an AQM may have marked it.
    pub packet: Packet<T>,
    /// The queue has dropped it: it goes nowhere.
    pub dropped: bool,
}

/// A bottleneck.
#[derive(Debug)]
pub struct Link<T> {
    queue: Queue<T>,
    server: Server<T>,
    exits: VecDeque<Exit<T>>,
    /// Dropped by the queue in one call; kept to be used again.
    dropped: Vec<Waiting<T>>,
}

/// What takes packets from the queue.
#[derive(Debug)]
enum Server<T> {
    Rate {
        rate: Rate,
        frame: Frame,
        /// When the packets in service are done.
        service: Option<(Duration, Vec<Waiting<T>>)>,
        /// When a bucket would be empty, in nanoseconds; before the beginning for a full one.
        spent_until: i128,
    },
    Opportunities {
        opportunities: Opportunities,
        /// The next one.
        next: u64,
        /// What has begun to leave, and its bytes that have not.
        in_transit: Option<(Waiting<T>, u32)>,
    },
}

impl<T> Link<T> {
    /// An idle link.
    pub fn new(config: LinkConfig) -> Self {
        let server = match config.rate {
            Rate::Opportunities(opportunities) => {
                let next = opportunities.index_from(Duration::ZERO);
                Server::Opportunities { opportunities, next, in_transit: None }
            }
            rate => {
                let frame = config.frame;
                Server::Rate { rate, frame, service: None, spent_until: i128::MIN / 2 }
            }
        };
        let queue = Queue::new(config.queue);
        Self { queue, server, exits: VecDeque::new(), dropped: Vec::new() }
    }

    /// A packet arrives; ask [`Link::poll`] what has left since.
    pub fn push(&mut self, now: Duration, packet: Packet<T>) {
        self.serve(now);
        let idle = self.is_idle();
        self.queue.enqueue(Waiting { entered: now, packet }, &mut self.dropped);
        self.let_out_dropped(now);
        if !idle {
            return;
        }
        match &mut self.server {
            Server::Rate { .. } => self.begin_service(now),
            Server::Opportunities { opportunities, next, .. } => {
                *next = opportunities.index_from(now).max(*next);
            }
        }
        self.serve(now);
    }

    /// The next packet that has left by `now`; to be asked until there is none.
    pub fn poll(&mut self, now: Duration) -> Option<Exit<T>> {
        self.serve(now);
        self.exits.pop_front()
    }

    /// When to ask again.
    pub fn deadline(&self) -> Option<Duration> {
        if let Some(exit) = self.exits.front() {
            return Some(exit.at);
        }
        match &self.server {
            Server::Rate { service, .. } => service.as_ref().map(|(done, _)| *done),
            Server::Opportunities { opportunities, next, .. } => {
                (!self.is_idle()).then(|| opportunities.at(*next))
            }
        }
    }

    /// Packets that wait, without those in service.
    pub fn waiting_packets(&self) -> usize {
        self.queue.packets()
    }

    /// Their bytes.
    pub fn waiting_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    fn is_idle(&self) -> bool {
        let serves = match &self.server {
            Server::Rate { service, .. } => service.is_some(),
            Server::Opportunities { in_transit, .. } => in_transit.is_some(),
        };
        !serves && self.queue.packets() == 0
    }

    fn serve(&mut self, now: Duration) {
        match &mut self.server {
            Server::Rate { .. } => self.serve_by_rate(now),
            Server::Opportunities { .. } => self.use_opportunities(now),
        }
    }

    fn serve_by_rate(&mut self, now: Duration) {
        while let Server::Rate { service, .. } = &mut self.server {
            let Some((at, packets)) = service.take_if(|(done, _)| *done <= now) else { return };
            let exit = |Waiting { entered, packet }| Exit { at, entered, packet, dropped: false };
            self.exits.extend(packets.into_iter().map(exit));
            self.begin_service(at);
        }
    }

    fn begin_service(&mut self, at: Duration) {
        let Server::Rate { rate, frame, service, spent_until } = &mut self.server else { return };
        let mut packets = Vec::new();
        while packets.len() < frame.packets.max(1) as usize {
            let Some(waiting) = self.queue.dequeue(at, &mut self.dropped) else { break };
            packets.push(waiting);
        }
        let bytes: f64 = packets.iter().map(|waiting| f64::from(waiting.packet.len_bytes)).sum();
        if !packets.is_empty() {
            let done = finish(rate, spent_until, at + frame.access, bytes * 8.0);
            *service = Some((done, packets));
        }
        self.let_out_dropped(at);
    }

    /// As Mahimahi does: an opportunity takes several short packets, or part of one that began before.
    fn use_opportunities(&mut self, now: Duration) {
        loop {
            let idle = self.is_idle();
            let Server::Opportunities { opportunities, next, in_transit } = &mut self.server else {
                return;
            };
            let at = opportunities.at(*next);
            if idle || at > now {
                return;
            }
            *next += 1;
            let mut room = OPPORTUNITY_BYTES;
            while room > 0 {
                let begun = in_transit.take().or_else(|| {
                    let waiting = self.queue.dequeue(at, &mut self.dropped)?;
                    let len = waiting.packet.len_bytes;
                    Some((waiting, len))
                });
                let Some((Waiting { entered, packet }, left)) = begun else { break };
                let sent = left.min(room);
                room -= sent;
                if left > sent {
                    *in_transit = Some((Waiting { entered, packet }, left - sent));
                } else {
                    self.exits.push_back(Exit { at, entered, packet, dropped: false });
                }
            }
            self.let_out_dropped(at);
        }
    }

    fn let_out_dropped(&mut self, at: Duration) {
        let exit = |Waiting { entered, packet }| Exit { at, entered, packet, dropped: true };
        self.exits.extend(self.dropped.drain(..).map(exit));
    }
}

/// When `bits` have passed that may begin at `start`.
fn finish(rate: &Rate, spent_until: &mut i128, start: Duration, bits: f64) -> Duration {
    match rate {
        Rate::Fixed { bps, burst_bytes } => {
            let start = start.as_nanos() as i128;
            let burst = (f64::from(*burst_bytes) * 8.0 / bps * 1e9) as i128;
            *spent_until = (*spent_until).max(start - burst) + (bits / bps * 1e9).round() as i128;
            Duration::from_nanos((*spent_until).max(start) as u64)
        }
        Rate::Trace(trace) => trace.finish(start, bits),
        Rate::Opportunities(_) => unreachable!("opportunities have a server of their own"),
    }
}

#[cfg(test)]
mod tests;
