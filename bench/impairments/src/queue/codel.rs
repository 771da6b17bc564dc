// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Controlled delay: when has a queue stood for too long? The pseudo-code of RFC 8289, section 5.

use std::time::Duration;

use super::{Fifo, Waiting};

/// The figures of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDel {
    /// The sojourn time that is accepted (`TARGET`).
    pub target: Duration,
    /// For how long it may be exceeded, about the longest usual round trip (`INTERVAL`).
    pub interval: Duration,
    /// Whether packets that may be marked are marked instead of dropped (RFC 8290, section 4.1).
    pub ecn: bool,
}

impl CoDel {
    /// RFC 8289, section 4.2 and 4.3: 5 and 100 ms, dropping.
    pub const DROPPING: Self =
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: false };
    /// The same figures, marking where it can.
    pub const MARKING: Self = Self { ecn: true, ..Self::DROPPING };
}

/// A queue of at most so much drains fast enough (`maxpacket` of the RFC).
const LONGEST_PACKET_BYTES: u64 = 1_514;

/// What CoDel remembers of one queue. Names as in the RFC.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    first_above_time: Option<Duration>,
    drop_next: Duration,
    count: u32,
    lastcount: u32,
    dropping: bool,
}

impl State {
    pub(super) fn dequeue<T>(
        &mut self,
        codel: &CoDel,
        fifo: &mut Fifo<T>,
        now: Duration,
        dropped: &mut Vec<Waiting<T>>,
    ) -> Option<Waiting<T>> {
        let (mut waiting, mut ok_to_drop) = self.do_dequeue(codel, fifo, now);
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                let taken = waiting.take()?;
                match mark_or_drop(codel, taken, dropped) {
                    // A marked packet leaves: the next mark waits for its time.
                    Some(marked) => {
                        waiting = Some(marked);
                        self.drop_next = self.control_law(codel, self.drop_next);
                        break;
                    }
                    None => (waiting, ok_to_drop) = self.do_dequeue(codel, fifo, now),
                }
                if ok_to_drop {
                    self.drop_next = self.control_law(codel, self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok_to_drop {
            let taken = waiting.take()?;
            waiting = match mark_or_drop(codel, taken, dropped) {
                Some(marked) => Some(marked),
                None => self.do_dequeue(codel, fifo, now).0,
            };
            self.begin_dropping(codel, now);
        }
        waiting
    }

    /// `dodequeue` of the RFC: the next packet, and whether the queue has stood above the target for an interval.
    fn do_dequeue<T>(
        &mut self,
        codel: &CoDel,
        fifo: &mut Fifo<T>,
        now: Duration,
    ) -> (Option<Waiting<T>>, bool) {
        let Some(waiting) = fifo.pop() else {
            self.first_above_time = None;
            return (None, false);
        };
        let sojourn = now.saturating_sub(waiting.entered);
        if sojourn < codel.target || fifo.bytes <= LONGEST_PACKET_BYTES {
            self.first_above_time = None;
            return (Some(waiting), false);
        }
        match self.first_above_time {
            None => {
                self.first_above_time = Some(now + codel.interval);
                (Some(waiting), false)
            }
            Some(first_above_time) => (Some(waiting), now >= first_above_time),
        }
    }

    /// The state is entered: if it was left a short while ago, at the rate that controlled the queue then.
    fn begin_dropping(&mut self, codel: &CoDel, now: Duration) {
        self.dropping = true;
        let delta = self.count - self.lastcount;
        let recent = now.saturating_sub(self.drop_next) < 16 * codel.interval;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.control_law(codel, now);
        self.lastcount = self.count;
    }

    fn control_law(&self, codel: &CoDel, t: Duration) -> Duration {
        t + codel.interval.div_f64(f64::from(self.count).sqrt())
    }
}

/// Gives back a packet that was marked instead of dropped.
fn mark_or_drop<T>(
    codel: &CoDel,
    mut waiting: Waiting<T>,
    dropped: &mut Vec<Waiting<T>>,
) -> Option<Waiting<T>> {
    if codel.ecn && waiting.packet.ecn_capable {
        waiting.packet.marked = true;
        return Some(waiting);
    }
    dropped.push(waiting);
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Packet;

    const MS: Duration = Duration::from_millis(1);

    /// A queue of packets of 1,000 bytes that stands at 20 ms and is served one each millisecond. Returns the times in
    /// ms at which one was dropped or marked.
    fn standing(codel: &CoDel, ecn_capable: bool, milliseconds: u32) -> Vec<u32> {
        let (mut state, mut fifo, mut dropped) = (State::default(), Fifo::new(), Vec::new());
        let mut times = Vec::new();
        for ms in 20..20 + milliseconds {
            let now = ms * MS;
            while fifo.bytes < 20_000 {
                let packet =
                    Packet { len_bytes: 1_000, flow: 0, ecn_capable, marked: false, item: () };
                fifo.push(Waiting { entered: now - 20 * MS, packet });
            }
            let left = state.dequeue(codel, &mut fifo, now, &mut dropped);
            let marked = left.is_some_and(|waiting| waiting.packet.marked);
            times.extend((!dropped.is_empty() || marked).then_some(ms - 20));
            dropped.clear();
        }
        times
    }

    /// RFC 8289, section 5.5: the first after an interval above the target, the next ones after the interval over the
    /// square root of their count.
    #[test]
    fn drops_follow_the_control_law() {
        let mut expected = vec![100.0];
        for count in 1..7 {
            let last: f64 = expected[expected.len() - 1];
            expected.push(last + 100.0 / f64::from(count).sqrt());
        }
        let found = standing(&CoDel::DROPPING, true, 500);
        for (found, expected) in found.iter().zip(&expected) {
            assert!((f64::from(*found) - expected).abs() <= 1.0, "{found} for {expected}");
        }
        assert!(found.len() >= expected.len(), "{found:?}");
    }

    #[test]
    fn what_can_be_marked_is_not_dropped() {
        assert_eq!(standing(&CoDel::MARKING, true, 500), standing(&CoDel::DROPPING, true, 500));
        let mut dropped = Vec::new();
        let packet =
            |ecn_capable| Packet { len_bytes: 1, flow: 0, ecn_capable, marked: false, item: () };
        let waiting = |can| Waiting { entered: MS, packet: packet(can) };
        let marked = mark_or_drop(&CoDel::MARKING, waiting(true), &mut dropped);
        assert!(marked.is_some_and(|waiting| waiting.packet.marked) && dropped.is_empty());
        assert!(mark_or_drop(&CoDel::MARKING, waiting(false), &mut dropped).is_none());
        assert!(mark_or_drop(&CoDel::DROPPING, waiting(true), &mut dropped).is_none());
        assert_eq!(dropped.len(), 2);
    }

    #[test]
    fn a_queue_below_the_target_and_one_of_a_packet_lose_nothing() {
        let short = CoDel { target: 45 * MS, ..CoDel::DROPPING };
        assert!(standing(&short, false, 1_000).is_empty());
        let (mut state, mut fifo, mut dropped) = (State::default(), Fifo::new(), Vec::new());
        for ms in 100..1_000 {
            let packet =
                Packet { len_bytes: 1_500, flow: 0, ecn_capable: false, marked: false, item: () };
            fifo.push(Waiting { entered: (ms - 50) * MS, packet });
            assert!(state.dequeue(&CoDel::DROPPING, &mut fifo, ms * MS, &mut dropped).is_some());
        }
        assert!(dropped.is_empty(), "a queue of one packet cannot be shorter");
    }
}
