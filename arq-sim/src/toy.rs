// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A handshake that makes keys without any cryptography worth the name: deterministic, with flights as long as a test
//! wants them, and with a ledger of each (key, path, number) that was ever used to seal.
//!
//! Whoever has the secret can read and forge everything. Nobody else in the simulator does, which is all that is asked.

use std::{
    any::Any,
    collections::{BTreeSet, VecDeque},
    fmt,
    hash::Hasher,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc, Mutex, PoisonError,
    },
};

use arq_proto::session::{
    DirectionKeys, HeaderKey, KeyChange, Keys, PacketKey, Security, Session, SessionError, Updates,
    KNOCK_BYTES, SAMPLE_BYTES, TAG_BYTES,
};
use siphasher::sip128::{Hasher128, SipHasher24};

const CLIENT_HELLO: u8 = 1;
const RETRY: u8 = 2;
const SERVER_HELLO: u8 = 3;
const SERVER_PROOF: u8 = 4;
const CLIENT_PROOF: u8 = 5;

/// Alerts of TLS (RFC 8446 §6).
const DECRYPT_ERROR: u8 = 51;
const UNEXPECTED_MESSAGE: u8 = 10;
const UNKNOWN_CA: u8 = 48;

/// How long the flights are, in bytes, and what else a handshake does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flights {
    /// ClientHello, the first flight.
    pub client_hello: usize,
    /// ServerHello, in clear.
    pub server_hello: usize,
    /// The server's certificate and proof.
    pub server: usize,
    /// The client's.
    pub client: usize,
    /// The server asks for another ClientHello first.
    pub retry: bool,
    /// The server takes no client's proof.
    pub rejects_client: bool,
}

impl Default for Flights {
    /// A P-256 certificate with its issuer's, and no client certificate.
    fn default() -> Self {
        Self {
            client_hello: 300,
            server_hello: 120,
            server: 1_250,
            client: 80,
            retry: false,
            rejects_client: false,
        }
    }
}

/// What all sessions of a world have in common.
#[derive(Default)]
struct Ledger {
    sessions: AtomicU64,
    used: Mutex<BTreeSet<(u64, u32, u64)>>,
}

impl fmt::Debug for Ledger {
    /// Not each packet of a run.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}

impl Ledger {
    /// Notes that a packet is sealed.
    fn note(&self, key: u64, path: u32, number: u64) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(used.insert((key, path, number)), "sealed twice: {key:x}, path {path}, {number}");
    }
}

/// Makes toy sessions. Two that are to agree must be made of one: see [`Toy::with_secret`] for those that are not.
#[derive(Debug, Clone)]
pub struct Toy {
    ledger: Arc<Ledger>,
    secret: u64,
    /// Who vouches for a server, and whom a client believes.
    authority: u64,
    flights: Flights,
    knock: Option<u64>,
    is_careless: bool,
    confidentiality_limit: u64,
    integrity_limit: u64,
}

impl Toy {
    /// With flights as long as these.
    #[must_use]
    pub fn new(flights: Flights) -> Self {
        Self {
            ledger: Arc::default(),
            secret: 1,
            authority: 1,
            flights,
            knock: None,
            is_careless: false,
            confidentiality_limit: 1 << 23,
            integrity_limit: 1 << 36,
        }
    }

    /// Of one who has another secret, and does not know the other's.
    #[must_use]
    pub fn with_secret(&self, secret: u64) -> Self {
        Self { secret, ..self.clone() }
    }

    /// Of one who has another authority than the other's: a server that a client refuses once it has seen its proof.
    #[must_use]
    pub fn with_authority(&self, authority: u64) -> Self {
        Self { authority, ..self.clone() }
    }

    /// Of one who knocks.
    #[must_use]
    pub fn with_knock(&self, key: u64) -> Self {
        Self { knock: Some(key), ..self.clone() }
    }

    /// Of one who may seal as many packets as it likes under one number: a peer that breaks the rules.
    #[must_use]
    pub fn careless(&self) -> Self {
        Self { is_careless: true, ..self.clone() }
    }

