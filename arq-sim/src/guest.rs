// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A host that speaks another protocol: what others do on a path that we share.

use std::{net::SocketAddr, time::Duration};

/// A protocol without I/O. Times count from the start of the world. Whoever is given a datagram, or whose time-out has
/// come, is asked for what to send until there is nothing more.
pub trait Guest {
    /// A datagram has come.
    fn handle_datagram(&mut self, now: Duration, from: SocketAddr, bytes: &[u8]);

    /// The next datagram to send, and to whom.
    fn poll_transmit(&mut self, now: Duration) -> Option<(SocketAddr, Vec<u8>)>;

    /// When to ask again, if nothing comes.
    fn poll_timeout(&self) -> Option<Duration>;

    /// Bytes of use that have arrived here.
    fn delivered_bytes(&self) -> u64;
}
