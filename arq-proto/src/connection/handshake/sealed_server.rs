// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The server's side of a cryptographic handshake: it answers at once, with no more than three bytes for each that came
//! from an address that nobody has answered from yet.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    sealed::{Progress, INTERNAL_ERROR, NO_ATTEMPT},
    Handshake, Side,
};
use crate::{
    admission::{Seat, MAX_AMPLIFICATION},
    connection::{receive::Arrived, transmit::Transmit, Connection, Origin, State},
    error::{ConnectionError, RefuseReason},
    session::{Security, SessionError},
    timer::TimerKind,
    units::ConnectionId,
    wire::{
        cursor::DecodeError,
        flight::{HandshakeFrame, HandshakeHeader, Terms},
        packet::{self, Refuse},
        Version, BASE_MTU, MIN_MTU,
    },
};

/// A HELLO so soon after an answer asks for no other: it left before that arrived.
const MIN_INTERVAL: Duration = Duration::from_millis(25);
const FIRST_INTERVAL: Duration = Duration::from_millis(50);
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// Packets that arrive before the flight that their keys need, and their bytes.
const MAX_EARLY: usize = 16;
const MAX_EARLY_BYTES: usize = 32 << 10;
/// A server that failed says so for this long to who asks.
const FAREWELL: Duration = Duration::from_secs(1);

/// Who is answered.
#[derive(Debug)]
pub(in crate::connection) struct Answering {
    started: Instant,
    /// The last HELLO to be answered at once.
    attempt: u8,
    answered_at: Option<Instant>,
    answers: u32,
    received: usize,
    sent: usize,
    /// The client receives at its address.
    validated: bool,
    /// Given back once that is so, or with the handshake.
    seat: Option<Seat>,
    early: Vec<(Arrived, Vec<u8>)>,
    failed: Option<(Instant, ConnectionError)>,
}

/// What an endpoint has learnt from a HELLO.
pub(crate) struct Offer {
    pub(crate) client: ConnectionId,
    pub(crate) hello_bytes: u16,
    pub(crate) validated: bool,
    pub(crate) seat: Seat,
}

impl Connection {
    /// A server's side that only takes sealed packets.
    pub(crate) fn accept_sealed(
        now: Instant,
        origin: Origin,
        security: Arc<dyn Security>,
        offer: Offer,
    ) -> Self {
        let Offer { client, hello_bytes, validated, seat } = offer;
        let mut connection = Self::new(now, origin, State::Accepting);
        connection.path.remote_cid = client;
        let answering = Answering {
            started: now,
            attempt: NO_ATTEMPT,
            answered_at: None,
            answers: 0,
            received: 0,
            sent: 0,
            validated,
            seat: Some(seat),
            early: Vec::new(),
            failed: None,
        };
        let mtu = connection.config.mtu.unwrap_or(BASE_MTU).min(hello_bytes);
        let bytes = mtu.clamp(MIN_MTU, BASE_MTU);
        let terms = Terms {
            params: Self::params(&connection.config),
            client: Some(client),
            server: Some(connection.path.local_cid),
            versions: vec![Version::Sealed.number()],
        };
        let session = security.accept(&terms.encoded());
        let mut handshake = Handshake::new(security, Side::Server(answering), false, bytes);
        let begun = session.and_then(|session| handshake.begin(session));
        connection.expect_keys(handshake);
        match begun {
            Ok(()) => connection.timers.set(TimerKind::Handshake, Some(now + FIRST_INTERVAL)),
            Err(error) => connection.fail(now, error),
        }
        connection
    }

    fn answering(&mut self) -> Option<&mut Answering> {
        match self.handshake.as_mut().map(|handshake| &mut handshake.side) {
            Some(Side::Server(answering)) => Some(answering),
            Some(Side::Client(_)) | None => None,
        }
    }

