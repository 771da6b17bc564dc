// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A side of an association that has its keys: it reads what the victim sends, and seals what it is told to.

use arq_proto::{
    recv::reassembly::Reassembly,
    session::{KeyChange, Keys, PacketKey, Security, Session, Updates, SAMPLE_BYTES},
    wire::{
        cursor::{put_varint, Reader},
        flight::{FlightFrame, HandshakeFrame, HandshakeHeader},
        frame::{ChunkFrame, Shape},
        packet::{Hello, PacketKind},
        protection::{echo_of, SEALED_HEADER_BYTES},
        Version, BASE_MTU,
    },
    ConnectionId,
};

use super::{
    super::{
        frames::lane_of,
        paths::{path_id_of, PATHS},
        Victim,
    },
    terms::TermsOp,
};
use crate::{hostile::Sighting, toy::Toy};

/// Bytes of a chunk of a flight.
const CHUNK_BYTES: usize = 900;
/// Flights and keys that a session comes to at once, at most.
const MAX_CHANGES: usize = 16;
const KEY_PHASE: u8 = 0x01;
const SEALED: u8 = 0xb0;

/// The peer.
pub(super) struct Peer {
    toy: Toy,
    is_client: bool,
    terms: TermsOp,
    /// What it calls itself.
    pub(super) id: ConnectionId,
    /// With whom its session is.
    victim: ConnectionId,
    session: Option<Box<dyn Session>>,
    keys: Option<Keys>,
    application: Option<Application>,
    incoming: Incoming,
    /// What its session has said.
    pub(super) flights: Vec<Flight>,
    /// Of its next sealed HANDSHAKE packet.
    number: u32,
    /// Of its next packet on each path.
    pub(super) next: [u64; PATHS],
    /// From which ids of paths are computed.
    path_key: Option<[u8; 16]>,
    /// The ends of the victim's packets.
    pub(super) echoes: Vec<u64>,
}

/// A flight of the peer's.
pub(super) struct Flight {
    stage: u64,
    is_sealed: bool,
    bytes: Vec<u8>,
}

/// The victim's next flight.
#[derive(Default)]
struct Incoming {
    stage: u64,
    partial: Option<Reassembly>,
}

/// The keys of messages.
struct Application {
    first: Keys,
    /// Those that follow the first.
    later: Vec<(Box<dyn PacketKey>, Box<dyn PacketKey>)>,
    updates: Box<dyn Updates>,
    /// What the victim uses.
    current: usize,
    sealing: Sealing,
}

/// Under what keys the peer seals.
#[derive(Clone, Copy, Default)]
pub(super) struct Sealing {
    /// So many changes before or after those that the victim uses.
    pub(super) ahead: i8,
    /// The packet tells another phase.
    pub(super) flip: bool,
}

/// A packet of the peer's, beside its frames.
pub(super) struct Packet {
    pub(super) path: u8,
    pub(super) number: u64,
    pub(super) span: u16,
    pub(super) ack_now: bool,
}

impl Peer {
    pub(super) fn new(toy: Toy, is_client: bool, terms: TermsOp) -> Self {
        let mut peer = Self {
            toy,
            is_client,
            terms: TermsOp::Honest,
            id: ConnectionId(0x99aa_bbcc_ddee_ff00),
            victim: ConnectionId(0),
            session: None,
            keys: None,
            application: None,
            incoming: Incoming::default(),
            flights: Vec::new(),
            number: 0,
            next: [0; PATHS],
            path_key: None,
            echoes: Vec::new(),
        };
        match is_client {
            true => peer.begin(terms),
            false => peer.terms = terms,
        }
        peer
    }

    /// Begins a session. What it says of itself may be false.
    pub(super) fn begin(&mut self, terms: TermsOp) {
        self.terms = terms;
        let terms = self.terms.encoded(self.is_client, self.id, self.victim);
        let session = match self.is_client {
            true => self.toy.connect("server", &terms),
            false => self.toy.accept(&terms),
        };
        (self.session, self.keys, self.application) = (session.ok(), None, None);
        (self.incoming, self.number, self.next) = (Incoming::default(), 0, [0; PATHS]);
        self.flights.clear();
        self.write();
    }

