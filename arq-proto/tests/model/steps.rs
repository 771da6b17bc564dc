// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What may happen next: in the network, which is the adversary, and at its ends.

use stateright::{Model, Property};

use crate::{
    scene::{Cookie, Datagram, Packet, Place, Rule, Scene},
    world::{Phase, Program, Who, World, STRANGER},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Deliver(Datagram),
    Suppress(Datagram),
    /// A packet that was read, from this address.
    Copy(Datagram),
    /// One of the adversary's own.
    Forge(Datagram),
    Ping(Who),
    /// A suspicion comes to its verdict.
    Convict(Who),
    /// An address has answered.
    Follow(Who),
    /// What is kept for some seconds is forgotten.
    Forget(Who),
    /// The timer of HELLO.
    Repeat(usize),
    /// The first second of an attempt that was refused is over.
    GiveUp(usize),
    Kill,
    Start(Place),
    Rebind,
    RestartServer,
}

impl Scene {
    /// Copies and forgeries go to whom they can concern.
    fn aimed(world: &World, from: Place, packet: Packet) -> Option<Datagram> {
        if packet.is_up() {
            return Some(Datagram { from, to: Place::Server, packet });
        }
        let is_for = |program: &&Program| program.id == packet.client() && program.is_there();
        let to = world.programs.iter().find(is_for)?.place;
        Some(Datagram { from, to, packet })
    }

    fn copies(&self, world: &World, steps: &mut Vec<Step>) {
        let moved = world.programs[0].place;
        for packet in &world.read {
            let is_of_sender = |from: Place| match packet.is_up() {
                true => from != Place::Server && (from != Place::Moved || from == moved),
                false => matches!(from, Place::Server | Place::Foreign),
            };
            let from = self.copies_from.iter().filter(|from| is_of_sender(**from));
            let aimed = from.filter_map(|from| Self::aimed(world, *from, *packet));
            steps.extend(aimed.map(Step::Copy));
        }
    }

    /// All that can be made without keys. RESET names a packet that he has read.
    fn forgeries(world: &World) -> Vec<Packet> {
        let mut forged = Vec::new();
        for program in &world.programs {
            let client = program.id;
            match &program.phase {
                Phase::Asking(_) => forged.extend([
                    Packet::Refuse { client },
                    Packet::Challenge { client, cookie: Cookie::Junk, nth: u8::MAX },
                    Packet::ServerFlight { client, server: None, nth: 0 },
                ]),
                Phase::Open { .. } => forged.push(Packet::Refuse { client }),
                Phase::Absent | Phase::Over => {}
            }
        }
        let open = world.server.iter().filter(|kept| kept.side.is_some());
        let reset = |is_up| move |(client, server)| Packet::Reset { client, server, is_up };
        forged.extend(open.map(|kept| (kept.client, kept.id)).map(reset(true)));
        let open = world.programs.iter().filter_map(|program| match program.phase {
            Phase::Open { server, .. } => Some((program.id, server)),
            _ => None,
        });
        forged.extend(open.map(reset(false)));
        forged
    }

    fn hellos(world: &World) -> Vec<Packet> {
        let read = world.read.iter().filter_map(|packet| match packet {
            Packet::Challenge { cookie, .. } => Some(*cookie),
            _ => None,
        });
        let cookies: Vec<_> = [Cookie::None].into_iter().chain(read).collect();
        let clients = [world.programs[0].id, STRANGER];
        let of = |client| cookies.iter().map(move |&cookie| (client, cookie));
        let hello = |(client, cookie)| Packet::Hello { client, cookie, nth: u8::MAX };
        clients.into_iter().flat_map(of).map(hello).collect()
    }

    fn adversary(&self, world: &World, steps: &mut Vec<Step>) {
        if world.budget.drops > 0 {
            steps.extend(world.flying.iter().map(|datagram| Step::Suppress(*datagram)));
        }
        if world.budget.copies > 0 {
            self.copies(world, steps);
        }
        if world.budget.forgeries > 0 {
            for packet in Self::forgeries(world) {
                let from = if packet.is_up() { Place::Home } else { Place::Server };
                steps.extend(Self::aimed(world, from, packet).map(Step::Forge));
            }
            for packet in Self::hellos(world) {
                let to = Place::Server;
                let from = [Place::Home, Place::Foreign].into_iter();
                steps.extend(from.map(|from| Step::Forge(Datagram { from, to, packet })));
            }
        }
    }

