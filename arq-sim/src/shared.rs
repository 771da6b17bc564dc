// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Several flows through one bottleneck: who gets how much of it, and how long is its queue?
//!
//! Flows are associations, or what others do ([`reference`](crate::reference)); each has a way to the bottleneck of its
//! own ([`Access`]), so that round trips differ, and they come and go.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use arq_proto::{Config, EndpointConfig};

use crate::{
    app::AppPlan,
    host::{Conn, ConnId, HostConfig, HostId},
    reference::{Algorithm, Receiver, Sender},
    wire::{Wire, WireConfig},
    Halt, World,
};

/// How often the queue is looked at.
const QUEUE_INTERVAL: Duration = Duration::from_millis(1);

/// A client, its server, and the connection between them; none of guests.
#[derive(Debug, Clone, Copy)]
struct Member {
    client: HostId,
    server: HostId,
    conn: Option<ConnId>,
}

/// What a member has for itself.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// From its server to its client.
    pub down: WireConfig,
    /// See [`HostConfig::reads_together`].
    pub reads_together: bool,
    /// How late its hosts wake their timers, at most.
    pub timer_lateness: Duration,
    /// See [`HostConfig::has_ecn`].
    pub has_ecn: bool,
}

/// Clients that send to servers of their own, all through one wire; what the servers send has a
/// wire of its own for each.
pub struct Shared {
    /// Where they live.
    pub world: World,
    /// How late the hosts of those who join from now on wake their timers, at most.
    pub timer_lateness: Duration,
    /// See [`HostConfig::has_ecn`]; the same.
    pub has_ecn: bool,
    up: WireConfig,
    down: WireConfig,
    members: Vec<Member>,
    queue: Vec<usize>,
}

impl Shared {
    /// Nobody yet, on a wire `up` for all, and one like `down` for each.
    #[must_use]
    pub fn new(seed: u64, up: WireConfig, down: WireConfig) -> Self {
        Self {
            world: World::new(seed),
            timer_lateness: Duration::ZERO,
            has_ecn: false,
            up,
            down,
            members: Vec::new(),
            queue: Vec::new(),
        }
    }

    /// A client connects, now, and sends what is planned; returns its number.
    ///
    /// # Panics
    /// The configuration is invalid: a mistake in a test.
    pub fn join(&mut self, config: Config, plan: AppPlan) -> usize {
        let access = Access {
            down: self.down.clone(),
            reads_together: false,
            timer_lateness: self.timer_lateness,
            has_ecn: self.has_ecn,
        };
        self.join_from(access, config, plan)
    }

    /// The same from another place.
    ///
    /// # Panics
    /// The configuration is invalid: a mistake in a test.
    pub fn join_from(&mut self, access: Access, config: Config, plan: AppPlan) -> usize {
        let config = config.validate().expect("a valid configuration");
        let client = self.world.add_host(self.host("client", 1, &access));
        let server = self.world.add_host(HostConfig {
            endpoint: EndpointConfig::new(config.clone()),
            ..self.host("server", 2, &access)
        });
        self.lay_wires(client, server, access.down);
        let conn = self.world.connect(client, server, config, plan);
        self.add(Member { client, server, conn: Some(conn) })
    }

    /// Somebody else sends `bytes`, now; returns its number.
    pub fn join_other(&mut self, access: Access, algorithm: Algorithm, bytes: u64) -> usize {
        let seed = self.members.len() as u64 + 1;
        let server = self.host("receiver", 2, &access);
        let sender = Sender::new(algorithm, server.address, bytes, seed);
        let client = self.world.add_guest(self.host("sender", 1, &access), sender);
        let server = self.world.add_guest(server, Receiver::default());
        self.lay_wires(client, server, access.down);
        self.world.wake_guest(client);
        self.add(Member { client, server, conn: None })
    }