    /// A HELLO of the client's, or of one who says to be it.
    pub(in crate::connection) fn on_hello(
        &mut self,
        now: Instant,
        arrived: Arrived,
        datagram: &[u8],
    ) -> Result<(), DecodeError> {
        let (hello, mut frames) = packet::Hello::decode_with(datagram)?;
        if hello.scid != self.path.remote_cid || arrived.from != self.path.remote {
            return Err(DecodeError::Invalid("hello.scid"));
        }
        // Whoever asked at one of several addresses takes no answer from another.
        self.path.local_ip = arrived.to.or(self.path.local_ip);
        let answering = self.answering().ok_or(DecodeError::Invalid("packet.kind"))?;
        answering.received += datagram.len();
        let answered_at = answering.answered_at;
        let is_soon = answered_at.is_some_and(|at| now < at + MIN_INTERVAL);
        if answering.failed.is_some() {
            self.repeat_farewell();
            return Ok(());
        }
        while let Some(frame) = HandshakeFrame::decode(&mut frames)? {
            let HandshakeFrame::Flight(flight) = frame else { continue };
            let Some(handshake) = self.handshake.as_mut().filter(|one| one.expects_clear()) else {
                break;
            };
            if let Err(error) = handshake.take_flight(&flight) {
                self.fail(now, error);
                return Ok(());
            }
        }
        let Some(handshake) = self.handshake.as_mut().filter(|one| one.clear.is_some()) else {
            return Ok(());
        };
        if is_soon || handshake.has_opened {
            return Ok(());
        }
        let needed = handshake.needed();
        let first = answered_at.is_none();
        handshake.due = if first { needed + 1 + needed / 4 } else { needed.div_ceil(2) };
        if let Some(answering) = self.answering() {
            answering.attempt = hello.attempt;
            answering.answered_at = Some(now);
            answering.answers += 1;
        }
        Ok(())
    }

    /// A HANDSHAKE packet of the client's.
    pub(super) fn on_client_flight(
        &mut self,
        now: Instant,
        arrived: Arrived,
        datagram: &mut [u8],
    ) -> Result<(), DecodeError> {
        let (HandshakeHeader { scid, .. }, sealed_at) = HandshakeHeader::decode(datagram)?;
        let Some(handshake) = self.handshake.as_mut().filter(|_| scid == self.path.remote_cid)
        else {
            return Err(DecodeError::Invalid("handshake.scid"));
        };
        let progress = handshake.take_sealed(datagram, sealed_at)?;
        let has_opened = handshake.has_opened;
        if has_opened {
            // It has all that it needs, or repeats what is missing by itself.
            handshake.due = 0;
        }
        let answering = self.answering().ok_or(DecodeError::Invalid("packet.kind"))?;
        answering.received += arrived.bytes as usize;
        if has_opened && !std::mem::replace(&mut answering.validated, true) {
            answering.seat = None;
        }
        match progress {
            _ if answering.failed.is_some() => self.repeat_farewell(),
            Progress::Nothing => {}
            Progress::Unopened => self.counters.packets_forged += 1,
            Progress::Failed(error) => self.fail(now, error),
            Progress::Closed { alert, reason } => {
                self.end(ConnectionError::PeerEndedHandshake { alert, reason });
            }
            Progress::Done => self.open_server(now),
        }
        Ok(())
    }

    /// The client is who it should be.
    fn open_server(&mut self, now: Instant) {
        let ids = (Some(self.path.remote_cid), None);
        if let Err(error) = self.take_keys(now, ids) {
            return self.fail(now, error);
        }
        let Some(mut handshake) = self.handshake.take() else { return };
        self.path.mtu.begin(handshake.datagram_bytes, false);
        let Side::Server(answering) = &mut handshake.side else { return };
        if let Some(answered_at) = answering.answered_at {
            let sample = now.saturating_duration_since(answered_at);
            match answering.answers {
                1 => self.path.recovery.on_handshake_rtt(sample),
                _ => self.path.recovery.assume_rtt_at_most(sample),
            }
        }
        self.opened(now);
        self.timers.set(TimerKind::Handshake, None);
        for (arrived, mut datagram) in answering.early.drain(..) {
            if self.on_data(now, arrived, &mut datagram).is_err() {
                self.counters.datagrams_dropped += 1;
            }
        }
        // If nothing came with it, the client still waits for a sign.
        self.path.ping_due |= self.counters.packets_received == 0;
    }

