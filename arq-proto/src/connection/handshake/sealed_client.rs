// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The client's side of a cryptographic handshake. HELLO carries the first flight; each repetition brings, and asks for,
//! fresh symbols.
//!
//! Until the server has proved who it is, whoever reads packets can answer in its place. What comes of that is an attempt
//! that is spoiled, and the client begins another at once, under another id.
//!
//! Requirements, numbered as in `docs/protocol.md`:
//!
//! - **ARQ-HSK-6** A handshake is *spoiled* when the session fails before a sealed part opened, the server says
//!   REFUSE 3, or three HANDSHAKE packets do not open before any does. Whoever reads packets can spoil one. The
//!   client begins another, with a new session under the next of eight ids, which differ in their low three bits:
//!   the second at once, later ones with the next HELLO, since their ids can be guessed. After the eighth, the last
//!   error is the connection's.
//! - **ARQ-HSK-9** Where the session fails after a sealed part opened, or CLOSE opens before the server has proved
//!   who it is, a client has met one who has the keys, and may be anybody, but cannot keep the server from
//!   answering, too. Until 1 s after the attempt began it repeats its HELLO, each 200 ms at least. A HANDSHAKE
//!   packet of another SCID, or whose sealed part does not open, then spoils the attempt. If there is none, the
//!   error is the connection's, and the server is told by CLOSE.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    clear::{Hello, FIRST_HELLOS, MAX_INTERVAL},
    doubt::{Doubt, Told},
    sealed::{Progress, NO_ATTEMPT},
    Handshake, Side,
};
use crate::{
    connection::{
        receive::Arrived, transmit::Transmit, unreachable::is_same, Connection, Origin, State,
    },
    error::ConnectionError,
    session::{Security, SessionError},
    timer::TimerKind,
    units::ConnectionId,
    wire::{
        cursor::{DecodeError, Reader},
        flight::{HandshakeFrame, HandshakeHeader, SealedChallenge, Terms},
        Version, BASE_MTU, MIN_MTU,
    },
};

/// Ids that a client has for its attempts: those that differ in the low bits alone.
pub(crate) const ATTEMPTS: u64 = 8;
/// Answers that do not open, before any that does, after which an attempt is taken to be spoiled.
const MAX_UNOPENED: u8 = 3;
/// So long datagrams of full length go unanswered before shorter ones are tried: beyond the round trip over a
/// geostationary satellite.
const LONG_DATAGRAMS_FOR: Duration = Duration::from_secs(1);
/// CHALLENGEs that an attempt follows.
const MAX_CHALLENGES: u8 = 16;

/// Who asks, and whom.
#[derive(Debug)]
pub(in crate::connection) struct Asking {
    server_name: String,
    /// The id of the first attempt.
    first_id: ConnectionId,
    attempts: u64,
    unopened: u8,
    challenges: u8,
    cookie: Vec<u8>,
    /// HELLOs that were sent without it.
    without_cookie: usize,
    /// Who has answered: the sender of the flight at hand, or of all that were read.
    server: Option<ConnectionId>,
    opened_at: Option<Instant>,
    /// When the present attempt began.
    pub(super) began: Instant,
    /// Nothing comes of it: another one begins with the next HELLO.
    is_spoiled: bool,
    /// Its session does not take who answered, or is not taken.
    pub(super) doubt: Option<Doubt>,
}

impl Connection {
    /// A client's side that only takes sealed packets.
    pub(crate) fn connect_sealed(
        now: Instant,
        origin: Origin,
        security: Arc<dyn Security>,
        (server_name, host): (String, Option<u64>),
    ) -> Self {
        let first_id = origin.local_cid;
        let mut connection = Self::connect(now, origin, 0);
        let asking = Asking {
            server_name,
            first_id,
            attempts: 0,
            unopened: 0,
            challenges: 0,
            cookie: Vec::new(),
            without_cookie: 0,
            server: None,
            opened_at: None,
            began: now,
            is_spoiled: false,
            doubt: None,
        };
        let bytes = connection.config.mtu.map_or(BASE_MTU, |mtu| mtu.min(BASE_MTU));
        let mut handshake = Handshake::new(security, Side::Client(asking), true, bytes);
        handshake.host = host;
        connection.expect_keys(handshake);
        if let Err(error) = connection.begin_attempt() {
            connection.end(ConnectionError::HandshakeFailed(error));
        }
        connection
    }

