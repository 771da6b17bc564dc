// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Whatever becomes of packets after they were sealed, and of the association meanwhile, no number is used twice under one
//! key, and each that was used has left.
//!
//! The toy's ledger panics at the second use.

use std::{
    cell::RefCell, collections::BTreeSet, net::SocketAddr, rc::Rc, sync::Arc, time::Duration,
};

use arq_proto::{
    session::TAG_BYTES,
    wire::{flight::HandshakeHeader, packet::PacketKind},
    Connect,
};
use arq_sim::{
    toy::{Flights, Toy},
    ConnId, Datagram, Flow, Forged, HostId, Loss, Pair, Scenario, Verdict, WireConfig,
};
use proptest::prelude::*;

use crate::common::{MS, SEC};

/// What happens next; each to the client or to the server, where that makes a difference.
#[derive(Debug, Clone)]
enum Op {
    /// Messages are written.
    Say { is_client: bool, bytes: usize, messages: u64 },
    /// The kernel refuses the next datagrams, and nobody is told (ENOBUFS).
    Refuse { is_client: bool, datagrams: usize },
    /// It refuses what is longer (EMSGSIZE), and the association is told.
    Shorten { is_client: bool, bytes: usize },
    /// The client has another address.
    Rebind { port: u16 },
    /// So many of 100 datagrams are lost.
    Lose { percent: u8 },
    /// Enough is said for the next keys.
    UpdateKeys,
    /// One side ends the association, at once or when all is delivered; the client opens another.
    Close { is_client: bool, at_once: bool },
    /// A process is killed and started again; the client opens another association.
    Restart { is_client: bool },
}

fn op() -> impl Strategy<Value = Op> {
    let is_client = any::<bool>;
    prop_oneof![
        4 => (is_client(), 1_usize..20_000, 1_u64..20)
            .prop_map(|(is_client, bytes, messages)| Op::Say { is_client, bytes, messages }),
        3 => (is_client(), 1_usize..30)
            .prop_map(|(is_client, datagrams)| Op::Refuse { is_client, datagrams }),
        2 => (is_client(), 576_usize..1_500)
            .prop_map(|(is_client, bytes)| Op::Shorten { is_client, bytes }),
        3 => (1_u16..100).prop_map(|port| Op::Rebind { port }),
        2 => (0_u8..60).prop_map(|percent| Op::Lose { percent }),
        2 => Just(Op::UpdateKeys),
        1 => (is_client(), any::<bool>())
            .prop_map(|(is_client, at_once)| Op::Close { is_client, at_once }),
        1 => is_client().prop_map(|is_client| Op::Restart { is_client }),
    ]
}

/// What the kernels of both hosts refuse, and what they have seen; the client's first.
#[derive(Default)]
struct Kernels {
    refuses: [usize; 2],
    longest: [Option<usize>; 2],
    /// To be told.
    too_long: [Vec<usize>; 2],
    told: usize,
    /// Each packet with a sealed part that was handed to them, by its tag.
    sealed: BTreeSet<[u8; TAG_BYTES]>,
}

impl Kernels {
    fn take(&mut self, side: usize, bytes: &[u8]) -> Verdict {
        if let Some(tag) = tag_of(bytes) {
            self.sealed.insert(tag);
        }
        if self.longest[side].is_some_and(|longest| bytes.len() > longest) {
            self.too_long[side].push(bytes.len());
            return Verdict::Withhold;
        }
        match self.refuses[side].checked_sub(1) {
            Some(left) => {
                self.refuses[side] = left;
                Verdict::Withhold
            }
            None => Verdict::Pass,
        }
    }
}

fn tag_of(bytes: &[u8]) -> Option<[u8; TAG_BYTES]> {
    let is_sealed = match PacketKind::of(bytes[0]).unwrap() {
        PacketKind::Sealed => true,
        PacketKind::Handshake => HandshakeHeader::decode(bytes).unwrap().1 < bytes.len(),
        _ => false,
    };
    bytes.last_chunk().copied().filter(|_| is_sealed)
}

struct Scene {
    pair: Pair,
    toy: Toy,
    scenario: Scenario,
    kernels: Rc<RefCell<Kernels>>,
    updates: u64,
}

impl Scene {
    fn new(seed: u64, key_update_packets: u32) -> Self {
        let toy = Toy::new(Flights::default());
        let up =
            WireConfig { blackouts: vec![Duration::ZERO..MS], ..WireConfig::with_delay(5 * MS) };
        let scenario =
            Scenario { up, ..Scenario::new(seed) }.sealed(toy.clone(), key_update_packets);
        let mut pair = Pair::new(&scenario);
        let kernels = Rc::new(RefCell::new(Kernels::default()));
        let (seen, server) = (kernels.clone(), pair.world.address(pair.server));
        pair.world.set_tap(move |_: Duration, datagram: &Datagram, _: &mut Vec<Forged>| {
            let side = usize::from(datagram.from == server);
            seen.borrow_mut().take(side, &datagram.bytes)
        });
        Self { pair, toy, scenario, kernels, updates: 0 }
    }

    /// Runs for a while, in which the driver passes on what the kernel says.
    fn run(&mut self, time: Duration) {
        let end = self.pair.world.now() + time;
        while self.pair.world.run_one(end.saturating_sub(self.pair.world.now())).is_ok() {
            for is_client in [true, false] {
                let side = usize::from(!is_client);
                let refused = std::mem::take(&mut self.kernels.borrow_mut().too_long[side]);
                self.kernels.borrow_mut().told += refused.len();
                for bytes in refused {
                    self.with(is_client, |clock, connection, _| {
                        connection.handle_refused(clock.now(), Default::default(), bytes);
                    });
                }
            }
        }
    }

