// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A server, two programs of one client's host, and what is under way between them.

use crate::{
    scene::{Budget, Cookie, Datagram, Packet, Place, Rule, Scene},
    side::{Leaving, Side, Turn, QUESTIONS},
};

/// Ids of a client for its attempts (ARQ-HSK-6), of which there are eight.
pub(crate) const ATTEMPTS: u8 = 2;
/// An id of the adversary's.
pub(crate) const STRANGER: u8 = 9;
/// A client's flight is repeated (ARQ-HSK-7): so often before a suspicion can end it.
const FLIGHTS: u8 = QUESTIONS;

/// A client that waits for the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Asking {
    cookie: Cookie,
    /// HELLOs without that cookie: older ones cause no other (ARQ-ADM-1).
    without_cookie: u8,
    /// HELLOs that its timer still sends, in the first second.
    pub(crate) repeats: u8,
    pub(crate) is_refused: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Absent,
    Asking(Asking),
    Open { server: u8, flights: u8, side: Side },
    Over,
}

/// A program of the client's host, with one association at most.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Program {
    pub(crate) place: Place,
    pub(crate) id: u8,
    /// HELLOs so far.
    asked: u8,
    pub(crate) phase: Phase,
}

impl Program {
    pub(crate) fn is_there(&self) -> bool {
        matches!(self.phase, Phase::Asking(_) | Phase::Open { .. })
    }
}

/// What the server keeps for a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kept {
    pub(crate) id: u8,
    /// Where its HELLO came from.
    pub(crate) from: Place,
    pub(crate) client: u8,
    /// Who is there has shown to receive there.
    pub(crate) is_validated: bool,
    /// There once the handshake is done.
    pub(crate) side: Option<Side>,
}

/// One of those who have an open association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Program(usize),
    Kept(u8),
}

/// What has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Facts {
    /// A side ended whose peer lives where it was taken to be.
    pub(crate) false_end: bool,
    /// The same, but the peer was elsewhere: a fade (§16).
    pub(crate) faded: bool,
    /// A side moved its peer to where it is not.
    pub(crate) false_move: bool,
    /// An association ended whose peer was gone, for another one.
    pub(crate) replaced: bool,
    /// One was moved to where the peer is.
    pub(crate) moved: bool,
    /// One was taken back to where the peer is, by its answer.
    pub(crate) taken_back: bool,
    /// One was held, by its rules for copies, where the peer is not.
    pub(crate) pinned: bool,
    /// One was moved to where the peer is in spite of copies.
    pub(crate) unpinned: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) programs: [Program; 2],
    pub(crate) server: Vec<Kept>,
    pub(crate) next_id: u8,
    /// On their way, sorted.
    pub(crate) flying: Vec<Datagram>,
    /// What the adversary has read, sorted.
    pub(crate) read: Vec<Packet>,
    pub(crate) budget: Budget,
    pub(crate) facts: Facts,
}

fn insert<T: Ord>(sorted: &mut Vec<T>, item: T) {
    if let Err(at) = sorted.binary_search(&item) {
        sorted.insert(at, item);
    }
}

impl World {
    pub(crate) fn new(scene: &Scene) -> Self {
        let absent = |n: u8| {
            let (place, id) = (Place::Home, n * ATTEMPTS);
            Program { place, id, asked: 0, phase: Phase::Absent }
        };
        let mut world = Self {
            programs: [absent(0), absent(1)],
            server: Vec::new(),
            next_id: 0,
            flying: Vec::new(),
            read: Vec::new(),
            budget: scene.budget,
            facts: Facts::default(),
        };
        if scene.is_open {
            let side = |peer| Side::new(peer).confirmed();
            let (server, flights) = (0, FLIGHTS);
            world.programs[0].phase = Phase::Open { server, flights, side: side(Place::Server) };
            let side = Some(side(Place::Home));
            let (from, client) = (Place::Home, 0);
            world.server.push(Kept { id: server, from, client, is_validated: true, side });
            world.next_id = 1;
            if scene.has_moved {
                world.rebind(scene);
            }
        } else {
            world.start(scene, 0, Place::Home);
        }
        world
    }

