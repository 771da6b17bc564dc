// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! One of two radios misbehaves in another way than being gone.

use std::time::Duration;

use arq_proto::{Interface, InterfaceUse, PathState, Reliability, SocketId};
use arq_sim::{lane, Flow, Pair, Scenario, WireConfig};

use crate::common::{MS, SEC};

fn commands() -> Flow {
    Flow::reliable(2, 250, 1_000).every(20 * MS)
}

/// Two clean radios of 30 ms one way.
fn clean(seed: u64) -> Scenario {
    let wire = WireConfig::with_delay(30 * MS);
    Scenario::new(seed).wire(wire.clone()).radio(wire).both_send([commands()])
}

/// The longest latency of each direction, but for those that wait for the handshake.
fn longest(pair: &Pair) -> [Duration; 2] {
    let lane = lane(2, Reliability::Reliable);
    [pair.server_side(), pair.client_side()]
        .map(|side| side.app.inbox(lane).latencies.iter().skip(50).copied().max().unwrap())
}

/// Runs it to the end of the commands.
fn run(scenario: &Scenario) -> Pair {
    let mut pair = Pair::new(scenario);
    pair.run_to_connected(scenario.limit).unwrap();
    pair.run_to_delivery(scenario.limit).unwrap_or_else(|halt| {
        panic!("{halt}\n{}\n{}", pair.describe(), pair.world.log().ladder(60))
    });
    pair
}

/// One and a half round trips of the first radio, one way of the other, and 15 ms.
const BOUND: Duration = Duration::from_millis(90 + 30 + 15);

// ARQ-MP-4
#[test]
fn a_direction_of_a_radio_that_is_dead_makes_no_message_late() {
    for (radio, forward) in [(0, true), (0, false), (1, true), (1, false)] {
        let mut scenario = clean(7);
        let dead = vec![4 * SEC..14 * SEC];
        let (up, down) = match radio {
            0 => (&mut scenario.up, &mut scenario.down),
            _ => {
                let [(up, down), ..] = &mut scenario.radios[..] else { unreachable!() };
                (up, down)
            }
        };
        if forward { up } else { down }.blackouts = dead;
        let pair = run(&scenario);
        let longest = longest(&pair);
        assert!(longest.iter().all(|late| *late <= BOUND), "{radio}, {forward}: {longest:?}");
        let sent = [pair.client_side(), pair.server_side()]
            .map(|side| side.connection().stats().bytes_sent);
        let alone = run(&clean(7));
        let usual = [alone.client_side(), alone.server_side()]
            .map(|side| side.connection().stats().bytes_sent);
        for (sent, usual) in sent.iter().zip(usual) {
            println!("{radio}, {forward}: {:.3} of the bytes", *sent as f64 / usual as f64);
            assert!(
                *sent as f64 <= 1.2 * usual as f64,
                "{radio}, {forward}: {sent} bytes, {usual} without"
            );
        }
    }
}

/// What each side sends while a direction of a radio is dead from 22 s to 32 s, and how late messages are. Before, each
/// radio carried all for 8 s.
fn half_open(dead: Option<(usize, bool)>) -> ([Duration; 2], [f64; 2]) {
    let mut scenario = clean(7);
    let [(up, down), ..] = &mut scenario.radios[..] else { unreachable!() };
    for (wire, dead) in [
        (&mut scenario.up, 2 * SEC..10 * SEC),
        (&mut scenario.down, 2 * SEC..10 * SEC),
        (up, 11 * SEC..19 * SEC),
        (down, 11 * SEC..19 * SEC),
    ] {
        wire.blackouts.push(dead);
    }
    if let Some((radio, forward)) = dead {
        let (up, down) = match radio {
            0 => (&mut scenario.up, &mut scenario.down),
            _ => {
                let [(up, down), ..] = &mut scenario.radios[..] else { unreachable!() };
                (up, down)
            }
        };
        if forward { up } else { down }.blackouts.push(22 * SEC..32 * SEC);
    }
    let scenario = scenario.both_send([Flow::reliable(3, 250, 1_700).every(20 * MS)]);
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(scenario.limit).unwrap();
    let sent = |pair: &Pair| {
        [pair.client_side(), pair.server_side()].map(|side| side.connection().stats().bytes_sent)
    };
    pair.world.run_for(21 * SEC).unwrap();
    let before = sent(&pair);
    pair.world.run_for(11 * SEC).unwrap();
    let after = sent(&pair);
    pair.run_to_delivery(scenario.limit).unwrap();
    (longest(&pair), [0, 1].map(|side| (after[side] - before[side]) as f64))
}

// ARQ-MP-4, ARQ-MP-6
#[test]
fn a_dead_direction_costs_at_most_a_tenth_between_radios_that_are_known() {
    let usual = half_open(None).1;
    for (radio, forward) in [(0, true), (0, false), (1, true), (1, false)] {
        let (longest, sent) = half_open(Some((radio, forward)));
        let case = format!("radio {radio}, forward {forward}");
        assert!(longest.iter().all(|late| *late <= BOUND), "{case}: {longest:?}");
        for (sent, usual) in sent.iter().zip(usual) {
            println!("{case}: {:.3} of the bytes", sent / usual);
            assert!(*sent <= 1.1 * usual, "{case}: {sent} bytes, {usual} without");
        }
    }
}

