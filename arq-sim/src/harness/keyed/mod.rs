// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A side of a cryptographic handshake, and of the association that comes of it, whose peer has the keys and keeps no rule.
//! Who asks a server gets keys before it has proved anything.

mod peer;
mod terms;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use arbitrary::{Arbitrary, Unstructured};
use arq_proto::{
    session::{Protection, Security},
    wire::{
        flight::{FlightFrame, HandshakeFrame, HandshakeHeader, SealedChallenge, MAX_FLIGHT_BYTES},
        frame::Shape,
        packet::{Echo, Refuse, Reset},
        BASE_MTU, MAX_CHUNKS,
    },
    Config, Connect, ConnectionId, EndpointConfig, RefuseReason, ValidConfig,
};

use self::{
    peer::{Packet, Peer, Sealing},
    terms::TermsOp,
};
use super::{
    operations::{apply, encoded, run, stranger, Operation},
    paths::{change_interface, PathsOperation, PATHS},
    Victim,
};
use crate::toy::{Flights, Toy};

/// What honest sides wait between two steps: a server answers no sooner.
const STEP: Duration = Duration::from_millis(30);
/// Steps of a handshake with the longest flights.
const MAX_STEPS: u8 = 12;
const MAX_REASON_BYTES: usize = 200;
/// Where a byte says how far from right something is, so many of its values say: not at all.
const RIGHT: u8 = 192;
/// Flights of a side, and one more.
const STAGES: u8 = 4;
/// Messages of the toy's sessions, and one that is none.
const KINDS: u8 = 6;

/// How it begins.
#[derive(Debug, Clone, Arbitrary)]
struct Setup {
    /// Bytes of the flights.
    flights: [u16; 4],
    retry: bool,
    rejects_client: bool,
    /// The server wants a cookie first.
    cookie: bool,
    /// The server's proof is of somebody else.
    is_impostor: bool,
    /// Steps of an honest peer before all else.
    steps: u8,
    /// Packets after which the victim changes its keys, beside the least number.
    update_after: u8,
    /// What a key may seal, and fail to open; 0: no limit.
    limits: [u8; 2],
    terms: TermsOp,
}

/// One thing that happens.
#[derive(Debug, Clone, Arbitrary)]
enum KeyedOperation {
    /// What happens in clear, too.
    Usual(PathsOperation),
    /// The peer does what it should.
    Step,
    /// A HANDSHAKE packet, perhaps from elsewhere or under another id or an old number.
    Handshake {
        place: u8,
        attempt: u8,
        back: u8,
        id: u8,
        clear: Vec<HandshakeOp>,
        sealed: Vec<HandshakeOp>,
    },
    /// A HELLO, perhaps from elsewhere or of another client.
    Hello {
        place: u8,
        attempt: u8,
        id: u8,
        bytes: u16,
        frames: Vec<HandshakeOp>,
    },
    /// Words that nothing protects.
    Refuse(u8),
    Reset(u8),
    Challenge(u8),
    /// Other keys for what follows.
    Keys(i8, bool),
    /// Numbers on a path are left out.
    Jump(u8, u32),
    /// Another session, which tells this.
    Begin(TermsOp),
}

/// A frame of a handshake.
#[derive(Debug, Clone, Arbitrary)]
enum HandshakeOp {
    /// A chunk of a flight that the peer's session has made, under its stage or a later one.
    Own {
        flight: u8,
        more: u8,
        index: u8,
    },
    /// Any symbol, as long as it should be or not.
    Flight {
        stage: u8,
        message: u16,
        chunk: u16,
        index: u8,
        data: Vec<u8>,
        fits: bool,
    },
    /// A message of the session in a flight of its own, perhaps not all of it.
    Message {
        stage: u8,
        kind: u8,
        body: Vec<u8>,
        is_short: bool,
    },
    Close {
        alert: u8,
        bytes: u8,
    },
    Host(u64),
    Cookie(Vec<u8>),
    Bytes(Vec<u8>),
}

struct Scene {
    victim: Victim,
    peer: Peer,
}

/// A server whose client has the keys.
///
/// # Panics
/// A rule is broken.
pub fn secured_server(data: &[u8]) {
    keyed(data, Setup::server);
}

/// A client whose server has the keys.
///
/// # Panics
/// A rule is broken.
pub fn secured_client(data: &[u8]) {
    keyed(data, Setup::client);
}

