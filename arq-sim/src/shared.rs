// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Several associations through one bottleneck: who gets how much of it, and how long is its queue?

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use arq_proto::{ConfigBuilder, EndpointConfig};

use crate::{
    app::AppPlan,
    host::{Conn, ConnId, HostConfig, HostId},
    wire::WireConfig,
    Halt, World,
};

/// How often the queue is looked at.
const QUEUE_INTERVAL: Duration = Duration::from_millis(1);

/// A client, its server, and the connection between them.
#[derive(Debug, Clone, Copy)]
struct Member {
    client: HostId,
    server: HostId,
    conn: ConnId,
}

/// Clients that send to servers of their own, all through one wire; what the servers send has a
/// wire of its own for each.
pub struct Shared {
    /// Where they live.
    pub world: World,
    /// How late the hosts of those who join from now on wake their timers, at most.
    pub timer_lateness: Duration,
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
    pub fn join(&mut self, config: ConfigBuilder, plan: AppPlan) -> usize {
        let config = config.build().expect("a valid configuration");
        let index = self.members.len();
        let address = |subnet| {
            let last = u8::try_from(index + 1).expect("few members");
            SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, subnet, last)), 7447)
        };
        let timer_lateness = self.timer_lateness;
        let client = HostConfig::new("client", address(1));
        let client = self.world.add_host(HostConfig { timer_lateness, ..client });
        let server = self.world.add_host(HostConfig {
            timer_lateness,
            endpoint: EndpointConfig::new(config.clone()),
            ..HostConfig::new("server", address(2))
        });
        match self.members.first() {
            None => self.world.lay_wire(client, server, self.up.clone()),
            Some(first) => self.world.share_wire(client, server, (first.client, first.server)),
        }
        self.world.lay_wire(server, client, self.down.clone());
        let conn = self.world.connect(client, server, config, plan);
        self.members.push(Member { client, server, conn });
        index
    }

    /// The sending side of a member.
    #[must_use]
    pub fn client(&self, member: usize) -> &Conn {
        self.world.conn(self.members[member].conn)
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

    /// Bytes of messages that each member's server has read so far.
    #[must_use]
    pub fn bytes_read(&self) -> Vec<u64> {
        let read = |member: &Member| {
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
            self.queue.extend(wire.map(crate::Wire::queue_len));
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
