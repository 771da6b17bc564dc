// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! From nothing to an association, in one round trip (`docs/protocol.md` §2).
//!
//! In the clear the server keeps no state before the client has shown that it receives at its address: see [`clear`]. With
//! sealed packets both sides keep a [`Handshake`] until its session has come to keys and the peer has used them.

mod clear;
mod doubt;
mod flights;
mod sealed;
mod sealed_client;
mod sealed_server;

use std::time::Instant;

pub(crate) use clear::Accepted;
pub(super) use clear::{CookieEcho, Hello};
pub(crate) use sealed_client::ATTEMPTS;
pub(crate) use sealed_server::Offer;

use super::{
    paths::ProvenClient, receive::Arrived, transmit::Transmit, unreachable::is_same, Connection,
    State,
};
use crate::{
    event::Event,
    session::SessionError,
    units::ConnectionId,
    wire::{
        cursor::DecodeError,
        flight::Terms,
        packet::peek_connection_id,
        protection::{PacketProtection, Sealed},
        Version,
    },
};

/// A cryptographic handshake, of either side.
pub(super) type Handshake = sealed::Handshake<Side>;

/// What each side knows beside what both do.
#[derive(Debug)]
pub(super) enum Side {
    Client(sealed_client::Asking),
    Server(sealed_server::Answering),
}

/// What the peer says does not fit what it said before (RFC 8446 §6.2).
const ILLEGAL_PARAMETER: u8 = 47;

impl Connection {
    fn expect_keys(&mut self, handshake: Handshake) {
        self.handshake = Some(Box::new(handshake));
        self.set_protection(PacketProtection::keyless());
    }

    /// A HANDSHAKE packet.
    pub(super) fn on_handshake_packet(
        &mut self,
        now: Instant,
        arrived: Arrived,
        datagram: &mut [u8],
    ) -> Result<(), DecodeError> {
        let is_for_us = peek_connection_id(datagram) == Some(self.path.local_cid);
        if !is_for_us || !is_same(arrived.from, self.path.remote) {
            return Err(DecodeError::Invalid("handshake.dcid"));
        }
        if self.dialled {
            return self.on_answer(now, arrived, datagram);
        }
        if self.handshake.is_some() {
            return self.on_client_flight(now, arrived, datagram);
        }
        // A client repeats its flight until it has a sign of this side.
        self.path.ping_due |= self.counters.packets_received == 0 && !self.is_closed();
        Ok(())
    }

    pub(super) fn on_handshake_timer(&mut self, now: Instant) {
        match self.state {
            State::Hello(_) => self.on_hello_timer(now),
            State::Accepting => self.on_server_timer(now),
            _ => self.repeat_flight(now),
        }
    }

    /// A datagram of the handshake, if one is due.
    pub(super) fn transmit_handshake(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        self.handshake.as_ref()?;
        if self.dialled {
            self.transmit_client_flight(out)
        } else {
            self.transmit_answer(out)
        }
    }

    /// The session is over: takes its keys and what it says of the peer, which must fit what came in the clear.
    fn take_keys(
        &mut self,
        now: Instant,
        (client, server): (Option<ConnectionId>, Option<ConnectionId>),
    ) -> Result<(), SessionError> {
        let differs = |what| SessionError::new(Some(ILLEGAL_PARAMETER), what);
        let Some(handshake) = &mut self.handshake else { return Ok(()) };
        let (session, application) = (handshake.session.take(), handshake.application.take());
        let host = handshake.host.filter(|_| !self.dialled);
        let client_ip = handshake.client_ip.filter(|_| !self.dialled);
        let (Some(session), Some((keys, updates))) = (session, application) else {
            return Err(SessionError::new(None, "the session has no keys"));
        };
        let params = session.peer_params().unwrap_or_default();
        let terms = Terms::decode(params)
            .map_err(|error| differs(format!("the peer's parameters: {error}")))?;
        if terms.versions != [Version::Sealed.number()] {
            return Err(differs("the peer speaks of other versions than its packets".into()));
        }
        if (terms.client, terms.server) != (client, server) {
            return Err(differs("the peer speaks of other ids than its packets".into()));
        }
        self.peer.identity = session.peer();
        self.path.peer_local_ip = client_ip;
        let paths_key = session.export();
        let update_after = self.config.key_update_packets.into();
        let sealed = Sealed::new(keys, updates, update_after, now);
        self.set_protection(PacketProtection::sealed(sealed));
        self.apply_params(terms.params);
        self.agree_on_paths(paths_key);
        if let (Some(host), Some(credential)) = (host, session.peer_credential()) {
            self.tell_endpoint().client =
                Some(ProvenClient { host, credential: credential.into() });
        }
        Ok(())
    }

    /// Messages flow.
    fn opened(&mut self, now: Instant) {
        self.state = State::Open { cookie: None };
        self.follow_path_mtu();
        self.life.heard_at = now;
        self.path.recovery.on_heard(now);
        self.path.ping_due |= self.dialled;
        self.events.push_back(Event::Connected);
        self.rearm(now);
    }

    /// Whether the server may not know of the association yet.
    pub(super) fn is_unconfirmed(&self) -> bool {
        self.cookie().is_some() || self.handshake.is_some()
    }
}
