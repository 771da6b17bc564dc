// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A NAT that forgets its mapping again and again, and somebody who pretends to be one.

use std::{net::SocketAddr, time::Duration};

use arq_sim::{Datagram, Flow, Forged, Loss, Pair, Scenario, Verdict, WireConfig};

use crate::common::{clear_and_sealed, seeds, MS, SEC};

/// The NAT's mapping number `n`: another port, or another address.
fn mapping(n: u16, other_address: bool) -> SocketAddr {
    match other_address {
        true => ([192, 0, 2 + (n >> 8) as u8, n as u8], 5_000).into(),
        false => ([192, 0, 2, 1], 1_024 + n).into(),
    }
}

/// Talks while the mapping changes every `interval`; what is on the way to an old one is lost. Returns how long it took.
fn rebind_while_talking(
    scenario: &Scenario,
    interval: Duration,
    other_address: bool,
    limit: Duration,
) -> Duration {
    let mut pair = Pair::new(scenario);
    let case = format!("seed {}, every {interval:?}", scenario.seed);
    pair.run_to_connected(10 * SEC).unwrap_or_else(|halt| panic!("{case}: {halt}"));
    let (start, client) = (pair.world.now(), pair.client);
    let mut rng = fastrand::Rng::with_seed(scenario.seed);
    for n in 0.. {
        pair.world.rebind(client, mapping(n, other_address));
        // No timer of the two ends is exactly a multiple of it.
        pair.world
            .run_for(interval.mul_f64(0.9 + 0.2 * rng.f64()))
            .unwrap_or_else(|halt| panic!("{case}: {halt}"));
        for side in [pair.client_side(), pair.server_side()] {
            assert_eq!(side.connection().close_reason(), None, "{case}\n{}", pair.describe());
        }
        if pair.all_delivered() {
            break;
        }
        let took = pair.world.now() - start;
        assert!(took < limit, "{case}: {took:?}\n{}", pair.describe());
    }
    pair.world.now() - start
}

// ARQ-PTH-1, ARQ-PTH-7
#[test]
fn a_nat_that_rebinds_about_as_fast_as_a_round_trip_ends_nothing() {
    let ticks = || [Flow::reliable(1, 200, 200).every(20 * MS), Flow::reliable(6, 5_000, 10)];
    for (round_trip, intervals) in [
        (20, &[50, 100, 300, 1_000][..]),
        (60, &[100, 300, 1_000]),
        (200, &[300, 1_000]),
        (600, &[1_000]),
    ] {
        for (&interval, loss) in intervals.iter().flat_map(|i| [(i, 0.0), (i, 0.1)]) {
            for (seed, direction) in seeds(2).flat_map(|seed| (0..3).map(move |d| (seed, d))) {
                let wire = WireConfig {
                    loss: Loss::Random(loss),
                    ..WireConfig::with_delay(round_trip * MS / 2)
                };
                let scenario = Scenario::new(seed).wire(wire);
                let scenario = match direction {
                    0 => scenario.client_sends(ticks()),
                    1 => scenario.server_sends(ticks()),
                    _ => scenario.both_send(ticks()),
                };
                let both_ways = usize::from(direction == 2);
                for scenario in clear_and_sealed(scenario).into_iter().take(1 + both_ways) {
                    let is_other = seed % 2 == 1;
                    let took = rebind_while_talking(&scenario, interval * MS, is_other, 120 * SEC);
                    println!("{round_trip} ms, every {interval} ms, {loss}, {direction}: {took:?}");
                }
            }
        }
    }
}

/// Faster than a round trip nothing arrives where the NAT is, so this must only be outlived.
// ARQ-PTH-7
#[test]
fn a_nat_that_rebinds_faster_than_a_round_trip_is_outlived() {
    for (seed, round_trip, interval) in
        seeds(3).flat_map(|s| [(s, 60, 50), (s, 200, 100), (s, 600, 300)])
    {
        let wire =
            WireConfig { loss: Loss::Random(0.05), ..WireConfig::with_delay(round_trip * MS / 2) };
        let ticks = [Flow::reliable(1, 200, 500).every(20 * MS), Flow::reliable(6, 30_000, 10)];
        let mut pair = Pair::new(&Scenario::new(seed).wire(wire).both_send(ticks));
        let case = format!("seed {seed}, {round_trip} ms, every {interval} ms");
        pair.run_to_connected(10 * SEC).unwrap_or_else(|halt| panic!("{case}: {halt}"));
        for n in 0..10_000 / interval as u16 {
            let client = pair.client;
            pair.world.rebind(client, mapping(n, false));
            pair.world.run_for(interval * MS).unwrap_or_else(|halt| panic!("{case}: {halt}"));
        }
        let took = pair.run_to_delivery(20 * SEC).unwrap_or_else(|halt| {
            panic!("{case}: {halt}\n{}{}", pair.describe(), pair.world.log().ladder(30))
        });
        println!("{case}: {took:?} after the last");
    }
}

/// Where somebody is who sees every packet, and whose copies overtake the originals or come behind them.
const RACER: ([u8; 4], u16) = ([198, 51, 100, 66], 6_666);

/// Copies all that the client sends, from an address of the copier's own, and passes on whatever is sent there. `after`
/// is when a copy arrives; the originals take 10 ms.
fn race(pair: &mut Pair, after: Duration) {
    let (client, server) = (pair.world.address(pair.client), pair.world.address(pair.server));
    let racer = SocketAddr::from(RACER);
    pair.world.set_tap(move |_: Duration, seen: &Datagram, forged: &mut Vec<Forged>| {
        let to = match seen.from {
            from if from == client => server,
            // To the client he is the server, as well.
            from if from == server && seen.to == racer => client,
            _ => return Verdict::Pass,
        };
        forged.push(Forged { from: racer, to, after, bytes: seen.bytes.to_vec() });
        Verdict::Pass
    });
}

