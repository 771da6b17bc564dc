// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! One of two radios misbehaves in another way than being gone.

use std::{cell::RefCell, ops::Range, rc::Rc, time::Duration};

use arq_proto::{Interface, InterfaceUse, PathState, Reliability, SocketId};
use arq_sim::{
    lane,
    toy::{Flights, Toy},
    Datagram, Flow, Forged, HostId, Pair, Scenario, Verdict, WireConfig,
};

use crate::common::{MS, SEC};

fn commands() -> Flow {
    Flow::reliable(2, 250, 1_000).every(20 * MS)
}

/// Two clean radios of 30 ms one way.
fn clean(seed: u64) -> Scenario {
    let wire = WireConfig::with_delay(30 * MS);
    Scenario::new(seed).wire(wire.clone()).radio(wire).both_send([commands()])
}

/// The way of a radio, the first or the second, to the server, and that back.
fn wires(scenario: &mut Scenario, radio: usize) -> [&mut WireConfig; 2] {
    match radio {
        0 => [&mut scenario.up, &mut scenario.down],
        _ => {
            let (up, down) = &mut scenario.radios[radio - 1];
            [up, down]
        }
    }
}

/// The longest latency of the commands of each direction.
fn longest(pair: &Pair) -> [Duration; 2] {
    longest_of(pair, 2)
}

/// That of a priority, but for messages that wait for the handshake.
fn longest_of(pair: &Pair, priority: u8) -> [Duration; 2] {
    let lane = lane(priority, Reliability::Reliable);
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
    let alone = run(&clean(7));
    let sent_by = |pair: &Pair| {
        [pair.client_side(), pair.server_side()].map(|side| side.connection().stats().bytes_sent)
    };
    for (radio, direction) in EACH {
        let mut scenario = clean(7);
        wires(&mut scenario, radio)[direction].blackouts = vec![4 * SEC..14 * SEC];
        let pair = run(&scenario);
        let longest = longest(&pair);
        assert!(longest.iter().all(|late| *late <= BOUND), "{radio}, {direction}: {longest:?}");
        for (sent, usual) in sent_by(&pair).into_iter().zip(sent_by(&alone)) {
            println!("{radio}, {direction}: {:.3} of the bytes", sent as f64 / usual as f64);
            assert!(
                sent as f64 <= 1.05 * usual as f64,
                "{radio}, {direction}: {sent} bytes, {usual} without"
            );
        }
    }
}

/// Each radio, and each direction of it: to the server, and back.
const EACH: [(usize, usize); 4] = [(0, 0), (0, 1), (1, 0), (1, 1)];

/// How late messages are, and what each side sends, where a direction of a radio is dead from 22 s to 32 s. `are_known`: before,
/// each radio carried all for 8 s.
fn half_open(
    seed: u64,
    delays_ms: [u32; 2],
    are_known: bool,
    dead: Option<(usize, usize)>,
) -> ([Duration; 2], [f64; 2]) {
    let [first, second] = delays_ms.map(|ms| WireConfig {
        jitter: 2 * MS,
        jitter_in_order: true,
        ..WireConfig::with_delay(ms * MS)
    });
    let mut scenario = Scenario::new(seed).wire(first).radio(second);
    let learnt = [(0, 2 * SEC..10 * SEC), (1, 11 * SEC..19 * SEC)];
    for (radio, learnt) in learnt.into_iter().filter(|_| are_known) {
        for wire in wires(&mut scenario, radio) {
            wire.blackouts.push(learnt.clone());
        }
    }
    if let Some((radio, direction)) = dead {
        wires(&mut scenario, radio)[direction].blackouts.push(22 * SEC..32 * SEC);
    }
    let scenario =
        scenario.both_send([commands()]).both_send([Flow::reliable(3, 250, 1_700).every(20 * MS)]);
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
    let lane = lane(3, Reliability::Reliable);
    let longest = [pair.server_side(), pair.client_side()]
        .map(|side| side.app.inbox(lane).latencies[1_060..].iter().copied().max().unwrap());
    (longest, [0, 1].map(|side| (after[side] - before[side]) as f64))
}

