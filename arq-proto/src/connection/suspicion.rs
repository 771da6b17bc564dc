// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Something says that the peer is gone: is it?
//!
//! A RESET, a REFUSE, a newcomer at the peer's address or from its host, and a report of its closed port all say so. An
//! attacker who reads packets can forge each of them, but cannot keep the peer from answering. So each makes this side
//! *suspect* the peer, and ask. Any answer clears the suspicion. The association ends only if evidence repeats and bad
//! luck does not explain the silence.
//!
//! Requirements, numbered as in `docs/protocol.md`, to which the sections belong:
//!
//! - **ARQ-SUS-1** Evidence (ARQ-RST-2, ARQ-RPL-1, -2, ARQ-HS-9, ARQ-UNR-4) makes a side *suspect* the peer. It sends
//!   PING at once and then each third of a PTO base (each PTO base if there are only reports of another host).
//!   After as many PINGs as ARQ-SUS-3 names, the interval doubles, up to 250 ms. The suspicion ends without a
//!   verdict after 5 s, or twice the time of ARQ-SUS-3 if that is longer. Anything authentic ends it at once, and
//!   prevents another for 100 ms.
//! - **ARQ-SUS-2** A suspicion ends the association when there is evidence about three packets, each later than the
//!   one before (evidence that names none is about the newest one), and the time is over in which a living peer
//!   leaves all PINGs unanswered with a chance of, here, 1 in a million. Evidence other than a report ends it at
//!   once if nothing was heard for that time, and the peer is silent (§7). Evidence MUST NOT end it otherwise.
//! - **ARQ-SUS-3** The time of a suspicion is that of *n* PINGs: *n* - 1 intervals and one PTO base. *n* is
//!   `ceil(ln 0.000001 / ln q)`, 3 to 24: a living peer leaves all of them unanswered with a chance of 1 in a
//!   million. `q` is the chance that a PING or its answer is lost (ARQ-LOS-3). The time is at least 80 ms; with
//!   only reports, 250 ms if this side opened the association or no NAT is before the peer (ARQ-RPL-3), else 1.25 s.
//!   There is no least time if the peer is on the same machine and has kept its address.
//! - **ARQ-SUS-4** Where the evidence is that of ARQ-RPL-2, the time of ARQ-SUS-3 is at least 1.25 s, and counts from the
//!   first question in any case. If a host that is behind no NAT reports the closed port as well, it is 250 ms.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use super::{Connection, State};
use crate::{
    chance::losses_beyond_chance,
    error::{ConnectionError, RefuseReason},
    recovery::pto,
    timer::TimerKind,
    units::PacketNumber,
};

/// Packets refused, each later than the one before, that it takes to end an association.
const REFUSED_PACKETS: u32 = 3;
/// The chance that a living peer leaves all questions unanswered, at most: a forger may try once in each [`PAUSE`].
const BAD_LUCK: f64 = 1e-6;
const MIN_QUESTIONS: u32 = 3;
const MAX_QUESTIONS: u32 = 24;
/// Questions in a probe time-out. Where there are only reports of another host it is one, since systems ration those.
const QUESTIONS_IN_BASE: u32 = 3;
/// Least silence before evidence from another host is believed: that host may be busy for so long.
const MIN_SILENCE: Duration = Duration::from_millis(80);
/// The same where there are only reports: a fade, or a firewall that reloads its rules, makes some, too.
const MIN_SILENCE_OF_REPORTED: Duration = Duration::from_millis(250);
/// The same for a peer that has dialled, perhaps through a NAT. One that lost the peer's mapping answers in its place. The
/// mapping is new once the peer sends, which it does each second while nobody answers. And where another program of the
/// peer's host has come: that host is up, and stands still for no longer than a second.
const MIN_SILENCE_OF_DIALLER: Duration = Duration::from_millis(1_250);
/// Longest interval between questions beyond those that the verdict needs.
const MAX_INTERVAL: Duration = Duration::from_millis(250);
/// Longest suspicion. One may find no end, as systems ration their reports (Linux: one a second after six).
const MAX_SUSPICION: Duration = Duration::from_secs(5);
/// After a suspicion is cleared there is none for this time, so that forgeries cause few questions.
const PAUSE: Duration = Duration::from_millis(100);

/// What says that the peer is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// A host reports that nobody has the port open.
    PortClosed,
    /// A client of the peer's host has opened an association with the peer's credentials, from its IP address.
    Sibling,
    /// RESET.
    Reset,
    /// REFUSE, of a handshake whose CHALLENGE came.
    Refused(RefuseReason),
    /// Another instance has opened an association from the peer's address.
    Newcomer,
}

