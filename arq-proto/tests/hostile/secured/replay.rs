// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A whole sealed session is recorded and played again: in the middle of it, after its end, and after restarts. It
//! changes nothing.
//!
//! Each scene is played twice with each seed, on wires that lose nothing: in peace, and with the recording. What the two
//! differ in is what the recording did.

use std::{cell::RefCell, collections::BTreeMap, net::SocketAddr, rc::Rc, time::Duration};

use arq_proto::{wire::packet::PacketKind, ConnectionError};
use arq_sim::{
    toy::{Flights, Toy},
    ConnId, Datagram, Exchange, Forged, HostId, Pair, Scenario, WireConfig,
};

use crate::{
    common::{seeds, MS, SEC},
    handshake::record,
    stranger, talk, AMPLIFICATION,
};

/// From where a recording is played again: from its own addresses, or from two that nobody has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Old,
    New,
}

impl From {
    fn of(self, datagram: &Datagram) -> SocketAddr {
        let is_up = datagram.to == Pair::SERVER.parse().unwrap();
        match self {
            Self::Old => datagram.from,
            Self::New => stranger(if is_up { 1 } else { 2 }),
        }
    }
}

/// What is played of it: the few packets of the handshake have a bound that is lost in that of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    Handshake,
}

impl Part {
    fn has(self, datagram: &Datagram) -> bool {
        let kind = PacketKind::of(datagram.bytes[0]);
        self == Self::All || matches!(kind, Ok(PacketKind::Hello | PacketKind::Handshake))
    }
}

/// Plays a recording, or waits as long, and tells what each host got and sent in that time.
struct Player {
    pair: Pair,
    seen: Rc<RefCell<Vec<Datagram>>>,
    /// All that had been seen when it was played for the first time.
    recording: Option<Vec<Datagram>>,
    from: From,
    part: Part,
    is_calm: bool,
    /// All that is compared.
    windows: Vec<Window>,
}

/// Bytes of each host with each address since the recording began to play, of which `played` are of the recording.
#[derive(Debug, Default)]
struct Window {
    exchanges: BTreeMap<(HostId, SocketAddr), Exchange>,
    played: BTreeMap<(HostId, SocketAddr), u64>,
    /// Connections that are, or were, open on each side, what they have delivered, and whether they have ended.
    open: Vec<Known>,
    /// Those that never opened, and have not ended.
    left: Vec<ConnId>,
}

#[derive(Debug, Clone, PartialEq)]
struct Known {
    id: ConnId,
    remote: SocketAddr,
    messages_read: u64,
    path_events: usize,
    error: Option<ConnectionError>,
}

/// Each scene is judged over so many seeds.
const SEEDS: u64 = 8;
/// Long enough for a handshake to be given up.
const WATCHED_FOR: Duration = Duration::from_secs(15);

impl Player {
    fn new(scenario: &Scenario, from: From, part: Part, is_calm: bool) -> Self {
        let mut pair = Pair::new(scenario);
        let seen = record(&mut pair);
        Self { pair, seen, recording: None, from, part, is_calm, windows: Vec::new() }
    }

    fn run(&mut self, time: Duration) {
        self.pair.world.run_for(time).unwrap();
    }

    fn play(&mut self) {
        let before = self.exchanges();
        let mut window = Window::default();
        let seen = &self.seen;
        let recorded = self.recording.get_or_insert_with(|| seen.borrow().clone()).clone();
        // A datagram each 0.1 ms, in their order: faster than any answer, and no two at once.
        let played = recorded.iter().filter(|one| !self.is_calm && self.part.has(one));
        for (n, datagram) in (1..).zip(played) {
            let (from, to) = (self.from.of(datagram), datagram.to);
            let bytes = datagram.bytes.to_vec();
            let host = [self.pair.client, self.pair.server]
                .into_iter()
                .find(|host| self.pair.world.address(*host) == to);
            *window.played.entry((host.unwrap(), from)).or_default() += bytes.len() as u64;
            self.pair.world.forge(Forged { from, to, after: n * MS / 10, bytes });
        }
        self.run(WATCHED_FOR);
        for (key, Exchange { received_bytes, sent_bytes }) in self.exchanges() {
            let earlier = before.get(&key).copied().unwrap_or_default();
            let (received_bytes, sent_bytes) =
                (received_bytes - earlier.received_bytes, sent_bytes - earlier.sent_bytes);
            window.exchanges.insert(key, Exchange { received_bytes, sent_bytes });
        }
        (window.open, window.left) = self.known();
        self.windows.push(window);
    }

    fn exchanges(&self) -> BTreeMap<(HostId, SocketAddr), Exchange> {
        let world = &self.pair.world;
        let of = |host| world.exchanges(host).map(move |(with, bytes)| ((host, with), bytes));
        of(self.pair.client).chain(of(self.pair.server)).collect()
    }

    /// A host that was restarted knows nothing of what it had before.
    fn known(&self) -> (Vec<Known>, Vec<ConnId>) {
        let world = &self.pair.world;
        let accepted = world.accepted(self.pair.server).iter().copied();
        let (mut open, mut left) = (Vec::new(), Vec::new());
        for id in std::iter::once(self.pair.conn).chain(accepted) {
            let Some(conn) = world.get(id) else { continue };
            if conn.connected_at.is_some() {
                let (remote, error) = (conn.connection().remote(), conn.error().cloned());
                let (messages_read, path_events) =
                    (conn.app.messages_read(), conn.path_events.len());
                open.push(Known { id, remote, messages_read, path_events, error });
            } else if conn.closed.is_none() {
                left.push(id);
            }
        }
        (open, left)
    }
}

