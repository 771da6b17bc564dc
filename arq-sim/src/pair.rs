// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A client and a server on two wires: the scene of most tests.

use std::{fmt::Write as _, net::SocketAddr, sync::Arc, time::Duration};

use arq_proto::{
    session::{Protection, Security},
    Budget, Config, Connect, EndpointConfig, Interface, InterfaceUse, LaneId, Reliability,
    SocketId, Stats,
};

use crate::{
    app::AppPlan,
    host::{Conn, ConnId, HostConfig, HostId},
    wire::WireConfig,
    Halt, Scenario, World,
};

/// After everything is delivered: time for copies that are still under way, which must not be
/// delivered again.
const STRAGGLERS: Duration = Duration::from_secs(2);

/// A client and a server.
pub struct Pair {
    /// Where they live.
    pub world: World,
    /// The client.
    pub client: HostId,
    /// The server.
    pub server: HostId,
    /// Further radios of the client.
    pub radios: Vec<HostId>,
    /// The client's connection.
    pub conn: ConnId,
    client_plan: AppPlan,
    server_plan: AppPlan,
    pub(crate) metered_rate_bps: Option<u64>,
}

/// How a scenario went.
#[derive(Debug, Clone)]
pub struct Report {
    /// From the first HELLO to the end of the handshake at the client.
    pub connected_after: Duration,
    /// From the first HELLO until everything was delivered.
    pub delivered_after: Duration,
    /// From the end of the handshake until everything was delivered: what goodput refers to.
    pub transfer: Duration,
    /// Bytes of messages that the server read.
    pub server_bytes_read: u64,
    /// Bytes of messages that the client read.
    pub client_bytes_read: u64,
    /// Of all messages that the server read, sorted.
    pub server_latencies: Vec<Duration>,
    /// The client's connection at the end.
    pub client_stats: Stats,
    /// The server's connection at the end.
    pub server_stats: Stats,
    /// Equal for equal runs.
    pub trace_hash: u64,
}

impl Report {
    /// What the server read, per second of transfer, in bits.
    #[must_use]
    pub fn goodput_bps(&self) -> f64 {
        self.server_bytes_read as f64 * 8.0 / self.transfer.as_secs_f64()
    }

    /// The latency that `percent` of the server's messages do not exceed.
    #[must_use]
    pub fn latency_percentile(&self, percent: usize) -> Option<Duration> {
        let last = self.server_latencies.len().checked_sub(1)?;
        self.server_latencies.get((self.server_latencies.len() * percent / 100).min(last)).copied()
    }
}

impl Pair {
    /// The address of a client in all scenarios.
    pub const CLIENT: &'static str = "10.0.0.1:40001";
    /// The address of a server in all scenarios.
    pub const SERVER: &'static str = "10.0.0.2:7447";