// ARQ-MP-4, ARQ-MP-6, ARQ-REP-6
#[test]
fn a_dead_direction_costs_at_most_a_tenth_even_where_the_other_radio_is_new() {
    let cases = [(7, [30, 30]), (8, [30, 30]), (9, [30, 30]), (7, [15, 60]), (8, [60, 15])];
    for ((seed, delays), are_known) in
        cases.into_iter().flat_map(|case| [(case, true), (case, false)])
    {
        let usual = half_open(seed, delays, are_known, None).1;
        for dead in EACH {
            // One and a half round trips of the one that is dead, one way of the other, and 15 ms.
            let bound = (3 * delays[dead.0] + delays[1 - dead.0] + 15) * MS;
            let (longest, sent) = half_open(seed, delays, are_known, Some(dead));
            let case =
                format!("seed {seed}, {delays:?}, known {are_known}, radio and direction {dead:?}");
            let shares = [0, 1].map(|side| sent[side] / usual[side]);
            println!("{case}: {longest:?}, {shares:.3?} of the bytes");
            assert!(longest.iter().all(|late| *late <= bound), "{case}: {longest:?}");
            assert!(shares.iter().all(|share| *share <= 1.1), "{case}: {shares:?}");
        }
    }
}

/// Both radios are gone for a while: what each side sends meanwhile, and the longest latencies.
fn both_gone(delay: Duration, outage: Range<Duration>) -> ([u64; 2], [Duration; 2]) {
    let gone = WireConfig { blackouts: vec![outage.clone()], ..WireConfig::with_delay(delay) };
    let scenario = Scenario::new(3).wire(gone.clone()).radio(gone).both_send([commands()]);
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(scenario.limit).unwrap();
    let sent = |pair: &Pair| {
        [pair.client_side(), pair.server_side()].map(|side| side.connection().stats().bytes_sent)
    };
    pair.world.run_for(outage.start.saturating_sub(pair.world.now())).unwrap();
    let before = sent(&pair);
    pair.world.run_for(outage.end - outage.start).unwrap();
    let after = sent(&pair);
    pair.run_to_delivery(scenario.limit).unwrap();
    ([0, 1].map(|side| after[side] - before[side]), longest(&pair))
}

// ARQ-MP-5
#[test]
fn while_no_radio_answers_hardly_more_is_sent_than_what_is_new() {
    for delay in [5 * MS, 30 * MS] {
        let (sent, longest) = both_gone(delay, 4 * SEC..8 * SEC);
        // 200 commands of 275 bytes in a packet of their own.
        let shares = sent.map(|bytes| bytes as f64 / (200.0 * 275.0));
        println!("{delay:?}: {shares:.2?} of the new ones' bytes, {longest:?}");
        assert!(shares.iter().all(|share| *share <= 2.5), "{delay:?}: {shares:?}");
        assert!(longest.iter().all(|late| *late <= 4 * SEC + 400 * MS), "{delay:?}: {longest:?}");
    }
}

/// All that leaves on a radio vanishes from now on, both ways.
fn kill(pair: &mut Pair, radio: HostId) {
    let dead = WireConfig { mtu: Some(1), ..WireConfig::with_delay(30 * MS) };
    pair.world.lay_wire(radio, pair.server, dead.clone());
    pair.world.lay_wire(pair.server, radio, dead);
}