    pub(crate) fn rebind(&mut self, scene: &Scene) {
        self.programs[0].place = Place::Moved;
        // The mapping is new because something was sent.
        self.act(scene, Who::Program(0), Side::greet);
    }

    /// Leaves out what nobody can use any more.
    pub(crate) fn tidy(&mut self) {
        let Budget { copies, forgeries, .. } = self.budget;
        let is_cookie = |packet: &Packet| matches!(packet, Packet::Challenge { .. });
        self.read.retain(|packet| copies > 0 || forgeries > 0 && is_cookie(packet));
    }

    /// Something leaves, and is read.
    fn send(&mut self, scene: &Scene, datagram: Datagram) {
        let is_left = self.programs[0].place == Place::Moved && datagram.to == Place::Home;
        if datagram.to != Place::Foreign && !is_left {
            insert(&mut self.flying, datagram);
        } else if !scene.reads_all {
            return;
        }
        insert(&mut self.read, datagram.packet);
    }

    /// Nothing of this client's is on its way: what was sent has arrived, or was suppressed. Timers that leave room for a
    /// round trip expire only then.
    pub(crate) fn is_calm(&self, client: u8) -> bool {
        self.flying.iter().all(|datagram| datagram.packet.client() != client)
    }

    fn program_of(&self, client: u8) -> Option<usize> {
        self.programs.iter().position(|program| program.id == client && program.is_there())
    }

    fn kept(&self, id: u8) -> Option<usize> {
        self.server.iter().position(|kept| kept.id == id)
    }

    /// The side and the client's id.
    pub(crate) fn side(&self, who: Who) -> Option<(&Side, u8)> {
        match who {
            Who::Program(n) => match &self.programs[n] {
                Program { id, phase: Phase::Open { side, .. }, .. } => Some((side, *id)),
                _ => None,
            },
            Who::Kept(id) => {
                let kept = &self.server[self.kept(id)?];
                Some((kept.side.as_ref()?, kept.client))
            }
        }
    }

