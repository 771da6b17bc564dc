// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Can an adversary who is the network, but has no keys, end or move an association that lives?
//!
//! A model of `docs/protocol.md` in version 0x61727102, of which every order of events is checked: handshake, admission,
//! suspicion, replacement, change of address. He delivers when and in what order he likes, copies what he has read from
//! any address, and sends all that needs no keys. Time is what a round trip takes: a verdict waits until all that was
//! sent has arrived or was suppressed. He suppresses less than the rules take for chance, since nobody survives a network
//! that carries nothing.
//!
//! Not in it: packets in the clear, idle time-outs, reports of closed ports, several paths, used-up keys, full servers, an
//! adversary with credentials.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod scene;
mod side;
mod steps;
mod world;

use scene::{Budget, Place, Rule, Scene};
use side::QUESTIONS;
use stateright::{Checker, HasDiscoveries, Model, Property};
use world::{Phase, Who, World};

const NO_FALSE_END: &str = "no association ends whose peer lives";
const NO_FALSE_MOVE: &str = "none is moved to where the peer is not";
const ONE_STATE: &str = "one state for an address and id";
const FEW_STRANGERS: &str = "no more states of strangers than there are seats";
const OPENS: &str = "a handshake completes";
const REPLACED: &str = "a restarted client replaces its association";
const MOVES: &str = "a NAT that rebinds is followed";
const NOTICED: &str = "a restarted server is noticed";
const FADES: &str = "in a fade evidence ends an association";
const TAKEN_BACK: &str = "a peer that never moved is taken back by its answer";
const NOT_PINNED: &str = "later copies hold none where the peer was";
const UNPINNED: &str = "a peer is followed in spite of copies";

fn properties() -> Vec<Property<Scene>> {
    vec![
        Property::always(NO_FALSE_END, |_, world: &World| !world.facts.false_end),
        Property::always(NO_FALSE_MOVE, |_, world: &World| !world.facts.false_move),
        Property::always(ONE_STATE, |_, world: &World| has_one_state(world)),
        Property::always(FEW_STRANGERS, |scene, world: &World| has_few_strangers(scene, world)),
        Property::sometimes(OPENS, |_, world: &World| is_open(world)),
        Property::sometimes(REPLACED, |_, world: &World| world.facts.replaced),
        Property::sometimes(MOVES, |_, world: &World| world.facts.moved),
        Property::sometimes(NOTICED, |_, world: &World| world.programs[0].phase == Phase::Over),
        Property::sometimes(FADES, |_, world: &World| world.facts.faded),
        Property::sometimes(TAKEN_BACK, |_, world: &World| world.facts.taken_back),
        Property::always(NOT_PINNED, |_, world: &World| !world.facts.pinned),
        Property::sometimes(UNPINNED, |_, world: &World| world.facts.unpinned),
    ]
}

fn has_one_state(world: &World) -> bool {
    let mut keys: Vec<_> = world.server.iter().map(|kept| (kept.from, kept.client)).collect();
    keys.sort_unstable();
    keys.windows(2).all(|pair| pair[0] != pair[1])
}

fn has_few_strangers(scene: &Scene, world: &World) -> bool {
    let strangers = world.server.iter().filter(|kept| !kept.is_validated).count();
    // A cookie has vouched for no address where its client does not receive.
    let is_heard = |place| place != Place::Foreign || scene.reads_all;
    let is_bound = world.server.iter().all(|kept| !kept.is_validated || is_heard(kept.from));
    strangers <= scene.seats && is_bound
}

fn is_open(world: &World) -> bool {
    let sides = |mut all: Vec<Who>| {
        all.retain(|who| world.side(*who).is_some_and(|(side, _)| side.is_confirmed()));
        !all.is_empty()
    };
    let of_server = world.server.iter().map(|kept| Who::Kept(kept.id)).collect();
    sides(vec![Who::Program(0), Who::Program(1)]) && sides(of_server)
}

/// One client, with its association open, and no adversary.
fn quiet() -> Scene {
    Scene {
        budget: Budget::default(),
        is_open: true,
        has_moved: false,
        seats: 1,
        reads_all: true,
        copies_from: &[Place::Server, Place::Home, Place::Moved, Place::Foreign],
        lacks: None,
        claims: &[NO_FALSE_END, NO_FALSE_MOVE, ONE_STATE, FEW_STRANGERS],
    }
}