    fn timers(&self, world: &World, steps: &mut Vec<Step>) {
        let kept = world.server.iter().map(|kept| Who::Kept(kept.id));
        for who in [Who::Program(0), Who::Program(1)].into_iter().chain(kept) {
            let Some((side, client)) = world.side(who) else { continue };
            let is_calm = world.is_calm(client);
            if world.budget.pings > 0 && (self.is_open || side.is_suspicious()) {
                steps.push(Step::Ping(who));
            }
            if side.is_convicted() && (is_calm || self.lacks == Some(Rule::QuestionsTakeTime)) {
                steps.push(Step::Convict(who));
            }
            let could_answer = is_calm || self.lacks == Some(Rule::OldCouldAnswer);
            if side.followed().is_some() && could_answer {
                steps.push(Step::Follow(who));
            }
            if is_calm {
                steps.push(Step::Forget(who));
            }
        }
        for (n, program) in world.programs.iter().enumerate() {
            let Phase::Asking(asking) = &program.phase else { continue };
            if asking.repeats > 0 {
                steps.push(Step::Repeat(n));
            } else if asking.is_refused && world.is_calm(program.id) {
                steps.push(Step::GiveUp(n));
            }
        }
    }

    /// What happens without anybody's ill will.
    fn events(world: &World, steps: &mut Vec<Step>) {
        let [first, second] = &world.programs;
        let is_open = matches!(first.phase, Phase::Open { .. });
        let budget = &world.budget;
        if is_open && budget.kills > 0 {
            steps.push(Step::Kill);
        }
        if is_open && budget.rebindings > 0 {
            steps.push(Step::Rebind);
        }
        if is_open && budget.restarts > 0 {
            steps.push(Step::RestartServer);
        }
        if second.phase == Phase::Absent && budget.starts > 0 {
            if !first.is_there() {
                steps.push(Step::Start(Place::Home));
            }
            steps.push(Step::Start(Place::Beside));
        }
    }

    fn take(&self, world: &mut World, step: Step) {
        let budget = &mut world.budget;
        match step {
            Step::Copy(datagram) => {
                budget.copies -= 1;
                world.deliver(self, datagram);
            }
            Step::Forge(datagram) => {
                budget.forgeries -= 1;
                world.deliver(self, datagram);
            }
            Step::Deliver(datagram) => {
                world.flying.retain(|flying| *flying != datagram);
                world.deliver(self, datagram);
            }
            Step::Suppress(datagram) => {
                budget.drops -= 1;
                world.flying.retain(|flying| *flying != datagram);
            }
            Step::Ping(who) => world.ping(self, who),
            Step::Convict(who) => world.end(who),
            Step::Follow(who) => {
                world.act(self, who, |side, _| side.follow());
            }
            Step::Forget(who) => {
                world.act(self, who, |side, _| side.forget());
            }
            Step::Repeat(n) => {
                if let Phase::Asking(asking) = &mut world.programs[n].phase {
                    asking.repeats -= 1;
                }
                world.hello(self, n);
            }
            Step::GiveUp(n) => world.end(Who::Program(n)),
            Step::Kill => {
                budget.kills -= 1;
                world.programs[0].phase = Phase::Over;
            }
            Step::Start(place) => {
                budget.starts -= 1;
                world.start(self, 1, place);
            }
            Step::Rebind => {
                budget.rebindings -= 1;
                world.rebind(self);
            }
            Step::RestartServer => {
                budget.restarts -= 1;
                world.server.clear();
            }
        }
    }
}

impl Model for Scene {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        steps.extend(world.flying.iter().map(|datagram| Step::Deliver(*datagram)));
        self.timers(world, steps);
        Self::events(world, steps);
        self.adversary(world, steps);
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
        let mut world = before.clone();
        self.take(&mut world, step);
        world.note_moves(before, matches!(step, Step::Copy(_)));
        world.tidy();
        // Of no effect, but that it was tried.
        let has_effect = World { budget: before.budget, ..world.clone() } != *before;
        has_effect.then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let all = crate::properties();
        all.into_iter().filter(|property| self.claims.contains(&property.name)).collect()
    }
}