fn keyed(data: &[u8], begin: impl FnOnce(&Setup) -> Scene) {
    let mut input = Unstructured::new(data);
    let Ok(setup) = Setup::arbitrary(&mut input) else { return };
    let Scene { mut victim, mut peer } = begin(&setup);
    peer.read(&mut victim);
    for _ in 0..setup.steps % MAX_STEPS {
        peer.step(&mut victim);
    }
    let is_called = victim.connection().is_client();
    let is_refused = if is_called { setup.is_impostor } else { setup.rejects_client };
    run(&mut victim, &mut input, |victim, input| {
        peer.apply(victim, KeyedOperation::arbitrary(input)?);
        peer.read(victim);
        let is_open = victim.connection().is_established();
        assert!(!(is_refused && is_open), "it takes a peer whose proof it refuses");
        Ok(())
    });
    let connection = victim.connection();
    let is_decided = connection.is_established() || connection.is_closed();
    assert!(is_decided, "the handshake neither opens nor ends");
}

impl Setup {
    fn toy(&self) -> Toy {
        let [client_hello, server_hello, server, client] =
            self.flights.map(|bytes| 60 + usize::from(bytes) % 4_000);
        let server_hello = server_hello.min(1_200);
        let (retry, rejects_client) = (self.retry, self.rejects_client);
        let toy =
            Toy::new(Flights { client_hello, server_hello, server, client, retry, rejects_client });
        let [seal, open] = self.limits.map(|limit| match limit {
            0 => 1 << 23,
            limit => u64::from(limit),
        });
        toy.with_limits(seal, open)
    }

    fn config(&self) -> ValidConfig {
        let key_update_packets = 16 + u32::from(self.update_after);
        Config { paths: PATHS as u8, key_update_packets, ..Config::default() }
            .validate()
            .expect("the configuration is valid")
    }

    fn server(&self) -> Scene {
        let toy = self.toy();
        let peer = Peer::new(toy.careless(), true, self.terms.clone());
        let unvalidated = if self.cookie { 0 } else { 64 };
        let endpoint = EndpointConfig::new(self.config())
            .with_protection(Protection::Sealed(Arc::new(toy)))
            .with_max_unvalidated_handshakes(unvalidated);
        let victim = Victim::answering(endpoint, |cookie| peer.first_hello(cookie));
        Scene { victim, peer }
    }

    fn client(&self) -> Scene {
        let toy = self.toy();
        let own = toy.careless().with_authority(if self.is_impostor { 2 } else { 1 });
        let security: Arc<dyn Security> = Arc::new(toy);
        let connect = Connect::sealed(self.config(), security, "server").on_host(b"host");
        let victim = Victim::calling(connect);
        Scene { victim, peer: Peer::new(own, false, self.terms.clone()) }
    }
}

impl Peer {
    /// Does what it should: its flights, then an answer to all that has come.
    fn step(&mut self, victim: &mut Victim) {
        victim.sleep(STEP);
        self.read(victim);
        let is_client = !victim.connection().is_client();
        // Once the victim seals messages it has all that it needs.
        let symbols = if self.echoes.is_empty() { self.symbols() } else { Vec::new() };
        for (is_sealed, frame) in symbols {
            if is_sealed {
                self.send_handshake(victim, &[], &frame);
            } else if !is_client {
                self.send_handshake(victim, &frame, &[]);
            } else if self.is_handshaking() {
                victim.datagram(victim.peer(), &Self::hello(self.id, 0, BASE_MTU, &frame));
            }
            self.read(victim);
        }
        let frames = [&[1], &victim.ack_of_all()[..]].concat();
        self.send_next(victim, &frames);
        self.read(victim);
    }

    /// A HANDSHAKE packet.
    fn send_handshake(&mut self, victim: &mut Victim, clear: &[u8], sealed: &[u8]) {
        let (dcid, scid) = (victim.id(), self.id);
        let header = HandshakeHeader { dcid, scid, attempt: 0, clear };
        let packet = self.handshake(header, sealed, 0);
        victim.handshake_datagram(victim.peer(), &packet, self.has_keys() && !sealed.is_empty());
    }

    /// Frames under the next number of the first path.
    fn send_next(&mut self, victim: &mut Victim, frames: &[u8]) {
        let number = self.take_number(0, 0);
        self.send(victim, 0, Packet { path: 0, number, span: 0, ack_now: true }, frames);
    }

