// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What both sides of a cryptographic handshake have in common: a session, its flights, and the HANDSHAKE packets that
//! carry them.

use std::{net::IpAddr, sync::Arc, time::Duration};

use super::{
    clear::MAX_INTERVAL,
    flights::{FlightIn, FlightOut},
};
use crate::{
    session::{KeyChange, Keys, Security, Session, SessionError, Updates},
    units::ConnectionId,
    wire::{
        cursor::{DecodeError, Reader},
        flight::{FlightFrame, HandshakeFrame, HandshakeHeader},
        packet::Hello,
    },
};

/// All packets of a handshake take one path.
const PATH: u32 = 0;
/// Changes of the session that one flight may lead to.
const MAX_CHANGES: usize = 16;
/// HELLOs at once that ask for the rest of a flight, at most, and the longest time between them: who has begun to answer
/// is there.
const MAX_ASKS: u8 = 8;
pub(super) const ANSWERED_INTERVAL: Duration = Duration::from_millis(200);
/// Bytes of a HELLO beside its flight, at most: of the packet, and of a cookie.
const HELLO_OVERHEAD: usize = Hello::MAX_OVERHEAD + 1 + 1 + 64;
/// No HELLO is answered.
pub(super) const NO_ATTEMPT: u8 = u8::MAX;

/// A cryptographic handshake, until the peer has shown that it has the keys of the association.
#[derive(Debug)]
pub(in crate::connection) struct Handshake<S> {
    pub(super) security: Arc<dyn Security>,
    /// `None` once it is over.
    pub(super) session: Option<Box<dyn Session>>,
    /// What one side alone knows.
    pub(super) side: S,
    is_client: bool,
    /// Length of the datagrams that carry it, in bytes.
    pub(super) datagram_bytes: u16,
    /// For the rest of the handshake.
    keys: Option<Keys>,
    /// For all that follows it.
    pub(super) application: Option<(Keys, Box<dyn Updates>)>,
    /// The number of the next HANDSHAKE packet with a sealed part.
    number: u32,
    /// Flights of this side so far.
    flights: u64,
    pub(super) clear: Option<FlightOut>,
    pub(super) sealed: Option<FlightOut>,
    pub(super) incoming: FlightIn,
    /// Datagrams to send.
    pub(super) due: u8,
    /// What names the client's host, if it tells.
    pub(super) host: Option<u64>,
    /// The client's IP address as its system has it, once it is known.
    pub(super) client_ip: Option<IpAddr>,
    /// Something of the peer's has opened.
    pub(super) has_opened: bool,
    /// The last word, in a whole datagram.
    pub(super) farewell: Option<Vec<u8>>,
}

/// What a packet of the peer's led to.
#[derive(Debug)]
pub(super) enum Progress {
    Nothing,
    /// It did not open.
    Unopened,
    /// The session has ended well: there are keys.
    Done,
    /// The session has ended otherwise.
    Failed(SessionError),
    /// The peer ends it.
    Closed {
        alert: u8,
        reason: String,
    },
}

impl<S> Handshake<S> {
    pub(super) fn new(
        security: Arc<dyn Security>,
        side: S,
        is_client: bool,
        datagram_bytes: u16,
    ) -> Self {
        Self {
            security,
            session: None,
            side,
            is_client,
            datagram_bytes,
            keys: None,
            application: None,
            number: 0,
            flights: 0,
            clear: None,
            sealed: None,
            incoming: FlightIn::default(),
            due: 0,
            host: None,
            client_ip: None,
            has_opened: false,
            farewell: None,
        }
    }

    /// A new session, with its first flight if it has one. Of the one before nothing is left but the last word.
    pub(super) fn begin(&mut self, session: Box<dyn Session>) -> Result<(), SessionError> {
        self.session = Some(session);
        (self.keys, self.application) = (None, None);
        (self.number, self.flights) = (0, 0);
        (self.clear, self.sealed) = (None, None);
        self.incoming = FlightIn::default();
        self.has_opened = false;
        self.write_flights().map(|_| ())
    }

    pub(in crate::connection) fn security(&self) -> &dyn Security {
        self.security.as_ref()
    }

    pub(in crate::connection) fn take_farewell(&mut self) -> Option<Vec<u8>> {
        self.farewell.take()
    }

    /// The flight is to leave once more.
    pub(in crate::connection) fn ask_again(&mut self) {
        self.due = self.due.max(1);
    }

