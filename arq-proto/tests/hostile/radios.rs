// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! An observer at one of two radios, who sends what he likes and cannot stop the original, while the other one is silent.

use std::{cell::Cell, net::SocketAddr, ops::Range, rc::Rc, time::Duration};

use arq_proto::{
    wire::packet::{Echo, Reset},
    ConnectionError, PathState,
};
use arq_sim::{hostile, Datagram, Flow, Forged, Pair, Scenario, Tap, Verdict, WireConfig};

use crate::{
    common::{seeds, MS, SEC},
    stranger,
};

const SILENT: Range<Duration> = Duration::from_secs(3)..Duration::from_secs(9);
const HOUR: Duration = Duration::from_secs(3_600);
const SECOND: &str = "10.0.2.1:40001";

/// Two radios, of which the first or the second is silent for a while. The other one loses some packets.
fn two_radios(seed: u64, silent: u8) -> Scenario {
    let mut wires = [0, 1].map(|_| WireConfig {
        loss: arq_sim::Loss::Random(0.05),
        ..WireConfig::with_delay(10 * MS)
    });
    wires[usize::from(silent)].blackouts = vec![SILENT];
    let [first, second] = wires;
    let commands = Flow::reliable(2, 250, 500).every(20 * MS);
    Scenario::new(seed).wire(first).radio(second).both_send([commands])
}

/// Runs it beneath an attack. Everything arrives, both sides live, and each path is where it was.
fn live_through(scenario: &Scenario, attack: impl Tap + 'static) {
    let mut pair = Pair::new(scenario);
    pair.world.set_tap(attack);
    pair.run_to_connected(SEC).unwrap();
    pair.run_to_delivery(scenario.limit)
        .unwrap_or_else(|halt| panic!("seed {}: {halt}\n{}", scenario.seed, pair.describe()));
    pair.world.run_for(5 * SEC).unwrap();
    let seed = scenario.seed;
    for side in [pair.client_side(), pair.server_side()] {
        assert!(side.closed.is_none(), "seed {seed}: {:?}", side.closed);
        let states: Vec<_> = side.connection().paths().map(|path| path.state).collect();
        assert_eq!(states, [PathState::Open; 2], "seed {seed}");
    }
    let remotes = pair.server_side().connection().paths().map(|path| path.remote.to_string());
    assert_eq!(remotes.collect::<Vec<_>>(), [Pair::CLIENT, SECOND], "seed {seed}");
}

/// Each data packet is refused, from where it goes to, before it arrives there. It counts the refusals.
fn refuse_all(count: Rc<Cell<u32>>) -> impl Tap {
    move |_: Duration, datagram: &Datagram, forged: &mut Vec<Forged>| {
        if let Some(at) = hostile::sight(&datagram.bytes) {
            let mut bytes = Vec::new();
            Reset { unknown: at.dcid, echo: Echo::Number(at.number) }.encode(&mut bytes);
            forged.push(Forged { from: datagram.to, to: datagram.from, after: MS, bytes });
            count.set(count.get() + 1);
        }
        Verdict::Pass
    }
}

// ARQ-MP-9, ARQ-SUS-1
#[test]
fn a_flood_of_resets_ends_nothing_while_one_radio_of_two_is_silent() {
    for seed in seeds(5) {
        for silent in [0, 1] {
            let count = Rc::new(Cell::new(0));
            live_through(&two_radios(seed, silent), refuse_all(count.clone()));
            assert!(count.get() > 1_000, "seed {seed}: {} refusals", count.get());
        }
    }
}

/// For a while what the client sends through one radio comes from another address as well, and sooner. What goes to that
/// address is passed on to the client.
fn race(client: SocketAddr, times: Range<Duration>) -> impl Tap {
    let server: SocketAddr = Pair::SERVER.parse().unwrap();
    move |at: Duration, datagram: &Datagram, forged: &mut Vec<Forged>| {
        let bytes = datagram.bytes.to_vec();
        if datagram.from == client && times.contains(&at) {
            forged.push(Forged { from: stranger(9), to: server, after: MS, bytes });
        } else if datagram.to == stranger(9) {
            forged.push(Forged { from: server, to: client, after: MS, bytes });
        }
        Verdict::Pass
    }
}

// ARQ-MP-3, ARQ-PTH-8
#[test]
fn who_races_the_packets_of_one_radio_takes_it_nowhere_while_the_other_is_silent() {
    for seed in seeds(5) {
        for (silent, raced) in [(0, SECOND), (1, Pair::CLIENT)] {
            let raced = raced.parse().unwrap();
            // Both paths are open.
            live_through(&two_radios(seed, silent), race(raced, 2 * SEC..HOUR));
            // Who is there when a path opens may carry it, until he stops.
            live_through(&two_radios(seed, silent), race(raced, Duration::ZERO..8 * SEC));
        }
    }
}

// ARQ-MP-9
#[test]
fn a_server_that_has_forgotten_all_ends_the_association_whichever_radio_is_silent() {
    for seed in seeds(5) {
        for silent in [0, 1] {
            let mut pair = Pair::new(&two_radios(seed, silent));
            pair.run_to_connected(SEC).unwrap();
            pair.world.run_for(5 * SEC).unwrap();
            pair.world.restart(pair.server);
            pair.world.run_for(SEC).unwrap();
            let end = pair.client_side().error();
            let is_known = matches!(end, Some(ConnectionError::PeerLostState));
            assert!(is_known, "seed {seed}, radio {silent} is silent: {end:?}");
        }
    }
}
