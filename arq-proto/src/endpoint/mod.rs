// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which connection owns this datagram? And what is answered to those that belong to none: see [`hello`] and [`cookie`].

mod config;
mod cookie;
mod hello;

use std::{
    collections::{btree_map::Entry, BTreeMap, BTreeSet, VecDeque},
    hash::Hasher,
    net::SocketAddr,
    time::{Duration, Instant},
};

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::{
    admission::{Answers, Places, Seats},
    config::ValidConfig,
    connection::{is_same, Accepted, Connection, EndpointEvent, Origin, ProvenClient, ATTEMPTS},
    error::RefuseReason,
    session::Protection,
    stats::EndpointStats,
    units::ConnectionId,
    wire::{
        checksum::verify_checksum,
        cursor::{DecodeError, Reader},
        flight::HandshakeHeader,
        packet::{peek_connection_id, Challenge, DataHeader, Echo, PacketKind, Refuse, Reset},
        params::Params,
        protection::{echo_of, MAX_TAG_BYTES, SEALED_HEADER_BYTES},
        Version, VERSION,
    },
};
use config::DEFAULT_MAX_CONNECTIONS;
pub use config::{Connect, EndpointConfig};
use cookie::Claim;

/// A cookie is good for this long: an unlucky first packet may take many tries. The ids of closed
/// connections are remembered as long, so that a late packet cannot bring one back.
const COOKIE_LIFETIME: Duration = Duration::from_secs(60);
/// When there are more of them, the cookies of those that are forgotten are refused, with all others of their age.
const MAX_REMEMBERED_IDS: usize = 4_096;
/// Challenges in 250 ms. One costs a hash and a system call, so all of them a tenth of a core at most.
const CHALLENGES: u16 = 5_000;
/// Resets in 250 ms: one for each connection that there may have been before a restart. They are shorter than
/// what they answer, so useless for a flood.
const RESETS: u16 = DEFAULT_MAX_CONNECTIONS as u16;

/// Handshakes at once of clients that have returned a cookie.
const VALIDATED_HANDSHAKES: usize = 1_024;
/// Such handshakes that are begun in 250 ms: a signature and a key exchange each, a twentieth of a core.
const BEGUN: u16 = 50;
/// Older connections of a client that are asked when it opens another one. One that holds many lives.
const MAX_SIBLINGS: usize = 16;
/// Ids that a peer may have said before it has proved who it is.
const MAX_REMOTE_IDS: usize = 8;

/// Names a connection of an endpoint; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle(pub usize);

/// Where a datagram belongs.
#[derive(Debug)]
pub enum Routed {
    /// To this connection: pass it to [`Connection::handle_datagram`].
    Connection(ConnectionHandle),
    /// To this new connection: keep it, and pass the datagram to it.
    Accepted {
        /// Names the connection.
        handle: ConnectionHandle,
        /// The connection.
        connection: Box<Connection>,
        /// An older one from the same address with another instance, which has perhaps restarted since: call
        /// [`Connection::handle_newcomer`] with the address of this datagram, and let it transmit.
        older: Option<ConnectionHandle>,
    },
    /// To nobody; send the reply back to where it came from.
    Reply,
    /// To nobody.
    Dropped,
}

/// What the endpoint must know of a connection to find it.
#[derive(Debug)]
struct Known {
    local_cid: ConnectionId,
    /// Those of its other paths.
    path_cids: Vec<ConnectionId>,
    /// So many ids from that on are its own: each attempt at a handshake has another one.
    attempts: u64,
    /// What the peer calls itself, or those who say to be it, before it has proved that.
    remote_cids: Vec<ConnectionId>,
    /// Where it began.
    remote: SocketAddr,
    /// The peer has opened it.
    is_accepted: bool,
    /// A digest of the host and the credentials that the peer has proved.
    client: Option<u128>,
}

