// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How does a connection end, and does the other side learn of it?

use std::time::Duration;

use arq_proto::{wire::frame::Frame, Config, ConnectionError, Reliability, SendError, ValidConfig};
use arq_sim::{harness::Victim, lane, Flow, Pair, Scenario};
use bytes::Bytes;

use crate::common::{lossy, seeds, MS, SEC};

fn patient() -> Config {
    Config { linger: 10 * SEC, ..Config::default() }
}

fn both_closed(pair: &Pair) -> bool {
    pair.client_side().closed.is_some() && pair.server_side().closed.is_some()
}

// ARQ-CLS-1
#[test]
fn an_orderly_close_delivers_all_that_was_accepted() {
    for seed in seeds(50) {
        let flows = [Flow::reliable(5, 20_000, 10), Flow::reliable(1, 10, 10)];
        let scenario = Scenario::new(seed).wire(lossy(0.25)).config(patient()).client_sends(flows);
        let mut pair = Pair::new(&scenario);
        pair.run(10 * SEC, |pair| pair.is_connected() && pair.client_side().app.has_sent_all())
            .unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
        let id = pair.conn;
        pair.world.with_conn(id, |clock, connection, _| {
            connection.finish(clock.now());
            let lane = lane(5, Reliability::Reliable);
            let late = connection.send(clock.now(), lane, Bytes::from_static(b"too late"));
            assert_eq!(late, Err(SendError::Closed));
        });
        pair.run(30 * SEC, both_closed).unwrap_or_else(|halt| {
            panic!("seed {seed}: {halt}\n{}{}", pair.describe(), pair.world.log().ladder(30))
        });
        assert!(pair.all_delivered(), "seed {seed}: {}", pair.describe());
        assert_eq!(pair.client_side().error(), Some(&ConnectionError::LocallyClosed));
        assert!(
            matches!(
                pair.server_side().error(),
                // A RESET answers the server when every CLOSE was lost.
                Some(ConnectionError::PeerClosed(_) | ConnectionError::PeerLostState)
            ),
            "seed {seed}: {:?}",
            pair.server_side().error()
        );
    }
}

// ARQ-CLS-1
#[test]
fn an_orderly_close_is_over_when_the_last_message_is_given_up() {
    let deadline = Some(100 * MS);
    let mut victim = Victim::new(Config { deadline, ..patient() }.validate().unwrap());
    let begin = victim.now();
    // Nobody answers. With the first of them a FORGET leaves, which is unanswered when the second goes.
    for _ in 0..2 {
        let (lane, message) = (lane(5, Reliability::BestEffort), Bytes::from_static(&[7; 100]));
        victim.with_connection(|now, conn| conn.send(now, lane, message)).unwrap();
        victim.sleep(5 * MS);
    }
    victim.with_connection(|now, conn| conn.finish(now));
    victim.sleep(SEC);
    let told = victim.closes().first().expect("a CLOSE").at - begin;
    assert!((105 * MS..110 * MS).contains(&told), "{told:?}");
}

// ARQ-CLS-1
#[test]
fn an_orderly_close_takes_no_longer_than_linger() {
    let config = Config { linger: 500 * MS, ..Config::default() };
    let scenario = Scenario::new(1).config(config).client_sends([Flow::reliable(5, 60_000, 10)]);
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(SEC).unwrap();
    let server = pair.server;
    pair.world.vanish(server);
    let id = pair.conn;
    pair.world.with_conn(id, |clock, connection, _| connection.finish(clock.now()));
    let took = pair.run(30 * SEC, |pair| pair.client_side().closed.is_some()).unwrap();
    assert!(took <= 600 * MS, "{took:?}");
    assert_eq!(pair.client_side().error(), Some(&ConnectionError::LingerExpired));
}

// ARQ-CLS-2
#[test]
fn an_abrupt_close_tells_the_peer_why() {
    let scenario = Scenario::new(2).both_send([Flow::reliable(5, 60_000, 100)]);
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(SEC).unwrap();
    pair.world.run_for(30 * MS).unwrap();
    let id = pair.conn;
    pair.world.with_conn(id, |clock, connection, _| connection.close(clock.now(), "enough"));
    assert_eq!(pair.client_side().error(), Some(&ConnectionError::LocallyClosed));
    let took = pair.run(SEC, both_closed).unwrap();
    assert_eq!(took, 10 * MS, "one way");
    assert_eq!(pair.server_side().error(), Some(&ConnectionError::PeerClosed("enough".into())));
}