    /// Lets a side act. What it sends leaves.
    pub(crate) fn act<T>(
        &mut self,
        scene: &Scene,
        who: Who,
        act: impl FnOnce(&mut Side, &mut Turn<'_>) -> T,
    ) -> Option<T> {
        let mut out = Vec::new();
        let (lacks, mut asks) = (scene.lacks, self.budget.asks);
        let mut turn = Turn { lacks, asks: &mut asks, out: &mut out };
        let (done, from, client, server) = match who {
            Who::Program(n) => {
                let Program { place, id, phase, .. } = &mut self.programs[n];
                let Phase::Open { server, side, .. } = phase else { return None };
                (act(side, &mut turn), *place, *id, *server)
            }
            Who::Kept(id) => {
                let n = self.kept(id)?;
                let kept = &mut self.server[n];
                (act(kept.side.as_mut()?, &mut turn), Place::Server, kept.client, id)
            }
        };
        self.budget.asks = asks;
        let is_up = matches!(who, Who::Program(_));
        for Leaving { to, number, body } in out {
            let packet = Packet::Sealed { client, server, is_up, number, body };
            self.send(scene, Datagram { from, to, packet });
        }
        Some(done)
    }

    /// A program begins to ask.
    pub(crate) fn start(&mut self, scene: &Scene, n: usize, place: Place) {
        self.programs[n].place = place;
        self.ask(scene, n, QUESTIONS - 1);
    }

    /// A new attempt (ARQ-HSK-6).
    fn ask(&mut self, scene: &Scene, n: usize, repeats: u8) {
        let (cookie, without_cookie) = (Cookie::None, 0);
        let asking = Asking { cookie, without_cookie, repeats, is_refused: false };
        self.programs[n].phase = Phase::Asking(asking);
        self.hello(scene, n);
    }

    pub(crate) fn hello(&mut self, scene: &Scene, n: usize) {
        let Program { place, id, asked, phase } = &mut self.programs[n];
        let Phase::Asking(Asking { cookie, .. }) = phase else { return };
        let packet = Packet::Hello { client: *id, cookie: *cookie, nth: *asked };
        *asked += 1;
        let from = *place;
        self.send(scene, Datagram { from, to: Place::Server, packet });
    }

    /// A datagram arrives, which perhaps was never sent.
    pub(crate) fn deliver(&mut self, scene: &Scene, datagram: Datagram) {
        let Datagram { from, to, packet } = datagram;
        if to == Place::Server {
            return self.at_server(scene, from, packet);
        }
        let there = |program: &Program| program.place == to && program.is_there();
        if let Some(n) = self.programs.iter().position(there) {
            self.at_program(scene, n, from, packet);
        }
    }

    fn at_program(&mut self, scene: &Scene, n: usize, from: Place, packet: Packet) {
        let is_own = self.programs[n].id == packet.client();
        match packet {
            Packet::Sealed { client, server, is_up, .. } if !is_own && !is_up => {
                // ARQ-RST-1
                let packet = Packet::Reset { client, server, is_up: true };
                let from_here = self.programs[n].place;
                self.send(scene, Datagram { from: from_here, to: from, packet });
            }
            _ if !is_own || packet.is_up() => {}
            Packet::Sealed { server, number, body, .. } => {
                let is_open = matches!(&self.programs[n].phase,
                    Phase::Open { server: with, .. } if *with == server);
                if is_open {
                    self.act(scene, Who::Program(n), |side, turn| {
                        side.hear(from, (number, body), turn)
                    });
                }
            }
            Packet::Reset { server, .. } => {
                let is_open = matches!(&self.programs[n].phase,
                    Phase::Open { server: with, .. } if *with == server);
                if is_open {
                    self.suspect(scene, Who::Program(n), Rule::ResetIsEvidence);
                }
            }
            // ARQ-HS-6: only of who was asked.
            _ if from != Place::Server => {}
            Packet::Refuse { .. } => self.on_refuse(scene, n),
            Packet::Challenge { cookie, nth, .. } => self.on_challenge(scene, n, cookie, nth),
            Packet::ServerFlight { server, .. } => self.on_server_flight(scene, n, server),
            Packet::Hello { .. } | Packet::ClientFlight { .. } => {}
        }
    }

    /// ARQ-HS-9
    fn on_refuse(&mut self, scene: &Scene, n: usize) {
        let lacks = scene.lacks;
        match &mut self.programs[n].phase {
            Phase::Asking(_) if lacks == Some(Rule::RefusalIsDoubted) => self.end(Who::Program(n)),
            Phase::Asking(asking) => asking.is_refused = true,
            Phase::Open { side, .. } if !side.is_confirmed() => {
                self.suspect(scene, Who::Program(n), Rule::RefuseIsEvidence);
            }
            _ => {}
        }
    }

    /// ARQ-ADM-1
    fn on_challenge(&mut self, scene: &Scene, n: usize, given: Cookie, nth: u8) {
        let Program { asked, phase: Phase::Asking(asking), .. } = &mut self.programs[n] else {
            return;
        };
        if asking.cookie == Cookie::None || nth >= asking.without_cookie {
            (asking.cookie, asking.without_cookie) = (given, *asked);
            // In a second there are more HELLOs than that.
            asking.repeats = QUESTIONS - 1;
            self.hello(scene, n);
        }
    }

    fn on_server_flight(&mut self, scene: &Scene, n: usize, server: Option<u8>) {
        let program = &mut self.programs[n];
        let Phase::Asking(Asking { repeats, .. }) = program.phase else { return };
        let Some(server) = server else {
            // ARQ-HSK-6: it does not open.
            let is_last = (program.id + 1).is_multiple_of(ATTEMPTS);
            if is_last || scene.lacks == Some(Rule::SpoiledIsRepeated) {
                return self.end(Who::Program(n));
            }
            program.id += 1;
            return self.ask(scene, n, repeats);
        };
        let side = Side::new(Place::Server);
        program.phase = Phase::Open { server, flights: 0, side };
        self.repeat_flight(scene, n);
        self.act(scene, Who::Program(n), Side::greet);
    }

    /// ARQ-HSK-7
    fn repeat_flight(&mut self, scene: &Scene, n: usize) {
        let Program { place, id, phase, .. } = &mut self.programs[n];
        let Phase::Open { server, flights, side } = phase else { return };
        if side.is_confirmed() || *flights == FLIGHTS {
            return;
        }
        let packet = Packet::ClientFlight { client: *id, server: *server, nth: *flights };
        *flights += 1;
        let from = *place;
        self.send(scene, Datagram { from, to: Place::Server, packet });
    }

    fn at_server(&mut self, scene: &Scene, from: Place, packet: Packet) {
        match packet {
            Packet::Hello { client, cookie, nth } => {
                self.on_hello(scene, from, (client, cookie, nth));
            }
            Packet::ClientFlight { client, server, .. } => {
                self.on_client_flight(scene, from, client, server);
            }
            Packet::Sealed { client, server, is_up: true, number, body } => {
                if self.kept(server).is_none() {
                    // ARQ-RST-1
                    let packet = Packet::Reset { client, server, is_up: false };
                    return self.send(scene, Datagram { from: Place::Server, to: from, packet });
                }
                self.act(scene, Who::Kept(server), |side, turn| {
                    side.hear(from, (number, body), turn)
                });
            }
            Packet::Reset { server, is_up: true, .. } => {
                self.suspect(scene, Who::Kept(server), Rule::ResetIsEvidence);
            }
            _ => {}
        }
    }

    /// ARQ-HSK-5, ARQ-ADM-1
    fn on_hello(&mut self, scene: &Scene, from: Place, (client, cookie, nth): (u8, Cookie, u8)) {
        let lacks = |rule| scene.lacks == Some(rule);
        let known = self.server.iter().find(|kept| (kept.from, kept.client) == (from, client));
        if let Some(Kept { id, side, .. }) = known.filter(|_| !lacks(Rule::HelloIsKnown)) {
            if side.is_none() {
                let packet = Packet::ServerFlight { client, server: Some(*id), nth };
                self.send(scene, Datagram { from: Place::Server, to: from, packet });
            }
            return;
        }
        let is_validated = cookie == Cookie::For(from, client)
            || matches!(cookie, Cookie::For(..)) && lacks(Rule::CookieIsBound);
        let taken = self.server.iter().filter(|kept| !kept.is_validated).count();
        if !is_validated && taken >= scene.seats && !lacks(Rule::CookieFirst) {
            let packet = Packet::Challenge { client, cookie: Cookie::For(from, client), nth };
            return self.send(scene, Datagram { from: Place::Server, to: from, packet });
        }
        // ARQ-RPL-1, of sealed packets: the oldest one whose peer still has that address.
        let oldest = self.server.iter().find(|kept| kept.from == from);
        let is_still_there = |side: &Side| side.peer == from;
        let older = oldest.filter(|kept| kept.side.as_ref().is_some_and(is_still_there));
        let older = older.map(|kept| kept.id);
        let id = self.next_id;
        self.next_id += 1;
        self.server.push(Kept { id, from, client, is_validated, side: None });
        let packet = Packet::ServerFlight { client, server: Some(id), nth };
        self.send(scene, Datagram { from: Place::Server, to: from, packet });
        if let Some(older) = older {
            self.suspect(scene, Who::Kept(older), Rule::NewcomerIsEvidence);
        }
    }

    /// ARQ-HSK-5, ARQ-HSK-7
    fn on_client_flight(&mut self, scene: &Scene, from: Place, client: u8, server: u8) {
        let Some(n) = self.kept(server) else { return };
        let kept = &mut self.server[n];
        if (kept.from, kept.client) != (from, client) {
            return;
        }
        if let Some(side) = &kept.side {
            if !side.is_confirmed() {
                self.act(scene, Who::Kept(server), Side::greet);
            }
            return;
        }
        kept.is_validated = true;
        kept.side = Some(Side::new(from));
        self.act(scene, Who::Kept(server), Side::greet);
        // ARQ-RPL-2: both programs name one host, and prove the same credentials.
        let is_near = |place| !matches!(place, Place::Server | Place::Foreign);
        let is_near_side = |kept: &Kept| kept.side.as_ref().is_some_and(|side| is_near(side.peer));
        let older = self.server.iter().filter(|kept| kept.id < server && is_near_side(kept));
        let older: Vec<_> = older.filter(|_| is_near(from)).map(|kept| kept.id).collect();
        for id in older {
            self.suspect(scene, Who::Kept(id), Rule::SiblingIsEvidence);
        }
    }

    /// There is evidence that the peer is gone.
    fn suspect(&mut self, scene: &Scene, who: Who, rule: Rule) {
        if self.side(who).is_none() {
            return;
        }
        if scene.lacks == Some(rule) {
            return self.end(who);
        }
        let is_of_sibling = rule == Rule::SiblingIsEvidence;
        if self.act(scene, who, |side, _| side.suspect(is_of_sibling)) == Some(true) {
            self.ping(scene, who);
        }
    }

    /// A PING, because there is something to ask or to say.
    pub(crate) fn ping(&mut self, scene: &Scene, who: Who) {
        if self.budget.pings == 0 {
            return;
        }
        self.budget.pings -= 1;
        self.act(scene, who, Side::ping);
        if let Who::Program(n) = who {
            self.repeat_flight(scene, n);
        }
    }

    /// A side takes the peer to be gone.
    pub(crate) fn end(&mut self, who: Who) {
        let (lives, is_reached) = match who {
            Who::Program(n) => {
                let Program { id, place, phase, .. } = &self.programs[n];
                match phase {
                    Phase::Open { server, .. } => {
                        let kept = self.kept(*server).map(|n| &self.server[n]);
                        let at = |kept: &Kept| kept.side.as_ref().map_or(kept.from, |one| one.peer);
                        (kept.is_some_and(|kept| kept.client == *id), kept.map(at) == Some(*place))
                    }
                    // The server is there.
                    _ => (true, true),
                }
            }
            Who::Kept(id) => {
                let Some((side, client)) = self.side(who) else { return };
                let program = self.program_of(client).map(|n| &self.programs[n]);
                let is_peer = |one: &&Program| matches!(one.phase, Phase::Open { server, .. } if server == id);
                let program = program.filter(is_peer);
                (program.is_some(), program.is_some_and(|program| program.place == side.peer))
            }
        };
        self.facts.false_end |= lives && is_reached;
        self.facts.faded |= lives && !is_reached;
        self.facts.replaced |= !lives && self.programs[1].is_there();
        match who {
            Who::Program(n) => self.programs[n].phase = Phase::Over,
            Who::Kept(id) => self.server.retain(|kept| kept.id != id),
        }
    }

    /// What a side's last step made of where it takes its peer to be.
    pub(crate) fn note_moves(&mut self, before: &Self, is_copy: bool) {
        let sides = [Who::Program(0), Who::Program(1)].into_iter();
        let sides: Vec<_> =
            sides.chain(before.server.iter().map(|one| Who::Kept(one.id))).collect();
        for who in sides {
            let side = |world: &Self| world.side(who).map(|(side, client)| (side.clone(), client));
            let (Some((old, client)), Some((new, _))) = (side(before), side(self)) else {
                continue;
            };
            let is_at = match who {
                Who::Program(_) => Some(Place::Server),
                Who::Kept(_) => self.program_of(client).map(|n| self.programs[n].place),
            };
            let is_right = is_at == Some(new.peer);
            let is_doubted = new.is_doubtful && !old.is_doubtful;
            self.facts.pinned |= is_doubted && !is_right;
            if old.peer == new.peer {
                continue;
            }
            self.facts.moved |= is_right && new.peer == Place::Moved;
            self.facts.unpinned |= is_right && new.peer == Place::Moved && old.copied.is_some();
            self.facts.false_move |= !is_right && new.peer != Place::Home;
            self.facts.taken_back |= is_doubted && is_right && is_copy;
        }
    }
}
