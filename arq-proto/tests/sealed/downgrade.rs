// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A relay rewrites which versions are offered, and what is answered: no side that seals its packets is ever brought to do
//! without, whatever its peer would take.

use std::{cell::Cell, mem::discriminant, net::SocketAddr, rc::Rc, sync::Arc, time::Duration};

use arq_proto::{
    session::{Protection, Security},
    wire::{
        flight::SealedChallenge,
        packet::{PacketKind, Refuse},
        Version,
    },
    Connect, ConnectionError, EndpointConfig, RefuseReason, Reliability, ValidConfig,
};
use arq_sim::{
    hostile, lane,
    toy::{Flights, Toy},
    AppPlan, ConnId, Datagram, Flow, Forged, HostConfig, HostId, Verdict, WireConfig, World,
};

use crate::common::{MS, SEC};

const MESSAGES: u64 = 50;
/// Where a HELLO counts its versions.
const COUNT_AT: usize = 1 + 8 + 8 + 1;
const CHECKSUM_BYTES: usize = 4;

/// Servers and clients of both sorts in one world.
struct Scene {
    world: World,
    toy: Arc<dyn Security>,
    hosts: u8,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let toy = Arc::new(Toy::new(Flights::default()));
        Self { world: World::new(seed), toy, hosts: 0 }
    }

    fn address(&mut self) -> SocketAddr {
        self.hosts += 1;
        ([10, 0, 0, self.hosts], 7447).into()
    }

    fn server(&mut self, is_sealed: bool, max_unvalidated_handshakes: usize) -> HostId {
        let mut endpoint = EndpointConfig::new(ValidConfig::default())
            .with_max_unvalidated_handshakes(max_unvalidated_handshakes);
        if is_sealed {
            endpoint = endpoint.with_protection(Protection::Sealed(self.toy.clone()));
        }
        let (address, on_accept) = (self.address(), talk());
        let config = HostConfig { endpoint, on_accept, ..HostConfig::new("server", address) };
        self.world.add_host(config)
    }

    fn client(&mut self, is_sealed: bool, server: HostId) -> ConnId {
        let address = self.address();
        let client = self.world.add_host(HostConfig::new("client", address));
        for (from, to) in [(client, server), (server, client)] {
            self.world.lay_wire(from, to, WireConfig::with_delay(10 * MS));
        }
        let config = ValidConfig::default();
        let connect = match is_sealed {
            true => Connect::sealed(config, self.toy.clone(), "server"),
            false => config.into(),
        };
        self.world.connect(client, server, connect, talk())
    }

    fn error_of(&mut self, conn: ConnId) -> ConnectionError {
        let closed = |world: &World| world.conn(conn).closed.is_some();
        self.world.run_until(15 * SEC, closed).unwrap();
        let conn = self.world.conn(conn);
        assert_eq!(conn.connected_at, None);
        conn.error().unwrap().clone()
    }

    /// Both sides of a connection have all messages of the other.
    fn is_served(&self, conn: ConnId, server: HostId) -> bool {
        let accepted = self.world.accepted(server);
        let read = |id: ConnId| {
            let app = &self.world.conn(id).app;
            app.inbox(lane(5, Reliability::Reliable)).messages
        };
        accepted.len() == 1 && read(conn) == MESSAGES && read(accepted[0]) == MESSAGES
    }
}

fn talk() -> AppPlan {
    AppPlan::sends([Flow::reliable(5, 2_000, MESSAGES).every(10 * MS)])
}

/// Packets of associations in the clear that leave hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct InClear {
    data: usize,
    challenges: usize,
}

impl InClear {
    fn of(bytes: &[u8]) -> Self {
        match PacketKind::of(bytes[0]).unwrap() {
            PacketKind::Data { .. } => Self { data: 1, challenges: 0 },
            PacketKind::Challenge if SealedChallenge::decode(bytes).is_err() => {
                Self { data: 0, challenges: 1 }
            }
            _ => Self::default(),
        }
    }