    /// A key seals and fails to open so many packets at most.
    #[must_use]
    pub fn with_limits(&self, confidentiality_limit: u64, integrity_limit: u64) -> Self {
        Self { confidentiality_limit, integrity_limit, ..self.clone() }
    }

    /// Packets that were sealed.
    #[must_use]
    pub fn packets_sealed(&self) -> usize {
        self.ledger.used.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn session(&self, is_client: bool, params: &[u8]) -> ToySession {
        let nonce = self.ledger.sessions.fetch_add(1, Ordering::Relaxed);
        ToySession {
            toy: self.clone(),
            is_client,
            nonce: digest(self.secret, &[b"nonce", &nonce.to_be_bytes()]),
            params: params.to_vec(),
            peer_params: None,
            received: Vec::new(),
            transcript: 0,
            master: None,
            retried: false,
            outbox: VecDeque::new(),
            is_over: false,
        }
    }
}

impl Security for Toy {
    fn connect(&self, name: &str, params: &[u8]) -> Result<Box<dyn Session>, SessionError> {
        if name.is_empty() {
            return Err(SessionError::new(None, "a server has a name"));
        }
        let mut session = self.session(true, params);
        session.say_hello();
        Ok(Box::new(session))
    }

    fn accept(&self, params: &[u8]) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(self.session(false, params)))
    }

    fn knock(&self, packet: &[u8]) -> Option<[u8; KNOCK_BYTES]> {
        self.knock.map(|key| digest128(key, &[b"knock", packet]))
    }
}

/// What is to be handed out next.
#[derive(Debug)]
enum Item {
    Bytes(Vec<u8>),
    Keys(KeyChange),
}

#[derive(Debug)]
struct ToySession {
    toy: Toy,
    is_client: bool,
    nonce: u64,
    params: Vec<u8>,
    peer_params: Option<Vec<u8>>,
    received: Vec<u8>,
    transcript: u64,
    master: Option<u64>,
    retried: bool,
    outbox: VecDeque<Item>,
    is_over: bool,
}

impl ToySession {
    fn say_hello(&mut self) {
        let body = [&self.nonce.to_be_bytes()[..], &self.params].concat();
        self.say(CLIENT_HELLO, &body, self.toy.flights.client_hello);
    }

    /// A message: its kind, the lengths of its body and of the padding behind that.
    fn say(&mut self, kind: u8, body: &[u8], bytes: usize) {
        let padding = bytes.saturating_sub(body.len() + 9);
        let mut message = vec![kind];
        message.extend_from_slice(&(body.len() as u32).to_be_bytes());
        message.extend_from_slice(&(padding as u32).to_be_bytes());
        message.extend_from_slice(body);
        message.resize(message.len() + padding, 0x5a);
        self.transcript = digest(self.transcript, &[&message]);
        self.outbox.push_back(Item::Bytes(message));
    }

    fn hear(&mut self, kind: u8, body: &[u8]) -> Result<(), SessionError> {
        let nonce = || body.first_chunk::<8>().map(|nonce| u64::from_be_bytes(*nonce));
        match (kind, self.is_client) {
            (CLIENT_HELLO, false) if self.master.is_none() => {
                let client = nonce().ok_or_else(|| unexpected("no nonce"))?;
                self.peer_params = Some(body[8..].to_vec());
                self.answer(client);
            }
            (RETRY, true) if self.master.is_none() && !self.retried => {
                self.retried = true;
                self.say_hello();
            }
            (SERVER_HELLO, true) if self.master.is_none() => {
                let server = nonce().ok_or_else(|| unexpected("no nonce"))?;
                self.agree(self.nonce, server);
            }
            (SERVER_PROOF, true) if self.master.is_some() && !self.is_over => {
                if body.get(8..16) != Some(&self.toy.authority.to_be_bytes()[..]) {
                    return Err(SessionError::new(Some(UNKNOWN_CA), "no authority of ours"));
                }
                self.peer_params = body.get(16..).map(<[u8]>::to_vec);
                let proof = self.proof(b"client");
                self.say(CLIENT_PROOF, &proof, self.toy.flights.client);
                self.outbox.push_back(Item::Keys(self.application()));
                self.is_over = true;
            }
            (CLIENT_PROOF, false) if self.master.is_some() && !self.is_over => {
                if self.toy.flights.rejects_client {
                    return Err(SessionError::new(Some(UNKNOWN_CA), "no client is taken"));
                }
                self.is_over = true;
            }
            _ => return Err(unexpected("a message out of turn")),
        }
        Ok(())
    }

