// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What travelled, when, and what became of it: for packet ladders, and a hash that is equal
//! exactly when two runs did the same.

use std::{
    collections::VecDeque,
    fmt::{self, Write as _},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use arq_proto::wire::packet::PacketKind;

/// What became of a datagram, with times as offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoggedFate {
    /// It arrives after this long.
    Arrives(Duration),
    /// The same, damaged.
    ArrivesDamaged(Duration),
    /// It never arrives, for this reason.
    Vanishes(&'static str),
}

/// A datagram that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// When it left the bottleneck, since the start of the world.
    pub at: Duration,
    /// The sender's name.
    pub from: Arc<str>,
    /// The receiver's name.
    pub to: Arc<str>,
    /// Bytes of UDP payload.
    pub bytes: usize,
    /// First byte, which tells the kind of packet.
    pub first: u8,
    /// What became of it.
    pub fate: LoggedFate,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match PacketKind::of(self.first) {
            Ok(PacketKind::Hello) => "HELLO",
            Ok(PacketKind::Challenge) => "CHALLENGE",
            Ok(PacketKind::Refuse) => "REFUSE",
            Ok(PacketKind::Reset) => "RESET",
            Ok(PacketKind::Data { cookie: true }) => "DATA+cookie",
            Ok(PacketKind::Data { cookie: false }) => "DATA",
            Ok(PacketKind::Handshake) => "HANDSHAKE",
            Ok(PacketKind::Sealed) => "SEALED",
            Err(_) => "?",
        };
        let at = self.at.as_secs_f64() * 1e3;
        let Self { from, to, bytes, .. } = self;
        write!(f, "{at:>11.3} ms  {from:<8} -> {to:<8} {kind:<11} {bytes:>5} B  ")?;
        match self.fate {
            LoggedFate::Arrives(after) => write!(f, "arrives after {after:?}"),
            LoggedFate::ArrivesDamaged(after) => write!(f, "arrives damaged after {after:?}"),
            LoggedFate::Vanishes(why) => f.write_str(why),
        }
    }
}

/// The most recent datagrams, and a hash over all of them.
#[derive(Debug)]
pub struct PacketLog {
    entries: VecDeque<Entry>,
    capacity: usize,
    hasher: DefaultHasher,
    total: u64,
}

impl PacketLog {
    pub(crate) fn new(capacity: usize) -> Self {
        // DefaultHasher::new has fixed keys, unlike the one of a HashMap.
        Self { entries: VecDeque::new(), capacity, hasher: DefaultHasher::new(), total: 0 }
    }

    pub(crate) fn record(&mut self, entry: Entry, bytes: &[u8]) {
        entry.hash(&mut self.hasher);
        bytes.hash(&mut self.hasher);
        self.total += 1;
        if self.entries.len() == self.capacity {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// Datagrams of the whole run.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The datagrams that are still kept, the oldest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// A number that stands for times, ends, bytes and fates of all datagrams.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.hasher.finish()
    }

    /// The last `lines` datagrams, one per line.
    #[must_use]
    pub fn ladder(&self, lines: usize) -> String {
        let skip = self.entries.len().saturating_sub(lines);
        let mut out = String::new();
        for entry in self.entries.iter().skip(skip) {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{entry}");
        }
        out
    }
}
