// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The network (by ICMP *destination unreachable* or *time exceeded*), or this host, says that datagrams do not reach the peer: what follows from that?
//!
//! Whoever likes can send such a report, so a report only counts if it quotes a packet that was sent, which one who
//! cannot read the packets cannot guess. That much ends an attempt to connect: TCP believes no less. It does not end an
//! association: networks heal, and who reads packets can forge reports of them. So a report that the peer's port is
//! closed makes this side [suspect](super::suspicion) the peer.
//!
//! Requirements, numbered as in `docs/protocol.md`, to which the sections belong:
//!
//! - **ARQ-UNR-1** A report that quotes its HELLO with the SCID and names the peer's address as destination ends
//!   the attempt of a client that waits for CHALLENGE.
//! - **ARQ-UNR-2** So does a refusal of the own system to send HELLO for lack of a route (Linux: ENETUNREACH,
//!   ENETDOWN, EHOSTUNREACH, EADDRNOTAVAIL, EINVAL, EACCES). Weaker evidence (EPERM; a report without the whole
//!   SCID) needs five HELLOs in a row.
//! - **ARQ-UNR-3** A report about an association counts if it names the peer's address as destination and quotes a
//!   DATA packet with the peer's id and a number sent lately (ARQ-RST-2). A report that does not count MUST NOT
//!   change anything; one that does, or a send error, has no effect but ARQ-UNR-4.
//! - **ARQ-UNR-4** A *port unreachable* from the peer's address is evidence that the peer is gone (ARQ-SUS-1).

use std::{
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use super::{suspicion::Evidence, Connection, State};
use crate::{
    error::{ConnectionError, Unreachable},
    units::SocketId,
    wire::packet::{peek_connection_id, peek_number, PacketKind},
};

/// Weak evidence is believed after so many HELLOs in a row, 200 to 400 ms. A firewall that drops at random refuses so many
/// in a row only where it drops nearly all.
const WEAK_HELLOS: u32 = 5;
/// A report that a datagram did not reach its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreachableReport<'a> {
    /// What is said to be the matter.
    pub cause: Unreachable,
    /// Where the datagram went.
    pub destination: SocketAddr,
    /// Who says so.
    pub reporter: IpAddr,
    /// How the datagram began, as far as the report quotes it.
    pub quote: &'a [u8],
}

impl<'a> UnreachableReport<'a> {
    /// `reporter` says that the datagram to `destination` which begins with `quote` has not arrived, and why.
    #[must_use]
    pub fn new(
        cause: Unreachable,
        destination: SocketAddr,
        reporter: IpAddr,
        quote: &'a [u8],
    ) -> Self {
        Self { cause, destination, reporter, quote }
    }
}

/// How the system refuses to send a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It knows no way to the destination, or none is allowed: the next datagram would fare alike.
    NoWay,
    /// A firewall drops the datagram, and perhaps not the next one.
    Dropped,
}

/// HELLOs that were perhaps refused: by a firewall that may drop at random, or by a report too short to name them.
#[derive(Debug, Default)]
pub(super) struct WeakEvidence {
    in_a_row: u32,
    /// How many had been sent at the latest of them.
    sent: usize,
}

impl WeakEvidence {
    /// Another refusal, when `sent` HELLOs are out. Says whether it is believed.
    fn note(&mut self, sent: usize) -> bool {
        match sent.saturating_sub(std::mem::replace(&mut self.sent, sent)) {
            0 => {}
            1 => self.in_a_row += 1,
            _ => self.in_a_row = 1,
        }
        self.in_a_row >= WEAK_HELLOS
    }
}

impl Connection {
    /// A report came in, which [`Endpoint::route_report`](crate::Endpoint::route_report) assigned to this connection.
    pub fn handle_unreachable(&mut self, now: Instant, report: &UnreachableReport<'_>) {
        let now = self.advance(now);
        self.counters.unreachable_reports += 1;
        let quoted = peek_connection_id(report.quote).map(|id| self.path_to(id));
        self.with_path(quoted.unwrap_or_default(), |connection| {
            if is_same(report.destination, connection.path.remote) {
                connection.weigh_report(now, report);
            }
        });
        self.rearm(now);
    }

    fn weigh_report(&mut self, now: Instant, report: &UnreachableReport<'_>) {
        match &mut self.state {
            State::Hello(hello) => {
                let kind = report.quote.first().and_then(|first| PacketKind::of(*first).ok());
                let believed = match peek_connection_id(report.quote) {
                    Some(id) => kind == Some(PacketKind::Hello) && id == self.path.local_cid,
                    // Some systems quote no more than the UDP header.
                    None => hello.weak_evidence.note(hello.sent.len()),
                };
                if believed {
                    self.end(ConnectionError::Unreachable(report.cause));
                }
            }
            State::Open { .. } | State::Flushing { .. } => self.weigh(now, report),
            State::Accepting | State::Closing(_) | State::Drained => {}
        }
    }

    /// The system refused to send, for another reason than the length of a datagram. An open connection repairs what
    /// is lost, on another path if there is one; who cannot say HELLO need not wait for an answer.
    pub fn handle_send_refused(&mut self, now: Instant, socket: SocketId, refusal: Refusal) {
        let now = self.advance(now);
        let State::Hello(hello) = &mut self.state else {
            if refusal == Refusal::NoWay && !self.others.is_empty() {
                let number = self.path_through(socket);
                self.with_path(number, |connection| connection.fall_silent(now));
                self.rearm(now);
            }
            return;
        };
        let believed = match refusal {
            Refusal::NoWay => true,
            Refusal::Dropped => hello.weak_evidence.note(hello.sent.len()),
        };
        if believed {
            self.end(ConnectionError::Unsendable);
        }
    }

    /// A report about an association: is it of a packet that was sent, and does it say that nobody has the port open?
    fn weigh(&mut self, now: Instant, report: &UnreachableReport<'_>) {
        let quoted = peek_number(report.quote).filter(|(id, _)| *id == self.path.remote_cid);
        let sent = |number| match self.protection.is_sealed() {
            true => self.protection.sent_with_masked(number),
            false => self.path.recovery.sent_lately(number),
        };
        let Some(number) = quoted.and_then(|(_, number)| sent(number)) else {
            return;
        };
        // Only the host itself knows its ports: whoever else says so is a firewall, and may think better of it.
        let of_peer = report.reporter.to_canonical() == self.path.remote.ip().to_canonical();
        if report.cause == Unreachable::Port && of_peer {
            self.suspect(now, Evidence::PortClosed, number);
        }
    }
}

/// Whether two addresses mean the same port of the same host, however a socket of both IP versions writes them.
pub(crate) fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && one.ip().to_canonical() == other.ip().to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_evidence_about_each_hello_is_believed() {
        let mut weak_evidence = WeakEvidence::default();
        for sent in 1..WEAK_HELLOS as usize {
            assert!(
                (0..100).all(|_| !weak_evidence.note(sent)),
                "many reports of one HELLO are one"
            );
        }
        assert!(weak_evidence.note(WEAK_HELLOS as usize));
        let mut weak_evidence = WeakEvidence::default();
        assert!((0..100).all(|n| !weak_evidence.note(2 * n)), "each second one leaves");
    }
}
