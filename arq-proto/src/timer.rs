// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! One deadline per reason to wake up.
//!
//! [`Timers::next`] tells the deadline *and its kind*, so that a connection that wakes too often
//! explains itself.

use std::time::Instant;

/// Why a connection wants to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TimerKind {
    /// Repeat a handshake packet, or give the handshake up.
    Handshake,
    /// A packet becomes overdue compared with later ones (RFC 9002 §6.1.2).
    Loss,
    /// The tail of a flight is unanswered (RFC 9002 §6.2).
    Pto,
    /// An acknowledgement may wait no longer (RFC 9002 §6.2.1, `max_ack_delay`).
    Ack,
    /// The pacer allows the next burst.
    Pacing,
    /// Messages of a best-effort lane reach their deadline.
    Expiry,
    /// A lane gives up waiting for a best-effort message before the ones it has.
    Hold,
    /// Nothing was heard for a while: ask whether the peer lives.
    KeepAlive,
    /// The peer is considered gone.
    Idle,
    /// Ask a peer again whose port is said to be closed.
    Suspicion,
    /// Ask again whether the peer is at its new address.
    Path,
    /// A path has not answered for so long that what is on it leaves on another one, too.
    Silence,
    /// More may leave on a path with a budget.
    Budget,
    /// Judge the packet that asked whether its size passes (RFC 8899 §5.1.1, `PROBE_TIMER`).
    PathMtu,
    /// The orderly close, or the wait after it, ends.
    Close,
    /// The host has slept lately: does it again? Nothing is done.
    Watch,
}

impl TimerKind {
    const ALL: [Self; 16] = [
        Self::Handshake,
        Self::Loss,
        Self::Pto,
        Self::Ack,
        Self::Pacing,
        Self::Expiry,
        Self::Hold,
        Self::KeepAlive,
        Self::Idle,
        Self::Suspicion,
        Self::Path,
        Self::Silence,
        Self::Budget,
        Self::PathMtu,
        Self::Close,
        Self::Watch,
    ];
}

/// The deadlines of a connection, indexed by kind.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    deadlines: [Option<Instant>; TimerKind::ALL.len()],
    /// The least of them: it is asked for several times per packet.
    earliest: Option<(Instant, TimerKind)>,
}

impl Timers {
    pub(crate) fn set(&mut self, kind: TimerKind, deadline: Option<Instant>) {
        self.deadlines[kind as usize] = deadline;
        let is_earliest = self.earliest.is_some_and(|(_, earliest)| earliest == kind);
        let new = deadline.map(|at| (at, kind));
        if new.is_some() && self.earliest.is_none_or(|earliest| new < Some(earliest)) {
            self.earliest = new;
        } else if is_earliest {
            self.earliest = self.find_earliest();
        }
    }

    pub(crate) fn is_set(&self, kind: TimerKind) -> bool {
        self.deadlines[kind as usize].is_some()
    }

    pub(crate) fn stop_all(&mut self) {
        *self = Self::default();
    }

    /// The earliest deadline; of several, that of the first kind.
    pub(crate) fn next(&self) -> Option<(Instant, TimerKind)> {
        self.earliest
    }

    fn find_earliest(&self) -> Option<(Instant, TimerKind)> {
        TimerKind::ALL
            .into_iter()
            .filter_map(|kind| Some((self.deadlines[kind as usize]?, kind)))
            .min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn t0() -> Instant {
        Instant::now()
    }

    proptest! {
        #[test]
        fn the_earliest_is_the_least_of_all(
            sets in prop::collection::vec((0..TimerKind::ALL.len(), prop::option::of(0_u64..5)), 0..60)
        ) {
            let (begin, mut timers) = (t0(), Timers::default());
            for (kind, at) in sets {
                timers.set(TimerKind::ALL[kind], at.map(|at| begin + Duration::from_millis(at)));
                prop_assert_eq!(timers.next(), timers.find_earliest());
            }
        }
    }
}
