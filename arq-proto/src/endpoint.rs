// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Which connection owns this datagram? And the part of the handshake that keeps no state.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::Hasher,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::{
    admission::{Answers, Places},
    config::Config,
    connection::{is_same, Accepted, Connection, Origin},
    error::{ConnectionError, RefuseReason},
    session::{Protection, Security, SessionError},
    stats::EndpointStats,
    units::ConnectionId,
    wire::{
        cursor::{DecodeError, Reader},
        packet::{
            peek_connection_id, Challenge, Cookie, DataHeader, Hello, PacketKind, Refuse, Reset,
        },
        params::Params,
        protection::verify_checksum,
        VERSION,
    },
};

/// A cookie is good for this long: an unlucky first packet may take many tries. The ids of closed
/// connections are remembered as long, so that a late packet cannot bring one back.
const COOKIE_LIFETIME: Duration = Duration::from_secs(60);
/// When there are more of them, the cookies of those that are forgotten are refused, with all others of their age.
const MAX_REMEMBERED_IDS: usize = 4_096;
const DEFAULT_MAX_CONNECTIONS: usize = 4_096;
/// Challenges in 250 ms. One costs a hash and a system call, so all of them a tenth of a core at most.
const CHALLENGES: u16 = 5_000;
/// Resets in 250 ms: one for each connection that there may have been before a restart. They are shorter than
/// what they answer, so useless for a flood.
const RESETS: u16 = DEFAULT_MAX_CONNECTIONS as u16;

/// How an endpoint behaves.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// The configuration of accepted connections; `None` accepts none.
    pub accept: Option<Config>,
    /// Connections at once; further ones are refused. A source, an IPv4 /24 or an IPv6 /48, holds at most 16, or three
    /// for each that is free.
    pub max_connections: usize,
    /// What accepted connections are protected by. Who offers something else is refused.
    pub protection: Protection,
}

impl EndpointConfig {
    /// Accepts connections with this configuration, or none.
    #[must_use]
    pub fn new(accept: impl Into<Option<Config>>) -> Self {
        Self {
            accept: accept.into(),
            max_connections: DEFAULT_MAX_CONNECTIONS,
            protection: Protection::Clear,
        }
    }

    /// Sets [`Self::max_connections`].
    #[must_use]
    pub fn with_max_connections(self, max_connections: usize) -> Self {
        Self { max_connections, ..self }
    }

    /// Sets [`Self::protection`].
    #[must_use]
    pub fn with_protection(self, protection: Protection) -> Self {
        Self { protection, ..self }
    }
}

/// How a connection is opened.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Connect {
    /// Its configuration.
    pub config: Config,
    /// What it is protected by. A peer that takes something else is an error.
    pub protection: Protection,
    /// Whom the peer must prove to be where packets are sealed: the name or IP address in its certificate.
    pub server_name: String,
}

impl Connect {
    /// Seals packets with the keys of a handshake with `server_name`.
    #[must_use]
    pub fn sealed(
        config: Config,
        security: Arc<dyn Security>,
        server_name: impl Into<String>,
    ) -> Self {
        Self { config, protection: Protection::Sealed(security), server_name: server_name.into() }
    }
}

impl From<Config> for Connect {
    /// In the clear.
    fn from(config: Config) -> Self {
        Self { config, ..Self::default() }
    }
}