/// A client begins. Without seats it must return a cookie.
fn opening(seats: usize, budget: Budget) -> Scene {
    let claims = &[NO_FALSE_END, NO_FALSE_MOVE, ONE_STATE, FEW_STRANGERS, OPENS];
    Scene { budget, is_open: false, seats, claims, ..quiet() }
}

/// One packet is suppressed, one forged; and a side asks what is suspected.
fn forger() -> Budget {
    Budget { drops: 1, forgeries: 1, pings: 2, ..Budget::default() }
}

/// One packet is suppressed, one copied.
fn copier() -> Budget {
    Budget { drops: 1, copies: 1, ..Budget::default() }
}

/// Nobody is reached at [`Place::Foreign`], where the adversary does not read.
fn unread(scene: Scene) -> Scene {
    Scene { reads_all: false, ..scene }
}

/// Evidence is forged while both sides live. No address comes into question: answers go ahead to there, so who also delays
/// packets saves himself one to suppress.
fn evidence() -> Scene {
    let budget =
        Budget { drops: QUESTIONS - 1, copies: 1, forgeries: 2, pings: 3, ..Budget::default() };
    Scene { budget, ..quiet() }
}

/// The server starts again, and has forgotten all.
fn restarted_server() -> Scene {
    let budget = Budget { drops: 1, forgeries: 2, pings: 2, restarts: 1, ..Budget::default() };
    let claims = &[NO_FALSE_END, NO_FALSE_MOVE, ONE_STATE, FEW_STRANGERS, NOTICED];
    Scene { budget, claims, ..quiet() }
}

/// The client's program is killed, and comes back from the same port or another one; or that is a second one, and it lives.
fn restarted_client() -> Scene {
    let budget = Budget { drops: 1, pings: 2, kills: 1, starts: 1, ..Budget::default() };
    let claims = &[NO_FALSE_END, NO_FALSE_MOVE, ONE_STATE, FEW_STRANGERS, REPLACED];
    Scene { budget, claims, ..quiet() }
}

/// A relay copies what it likes from its own address, and suppresses a packet.
fn relay() -> Scene {
    let budget = Budget { drops: 1, copies: 3, pings: 1, asks: 2, ..Budget::default() };
    Scene { budget, ..quiet() }
}

/// The client's address changes, as a NAT's does.
fn rebinding(budget: Budget) -> Scene {
    let claims = &[NO_FALSE_END, NO_FALSE_MOVE, ONE_STATE, FEW_STRANGERS, MOVES];
    Scene { budget: Budget { rebindings: 1, ..budget }, claims, ..quiet() }
}

fn rebinding_and_relay() -> Scene {
    rebinding(Budget { drops: 1, copies: 2, asks: 2, ..Budget::default() })
}

/// The client's address has changed. The adversary reads what it sends, and sends it once more from where it was, where
/// nobody receives. (What is there before its original takes the association back. So does one who also carries questions
/// from there to the client: then it does receive there.)
fn left_place() -> Scene {
    let budget = Budget { drops: 1, copies: 3, pings: 2, asks: 2, ..Budget::default() };
    let (has_moved, copies_from) = (true, &[Place::Home]);
    let claims = &[NOT_PINNED, MOVES, UNPINNED];
    unread(Scene { budget, has_moved, copies_from, claims, ..quiet() })
}

/// A relay that is always faster. Where a side does not wait for the address in use, or its questions are lost, it moves the
/// association to itself for a while.
fn fast_relay() -> Scene {
    let budget = Budget { copies: 4, pings: 1, asks: 1, ..Budget::default() };
    let (lacks, copies_from) = (Some(Rule::OldCouldAnswer), &[Place::Server, Place::Foreign]);
    Scene { budget, lacks, copies_from, claims: &[TAKEN_BACK], ..quiet() }
}

/// Evidence is forged meanwhile.
fn rebinding_and_evidence() -> Scene {
    let budget = Budget { drops: 1, forgeries: 1, pings: 2, asks: 1, ..Budget::default() };
    let claims = &[NO_FALSE_END, NO_FALSE_MOVE, ONE_STATE, FEW_STRANGERS, MOVES, FADES];
    Scene { claims, ..rebinding(budget) }
}

/// While a copy makes a side wait for an address to answer (ARQ-PTH-8), what it says goes to where the peer was.
fn rebinding_copy_and_evidence() -> Scene {
    let scene = rebinding_and_evidence();
    Scene { budget: Budget { drops: 0, copies: 1, ..scene.budget }, ..scene }
}

