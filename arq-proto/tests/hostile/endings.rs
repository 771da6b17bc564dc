// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Who may end an association, or begin it anew? Who proves that it is his, and in time.

use std::time::Duration;

use arq_proto::{
    wire::packet::{Echo, Refuse, Reset},
    ConnectionError, ConnectionId, LaneId, RefuseReason, ValidConfig,
};
use arq_sim::{harness::Victim, AppPlan, Flow, HostConfig, Pair, Scenario, WireConfig};
use bytes::Bytes;

use crate::{
    client::{server, Client, SERVER_ID},
    common::{seeds, MS, SEC},
    reports::{sent, Side},
    stranger,
};

/// What is dropped raises a counter, and nothing else: no answer, no sign of life.
#[track_caller]
fn assert_counted_and_dropped(client: &mut Client, send: impl FnOnce(&mut Client)) {
    let before = (client.connection.stats(), client.connection.heard_at(), client.error().cloned());
    client.now += MS;
    send(client);
    let after = (client.connection.stats(), client.connection.heard_at(), client.error().cloned());
    assert_eq!(after.0.datagrams_dropped, before.0.datagrams_dropped + 1);
    assert_eq!(after.0.packets_received, before.0.packets_received);
    assert_eq!(after.0.packets_sent, before.0.packets_sent);
    assert_eq!((after.1, after.2), (before.1, before.2));
}

// ARQ-HS-6, ARQ-ERR-1
#[test]
fn a_second_challenge_is_counted_and_dropped() {
    let later = ConnectionId(SERVER_ID.0 ^ 1);
    // Each HELLO is answered: until the server is heard, that is nothing strange.
    let mut client = Client::open();
    client.challenge(later);
    assert_eq!(client.connection.stats().datagrams_dropped, 0);
    client.ping();
    assert_eq!(client.seen.unwrap().dcid, SERVER_ID, "the first one holds");
    for make in [Client::confirmed, Client::closing] {
        let mut client = make();
        assert_counted_and_dropped(&mut client, |client| client.challenge(later));
        client.ping();
        assert_eq!(client.seen.unwrap().dcid, SERVER_ID, "the first one holds");
    }
}

// ARQ-HS-9
#[test]
fn a_refuse_ends_nothing_once_the_server_has_answered() {
    for reason in [RefuseReason::Version, RefuseReason::Busy] {
        // Until then it may be true, and is believed when nobody says otherwise.
        for make in [Client::waiting, Client::open] {
            let mut client = make();
            client.refuse(reason);
            assert_eq!(client.error(), None);
            let took = client.until_ended_by(|client| client.refuse(reason)).unwrap();
            assert_eq!(client.error(), Some(&ConnectionError::Refused(reason)));
            assert!((60 * MS..=SEC).contains(&took), "{took:?}");
            let mut client = make();
            client.refuse(reason);
            client.pass(40 * MS);
            client.challenge(SERVER_ID);
            client.ping();
            client.pass(5 * SEC);
            assert_eq!(client.error(), None, "the server says otherwise");
        }
        let mut client = Client::confirmed();
        client.refuse(reason);
        assert_eq!(client.error(), None);
        assert!(client.connection.is_established());
        // Nor while it delivers the last that it has to say.
        let lane = LaneId::all().next().unwrap();
        client.connection.send(client.now, lane, Bytes::from_static(b"last")).unwrap();
        client.connection.finish(client.now);
        client.drive();
        client.refuse(reason);
        assert_eq!(client.error(), None);
    }
}

// ARQ-HS-9, ARQ-ERR-1
#[test]
fn a_refuse_in_the_wrong_state_or_of_another_is_counted_and_dropped() {
    for make in [Client::confirmed, Client::closing] {
        assert_counted_and_dropped(&mut make(), |client| client.refuse(RefuseReason::Busy));
    }
    // No endpoint would route it here.
    let mut wire = Vec::new();
    Refuse { dcid: SERVER_ID, reason: RefuseReason::Busy, versions: Vec::new() }.encode(&mut wire);
    for make in [Client::waiting, Client::open] {
        assert_counted_and_dropped(&mut make(), |client| {
            client.connection.handle_datagram(client.now, server(), &mut wire);
            client.drive();
        });
    }
}

/// A client that has sent more packets than count as sent lately.
fn talkative() -> Client {
    let mut client = Client::confirmed();
    // Each is acknowledged. The first number that may be left out, 64, lies beyond those of interest.
    while client.next_number() < 65_540 {
        client.ping();
    }
    assert_eq!(client.error(), None);
    client
}

