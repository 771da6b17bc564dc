// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A path whose bytes cost money, and what may pass it at each level of its budget.
//!
//! Requirement, numbered as in `docs/protocol.md` §11.3:
//!
//! - **ARQ-MP-11** A metered path is a backup within a budget, of which an hour's worth may be used at once. Every datagram
//!   counts, in both directions, with its IP and UDP headers, and none leaves that the budget does not cover. With less than
//!   half of an hour's worth only messages of the priorities 0 to 2 leave, of either side, until there are six tenths; with
//!   less than a tenth only those of priority 0, until there are two. With less than a hundredth the path is paused until
//!   there is a tenth. No copies ride along there, nothing asks for the path MTU, and bulk leaves on it only while no other
//!   path answers.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use crate::{
    budget::{Budget, HOUR},
    connection::transmit::Transmit,
    units::{LaneId, LaneSet},
    wire::frame::PathUse,
};

const HALF: Duration = Duration::from_secs(HOUR.as_secs() / 2);
const TENTH: Duration = Duration::from_secs(HOUR.as_secs() / 10);
const HUNDREDTH: Duration = Duration::from_secs(HOUR.as_secs() / 100);
/// Below how much of a budget the path is to be used for what, and until how much there is. With a hundredth the peer can
/// still be told that it is nothing.
const LEVELS: [(Duration, Duration, PathUse); 3] = [
    (HUNDREDTH, TENTH, PathUse::Paused),
    (TENTH, Duration::from_secs(HOUR.as_secs() / 5), PathUse::Control),
    (HALF, Duration::from_secs(HOUR.as_secs() * 3 / 5), PathUse::Urgent),
];
/// The least urgent priority of those that count as urgent: control, real time, interactive high.
const URGENT: u8 = 2;

/// Bytes of the headers of a datagram.
const UDP_OVER_IPV4: u64 = 20 + 8;
const UDP_OVER_IPV6: u64 = 40 + 8;

/// What a datagram to or from an address has beside its payload.
pub(crate) fn header_bytes(remote: SocketAddr) -> u64 {
    match remote.ip().to_canonical() {
        IpAddr::V4(_) => UDP_OVER_IPV4,
        IpAddr::V6(_) => UDP_OVER_IPV6,
    }
}

impl Transmit {
    /// All bytes of its datagrams, the headers of IP and UDP included.
    pub(crate) fn bytes_with_headers(&self) -> u64 {
        let datagrams = self.size.div_ceil(self.segment_size.max(1)) as u64;
        self.size as u64 + datagrams * header_bytes(self.destination)
    }
}

/// The lanes of the priorities up to this.
fn up_to(priority: u8) -> LaneSet {
    LaneId::all().filter(|lane| lane.priority() <= priority).collect()
}

/// The lanes of which something may leave on a path of which one side wishes this.
pub(crate) fn lanes_of(wish: PathUse) -> LaneSet {
    match wish {
        PathUse::Available | PathUse::Backup => LaneSet::ALL,
        PathUse::Urgent => up_to(URGENT),
        PathUse::Control => up_to(0),
        PathUse::Paused => LaneSet::NONE,
    }
}

/// What is known of the budget of a path.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) budget: Budget,
    /// Whether the interface is.
    pub(crate) is_up: bool,
    /// The place in [`LEVELS`]; behind them there is enough for everything.
    level: usize,
}

impl Meter {
    pub(crate) fn new(budget: Budget, is_up: bool) -> Self {
        Self { budget, is_up, level: LEVELS.len() }
    }

    /// Nothing leaves until there is more.
    pub(crate) fn is_used_up(&self) -> bool {
        self.level == 0
    }

    /// Looks at what is left: what is the path to be used for?
    pub(crate) fn follow(&mut self, now: Instant) -> PathUse {
        let left = self.budget.left(now);
        let is_at = |(place, &(below, until, _)): (usize, &(Duration, Duration, PathUse))| {
            left < if self.level <= place { until } else { below }
        };
        self.level = LEVELS.iter().enumerate().position(is_at).unwrap_or(LEVELS.len());
        match LEVELS.get(self.level) {
            _ if !self.is_up => PathUse::Paused,
            Some((_, _, wish)) => *wish,
            None => PathUse::Backup,
        }
    }

    /// The lanes of which something may leave.
    pub(crate) fn lanes(&self) -> LaneSet {
        LEVELS.get(self.level).map_or(LaneSet::ALL, |(_, _, wish)| lanes_of(*wish))
    }

    /// When more may leave than now, if nothing does before.
    pub(crate) fn more_at(&self, now: Instant) -> Option<Instant> {
        let (_, until, _) = LEVELS.get(self.level)?;
        Some(now + until.saturating_sub(self.budget.left(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ARQ-MP-11
    #[test]
    fn the_less_is_left_the_fewer_may_use_it() {
        #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
        let t0 = Instant::now();
        let budget = Budget::new(8_000, t0);
        let mut meter = Meter::new(budget.clone(), true);
        let mut at = |percent: u64, now: Instant| {
            let left = budget.left_bytes(now);
            budget.charge(now, left.saturating_sub(percent * 36_000));
            let wish = meter.follow(now);
            let lanes = meter.lanes();
            let most = LaneId::all().filter(|lane| lanes.contains(*lane)).map(LaneId::priority);
            (wish, most.max())
        };
        assert_eq!(at(100, t0), (PathUse::Backup, Some(7)));
        assert_eq!(at(50, t0), (PathUse::Backup, Some(7)));
        assert_eq!(at(49, t0), (PathUse::Urgent, Some(2)));
        assert_eq!(at(10, t0), (PathUse::Urgent, Some(2)));
        assert_eq!(at(9, t0), (PathUse::Control, Some(0)));
        assert_eq!(at(1, t0), (PathUse::Control, Some(0)));
        assert_eq!(at(0, t0), (PathUse::Paused, None));
        let after = |minutes: u64| t0 + Duration::from_secs(60 * minutes);
        assert_eq!(at(100, after(5)), (PathUse::Paused, None), "not before there is a tenth");
        assert_eq!(at(100, after(6)), (PathUse::Control, Some(0)));
        assert_eq!(at(100, after(11)), (PathUse::Control, Some(0)), "not at the least change");
        assert_eq!(at(100, after(12)), (PathUse::Urgent, Some(2)));
        assert_eq!(at(100, after(35)), (PathUse::Urgent, Some(2)));
        assert_eq!(meter.more_at(after(35)), Some(after(36)));
        assert_eq!(meter.follow(after(36)), PathUse::Backup);
        assert_eq!(meter.more_at(after(36)), None);
        meter.is_up = false;
        assert_eq!(meter.follow(after(36)), PathUse::Paused);
    }
}
