// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What will happen, in the order of its time; of the same instant, in the order in which it was caused.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    time::{Duration, Instant},
};

use super::WireId;
use crate::{
    host::{ConnId, HostId},
    wire::Datagram,
};

#[derive(Debug)]
pub(super) enum Action {
    Arrive(Datagram),
    Release { wire: WireId },
    Guest { host: HostId },
    Steps { host: HostId },
    Timer { conn: ConnId, armed: Instant },
    App { conn: ConnId, armed: Duration },
    Wake { conn: ConnId },
}

/// The events to come.
#[derive(Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<Scheduled>>,
    scheduled: u64,
}

impl Events {
    pub(super) fn schedule(&mut self, at: Instant, action: Action) {
        self.scheduled += 1;
        self.heap.push(Reverse(Scheduled { at, order: self.scheduled, action }));
    }

    pub(super) fn pop(&mut self) -> Option<(Instant, Action)> {
        self.heap.pop().map(|Reverse(next)| (next.at, next.action))
    }

    pub(super) fn peek(&self) -> Option<(Instant, &Action)> {
        self.heap.peek().map(|Reverse(next)| (next.at, &next.action))
    }

    pub(super) fn next_at(&self) -> Option<Instant> {
        self.peek().map(|(at, _)| at)
    }
}

struct Scheduled {
    at: Instant,
    order: u64,
    action: Action,
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Scheduled {}
