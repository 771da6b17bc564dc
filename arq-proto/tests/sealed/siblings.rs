// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A client comes with the credentials of an older association, from its address: is it the killed client, started again,
//! or another one that shares both?
//!
//! All clients here have the same credentials, and one IP address: a fleet with one pre-shared key behind one NAT. What
//! names their hosts differs, where they are not programs of one host.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use arq_proto::{
    session::{Protection, Security},
    Connect, ConnectionError, EndpointConfig, Unreachable, UnreachableReport, ValidConfig,
};
use arq_sim::{
    toy::{Flights, Toy},
    AppPlan, ConnId, Datagram, Flow, Forged, HostConfig, HostId, Loss, Verdict, WireConfig, World,
};

use crate::common::{lossy, seeds, MS, SEC};

const PORT: u16 = 40_001;

struct Scene {
    seed: u64,
    world: World,
    server: HostId,
    toy: Arc<dyn Security>,
    wire: WireConfig,
}

impl Scene {
    fn new(seed: u64, wire: WireConfig) -> Self {
        let toy: Arc<dyn Security> = Arc::new(Toy::new(Flights::default()));
        let mut world = World::new(seed);
        let accept = EndpointConfig::new(ValidConfig::default());
        let server = world.add_host(HostConfig {
            endpoint: accept.with_protection(Protection::Sealed(toy.clone())),
            ..HostConfig::new("server", ([10, 0, 0, 1], 7447).into())
        });
        Self { seed, world, server, toy, wire }
    }

    fn add(&mut self, name: &'static str, port: u16) -> HostId {
        self.add_at(name, ([10, 0, 0, 2], port).into())
    }

    fn add_at(&mut self, name: &'static str, address: SocketAddr) -> HostId {
        self.add_host(HostConfig::new(name, address))
    }

    fn add_host(&mut self, config: HostConfig) -> HostId {
        let host = self.world.add_host(config);
        self.lay_wires(host, &self.wire.clone());
        host
    }

    fn lay_wires(&mut self, host: HostId, wire: &WireConfig) {
        self.world.lay_wire(host, self.server, wire.clone());
        self.world.lay_wire(self.server, host, wire.clone());
    }

    /// Opens an association from `client`, a program of the host of this `name`; the server's side, and when it was open.
    fn open(&mut self, client: HostId, name: &str) -> (ConnId, Duration) {
        let connect = Connect::sealed(ValidConfig::default(), self.toy.clone(), "server");
        let plan = AppPlan::sends([Flow::reliable(5, 200, 1_000_000).every(200 * MS)]);
        let known = self.world.accepted(self.server).len();
        self.world.connect(client, self.server, connect.on_host(name.as_bytes()), plan);
        let server = self.server;
        let is_open = |world: &World| {
            let newest = world.accepted(server).get(known);
            newest.is_some_and(|id| world.conn(*id).connected_at.is_some())
        };
        self.world
            .run_until(9 * SEC, is_open)
            .unwrap_or_else(|halt| panic!("{}: {halt}", self.seed));
        let id = self.world.accepted(server)[known];
        (id, self.world.conn(id).connected_at.unwrap())
    }

    fn run(&mut self, time: Duration) {
        self.world.run_for(time).unwrap_or_else(|halt| panic!("seed {}: {halt}", self.seed));
    }

    /// Asserts that it lives, and was asked so often.
    #[track_caller]
    fn assert_lives(&self, id: ConnId, asked: u64) {
        let conn = self.world.conn(id);
        assert_eq!(conn.error(), None, "seed {}", self.seed);
        assert_eq!(conn.connection().stats().suspicions, asked, "seed {}", self.seed);
    }

    /// How long after `since` the association has ended, at most 20 s.
    #[track_caller]
    fn end_of(&mut self, id: ConnId, since: Duration) -> (Duration, ConnectionError) {
        let ends = |world: &World| world.conn(id).closed.is_some();
        self.world.run_until(20 * SEC, ends).unwrap_or_else(|halt| panic!("{}: {halt}", self.seed));
        let (at, error) = self.world.conn(id).closed.clone().unwrap();
        (at.saturating_sub(since), error)
    }
}

/// Times of the ends over some seeds, the reason being `error`: the median and the longest.
fn ends(
    what: &str,
    wire: &WireConfig,
    error: &[ConnectionError],
    end: impl Fn(&mut Scene) -> (Duration, ConnectionError),
) -> (Duration, Duration) {
    let of = |seed| {
        let (time, why) = end(&mut Scene::new(seed, wire.clone()));
        assert!(error.contains(&why), "seed {seed}: {why} after {time:?}");
        time
    };
    let mut times: Vec<_> = seeds(50).map(of).collect();
    times.sort();
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{what}: median {median:?}, longest {longest:?}");
    (median, longest)
}