    /// Whether datagrams of it are to leave.
    pub(in crate::connection) fn is_due(&self) -> bool {
        self.due > 0 || self.farewell.is_some()
    }

    /// Symbols that the peer needs of what it is sent now.
    pub(super) fn needed(&self) -> u8 {
        let of = |flight: &Option<FlightOut>| flight.as_ref().map_or(0, FlightOut::needed);
        of(&self.clear).max(of(&self.sealed)).max(1)
    }

    /// How many HELLOs ask for what is missing, and how long they wait for that at most. Each lets the server send
    /// three datagrams.
    pub(super) fn asks_for_more(&self) -> (u8, Duration) {
        match self.incoming.missing() {
            0 => (self.needed().div_ceil(2), MAX_INTERVAL),
            missing => {
                let asks = (missing as u8).div_ceil(3);
                (asks.max(self.needed().div_ceil(2)).min(MAX_ASKS), ANSWERED_INTERVAL)
            }
        }
    }

    /// What the session has to say, and the keys it has come to, if there is anything of either.
    fn write_flights(&mut self) -> Result<bool, SessionError> {
        let Some(session) = &mut self.session else { return Ok(false) };
        let (mut clear, mut sealed, mut has_keys) = (Vec::new(), Vec::new(), false);
        for _ in 0..MAX_CHANGES {
            let flight = if self.keys.is_none() { &mut clear } else { &mut sealed };
            let before = flight.len();
            let change = session.write(flight);
            let is_silent = change.is_none() && flight.len() == before;
            has_keys |= change.is_some();
            match change {
                Some(KeyChange::Handshake(keys)) => self.keys = Some(keys),
                Some(KeyChange::Application { keys, updates }) => {
                    self.application = Some((keys, updates));
                }
                None => {}
            }
            if is_silent {
                break;
            }
        }
        let has_more = has_keys || !clear.is_empty() || !sealed.is_empty();
        if !clear.is_empty() {
            let most = self.room_for_clear();
            self.clear = Some(self.flight(clear, most)?);
        }
        if !sealed.is_empty() {
            let most = self.room_for_sealed();
            self.sealed = Some(self.flight(sealed, most)?);
        }
        Ok(has_more)
    }

    fn flight(&mut self, bytes: Vec<u8>, most: usize) -> Result<FlightOut, SessionError> {
        let (stage, len) = (self.flights, bytes.len());
        self.flights += 1;
        FlightOut::new(stage, bytes, most).ok_or_else(|| {
            SessionError::new(None, format!("a flight of {len} bytes does not fit a handshake"))
        })
    }

    /// Bytes of a clear symbol in a datagram: a HELLO has nothing else, an answer the greater part for what is sealed.
    fn room_for_clear(&self) -> usize {
        let datagram = usize::from(self.datagram_bytes);
        let room = match self.is_client {
            true => datagram.saturating_sub(HELLO_OVERHEAD),
            false => datagram * 5 / 12,
        };
        room.saturating_sub(FlightFrame::MAX_OVERHEAD)
    }

    /// Bytes of a sealed symbol behind the clear one that leaves with it.
    fn room_for_sealed(&self) -> usize {
        let beside = match (self.is_client, &self.clear) {
            (false, Some(clear)) => clear.symbol_bytes() + FlightFrame::MAX_OVERHEAD,
            (true, _) => {
                let host = self.host.map_or(0, |_| HandshakeFrame::HOST_BYTES);
                host + HandshakeFrame::LOCAL_ADDRESS_BYTES
            }
            (false, None) => 0,
        };
        let taken = HandshakeHeader::MAX_OVERHEAD + FlightFrame::MAX_OVERHEAD + beside;
        usize::from(self.datagram_bytes).saturating_sub(taken)
    }

    /// Takes a symbol of the flight that comes next. What the session says to it is fetched at once: it says with which
    /// keys only if each flight is read alone.
    pub(super) fn take_flight(&mut self, frame: &FlightFrame<'_>) -> Result<(), SessionError> {
        let (Some(flight), Some(session)) = (self.incoming.insert(frame), &mut self.session) else {
            return Ok(());
        };
        session.read(&flight)?;
        let is_over = !session.is_handshaking();
        // A flight is all that the peer says before it waits: a session that waits for the rest of half a one would for ever.
        match self.write_flights()? || is_over {
            true => Ok(()),
            false => Err(SessionError::new(Some(DECODE_ERROR), "a flight is incomplete")),
        }
    }