// ARQ-MP-3
#[test]
fn a_nat_that_rebinds_on_one_radio_makes_no_message_late() {
    for every in [1_000, 300, 100, 50] {
        let scenario = clean(8);
        let mut pair = Pair::new(&scenario);
        pair.run_to_connected(scenario.limit).unwrap();
        let radio = pair.radios[0];
        for port in 0..15_000 / every {
            pair.world.run_for(every * MS).unwrap();
            let address = format!("10.0.2.1:{}", 40_002 + port);
            pair.world.rebind(radio, address.parse().unwrap());
        }
        // Then the other one dies.
        pair.world.lay_wire(
            pair.client,
            pair.server,
            WireConfig { mtu: Some(1), ..WireConfig::with_delay(30 * MS) },
        );
        pair.world.lay_wire(
            pair.server,
            pair.client,
            WireConfig { mtu: Some(1), ..WireConfig::with_delay(30 * MS) },
        );
        pair.run_to_delivery(scenario.limit).unwrap();
        let longest = longest(&pair);
        // The address is known a round trip after something left from there.
        assert!(
            longest.iter().all(|late| *late <= BOUND + 1_060 * MS),
            "each {every} ms: {longest:?}"
        );
        assert_eq!(pair.client_side().connection().paths().count(), 2);
    }
}

// ARQ-MP-3
#[test]
fn a_radio_that_swallows_long_packets_makes_no_message_late() {
    for mtu in [1_200, 1_300] {
        let mut scenario = clean(9);
        let [(up, down), ..] = &mut scenario.radios[..] else { unreachable!() };
        (up.mtu, down.mtu) = (Some(mtu), Some(mtu));
        let images = Flow::reliable(5, 30_000, 100).every(200 * MS);
        let pair = run(&scenario.both_send([images]));
        let longest = longest(&pair);
        assert!(longest.iter().all(|late| *late <= BOUND), "{mtu}: {longest:?}");
        let mtus: Vec<u16> =
            pair.client_side().connection().paths().map(|path| path.path_mtu_bytes).collect();
        assert!(mtus[0] > 1_400 && usize::from(mtus[1]) <= mtu, "{mtus:?}");
    }
}

// ARQ-MP-8
#[test]
fn an_interface_that_flaps_each_second_makes_no_message_late_and_uses_one_number() {
    let scenario = Scenario { limit: 700 * SEC, ..clean(10) };
    let flow = || [Flow::reliable(2, 250, 30_000).every(20 * MS)];
    let scenario = Scenario { client: Default::default(), server: Default::default(), ..scenario };
    let scenario = scenario.both_send(flow());
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(scenario.limit).unwrap();
    let wire = WireConfig::with_delay(30 * MS);
    let dead = WireConfig { mtu: Some(1), ..wire.clone() };
    for second in 0..600 {
        pair.world.run_for(SEC).unwrap();
        let is_up = second % 2 == 1;
        let now = if is_up { &wire } else { &dead };
        pair.world.lay_wire(pair.client, pair.server, now.clone());
        pair.world.lay_wire(pair.server, pair.client, now.clone());
        let interface = Interface { socket: SocketId(0), is_up, purpose: InterfaceUse::Always };
        pair.world.with_conn(pair.conn, |clock, connection, _| {
            connection.handle_interface(clock.now(), interface);
        });
    }
    pair.run_to_delivery(scenario.limit).unwrap();
    let longest = longest(&pair);
    assert!(longest.iter().all(|late| *late <= BOUND), "{longest:?}");
    assert_eq!(pair.client_side().connection().paths().count(), 2);
}

// ARQ-MP-8
#[test]
fn a_backup_carries_nothing_while_the_first_answers() {
    let mut pair = Pair::new(&clean(11));
    pair.run_to_connected(SEC).unwrap();
    let backup = Interface { socket: SocketId(1), is_up: true, purpose: InterfaceUse::Backup };
    pair.world.with_conn(pair.conn, |clock, connection, _| {
        connection.handle_interface(clock.now(), backup.clone());
    });
    pair.world.run_for(SEC).unwrap();
    let of_backup = |pair: &Pair| {
        let path = pair.client_side().connection().paths().nth(1).unwrap();
        (path.state, path.bytes_sent + path.bytes_received)
    };
    let (state, before) = of_backup(&pair);
    assert_eq!(state, PathState::Open);
    pair.world.run_for(10 * SEC).unwrap();
    assert!(
        of_backup(&pair).1 - before <= 300,
        "{} bytes in ten seconds",
        of_backup(&pair).1 - before
    );
    let dead = WireConfig { mtu: Some(1), ..WireConfig::default() };
    pair.world.lay_wire(pair.client, pair.server, dead.clone());
    pair.world.lay_wire(pair.server, pair.client, dead);
    pair.run_to_delivery(60 * SEC).unwrap();
    let longest = longest(&pair);
    assert!(longest.iter().all(|late| *late <= BOUND), "{longest:?}");
}