fn wires() -> [(&'static str, WireConfig); 2] {
    [("no loss", WireConfig::with_delay(10 * MS)), ("10 % lost", lossy(0.1))]
}

// ARQ-RPL-2, ARQ-SUS-4
#[test]
fn a_killed_client_that_comes_back_from_another_port_ends_what_it_left_behind() {
    for (what, wire) in wires() {
        let (_, longest) = ends(what, &wire, &[ConnectionError::Replaced], |scene| {
            let client = scene.add("client", PORT);
            let (old, _) = scene.open(client, "robot 1");
            scene.run(SEC);
            scene.world.vanish(client);
            scene.run(300 * MS);
            let again = scene.add("again", PORT + 1);
            let (newcomer, since) = scene.open(again, "robot 1");
            let end = scene.end_of(old, since);
            scene.run(5 * SEC);
            scene.assert_lives(newcomer, 0);
            end
        });
        assert!(longest < 2 * SEC, "{longest:?}");
    }
}

/// What a client of another host has left behind, or of one that has no name, is found out by silence alone.
#[test]
fn without_its_name_it_takes_the_idle_time_out() {
    let wire = WireConfig::with_delay(10 * MS);
    let (_, longest) = ends("another host", &wire, &[ConnectionError::TimedOut], |scene| {
        let client = scene.add("client", PORT);
        let (old, _) = scene.open(client, "robot 1");
        scene.run(SEC);
        scene.world.vanish(client);
        scene.run(300 * MS);
        let again = scene.add("again", PORT + 1);
        let (_, since) = scene.open(again, "robot 2");
        scene.end_of(old, since)
    });
    assert!(longest > 13 * SEC, "{longest:?}");
}

// ARQ-RPL-1
#[test]
fn one_that_comes_back_from_its_port_ends_it_sooner() {
    let lost = [ConnectionError::Replaced, ConnectionError::PeerLostState];
    for (what, wire) in wires() {
        let (_, longest) = ends(what, &wire, &lost, |scene| {
            let client = scene.add("client", PORT);
            let (old, _) = scene.open(client, "robot 1");
            scene.run(SEC);
            scene.world.restart(client);
            let (_, since) = scene.open(client, "robot 1");
            scene.end_of(old, since)
        });
        assert!(longest < 500 * MS, "{longest:?}");
    }
}

/// The process of a client is killed, and its host says so of whatever comes for it. How long after the first such report
/// the association has ended, where the client's system has the address `local`, and comes back from another port if it
/// `returns`.
fn reported(scene: &mut Scene, local: [u8; 4], returns: bool) -> Duration {
    const WAY: Duration = Duration::from_millis(10);
    let at = |port| ([10, 0, 0, 2], port).into();
    let host = |name, port| HostConfig {
        local_ip: Some(IpAddr::from(local)),
        ..HostConfig::new(name, at(port))
    };
    let client = scene.add_host(host("client", PORT));
    let (old, _) = scene.open(client, "robot 1");
    scene.run(SEC);
    let arriving = Arc::new(Mutex::new(Vec::new()));
    let seen = arriving.clone();
    scene.world.set_tap(move |time, datagram: &Datagram, _: &mut Vec<Forged>| {
        if datagram.to == at(PORT) {
            seen.lock().unwrap().push((time + 2 * WAY, datagram.bytes.to_vec()));
        }
        Verdict::Pass
    });
    scene.world.vanish(client);
    if returns {
        let again = scene.add_host(host("again", PORT + 1));
        scene.open(again, "robot 1");
    }
    let mut first = None;
    for _ in 0..1_000 {
        scene.run(5 * MS);
        if let Some((end, error)) = scene.world.conn(old).closed.clone() {
            let expected = [ConnectionError::PeerGone, ConnectionError::Replaced];
            assert_eq!(error, expected[usize::from(returns)]);
            return end - first.expect("it was reported");
        }
        let now = scene.world.now();
        let due = |(time, _): &mut (Duration, Vec<u8>)| *time <= now;
        let arrived: Vec<_> = arriving.lock().unwrap().extract_if(.., due).collect();
        for (_, bytes) in arrived {
            first.get_or_insert(now);
            let quote = &bytes[..bytes.len().min(500)];
            let report = UnreachableReport::new(Unreachable::Port, at(PORT), at(PORT).ip(), quote);
            scene.world.with_conn(old, |clock, connection, _| {
                connection.handle_unreachable(clock.now(), &report);
            });
        }
    }
    panic!("seed {}: it has not ended", scene.seed);
}

// ARQ-RPL-3, ARQ-SUS-3, ARQ-SUS-4
#[test]
fn a_host_that_is_behind_no_nat_is_believed_sooner_that_its_client_is_gone() {
    for (local, most, least) in
        [([10, 0, 0, 2], 350 * MS, 200 * MS), ([192, 168, 0, 2], 1_400 * MS, 1_200 * MS)]
    {
        for returns in [false, true] {
            for seed in seeds(20) {
                let mut scene = Scene::new(seed, WireConfig::with_delay(10 * MS));
                let took = reported(&mut scene, local, returns);
                assert!((least..=most).contains(&took), "seed {seed}, {local:?}: {took:?}");
            }
        }
    }
}

// ARQ-RPL-2
#[test]
fn who_shares_its_credentials_and_address_is_not_even_asked() {
    for seed in seeds(20) {
        let mut scene = Scene::new(seed, lossy(0.1));
        let (one, other) = (scene.add("one", PORT), scene.add("other", PORT + 1));
        let (old, _) = scene.open(one, "robot 1");
        let (new, _) = scene.open(other, "robot 2");
        scene.run(10 * SEC);
        scene.assert_lives(old, 0);
        scene.assert_lives(new, 0);
    }
}

/// Its packets take another way, which tells nothing of the old one's.
// ARQ-RPL-2
#[test]
fn a_client_of_the_same_host_from_another_address_asks_nobody() {
    let mut scene = Scene::new(1, WireConfig::with_delay(10 * MS));
    let one = scene.add("one", PORT);
    let (old, _) = scene.open(one, "robot 1");
    let other = scene.add_at("other", ([10, 0, 0, 3], PORT).into());
    scene.open(other, "robot 1");
    scene.run(SEC);
    scene.assert_lives(old, 0);
}

/// Its radio stands still while another vehicle with the same key comes.
// ARQ-RPL-2
#[test]
fn a_fade_of_eight_seconds_is_survived_beside_newcomers_with_the_same_credentials() {
    let mut scene = Scene::new(1, WireConfig::with_delay(10 * MS));
    let one = scene.add("one", PORT);
    let (old, _) = scene.open(one, "robot 1");
    scene.run(SEC);
    scene.lay_wires(one, &WireConfig { loss: Loss::Random(1.0), ..WireConfig::default() });
    for (port, name) in [(2, "robot 2"), (3, "robot 3"), (4, "robot 4")] {
        scene.run(2 * SEC);
        let other = scene.add(name, PORT + port);
        scene.open(other, name);
    }
    scene.run(SEC + 900 * MS);
    scene.lay_wires(one, &WireConfig::with_delay(10 * MS));
    scene.run(5 * SEC);
    scene.assert_lives(old, 0);
}

// ARQ-RPL-2, ARQ-SUS-4
#[test]
fn programs_of_one_host_are_asked_and_live() {
    for seed in seeds(50) {
        let mut scene = Scene::new(seed, lossy(0.1));
        let (one, other) = (scene.add("one", PORT), scene.add("other", PORT + 1));
        let (old, _) = scene.open(one, "robot 1");
        scene.run(SEC);
        // Both start, and that is all that their host has time for.
        scene.world.freeze(one, 900 * MS);
        let (new, _) = scene.open(other, "robot 1");
        scene.run(10 * SEC);
        scene.assert_lives(old, 1);
        scene.assert_lives(new, 0);
    }
}

/// A client without end that leaves nothing but dead ones: the newest are asked, and all end.
// ARQ-RPL-2
#[test]
fn a_client_that_starts_again_and_again_leaves_nothing_behind() {
    let mut scene = Scene::new(1, WireConfig::with_delay(10 * MS));
    let mut left = Vec::new();
    for port in 0..20 {
        let client = scene.add("client", PORT + port);
        left.push(scene.open(client, "robot 1").0);
        scene.world.vanish(client);
        scene.run(20 * MS);
    }
    let last = scene.add("client", PORT + 20);
    let (last, since) = scene.open(last, "robot 1");
    for id in left {
        let (time, error) = scene.end_of(id, since);
        assert_eq!(error, ConnectionError::Replaced);
        assert!(time < 2 * SEC, "{time:?}");
    }
    scene.assert_lives(last, 0);
}
