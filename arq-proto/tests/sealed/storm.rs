// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Hundreds of clients come back at once, or strangers say HELLO without end: are they let in soon, and do the links that
//! are open wait for them?
//!
//! Each datagram of a handshake takes the server [`STEP`], more than a signature with two certificates to verify takes a
//! core of today; its driver does four at a time.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use arq_proto::{
    session::{Protection, Security},
    Connect, EndpointConfig, Reliability, ValidConfig,
};
use arq_sim::{
    hostile, lane,
    toy::{Flights, Toy},
    AppPlan, ConnId, Flow, Forged, HostConfig, HostId, Loss, WireConfig, World,
};
use fastrand::Rng;

use crate::common::{seeds, MS, SEC};

const STEP: Duration = Duration::from_micros(300);
const CLIENTS: u32 = 500;

/// A server, and a neighbour that has a link with it and says something each 10 ms.
struct Scene {
    world: World,
    server: HostId,
    neighbour: HostId,
    toy: Arc<dyn Security>,
}

/// The flow of everybody, whose latencies count.
const PRIORITY: u8 = 3;

fn says(bytes: usize, interval: Duration) -> AppPlan {
    AppPlan::sends([Flow::reliable(PRIORITY, bytes, u64::MAX).every(interval)])
}

impl Scene {
    fn new(seed: u64, steps_a_turn: usize) -> Self {
        // A client certificate with its issuer's.
        let toy = Toy::new(Flights { client: 1_030, ..Flights::default() });
        let toy: Arc<dyn Security> = Arc::new(toy);
        let mut world = World::new(seed);
        world.stop_log();
        let accept = EndpointConfig::new(ValidConfig::default())
            .with_protection(Protection::Sealed(toy.clone()));
        let server = world.add_host(HostConfig {
            endpoint: accept,
            step_cost: STEP,
            steps_a_turn,
            ..HostConfig::new("server", ([10, 0, 0, 1], 7447).into())
        });
        let neighbour = ([10, 0, 0, 2], 7).into();
        let mut scene = Self { world, server, neighbour: server, toy };
        scene.neighbour = scene.add_client("neighbour", neighbour, 0.0);
        scene
    }

    fn add_client(&mut self, name: &'static str, address: SocketAddr, loss: f32) -> HostId {
        let host = self.world.add_host(HostConfig::new(name, address));
        let wire = WireConfig { loss: Loss::Random(loss), ..WireConfig::with_delay(10 * MS) };
        self.world.lay_wire(host, self.server, wire.clone());
        self.world.lay_wire(self.server, host, wire);
        host
    }

    fn connect(&mut self, host: HostId, plan: AppPlan) -> ConnId {
        let connect = Connect::sealed(ValidConfig::default(), self.toy.clone(), "server");
        self.world.connect(host, self.server, connect, plan)
    }

    fn connect_neighbour(&mut self) -> ConnId {
        let conn = self.connect(self.neighbour, says(100, 10 * MS));
        self.world.run_until(SEC, |world| world.conn(conn).connected_at.is_some()).unwrap();
        conn
    }

    /// The latency that 99 of 100 of the neighbour's messages do not exceed.
    fn p99(&self) -> Duration {
        let address = self.world.address(self.neighbour);
        let of_neighbour = |id: &&ConnId| self.world.conn(**id).connection().remote() == address;
        let accepted = self.world.accepted(self.server).iter().find(of_neighbour).unwrap();
        let inbox = self.world.conn(*accepted).app.inbox(lane(PRIORITY, Reliability::Reliable));
        let mut latencies = inbox.latencies.clone();
        latencies.sort_unstable();
        assert!(latencies.len() >= 100, "{}", latencies.len());
        latencies[(latencies.len() - 1) * 99 / 100]
    }
}

/// Runs until all of `clients` are connected, and connects each again whose connection has ended.
fn run_until_back(scene: &mut Scene, clients: &mut [(HostId, ConnId)]) -> Duration {
    let start = scene.world.now();
    loop {
        scene.world.run_for(10 * MS).unwrap();
        let mut is_missing = false;
        for (host, conn) in &mut *clients {
            let state = scene.world.conn(*conn);
            if state.closed.is_some() {
                *conn = scene.connect(*host, says(100, 200 * MS));
            }
            let state = scene.world.conn(*conn);
            is_missing |= state.connected_at.is_none_or(|at| at < start);
        }
        let took = scene.world.now() - start;
        if !is_missing {
            return took;
        }
        assert!(took < 20 * SEC, "not everybody is back");
    }
}