    fn and(self, other: Self) -> Self {
        let (data, challenges) = (self.data + other.data, self.challenges + other.challenges);
        Self { data, challenges }
    }
}

/// A HELLO with other versions, of the same length; `frames`: with what follows those.
fn with_versions(hello: &[u8], versions: &[Version], frames: bool) -> Vec<u8> {
    let body = hello.len() - CHECKSUM_BYTES;
    let end = COUNT_AT + 1 + 4 * usize::from(hello[COUNT_AT]);
    let mut out = [&hello[..COUNT_AT], &[versions.len() as u8]].concat();
    versions.iter().for_each(|version| out.extend_from_slice(&version.number().to_be_bytes()));
    if frames {
        out.extend_from_slice(&hello[end..body]);
    }
    out.resize(body, 0);
    hostile::sealed(&out)
}

/// What the relay makes of a HELLO, and of a REFUSE.
#[derive(Debug, Clone, Copy)]
struct Relay {
    hello: &'static [Version],
    keeps_frames: bool,
    refuse: Option<&'static [Version]>,
}

use Version::{Clear, Sealed};

impl Relay {
    /// Passes on what it has changed. Counts what leaves hosts in the clear.
    fn set(self, world: &mut World) -> Rc<Cell<InClear>> {
        let in_clear = Rc::new(Cell::new(InClear::default()));
        let counted = in_clear.clone();
        world.set_tap(move |_: Duration, datagram: &Datagram, _: &mut Vec<Forged>| {
            let bytes = &datagram.bytes[..];
            counted.set(counted.get().and(InClear::of(bytes)));
            match (PacketKind::of(bytes[0]).unwrap(), self.refuse) {
                (PacketKind::Hello, _) => {
                    Verdict::Replace(with_versions(bytes, self.hello, self.keeps_frames))
                }
                (PacketKind::Refuse, Some(versions)) => {
                    let mut refuse = Refuse::decode(bytes).unwrap();
                    refuse.versions = versions.iter().map(|version| version.number()).collect();
                    let mut out = Vec::new();
                    refuse.encode(&mut out);
                    Verdict::Replace(out)
                }
                _ => Verdict::Pass,
            }
        });
        in_clear
    }
}

fn timed_out() -> ConnectionError {
    ConnectionError::HandshakeTimedOut { within: SEC, most: 0, least: 0 }
}

// ARQ-VER-2, ARQ-VER-3, ARQ-HSK-2
#[test]
fn two_sealed_sides_never_connect_in_the_clear() {
    let relay = |hello, keeps_frames, refuse| Relay { hello, keeps_frames, refuse };
    let refused = || ConnectionError::Refused(RefuseReason::Version);
    let only_clear = || ConnectionError::PeerOnlyClear;
    for (relay, error) in [
        (relay(&[Clear], true, None), refused()),
        (relay(&[Clear], false, None), refused()),
        (relay(&[Clear], true, Some(&[Clear])), only_clear()),
        (relay(&[Clear], false, Some(&[Clear, Sealed])), only_clear()),
        (relay(&[Clear], true, Some(&[])), refused()),
        (relay(&[Sealed], false, None), timed_out()),
        (relay(&[Clear, Sealed], false, None), timed_out()),
    ] {
        for budget in [0, 64] {
            let mut scene = Scene::new(1);
            let in_clear = relay.set(&mut scene.world);
            let server = scene.server(true, budget);
            let client = scene.client(true, server);
            let told = scene.error_of(client);
            assert_eq!(discriminant(&told), discriminant(&error), "{relay:?}: {told}");
            assert_eq!(in_clear.get(), InClear::default(), "{relay:?}");
            let mut accepted = scene.world.accepted(server).iter();
            assert!(accepted.all(|id| scene.world.conn(*id).connected_at.is_none()), "{relay:?}");
        }
    }
}

