// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Somebody says HELLO: is that answered, from nothing but what it says, or by a handshake that takes memory?

use std::{net::SocketAddr, time::Instant};

use rand_core::RngCore;

use super::{cookie::Claim, Endpoint, Known, Routed};
use crate::{
    connection::{Connection, Offer},
    error::RefuseReason,
    session::{Protection, Security},
    units::ConnectionId,
    wire::{
        checksum::has_knocked,
        cursor::{DecodeError, Reader},
        flight::{HandshakeFrame, SealedChallenge},
        packet::{Challenge, Cookie, Hello},
        Version, VERSION,
    },
};

/// What a cookie names where the server has no id yet.
const NO_SERVER: ConnectionId = ConnectionId(0);

impl Endpoint {
    pub(super) fn on_hello(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<Routed, DecodeError> {
        let (hello, frames) = Hello::decode_with(datagram)?;
        if let Protection::Sealed(security) = &self.config.protection {
            if !has_knocked(datagram, security.as_ref()) {
                return Ok(Routed::Dropped);
            }
        }
        if let Some(&handle) = self.by_hello.get(&(from, hello.scid)) {
            return Ok(Routed::Connection(handle));
        }
        if self.config.accept.is_none() {
            return Ok(Routed::Dropped);
        }
        if !self.challenges.take(now, from.ip()) {
            return Ok(Routed::Dropped);
        }
        let version = Version::from(&self.config.protection);
        if !hello.versions.contains(&version.number()) {
            self.note_mismatch(from, &hello);
            return Ok(self.refuse(hello.scid, RefuseReason::Version, reply));
        }
        match version {
            Version::Clear => Ok(self.challenge(now, from, &hello, reply)),
            Version::Sealed => self.on_sealed_hello(now, from, &hello, frames, reply),
        }
    }

    /// The operator of the side that is asked may be the one who forgot to configure something.
    fn note_mismatch(&mut self, from: SocketAddr, hello: &Hello) {
        let offers = |version: Version| hello.versions.contains(&version.number());
        let what = match self.config.protection {
            Protection::Clear if offers(Version::Sealed) => "a peer only takes encrypted links",
            Protection::Sealed(_) if offers(Version::Clear) => "a peer offers no encryption",
            _ => "a peer speaks no version of ours",
        };
        if self.stats.mismatched == 0 {
            tracing::warn!(%from, "{what}: it is refused, as all like it");
        } else {
            tracing::debug!(%from, "{what}");
        }
        self.stats.mismatched += 1;
    }

    /// Makes state of a HELLO as long as there is room for clients that nobody knows; then of those that return a cookie.
    fn on_sealed_hello(
        &mut self,
        now: Instant,
        from: SocketAddr,
        hello: &Hello,
        mut frames: Reader<'_>,
        reply: &mut Vec<u8>,
    ) -> Result<Routed, DecodeError> {
        let (mut cookie, mut has_flight) = (None, false);
        while let Some(frame) = HandshakeFrame::decode(&mut frames)? {
            match frame {
                HandshakeFrame::Cookie(bytes) => cookie = Some(bytes),
                HandshakeFrame::Flight(_) => has_flight = true,
                HandshakeFrame::Host(_)
                | HandshakeFrame::LocalAddress(_)
                | HandshakeFrame::Close { .. } => {}
            }
        }
        if !has_flight {
            return Ok(Routed::Dropped);
        }
        let validated = cookie.is_some_and(|cookie| {
            let (scid, version) = (hello.scid, VERSION);
            let cookie = Cookie { scid, version, cookie, params: &[] };
            self.verify(now, from, NO_SERVER, &cookie).is_some()
        });
        let free = self.config.max_connections.saturating_sub(self.known.len());
        if !self.places.has_room(from.ip(), free, self.config.max_connections_per_source) {
            return Ok(self.refuse(hello.scid, RefuseReason::Busy, reply));
        }
        let seat = match validated {
            true => self.validated.take(from.ip()),
            false => self.unvalidated.take(from.ip()).filter(|_| self.begun.take(now, from.ip())),
        };
        match seat {
            Some(seat) => {
                let offer = Offer { client: hello.scid, hello_bytes: hello.bytes, validated, seat };
                Ok(self.accept_sealed(now, from, offer))
            }
            None if validated => Ok(self.refuse(hello.scid, RefuseReason::Busy, reply)),
            None => {
                let claim = Claim {
                    from,
                    client: hello.scid,
                    server: NO_SERVER,
                    instance: 0,
                    hello_bytes: hello.bytes,
                };
                let (dcid, cookie) = (hello.scid, self.issue(now, &claim));
                let attempt = hello.attempt;
                SealedChallenge { dcid, attempt, cookie }.encode(self.security(), reply);
                self.stats.challenges_sent += 1;
                Ok(Routed::Reply)
            }
        }
    }

    fn accept_sealed(&mut self, now: Instant, from: SocketAddr, offer: Offer) -> Routed {
        let Protection::Sealed(security) = self.config.protection.clone() else {
            return Routed::Dropped;
        };
        let config = self.config.accept.clone().unwrap_or_default();
        let (local_cid, client) = (ConnectionId(self.rng.next_u64()), offer.client);
        let handle = self.insert(Known {
            local_cid,
            path_cids: Vec::new(),
            attempts: 1,
            remote_cids: vec![client],
            remote: from,
            is_accepted: true,
            client: None,
        });
        // Which instance a newcomer is of nobody tells: the one that has been there longest is asked whether it lives. False
        // newcomers do not take its place.
        let ids = (from, ConnectionId(0))..=(from, ConnectionId(u64::MAX));
        let older = self.by_hello.range(ids).map(|(_, handle)| *handle).min();
        self.by_hello.insert((from, client), handle);
        self.places.take(from.ip());
        let origin = self.origin(config, from, local_cid);
        let connection = Box::new(Connection::accept_sealed(now, origin, security, offer));
        self.stats.accepted += 1;
        Routed::Accepted { handle, connection, older }
    }

    pub(super) fn security(&self) -> Option<&dyn Security> {
        match &self.config.protection {
            Protection::Clear => None,
            Protection::Sealed(security) => Some(security.as_ref()),
        }
    }

    /// Answers a HELLO from what it says and a key: nothing is kept.
    fn challenge(
        &mut self,
        now: Instant,
        from: SocketAddr,
        hello: &Hello,
        reply: &mut Vec<u8>,
    ) -> Routed {
        let Some(config) = &self.config.accept else { return Routed::Dropped };
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
            return Routed::Dropped;
        }
        self.stats.challenges_sent += 1;
        Routed::Reply
    }
}