/// The NAT of a radio, the first or the second, gives it another address so often. After ten seconds the other radio dies.
/// Returns the longest latencies before and in all, of each direction.
fn rebinding(radio: u8, every: Duration) -> [[Duration; 2]; 2] {
    let scenario = clean(8);
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(scenario.limit).unwrap();
    let (first, second) = (pair.client, pair.radios[0]);
    let (this, other) = if radio == 0 { (first, second) } else { (second, first) };
    let mut port = 40_001;
    let mut rebind = |pair: &mut Pair| {
        pair.world.run_for(every).unwrap();
        port += 1;
        pair.world.rebind(this, ([10, 0, 2 * radio, 1], port).into());
    };
    while pair.world.now() < 10 * SEC {
        rebind(&mut pair);
    }
    let before = longest(&pair);
    kill(&mut pair, other);
    if every > FOLLOWED {
        while pair.world.now() < 25 * SEC {
            rebind(&mut pair);
        }
    } else {
        rebind(&mut pair);
    }
    pair.run_to_delivery(scenario.limit).unwrap_or_else(|halt| {
        panic!("radio {radio}, each {every:?}: {halt}\n{}", pair.describe())
    });
    assert_eq!(pair.client_side().connection().paths().count(), 2);
    [before, longest(&pair)]
}

/// A server that has an answer from a new address, and then sends there: two round trips of these radios. A NAT that rebinds
/// sooner must stop in the end, where no other radio is left.
const FOLLOWED: Duration = Duration::from_millis(120);

// ARQ-MP-3, ARQ-MP-5
#[test]
fn a_nat_that_rebinds_on_one_radio_makes_no_message_late() {
    for radio in [0, 1] {
        for every in [1_000, 300, 100, 50].map(|ms| ms * MS) {
            let [before, all] = rebinding(radio, every);
            println!("radio {radio}, each {every:?}: {before:?}, {all:?} after the other died");
            let case = format!("radio {radio}, each {every:?}");
            assert!(before.iter().all(|late| *late <= BOUND), "{case}: {before:?}");
            // The new address is known a round trip after something left from there.
            let known = BOUND + every + 60 * MS;
            assert!(all.iter().all(|late| *late <= known), "{case}: {all:?}");
        }
    }
}

/// The lengths of what an idle client sends whose NAT rebinds each 300 ms, in clear or sealed.
fn lengths_behind_a_restless_nat(is_sealed: bool) -> Vec<usize> {
    let images = [Flow::reliable(5, 60_000, 20).every(100 * MS)];
    let wire = WireConfig::with_delay(30 * MS);
    let mut scenario = Scenario::new(12).wire(wire).client_sends(images);
    if is_sealed {
        scenario = scenario.sealed(Toy::new(Flights::default()), 1 << 20);
    }
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(SEC).unwrap();
    pair.world.run_for(3 * SEC).unwrap();
    let mtu = pair.client_side().connection().paths().next().unwrap().path_mtu_bytes;
    assert!(mtu > 1_400, "more is known to pass: {mtu}");
    let lengths = Rc::new(RefCell::new(Vec::new()));
    let (seen, server) = (lengths.clone(), pair.world.address(pair.server));
    pair.world.set_tap(move |_: Duration, datagram: &Datagram, _: &mut Vec<Forged>| {
        if datagram.to == server {
            seen.borrow_mut().push(datagram.bytes.len());
        }
        Verdict::Pass
    });
    for port in 40_002..40_042 {
        pair.world.run_for(300 * MS).unwrap();
        pair.world.rebind(pair.client, ([10, 0, 0, 1], port).into());
    }
    let lengths = lengths.borrow().clone();
    lengths
}

// ARQ-PTH-7
#[test]
fn who_asks_behind_a_restless_nat_sends_1_200_bytes_and_no_more() {
    for is_sealed in [false, true] {
        let lengths = lengths_behind_a_restless_nat(is_sealed);
        let full = lengths.iter().filter(|length| **length == 1_200).count();
        // Longer ones only look for the path's MTU, and those are much longer.
        let beyond = lengths.iter().filter(|length| (1_201..1_252).contains(*length)).count();
        println!("sealed {is_sealed}: {full} of 1,200 bytes, {beyond} a little longer");
        assert!(full >= 10 && beyond == 0, "sealed {is_sealed}: {lengths:?}");
    }
}