/// How long it takes until all are back after a restart, and how late the neighbour's messages are meanwhile.
fn storm(seed: u64, steps_a_turn: usize) -> (Duration, Duration) {
    let mut scene = Scene::new(seed, steps_a_turn);
    let mut clients = Vec::new();
    for n in 0..CLIENTS {
        let address = SocketAddr::from(([10, 1, (n / 200) as u8, (n % 200) as u8 + 1], 7));
        let host = scene.add_client("client", address, 0.05);
        clients.push((host, scene.connect(host, says(100, 200 * MS))));
    }
    run_until_back(&mut scene, &mut clients);
    scene.world.run_for(5 * SEC).unwrap();
    scene.world.restart(scene.server);
    scene.connect_neighbour();
    let took = run_until_back(&mut scene, &mut clients);
    // All that the neighbour said meanwhile arrives.
    scene.world.run_for(100 * MS).unwrap();
    (took, scene.p99())
}

// ARQ-ADM-1
#[test]
fn five_hundred_clients_are_back_within_five_seconds_and_nobody_waits_for_them() {
    for seed in seeds(1) {
        let (took, late) = storm(seed, 4);
        println!("seed {seed}: back after {took:?}, p99 of the neighbour {late:?}");
        assert!(took < 5 * SEC, "seed {seed}: {took:?}");
        // 10 ms are the way.
        assert!(late <= 15 * MS, "seed {seed}: {late:?}");
    }
}

/// The limit of a turn is what the test above is about.
#[test]
fn without_a_limit_the_neighbour_waits() {
    let (_, late) = storm(0, usize::MAX);
    assert!(late > 15 * MS, "{late:?}");
}

/// For `seconds`, 50,000 HELLOs a second with a flight, from random sources.
fn flood(scene: &mut Scene, rng: &mut Rng, seconds: u32) {
    const A_SECOND: u32 = 50_000;
    let to = scene.world.address(scene.server);
    let template = hello(scene);
    for n in 0..seconds * A_SECOND {
        let mut bytes = template.clone();
        bytes[1..9].copy_from_slice(&rng.u64(..).to_be_bytes());
        let from = (rng.u32(..).to_be_bytes(), rng.u16(1..)).into();
        let bytes = hostile::resealed(&bytes);
        scene.world.forge(Forged { from, to, after: n * (SEC / A_SECOND), bytes });
    }
}

/// The first HELLO of a client.
fn hello(scene: &Scene) -> Vec<u8> {
    let now = scene.world.clock().now();
    let mut endpoint = arq_proto::Endpoint::new(EndpointConfig::default(), [5; 32], now);
    let connect = Connect::sealed(ValidConfig::default(), scene.toy.clone(), "server");
    let (_, mut connection) = endpoint.connect(now, scene.world.address(scene.server), connect);
    let mut out = Vec::new();
    connection.poll_transmit(now, &mut out, 1).unwrap();
    out
}

// ARQ-ADM-1, ARQ-AMP-1
#[test]
fn a_flood_of_hellos_makes_no_link_late_and_lets_an_honest_client_in() {
    for seed in seeds(1) {
        let late = |flooded: bool| {
            let mut scene = Scene::new(seed, 4);
            scene.connect_neighbour();
            if flooded {
                flood(&mut scene, &mut Rng::with_seed(seed), 2);
            }
            scene.world.run_for(500 * MS).unwrap();
            let honest = scene.add_client("honest", ([10, 9, 0, 1], 7).into(), 0.05);
            let (conn, called_at) = (scene.connect(honest, says(100, 200 * MS)), scene.world.now());
            let opened = |world: &World| world.conn(conn).connected_at.is_some();
            scene.world.run_until(SEC, opened).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
            println!("seed {seed}: honest opens after {:?}", scene.world.now() - called_at);
            scene.world.run_for(2 * SEC).unwrap();
            let begun = scene.world.accepted(scene.server).len();
            // 64 that may be anywhere at once, each for 10 s.
            assert!(begun <= 64 + 2, "seed {seed}: {begun}");
            let exchanges = scene.world.exchanges(scene.server);
            let (received, sent) = exchanges.fold((0, 0), |(received, sent), (_, exchange)| {
                (received + exchange.received_bytes, sent + exchange.sent_bytes)
            });
            assert!(!flooded || 10 * sent <= received, "seed {seed}: {sent} for {received}");
            scene.p99()
        };
        let (calm, flooded) = (late(false), late(true));
        println!("seed {seed}: p99 {calm:?}, in the flood {flooded:?}");
        assert!(flooded <= 2 * calm, "seed {seed}: {calm:?} {flooded:?}");
    }
}