impl Known {
    fn local_cids(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        let first = self.local_cid.0;
        let attempts = (0..self.attempts).map(move |attempt| ConnectionId(first ^ attempt));
        attempts.chain(self.path_cids.iter().copied())
    }
}

/// Finds the connection of each datagram, and makes new ones.
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    rng: ChaCha8Rng,
    cookie_key: [u8; 16],
    instance: u64,
    epoch: Instant,
    /// The newest time that the endpoint was told.
    now: Instant,
    next_handle: usize,
    known: BTreeMap<ConnectionHandle, Known>,
    by_local_cid: BTreeMap<ConnectionId, ConnectionHandle>,
    by_remote_cid: BTreeMap<ConnectionId, ConnectionHandle>,
    /// Accepted connections by the peer's address at that time, with the peer's instance.
    by_peer: BTreeMap<SocketAddr, (ConnectionHandle, u64)>,
    /// Those that a HELLO has made, which is repeated.
    by_hello: BTreeMap<(SocketAddr, ConnectionId), ConnectionHandle>,
    /// Accepted ones by host and credentials of the peer.
    by_client: BTreeSet<(u128, ConnectionHandle)>,
    closed: VecDeque<(Instant, ConnectionId)>,
    /// Cookies issued before this time are refused.
    cookies_from_us: u64,
    challenges: Answers,
    resets: Answers,
    places: Places,
    /// Handshakes of clients that may be anywhere, and of those that have returned a cookie.
    unvalidated: Seats,
    validated: Seats,
    /// Handshakes of the former that were begun.
    begun: Answers,
    stats: EndpointStats,
}

impl Endpoint {
    /// An endpoint whose randomness descends from `seed`.
    #[must_use]
    pub fn new(config: EndpointConfig, seed: [u8; 32], now: Instant) -> Self {
        let mut rng = ChaCha8Rng::from_seed(seed);
        let mut cookie_key = [0; 16];
        rng.fill_bytes(&mut cookie_key);
        let mut hasher = SipHasher24::new_with_key(&cookie_key);
        hasher.write(b"sources");
        let slot_key = hasher.finish128().as_bytes();
        Self {
            cookie_key,
            instance: rng.next_u64(),
            rng,
            epoch: now,
            now,
            next_handle: 0,
            known: BTreeMap::new(),
            by_local_cid: BTreeMap::new(),
            by_remote_cid: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            by_hello: BTreeMap::new(),
            by_client: BTreeSet::new(),
            closed: VecDeque::new(),
            cookies_from_us: 0,
            challenges: Answers::new(CHALLENGES, slot_key, now),
            resets: Answers::new(RESETS, slot_key, now),
            places: Places::default(),
            unvalidated: Seats::new(config.max_unvalidated_handshakes),
            validated: Seats::new(VALIDATED_HANDSHAKES),
            begun: Answers::new(BEGUN, slot_key, now),
            config,
            stats: EndpointStats::default(),
        }
    }

    /// Changes how new connections are accepted; `None` accepts none. Existing ones live on.
    pub fn set_accept(&mut self, accept: Option<ValidConfig>) {
        self.config.accept = accept;
    }

    /// What was done with datagrams that belong to no connection.
    #[must_use]
    pub fn stats(&self) -> EndpointStats {
        self.stats
    }

