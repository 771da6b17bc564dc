// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Hosts that speak another protocol.

use arq_proto::SocketId;

use super::{events::Action, World};
use crate::{
    guest::Guest,
    host::{HostConfig, HostId, Outgoing},
};

impl World {
    /// Adds a host that speaks another protocol. It acts for the first time when [`World::wake_guest`] is called.
    pub fn add_guest(&mut self, config: HostConfig, guest: impl Guest + 'static) -> HostId {
        let id = self.add_host(config);
        let host = &mut self.hosts[id.0];
        host.endpoint = None;
        host.guest = Some(Box::new(guest));
        id
    }

    /// Lets a guest do what is due now.
    ///
    /// # Panics
    /// The host is none: a mistake in a test.
    pub fn wake_guest(&mut self, host: HostId) {
        let now = self.clock.offset();
        let guest = self.hosts[host.0].guest.as_mut().expect("a guest");
        let mut outgoing = Vec::new();
        while let Some((to, bytes)) = guest.poll_transmit(now) {
            let (socket, ecn, vanishes) = (SocketId::default(), None, false);
            outgoing.push(Outgoing { socket, to, ecn, bytes, vanishes });
        }
        let timeout = guest.poll_timeout();
        self.dispatch(host, outgoing);
        if let Some(at) = timeout {
            let at = self.clock.now() + at.saturating_sub(now);
            self.events.schedule(at, Action::Guest { host });
        }
    }

    /// A guest, to see how it stands.
    ///
    /// # Panics
    /// The host is none: a mistake in a test.
    #[must_use]
    pub fn guest(&self, host: HostId) -> &dyn Guest {
        &**self.hosts[host.0].guest.as_ref().expect("a guest")
    }
}