    fn take_number(&mut self, path: u8, skip: u8) -> u64 {
        let next = &mut self.next[usize::from(path)];
        let number = *next + u64::from(skip);
        *next = number + 1;
        number
    }

    /// Frames on a path, from an address.
    fn send(&mut self, victim: &mut Victim, place: u8, packet: Packet, frames: &[u8]) {
        let Some(bytes) = self.sealed(&packet, frames) else { return };
        let from = address(victim, place);
        victim.sealed_datagram(from, &bytes, frames);
    }

    fn apply(&mut self, victim: &mut Victim, operation: KeyedOperation) {
        match operation {
            KeyedOperation::Usual(operation) => self.usual(victim, operation),
            KeyedOperation::Step => self.step(victim),
            KeyedOperation::Handshake { place, attempt, back, id, clear, sealed } => {
                let (clear, sealed) = (self.encoded(&clear), self.encoded(&sealed));
                let (dcid, scid) = (victim.id(), ConnectionId(self.id.0 ^ wrong_by(id)));
                let header = HandshakeHeader { dcid, scid, attempt, clear: &clear };
                let packet = self.handshake(header, &sealed, wrong_by(back) as u8);
                let is_proof = self.has_keys() && !sealed.is_empty();
                victim.handshake_datagram(address(victim, place), &packet, is_proof);
            }
            KeyedOperation::Hello { place, attempt, id, bytes, frames } => {
                let id = ConnectionId(self.id.0 ^ wrong_by(id));
                let hello = Self::hello(id, attempt, bytes.min(BASE_MTU), &self.encoded(&frames));
                victim.datagram(address(victim, place), &hello);
            }
            KeyedOperation::Keys(ahead, flip) => {
                self.seal_under(Sealing { ahead: ahead % 3, flip });
            }
            KeyedOperation::Jump(path, by) => {
                self.next[usize::from(path) % PATHS] += u64::from(by);
            }
            KeyedOperation::Begin(terms) => self.begin(terms),
            unprotected => self.say(victim, &unprotected),
        }
    }

    fn say(&self, victim: &mut Victim, operation: &KeyedOperation) {
        let (dcid, mut out) = (victim.id(), Vec::new());
        match *operation {
            KeyedOperation::Refuse(alert) => {
                let reason = match alert {
                    0 => RefuseReason::Version,
                    1 => RefuseReason::Busy,
                    alert => RefuseReason::Handshake { alert },
                };
                Refuse { dcid, reason, versions: Vec::new() }.encode(&mut out);
            }
            KeyedOperation::Reset(back) => {
                let (Some((unknown, _)), Some(echo)) =
                    (victim.sends_to(), self.echoes.iter().rev().nth(back.into()))
                else {
                    return;
                };
                Reset { unknown, echo: Echo::Tag(*echo) }.encode(&mut out);
            }
            KeyedOperation::Challenge(attempt) => {
                SealedChallenge { dcid, attempt, cookie: vec![7; 34] }.encode(None, &mut out);
            }
            _ => return,
        }
        victim.datagram(victim.peer(), &out);
    }

    fn usual(&mut self, victim: &mut Victim, operation: PathsOperation) {
        match operation {
            PathsOperation::Usual(Operation::Frames { skip, span, ack_now, frames }) => {
                let number = self.take_number(0, skip);
                let frames = encoded(victim, &frames);
                self.send(victim, 0, Packet { path: 0, number, span, ack_now }, &frames);
            }
            PathsOperation::Usual(Operation::OldNumber(back, frames)) => {
                let number = self.next[0].saturating_sub(back.into());
                let frames = encoded(victim, &frames);
                self.send(victim, 0, Packet { path: 0, number, span: 0, ack_now: true }, &frames);
            }
            PathsOperation::Usual(Operation::Elsewhere(place, frames)) => {
                let frames = encoded(victim, &frames);
                let number = self.take_number(0, 0);
                let packet = Packet { path: 0, number, span: 0, ack_now: true };
                self.send(victim, place | RIGHT, packet, &frames);
            }
            PathsOperation::Usual(Operation::AckAll) => {
                let ack = victim.ack_of_all();
                self.send_next(victim, &ack);
            }
            PathsOperation::Usual(operation) => apply(victim, operation),
            PathsOperation::OnPath { path, place, back, frames } => {
                let path = path % PATHS as u8;
                let number = self.take_number(path, 0).saturating_sub(wrong_by(back));
                let mut content = Vec::new();
                frames.iter().for_each(|frame| frame.encode(victim, &mut content));
                self.send(victim, place, Packet { path, number, span: 0, ack_now: true }, &content);
            }
            PathsOperation::Interface { socket, is_up, purpose } => {
                change_interface(victim, socket, is_up, purpose);
            }
        }
    }