// ARQ-PTH-8, ARQ-AMP-1
#[test]
fn who_copies_everything_and_answers_moves_nothing_for_good() {
    for (seed, after) in seeds(10).flat_map(|seed| [(seed, 1), (seed, 9), (seed, 11), (seed, 40)]) {
        let scenarios = [0.0, 0.05].into_iter().flat_map(|loss| {
            let wire = WireConfig { loss: Loss::Random(loss), ..WireConfig::with_delay(10 * MS) };
            let ticks = [
                Flow::reliable(5, 200, 300).every(20 * MS),
                Flow::reliable(6, 30_000, 20).every(300 * MS),
            ];
            let scenario = Scenario::new(seed).wire(wire).both_send(ticks);
            clear_and_sealed(scenario).map(|scenario| (scenario, loss))
        });
        for (scenario, loss) in scenarios {
            let mut pair = Pair::new(&scenario);
            let case = format!("seed {seed}, copies after {after} ms, {loss} lost");
            pair.run_to_connected(10 * SEC).unwrap_or_else(|halt| panic!("{case}: {halt}"));
            let client = pair.world.address(pair.client);
            race(&mut pair, after * MS);
            pair.run_to_delivery(60 * SEC).unwrap_or_else(|halt| {
                panic!("{case}: {halt}\n{}{}", pair.describe(), pair.world.log().ladder(30))
            });
            assert_eq!(pair.server_side().connection().remote(), client, "{case}");
            let read = pair.world.exchanged(pair.server, RACER.into());
            let all = pair.world.exchanged(pair.server, client);
            println!("{case}: {read:?} of {all:?}");
            assert!(read.sent_bytes <= 3 * read.received_bytes, "{case}: {read:?}");
            assert!(read.sent_bytes * 20 <= all.sent_bytes, "{case}: {read:?} of {all:?}");
        }
    }
}

/// Who only hears what a peer sends that has moved, and repeats it from where it was, does not take it back there.
// ARQ-PTH-8
#[test]
fn copies_from_where_a_peer_was_do_not_take_it_back() {
    for (seed, after) in seeds(5).flat_map(|seed| [(seed, 11), (seed, 40), (seed, 200)]) {
        let ticks = Flow::reliable(5, 200, 300).every(20 * MS);
        let wire = WireConfig::with_delay(10 * MS);
        let scenario = Scenario::new(seed).wire(wire).both_send([ticks]);
        let both = clear_and_sealed(scenario);
        let mut pair = Pair::new(&both[usize::from(seed % 2 == 1)]);
        let case = format!("seed {seed}, copies after {after} ms");
        pair.run_to_connected(10 * SEC).unwrap_or_else(|halt| panic!("{case}: {halt}"));
        let (home, server) = (pair.world.address(pair.client), pair.world.address(pair.server));
        let moved = SocketAddr::from(([192, 0, 2, 1], 5_000));
        pair.world.set_tap(move |_: Duration, seen: &Datagram, forged: &mut Vec<Forged>| {
            if seen.from == moved {
                let bytes = seen.bytes.to_vec();
                forged.push(Forged { from: home, to: server, after: after * MS, bytes });
            }
            Verdict::Pass
        });
        pair.world.rebind(pair.client, moved);
        pair.world.run_for(SEC / 2).unwrap_or_else(|halt| panic!("{case}: {halt}"));
        for _ in 0..100 {
            pair.world.run_for(50 * MS).unwrap_or_else(|halt| panic!("{case}: {halt}"));
            assert_eq!(pair.server_side().connection().remote(), moved, "{case}");
        }
        pair.run_to_delivery(10 * SEC).unwrap_or_else(|halt| panic!("{case}: {halt}"));
    }
}

/// The peer, or who copies a packet of its, has many answers sent to somebody who never asked.
// ARQ-AMP-1
#[test]
fn a_victim_whose_address_is_spoofed_gets_three_times_what_was_sent_in_its_name() {
    for seed in seeds(10) {
        let bulk = [Flow::reliable(5, 30_000, u64::MAX).every(MS)];
        let mut pair =
            Pair::new(&Scenario::new(seed).wire(crate::common::lossy(0.02)).server_sends(bulk));
        pair.run_to_connected(10 * SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
        let (client, victim) = (pair.world.address(pair.client), SocketAddr::from(RACER));
        // The client has gone, and all that it says comes from the victim.
        pair.world.set_tap(move |_: Duration, seen: &Datagram, forged: &mut Vec<Forged>| {
            if seen.from != client {
                return if seen.to == client { Verdict::Withhold } else { Verdict::Pass };
            }
            forged.push(Forged {
                from: victim,
                to: seen.to,
                after: MS,
                bytes: seen.bytes.to_vec(),
            });
            Verdict::Withhold
        });
        pair.world.run_for(5 * SEC).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
        let sent = pair.world.exchanged(pair.server, victim);
        assert!(
            sent.sent_bytes > sent.received_bytes,
            "seed {seed}: data goes there at once: {sent:?}"
        );
        assert!(sent.sent_bytes <= 3 * sent.received_bytes, "seed {seed}: {sent:?}");
        assert_eq!(pair.server_side().connection().remote(), client, "seed {seed}");
    }
}