    /// Its session waits for the victim.
    pub(super) fn is_handshaking(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_handshaking())
    }

    /// It can seal frames of a handshake.
    pub(super) fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Takes what the session says.
    fn write(&mut self) {
        let Some(session) = &mut self.session else { return };
        for _ in 0..MAX_CHANGES {
            let (mut bytes, is_sealed) = (Vec::new(), self.keys.is_some());
            let change = session.write(&mut bytes);
            if change.is_none() && bytes.is_empty() {
                break;
            }
            if !bytes.is_empty() {
                let stage = self.flights.len() as u64;
                self.flights.push(Flight { stage, is_sealed, bytes });
            }
            match change {
                Some(KeyChange::Handshake(keys)) => self.keys = Some(keys),
                Some(KeyChange::Application { keys: first, updates }) => {
                    let (later, sealing) = (Vec::new(), Sealing::default());
                    let application = Application { first, later, updates, current: 0, sealing };
                    self.application = Some(application);
                }
                None => {}
            }
        }
        self.path_key = session.export();
    }

    fn take_flight(&mut self, frame: &FlightFrame<'_>) {
        let Some(flight) = self.incoming.insert(frame) else { return };
        let Some(session) = &mut self.session else { return };
        // A victim that was misled says what the session does not take.
        if session.read(&flight).is_ok() {
            self.write();
        }
    }

    /// Reads what the victim has sent.
    pub(super) fn read(&mut self, victim: &mut Victim) {
        for (to, mut bytes) in victim.take_unread() {
            let kind = bytes.first().map(|first| PacketKind::of(*first));
            match kind {
                Some(Ok(PacketKind::Hello)) => self.on_hello(&bytes),
                Some(Ok(PacketKind::Handshake)) => self.on_handshake(&mut bytes),
                Some(Ok(PacketKind::Sealed)) => {
                    self.echoes.extend(echo_of(&bytes));
                    if let Some((seen, ack_now, frames)) = self.opened(&bytes) {
                        victim.note_read(to, seen, ack_now, &frames);
                    }
                }
                _ => {}
            }
        }
    }

    fn on_hello(&mut self, datagram: &[u8]) {
        let Ok((hello, frames)) = Hello::decode_with(datagram) else { return };
        if hello.scid != self.victim {
            self.victim = hello.scid;
            // Another attempt, and another server to it.
            self.id.0 = self.id.0.wrapping_add(1);
            self.begin(self.terms.clone());
        }
        self.take_flights(frames);
    }

    fn take_flights(&mut self, mut frames: Reader<'_>) {
        while let Ok(Some(frame)) = HandshakeFrame::decode(&mut frames) {
            if let HandshakeFrame::Flight(flight) = frame {
                self.take_flight(&flight);
            }
        }
    }

    fn on_handshake(&mut self, datagram: &mut [u8]) {
        let Ok((header, sealed_at)) = HandshakeHeader::decode(datagram) else { return };
        self.victim = header.scid;
        if self.keys.is_none() {
            let clear = header.clear.to_vec();
            self.take_flights(Reader::new(&clear));
        }
        let (Some(keys), true) = (&self.keys, datagram.len() > sealed_at) else { return };
        let Ok(number) = Reader::new(&datagram[sealed_at..]).u32("number") else { return };
        let (header, payload) = datagram.split_at_mut(sealed_at + size_of_val(&number));
        if let Some(plain) = keys.remote.packet.open(0, number.into(), header, payload) {
            let plain = plain.to_vec();
            self.take_flights(Reader::new(&plain));
        }
    }

    /// A SEALED packet of the victim's: what others see of it, whether it asks for an answer at once, and its frames.
    fn opened(&mut self, packet: &[u8]) -> Option<(Sighting, bool, Vec<u8>)> {
        let dcid = ConnectionId(Reader::new(packet.get(1..)?).u64("dcid").ok()?);
        let path = (0..PATHS as u8).find(|path| self.path_id(self.is_client, *path) == Some(dcid));
        let (number, plain) = self.application.as_mut()?.open(path?, packet)?;
        let mut frames = Reader::new(&plain);
        let span = frames.varint("span").ok()?;
        let at = plain.len() - frames.remaining();
        Some((Sighting { dcid, number }, span & 1 != 0, plain[at..].to_vec()))
    }

    /// What a side calls itself on a path.
    fn path_id(&self, is_client: bool, path: u8) -> Option<ConnectionId> {
        match path {
            0 if is_client == self.is_client => Some(self.id),
            0 => Some(self.victim),
            _ => self.path_key.map(|key| path_id_of(key, is_client, path)),
        }
    }

    /// Its flights, cut to frames, each with whether it is to be sealed.
    pub(super) fn symbols(&self) -> Vec<(bool, Vec<u8>)> {
        let mut symbols = Vec::new();
        for flight in &self.flights {
            for index in 0..flight.bytes.len().div_ceil(CHUNK_BYTES) {
                let mut frame = Vec::new();
                flight.encode(flight.stage, index, &mut frame);
                symbols.push((flight.is_sealed, frame));
            }
        }
        symbols
    }

    /// A HELLO with these frames, under this id.
    pub(super) fn hello(id: ConnectionId, attempt: u8, bytes: u16, frames: &[u8]) -> Vec<u8> {
        let (versions, mut out) = (vec![Version::Sealed.number()], Vec::new());
        let fits = frames.len() + Hello::MAX_OVERHEAD;
        let bytes = bytes.max(u16::try_from(fits).unwrap_or(u16::MAX));
        Hello { scid: id, instance: 7, attempt, versions, bytes }
            .encode_with(frames, None, &mut out);
        out
    }

    /// The HELLO with a cookie and the first symbol of its first flight.
    pub(super) fn first_hello(&self, cookie: &[u8]) -> Vec<u8> {
        let mut frames = Vec::new();
        if !cookie.is_empty() {
            HandshakeFrame::Cookie(cookie).encode(&mut frames);
        }
        frames
            .extend(self.symbols().into_iter().next().map(|(_, frame)| frame).unwrap_or_default());
        Self::hello(self.id, 0, BASE_MTU, &frames)
    }

    /// A HANDSHAKE packet; its sealed part under the number so far before the next.
    pub(super) fn handshake(
        &mut self,
        header: HandshakeHeader<'_>,
        sealed: &[u8],
        back: u8,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        header.encode(&mut out);
        let Some(keys) = self.keys.as_ref().filter(|_| !sealed.is_empty()) else { return out };
        let number = self.number.wrapping_sub(back.into());
        self.number = number.wrapping_add(1);
        out.extend_from_slice(&number.to_be_bytes());
        let mut payload = sealed.to_vec();
        let tag = keys.local.packet.seal(0, number.into(), &out, &mut payload);
        out.extend(payload);
        out.extend_from_slice(&tag);
        out
    }

    /// A SEALED packet, if there are keys for one.
    pub(super) fn sealed(&mut self, packet: &Packet, frames: &[u8]) -> Option<Vec<u8>> {
        let dcid = self.path_id(!self.is_client, packet.path)?;
        Some(self.application.as_mut()?.seal(dcid, packet, frames))
    }

    /// Seals otherwise from now on.
    pub(super) fn seal_under(&mut self, sealing: Sealing) {
        if let Some(application) = &mut self.application {
            application.sealing = sealing;
        }
    }
}

