// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Datagrams that may take a step of a cryptographic handshake: a signature, a key exchange. After a router's restart
//! hundreds of clients send them at once, and the links that are open shall not wait for all of them.

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use arq_proto::{Datagram, EcnCodepoint, SocketId};

use super::{connection::Inner, sync::Mutex};

/// Steps of a turn: about a millisecond of a core, with certificates.
const STEPS_A_TURN: usize = 4;
/// Datagrams that wait, at most: 1.2 MB. Those beyond are lost, and repeated by who sent them.
const MAX_WAITING: usize = 1_024;

/// Cryptographic handshakes of clients that came to nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unopened {
    /// One side did not take what the other proved to be, or broke the rules.
    pub failed: u64,
    /// The client said no more.
    pub timed_out: u64,
}

/// A datagram with the connection that it is for.
pub(super) struct Step<C = Arc<Inner>> {
    pub(super) connection: C,
    socket: SocketId,
    from: SocketAddr,
    to: Option<IpAddr>,
    ecn: Option<EcnCodepoint>,
    bytes: Vec<u8>,
}

impl<C> Step<C> {
    pub(super) fn datagram(&mut self) -> Datagram<'_> {
        let datagram = Datagram::new(self.from, self.to, &mut self.bytes);
        datagram.through(self.socket).with_ecn(self.ecn)
    }
}

/// Those that wait for their turn, in the order of their arrival.
pub(super) struct Handshakes<C = Arc<Inner>>(Mutex<VecDeque<Step<C>>>);

impl<C> Default for Handshakes<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C> Handshakes<C> {
    pub(super) fn extend<'a>(&self, arrived: impl IntoIterator<Item = (C, Datagram<'a>)>) {
        let mut waiting = self.0.lock();
        for (connection, Datagram { socket, from, to, ecn, bytes, .. }) in arrived {
            if waiting.len() == MAX_WAITING {
                tracing::debug!(%from, "too many handshakes: a datagram is lost");
                return;
            }
            waiting.push_back(Step { connection, socket, from, to, ecn, bytes: bytes.to_vec() });
        }
    }

    /// Those of this turn.
    pub(super) fn take_turn(&self) -> Vec<Step<C>> {
        let mut waiting = self.0.lock();
        let count = waiting.len().min(STEPS_A_TURN);
        waiting.drain(..count).collect()
    }

    pub(super) fn has_more(&self) -> bool {
        !self.0.lock().is_empty()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn arrive(handshakes: &Handshakes<u32>, numbers: std::ops::Range<u32>) {
        let from = SocketAddr::from(([10, 0, 0, 1], 7));
        for number in numbers {
            let bytes = &mut number.to_be_bytes()[..];
            handshakes.extend([(number, Datagram::new(from, None, bytes))]);
        }
    }

    #[test]
    fn a_turn_has_few_steps_in_order_and_no_more_wait_than_may() {
        let handshakes = Handshakes::default();
        assert!(!handshakes.has_more());
        arrive(&handshakes, 0..5_000);
        let mut seen = Vec::new();
        while handshakes.has_more() {
            let mut turn = handshakes.take_turn();
            assert!((1..=STEPS_A_TURN).contains(&turn.len()));
            for step in &mut turn {
                let number = step.connection;
                assert_eq!(*step.datagram().bytes, number.to_be_bytes());
            }
            seen.extend(turn.iter().map(|step| step.connection));
        }
        assert_eq!(seen, (0..MAX_WAITING as u32).collect::<Vec<_>>());
    }
}