    /// A new session under an id of its own.
    fn begin_attempt(&mut self) -> Result<(), SessionError> {
        let now = self.clock.now;
        let params = Self::params(&self.config);
        let Some(handshake) = &mut self.handshake else { return Ok(()) };
        let Side::Client(asking) = &mut handshake.side else { return Ok(()) };
        self.path.local_cid = ConnectionId(asking.first_id.0 ^ asking.attempts);
        asking.attempts += 1;
        (asking.unopened, asking.challenges, asking.server) = (0, 0, None);
        (asking.began, asking.is_spoiled, asking.doubt) = (now, false, None);
        asking.cookie.clear();
        let terms = Terms {
            params,
            client: Some(self.path.local_cid),
            server: None,
            versions: vec![Version::Sealed.number()],
        };
        let session = handshake.security.connect(&asking.server_name, &terms.encoded())?;
        handshake.begin(session)?;
        if handshake.clear.is_none() {
            return Err(SessionError::new(None, "the session has no first flight"));
        }
        if let State::Hello(hello) = &mut self.state {
            hello.ask_anew(handshake.needed());
        }
        Ok(())
    }

    /// Begins anew with datagrams that every path carries, if nobody has answered for long: flights are cut to the length
    /// of theirs.
    pub(super) fn shorten_if_unanswered(&mut self, waited: Duration) {
        let Some(handshake) = &mut self.handshake else { return };
        let Side::Client(asking) = &handshake.side else { return };
        let is_answered = asking.server.is_some() || !asking.cookie.is_empty();
        let is_over = asking.attempts >= ATTEMPTS;
        if waited < LONG_DATAGRAMS_FOR
            || is_answered
            || is_over
            || handshake.datagram_bytes <= MIN_MTU
        {
            return;
        }
        handshake.datagram_bytes = MIN_MTU;
        if let Err(error) = self.begin_attempt() {
            self.end(ConnectionError::HandshakeFailed(error));
        }
    }

    /// The frames of the next HELLO, if packets are to be sealed.
    pub(super) fn hello_frames(handshake: &mut Handshake) -> Vec<u8> {
        let mut frames = Vec::new();
        if let Side::Client(asking) = &handshake.side {
            if !asking.cookie.is_empty() {
                HandshakeFrame::Cookie(&asking.cookie).encode(&mut frames);
            }
        }
        if let Some(flight) = &mut handshake.clear {
            flight.next_symbol(|symbol| HandshakeFrame::Flight(symbol).encode(&mut frames));
        }
        frames
    }

    /// The server wants to see that this side receives at its address. Once there is a cookie, only what answers a HELLO
    /// with it is another question.
    pub(in crate::connection) fn on_sealed_challenge(
        &mut self,
        arrived: Arrived,
        datagram: &[u8],
    ) -> Result<(), DecodeError> {
        let challenge = SealedChallenge::decode(datagram)?;
        let (State::Hello(hello), Some(handshake)) = (&mut self.state, &mut self.handshake) else {
            return Err(DecodeError::Invalid("packet.kind"));
        };
        let Side::Client(asking) = &mut handshake.side else {
            return Err(DecodeError::Invalid("packet.kind"));
        };
        let is_question =
            asking.cookie.is_empty() || usize::from(challenge.attempt) >= asking.without_cookie;
        let is_told =
            is_same(arrived.from, self.path.remote) && challenge.dcid == self.path.local_cid;
        if !is_told || !is_question || asking.challenges == MAX_CHALLENGES {
            return Err(DecodeError::Invalid("challenge.dcid"));
        }
        asking.challenges += 1;
        asking.cookie = challenge.cookie;
        asking.without_cookie = hello.sent.len();
        hello.ask_anew(handshake.needed());
        Ok(())
    }