impl Evidence {
    fn verdict(self) -> ConnectionError {
        match self {
            Self::PortClosed => ConnectionError::PeerGone,
            Self::Reset => ConnectionError::PeerLostState,
            Self::Refused(reason) => ConnectionError::Refused(reason),
            Self::Newcomer | Self::Sibling => ConnectionError::Replaced,
        }
    }

    /// Whether it says the less of the two: a closed port may be another's, and a sibling live beside the peer.
    fn yields_to(self, other: Self) -> bool {
        self == Self::PortClosed || self == Self::Sibling && other != Self::PortClosed
    }
}

/// There is evidence that the peer is gone, and nothing was heard since.
#[derive(Debug)]
pub(super) struct Suspicion {
    /// The first that was more than a report.
    evidence: Evidence,
    /// There was a report, too.
    reported: bool,
    since: Instant,
    /// Questions that a living peer does not leave unanswered: silence since must not count as loss.
    questions: u32,
    refused: u32,
    latest: PacketNumber,
    /// Times that the peer was asked.
    asked: u32,
    cleared: bool,
}

impl Connection {
    /// Another instance has opened an association from `address`: asks the peer of this one whether it lives, unless it
    /// has moved away from there in the meantime.
    pub fn handle_newcomer(&mut self, now: Instant, address: SocketAddr) {
        let now = self.advance(now);
        let is_open = matches!(self.state, State::Open { .. } | State::Flushing { .. });
        if is_open && self.all_paths().any(|path| path.remote == address) {
            self.suspect(now, Evidence::Newcomer, self.newest_sent());
        }
        self.rearm(now);
    }

    /// A client of the peer's host has opened an association from `ip`, with the peer's credentials: it may be the peer's
    /// process, started again. Asks the peer of this one whether it lives, on the path that leads there.
    pub fn handle_sibling(&mut self, now: Instant, ip: IpAddr) {
        let now = self.advance(now);
        let is_open = matches!(self.state, State::Open { .. } | State::Flushing { .. });
        let path = self.all_paths().find(|path| path.remote.ip() == ip).map(|path| path.number);
        if let Some(number) = path.filter(|_| is_open) {
            self.with_path(number, |this| {
                this.suspect(now, Evidence::Sibling, this.newest_sent());
            });
        }
        self.rearm(now);
    }

    /// The number of the newest packet that was sent, for evidence that names none.
    pub(super) fn newest_sent(&self) -> PacketNumber {
        PacketNumber(self.path.recovery.next_number().0.saturating_sub(1))
    }

    /// Evidence that names a packet with this number.
    pub(super) fn suspect(&mut self, now: Instant, evidence: Evidence, number: PacketNumber) {
        let questions = self.questions();
        let suspicion = match &mut self.path.suspicion {
            Some(suspicion) if !suspicion.cleared => suspicion,
            Some(cleared) if now < cleared.since + PAUSE => return,
            empty => {
                self.counters.suspicions += 1;
                empty.insert(Suspicion {
                    evidence,
                    reported: false,
                    since: now,
                    questions,
                    refused: 0,
                    latest: PacketNumber(0),
                    asked: 0,
                    cleared: false,
                })
            }
        };
        if suspicion.evidence.yields_to(evidence) {
            suspicion.evidence = evidence;
        }
        suspicion.reported |= evidence == Evidence::PortClosed;
        let is_new = suspicion.refused == 0;
        if is_new || number > suspicion.latest {
            suspicion.refused += 1;
            suspicion.latest = number;
        }
        self.judge(now, is_new);
    }

    /// Ends the association if that is beyond doubt, or asks the peer if it `asks`.
    fn judge(&mut self, now: Instant, asks: bool) {
        let Some(suspicion) = &self.path.suspicion else { return };
        let least = self.least_silence(suspicion);
        let evidence = suspicion.evidence;
        let confirmed = suspicion.refused >= REFUSED_PACKETS && now >= suspicion.since + least;
        let was_silent = match evidence {
            Evidence::PortClosed => false,
            // What it did before says nothing of a living one that was not asked.
            Evidence::Sibling => now >= suspicion.since + least,
            _ => now >= self.life.heard_at + least,
        };
        let since = suspicion.since;
        if confirmed || was_silent && self.has_asked_in_vain() {
            self.convict(now, since, evidence);
        } else if asks {
            self.ask_suspect(now);
        }
    }