    fn host(&self, name: &'static str, subnet: u8, access: &Access) -> HostConfig {
        let number = u16::try_from(self.members.len() + 1).expect("few members");
        let [high, low] = number.to_be_bytes();
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, high, subnet, low)), 7447);
        let Access { reads_together, timer_lateness, has_ecn, .. } = *access;
        HostConfig { reads_together, timer_lateness, has_ecn, ..HostConfig::new(name, address) }
    }

    fn lay_wires(&mut self, client: HostId, server: HostId, down: WireConfig) {
        match self.members.first() {
            None => self.world.lay_wire(client, server, self.up.clone()),
            Some(first) => self.world.share_wire(client, server, (first.client, first.server)),
        }
        self.world.lay_wire(server, client, down);
    }

    fn add(&mut self, member: Member) -> usize {
        self.members.push(member);
        self.members.len() - 1
    }

    /// Whether a member's server has accepted it.
    #[must_use]
    pub fn is_accepted(&self, member: usize) -> bool {
        let Member { server, conn, .. } = self.members[member];
        conn.is_none() || !self.world.accepted(server).is_empty()
    }

    /// Whether a member's application hands over nothing more, for as long as it pauses.
    ///
    /// # Panics
    /// It is no association: a mistake in a test.
    pub fn pause(&mut self, member: usize, paused: bool) {
        let conn = self.members[member].conn.expect("an association");
        self.world.with_conn(conn, |clock, _, app| app.pause(clock.offset(), paused));
    }

    /// Both hosts of a member sleep for so long ([`World::freeze`]).
    pub fn freeze(&mut self, member: usize, time: Duration) {
        let Member { client, server, .. } = self.members[member];
        [client, server].into_iter().for_each(|host| self.world.freeze(host, time));
    }

    /// The wire that all share, once somebody has joined.
    pub fn bottleneck(&mut self) -> Option<&mut Wire> {
        let first = self.members.first()?;
        self.world.wire_mut(first.client, first.server)
    }

    /// The sending side of a member.
    ///
    /// # Panics
    /// It is no association: a mistake in a test.
    #[must_use]
    pub fn client(&self, member: usize) -> &Conn {
        self.world.conn(self.members[member].conn.expect("an association"))
    }

    /// The receiving side of a member.
    ///
    /// # Panics
    /// It has not connected yet: a mistake in a test.
    #[must_use]
    pub fn server(&self, member: usize) -> &Conn {
        let accepted = self.world.accepted(self.members[member].server).last();
        self.world.conn(*accepted.expect("the member has connected"))
    }

    /// Bytes of use that each member's server has read so far.
    #[must_use]
    pub fn bytes_read(&self) -> Vec<u64> {
        let read = |member: &Member| {
            if member.conn.is_none() {
                return self.world.guest(member.server).delivered_bytes();
            }
            let accepted = self.world.accepted(member.server).last();
            accepted.map_or(0, |&id| self.world.conn(id).app.bytes_read())
        };
        self.members.iter().map(read).collect()
    }

    /// Runs for a while; returns what each member delivered in that time, in Mb/s.
    ///
    /// # Errors
    /// A rule was broken.
    pub fn goodput(&mut self, time: Duration) -> Result<Vec<f64>, Halt> {
        let before = self.bytes_read();
        self.queue.clear();
        let end = self.world.now() + time;
        while self.world.now() < end {
            self.world.run_for(QUEUE_INTERVAL.min(end - self.world.now()))?;
            let first = self.members.first();
            let wire = first.and_then(|member| self.world.wire(member.client, member.server));
            self.queue.extend(wire.map(Wire::queue_len));
        }
        self.queue.sort_unstable();
        let delivered = self.bytes_read().into_iter().zip(before);
        Ok(delivered
            .map(|(now, then)| (now - then) as f64 * 8.0 / time.as_secs_f64() / 1e6)
            .collect())
    }

    /// Datagrams in the queue of the shared wire that were not exceeded for `percent` of the time of
    /// the last [`goodput`](Self::goodput).
    #[must_use]
    pub fn queue_percentile(&self, percent: usize) -> usize {
        let last = self.queue.len().saturating_sub(1);
        self.queue.get((self.queue.len() * percent / 100).min(last)).copied().unwrap_or_default()
    }
}
