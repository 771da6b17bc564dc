// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The end of an association: orderly, abrupt, or because the peer is gone.

use std::time::{Duration, Instant};

use super::{transmit::Transmit, Connection, State};
use crate::{
    error::{ConnectionError, Violation},
    event::Event,
    sent::Content,
    timer::TimerKind,
    wire::frame::{Frame, MAX_REASON_BYTES},
};

/// A CLOSE is repeated at most this often; a peer that heard none of them learns from a RESET.
const MAX_CLOSES: u8 = 5;
const MIN_CLOSE_INTERVAL: Duration = Duration::from_millis(10);
const MAX_CLOSE_INTERVAL: Duration = Duration::from_secs(1);
/// How long to answer a peer that repeats its CLOSE, in probe time-outs (RFC 9000 §10.2).
const DRAIN_PTOS: u32 = 3;

/// How the end is going.
#[derive(Debug)]
pub(super) enum Closing {
    /// We tell the peer until it acknowledges.
    Telling { reason: String, tries: u8, due: bool },
    /// The peer told us; we only acknowledge.
    Told,
}

/// As much of a reason as travels.
pub(super) fn shortened(reason: &str) -> &str {
    let mut end = reason.len().min(MAX_REASON_BYTES);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason[..end]
}

impl Connection {
    /// Ends the connection in order: what is queued is delivered first, for at most
    /// [`linger`](crate::Config::linger); nothing new is taken.
    pub fn finish(&mut self, now: Instant) {
        let now = self.advance(now);
        match std::mem::replace(&mut self.state, State::Drained) {
            State::Open { cookie } => {
                self.state = State::Flushing { cookie };
                self.timers.set(TimerKind::Close, Some(now + self.config.linger));
                self.finish_if_flushed(now);
            }
            State::Hello(_) | State::Accepting => self.end(ConnectionError::LocallyClosed),
            state @ (State::Flushing { .. } | State::Closing(_) | State::Drained) => {
                self.state = state;
            }
        }
    }

    /// Ends the connection at once: what has not arrived is lost. The peer is told `reason`, at
    /// most 200 bytes of it.
    pub fn close(&mut self, now: Instant, reason: &str) {
        let now = self.advance(now);
        self.tell(now, reason, ConnectionError::LocallyClosed);
    }

    /// Ends the connection without a word, for the reason `error`: there is nobody to tell.
    pub fn abandon(&mut self, now: Instant, error: ConnectionError) {
        self.advance(now);
        self.end(error);
    }

    pub(super) fn finish_if_flushed(&mut self, now: Instant) {
        if matches!(self.state, State::Flushing { .. }) && self.outgoing.is_empty() {
            self.tell(now, "finished", ConnectionError::LocallyClosed);
        }
    }

    pub(super) fn violate(&mut self, now: Instant, violation: Violation) {
        // Not louder: whoever likes can break rules as often as it likes.
        tracing::debug!(%violation, remote = %self.path.remote, "closing a connection");
        let error = ConnectionError::Violation(violation);
        self.tell(now, &violation.to_string(), error);
    }

    /// Ends the connection and tells the peer.
    fn tell(&mut self, now: Instant, reason: &str, error: ConnectionError) {
        match self.state {
            State::Open { .. } | State::Flushing { .. } => {}
            State::Hello(_) | State::Accepting => return self.end(error),
            State::Closing(_) | State::Drained => return,
        }
        let reason = shortened(reason).to_owned();
        self.stop(error);
        self.state = State::Closing(Closing::Telling { reason, tries: 1, due: true });
        self.timers.set(TimerKind::Close, Some(now + self.close_interval()));
    }

    /// The peer told us.
    pub(super) fn on_close(&mut self, now: Instant, reason: &str) {
        match self.state {
            State::Open { .. } | State::Flushing { .. } => {
                self.stop(ConnectionError::PeerClosed(reason.to_owned()));
            }
            // Both sides close at once: each knows, and acknowledges.
            State::Closing(Closing::Telling { .. }) => {}
            State::Closing(Closing::Told) | State::Hello(_) | State::Accepting | State::Drained => {
                return
            }
        }
        self.state = State::Closing(Closing::Told);
        let wait = self.close_interval() * DRAIN_PTOS;
        self.timers.set(TimerKind::Close, Some(now + wait));
    }

    /// Ends the connection with nobody to tell.
    pub(super) fn end(&mut self, error: ConnectionError) {
        self.stop(error);
        self.drain();
    }

    /// Ends a handshake, after its last word has left.
    pub(super) fn end_with_farewell(&mut self, now: Instant, error: ConnectionError) {
        self.stop(error);
        self.state = State::Closing(Closing::Told);
        self.timers.set(TimerKind::Close, Some(now + MIN_CLOSE_INTERVAL));
    }

    pub(super) fn drain(&mut self) {
        self.state = State::Drained;
        self.stop_timers();
    }

    fn stop_timers(&mut self) {
        self.timers.stop_all();
        self.path.timers.stop_all();
        self.others.iter_mut().for_each(|path| path.timers.stop_all());
    }

    fn stop(&mut self, error: ConnectionError) {
        self.stop_timers();
        self.outgoing.clear();
        let readable = self.incoming.end_hold(self.clock.now);
        self.events.extend(readable.iter().map(Event::Readable));
        self.path.recovery.forget_all();
        self.others.iter_mut().for_each(|path| path.recovery.forget_all());
        if self.close_reason.is_none() {
            if let Some(observer) = &mut self.observer {
                observer.closed(self.clock.now, &error);
            }
            self.close_reason = Some(error.clone());
            self.events.push_back(Event::Closed(error));
        }
    }

    pub(super) fn on_close_timer(&mut self, now: Instant) {
        let interval = self.close_interval();
        match &mut self.state {
            State::Flushing { .. } => {
                let reason = "closed before everything was delivered";
                tracing::warn!(remote = %self.path.remote, reason);
                self.tell(now, reason, ConnectionError::LingerExpired);
            }
            State::Closing(Closing::Telling { tries, due, .. }) if *tries < MAX_CLOSES => {
                *tries += 1;
                *due = true;
                self.timers.set(TimerKind::Close, Some(now + interval));
            }
            State::Closing(_) => self.drain(),
            State::Hello(_) | State::Accepting | State::Open { .. } | State::Drained => {}
        }
    }

    /// A CLOSE if it is time for one, and the acknowledgement that is due.
    pub(super) fn transmit_close(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        if self.path.is_opening() {
            return None;
        }
        let reason = self.take_close();
        if reason.is_none() && !self.path.acks.is_due() {
            return None;
        }
        let start = out.len();
        let mut draft = self.start_packet(now, out, self.path.mtu.size().into())?;
        if let Some(reason) = &reason {
            draft.put(out, &Frame::Close { reason }, Some(Content::Close));
        }
        self.offer_ack(now, out, &draft);
        self.finish_packet(now, out, draft)?;
        let transmit = self.single(start, out.len());
        self.path.count_sent(&transmit);
        Some(transmit)
    }

    /// The reason to tell the peer, if it is time.
    fn take_close(&mut self) -> Option<String> {
        let State::Closing(Closing::Telling { reason, due, .. }) = &mut self.state else {
            return None;
        };
        let reason = std::mem::take(due).then(|| reason.clone());
        // Who does not know this side cannot open it.
        if let Some(handshake) = self.handshake.as_mut().filter(|_| reason.is_some()) {
            handshake.ask_again();
        }
        reason
    }

    fn close_interval(&self) -> Duration {
        self.path.recovery.pto_base().clamp(MIN_CLOSE_INTERVAL, MAX_CLOSE_INTERVAL)
    }
}
