// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A whole experiment as plain data: what is sent over which wires with which knobs.

use std::{fmt, time::Duration};

use arq_proto::Config;

use crate::{
    app::{AppPlan, Flow},
    moves::Move,
    pair::{Pair, Report},
    toy::Toy,
    wire::WireConfig,
    Halt,
};

/// Two hosts, a wire in each direction, applications on both sides.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Decides everything that is random.
    pub seed: u64,
    /// From the client to the server.
    pub up: WireConfig,
    /// From the server to the client.
    pub down: WireConfig,
    /// Further radios of the client, each with a wire to the server and one back.
    pub radios: Vec<(WireConfig, WireConfig)>,
    /// The knobs of both sides.
    pub config: Config,
    /// Paths that the server keeps, if not as many as the client.
    pub server_paths: Option<u8>,
    /// The last radio has a budget that earns so many bits per second.
    pub metered_rate_bps: Option<u64>,
    /// What happens meanwhile, and how long after both sides are connected, in this order.
    pub moves: Vec<(Duration, Move)>,
    /// What the client's application does.
    pub client: AppPlan,
    /// What the server's application does.
    pub server: AppPlan,
    /// Timers fire up to this much too late.
    pub timer_lateness: Duration,
    /// Datagrams that one transmission may hold.
    pub segments: usize,
    /// See [`HostConfig::batch_loss`](crate::HostConfig::batch_loss); of both.
    pub batch_loss: f32,
    /// See [`HostConfig::reads_together`](crate::HostConfig::reads_together); of both.
    pub reads_together: bool,
    /// See [`HostConfig::has_ecn`](crate::HostConfig::has_ecn); of both.
    pub has_ecn: bool,
    /// Packets are sealed with its keys, if there is one.
    pub toy: Option<Toy>,
    /// See [`EndpointConfig::max_unvalidated_handshakes`](arq_proto::EndpointConfig::max_unvalidated_handshakes).
    pub max_unvalidated_handshakes: usize,
    /// Virtual time for everything to be delivered.
    pub limit: Duration,
}

impl Scenario {
    /// Perfect wires of 10 ms, default knobs, nothing to send.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let wire = WireConfig::with_delay(Duration::from_millis(10));
        Self {
            seed,
            up: wire.clone(),
            down: wire,
            radios: Vec::new(),
            config: Config::default(),
            server_paths: None,
            metered_rate_bps: None,
            moves: Vec::new(),
            client: AppPlan::default(),
            server: AppPlan::default(),
            timer_lateness: Duration::ZERO,
            segments: 10,
            batch_loss: 0.0,
            reads_together: false,
            has_ecn: false,
            toy: None,
            max_unvalidated_handshakes: 64,
            limit: Duration::from_secs(60),
        }
    }

    /// The same wire in both directions, with luck of its own in each.
    #[must_use]
    pub fn wire(self, wire: WireConfig) -> Self {
        Self { up: wire.clone(), down: wire, ..self }
    }

    /// The client has another radio, with the same wire in both directions, and both sides take several paths.
    #[must_use]
    pub fn radio(mut self, wire: WireConfig) -> Self {
        self.radios.push((wire.clone(), wire));
        self.config.paths = 4;
        self
    }

    /// The knobs of both sides.
    #[must_use]
    pub fn config(self, config: Config) -> Self {
        Self { config, ..self }
    }

    /// Adds what the client sends.
    #[must_use]
    pub fn client_sends(mut self, flows: impl IntoIterator<Item = Flow>) -> Self {
        self.client.flows.extend(flows);
        self
    }

    /// Adds what the server sends.
    #[must_use]
    pub fn server_sends(mut self, flows: impl IntoIterator<Item = Flow>) -> Self {
        self.server.flows.extend(flows);
        self
    }

    /// The same on both sides.
    #[must_use]
    pub fn both_send(self, flows: impl IntoIterator<Item = Flow> + Clone) -> Self {
        self.client_sends(flows.clone()).server_sends(flows)
    }

    /// Packets are sealed, and the keys change each `packets`.
    #[must_use]
    pub fn sealed(mut self, toy: Toy, packets: u32) -> Self {
        self.config.key_update_packets = packets;
        Self { toy: Some(toy), ..self }
    }

    /// Virtual time for everything to be delivered.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Connects, delivers everything, waits for stragglers, closes in an orderly way.
    ///
    /// # Errors
    /// Something was not delivered in time, or a rule was broken on the way.
    pub fn run(&self) -> Result<Report, Box<Failure>> {
        let mut pair = Pair::new(self);
        let result = pair.run_to_end(self);
        result.map_err(|halt| {
            Box::new(Failure {
                halt,
                scenario: self.clone(),
                state: pair.describe(),
                ladder: pair.world.log().ladder(40),
            })
        })
    }
}

/// A scenario that did not end as it should, with all that is needed to see why.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What went wrong.
    pub halt: Halt,
    /// In which scenario.
    pub scenario: Scenario,
    /// How both sides stood.
    pub state: String,
    /// The last datagrams.
    pub ladder: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { halt, scenario, state, ladder } = self;
        writeln!(f, "seed {}: {halt}", scenario.seed)?;
        writeln!(f, "{scenario:#?}")?;
        writeln!(f, "{state}")?;
        write!(f, "the last datagrams:\n{ladder}")
    }
}

impl std::error::Error for Failure {}
