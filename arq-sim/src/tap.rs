// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Somebody on the path: sees every datagram, may take it away or change it, and adds his own.

use std::{net::SocketAddr, time::Duration};

use crate::wire::Datagram;

/// What happens to a datagram that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It goes on with other bytes.
    Replace(Vec<u8>),
    /// It does not go on.
    Withhold,
}

/// A datagram that no host sent. It travels beside the wires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forged {
    /// The sender it claims to have.
    pub from: SocketAddr,
    /// Whom it is for.
    pub to: SocketAddr,
    /// When it arrives, from now.
    pub after: Duration,
    /// UDP payload.
    pub bytes: Vec<u8>,
}

/// Sees all datagrams. Implemented by closures.
pub trait Tap {
    /// Looks at a datagram at the time `at` since the start, and adds to `forged` what shall arrive
    /// besides.
    fn inspect(&mut self, at: Duration, datagram: &Datagram, forged: &mut Vec<Forged>) -> Verdict;
}

impl<F> Tap for F
where
    F: FnMut(Duration, &Datagram, &mut Vec<Forged>) -> Verdict,
{
    fn inspect(&mut self, at: Duration, datagram: &Datagram, forged: &mut Vec<Forged>) -> Verdict {
        self(at, datagram, forged)
    }
}