/// Commands and images while some radios carry nothing longer from some time on.
fn swallowing(radios: &[usize], mtu: usize, from: Duration) -> Pair {
    let mut scenario = clean(9);
    for radio in radios {
        for wire in wires(&mut scenario, *radio) {
            wire.mtu_changes.push((from, mtu));
        }
    }
    let images = Flow::reliable(5, 30_000, 100).every(200 * MS);
    run(&scenario.both_send([images]))
}

/// The longest latency of the images of each direction, but for the first ones, which share the first round trips.
fn longest_image(pair: &Pair) -> [Duration; 2] {
    let lane = lane(5, Reliability::Reliable);
    [pair.server_side(), pair.client_side()]
        .map(|side| side.app.inbox(lane).latencies.iter().skip(5).copied().max().unwrap())
}

// ARQ-MP-3, ARQ-MP-13
#[test]
fn a_radio_that_swallows_long_packets_makes_no_message_late() {
    for radio in [0, 1] {
        for (mtu, from) in
            [1_200, 1_300].into_iter().flat_map(|mtu| [(mtu, Duration::ZERO), (mtu, 5 * SEC)])
        {
            let pair = swallowing(&[radio], mtu, from);
            let case = format!("radio {radio}, {mtu} bytes from {from:?} on");
            let (commands, images) = (longest(&pair), longest_image(&pair));
            println!("{case}: {commands:?}, images {images:?}");
            assert!(commands.iter().all(|late| *late <= BOUND), "{case}: {commands:?}");
            assert!(images.iter().all(|late| *late <= BOUND), "{case}: {images:?}");
            for side in [pair.client_side(), pair.server_side()] {
                let mtus: Vec<_> =
                    side.connection().paths().map(|path| path.path_mtu_bytes).collect();
                assert!(usize::from(mtus[radio]) <= mtu, "{case}: {mtus:?}");
                // The second radio carries nothing long here, and need not know what it could.
                assert!(radio == 0 || mtus[0] > 1_400, "{case}: {mtus:?}");
            }
        }
    }
}

// ARQ-MP-13
#[test]
fn two_radios_that_begin_to_swallow_long_packets_make_no_message_late() {
    for mtu in [1_200, 1_300] {
        let pair = swallowing(&[0, 1], mtu, 5 * SEC);
        let (commands, images) = (longest(&pair), longest_image(&pair));
        println!("{mtu} bytes: {commands:?}, images {images:?}");
        let all = [commands, images].concat();
        assert!(all.iter().all(|late| *late <= BOUND), "{mtu} bytes: {all:?}");
    }
}

/// The first radio works in every other second of ten minutes; its interface says so, or nobody.
fn flapping(is_told: bool) -> Pair {
    let wire = WireConfig::with_delay(30 * MS);
    let dead = WireConfig { mtu: Some(1), ..wire.clone() };
    let flow = Flow::reliable(2, 250, 30_000).every(20 * MS);
    let scenario = Scenario::new(10).wire(wire.clone()).radio(wire.clone()).both_send([flow]);
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(SEC).unwrap();
    for second in 0..600 {
        pair.world.run_for(SEC).unwrap();
        let is_up = second % 2 == 1;
        let now = if is_up { &wire } else { &dead };
        pair.world.lay_wire(pair.client, pair.server, now.clone());
        pair.world.lay_wire(pair.server, pair.client, now.clone());
        if is_told {
            let interface = Interface { socket: SocketId(0), is_up, purpose: InterfaceUse::Always };
            pair.world.with_conn(pair.conn, |clock, connection, _| {
                connection.handle_interface(clock.now(), interface);
            });
        }
    }
    pair.run_to_delivery(60 * SEC).unwrap();
    pair
}

// ARQ-MP-5, ARQ-MP-8
#[test]
fn a_radio_that_flaps_each_second_makes_no_message_late_and_uses_one_number() {
    for is_told in [true, false] {
        let pair = flapping(is_told);
        let longest = longest(&pair);
        println!("told {is_told}: {longest:?}");
        assert!(longest.iter().all(|late| *late <= BOUND), "told {is_told}: {longest:?}");
        assert_eq!(pair.client_side().connection().paths().count(), 2);
    }
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