// ARQ-CLS-3
#[test]
fn an_abrupt_close_reaches_the_peer_through_loss() {
    let mut slow = 0;
    for seed in seeds(200) {
        let scenario =
            Scenario::new(seed).wire(lossy(0.25)).both_send([Flow::reliable(5, 60_000, 100)]);
        let mut pair = Pair::new(&scenario);
        pair.run_to_connected(10 * SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
        let id = pair.conn;
        pair.world.with_conn(id, |clock, connection, _| connection.close(clock.now(), "enough"));
        let took = pair
            .run(30 * SEC, both_closed)
            .unwrap_or_else(|halt| panic!("seed {seed}: {halt}\n{}", pair.describe()));
        slow += usize::from(took > 2 * SEC);
    }
    assert!(slow <= 2, "{slow} peers learnt of it after more than two seconds");
}

/// A connection whose peer acknowledges a message after so long.
fn measured(round_trip: Duration) -> Victim {
    let mut victim = Victim::new(ValidConfig::default());
    let message = Bytes::from_static(b"x");
    let lane = lane(5, Reliability::BestEffort);
    // So often that the round trip of the handshake is forgotten.
    for _ in 0..100 {
        victim.with_connection(|now, conn| conn.send(now, lane, message.clone())).unwrap();
        victim.sleep(round_trip);
        let ack = victim.ack_of_all();
        victim.frames(&ack);
    }
    victim
}

/// Round trips, and the interval of a CLOSE where one takes so long: a probe time-out, within bounds.
const INTERVALS: [(Duration, Duration); 2] =
    [(Duration::ZERO, Duration::from_millis(10)), (Duration::from_secs(10), SEC)];

// ARQ-CLS-3
#[test]
fn a_peer_that_acknowledges_no_close_is_told_five_times() {
    for (round_trip, interval) in INTERVALS {
        let mut victim = measured(round_trip);
        let begin = victim.now();
        victim.with_connection(|now, conn| conn.close(now, "enough"));
        victim.sleep(60 * SEC);
        let closes = victim.closes();
        let at: Vec<_> = closes.iter().map(|close| close.at - begin).collect();
        assert_eq!(at, [0, 1, 2, 3, 4].map(|n| n * interval));
        assert!(closes.iter().all(|close| close.ack_now && close.reason == "enough"), "{closes:?}");
        assert!(victim.connection().is_drained());
    }
}

// ARQ-CLS-4
#[test]
fn a_peer_that_closes_is_answered_for_three_intervals() {
    for (round_trip, interval) in INTERVALS {
        let mut victim = measured(round_trip);
        let mut close = Vec::new();
        Frame::Close { reason: "enough" }.encode(&mut close);
        victim.frames(&close);
        let told = ConnectionError::PeerClosed("enough".into());
        assert_eq!(victim.connection().close_reason(), Some(&told));
        // The CLOSE again, and its acknowledgement: nothing else is said.
        for _ in 0..3 {
            assert!(!victim.connection().is_drained(), "{round_trip:?}");
            let sent = victim.connection().stats().packets_sent;
            victim.frames(&close);
            let stats = victim.connection().stats();
            assert_eq!((stats.packets_sent, stats.in_flight_bytes), (sent + 1, 0), "{stats:?}");
            victim.sleep(interval);
        }
        assert!(victim.connection().is_drained(), "{round_trip:?}");
        assert_eq!(victim.closes(), []);
    }
}

#[test]
fn a_connection_with_nobody_to_tell_ends_at_once_for_the_reason_given() {
    let mut pair = Pair::new(&Scenario::new(1));
    pair.run_to_connected(SEC).unwrap();
    let sent = pair.world.log().total();
    let id = pair.conn;
    pair.world.with_conn(id, |clock, connection, _| {
        connection.abandon(clock.now(), ConnectionError::LocallyClosed);
        assert!(connection.is_drained());
    });
    assert_eq!(pair.client_side().error(), Some(&ConnectionError::LocallyClosed));
    assert_eq!(pair.world.log().total(), sent, "without a word");
}

#[test]
fn both_sides_may_close_at_once() {
    for seed in seeds(50) {
        let scenario =
            Scenario::new(seed).wire(lossy(0.25)).both_send([Flow::reliable(5, 6_000, 10)]);
        let mut pair = Pair::new(&scenario);
        pair.run_to_delivery(30 * SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
        for id in [pair.conn, pair.accepted().unwrap()] {
            pair.world.with_conn(id, |clock, connection, _| connection.finish(clock.now()));
        }
        pair.run(30 * SEC, both_closed).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
    }
}

// ARQ-CLS-4
#[test]
fn a_closed_connection_is_forgotten_soon() {
    let mut pair = Pair::new(&Scenario::new(3).wire(lossy(0.25)));
    pair.run_to_connected(10 * SEC).unwrap();
    let id = pair.conn;
    pair.world.with_conn(id, |clock, connection, _| connection.finish(clock.now()));
    pair.run(20 * SEC, |pair| {
        pair.client_side().connection().is_drained() && pair.server_side().connection().is_drained()
    })
    .unwrap();
}

// ARQ-CLS-4
#[test]
fn what_arrived_before_the_end_can_be_read_after_it() {
    let mut scenario = Scenario::new(4).client_sends([Flow::reliable(5, 1_000, 50)]);
    scenario.server.reading = arq_sim::Reading::Never;
    let mut pair = Pair::new(&scenario);
    pair.run(SEC, |pair| pair.is_connected() && pair.client_side().app.has_sent_all()).unwrap();
    let id = pair.conn;
    pair.world.with_conn(id, |clock, connection, _| connection.finish(clock.now()));
    pair.run(10 * SEC, both_closed).unwrap();
    let lane = lane(5, Reliability::Reliable);
    let server = pair.accepted().unwrap();
    let read = pair.world.with_conn(server, |clock, connection, _| {
        std::iter::from_fn(|| connection.recv(clock.now(), lane)).count()
    });
    assert_eq!(read, 50);
}
