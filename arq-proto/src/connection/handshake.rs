// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! From nothing to an association: one round trip, and no state at the server before the client has
//! shown that it receives at its address (`docs/protocol.md` §2).

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use super::{unreachable::Dubious, Connection, Origin, State};
use crate::{
    error::ConnectionError,
    event::Event,
    timer::TimerKind,
    units::ConnectionId,
    wire::{
        packet::{self, Challenge, Cookie, Refuse},
        params::Params,
        VERSION,
    },
};

/// A HELLO is repeated at this interval at first: short, since a radio's round trip is short and
/// its losses many; then at twice the interval each time.
const FIRST_INTERVAL: Duration = Duration::from_millis(50);
const FLAT_ATTEMPTS: usize = 4;
const MAX_INTERVAL: Duration = Duration::from_secs(1);

/// A client before the server's answer.
#[derive(Debug)]
pub(super) struct Hello {
    instance: u64,
    started: Instant,
    /// When each attempt was sent.
    pub(super) sent: Vec<Instant>,
    due: bool,
    pub(super) dubious: Dubious,
}

/// What a client repeats until the server has answered.
#[derive(Debug)]
pub(super) struct CookieEcho {
    version: u32,
    cookie: Vec<u8>,
    params: Vec<u8>,
}

impl CookieEcho {
    pub(super) fn frame(&self, scid: ConnectionId) -> Cookie<'_> {
        Cookie { scid, version: self.version, cookie: &self.cookie, params: &self.params }
    }
}

/// What the server learnt from a valid cookie.
pub(crate) struct Accepted {
    pub(crate) remote_cid: ConnectionId,
    pub(crate) params: Params,
    /// Time since the challenge: the round trip, or longer when packets were lost.
    pub(crate) rtt_at_most: Duration,
}

impl Connection {
    /// A client's side.
    pub(crate) fn connect(now: Instant, origin: Origin, instance: u64) -> Self {
        let hello = Hello {
            instance,
            started: now,
            sent: Vec::new(),
            due: true,
            dubious: Dubious::default(),
        };
        let mut connection = Self::new(now, origin, State::Hello(hello));
        connection.timers.set(TimerKind::Handshake, Some(now + FIRST_INTERVAL));
        connection
    }

    /// A server's side.
    pub(crate) fn accept(now: Instant, origin: Origin, accepted: Accepted) -> Self {
        let mut connection = Self::new(now, origin, State::Open { cookie: None });
        connection.remote_cid = accepted.remote_cid;
        connection.recovery.rtt.assume_at_most(accepted.rtt_at_most);
        connection.apply_params(accepted.params);
        connection.events.push_back(Event::Connected);
        connection.rearm(now);
        connection
    }

    /// `to`: the local address that it was sent to.
    pub(super) fn on_challenge(&mut self, now: Instant, challenge: Challenge, to: Option<IpAddr>) {
        let State::Hello(hello) = &self.state else {
            self.counters.datagrams_dropped += 1;
            return;
        };
        if challenge.dcid != self.local_cid || challenge.version != VERSION {
            self.counters.datagrams_dropped += 1;
            return;
        }
        if let Some(sent_at) = hello.sent.get(usize::from(challenge.attempt)) {
            let sample = now.saturating_duration_since(*sent_at);
            self.recovery.rtt.update(sample, Duration::ZERO);
        }
        let mut params = Vec::new();
        Self::params(&self.config).encode(&mut params);
        let cookie = CookieEcho { version: challenge.version, cookie: challenge.cookie, params };
        self.state = State::Open { cookie: Some(cookie) };
        self.remote_cid = challenge.scid;
        self.local_ip = to;
        self.apply_params(challenge.params);
        self.heard_at = now;
        self.recovery.on_heard(now);
        self.timers.set(TimerKind::Handshake, None);
        // The server makes its state from the first packet: send one even if nobody has data yet.
        self.ping_due = true;
        self.events.push_back(Event::Connected);
    }

    pub(super) fn on_refuse(&mut self, refuse: Refuse) {
        let waiting = match &self.state {
            State::Hello(_) => true,
            State::Open { cookie } | State::Flushing { cookie } => cookie.is_some(),
            State::Closing(_) | State::Drained => false,
        };
        if waiting && refuse.dcid == self.local_cid {
            self.end(ConnectionError::Refused(refuse.reason));
        } else {
            self.counters.datagrams_dropped += 1;
        }
    }

    pub(super) fn on_handshake_timer(&mut self, now: Instant) {
        let State::Hello(hello) = &mut self.state else { return };
        if now >= hello.started + self.config.handshake_timeout {
            self.end(ConnectionError::HandshakeTimedOut);
            return;
        }
        hello.due = true;
        let doublings = hello.sent.len().saturating_sub(FLAT_ATTEMPTS - 1).min(8) as u32;
        let interval = (FIRST_INTERVAL * 2_u32.pow(doublings)).min(MAX_INTERVAL);
        let deadline = hello.started + self.config.handshake_timeout;
        self.timers.set(TimerKind::Handshake, Some((now + interval).min(deadline)));
    }

    /// Appends a HELLO if one is due.
    pub(super) fn write_hello(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let State::Hello(hello) = &mut self.state else { return false };
        if !std::mem::take(&mut hello.due) {
            return false;
        }
        // Counted in one byte: the last value serves all further attempts and gives no sample.
        let attempt = u8::try_from(hello.sent.len()).unwrap_or(u8::MAX);
        if attempt < u8::MAX {
            hello.sent.push(now);
        }
        packet::Hello {
            scid: self.local_cid,
            instance: hello.instance,
            attempt,
            versions: vec![VERSION],
        }
        .encode(out);
        true
    }

    /// The server has answered: it has its state, the cookie is no longer needed.
    pub(super) fn confirm(&mut self) {
        if let State::Open { cookie } | State::Flushing { cookie } = &mut self.state {
            *cookie = None;
        }
    }

    pub(super) fn cookie(&self) -> Option<Cookie<'_>> {
        match &self.state {
            State::Open { cookie: Some(cookie) } | State::Flushing { cookie: Some(cookie) } => {
                Some(cookie.frame(self.local_cid))
            }
            State::Open { cookie: None }
            | State::Flushing { cookie: None }
            | State::Hello(_)
            | State::Closing(_)
            | State::Drained => None,
        }
    }
}
