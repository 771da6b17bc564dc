// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which packet leaves the queue next, and which ones does the queue drop or mark?

mod codel;
mod fq_codel;

use std::{collections::VecDeque, time::Duration};

pub use codel::CoDel;
use codel::State;
use fq_codel::FqCoDel;

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    /// Its length as the rate counts it, bytes.
    pub len_bytes: u32,
    /// What it belongs to: a queue that keeps flows apart goes by it.
    pub flow: u64,
    /// It may be marked instead of dropped (RFC 3168: ECT).
    pub ecn_capable: bool,
    /// It has been marked (RFC 3168: CE).
    pub marked: bool,
    /// What the user of the model wants back.
    pub item: T,
}

/// How much waits at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes.
    Bytes(u32),
    /// Packets of any length.
    Packets(u32),
}

impl Limit {
    fn takes(self, packets: usize, bytes: u64, len_bytes: u32) -> bool {
        match self {
            Self::Bytes(most) => bytes + u64::from(len_bytes) <= u64::from(most),
            Self::Packets(most) => packets < most as usize,
        }
    }
}

/// How a queue is managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// First in, first out; what does not fit is dropped.
    DropTail(Limit),
    /// Controlled delay (RFC 8289).
    CoDel(CoDel, Limit),
    /// A CoDel for each flow, in turns (RFC 8290).
    FqCoDel(CoDel, Limit),
}

/// A packet in a queue.
#[derive(Clone, Debug)]
pub(crate) struct Waiting<T> {
    pub(crate) entered: Duration,
    pub(crate) packet: Packet<T>,
}

/// First in, first out, with its length.
#[derive(Debug)]
pub(crate) struct Fifo<T> {
    packets: VecDeque<Waiting<T>>,
    bytes: u64,
}

impl<T> Fifo<T> {
    const fn new() -> Self {
        Self { packets: VecDeque::new(), bytes: 0 }
    }

    fn push(&mut self, waiting: Waiting<T>) {
        self.bytes += u64::from(waiting.packet.len_bytes);
        self.packets.push_back(waiting);
    }

    fn pop(&mut self) -> Option<Waiting<T>> {
        let waiting = self.packets.pop_front()?;
        self.bytes -= u64::from(waiting.packet.len_bytes);
        Some(waiting)
    }
}

/// A queue of any discipline.
#[derive(Debug)]
pub(crate) enum Queue<T> {
    Fifo { limit: Limit, fifo: Fifo<T>, codel: Option<(CoDel, State)> },
    Fair(Box<FqCoDel<T>>),
}

impl<T> Queue<T> {
    pub(crate) fn new(discipline: Discipline) -> Self {
        match discipline {
            Discipline::DropTail(limit) => Self::Fifo { limit, fifo: Fifo::new(), codel: None },
            Discipline::CoDel(codel, limit) => {
                Self::Fifo { limit, fifo: Fifo::new(), codel: Some((codel, State::default())) }
            }
            Discipline::FqCoDel(codel, limit) => Self::Fair(Box::new(FqCoDel::new(codel, limit))),
        }
    }

    /// Takes a packet. What is dropped for want of room is appended to `dropped`: the packet itself, or others.
    pub(crate) fn enqueue(&mut self, waiting: Waiting<T>, dropped: &mut Vec<Waiting<T>>) {
        match self {
            Self::Fifo { limit, fifo, .. } => {
                let (packets, len) = (fifo.packets.len(), waiting.packet.len_bytes);
                // A queue that is empty takes one packet, whatever its length.
                if packets == 0 || limit.takes(packets, fifo.bytes, len) {
                    fifo.push(waiting);
                } else {
                    dropped.push(waiting);
                }
            }
            Self::Fair(fair) => fair.enqueue(waiting, dropped),
        }
    }

    /// The next packet to leave at `now`. What the discipline drops on the way is appended to `dropped`.
    pub(crate) fn dequeue(
        &mut self,
        now: Duration,
        dropped: &mut Vec<Waiting<T>>,
    ) -> Option<Waiting<T>> {
        match self {
            Self::Fifo { fifo, codel: None, .. } => fifo.pop(),
            Self::Fifo { fifo, codel: Some((codel, state)), .. } => {
                state.dequeue(codel, fifo, now, dropped)
            }
            Self::Fair(fair) => fair.dequeue(now, dropped),
        }
    }

    pub(crate) fn packets(&self) -> usize {
        match self {
            Self::Fifo { fifo, .. } => fifo.packets.len(),
            Self::Fair(fair) => fair.packets(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Fifo { fifo, .. } => fifo.bytes,
            Self::Fair(fair) => fair.bytes(),
        }
    }
}