    /// A packet under keys that this side has no use for before the client's flight.
    pub(in crate::connection) fn keep_early(
        &mut self,
        arrived: Arrived,
        datagram: &[u8],
    ) -> Result<(), DecodeError> {
        let remote = self.path.remote;
        let answering = self.answering().ok_or(DecodeError::Invalid("packet.kind"))?;
        let kept: usize = answering.early.iter().map(|(_, bytes)| bytes.len()).sum();
        let is_asked = arrived.from == remote;
        if !is_asked
            || answering.early.len() == MAX_EARLY
            || kept + datagram.len() > MAX_EARLY_BYTES
        {
            return Err(DecodeError::Invalid("packet.kind"));
        }
        answering.early.push((arrived, datagram.to_vec()));
        Ok(())
    }

    /// There will be no association. The client is told, now and when it asks again.
    fn fail(&mut self, now: Instant, error: SessionError) {
        tracing::debug!(%error, remote = %self.path.remote, "a handshake failed");
        let ids = (self.path.remote_cid, self.path.local_cid);
        let Some(handshake) = &mut self.handshake else { return };
        handshake.due = 1;
        handshake.say_farewell(ids.0, ids.1, &error);
        if handshake.farewell.is_none() {
            let mut out = Vec::new();
            let alert = error.alert.unwrap_or(INTERNAL_ERROR);
            let reason = RefuseReason::Handshake { alert };
            let security = Some(handshake.security.as_ref());
            Refuse { dcid: ids.0, reason, versions: Vec::new() }.encode_with(security, &mut out);
            handshake.farewell = Some(out);
        }
        if let Some(answering) = self.answering() {
            answering.failed = Some((now + FAREWELL, ConnectionError::HandshakeFailed(error)));
        }
        self.timers.set(TimerKind::Handshake, Some(now + FAREWELL));
    }

    fn repeat_farewell(&mut self) {
        if let Some(handshake) = &mut self.handshake {
            handshake.due = 1;
        }
    }

    pub(super) fn on_server_timer(&mut self, now: Instant) {
        let within = self.config.handshake_timeout;
        let Some(handshake) = &mut self.handshake else { return };
        let Side::Server(answering) = &mut handshake.side else { return };
        if let Some((_, error)) = answering.failed.take_if(|(until, _)| *until <= now) {
            return self.end(error);
        }
        let bytes = handshake.datagram_bytes;
        if now >= answering.started + within {
            let (most, least) = (bytes, bytes);
            return self.end(ConnectionError::HandshakeTimedOut { within, most, least });
        }
        let waited = now.saturating_duration_since(answering.started);
        let interval = waited.clamp(FIRST_INTERVAL, MAX_INTERVAL);
        if answering.answered_at.is_some() && !handshake.has_opened {
            answering.attempt = NO_ATTEMPT;
            answering.answers += 1;
            handshake.due = handshake.due.max(handshake.needed().div_ceil(2));
        }
        self.timers.set(TimerKind::Handshake, Some(now + interval));
    }

    /// The next datagram to the client, as far as it may be sent one.
    pub(super) fn transmit_answer(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        let (start, ids) = (out.len(), (self.path.remote_cid, self.path.local_cid));
        let handshake = self.handshake.as_mut()?;
        let Side::Server(answering) = &mut handshake.side else { return None };
        let allowance = if answering.validated {
            usize::MAX
        } else {
            (MAX_AMPLIFICATION as usize * answering.received).saturating_sub(answering.sent)
        };
        let attempt = answering.attempt;
        let is_last_word = answering.failed.is_some();
        if is_last_word {
            let farewell = handshake.farewell.as_ref()?;
            if std::mem::take(&mut handshake.due) == 0 || farewell.len() > allowance {
                return None;
            }
            out.extend_from_slice(farewell);
        } else {
            if handshake.due == 0 || usize::from(handshake.datagram_bytes) > allowance {
                return None;
            }
            handshake.due -= 1;
            handshake.write_packet(ids.0, ids.1, attempt, out);
        }
        let size = out.len() - start;
        if let Some(answering) = self.answering() {
            answering.sent += size;
        }
        Some(self.transmit_to(self.path.remote, size, size))
    }
}
