// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! From nothing to an association in the clear: no state at the server before the client has shown that it receives at its
//! address.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use crate::{
    connection::{
        receive::Arrived,
        suspicion::Evidence,
        unreachable::{is_same, WeakEvidence},
        Connection, Origin, State,
    },
    error::{ConnectionError, RefuseReason},
    event::Event,
    timer::TimerKind,
    units::ConnectionId,
    wire::{
        packet::{self, Challenge, Cookie, Refuse},
        params::Params,
        Version, BASE_MTU, LEAST_HELLO_BYTES, VERSION,
    },
};

/// A HELLO is repeated after this: soon, since a radio's round trip is short and its losses many. Then after as long
/// again as the attempt has lasted.
const FIRST_INTERVAL: Duration = Duration::from_millis(50);
pub(super) const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// So long a server that has refused is asked on: whoever reads packets can say REFUSE, but cannot keep the server from
/// saying CHALLENGE.
pub(super) const REFUSAL_DOUBTED_FOR: Duration = Duration::from_secs(1);
/// HELLOs that leave at once: a long one, and a short one for paths that do not carry that.
pub(super) const FIRST_HELLOS: u8 = 2;

/// A client before the server's answer.
#[derive(Debug)]
pub(in crate::connection) struct Hello {
    instance: u64,
    started: Instant,
    /// Length of the first HELLO; all others are [`LEAST_HELLO_BYTES`] long, unless they carry a flight.
    longest_bytes: u16,
    /// When each attempt was sent.
    pub(in crate::connection) sent: Vec<Instant>,
    pub(super) due: u8,
    pub(in crate::connection) weak_evidence: WeakEvidence,
    /// What it ends with if nothing better comes: somebody has said REFUSE, or an attempt came to nothing.
    pub(super) refused: Option<ConnectionError>,
    /// From then on it is taken to be the server's word.
    pub(super) believed_at: Option<Instant>,
}

impl Hello {
    /// Length of an attempt's HELLO.
    fn bytes_of(&self, attempt: u8) -> u16 {
        match attempt {
            0 => self.longest_bytes,
            _ => LEAST_HELLO_BYTES,
        }
    }

    /// When it is given up.
    fn deadline(&self, within: Duration) -> Instant {
        let end = self.started + within;
        self.believed_at.map_or(end, |at| at.min(end))
    }
}

/// What a client repeats until the server has answered.
#[derive(Debug)]
pub(in crate::connection) struct CookieEcho {
    version: u32,
    cookie: Vec<u8>,
    params: Vec<u8>,
}

impl CookieEcho {
    pub(in crate::connection) fn frame(&self, scid: ConnectionId) -> Cookie<'_> {
        Cookie { scid, version: self.version, cookie: &self.cookie, params: &self.params }
    }
}

/// What the server learnt from a valid cookie.
pub(crate) struct Accepted {
    pub(crate) remote_cid: ConnectionId,
    pub(crate) params: Params,
    /// Length of the HELLO that was answered.
    pub(crate) hello_bytes: u16,
    /// Time since the challenge: the round trip, or longer when packets were lost.
    pub(crate) age: Duration,
    /// The cookie came with the first packet of all, which left as soon as the challenge arrived.
    pub(crate) is_first: bool,
}

impl Connection {
    /// A client's side.
    pub(crate) fn connect(now: Instant, origin: Origin, instance: u64) -> Self {
        let hello = Hello {
            instance,
            started: now,
            longest_bytes: origin.config.mtu.map_or(BASE_MTU, |mtu| mtu.min(BASE_MTU)),
            sent: Vec::new(),
            due: FIRST_HELLOS,
            weak_evidence: WeakEvidence::default(),
            refused: None,
            believed_at: None,
        };
        let mut connection = Self::new(now, origin, State::Hello(hello));
        connection.timers.set(TimerKind::Handshake, Some(now + FIRST_INTERVAL));
        connection
    }

    /// A server's side.
    pub(crate) fn accept(now: Instant, origin: Origin, accepted: Accepted) -> Self {
        let mut connection = Self::new(now, origin, State::Open { cookie: None });
        connection.path.remote_cid = accepted.remote_cid;
        let recovery = &mut connection.path.recovery;
        // A shorter age bounds the round trip, but a host that slept may have made it too long for a sample.
        if accepted.is_first && accepted.age > recovery.rtt().smoothed() {
            recovery.on_handshake_rtt(accepted.age);
        } else {
            recovery.assume_rtt_at_most(accepted.age);
        }
        connection.apply_params(accepted.params);
        connection.agree_on_clear_paths();
        // What the client has sent so far passes; of what this side sends nothing is known.
        connection.path.mtu.begin(accepted.hello_bytes, false);
        connection.follow_path_mtu();
        connection.events.push_back(Event::Connected);
        connection.rearm(now);
        connection
    }