/// The adversary suppresses what he likes, but does not read what is sent elsewhere: so much holds without luck.
fn blind() -> Scene {
    let budget = Budget { drops: 6, copies: 2, asks: 2, ..Budget::default() };
    unread(Scene { claims: &[NO_FALSE_MOVE, MOVES], ..rebinding(budget) })
}

fn holds(name: &str, scene: Scene) {
    let checker = scene.checker().spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{name}: {states} states, {depth} deep");
    checker.assert_properties();
}

/// What is `claimed` is refuted. Tells the trace.
fn refuted(scene: Scene, claimed: &'static str) {
    let lacks = scene.lacks;
    let scene = Scene { claims: Vec::leak(vec![claimed]), ..scene };
    let checker = scene.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let trace = checker.discovery(claimed);
    let trace = trace.unwrap_or_else(|| panic!("without {lacks:?} it holds still: {claimed}"));
    println!("without {lacks:?} refuted: {claimed}");
    trace.into_actions().iter().for_each(|step| println!("    {step:?}"));
}

// ARQ-HSK-4 to -8, ARQ-HS-9
#[test]
fn a_handshake_opens_whatever_is_forged() {
    holds("opening, evidence", opening(1, forger()));
    holds("opening, copies", opening(1, copier()));
    holds("opening, both", opening(1, Budget { drops: 0, forgeries: 1, ..copier() }));
}

// ARQ-ADM-1, ARQ-HS-5
#[test]
fn a_cookie_keeps_strangers_out() {
    holds("cookie", unread(opening(0, Budget { pings: 0, ..forger() })));
    holds("cookie, copies", unread(opening(0, copier())));
}

// ARQ-SUS-1 to -4, ARQ-RST-2, ARQ-RPL-1
#[test]
fn evidence_ends_only_what_is_gone() {
    holds("evidence", evidence());
    holds("restarted server", restarted_server());
}

// ARQ-RPL-1, ARQ-RPL-2
#[test]
fn a_newcomer_replaces_only_who_is_gone() {
    holds("restarted client", restarted_client());
}

// ARQ-PTH-1 to -4, ARQ-PTH-8
#[test]
fn only_a_peer_that_moves_is_followed() {
    holds("relay", relay());
    holds("fast relay", fast_relay());
    holds("left place", left_place());
    holds("rebinding, relay", rebinding_and_relay());
    holds("rebinding, evidence", rebinding_and_evidence());
    holds("blind", blind());
}

/// Each rule is needed: without it the adversary wins, or the model would prove nothing.
#[test]
fn without_any_rule_a_property_fails() {
    for (rule, scene, claimed) in [
        (Rule::ResetIsEvidence, evidence(), NO_FALSE_END),
        (Rule::RefuseIsEvidence, opening(1, forger()), NO_FALSE_END),
        (Rule::NewcomerIsEvidence, evidence(), NO_FALSE_END),
        (Rule::SiblingIsEvidence, restarted_client(), NO_FALSE_END),
        (Rule::QuestionsTakeTime, evidence(), NO_FALSE_END),
        (Rule::RefusalIsDoubted, opening(1, forger()), NO_FALSE_END),
        (Rule::SpoiledIsRepeated, opening(1, forger()), NO_FALSE_END),
        (Rule::QuestionFirst, relay(), NO_FALSE_MOVE),
        (Rule::AnswerIsBound, blind(), NO_FALSE_MOVE),
        (Rule::OldCouldAnswer, relay(), NO_FALSE_MOVE),
        (Rule::OriginalSettles, relay(), NO_FALSE_MOVE),
        (Rule::DuplicateIsAsked, left_place(), NOT_PINNED),
        (Rule::HelloIsKnown, opening(1, copier()), ONE_STATE),
        (Rule::CookieFirst, unread(opening(0, forger())), FEW_STRANGERS),
        (Rule::CookieIsBound, unread(opening(0, forger())), FEW_STRANGERS),
    ] {
        refuted(Scene { lacks: Some(rule), ..scene }, claimed);
    }
}

/// One who suppresses a packet more, ends or moves an association (§16): no more can be promised.
#[test]
fn one_packet_more_ends_or_moves() {
    let more = |scene: Scene| {
        let drops = scene.budget.drops + 1;
        Scene { budget: Budget { drops, ..scene.budget }, ..scene }
    };
    refuted(more(evidence()), NO_FALSE_END);
    refuted(more(relay()), NO_FALSE_MOVE);
    // Here he delays an answer for two questions instead: longer than their timers wait.
    refuted(rebinding_copy_and_evidence(), NO_FALSE_END);
}
