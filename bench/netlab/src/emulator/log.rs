// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What became of every single packet?

use std::time::Duration;

use impairments::Fate;

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRecord {
    /// Since the beginning, nanoseconds.
    pub entered_ns: u64,
    /// When it left (the first copy if there are two), nanoseconds; `None` for what was dropped or still is on its way.
    pub left_ns: Option<u64>,
    /// The IP packet's length.
    pub len_bytes: u16,
    /// The host that sent it.
    pub from: u8,
    /// The host that it was for.
    pub to: u8,
    /// What became of it.
    pub fate: Fate,
}

/// The packets in the order in which they entered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketLog {
    /// The first [`PacketLog::LIMIT`] of them.
    pub packets: Vec<PacketRecord>,
    /// How many more came and were not kept: a log with any must not be taken for a whole one.
    pub not_kept: u64,
}

impl PacketLog {
    /// The most packets that are kept (128 MB).
    pub const LIMIT: usize = 4_000_000;
}

/// The log while it is being written.
pub(super) struct Journal {
    log: PacketLog,
    began: Duration,
    /// Tells the packets of an earlier log from those of this one.
    generation: u32,
}

/// Where a packet stands in the journal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    generation: u32,
    index: usize,
}

impl Journal {
    pub(super) fn new(now: Duration) -> Self {
        Self { log: empty(), began: now, generation: 0 }
    }

    /// Starts anew with the zero of its times at `now`.
    pub(super) fn restart(&mut self, now: Duration) {
        self.began = now;
        self.take();
    }

    /// Hands over what was logged so far; the times go on.
    pub(super) fn take(&mut self) -> PacketLog {
        self.generation += 1;
        std::mem::replace(&mut self.log, empty())
    }

    /// Where the next packet will stand.
    pub(super) fn next(&self) -> Entry {
        Entry { generation: self.generation, index: self.log.packets.len() }
    }

    /// Logs the packet at [`Journal::next`].
    pub(super) fn enter(&mut self, now: Duration, wire: (u8, u8), len_bytes: u16, fate: Fate) {
        if self.log.packets.len() == PacketLog::LIMIT {
            self.log.not_kept += 1;
            return;
        }
        let (from, to) = wire;
        let entered_ns = self.since(now);
        self.log.packets.push(PacketRecord {
            entered_ns,
            left_ns: None,
            len_bytes,
            from,
            to,
            fate,
        });
    }

    /// The packet leaves.
    pub(super) fn leave(&mut self, entry: Entry, now: Duration) {
        let left = self.since(now);
        if entry.generation != self.generation {
            return;
        }
        if let Some(packet) = self.log.packets.get_mut(entry.index) {
            packet.left_ns.get_or_insert(left);
        }
    }

    fn since(&self, now: Duration) -> u64 {
        u64::try_from(now.saturating_sub(self.began).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Room for all at once, which the kernel gives page by page: to grow a vector of millions would hold packets up.
fn empty() -> PacketLog {
    PacketLog { packets: Vec::with_capacity(PacketLog::LIMIT), not_kept: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_of_an_earlier_log_does_not_mark_a_later_one() {
        let at = Duration::from_nanos;
        let mut journal = Journal::new(at(0));
        let early = journal.next();
        journal.enter(at(5), (0, 1), 100, Fate::Passed);
        journal.restart(at(10));
        let late = journal.next();
        journal.enter(at(12), (1, 0), 60, Fate::Passed);
        journal.leave(early, at(20));
        journal.leave(late, at(30));
        journal.leave(late, at(31));
        let log = journal.take();
        assert_eq!(log.packets.len(), 1);
        assert_eq!((log.packets[0].entered_ns, log.packets[0].left_ns), (2, Some(20)));
    }
}
