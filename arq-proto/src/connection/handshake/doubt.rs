// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A client's session refuses who answered, or was refused: is that the server's fault, or a forger's?
//!
//! Whoever reads HELLO can answer in the server's place, with a certificate of his own, and sooner. He cannot keep the
//! server from answering, too. So a client asks on, and believes what it has heard after a second in which nobody else
//! has answered: beyond the round trip over a geostationary satellite, with several HELLOs for those that are lost. Once it
//! hears two voices, it begins another attempt.

use std::time::{Duration, Instant};

use super::{clear::REFUSAL_DOUBTED_FOR, sealed::ANSWERED_INTERVAL, Handshake, Side};
use crate::{
    connection::{Connection, State},
    error::ConnectionError,
    session::SessionError,
    units::ConnectionId,
};

/// An attempt that is over, but for who else answers it.
#[derive(Debug)]
pub(in crate::connection) struct Doubt {
    cause: ConnectionError,
    told: Option<Told>,
}

/// What a server hears that would wait for the client, in the end: one that knows the attempt to be over would answer the
/// next HELLO like another voice.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) server: ConnectionId,
    pub(super) error: SessionError,
}

impl Connection {
    /// The session has come to its end with one who has its keys, and may be anybody.
    pub(super) fn doubt(&mut self, cause: ConnectionError, told: Option<Told>) {
        let State::Hello(hello) = &mut self.state else { return };
        let Some(handshake) = &mut self.handshake else { return };
        let Side::Client(asking) = &mut handshake.side else { return };
        tracing::debug!(error = %cause, remote = %self.path.remote, "does anybody else answer?");
        hello.refused = Some(cause.clone());
        hello.believed_at = Some(asking.began + REFUSAL_DOUBTED_FOR);
        asking.doubt = Some(Doubt { cause, told });
        handshake.session = None;
        self.on_hello_timer(self.clock.now);
    }

    /// Whether what did not open is the answer of somebody else than the one who is in doubt.
    pub(super) fn has_other_voice(&mut self, now: Instant) -> bool {
        let Some(Doubt { cause, told }) = self.asking().and_then(|asking| asking.doubt.take())
        else {
            return false;
        };
        if let Some(Told { server, error }) = told {
            self.tell_failure(server, &error);
        }
        self.spoil(now, cause);
        true
    }

    /// The handshake ends with `error`. Who refuses a server tells it so.
    pub(super) fn give_up(&mut self, now: Instant, error: ConnectionError) {
        let told = self.asking().and_then(|asking| asking.doubt.take()?.told);
        match told {
            Some(Told { server, error: cause }) => {
                self.tell_failure(server, &cause);
                self.end_with_farewell(now, error);
            }
            None => self.end(error),
        }
    }
}

impl Handshake {
    /// How many HELLOs leave now, and how long they wait for an answer at most.
    pub(super) fn asks(&self) -> (u8, Duration) {
        match &self.side {
            Side::Client(asking) if asking.doubt.is_some() => (1, ANSWERED_INTERVAL),
            _ => self.asks_for_more(),
        }
    }
}