// ARQ-RST-2, ARQ-ERR-1
#[test]
fn a_reset_proves_itself_by_a_number_that_was_sent_lately() {
    // The newest that was sent, and the oldest that counts.
    for back in [1, 65_536] {
        let mut client = talkative();
        let next = client.next_number();
        let dropped = client.dropped();
        for number in [next, next + 1_000, next - 65_537] {
            client.reset(number);
            assert_eq!(client.error(), None, "{number}, where {next} is next");
        }
        // Nor with the right number, but for another association. No endpoint would route it here.
        let mut wire = Vec::new();
        Reset { unknown: client.id, echo: Echo::Number(next - 1) }.encode(&mut wire);
        client.connection.handle_datagram(client.now, server(), &mut wire);
        assert_eq!(client.error(), None, "{:?} is not {SERVER_ID:?}", client.id);
        assert_eq!(client.dropped(), dropped + 4);
        assert_eq!(client.connection.stats().suspicions, 0);
        client.reset(next - back);
        assert_eq!(client.connection.stats().suspicions, 1, "{back} before {next}");
        assert_eq!((client.error(), client.dropped()), (None, dropped + 4));
    }
}

/// Both sides, whose peer has answered within 10 ms so far.
fn both() -> (Client, Victim) {
    (sent(Client::confirmed()), sent(Victim::new(ValidConfig::default())))
}

/// The peer has restarted, and answers each packet by a RESET a millisecond later.
fn restarted(mut side: impl Side) -> Duration {
    side.reset(side.seen());
    let took = side.until_ended_by(|side| side.reset(side.seen())).unwrap();
    assert_eq!(side.error(), Some(&ConnectionError::PeerLostState));
    took
}

// ARQ-SUS-1, ARQ-SUS-2
#[test]
fn a_restarted_peer_is_noticed_within_a_tenth_of_a_second() {
    let (client, server) = both();
    for took in [restarted(client), restarted(server)] {
        assert!((80 * MS..100 * MS).contains(&took), "{took:?}");
    }
}

// ARQ-SUS-2
#[test]
fn resets_end_nothing_while_the_peer_answers() {
    fn observed(mut side: impl Side) {
        let ended = side.until_ended_by(|side| {
            let seen = side.seen();
            side.reset(seen);
            // Three of four answers are lost.
            if seen.number % 4 == 0 {
                side.answer();
                side.send();
            }
        });
        assert_eq!(ended, None);
        assert!(side.connection().stats().suspicions > 50, "the forger is at work");
    }
    let (client, server) = both();
    observed(client);
    observed(server);
}

// ARQ-SUS-2
#[test]
fn a_peer_that_was_silent_for_long_is_lost_at_the_first_reset() {
    let (mut client, _) = both();
    client.pass(2 * SEC);
    assert_eq!(client.error(), None);
    let seen = Side::seen(&client);
    Side::reset(&mut client, seen);
    assert_eq!(client.error(), Some(&ConnectionError::PeerLostState));
}

// ARQ-RPL-1
#[test]
fn a_newcomer_at_an_address_that_the_peer_has_left_replaces_nothing() {
    for seed in seeds(10) {
        for moves in [true, false] {
            let flow = Flow::reliable(5, 200, 1_000).every(20 * MS);
            let mut pair = Pair::new(&Scenario::new(seed).client_sends([flow]));
            pair.run_to_connected(SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
            let (client, server, old) = (pair.client, pair.server, pair.accepted().unwrap());
            let left = pair.world.address(client);
            if moves {
                pair.world.rebind(client, stranger(1));
                pair.run(5 * SEC, |pair| pair.world.conn(old).connection().remote() == stranger(1))
                    .unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
            } else {
                pair.world.vanish(client);
            }
            // What was sent to the old address must not meet the newcomer, who would answer RESET.
            pair.world.run_for(100 * MS).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));

            let newcomer = pair.world.add_host(HostConfig::new("newcomer", left));
            let wire = WireConfig::with_delay(10 * MS);
            pair.world.lay_wire(newcomer, server, wire.clone());
            pair.world.lay_wire(server, newcomer, wire);
            pair.world.connect(newcomer, server, ValidConfig::default(), AppPlan::default());
            pair.world
                .run_until(SEC, |world| world.accepted(server).len() == 2)
                .unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
            let read = pair.world.conn(old).app.messages_read();
            pair.world.run_for(2 * SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
            let old = pair.world.conn(old);
            if moves {
                assert_eq!(old.error(), None, "seed {seed}");
                assert!(old.app.messages_read() >= read + 90, "seed {seed}: it goes on");
            } else {
                assert_eq!(old.error(), Some(&ConnectionError::Replaced), "seed {seed}");
            }
        }
    }
}