    /// Opens a connection to `remote`.
    pub fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        connect: impl Into<Connect>,
    ) -> (ConnectionHandle, Connection) {
        let Connect { config, protection, server_name, socket, host } = connect.into();
        self.now = self.now.max(now);
        let local_cid = ConnectionId(self.rng.next_u64());
        let attempts = match &protection {
            Protection::Clear => 1,
            Protection::Sealed(_) => ATTEMPTS,
        };
        let handle = self.insert(Known {
            local_cid,
            path_cids: Vec::new(),
            attempts,
            remote_cids: Vec::new(),
            remote,
            is_accepted: false,
            client: None,
        });
        let origin = self.origin(config, remote, local_cid);
        let mut connection = match protection {
            Protection::Clear => Connection::connect(now, origin, self.instance),
            Protection::Sealed(security) => {
                Connection::connect_sealed(now, origin, security, (server_name, host))
            }
        };
        connection.begin_through(socket);
        (handle, connection)
    }

    /// Takes what [`Connection::poll_endpoint_event`] gave. Returns older connections of the same host with the same
    /// credentials, which this one has perhaps come to replace, 16 at most: call [`Connection::handle_sibling`] of each with
    /// the IP address of this one's peer, and let it transmit.
    pub fn handle_event(
        &mut self,
        handle: ConnectionHandle,
        event: EndpointEvent,
    ) -> Vec<ConnectionHandle> {
        let Some(known) = self.known.get_mut(&handle) else { return Vec::new() };
        for id in event.local {
            // One that is taken stays with whom it belongs to: that path will not open.
            if let Entry::Vacant(place) = self.by_local_cid.entry(id) {
                place.insert(handle);
                known.path_cids.push(id);
            }
        }
        for id in event.remote {
            known.remote_cids.push(id);
            self.by_remote_cid.entry(id).or_insert(handle);
        }
        event.client.map(|client| self.siblings(handle, &client)).unwrap_or_default()
    }

    /// The newest others of the same client's: a host that starts again and again leaves those behind.
    fn siblings(
        &mut self,
        handle: ConnectionHandle,
        client: &ProvenClient,
    ) -> Vec<ConnectionHandle> {
        let mut hasher = SipHasher24::new_with_key(&self.cookie_key);
        hasher.write(b"client");
        hasher.write(&client.host.to_be_bytes());
        hasher.write(&client.credential);
        let digest = hasher.finish128().as_u128();
        if let Some(known) = self.known.get_mut(&handle) {
            known.client = Some(digest);
        }
        let of_client = self.by_client.range((digest, ConnectionHandle(0))..(digest, handle));
        let siblings = of_client.rev().take(MAX_SIBLINGS).map(|(_, handle)| *handle).collect();
        self.by_client.insert((digest, handle));
        siblings
    }

    /// Forgets a connection that has drained.
    pub fn remove(&mut self, handle: ConnectionHandle) {
        let Some(known) = self.known.remove(&handle) else { return };
        for local_cid in known.local_cids() {
            self.by_local_cid.remove(&local_cid);
        }
        for remote_cid in &known.remote_cids {
            if self.by_remote_cid.get(remote_cid) == Some(&handle) {
                self.by_remote_cid.remove(remote_cid);
            }
            if self.by_hello.get(&(known.remote, *remote_cid)) == Some(&handle) {
                self.by_hello.remove(&(known.remote, *remote_cid));
            }
        }
        // No cookie brings back what this side opened.
        if !known.is_accepted {
            return;
        }
        self.places.give_back(known.remote.ip());
        if let Some(client) = known.client {
            self.by_client.remove(&(client, handle));
        }
        if self.by_peer.get(&known.remote).is_some_and(|&(current, _)| current == handle) {
            self.by_peer.remove(&known.remote);
        }
        if matches!(self.config.protection, Protection::Sealed(_)) {
            // No cookie alone makes a connection.
            return;
        }
        self.forget_closed(self.now);
        if self.closed.len() >= MAX_REMEMBERED_IDS {
            if let Some((ended_at, _)) = self.closed.pop_front() {
                // The cookie that it began with is older than its end.
                self.cookies_from_us = self.micros(ended_at).saturating_add(1);
            }
        }
        self.closed.push_back((self.now, known.local_cid));
    }

    /// Finds out where a datagram belongs. A [`Routed::Reply`] is written to `reply`.
    pub fn route(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        reply: &mut Vec<u8>,
    ) -> Routed {
        reply.clear();
        self.now = self.now.max(now);
        let routed = self.try_route(now, from, datagram, reply).unwrap_or(Routed::Dropped);
        if matches!(routed, Routed::Dropped) {
            self.stats.datagrams_dropped += 1;
        }
        routed
    }

    fn try_route(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<Routed, DecodeError> {
        let first = *datagram.first().ok_or(DecodeError::Truncated("packet.kind"))?;
        let id = peek_connection_id(datagram).ok_or(DecodeError::Truncated("dcid"))?;
        let owner = self.by_local_cid.get(&id).copied();
        match (PacketKind::of(first)?, owner) {
            (PacketKind::Hello, _) => self.on_hello(now, from, datagram, reply),
            (PacketKind::Data { .. } | PacketKind::Sealed | PacketKind::Refuse, Some(handle)) => {
                Ok(Routed::Connection(handle))
            }
            (PacketKind::Challenge, Some(handle)) => {
                if let Ok(Challenge { version: VERSION, scid, .. }) = Challenge::decode(datagram) {
                    self.learn_remote_cid(handle, from, scid, 1);
                }
                Ok(Routed::Connection(handle))
            }
            (PacketKind::Handshake, Some(handle)) => {
                let (header, _) = HandshakeHeader::decode(datagram)?;
                self.learn_remote_cid(handle, from, header.scid, MAX_REMOTE_IDS);
                Ok(Routed::Connection(handle))
            }
            (PacketKind::Reset, _) => {
                let reset = Reset::decode(datagram)?;
                let owner = self.by_remote_cid.get(&reset.unknown);
                Ok(owner.map_or(Routed::Dropped, |&handle| Routed::Connection(handle)))
            }
            (PacketKind::Data { .. }, None) => self.on_unknown(now, from, datagram, reply),
            (PacketKind::Sealed, None) => {
                if datagram.len() <= SEALED_HEADER_BYTES + MAX_TAG_BYTES {
                    return Ok(Routed::Dropped);
                }
                let echo = Echo::Tag(echo_of(datagram).unwrap_or_default());
                Ok(self.reset(now, from, Reset { unknown: id, echo }, reply))
            }
            (PacketKind::Challenge | PacketKind::Refuse | PacketKind::Handshake, None) => {
                Ok(Routed::Dropped)
            }
        }
    }

    /// The connection that sent the datagram which `quote` is the begin of. A quote too short to tell is of the only
    /// connection, if there is one.
    #[must_use]
    pub fn route_report(&self, quote: &[u8]) -> Option<ConnectionHandle> {
        let Some(id) = peek_connection_id(quote) else {
            return self.known.keys().next().copied().filter(|_| self.known.len() == 1);
        };
        let by_id = match PacketKind::of(*quote.first()?).ok()? {
            PacketKind::Hello => &self.by_local_cid,
            PacketKind::Data { .. } | PacketKind::Sealed => &self.by_remote_cid,
            PacketKind::Challenge
            | PacketKind::Refuse
            | PacketKind::Reset
            | PacketKind::Handshake => return None,
        };
        by_id.get(&id).copied()
    }

    fn refuse(&mut self, dcid: ConnectionId, reason: RefuseReason, reply: &mut Vec<u8>) -> Routed {
        let versions = vec![Version::from(&self.config.protection).number()];
        Refuse { dcid, reason, versions }.encode_with(self.security(), reply);
        self.stats.refused += 1;
        Routed::Reply
    }

    /// A data packet for nobody: a client that returns its cookie, or one that has not noticed that
    /// this endpoint restarted.
    fn on_unknown(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<Routed, DecodeError> {
        let packet = verify_checksum(datagram)?;
        let header = DataHeader::decode(&mut Reader::new(packet))?;
        let reset = Reset { unknown: header.dcid, echo: Echo::Number(header.number) };
        let accepts =
            self.config.accept.is_some() && matches!(self.config.protection, Protection::Clear);
        let (Some(cookie), true) = (header.cookie.as_ref(), accepts) else {
            return Ok(self.reset(now, from, reset, reply));
        };
        let Some((claim, age)) = self.verify(now, from, header.dcid, cookie) else {
            return Ok(self.reset(now, from, reset, reply));
        };
        // Not before: of a flood of strays none shall cost a search.
        self.forget_closed(now);
        if self.closed.iter().any(|&(_, id)| id == header.dcid) {
            return Ok(self.reset(now, from, reset, reply));
        }
        let free = self.config.max_connections.saturating_sub(self.known.len());
        if !self.places.has_room(from.ip(), free, self.config.max_connections_per_source) {
            return Ok(self.refuse(cookie.scid, RefuseReason::Busy, reply));
        }
        let params = Params::decode(cookie.params)?;
        let accepted = Accepted {
            remote_cid: cookie.scid,
            params,
            hello_bytes: claim.hello_bytes,
            age,
            is_first: header.number == 0,
        };
        // Not before: of a flood of strays none shall cost a copy.
        let config = self.config.accept.clone().unwrap_or_default();
        Ok(self.accept(now, &claim, config, accepted))
    }

    fn accept(
        &mut self,
        now: Instant,
        claim: &Claim,
        config: ValidConfig,
        accepted: Accepted,
    ) -> Routed {
        let Claim { from, server: local_cid, instance, .. } = *claim;
        let handle = self.insert(Known {
            local_cid,
            path_cids: Vec::new(),
            attempts: 1,
            remote_cids: vec![accepted.remote_cid],
            remote: from,
            is_accepted: true,
            client: None,
        });
        self.places.take(from.ip());
        let previous = self.by_peer.insert(from, (handle, instance));
        let older = previous.filter(|&(_, before)| before != instance).map(|(old, _)| old);
        let origin = self.origin(config, from, local_cid);
        let connection = Box::new(Connection::accept(now, origin, accepted));
        self.stats.accepted += 1;
        Routed::Accepted { handle, connection, older }
    }

    fn origin(
        &mut self,
        config: ValidConfig,
        remote: SocketAddr,
        local_cid: ConnectionId,
    ) -> Origin {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        Origin { config, remote, local_cid, seed }
    }

    fn insert(&mut self, known: Known) -> ConnectionHandle {
        let handle = ConnectionHandle(self.next_handle);
        self.next_handle += 1;
        for local_cid in known.local_cids() {
            self.by_local_cid.insert(local_cid, handle);
        }
        for remote_cid in &known.remote_cids {
            self.by_remote_cid.entry(*remote_cid).or_insert(handle);
        }
        self.known.insert(handle, known);
        handle
    }

    /// The first answers of who was asked count.
    fn learn_remote_cid(
        &mut self,
        handle: ConnectionHandle,
        from: SocketAddr,
        id: ConnectionId,
        most: usize,
    ) {
        let Some(known) = self.known.get_mut(&handle) else { return };
        let is_answer = !known.is_accepted && is_same(from, known.remote);
        if is_answer && known.remote_cids.len() < most && !known.remote_cids.contains(&id) {
            known.remote_cids.push(id);
            self.by_remote_cid.entry(id).or_insert(handle);
        }
    }

    fn reset(
        &mut self,
        now: Instant,
        from: SocketAddr,
        reset: Reset,
        reply: &mut Vec<u8>,
    ) -> Routed {
        if !self.resets.take(now, from.ip()) {
            return Routed::Dropped;
        }
        reset.encode(reply);
        self.stats.resets_sent += 1;
        Routed::Reply
    }

    fn forget_closed(&mut self, now: Instant) {
        while self.closed.front().is_some_and(|&(at, _)| now > at + COOKIE_LIFETIME) {
            self.closed.pop_front();
        }
    }

    fn micros(&self, now: Instant) -> u64 {
        let micros = now.saturating_duration_since(self.epoch).as_micros();
        u64::try_from(micros).unwrap_or(u64::MAX)
    }
}
