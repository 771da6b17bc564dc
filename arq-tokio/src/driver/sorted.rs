// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Datagrams that came in one call, by connection.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use arq_proto::{is_handshake, ConnectionHandle, Datagram};

use super::connection::Inner;

/// A batch of datagrams, by connection.
#[derive(Default)]
pub(super) struct Sorted<'a> {
    /// Connections whose peer has perhaps restarted, and where the new one came from.
    pub(super) older: Vec<(Arc<Inner>, SocketAddr)>,
    /// What may take a step of a handshake.
    pub(super) handshakes: Vec<(Arc<Inner>, Datagram<'a>)>,
    connections: BTreeMap<ConnectionHandle, Arc<Inner>>,
    datagrams: Vec<(ConnectionHandle, Datagram<'a>)>,
}

impl<'a> Sorted<'a> {
    pub(super) fn push(&mut self, connection: Option<&Arc<Inner>>, datagram: Datagram<'a>) {
        // Retired between the endpoint's table and ours: a late packet.
        let Some(connection) = connection else { return };
        if is_handshake(datagram.bytes) {
            return self.handshakes.push((connection.clone(), datagram));
        }
        let handle = connection.handle();
        self.connections.entry(handle).or_insert_with(|| connection.clone());
        self.datagrams.push((handle, datagram));
    }

    /// Whoever likes can mix the datagrams of thousands of connections: that must not take long.
    pub(super) fn sort(&mut self) {
        if self.connections.len() > 1 {
            // Stable: those of one connection stay in the order of their arrival.
            self.datagrams.sort_by_key(|(handle, _)| *handle);
        }
    }

    /// Each connection with its datagrams, in the order of their arrival.
    pub(super) fn by_connection(
        &mut self,
    ) -> impl Iterator<Item = (&Arc<Inner>, &mut [(ConnectionHandle, Datagram<'a>)])> {
        // Both are in the order of the handles, and each connection has a datagram.
        let of_one = self.datagrams.chunk_by_mut(|(one, _), (other, _)| one == other);
        self.connections.values().zip(of_one)
    }
}