    /// Both hosts, with the client's handshake begun.
    ///
    /// # Panics
    /// The scenario's configuration is invalid: a mistake in a test.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let config =
            scenario.config.clone().validate().expect("the scenario's configuration is valid");
        let mut world = World::new(scenario.seed);
        let host = |name, address: &str| HostConfig {
            timer_lateness: scenario.timer_lateness,
            segments: scenario.segments,
            batch_loss: scenario.batch_loss,
            reads_together: scenario.reads_together,
            has_ecn: scenario.has_ecn,
            ..HostConfig::new(name, parse(address))
        };
        let client = world.add_host(host("client", Self::CLIENT));
        let accepts = Config {
            paths: scenario.server_paths.unwrap_or(config.paths),
            ..scenario.config.clone()
        };
        let accepts = accepts.validate().expect("the scenario's configuration is valid");
        let mut endpoint = EndpointConfig::new(accepts)
            .with_max_unvalidated_handshakes(scenario.max_unvalidated_handshakes);
        let mut connect = Connect::from(config);
        if let Some(toy) = &scenario.toy {
            let toy: Arc<dyn Security> = Arc::new(toy.clone());
            endpoint = endpoint.with_protection(Protection::Sealed(toy.clone()));
            connect = Connect::sealed(connect.config, toy, "server");
        }
        let server = world.add_host(HostConfig {
            endpoint,
            on_accept: scenario.server.clone(),
            ..host("server", Self::SERVER)
        });
        world.lay_wire(client, server, scenario.up.clone());
        world.lay_wire(server, client, scenario.down.clone());
        let radios = lay_radios(&mut world, client, server, &scenario.radios);
        let conn = world.connect(client, server, connect, scenario.client.clone());
        if !radios.is_empty() {
            world.with_conn(conn, |clock, connection, _| {
                for (number, socket) in (0..=radios.len()).zip((0..).map(SocketId)) {
                    let rate = scenario.metered_rate_bps.filter(|_| number == radios.len());
                    let purpose = rate.map_or(InterfaceUse::Always, |rate| {
                        InterfaceUse::Metered(Budget::new(rate, clock.now()))
                    });
                    let interface = Interface { socket, is_up: true, purpose };
                    connection.handle_interface(clock.now(), interface);
                }
            });
        }
        let (client_plan, server_plan) = (scenario.client.clone(), scenario.server.clone());
        let metered_rate_bps = scenario.metered_rate_bps;
        Self { world, client, server, radios, conn, client_plan, server_plan, metered_rate_bps }
    }

    /// The connection that the server accepted last.
    #[must_use]
    pub fn accepted(&self) -> Option<ConnId> {
        self.world.accepted(self.server).last().copied()
    }

    /// The client's side.
    #[must_use]
    pub fn client_side(&self) -> &Conn {
        self.world.conn(self.conn)
    }

    /// The server's side.
    ///
    /// # Panics
    /// Nothing was accepted yet: a mistake in a test.
    #[must_use]
    pub fn server_side(&self) -> &Conn {
        self.world.conn(self.accepted().expect("the server has accepted"))
    }

    /// Whether both sides see the connection as established.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        let up = |conn: &Conn| conn.connected_at.is_some();
        up(self.client_side()) && self.accepted().is_some_and(|id| up(self.world.conn(id)))
    }

    /// Whether every reliable message has been read, and every best-effort one accepted.
    #[must_use]
    pub fn all_delivered(&self) -> bool {
        let Some(server) = self.accepted() else { return false };
        let (client, server) = (self.client_side(), self.world.conn(server));
        client.app.has_sent_all()
            && server.app.has_sent_all()
            && LaneId::all().filter(|lane| lane.reliability() == Reliability::Reliable).all(
                |lane| {
                    server.app.inbox(lane).messages == self.client_plan.messages_on(lane)
                        && client.app.inbox(lane).messages == self.server_plan.messages_on(lane)
                },
            )
    }

    /// Runs until both sides are connected.
    ///
    /// # Errors
    /// See [`World::run_until`].
    pub fn run_to_connected(&mut self, limit: Duration) -> Result<Duration, Halt> {
        self.run(limit, Self::is_connected)
    }

    /// Runs until everything is delivered.
    ///
    /// # Errors
    /// See [`World::run_until`].
    pub fn run_to_delivery(&mut self, limit: Duration) -> Result<Duration, Halt> {
        self.run(limit, Self::all_delivered)
    }

    /// Runs until `done`, which sees the pair.
    ///
    /// # Errors
    /// See [`World::run_until`].
    pub fn run(&mut self, limit: Duration, done: impl Fn(&Self) -> bool) -> Result<Duration, Halt> {
        let start = self.world.now();
        while !done(self) {
            let left = (start + limit).saturating_sub(self.world.now());
            self.world.run_one(left).map_err(|halt| match halt {
                Halt::Limit(_) => Halt::Limit(limit),
                other => other,
            })?;
        }
        Ok(self.world.now() - start)
    }

    pub(crate) fn run_to_end(&mut self, scenario: &Scenario) -> Result<Report, Halt> {
        let connected_after = self.run_to_connected(scenario.limit)?;
        let connected_at = self.world.now();
        for (count, &(at, what)) in (1..).zip(&scenario.moves) {
            self.world.run_for((connected_at + at).saturating_sub(self.world.now()))?;
            self.apply(what, count);
        }
        let moved_for = self.world.now() - connected_at;
        let delivered_after = connected_after + moved_for + self.run_to_delivery(scenario.limit)?;
        self.world.run_for(STRAGGLERS)?;
        let mut report = self.report(connected_after, delivered_after);
        self.world.with_conn(self.conn, |clock, connection, _| connection.finish(clock.now()));
        let idle = scenario.config.idle_timeout + scenario.config.linger;
        self.run(3 * idle, |pair| {
            pair.client_side().closed.is_some() && pair.server_side().closed.is_some()
        })?;
        report.trace_hash = self.world.log().trace_hash();
        Ok(report)
    }

    fn report(&self, connected_after: Duration, delivered_after: Duration) -> Report {
        let (client, server) = (self.client_side(), self.server_side());
        let mut latencies: Vec<_> = LaneId::all()
            .flat_map(|lane| server.app.inbox(lane).latencies.iter().copied())
            .collect();
        latencies.sort_unstable();
        Report {
            connected_after,
            delivered_after,
            transfer: delivered_after.saturating_sub(client.connected_at.unwrap_or_default()),
            server_bytes_read: server.app.bytes_read(),
            client_bytes_read: client.app.bytes_read(),
            server_latencies: latencies,
            client_stats: client.connection().stats(),
            server_stats: server.connection().stats(),
            trace_hash: self.world.log().trace_hash(),
        }
    }

    /// How both sides stand, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut out = String::new();
        for (name, id) in [("client", Some(self.conn)), ("server", self.accepted())] {
            let Some(conn) = id.and_then(|id| self.world.get(id)) else { continue };
            // Writing to a String cannot fail.
            let _ = writeln!(
                out,
                "{name}: connected at {:?}, closed {:?}, timeout {:?}, {} messages read, {:?}",
                conn.connected_at,
                conn.closed,
                conn.connection()
                    .poll_timeout()
                    .map(|(at, kind)| (self.world.clock().offset_of(at), kind)),
                conn.app.messages_read(),
                conn.connection().stats(),
            );
            for path in conn.connection().paths() {
                let _ = writeln!(out, "{name}: {path:?}");
            }
        }
        out
    }
}

fn lay_radios(
    world: &mut World,
    client: HostId,
    server: HostId,
    wires: &[(WireConfig, WireConfig)],
) -> Vec<HostId> {
    let names = ["client's 2nd", "client's 3rd", "client's 4th"];
    let of_each = (2..).zip(wires).zip(names);
    of_each
        .map(|((number, (up, down)), name)| {
            let radio = world.add_radio(client, name, parse(&format!("10.0.{number}.1:40001")));
            world.lay_wire(radio, server, up.clone());
            world.lay_wire(server, radio, down.clone());
            radio
        })
        .collect()
}

fn parse(address: &str) -> SocketAddr {
    address.parse().expect("a literal address")
}