    /// Whether flights of the peer's are expected to be readable: before there are keys.
    pub(super) fn expects_clear(&self) -> bool {
        self.keys.is_none()
    }

    /// Takes the sealed part of a packet, which begins at `start` with its number.
    pub(super) fn take_sealed(
        &mut self,
        datagram: &mut [u8],
        start: usize,
    ) -> Result<Progress, DecodeError> {
        let Some(keys) = &self.keys else { return Ok(Progress::Nothing) };
        let number = Reader::new(&datagram[start..]).u32("handshake.number")?;
        let (header, payload) = datagram.split_at_mut(start + size_of_val(&number));
        let Some(plain) = keys.remote.packet.open(PATH, number.into(), header, payload) else {
            return Ok(Progress::Unopened);
        };
        self.has_opened = true;
        let mut frames = Reader::new(plain);
        while let Some(frame) = HandshakeFrame::decode(&mut frames)? {
            match frame {
                HandshakeFrame::Flight(flight) => {
                    if let Err(error) = self.take_flight(&flight) {
                        return Ok(Progress::Failed(error));
                    }
                }
                HandshakeFrame::Close { alert, reason } => {
                    return Ok(Progress::Closed { alert, reason: reason.to_owned() });
                }
                HandshakeFrame::Host(host) if !self.is_client => self.host = Some(host),
                HandshakeFrame::LocalAddress(ip) if !self.is_client => self.client_ip = Some(ip),
                HandshakeFrame::Host(_)
                | HandshakeFrame::LocalAddress(_)
                | HandshakeFrame::Cookie(_) => {}
            }
        }
        let is_over = |session: &dyn Session| !session.is_handshaking();
        let is_done = self.application.is_some() && self.session.as_deref().is_some_and(is_over);
        Ok(if is_done { Progress::Done } else { Progress::Nothing })
    }

    /// Appends a HANDSHAKE packet with the next symbol of each flight.
    pub(super) fn write_packet(
        &mut self,
        dcid: ConnectionId,
        scid: ConnectionId,
        attempt: u8,
        out: &mut Vec<u8>,
    ) {
        let (mut clear, mut sealed) = (Vec::new(), Vec::new());
        if let (false, Some(flight)) = (self.is_client, &mut self.clear) {
            flight.next_symbol(|symbol| HandshakeFrame::Flight(symbol).encode(&mut clear));
        }
        if let Some(flight) = &mut self.sealed {
            if let (true, Some(host)) = (self.is_client, self.host) {
                HandshakeFrame::Host(host).encode(&mut sealed);
            }
            if let (true, Some(ip)) = (self.is_client, self.client_ip) {
                HandshakeFrame::LocalAddress(ip).encode(&mut sealed);
            }
            flight.next_symbol(|symbol| HandshakeFrame::Flight(symbol).encode(&mut sealed));
        }
        self.write_frames(HandshakeHeader { dcid, scid, attempt, clear: &clear }, &sealed, out);
    }

    /// Makes the last word: that there will be no association. Nothing, where there are no keys to seal it.
    pub(super) fn say_farewell(
        &mut self,
        dcid: ConnectionId,
        scid: ConnectionId,
        error: &SessionError,
    ) {
        if self.keys.is_none() {
            return;
        }
        let mut frames = Vec::new();
        let reason = crate::connection::close::shortened(&error.text);
        let alert = error.alert.unwrap_or(INTERNAL_ERROR);
        HandshakeFrame::Close { alert, reason }.encode(&mut frames);
        let mut out = Vec::new();
        let header = HandshakeHeader { dcid, scid, attempt: NO_ATTEMPT, clear: &[] };
        self.write_frames(header, &frames, &mut out);
        self.farewell = Some(out);
    }

    fn write_frames(&mut self, header: HandshakeHeader<'_>, frames: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        header.encode(out);
        let Some(keys) = self.keys.as_ref().filter(|_| !frames.is_empty()) else { return };
        out.extend_from_slice(&self.number.to_be_bytes());
        let sealed_at = out.len();
        out.extend_from_slice(frames);
        let (header, payload) = out[start..].split_at_mut(sealed_at - start);
        let tag = keys.local.packet.seal(PATH, self.number.into(), header, payload);
        out.extend_from_slice(&tag);
        self.number += 1;
    }
}

/// A flight that says nothing whole (RFC 8446 §6.2).
const DECODE_ERROR: u8 = 50;
/// What is told where there is no better alert (RFC 8446 §6).
pub(super) const INTERNAL_ERROR: u8 = 80;