/// The list in the clear is worth nothing: that of the session counts, and the server takes none but its own.
// ARQ-VER-3, ARQ-HSK-2
#[test]
fn who_adds_the_clear_version_to_the_offer_changes_nothing() {
    for hello in [&[Clear, Sealed][..], &[Sealed, Clear]] {
        for budget in [0, 64] {
            let mut scene = Scene::new(1);
            let relay = Relay { hello, keeps_frames: true, refuse: None };
            let in_clear = relay.set(&mut scene.world);
            let server = scene.server(true, budget);
            let client = scene.client(true, server);
            let all = |scene: &Scene| scene.is_served(client, server);
            while !all(&scene) {
                scene.world.run_one(5 * SEC).unwrap();
            }
            assert_eq!(in_clear.get(), InClear::default(), "{hello:?}");
            assert!(scene.world.conn(client).connection().peer_identity().is_some());
        }
    }
}

/// Where only one side seals, the other may answer in the clear. That side does not follow.
// ARQ-VER-3
#[test]
fn a_sealed_side_says_nothing_to_a_clear_one_whatever_a_relay_makes_of_it() {
    for hello in [&[Clear][..], &[Clear, Sealed]] {
        let relay = Relay { hello, keeps_frames: true, refuse: None };
        let mut scene = Scene::new(1);
        let in_clear = relay.set(&mut scene.world);
        let server = scene.server(false, 64);
        let client = scene.client(true, server);
        let told = scene.error_of(client);
        assert_eq!(discriminant(&told), discriminant(&timed_out()), "{hello:?}: {told}");
        let InClear { data, challenges } = in_clear.get();
        assert!(challenges > 0 && data == 0, "{hello:?}: answered, and in vain: {in_clear:?}");
        assert_eq!(scene.world.accepted(server), [], "{hello:?}");
    }
    let relay = Relay { hello: &[Sealed], keeps_frames: true, refuse: None };
    let mut scene = Scene::new(1);
    let in_clear = relay.set(&mut scene.world);
    let server = scene.server(true, 64);
    let client = scene.client(false, server);
    let told = scene.error_of(client);
    assert_eq!(discriminant(&told), discriminant(&timed_out()), "{told}");
    assert_eq!((in_clear.get(), scene.world.accepted(server)), (InClear::default(), &[][..]));
}

// ARQ-VER-3
#[test]
fn a_clear_and_a_sealed_listener_serve_their_own_clients_at_once() {
    let mut scene = Scene::new(1);
    let [sealed, clear] = [true, false].map(|is_sealed| scene.server(is_sealed, 64));
    let [to_sealed, to_clear] = [sealed, clear].map(|host| scene.world.address(host));
    scene.world.set_tap(move |_: Duration, datagram: &Datagram, _: &mut Vec<Forged>| {
        let kind = PacketKind::of(datagram.bytes[0]).unwrap();
        let is_of = |address| datagram.from == address || datagram.to == address;
        let is_clear = InClear::of(&datagram.bytes) != InClear::default();
        assert!(!is_of(to_sealed) || !is_clear, "{kind:?}");
        let is_sealed = matches!(kind, PacketKind::Sealed | PacketKind::Handshake);
        assert!(!is_of(to_clear) || !is_sealed, "{kind:?}");
        Verdict::Pass
    });
    let of_sealed = scene.client(true, sealed);
    let of_clear = scene.client(false, clear);
    // And two who went to the wrong one.
    let [lost, strict] = [scene.client(false, sealed), scene.client(true, clear)];
    while !(scene.is_served(of_sealed, sealed) && scene.is_served(of_clear, clear)) {
        scene.world.run_one(5 * SEC).unwrap();
    }
    assert_eq!(scene.error_of(lost), ConnectionError::PeerOnlySealed);
    assert_eq!(scene.error_of(strict), ConnectionError::PeerOnlyClear);
    let identity = |id| scene.world.conn(id).connection().peer_identity().is_some();
    assert_eq!([of_sealed, of_clear].map(identity), [true, false]);
    assert_eq!([of_sealed, of_clear].map(|id| scene.world.conn(id).error()), [None, None]);
}