/// Plays a scene in peace and with the recording, from the old and from new addresses.
fn changes_nothing(scene: impl Fn(&mut Player)) {
    let parts = [Part::All, Part::Handshake];
    for (from, part) in parts.into_iter().flat_map(|part| [(From::Old, part), (From::New, part)]) {
        // Who is driven more often cuts packets elsewhere: only over several seeds does that even out.
        let mut answered: BTreeMap<_, [u64; 3]> = BTreeMap::new();
        for seed in seeds(SEEDS) {
            let [calm, played] = [true, false].map(|is_calm| {
                let mut player = Player::new(&scenario(seed), from, part, is_calm);
                scene(&mut player);
                player.windows
            });
            assert!(!played.is_empty() && played.len() == calm.len());
            for (n, (calm, played)) in calm.iter().zip(&played).enumerate() {
                compare(calm, played, &format!("seed {seed}, {from:?}, {part:?}, time {n}"));
                for (&key, bytes) in &played.played {
                    let of = |window: &Window| {
                        window.exchanges.get(&key).map_or(0, |one| one.sent_bytes)
                    };
                    let sums = answered.entry((n, key)).or_default();
                    let terms = [*bytes, of(calm), of(played)];
                    sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
                }
            }
        }
        for (at, [bytes, calm, played]) in answered {
            println!("{from:?}, {part:?}, {at:?}: {played} bytes, not {calm}, for {bytes}");
            assert!(played <= calm + AMPLIFICATION * bytes, "{from:?}, {part:?}, {at:?}");
        }
    }
}

fn scenario(seed: u64) -> Scenario {
    // The HELLOs that leave before anybody listens are lost.
    let up =
        WireConfig { blackouts: vec![Duration::ZERO..40 * MS], ..WireConfig::with_delay(10 * MS) };
    let toy = Toy::new(Flights::default());
    Scenario { up, ..Scenario::new(seed) }.both_send(talk()).sealed(toy, 64)
}

fn compare(calm: &Window, played: &Window, at: &str) {
    assert_eq!(played.open, calm.open, "{at}: as if nothing had been played");
    assert_eq!(played.left, [], "{at}: its state is gone");
    assert!(played.played.len() == 2, "{at}: both sides hear of it");
    let others = played.exchanges.iter().filter(|(key, _)| !played.played.contains_key(key));
    for (key, Exchange { sent_bytes, .. }) in others {
        let usual = calm.exchanges.get(key).map_or(0, |one| one.sent_bytes);
        let slack = usual / 10 + 1_200;
        assert!(*sent_bytes <= usual + slack, "{at}: {sent_bytes} to {key:?}, not {usual}");
    }
}

// ARQ-SEC-4, ARQ-HSK-8, ARQ-AMP-1
#[test]
fn in_the_middle_of_the_conversation() {
    changes_nothing(|player| {
        player.pair.run_to_connected(SEC).unwrap();
        player.run(500 * MS);
        player.play();
        let open = &player.windows[0].open;
        assert_eq!(open.len(), 2);
        assert!(open.iter().all(|known| known.messages_read == 200), "{open:?}");
    });
}

/// An old session without loss, delivered and ended in an orderly way.
fn end(player: &mut Player) {
    player.pair.run_to_delivery(10 * SEC).unwrap();
    let id = player.pair.conn;
    player.pair.world.with_conn(id, |clock, connection, _| connection.finish(clock.now()));
    player.pair.run(10 * SEC, |pair| pair.server_side().closed.is_some()).unwrap();
    let has_all_kinds = |kinds: &[u8]| {
        let recorded = player.seen.borrow();
        kinds.iter().all(|kind| recorded.iter().any(|seen| seen.bytes[0] & !1 == *kind))
    };
    assert!(has_all_kinds(&[0xa0, 0xa4, 0xb0]), "a whole session");
}

// ARQ-HSK-8, ARQ-CID-3, ARQ-AMP-1
#[test]
fn one_second_and_a_minute_after_its_end() {
    changes_nothing(|player| {
        end(player);
        player.run(SEC);
        player.play();
        player.run(61 * SEC - WATCHED_FOR);
        player.play();
    });
}

/// The other side still has the association, and finds out meanwhile that nobody has the rest of it.
// ARQ-HSK-8, ARQ-RST-1, ARQ-AMP-1
#[test]
fn after_a_restart_of_the_server() {
    changes_nothing(|player| {
        player.pair.run_to_delivery(10 * SEC).unwrap();
        let server = player.pair.server;
        player.pair.world.restart(server);
        player.play();
        assert!(player.pair.client_side().closed.is_some());
        player.run(61 * SEC);
        player.play();
    });
}

// ARQ-HSK-8, ARQ-RST-1, ARQ-AMP-1
#[test]
fn after_a_restart_of_the_client() {
    changes_nothing(|player| {
        player.pair.run_to_delivery(10 * SEC).unwrap();
        let (client, accepted) = (player.pair.client, player.pair.accepted().unwrap());
        player.pair.world.restart(client);
        player.play();
        assert!(player.pair.world.get(accepted).unwrap().closed.is_some());
        player.run(61 * SEC);
        player.play();
    });
}