    fn encoded(&self, frames: &[HandshakeOp]) -> Vec<u8> {
        let mut out = Vec::new();
        frames.iter().for_each(|frame| frame.encode(self, &mut out));
        out
    }
}

/// By how much a fuzzer's byte lets something be wrong; mostly by nothing.
fn wrong_by(byte: u8) -> u64 {
    byte.saturating_sub(RIGHT - 1).into()
}

/// The peer's, and now and then another one.
fn address(victim: &Victim, place: u8) -> SocketAddr {
    if wrong_by(place) == 0 {
        victim.peer()
    } else {
        stranger(place)
    }
}

impl HandshakeOp {
    fn encode(&self, peer: &Peer, out: &mut Vec<u8>) {
        match self {
            Self::Own { flight, more, index } => {
                let count = peer.flights.len();
                let flight = usize::from(*flight) % count.max(1);
                if let Some(own) = peer.flights.get(flight) {
                    own.encode(flight as u64 + wrong_by(*more), (*index).into(), out);
                }
            }
            Self::Flight { stage, message, chunk, index, data, fits } => {
                let message_bytes = usize::from(*message).clamp(1, MAX_FLIGHT_BYTES + 1);
                let chunk_bytes = usize::from(*chunk).clamp(1, message_bytes);
                let shape = Shape { message_bytes, chunk_bytes };
                let (stage, index, mut data) = (stage % STAGES, usize::from(*index), data.clone());
                if *fits {
                    let rest = message_bytes.saturating_sub(index * chunk_bytes);
                    let is_repair = index >= MAX_CHUNKS;
                    data.resize(if is_repair { chunk_bytes } else { chunk_bytes.min(rest) }, 0x5a);
                }
                let frame = FlightFrame { stage: stage.into(), shape, index, data: &data };
                HandshakeFrame::Flight(frame).encode(out);
            }
            Self::Message { stage, kind, body, is_short } => {
                let length = (body.len() as u32 + u32::from(*is_short)).to_be_bytes();
                let data = [&[kind % KINDS], &length[..], &[0; 4], body].concat();
                let shape = Shape { message_bytes: data.len(), chunk_bytes: data.len() };
                let frame =
                    FlightFrame { stage: (stage % STAGES).into(), shape, index: 0, data: &data };
                HandshakeFrame::Flight(frame).encode(out);
            }
            Self::Close { alert, bytes } => {
                let reason =
                    &"x".repeat(MAX_REASON_BYTES)[..usize::from(*bytes) % MAX_REASON_BYTES];
                HandshakeFrame::Close { alert: *alert, reason }.encode(out);
            }
            Self::Host(host) => HandshakeFrame::Host(*host).encode(out),
            Self::Cookie(cookie) => HandshakeFrame::Cookie(cookie).encode(out),
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn honest() -> Setup {
        Setup {
            flights: [500, 100, 3_000, 2_000],
            retry: false,
            rejects_client: false,
            cookie: false,
            is_impostor: false,
            steps: 0,
            update_after: 0,
            limits: [0; 2],
            terms: TermsOp::Honest,
        }
    }

    /// Or the targets would fuzz nothing.
    #[test]
    fn an_honest_script_comes_to_an_association_and_its_frames_are_heard() {
        for (retry, cookie) in [(false, false), (true, false), (false, true)] {
            let setup = Setup { retry, cookie, ..honest() };
            for Scene { mut victim, mut peer } in [setup.server(), setup.client()] {
                (0..MAX_STEPS - 1).for_each(|_| peer.step(&mut victim));
                let connection = victim.connection();
                assert!(connection.is_established(), "{:?}", connection.close_reason());
                let stats = connection.stats();
                assert_eq!((stats.packets_forged, stats.datagrams_dropped), (0, 0), "{stats:?}");
                let frames = [&[1], &victim.ack_of_all()[..]].concat();
                peer.send_next(&mut victim, &frames);
                let heard = victim.connection().stats().packets_received;
                assert_eq!(heard, stats.packets_received + 1);
                // The victim's answer is read, too.
                let before = victim.newest();
                peer.read(&mut victim);
                assert!(victim.newest() > before && victim.sends_to().is_some());
            }
        }
    }
}
