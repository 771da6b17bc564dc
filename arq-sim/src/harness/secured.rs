// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A cryptographic handshake under somebody on the path who drops, repeats, alters and forges what he likes, and answers
//! with a session of his own that the client does not accept.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use arbitrary::{Arbitrary, Unstructured};
use arq_proto::{
    session::{Protection, Security},
    wire::{
        flight::{FlightFrame, HandshakeFrame, HandshakeHeader, SealedChallenge},
        frame::Shape,
        packet::{Echo, Refuse, Reset},
    },
    Connect, Connection, ConnectionHandle, ConnectionId, Endpoint, EndpointConfig, Event,
    RefuseReason, Routed, ValidConfig,
};

use crate::{
    hostile::resealed,
    toy::{Flights, Toy},
    Clock,
};

/// Operations per input: enough to reach any state, few enough to stay fast.
const MAX_OPERATIONS: usize = 200;
/// No input makes a connection send more than this at once.
const MAX_ANSWERS: usize = 1_000;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// What a datagram takes once nobody meddles.
const ONE_WAY: Duration = Duration::from_millis(50);
/// Bytes that a stranger is sent for each of his.
const AMPLIFICATION: usize = 3;

/// One thing that happens.
#[derive(Debug, Clone, Arbitrary)]
enum Operation {
    /// The oldest datagram that waits arrives.
    Deliver,
    /// It does not.
    Drop,
    /// One of those that were sent arrives once more.
    Replay(u8),
    /// It arrives with another bit, and a checksum that fits.
    Flip(u8, u16),
    /// It arrives in part.
    Cut(u8, u16),
    /// Any bytes arrive, at the server or at the client.
    Bytes(bool, Vec<u8>),
    /// A flight in clear, of any shape, under the newest ids.
    Flight {
        to_server: bool,
        stage: u8,
        message: u16,
        chunk: u16,
        index: u8,
        data: Vec<u8>,
    },
    /// Words that nothing protects.
    Refuse(u8),
    Reset(u64),
    Challenge(u8),
    /// What the client sent reaches one who answers in the server's place.
    Answer(u8),
    /// Time passes, in ms.
    Sleep(u16),
}

/// A side of the conversation, or the one who answers in the server's place.
struct Side {
    endpoint: Endpoint,
    connections: BTreeMap<ConnectionHandle, Connection>,
    connected: usize,
    received: usize,
    sent: usize,
}

impl Side {
    fn new(security: Option<Arc<dyn Security>>, seed: u8, now: Instant) -> Self {
        let accept = security.is_some().then(ValidConfig::default);
        let protection = security.map_or(Protection::Clear, Protection::Sealed);
        let config = EndpointConfig::new(accept).with_protection(protection);
        let endpoint = Endpoint::new(config, [seed; 32], now);
        Self { endpoint, connections: BTreeMap::new(), connected: 0, received: 0, sent: 0 }
    }

    fn arrive(&mut self, now: Instant, from: SocketAddr, datagram: &[u8], out: &mut Vec<Vec<u8>>) {
        let (mut bytes, mut reply) = (datagram.to_vec(), Vec::new());
        self.received += bytes.len();
        let handle = match self.endpoint.route(now, from, &bytes, &mut reply) {
            Routed::Connection(handle) => handle,
            Routed::Accepted { handle, connection, .. } => {
                self.connections.insert(handle, *connection);
                handle
            }
            Routed::Reply => return out.push(reply),
            Routed::Dropped => return,
        };
        if let Some(connection) = self.connections.get_mut(&handle) {
            connection.handle_datagram(now, from, &mut bytes);
        }
        self.drive(now, out);
    }