    fn answer(&mut self, client: u64) {
        if self.toy.flights.retry && !std::mem::replace(&mut self.retried, true) {
            return self.say(RETRY, &[], 40);
        }
        let nonce = self.nonce.to_be_bytes();
        self.say(SERVER_HELLO, &nonce, self.toy.flights.server_hello);
        self.agree(client, self.nonce);
        let authority = self.toy.authority.to_be_bytes();
        let body = [&self.proof(b"server")[..], &authority, &self.params].concat();
        self.say(SERVER_PROOF, &body, self.toy.flights.server);
        self.outbox.push_back(Item::Keys(self.application()));
    }

    fn agree(&mut self, client: u64, server: u64) {
        let nonces = [client.to_be_bytes(), server.to_be_bytes()].concat();
        // Who has read another hello than was sent comes to other keys (RFC 8446 §7.1).
        let transcript = self.transcript.to_be_bytes();
        self.master = Some(digest(self.toy.secret, &[&nonces, &transcript]));
        let keys = self.keys(b"handshake");
        self.outbox.push_back(Item::Keys(KeyChange::Handshake(keys)));
    }

    fn proof(&self, who: &[u8]) -> [u8; 8] {
        let transcript = self.transcript.to_be_bytes();
        digest(self.master.unwrap_or_default(), &[who, &transcript]).to_be_bytes()
    }

    fn check_proof(&self, body: &[u8], who: &[u8]) -> Result<(), SessionError> {
        match body.first_chunk::<8>() == Some(&self.proof(who)) {
            true => Ok(()),
            false => Err(SessionError::new(Some(DECRYPT_ERROR), "the proof is wrong")),
        }
    }

    fn keys(&self, phase: &[u8]) -> Keys {
        let direction = |who: &[u8]| {
            let key = digest(self.master.unwrap_or_default(), &[phase, who]);
            let header = Box::new(ToyHeader(digest(key, &[b"header"])));
            DirectionKeys { packet: self.key(key), header }
        };
        let (client, server) = (direction(b"client"), direction(b"server"));
        match self.is_client {
            true => Keys { local: client, remote: server },
            false => Keys { local: server, remote: client },
        }
    }

    fn key(&self, key: u64) -> Box<ToyKey> {
        Box::new(ToyKey { toy: self.toy.clone(), key })
    }

    fn application(&self) -> KeyChange {
        let master = self.master.unwrap_or_default();
        let mut of = [&b"client"[..], b"server"].map(|who| digest(master, &[b"messages", who]));
        if !self.is_client {
            of.reverse();
        }
        let updates = Box::new(ToyUpdates { toy: self.toy.clone(), local: of[0], remote: of[1] });
        KeyChange::Application { keys: self.keys(b"messages"), updates }
    }
}

impl Session for ToySession {
    fn read(&mut self, flight: &[u8]) -> Result<(), SessionError> {
        self.received.extend_from_slice(flight);
        loop {
            let Some((head, rest)) = self.received.split_first_chunk::<9>() else { return Ok(()) };
            let [kind, a, b, c, d, e, f, g, h] = *head;
            let body = u32::from_be_bytes([a, b, c, d]) as usize;
            let bytes = body.saturating_add(u32::from_be_bytes([e, f, g, h]) as usize);
            if rest.len() < bytes {
                return Ok(());
            }
            let body = rest[..body].to_vec();
            let message: Vec<u8> = self.received.drain(..9 + bytes).collect();
            // A proof is about all that came before it.
            match kind {
                SERVER_PROOF => self.check_proof(&body, b"server")?,
                CLIENT_PROOF => self.check_proof(&body, b"client")?,
                _ => {}
            }
            self.transcript = digest(self.transcript, &[&message]);
            self.hear(kind, &body)?;
        }
    }