    /// The evidence is beyond doubt of the path that is served. A peer that was heard on another one since lives.
    fn convict(&mut self, now: Instant, since: Instant, evidence: Evidence) {
        if self.others.iter().any(|path| path.recovery.heard_at() >= since) {
            self.path.suspicion = None;
            self.fall_silent(now);
        } else {
            self.end(evidence.verdict());
        }
    }

    /// Whether the peer has left more probes unanswered than bad luck explains.
    fn has_asked_in_vain(&self) -> bool {
        let (forward, reverse) = (self.path.recovery.loss().upper(), self.path.acks.loss.upper());
        self.path.recovery.time_outs() > pto::flat_count(forward, reverse)
    }

    /// Asks several times in a probe time-out, and less often when nothing has come of that.
    fn ask_suspect(&mut self, now: Instant) {
        let Some(suspicion) = &mut self.path.suspicion else { return };
        suspicion.asked += 1;
        self.path.ping_due = true;
        let Some(suspicion) = &self.path.suspicion else { return };
        let doublings = suspicion.asked.saturating_sub(suspicion.questions).min(16);
        let interval = self.question_interval(suspicion.evidence).saturating_mul(1 << doublings);
        let next = now + interval.min(MAX_INTERVAL.max(self.path.recovery.pto_base()));
        // The verdict waits for no question.
        let verdict = Some(suspicion.since + self.least_silence(suspicion)).filter(|at| *at > now);
        self.path.timers.set(TimerKind::Suspicion, Some(verdict.map_or(next, |at| at.min(next))));
    }

    /// Another question without an answer.
    pub(super) fn on_suspicion_timer(&mut self, now: Instant) {
        let Some(suspicion) = &self.path.suspicion else { return };
        if now < suspicion.since + MAX_SUSPICION.max(2 * self.least_silence(suspicion)) {
            self.judge(now, true);
        } else {
            self.path.suspicion = None;
        }
    }

    fn questions(&self) -> u32 {
        losses_beyond_chance(self.chance_of_no_answer(), BAD_LUCK, MIN_QUESTIONS..=MAX_QUESTIONS)
    }

    /// The chance that a question or its answer is lost.
    pub(super) fn chance_of_no_answer(&self) -> f64 {
        let (forward, reverse) = (self.path.recovery.loss().upper(), self.path.acks.loss.upper());
        1.0 - (1.0 - forward.as_f64()) * (1.0 - reverse.as_f64())
    }

    /// The last question is given a whole probe time-out.
    fn least_silence(&self, suspicion: &Suspicion) -> Duration {
        // A frozen program keeps its port open, and no NAT answers in its place.
        let reports_itself = self.dialled || self.is_behind_no_nat();
        let least = match (self.is_on_this_host(), suspicion.evidence) {
            (_, Evidence::Sibling) if suspicion.reported && reports_itself => {
                MIN_SILENCE_OF_REPORTED
            }
            (_, Evidence::Sibling) => MIN_SILENCE_OF_DIALLER,
            (true, _) => Duration::ZERO,
            (false, Evidence::PortClosed) if reports_itself => MIN_SILENCE_OF_REPORTED,
            (false, Evidence::PortClosed) => MIN_SILENCE_OF_DIALLER,
            (false, _) => MIN_SILENCE,
        };
        let intervals = (suspicion.questions - 1) * self.question_interval(suspicion.evidence);
        least.max(intervals + self.path.recovery.pto_base())
    }

    fn question_interval(&self, evidence: Evidence) -> Duration {
        let base = self.path.recovery.pto_base();
        match evidence {
            Evidence::PortClosed if !self.is_on_this_host() => base,
            _ => base / QUESTIONS_IN_BASE,
        }
    }

    /// Whether the peer's own system has the address where it is.
    fn is_behind_no_nat(&self) -> bool {
        self.path.peer_local_ip == Some(self.path.remote.ip().to_canonical())
    }

    /// Whether the peer is. One that has moved is behind a proxy of this host.
    fn is_on_this_host(&self) -> bool {
        self.path.is_local && self.path.left.is_none() && self.path.probe.is_none()
    }

    /// Something authentic was heard.
    pub(super) fn clear_suspicion(&mut self, now: Instant) {
        if let Some(suspicion) = self.path.suspicion.as_mut().filter(|one| !one.cleared) {
            suspicion.cleared = true;
            suspicion.since = now;
            self.path.timers.set(TimerKind::Suspicion, None);
        }
    }
}