    fn drive(&mut self, now: Instant, out: &mut Vec<Vec<u8>>) {
        let mut drained = Vec::new();
        for (handle, connection) in &mut self.connections {
            connection.handle_timeout(now);
            let mut count = 0;
            loop {
                let mut wire = Vec::new();
                let Some(_) = connection.poll_transmit(now, &mut wire, 1) else { break };
                count += 1;
                assert!(count < MAX_ANSWERS, "it sends without end");
                self.sent += wire.len();
                out.push(wire);
            }
            while let Some(event) = connection.poll_event() {
                self.connected += usize::from(event == Event::Connected);
            }
            if connection.is_drained() {
                drained.push(*handle);
            }
        }
        for handle in drained {
            self.connections.remove(&handle);
            self.endpoint.remove(handle);
        }
    }
}

struct Scene {
    now: Instant,
    client: Side,
    server: Side,
    impostor: Side,
    addresses: [SocketAddr; 2],
    /// Datagrams under way, each with whether it is for the server.
    waiting: std::collections::VecDeque<(bool, Vec<u8>)>,
    seen: Vec<(bool, Vec<u8>)>,
    /// The newest ids of client and server.
    ids: [ConnectionId; 2],
}

impl Scene {
    fn new(toy: Toy) -> Self {
        let now = Clock::new().now();
        let addresses: [SocketAddr; 2] = [([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into()];
        let impostor: Arc<dyn Security> = Arc::new(toy.with_authority(2));
        let toy: Arc<dyn Security> = Arc::new(toy);
        let mut client = Side::new(None, 1, now);
        let connect = Connect::sealed(ValidConfig::default(), toy.clone(), "server");
        let (handle, connection) = client.endpoint.connect(now, addresses[1], connect);
        client.connections.insert(handle, connection);
        let mut scene = Self {
            now,
            client,
            server: Side::new(Some(toy), 2, now),
            impostor: Side::new(Some(impostor), 3, now),
            addresses,
            waiting: std::collections::VecDeque::new(),
            seen: Vec::new(),
            ids: [ConnectionId(0); 2],
        };
        scene.sleep(Duration::ZERO);
        scene
    }

    fn note(&mut self, to_server: bool, sent: Vec<Vec<u8>>) {
        for bytes in sent {
            // HELLO and HANDSHAKE name their sender.
            let id_at = if bytes.first() == Some(&0xa0) { 1 } else { 9 };
            if let Some(id) = bytes.get(id_at..).and_then(<[u8]>::first_chunk::<8>) {
                if matches!(bytes[0], 0xa0 | 0xa4) {
                    self.ids[usize::from(!to_server)] = ConnectionId(u64::from_be_bytes(*id));
                }
            }
            self.seen.push((to_server, bytes.clone()));
            self.waiting.push_back((to_server, bytes));
        }
    }

    fn arrive(&mut self, to_server: bool, bytes: &[u8]) {
        let (mut sent, from) = (Vec::new(), self.addresses[usize::from(!to_server)]);
        let side = if to_server { &mut self.server } else { &mut self.client };
        side.arrive(self.now, from, bytes, &mut sent);
        self.note(!to_server, sent);
    }

    fn sleep(&mut self, time: Duration) {
        self.now += time;
        for to_server in [true, false] {
            let mut sent = Vec::new();
            let side = if to_server { &mut self.client } else { &mut self.server };
            side.drive(self.now, &mut sent);
            self.note(to_server, sent);
        }
    }

    fn pick(&self, pick: u8) -> Option<(bool, Vec<u8>)> {
        let back = usize::from(pick) % self.seen.len().max(1);
        self.seen.iter().rev().nth(back).cloned()
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Deliver => {
                if let Some((to_server, bytes)) = self.waiting.pop_front() {
                    self.arrive(to_server, &bytes);
                }
            }
            Operation::Drop => drop(self.waiting.pop_front()),
            Operation::Replay(pick) => {
                let Some((to_server, bytes)) = self.pick(pick) else { return };
                self.arrive(to_server, &bytes);
            }
            Operation::Flip(pick, bit) => {
                let Some((to_server, mut bytes)) = self.pick(pick) else { return };
                let bit = usize::from(bit) % (bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
                self.arrive(to_server, &resealed(&bytes));
                self.arrive(to_server, &bytes);
            }
            Operation::Cut(pick, at) => {
                let Some((to_server, bytes)) = self.pick(pick) else { return };
                self.arrive(to_server, &bytes[..usize::from(at) % bytes.len()]);
            }
            Operation::Bytes(to_server, bytes) => self.arrive(to_server, &bytes),
            Operation::Answer(pick) => {
                let Some((true, bytes)) = self.pick(pick) else { return };
                let mut sent = Vec::new();
                self.impostor.arrive(self.now, self.addresses[0], &bytes, &mut sent);
                sent.iter().for_each(|bytes| self.arrive(false, bytes));
            }
            Operation::Sleep(ms) => self.sleep(Duration::from_millis(ms.into())),
            forged => self.forge(forged),
        }
    }

    fn forge(&mut self, operation: Operation) {
        let ([client, server], mut out) = (self.ids, Vec::new());
        let mut to_the_server = false;
        match operation {
            Operation::Flight { to_server, stage, message, chunk, index, data } => {
                to_the_server = to_server;
                let message_bytes = usize::from(message).clamp(1, 16_384);
                let chunk_bytes = usize::from(chunk).clamp(1, message_bytes);
                let (stage, shape) = (stage.into(), Shape { message_bytes, chunk_bytes });
                let mut clear = Vec::new();
                let flight = FlightFrame { stage, shape, index: index.into(), data: &data };
                HandshakeFrame::Flight(flight).encode(&mut clear);
                let (dcid, scid) = if to_server { (server, client) } else { (client, server) };
                HandshakeHeader { dcid, scid, attempt: 0, clear: &clear }.encode(&mut out);
            }
            Operation::Refuse(alert) => {
                let reason = match alert {
                    0 => RefuseReason::Version,
                    1 => RefuseReason::Busy,
                    alert => RefuseReason::Handshake { alert },
                };
                Refuse { dcid: client, reason, versions: Vec::new() }.encode(&mut out);
            }
            Operation::Reset(echo) => {
                Reset { unknown: server, echo: Echo::Tag(echo) }.encode(&mut out);
            }
            Operation::Challenge(attempt) => {
                let cookie = vec![7; 34];
                SealedChallenge { dcid: client, attempt, cookie }.encode(None, &mut out);
            }
            _ => return,
        }
        self.arrive(to_the_server, &out);
    }
}

/// What somebody on the path does to a handshake: nobody but the server is connected to, strangers are not sent more than
/// three bytes for each of theirs, and all is over in time.
///
/// # Panics
/// A rule is broken.
pub fn secured(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let sizes: [u16; 4] = input.arbitrary().unwrap_or_default();
    let [client_hello, server_hello, server, client] = sizes.map(|n| 60 + usize::from(n) % 4_000);
    let [retry, rejects_client]: [bool; 2] = input.arbitrary().unwrap_or_default();
    let server_hello = server_hello.min(1_200);
    let flights = Flights { client_hello, server_hello, server, client, retry, rejects_client };
    let mut scene = Scene::new(Toy::new(flights));
    for _ in 0..MAX_OPERATIONS {
        let Ok(operation) = input.arbitrary() else { break };
        scene.apply(operation);
        assert_eq!(scene.impostor.connected, 0, "the client takes who is not the server");
        let Side { connected, received, sent, .. } = scene.server;
        let is_stranger = connected == 0 && scene.client.connected == 0;
        assert!(!is_stranger || sent <= AMPLIFICATION * received, "{sent} for {received}");
        if input.is_empty() {
            break;
        }
    }
    // Nobody meddles any more: it opens or ends.
    let end = scene.now + 3 * HANDSHAKE_TIMEOUT;
    while scene.now < end {
        scene.sleep(ONE_WAY);
        for (to_server, bytes) in std::mem::take(&mut scene.waiting) {
            scene.arrive(to_server, &bytes);
        }
        scene.seen.clear();
    }
    let lives = scene.client.connections.values().any(|one| one.close_reason().is_none());
    assert!(!lives || scene.client.connected == 1, "it neither opens nor ends");
}
