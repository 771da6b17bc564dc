// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! A CoDel for each flow, and the flows in turns: RFC 8290, section 4.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::{codel::State, CoDel, Fifo, Limit, Waiting};

/// Section 4.2: what a flow may send in one turn, bytes.
const QUANTUM: i64 = 1_514;
/// Section 4.1.2 of the implementation that the RFC describes: of the longest flow at most so many are dropped at once.
const MOST_DROPPED: usize = 64;

/// One flow: its queue, its CoDel, and the bytes that it may still send in this turn.
#[derive(Debug)]
struct Flow<T> {
    fifo: Fifo<T>,
    state: State,
    deficit: i64,
}

/// The flows and the two lists of the RFC. Flows are told apart by their number, so that no two share a queue by the
/// chance of a hash.
#[derive(Debug)]
pub(crate) struct FqCoDel<T> {
    codel: CoDel,
    limit: Limit,
    flows: BTreeMap<u64, Flow<T>>,
    new: VecDeque<u64>,
    old: VecDeque<u64>,
    packets: usize,
    bytes: u64,
}

impl<T> FqCoDel<T> {
    pub(super) fn new(codel: CoDel, limit: Limit) -> Self {
        Self {
            codel,
            limit,
            flows: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Section 4.1: a flow that was in no list joins the new ones; when all is full, the longest flow pays.
    pub(super) fn enqueue(&mut self, waiting: Waiting<T>, dropped: &mut Vec<Waiting<T>>) {
        let (number, len) = (waiting.packet.flow, waiting.packet.len_bytes);
        let fits = self.limit.takes(self.packets, self.bytes, len);
        let flow = self.flows.entry(number).or_insert_with(|| Flow {
            fifo: Fifo::new(),
            state: State::default(),
            deficit: 0,
        });
        let listed = self.new.contains(&number) || self.old.contains(&number);
        if !listed {
            flow.deficit = QUANTUM;
            self.new.push_back(number);
        }
        flow.fifo.push(waiting);
        self.packets += 1;
        self.bytes += u64::from(len);
        if !fits && self.packets > 1 {
            self.drop_from_longest(dropped);
        }
    }

    fn drop_from_longest(&mut self, dropped: &mut Vec<Waiting<T>>) {
        let Some(flow) = self.flows.values_mut().max_by_key(|flow| flow.fifo.bytes) else {
            return;
        };
        let half = flow.fifo.bytes / 2;
        for _ in 0..MOST_DROPPED {
            let Some(waiting) = flow.fifo.pop() else { return };
            self.packets -= 1;
            self.bytes -= u64::from(waiting.packet.len_bytes);
            dropped.push(waiting);
            if flow.fifo.bytes <= half {
                return;
            }
        }
    }

    /// Section 4.2: new flows first, each until its quantum is spent; an empty new one becomes an old one.
    pub(super) fn dequeue(
        &mut self,
        now: Duration,
        dropped: &mut Vec<Waiting<T>>,
    ) -> Option<Waiting<T>> {
        loop {
            let from_new = !self.new.is_empty();
            let number = *self.new.front().or_else(|| self.old.front())?;
            let flow = self.flows.get_mut(&number)?;
            if flow.deficit <= 0 {
                flow.deficit += QUANTUM;
                self.leave_list(from_new);
                self.old.push_back(number);
                continue;
            }
            let before = dropped.len();
            let left = flow.state.dequeue(&self.codel, &mut flow.fifo, now, dropped);
            let gone = dropped[before..].iter().chain(&left);
            for waiting in gone {
                self.packets -= 1;
                self.bytes -= u64::from(waiting.packet.len_bytes);
            }
            let Some(waiting) = left else {
                self.leave_list(from_new);
                if from_new {
                    self.old.push_back(number);
                }
                continue;
            };
            flow.deficit -= i64::from(waiting.packet.len_bytes);
            return Some(waiting);
        }
    }

    fn leave_list(&mut self, new: bool) {
        let list = if new { &mut self.new } else { &mut self.old };
        list.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Packet;

    fn waiting(flow: u64, item: u32, len_bytes: u32) -> Waiting<u32> {
        let packet = Packet { len_bytes, flow, ecn_capable: false, marked: false, item };
        Waiting { entered: Duration::ZERO, packet }
    }

    #[test]
    fn flows_take_turns_and_a_new_one_comes_first() {
        let mut queue = FqCoDel::new(CoDel::DROPPING, Limit::Packets(100));
        let mut dropped = Vec::new();
        for item in 0..6 {
            queue.enqueue(waiting(1, item, 1_514), &mut dropped);
            queue.enqueue(waiting(2, 10 + item, 1_514), &mut dropped);
        }
        let mut take = |queue: &mut FqCoDel<u32>| {
            queue.dequeue(Duration::ZERO, &mut dropped).map(|waiting| waiting.packet.item)
        };
        let first: Vec<_> = (0..4).filter_map(|_| take(&mut queue)).collect();
        assert_eq!(first, [0, 10, 1, 11]);
        queue.enqueue(waiting(3, 20, 100), &mut Vec::new());
        assert_eq!(take(&mut queue), Some(20), "what is sparse does not wait");
        assert_eq!((queue.packets(), queue.bytes()), (8, 8 * 1_514));
        let rest: Vec<_> = std::iter::from_fn(|| take(&mut queue)).collect();
        assert_eq!(rest, [2, 12, 3, 13, 4, 14, 5, 15]);
        assert_eq!((queue.packets(), queue.bytes()), (0, 0));
    }

    #[test]
    fn when_all_is_full_the_longest_flow_loses() {
        let mut queue = FqCoDel::new(CoDel::DROPPING, Limit::Packets(20));
        let mut dropped = Vec::new();
        for item in 0..20 {
            queue.enqueue(waiting(1, item, 1_000), &mut dropped);
        }
        assert!(dropped.is_empty());
        queue.enqueue(waiting(2, 100, 1_000), &mut dropped);
        assert!(dropped.iter().all(|waiting| waiting.packet.flow == 1));
        assert_eq!(dropped.len(), 10, "half of it");
        assert_eq!(queue.packets(), 11);
    }
}
