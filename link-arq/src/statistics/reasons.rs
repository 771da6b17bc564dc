// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Why do links end, and why do attempts to open one fail? Each has one reason, of a few, and is counted under it.

use std::sync::atomic::{AtomicU64, Ordering};

use arq_proto::{ConnectionError, RefuseReason, Unreachable};

/// A count for each reason. All are shown from the start: what grows from nothing is seen only so.
pub type Counts = Vec<(&'static str, u64)>;

/// The reasons of one kind, with a counter for each.
pub(crate) struct Counters<const N: usize> {
    names: [&'static str; N],
    counts: [AtomicU64; N],
}

impl<const N: usize> Counters<N> {
    const fn new(names: [&'static str; N]) -> Self {
        Self { names, counts: [const { AtomicU64::new(0) }; N] }
    }

    /// One more for `name`; for the last of all reasons, which is "other", if there is none of that name.
    fn count(&self, name: &str) {
        let index = self.names.iter().position(|known| *known == name).unwrap_or(N - 1);
        self.counts[index].fetch_add(1, Ordering::Relaxed);
    }

    /// So many more for `name`, which is one of the names.
    pub(crate) fn add(&self, name: &str, more: u64) {
        let index = self.names.iter().position(|known| *known == name);
        debug_assert!(index.is_some(), "{name}");
        if let Some(count) = index.and_then(|index| self.counts.get(index)) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Counts {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        self.names.into_iter().zip(counts).collect()
    }
}

/// Links that have ended.
pub(crate) static CLOSED: Counters<10> = Counters::new([
    "closed",
    "closed-by-peer",
    "given-up",
    "linger-expired",
    "idle-timeout",
    "peer-gone",
    "peer-restarted",
    "replaced",
    "violation",
    "other",
]);

/// Attempts to open a link that have failed.
pub(crate) static FAILED: Counters<12> = Counters::new([
    "timeout",
    "port-unreachable",
    "host-unreachable",
    "network-unreachable",
    "prohibited",
    "unsendable",
    "version",
    "busy",
    "encryption-mismatch",
    "tls",
    "terms",
    "other",
]);

/// Handshakes that listeners were asked for.
pub(crate) static HANDSHAKES: Counters<5> =
    Counters::new(["ok", "cookie", "tls-failed", "timeout", "refused"]);

/// What the session above a link had said when the link ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// This side's session took its leave.
    Ours,
    /// The peer's session took its leave.
    Theirs,
    /// Neither: zenoh has given the link up, for want of a sign of life within the lease or because of an error.
    Neither,
}

/// A link has ended; its connection for `reason`, if it ended before.
pub(crate) fn count_closed(reason: Option<&ConnectionError>, farewell: Farewell) {
    CLOSED.count(closed_name(reason, farewell));
}

fn closed_name(reason: Option<&ConnectionError>, farewell: Farewell) -> &'static str {
    match reason {
        None | Some(ConnectionError::LocallyClosed) => match farewell {
            Farewell::Ours => "closed",
            Farewell::Theirs => "closed-by-peer",
            Farewell::Neither => "given-up",
        },
        Some(ConnectionError::PeerClosed(_)) => "closed-by-peer",
        Some(ConnectionError::LingerExpired) => "linger-expired",
        Some(ConnectionError::TimedOut) => "idle-timeout",
        Some(ConnectionError::PeerGone) => "peer-gone",
        Some(ConnectionError::PeerLostState) => "peer-restarted",
        Some(ConnectionError::Replaced) => "replaced",
        Some(ConnectionError::Violation(_)) => "violation",
        Some(_) => "other",
    }
}

/// An attempt to connect has failed.
pub(crate) fn count_failed(reason: &ConnectionError) {
    FAILED.count(failed_name(reason));
}

/// The two sides do not agree on what the link shall be.
pub(crate) fn count_disagreement() {
    FAILED.count("terms");
}

fn failed_name(reason: &ConnectionError) -> &'static str {
    match reason {
        ConnectionError::HandshakeTimedOut { .. } => "timeout",
        ConnectionError::Unreachable(Unreachable::Port) => "port-unreachable",
        ConnectionError::Unreachable(Unreachable::Host) => "host-unreachable",
        ConnectionError::Unreachable(Unreachable::Network) => "network-unreachable",
        ConnectionError::Unreachable(Unreachable::Prohibited) => "prohibited",
        ConnectionError::Unsendable => "unsendable",
        ConnectionError::Refused(RefuseReason::Version) => "version",
        ConnectionError::Refused(RefuseReason::Busy) => "busy",
        ConnectionError::PeerOnlySealed | ConnectionError::PeerOnlyClear => "encryption-mismatch",
        ConnectionError::HandshakeFailed(_)
        | ConnectionError::PeerEndedHandshake { .. }
        | ConnectionError::Refused(RefuseReason::Handshake { .. }) => "tls",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use arq_proto::Violation;

    use super::*;

    #[test]
    fn a_link_ends_for_the_reason_of_its_connection_or_else_of_its_session() {
        for (reason, farewell, name) in [
            (None, Farewell::Ours, "closed"),
            (None, Farewell::Theirs, "closed-by-peer"),
            (None, Farewell::Neither, "given-up"),
            (Some(ConnectionError::LocallyClosed), Farewell::Ours, "closed"),
            (Some(ConnectionError::LocallyClosed), Farewell::Neither, "given-up"),
            (Some(ConnectionError::PeerClosed(String::new())), Farewell::Neither, "closed-by-peer"),
            (Some(ConnectionError::LingerExpired), Farewell::Ours, "linger-expired"),
            (Some(ConnectionError::TimedOut), Farewell::Neither, "idle-timeout"),
            (Some(ConnectionError::PeerGone), Farewell::Neither, "peer-gone"),
            (Some(ConnectionError::PeerLostState), Farewell::Neither, "peer-restarted"),
            (Some(ConnectionError::Replaced), Farewell::Neither, "replaced"),
            (Some(ConnectionError::Violation(Violation::Credit)), Farewell::Neither, "violation"),
            (Some(ConnectionError::PacketNumbersUsedUp), Farewell::Neither, "other"),
        ] {
            assert_eq!(closed_name(reason.as_ref(), farewell), name, "{reason:?} {farewell:?}");
            assert!(CLOSED.names.contains(&name), "{name}");
        }
    }

    #[test]
    fn an_attempt_fails_for_a_reason_that_is_counted() {
        let within = std::time::Duration::from_secs(9);
        for (reason, name) in [
            (ConnectionError::HandshakeTimedOut { within, most: 1_200, least: 168 }, "timeout"),
            (ConnectionError::Unreachable(Unreachable::Port), "port-unreachable"),
            (ConnectionError::Unreachable(Unreachable::Host), "host-unreachable"),
            (ConnectionError::Unreachable(Unreachable::Network), "network-unreachable"),
            (ConnectionError::Unreachable(Unreachable::Prohibited), "prohibited"),
            (ConnectionError::Unsendable, "unsendable"),
            (ConnectionError::Refused(RefuseReason::Version), "version"),
            (ConnectionError::Refused(RefuseReason::Busy), "busy"),
            (ConnectionError::PeerOnlySealed, "encryption-mismatch"),
            (ConnectionError::PeerOnlyClear, "encryption-mismatch"),
            (ConnectionError::Refused(RefuseReason::Handshake { alert: 48 }), "tls"),
            (ConnectionError::LocallyClosed, "other"),
        ] {
            assert_eq!(failed_name(&reason), name, "{reason:?}");
            assert!(FAILED.names.contains(&name), "{name}");
        }
        assert!(FAILED.names.contains(&"terms"));
    }

    #[test]
    fn each_is_counted_once_and_what_has_no_name_under_the_last() {
        let counters = Counters::new(["a", "other"]);
        ["a", "b", "a", "other"].into_iter().for_each(|name| counters.count(name));
        assert_eq!(counters.read(), [("a", 2), ("other", 2)]);
    }
}