impl Flight {
    /// The frame of a chunk, under any stage.
    pub(super) fn encode(&self, stage: u64, index: usize, out: &mut Vec<u8>) {
        let message_bytes = self.bytes.len();
        let chunk_bytes = CHUNK_BYTES.min(message_bytes);
        let index = index % message_bytes.div_ceil(chunk_bytes);
        let (start, shape) = (index * chunk_bytes, Shape { message_bytes, chunk_bytes });
        let data = &self.bytes[start..message_bytes.min(start + chunk_bytes)];
        HandshakeFrame::Flight(FlightFrame { stage, shape, index, data }).encode(out);
    }
}

impl Incoming {
    /// Chunks are enough: the wire loses none.
    fn insert(&mut self, frame: &FlightFrame<'_>) -> Option<bytes::Bytes> {
        let FlightFrame { stage, shape, index, data } = *frame;
        let Shape { message_bytes, chunk_bytes } = shape;
        if stage != self.stage || index >= shape.chunk_count() {
            return None;
        }
        let partial = self.partial.get_or_insert_with(|| Reassembly::new(shape));
        let (lane, seq) = (lane_of(0), 0);
        let chunk = ChunkFrame { lane, seq, message_bytes, chunk_bytes, index, data };
        let is_whole = partial.insert(&chunk).is_ok() && partial.is_complete();
        self.stage += u64::from(is_whole);
        self.partial.take_if(|_| is_whole).map(Reassembly::into_message)
    }
}