    /// Uses the connection of a side, if there is one.
    fn with(
        &mut self,
        is_client: bool,
        action: impl FnOnce(&arq_sim::Clock, &mut arq_proto::Connection, &mut arq_sim::App),
    ) {
        let id = if is_client { Some(self.pair.conn) } else { self.pair.accepted() };
        if let Some(id) = id.filter(|id| self.pair.world.get(*id).is_some()) {
            self.pair.world.with_conn(id, action);
        }
    }

    fn say(&mut self, is_client: bool, flow: Flow) {
        self.with(is_client, |clock, _, app| app.add_flow(clock.offset(), flow));
    }

    fn reconnect(&mut self) {
        let config = self.scenario.config.clone().validate().unwrap();
        let connect = Connect::sealed(config, Arc::new(self.toy.clone()), "server");
        let (client, server) = (self.pair.client, self.pair.server);
        self.pair.conn = self.pair.world.connect(client, server, connect, Default::default());
    }

    fn host(&self, is_client: bool) -> HostId {
        if is_client {
            self.pair.client
        } else {
            self.pair.server
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Say { is_client, bytes, messages } => {
                self.say(is_client, Flow::reliable(5, bytes, messages).every(MS));
            }
            Op::Refuse { is_client, datagrams } => {
                self.kernels.borrow_mut().refuses[usize::from(!is_client)] = datagrams;
            }
            Op::Shorten { is_client, bytes } => {
                self.kernels.borrow_mut().longest[usize::from(!is_client)] = Some(bytes);
            }
            Op::Rebind { port } => {
                let address = SocketAddr::from(([192, 0, 2, 1], port));
                self.pair.world.rebind(self.pair.client, address);
            }
            Op::Lose { percent } => {
                let loss = Loss::Random(f32::from(percent) / 100.0);
                let wire = WireConfig { loss, ..WireConfig::with_delay(5 * MS) };
                let (client, server) = (self.pair.client, self.pair.server);
                self.pair.world.lay_wire(client, server, wire.clone());
                self.pair.world.lay_wire(server, client, wire);
            }
            Op::UpdateKeys => {
                for is_client in [true, false] {
                    self.say(is_client, Flow::reliable(6, 500, 100).every(MS));
                }
                self.run(SEC);
                self.note_updates();
            }
            Op::Close { is_client, at_once } => {
                self.with(is_client, |clock, connection, _| match at_once {
                    true => connection.close(clock.now(), "enough"),
                    false => connection.finish(clock.now()),
                });
                self.run(50 * MS);
                self.reconnect();
            }
            Op::Restart { is_client } => {
                self.pair.world.restart(self.host(is_client));
                self.run(50 * MS);
                self.reconnect();
            }
        }
    }

    fn note_updates(&mut self) {
        let id: ConnId = self.pair.conn;
        let updates = self.pair.world.get(id).map(|one| one.connection().stats().key_updates);
        self.updates = self.updates.max(updates.unwrap_or_default());
    }

    /// The packets that were sealed.
    fn check(&self) -> Result<usize, TestCaseError> {
        let (sealed, left) = (self.toy.packets_sealed(), self.kernels.borrow().sealed.len());
        prop_assert_eq!(sealed, left, "sealed, and handed to a kernel");
        Ok(sealed)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // ARQ-SEC-1, ARQ-SEC-2, ARQ-NUM-1
    #[test]
    fn no_number_is_sealed_twice_and_each_leaves(
        seed in any::<u64>(),
        key_update_packets in 16_u32..64,
        ops in prop::collection::vec((op(), 0_u32..60), 1..25),
    ) {
        let mut scene = Scene::new(seed, key_update_packets);
        for (op, ms) in &ops {
            scene.apply(op);
            scene.run(*ms * MS);
        }
        scene.apply(&Op::Lose { percent: 0 });
        (scene.kernels.borrow_mut().refuses, scene.kernels.borrow_mut().longest) = Default::default();
        scene.run(5 * SEC);
        let sealed = scene.check()?;
        prop_assert!(sealed > 0);
    }
}

/// The ops do what they say, or the test above shows little.
#[test]
fn what_happens_to_packets_above_happens() {
    let mut scene = Scene::new(1, 16);
    let says = Op::Say { is_client: true, bytes: 20_000, messages: 20 };
    scene.run(100 * MS);
    for op in [
        Op::UpdateKeys,
        says.clone(),
        Op::Refuse { is_client: true, datagrams: 10 },
        says.clone(),
        Op::Shorten { is_client: true, bytes: 700 },
        says.clone(),
        Op::Rebind { port: 7 },
        says,
    ] {
        scene.apply(&op);
        scene.run(300 * MS);
    }
    scene.note_updates();
    assert!(scene.updates >= 5, "{}", scene.updates);
    assert_eq!(scene.kernels.borrow().refuses, [0, 0]);
    assert!(scene.kernels.borrow().told > 0);
    let moved_to = scene.pair.server_side().connection().remote();
    assert_eq!(moved_to, SocketAddr::from(([192, 0, 2, 1], 7)));
    let sealed = scene.check().unwrap();
    assert!(sealed > 500, "{sealed}");
}
