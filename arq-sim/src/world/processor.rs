// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A host whose processor needs time for each step of a cryptographic handshake.

use std::time::Duration;

use arq_proto::{ConnectionHandle, SocketId};

use super::{events::Action, World};
use crate::{
    host::{ConnId, HostId},
    wire::Datagram,
};

impl World {
    /// Hands a datagram to a connection, or to the queue of those that cost time.
    pub(super) fn hand_over_in_turn(
        &mut self,
        host: HostId,
        handle: ConnectionHandle,
        datagram: &Datagram,
        socket: SocketId,
    ) {
        match self.is_step(host, datagram) {
            true => self.wait_for_step(host, handle, datagram),
            false => self.hand_over(host, handle, datagram, socket),
        }
    }

    /// Whether the datagram costs its receiver time.
    fn is_step(&self, host: HostId, datagram: &Datagram) -> bool {
        let costs = self.hosts[host.0].config.step_cost > Duration::ZERO;
        costs && arq_proto::is_handshake(&datagram.bytes)
    }

    /// The datagram waits for its turn.
    fn wait_for_step(&mut self, host: HostId, handle: ConnectionHandle, datagram: &Datagram) {
        let waiting = &mut self.hosts[host.0].steps;
        waiting.push_back((handle, datagram.clone()));
        if waiting.len() == 1 {
            self.events.schedule(self.clock.now(), Action::Steps { host });
        }
    }

    /// A turn of the driver: so many steps, for whose time nothing else of the host runs.
    pub(super) fn take_steps(&mut self, id: HostId) {
        let host = &mut self.hosts[id.0];
        let count = host.steps.len().min(host.config.steps_a_turn);
        let turn: Vec<_> = host.steps.drain(..count).collect();
        let (cost, has_more) = (host.config.step_cost, !host.steps.is_empty());
        if turn.is_empty() {
            return;
        }
        self.freeze(id, cost * turn.len() as u32);
        for (handle, datagram) in turn {
            let life = self.hosts[id.0].life;
            if self.live_conn(ConnId { host: id, handle, life }).is_some() {
                // Handshakes have one path.
                self.hand_over(id, handle, &datagram, SocketId::default());
            }
        }
        if has_more {
            self.events.schedule(self.clock.now(), Action::Steps { host: id });
        }
    }
}