impl Application {
    /// The keys after so many changes: of the peer, and of the victim.
    fn keys(&mut self, changes: usize) -> (&dyn PacketKey, &dyn PacketKey) {
        while self.later.len() < changes {
            self.later.push(self.updates.next());
        }
        match changes.checked_sub(1) {
            None => (self.first.local.packet.as_ref(), self.first.remote.packet.as_ref()),
            Some(index) => (self.later[index].0.as_ref(), self.later[index].1.as_ref()),
        }
    }

    /// Number and plain text of a packet. The peer follows a change of keys.
    fn open(&mut self, path: u8, packet: &[u8]) -> Option<(u32, Vec<u8>)> {
        let mut packet = packet.to_vec();
        let sample = packet.get(SEALED_HEADER_BYTES..)?.first_chunk()?;
        let by = self.first.remote.header.mask(sample);
        mask(&mut packet, &by);
        let (header, payload) = packet.split_at(SEALED_HEADER_BYTES);
        let phase = usize::from(header[0] & KEY_PHASE);
        let number = u32::from_be_bytes(*header.last_chunk()?);
        let near = self.current.saturating_sub(1)..=self.current + 1;
        for changes in near.filter(|changes| changes % 2 == phase) {
            let (_, key) = self.keys(changes);
            if let Some(plain) = key.open(path.into(), number.into(), header, &mut payload.to_vec())
            {
                let plain = plain.to_vec();
                self.current = self.current.max(changes);
                return Some((number, plain));
            }
        }
        None
    }

    fn seal(&mut self, dcid: ConnectionId, packet: &Packet, frames: &[u8]) -> Vec<u8> {
        let Sealing { ahead, flip } = self.sealing;
        let changes = self.current.saturating_add_signed(ahead.into());
        let phase = (changes % 2) as u8 ^ u8::from(flip);
        let mut out = vec![SEALED | phase];
        out.extend_from_slice(&dcid.0.to_be_bytes());
        out.extend_from_slice(&(packet.number as u32).to_be_bytes());
        let mut payload = Vec::new();
        put_varint(&mut payload, u64::from(packet.span) << 1 | u64::from(packet.ack_now));
        payload.extend_from_slice(frames);
        let (key, _) = self.keys(changes);
        let tag = key.seal(packet.path.into(), packet.number, &out, &mut payload);
        out.extend(payload);
        out.extend_from_slice(&tag);
        let sample: &[u8; SAMPLE_BYTES] =
            out[SEALED_HEADER_BYTES..].first_chunk().expect("there is a tag");
        let by = self.first.local.header.mask(sample);
        mask(&mut out, &by);
        out
    }
}

/// Masks phase and number, or takes the mask off (RFC 9001 §5.4).
fn mask(packet: &mut [u8], by: &[u8; 5]) {
    packet[0] ^= by[0] & KEY_PHASE;
    let number = &mut packet[SEALED_HEADER_BYTES - 4..SEALED_HEADER_BYTES];
    number.iter_mut().zip(&by[1..]).for_each(|(byte, mask)| *byte ^= mask);
}