    pub(in crate::connection) fn on_challenge(
        &mut self,
        now: Instant,
        challenge: Challenge,
        arrived: Arrived,
    ) {
        let is_asked = is_same(arrived.from, self.path.remote);
        if challenge.dcid != self.path.local_cid || challenge.version != VERSION || !is_asked {
            self.counters.datagrams_dropped += 1;
            return;
        }
        let State::Hello(hello) = &self.state else {
            // Each HELLO is answered, and the first answer counts.
            self.counters.datagrams_dropped += u64::from(self.cookie().is_none());
            return;
        };
        if let Some(sent_at) = hello.sent.get(usize::from(challenge.attempt)) {
            let sample = now.saturating_duration_since(*sent_at);
            self.path.recovery.on_handshake_rtt(sample);
        }
        let hello_bytes = hello.bytes_of(challenge.attempt);
        let mut params = Vec::new();
        Self::params(&self.config).encode(&mut params);
        let cookie = CookieEcho { version: challenge.version, cookie: challenge.cookie, params };
        self.state = State::Open { cookie: Some(cookie) };
        self.path.remote_cid = challenge.scid;
        self.path.local_ip = arrived.to;
        self.apply_params(challenge.params);
        self.agree_on_clear_paths();
        self.path.mtu.begin(hello_bytes, true);
        self.follow_path_mtu();
        self.life.heard_at = now;
        self.path.recovery.on_heard(now);
        self.timers.set(TimerKind::Handshake, None);
        // The server makes its state from the first packet: send one even if nobody has data yet.
        self.path.ping_due = true;
        self.events.push_back(Event::Connected);
    }

    /// A server that refuses says so each time that it is asked.
    pub(in crate::connection) fn on_refuse(
        &mut self,
        now: Instant,
        refuse: &Refuse,
        from: SocketAddr,
    ) {
        let is_told = refuse.dcid == self.path.local_cid && is_same(from, self.path.remote);
        let error = self.error_of(refuse);
        let is_unconfirmed = self.is_unconfirmed();
        match (&mut self.state, refuse.reason) {
            // What its session does not take, it may take of another one.
            (State::Hello(_), RefuseReason::Handshake { .. }) if is_told => self.spoil(now, error),
            (State::Hello(hello), _) if is_told => {
                hello.refused = Some(error);
                hello.believed_at = Some(hello.started + REFUSAL_DOUBTED_FOR);
            }
            (State::Open { .. } | State::Flushing { .. }, reason) if is_told && is_unconfirmed => {
                self.suspect(now, Evidence::Refused(reason), self.newest_sent());
            }
            _ => self.counters.datagrams_dropped += 1,
        }
    }

    /// What it means that the server refuses.
    fn error_of(&self, refuse: &Refuse) -> ConnectionError {
        let takes = |version: Version| refuse.versions.contains(&version.number());
        match refuse.reason {
            RefuseReason::Version if self.protection.is_sealed() && takes(Version::Clear) => {
                ConnectionError::PeerOnlyClear
            }
            RefuseReason::Version if !self.protection.is_sealed() && takes(Version::Sealed) => {
                ConnectionError::PeerOnlySealed
            }
            reason => ConnectionError::Refused(reason),
        }
    }

    pub(super) fn on_hello_timer(&mut self, now: Instant) {
        let State::Hello(hello) = &mut self.state else { return };
        let within = self.config.handshake_timeout;
        let deadline = hello.deadline(within);
        if now >= deadline {
            let sealed = self.handshake.as_ref().map(|handshake| handshake.datagram_bytes);
            let (most, least) = (hello.longest_bytes, sealed.unwrap_or(LEAST_HELLO_BYTES));
            let timed_out = ConnectionError::HandshakeTimedOut { within, most, least };
            let error = hello.refused.take().unwrap_or(timed_out);
            return self.give_up(now, error);
        }
        let waited = now.saturating_duration_since(hello.started);
        self.shorten_if_unanswered(waited);
        self.replace_if_spoiled();
        let (asks, longest) = self.handshake.as_ref().map_or((1, MAX_INTERVAL), |one| one.asks());
        let State::Hello(hello) = &mut self.state else { return };
        hello.due = hello.due.max(asks);
        let interval = waited.clamp(FIRST_INTERVAL, longest);
        self.timers.set(TimerKind::Handshake, Some((now + interval).min(deadline)));
    }

    /// Appends a HELLO if one is due.
    pub(in crate::connection) fn write_hello(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let State::Hello(hello) = &mut self.state else { return false };
        if hello.due == 0 {
            return false;
        }
        hello.due -= 1;
        // Counted in one byte: the last value serves all further attempts and gives no sample.
        let attempt = u8::try_from(hello.sent.len()).unwrap_or(u8::MAX);
        if attempt < u8::MAX {
            hello.sent.push(now);
        }
        let (scid, instance) = (self.path.local_cid, hello.instance);
        if let Some(handshake) = &mut self.handshake {
            let frames = Self::hello_frames(handshake);
            let (versions, bytes) = (vec![Version::Sealed.number()], handshake.datagram_bytes);
            packet::Hello { scid, instance, attempt, versions, bytes }.encode_with(
                &frames,
                Some(handshake.security.as_ref()),
                out,
            );
        } else {
            let (versions, bytes) = (vec![VERSION], hello.bytes_of(attempt));
            packet::Hello { scid, instance, attempt, versions, bytes }.encode(out);
        }
        true
    }

    /// The server has answered: it has its state, neither cookie nor flight is needed any longer.
    pub(in crate::connection) fn confirm(&mut self) {
        if self.handshake.take().is_some() {
            self.timers.set(TimerKind::Handshake, None);
        }
        if let State::Open { cookie } | State::Flushing { cookie } = &mut self.state {
            *cookie = None;
        }
        self.follow_interfaces(self.clock.now);
    }

    pub(in crate::connection) fn cookie(&self) -> Option<Cookie<'_>> {
        match &self.state {
            State::Open { cookie: Some(cookie) } | State::Flushing { cookie: Some(cookie) } => {
                Some(cookie.frame(self.path.local_cid))
            }
            State::Open { cookie: None }
            | State::Flushing { cookie: None }
            | State::Hello(_)
            | State::Accepting
            | State::Closing(_)
            | State::Drained => None,
        }
    }
}