impl Default for EndpointConfig {
    /// Accepts none, and has 4,096 connections at most.
    fn default() -> Self {
        Self::new(None)
    }
}

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
    remote_cid: Option<ConnectionId>,
    /// Where it began.
    remote: SocketAddr,
    /// The peer has opened it.
    is_accepted: bool,
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
    closed: VecDeque<(Instant, ConnectionId)>,
    /// Cookies issued before this time are refused.
    cookies_from_us: u64,
    challenges: Answers,
    resets: Answers,
    places: Places,
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
            config,
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
            closed: VecDeque::new(),
            cookies_from_us: 0,
            challenges: Answers::new(CHALLENGES, slot_key, now),
            resets: Answers::new(RESETS, slot_key, now),
            places: Places::default(),
            stats: EndpointStats::default(),
        }
    }

    /// Changes how new connections are accepted; `None` accepts none. Existing ones live on.
    pub fn set_accept(&mut self, accept: Option<Config>) {
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
        let Connect { config, protection, .. } = connect.into();
        self.now = self.now.max(now);
        let local_cid = ConnectionId(self.rng.next_u64());
        let handle = self.insert(Known { local_cid, remote_cid: None, remote, is_accepted: false });
        let origin = self.origin(config, remote, local_cid);
        let mut connection = Connection::connect(now, origin, self.instance);
        if matches!(protection, Protection::Sealed(_)) {
            // Never in clear instead.
            let error = SessionError::new(None, "packets cannot be sealed yet");
            connection.abandon(now, ConnectionError::HandshakeFailed(error));
        }
        (handle, connection)
    }

    /// Forgets a connection that has drained.
    pub fn remove(&mut self, handle: ConnectionHandle) {
        let Some(known) = self.known.remove(&handle) else { return };
        self.by_local_cid.remove(&known.local_cid);
        if let Some(remote_cid) = known.remote_cid {
            if self.by_remote_cid.get(&remote_cid) == Some(&handle) {
                self.by_remote_cid.remove(&remote_cid);
            }
        }
        // No cookie brings back what this side opened.
        if !known.is_accepted {
            return;
        }
        self.places.give_back(known.remote.ip());
        if self.by_peer.get(&known.remote).is_some_and(|&(current, _)| current == handle) {
            self.by_peer.remove(&known.remote);
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
            (PacketKind::Hello, _) => self.on_hello(now, from, Hello::decode(datagram)?, reply),
            (PacketKind::Data { .. } | PacketKind::Refuse, Some(handle)) => {
                Ok(Routed::Connection(handle))
            }
            (PacketKind::Challenge, Some(handle)) => {
                let challenge = Challenge::decode(datagram)?;
                if challenge.version == VERSION {
                    self.learn_remote_cid(handle, from, challenge.scid);
                }
                Ok(Routed::Connection(handle))
            }
            (PacketKind::Reset, _) => {
                let reset = Reset::decode(datagram)?;
                let owner = self.by_remote_cid.get(&reset.unknown);
                Ok(owner.map_or(Routed::Dropped, |&handle| Routed::Connection(handle)))
            }
            (PacketKind::Data { .. }, None) => self.on_unknown(now, from, datagram, reply),
            (PacketKind::Challenge | PacketKind::Refuse, None) => Ok(Routed::Dropped),
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
            PacketKind::Data { .. } => &self.by_remote_cid,
            PacketKind::Challenge | PacketKind::Refuse | PacketKind::Reset => return None,
        };
        by_id.get(&id).copied()
    }

    /// Answers a HELLO from what it says and a key: nothing is kept.
    fn on_hello(
        &mut self,
        now: Instant,
        from: SocketAddr,
        hello: Hello,
        reply: &mut Vec<u8>,
    ) -> Result<Routed, DecodeError> {
        let Some(config) = &self.config.accept else { return Ok(Routed::Dropped) };
        if matches!(self.config.protection, Protection::Sealed(_)) {
            return Ok(Routed::Dropped);
        }
        if !self.challenges.take(now, from.ip()) {
            return Ok(Routed::Dropped);
        }
        if !hello.versions.contains(&VERSION) {
            return Ok(self.refuse(hello.scid, RefuseReason::Version, reply));
        }
        let params = Connection::params(config);
        let scid = ConnectionId(self.rng.next_u64());
        let claim = Claim {
            from,
            client: hello.scid,
            server: scid,
            instance: hello.instance,
            hello_bytes: hello.bytes,
        };
        Challenge {
            dcid: hello.scid,
            scid,
            version: VERSION,
            attempt: hello.attempt,
            cookie: self.issue(now, &claim),
            params,
        }
        .encode(reply);
        if reply.len() > hello.bytes.into() {
            reply.clear();
            return Ok(Routed::Dropped);
        }
        self.stats.challenges_sent += 1;
        Ok(Routed::Reply)
    }

    fn refuse(&mut self, dcid: ConnectionId, reason: RefuseReason, reply: &mut Vec<u8>) -> Routed {
        Refuse { dcid, reason }.encode(reply);
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
        let (Some(cookie), true) = (header.cookie.as_ref(), self.config.accept.is_some()) else {
            return Ok(self.reset(now, from, &header, reply));
        };
        let Some((claim, age)) = self.verify(now, from, header.dcid, cookie) else {
            return Ok(self.reset(now, from, &header, reply));
        };
        // Not before: of a flood of strays none shall cost a search.
        self.forget_closed(now);
        if self.closed.iter().any(|&(_, id)| id == header.dcid) {
            return Ok(self.reset(now, from, &header, reply));
        }
        let free = self.config.max_connections.saturating_sub(self.known.len());
        if !self.places.has_room(from.ip(), free) {
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
        config: Config,
        accepted: Accepted,
    ) -> Routed {
        let Claim { from, server: local_cid, instance, .. } = *claim;
        let remote_cid = Some(accepted.remote_cid);
        let known = Known { local_cid, remote_cid, remote: from, is_accepted: true };
        let handle = self.insert(known);
        self.places.take(from.ip());
        let previous = self.by_peer.insert(from, (handle, instance));
        let older = previous.filter(|&(_, before)| before != instance).map(|(old, _)| old);
        let origin = self.origin(config, from, local_cid);
        let connection = Box::new(Connection::accept(now, origin, accepted));
        self.stats.accepted += 1;
        Routed::Accepted { handle, connection, older }
    }

    fn origin(&mut self, config: Config, remote: SocketAddr, local_cid: ConnectionId) -> Origin {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        Origin { config, remote, local_cid, seed }
    }

    fn insert(&mut self, known: Known) -> ConnectionHandle {
        let handle = ConnectionHandle(self.next_handle);
        self.next_handle += 1;
        self.by_local_cid.insert(known.local_cid, handle);
        if let Some(remote_cid) = known.remote_cid {
            self.by_remote_cid.entry(remote_cid).or_insert(handle);
        }
        self.known.insert(handle, known);
        handle
    }

    /// The first challenge of who was asked counts, as for the connection.
    fn learn_remote_cid(&mut self, handle: ConnectionHandle, from: SocketAddr, id: ConnectionId) {
        let Some(known) = self.known.get_mut(&handle) else { return };
        if known.remote_cid.is_none() && is_same(from, known.remote) {
            known.remote_cid = Some(id);
            self.by_remote_cid.entry(id).or_insert(handle);
        }
    }

    fn reset(
        &mut self,
        now: Instant,
        from: SocketAddr,
        header: &DataHeader<'_>,
        reply: &mut Vec<u8>,
    ) -> Routed {
        if !self.resets.take(now, from.ip()) {
            return Routed::Dropped;
        }
        Reset { unknown: header.dcid, number: header.number }.encode(reply);
        self.stats.resets_sent += 1;
        Routed::Reply
    }

    fn forget_closed(&mut self, now: Instant) {
        while self.closed.front().is_some_and(|&(at, _)| now > at + COOKIE_LIFETIME) {
            self.closed.pop_front();
        }
    }

    fn issue(&self, now: Instant, claim: &Claim) -> Vec<u8> {
        let issued_us = self.micros(now);
        let mut cookie = Vec::with_capacity(34);
        cookie.extend_from_slice(&issued_us.to_be_bytes());
        cookie.extend_from_slice(&claim.instance.to_be_bytes());
        cookie.extend_from_slice(&claim.hello_bytes.to_be_bytes());
        cookie.extend_from_slice(&self.authenticate(issued_us, claim).to_be_bytes());
        cookie
    }

    /// What the cookie vouches for and its age, if it is ours, fresh and for this client.
    fn verify(
        &self,
        now: Instant,
        from: SocketAddr,
        server: ConnectionId,
        cookie: &Cookie<'_>,
    ) -> Option<(Claim, Duration)> {
        let mut reader = Reader::new(cookie.cookie);
        let issued_us = reader.u64("cookie.time").ok()?;
        let instance = reader.u64("cookie.instance").ok()?;
        let hello_bytes = reader.u16("cookie.hello").ok()?;
        let mac = reader.bytes(16, "cookie.mac").ok()?;
        let claim = Claim { from, client: cookie.scid, server, instance, hello_bytes };
        let expected = self.authenticate(issued_us, &claim).to_be_bytes();
        // In constant time: no byte of the code is confirmed to one who guesses.
        let differs = mac.iter().zip(expected).fold(0, |diff, (a, b)| diff | (a ^ b));
        let age = Duration::from_micros(self.micros(now).checked_sub(issued_us)?);
        let valid = differs == 0
            && reader.is_empty()
            && age <= COOKIE_LIFETIME
            && issued_us >= self.cookies_from_us
            && cookie.version == VERSION;
        valid.then_some((claim, age))
    }

    fn authenticate(&self, issued_us: u64, claim: &Claim) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.cookie_key);
        let ip = match claim.from.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        hasher.write(&ip.octets());
        hasher.write(&claim.from.port().to_be_bytes());
        for value in [issued_us, claim.client.0, claim.server.0, claim.instance] {
            hasher.write(&value.to_be_bytes());
        }
        hasher.write(&claim.hello_bytes.to_be_bytes());
        hasher.finish128().as_u128()
    }

    fn micros(&self, now: Instant) -> u64 {
        let micros = now.saturating_duration_since(self.epoch).as_micros();
        u64::try_from(micros).unwrap_or(u64::MAX)
    }
}

/// What a cookie vouches for.
struct Claim {
    from: SocketAddr,
    client: ConnectionId,
    server: ConnectionId,
    instance: u64,
    /// Length of the HELLO: the path has carried as much.
    hello_bytes: u16,
}