    fn write(&mut self, flight: &mut Vec<u8>) -> Option<KeyChange> {
        while let Some(item) = self.outbox.pop_front() {
            match item {
                Item::Bytes(bytes) => flight.extend_from_slice(&bytes),
                Item::Keys(keys) => return Some(keys),
            }
        }
        None
    }

    fn is_handshaking(&self) -> bool {
        !self.is_over
    }

    fn peer_params(&self) -> Option<&[u8]> {
        self.peer_params.as_deref()
    }

    fn export(&self) -> Option<[u8; 16]> {
        Some(digest128(self.master?, &[b"paths"]))
    }

    fn peer_credential(&self) -> Option<&[u8]> {
        Some(b"whoever knows the secret")
    }

    fn peer(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::new(self.toy.secret))
    }
}

fn unexpected(what: &str) -> SessionError {
    SessionError::new(Some(UNEXPECTED_MESSAGE), what)
}

#[derive(Debug)]
struct ToyUpdates {
    toy: Toy,
    local: u64,
    remote: u64,
}

impl Updates for ToyUpdates {
    fn next(&mut self) -> (Box<dyn PacketKey>, Box<dyn PacketKey>) {
        for key in [&mut self.local, &mut self.remote] {
            *key = digest(*key, &[b"next"]);
        }
        let of = |key| Box::new(ToyKey { toy: self.toy.clone(), key });
        (of(self.local), of(self.remote))
    }
}

#[derive(Debug)]
struct ToyKey {
    toy: Toy,
    key: u64,
}

impl ToyKey {
    fn cipher(&self, path: u32, number: u64, payload: &mut [u8]) {
        let nonce = [&path.to_be_bytes()[..], &number.to_be_bytes()].concat();
        let mut stream = fastrand::Rng::with_seed(digest(self.key, &[&nonce]));
        for chunk in payload.chunks_mut(8) {
            let pad = stream.u64(..).to_be_bytes();
            chunk.iter_mut().zip(pad).for_each(|(byte, pad)| *byte ^= pad);
        }
    }

    fn tag(&self, path: u32, number: u64, header: &[u8], payload: &[u8]) -> [u8; TAG_BYTES] {
        let (path, number) = (path.to_be_bytes(), number.to_be_bytes());
        let length = (header.len() as u64).to_be_bytes();
        digest128(self.key, &[&path, &number, &length, header, payload])
    }
}

impl PacketKey for ToyKey {
    fn seal(&self, path: u32, number: u64, header: &[u8], payload: &mut [u8]) -> [u8; TAG_BYTES] {
        if !self.toy.is_careless {
            self.toy.ledger.note(self.key, path, number);
        }
        self.cipher(path, number, payload);
        self.tag(path, number, header, payload)
    }

    fn open<'a>(
        &self,
        path: u32,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Option<&'a mut [u8]> {
        let (payload, tag) = payload.split_last_chunk_mut::<TAG_BYTES>()?;
        if *tag != self.tag(path, number, header, payload) {
            // As an AEAD may leave it.
            payload.fill(0);
            return None;
        }
        self.cipher(path, number, payload);
        Some(payload)
    }

    fn confidentiality_limit(&self) -> u64 {
        self.toy.confidentiality_limit
    }

    fn integrity_limit(&self) -> u64 {
        self.toy.integrity_limit
    }
}

#[derive(Debug)]
struct ToyHeader(u64);

impl HeaderKey for ToyHeader {
    fn mask(&self, sample: &[u8; SAMPLE_BYTES]) -> [u8; 5] {
        let [a, b, c, d, e, ..] = digest(self.0, &[sample]).to_be_bytes();
        [a, b, c, d, e]
    }
}

fn digest(key: u64, parts: &[&[u8]]) -> u64 {
    digest_of(key, parts) as u64
}

fn digest128(key: u64, parts: &[&[u8]]) -> [u8; 16] {
    digest_of(key, parts).to_be_bytes()
}

fn digest_of(key: u64, parts: &[&[u8]]) -> u128 {
    let mut hasher = SipHasher24::new_with_keys(key, !key);
    parts.iter().for_each(|part| hasher.write(part));
    hasher.finish128().as_u128()
}