    /// A HANDSHAKE packet of the server's, or of one who says to be it.
    pub(super) fn on_answer(
        &mut self,
        now: Instant,
        arrived: Arrived,
        datagram: &mut [u8],
    ) -> Result<(), DecodeError> {
        let (header, sealed_at) = HandshakeHeader::decode(datagram)?;
        let HandshakeHeader { scid, attempt, .. } = header;
        let Some(mut handshake) = self.handshake.take() else {
            return Err(DecodeError::Invalid("packet.kind"));
        };
        let read = read_clear(&mut handshake, &header);
        let progress = match read {
            Ok(true) if sealed_at < datagram.len() => handshake.take_sealed(datagram, sealed_at),
            Ok(true) => Ok(Progress::Nothing),
            Ok(false) => Ok(Progress::Unopened),
            Err(error) => Ok(Progress::Failed(error)),
        };
        self.handshake = Some(handshake);
        match progress? {
            Progress::Nothing => {}
            Progress::Unopened => {
                self.counters.packets_forged += 1;
                if !self.has_other_voice(now) {
                    self.note_unopened(now);
                }
            }
            Progress::Failed(error) => self.on_session_failed(now, scid, error),
            Progress::Closed { alert, reason } => {
                let error = ConnectionError::PeerEndedHandshake { alert, reason };
                match self.state {
                    State::Hello(_) => self.doubt(error, None),
                    // The server has proved who it is.
                    _ => self.end(error),
                }
            }
            Progress::Done if matches!(self.state, State::Hello(_)) => {
                self.open_client(now, scid, attempt, arrived);
            }
            Progress::Done => {}
        }
        Ok(())
    }

    /// The server is who it should be.
    fn open_client(&mut self, now: Instant, server: ConnectionId, attempt: u8, arrived: Arrived) {
        let ids = (Some(self.path.local_cid), Some(server));
        let State::Hello(hello) = &self.state else { return };
        let (sent_at, first_at) =
            (hello.sent.get(usize::from(attempt)).copied(), hello.sent.first());
        let first_at = first_at.copied().unwrap_or(now);
        if let Err(error) = self.take_keys(now, ids) {
            self.tell_failure(server, &error);
            return self.spoil(now, ConnectionError::HandshakeFailed(error));
        }
        match sent_at {
            Some(at) => self.path.recovery.on_handshake_rtt(now.saturating_duration_since(at)),
            None => {
                let bound = now.saturating_duration_since(first_at);
                self.path.recovery.assume_rtt_at_most(bound);
            }
        }
        self.path.remote_cid = server;
        self.path.local_ip = arrived.to;
        let Some(handshake) = &mut self.handshake else { return };
        handshake.client_ip = arrived.to.map(|ip| ip.to_canonical());
        handshake.clear = None;
        if let Side::Client(asking) = &mut handshake.side {
            asking.opened_at = Some(now);
        }
        // The flight that proves who this side is: one symbol more than the server needs.
        handshake.due = handshake.needed() + 1;
        let bytes = handshake.datagram_bytes;
        self.path.mtu.begin(bytes, true);
        self.opened(now);
        self.timers.set(TimerKind::Handshake, Some(now + self.path.recovery.pto_base()));
    }

    /// The flight is repeated until something sealed comes back.
    pub(super) fn repeat_flight(&mut self, now: Instant) {
        let base = self.path.recovery.pto_base();
        let Some(handshake) = &mut self.handshake else { return };
        let Side::Client(Asking { opened_at: Some(opened_at), .. }) = &handshake.side else {
            return;
        };
        let interval = now.saturating_duration_since(*opened_at).min(MAX_INTERVAL);
        handshake.due = handshake.due.max(handshake.needed().div_ceil(2));
        self.timers.set(TimerKind::Handshake, Some(now + interval.max(base)));
    }

    pub(super) fn transmit_client_flight(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        let (start, ids) = (out.len(), (self.path.remote_cid, self.path.local_cid));
        let handshake = self.handshake.as_mut()?;
        if let Some(farewell) = handshake.farewell.take() {
            out.extend_from_slice(&farewell);
        } else {
            handshake.due = handshake.due.checked_sub(1)?;
            handshake.write_packet(ids.0, ids.1, NO_ATTEMPT, out);
        }
        Some(self.single(start, out.len()))
    }

