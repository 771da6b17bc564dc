// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The network, or this host, says that datagrams do not reach the peer: what follows from that?
//!
//! Whoever likes can send such a report, so a report only counts if it quotes a packet that was sent, which one who
//! cannot read the packets cannot guess. That much ends an attempt to connect: TCP believes no less. It does not end an
//! association: networks heal, and who reads packets can forge reports of them, but cannot keep a peer from
//! answering. So a report that the peer's port is closed makes this side *suspect* the peer and ask; what is heard
//! clears it, and only silence beside further reports ends the association.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use super::{Connection, State};
use crate::{
    error::{ConnectionError, Unreachable},
    timer::TimerKind,
    units::PacketNumber,
    wire::packet::{peek_connection_id, peek_number, PacketKind},
};

/// Weak evidence is believed after so many HELLOs in a row, 200 to 400 ms. A firewall that drops at random refuses so many
/// in a row only where it drops nearly all.
const WEAK_HELLOS: u32 = 5;
/// Packets refused, each later than the one before, that it takes to end an association.
const REFUSED_PACKETS: u32 = 3;
/// Questions, a probe time-out apart, that the peer leaves unanswered at least.
const QUESTIONS: u32 = 3;
/// Least silence under suspicion where the peer is on another host: a fade, or rules of a firewall that are loaded anew.
const MIN_SILENCE: Duration = Duration::from_millis(250);
/// The same for a peer that has dialled. A NAT before it may have lost the mapping, and answers in its place: it has a new
/// one as soon as the peer sends, which it does each second while nobody answers.
const MIN_SILENCE_OF_DIALLER: Duration = Duration::from_millis(1_250);
/// Questions before the wait between two of them doubles each time, and its end.
const FLAT_QUESTIONS: u32 = 8;
const MAX_INTERVAL: Duration = Duration::from_millis(250);
/// A suspicion that comes to no end, as systems ration their reports (Linux: one a second after six).
const MAX_SUSPICION: Duration = Duration::from_secs(5);
/// After a suspicion was cleared nothing is suspected for so long: forged reports make few questions.
const PAUSE: Duration = Duration::from_millis(100);

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

/// The peer's port was reported closed, and nothing was heard since.
#[derive(Debug)]
pub(super) struct Suspicion {
    since: Instant,
    refused: u32,
    latest: PacketNumber,
    /// Times that the peer was asked.
    asked: u32,
    cleared: bool,
}

impl Connection {
    /// A report came in, which [`Endpoint::route_report`](crate::Endpoint::route_report) assigned to this connection.
    pub fn handle_unreachable(&mut self, now: Instant, report: &UnreachableReport<'_>) {
        let now = self.advance(now);
        self.counters.unreachable_reports += 1;
        if !is_same(report.destination, self.path.remote) {
            return;
        }
        match &mut self.state {
            State::Hello(hello) => {
                let kind = report.quote.first().and_then(|first| PacketKind::of(*first).ok());
                let believed = match peek_connection_id(report.quote) {
                    Some(id) => kind == Some(PacketKind::Hello) && id == self.local_cid,
                    // Some systems quote no more than the UDP header.
                    None => hello.weak_evidence.note(hello.sent.len()),
                };
                if believed {
                    self.end(ConnectionError::Unreachable(report.cause));
                }
            }
            State::Open { .. } | State::Flushing { .. } => self.weigh(now, report),
            State::Closing(_) | State::Drained => {}
        }
        self.rearm(now);
    }

    /// The system refused to send, for another reason than the length of a datagram. An open connection repairs what
    /// is lost; who cannot say HELLO need not wait for an answer.
    pub fn handle_send_refused(&mut self, now: Instant, refusal: Refusal) {
        self.advance(now);
        let State::Hello(hello) = &mut self.state else { return };
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
        let quoted = peek_number(report.quote).filter(|(id, _)| *id == self.remote_cid);
        let Some(number) = quoted.and_then(|(_, number)| self.path.recovery.sent_lately(number))
        else {
            return;
        };
        // Only the host itself knows its ports: whoever else says so is a firewall, and may think better of it.
        let of_peer = report.reporter.to_canonical() == self.path.remote.ip().to_canonical();
        if report.cause == Unreachable::Port && of_peer {
            self.suspect(now, number);
        }
    }

    fn suspect(&mut self, now: Instant, number: PacketNumber) {
        let suspicion = match &mut self.path.suspicion {
            Some(suspicion) if !suspicion.cleared => suspicion,
            Some(cleared) if now < cleared.since + PAUSE => return,
            empty => {
                self.counters.suspicions += 1;
                let (since, latest) = (now, PacketNumber(0));
                empty.insert(Suspicion { since, refused: 0, latest, asked: 0, cleared: false })
            }
        };
        let is_new = suspicion.refused == 0;
        if is_new || number > suspicion.latest {
            suspicion.refused += 1;
            suspicion.latest = number;
        }
        if is_new {
            self.ask_suspect(now);
        } else if self.is_confirmed(now) {
            self.end(ConnectionError::PeerGone);
        }
    }

    /// Asks at each probe time-out, and less often when nothing has come of that.
    fn ask_suspect(&mut self, now: Instant) {
        let (base, least) = (self.path.recovery.pto_base(), self.least_silence());
        let Some(suspicion) = &mut self.path.suspicion else { return };
        self.life.ping_due = true;
        suspicion.asked += 1;
        let doublings = suspicion.asked.saturating_sub(FLAT_QUESTIONS).min(16);
        let interval = base.saturating_mul(1 << doublings).min(MAX_INTERVAL.max(base));
        // The verdict waits for no question.
        let verdict = Some(suspicion.since + least).filter(|at| *at > now);
        let next = now + interval;
        self.timers.set(TimerKind::Suspicion, Some(verdict.map_or(next, |at| at.min(next))));
    }

    /// Another question without an answer.
    pub(super) fn on_suspicion_timer(&mut self, now: Instant) {
        let Some(since) = self.path.suspicion.as_ref().map(|suspicion| suspicion.since) else {
            return;
        };
        if self.is_confirmed(now) {
            self.end(ConnectionError::PeerGone);
        } else if now < since + MAX_SUSPICION {
            self.ask_suspect(now);
        } else {
            self.path.suspicion = None;
        }
    }

    fn is_confirmed(&self, now: Instant) -> bool {
        let least = self.least_silence();
        self.path.suspicion.as_ref().is_some_and(|suspicion| {
            suspicion.refused >= REFUSED_PACKETS && now >= suspicion.since + least
        })
    }

    fn least_silence(&self) -> Duration {
        // A peer of this host that has moved is behind a proxy of this host.
        let has_moved = self.path.left.is_some() || self.path.probe.is_some();
        let least = match (self.path.is_local && !has_moved, self.dialled) {
            (true, _) => Duration::ZERO,
            (false, true) => MIN_SILENCE,
            (false, false) => MIN_SILENCE_OF_DIALLER,
        };
        least.max(QUESTIONS * self.path.recovery.pto_base())
    }

    /// Something authentic was heard.
    pub(super) fn clear_suspicion(&mut self, now: Instant) {
        if let Some(suspicion) = self.path.suspicion.as_mut().filter(|one| !one.cleared) {
            suspicion.cleared = true;
            suspicion.since = now;
            self.timers.set(TimerKind::Suspicion, None);
        }
    }
}

/// Whether two addresses mean the same port of the same host, however a socket of both IP versions writes them.
fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
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