    fn note_unopened(&mut self, now: Instant) {
        let Some(handshake) = &mut self.handshake else { return };
        let Side::Client(asking) = &mut handshake.side else { return };
        asking.unopened = asking.unopened.saturating_add(1);
        if asking.unopened >= MAX_UNOPENED && !handshake.has_opened {
            let text = "the server's answers do not open (somebody else answers, too?)";
            let error = SessionError::new(None, text);
            self.spoil(now, ConnectionError::HandshakeFailed(error));
        }
    }

    pub(super) fn asking(&mut self) -> Option<&mut Asking> {
        match self.handshake.as_mut().map(|handshake| &mut handshake.side) {
            Some(Side::Client(asking)) => Some(asking),
            Some(Side::Server(_)) | None => None,
        }
    }

    /// Tells the server, which would wait.
    pub(super) fn tell_failure(&mut self, server: ConnectionId, error: &SessionError) {
        let scid = self.path.local_cid;
        if let Some(handshake) = &mut self.handshake {
            handshake.say_farewell(server, scid, error);
        }
    }

    /// The session is over. What it says of who has shown to have its keys may be the end; anything else anybody may have
    /// sent.
    fn on_session_failed(&mut self, now: Instant, server: ConnectionId, error: SessionError) {
        let cause = ConnectionError::HandshakeFailed(error.clone());
        let Some(handshake) = &mut self.handshake else { return };
        handshake.session = None;
        if handshake.has_opened {
            return self.doubt(cause, Some(Told { server, error }));
        }
        self.tell_failure(server, &error);
        self.spoil(now, cause);
    }

    /// Nothing will come of this attempt: another one, as long as there are ids. The first one that is spoiled costs no
    /// more than a round trip. Others wait for the next HELLO: all their ids can be guessed, so whoever has seen one could
    /// spoil all at once, before the server has answered any.
    pub(super) fn spoil(&mut self, now: Instant, error: ConnectionError) {
        let Some(asking) = self.asking() else {
            return self.end(error);
        };
        if asking.attempts >= ATTEMPTS {
            return self.end(error);
        }
        if std::mem::replace(&mut asking.is_spoiled, true) {
            return;
        }
        let is_first = asking.attempts == 1;
        tracing::debug!(%error, remote = %self.path.remote, "another attempt");
        self.counters.handshakes_spoiled += 1;
        if let State::Hello(hello) = &mut self.state {
            (hello.refused, hello.believed_at) = (Some(error), None);
        }
        if is_first {
            self.replace_if_spoiled();
        }
        self.rearm(now);
    }

    /// Begins the attempt that follows a spoiled one.
    pub(super) fn replace_if_spoiled(&mut self) {
        if !self.asking().is_some_and(|asking| asking.is_spoiled) {
            return;
        }
        if let Err(error) = self.begin_attempt() {
            self.end(ConnectionError::HandshakeFailed(error));
        }
    }
}

impl Hello {
    /// Asks at once, so often that the server has enough although one is lost.
    fn ask_anew(&mut self, needed: u8) {
        self.due = FIRST_HELLOS.max(needed + 1);
    }
}

/// Reads what everybody can. `false`: it is of another server than what was read before.
fn read_clear(
    handshake: &mut Handshake,
    header: &HandshakeHeader<'_>,
) -> Result<bool, SessionError> {
    let is_open = handshake.expects_clear();
    let Side::Client(asking) = &mut handshake.side else { return Ok(false) };
    if !is_open {
        return Ok(asking.server == Some(header.scid));
    }
    if asking.server.replace(header.scid) != Some(header.scid) {
        handshake.incoming.restart();
    }
    let mut frames = Reader::new(header.clear);
    while let Ok(Some(frame)) = HandshakeFrame::decode(&mut frames) {
        match frame {
            HandshakeFrame::Flight(_) if !handshake.expects_clear() => {}
            // The first to be read may have asked for another ClientHello, in the server's place.
            HandshakeFrame::Flight(flight) if handshake.incoming.contradicts(&flight) => {
                return Err(SessionError::new(None, "two servers have answered"));
            }
            HandshakeFrame::Flight(flight) => {
                handshake.take_flight(&flight)?;
            }
            _ => {}
        }
    }
    Ok(true)
}
