// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Sealed packets over several paths.

use std::{cell::Cell, net::SocketAddr, rc::Rc, time::Duration};

use arq_sim::{
    toy::{Flights, Toy},
    Datagram, Flow, Forged, Pair, Scenario, Tap, Verdict, WireConfig,
};

use crate::common::{run, seeds, MS, SEC};

fn two_radios(seed: u64) -> Scenario {
    let flow = || [Flow::reliable(5, 1_000, 3_000).every(MS)];
    let (near, far) = (WireConfig::with_delay(10 * MS), WireConfig::with_delay(15 * MS));
    Scenario::new(seed).wire(near).radio(far).client_sends(flow()).server_sends(flow())
}

// ARQ-MP-9, ARQ-KEY-1
#[test]
fn keys_change_over_two_paths_and_every_packet_opens() {
    for seed in seeds(3) {
        let mut scenario = two_radios(seed).within(60 * SEC);
        // Both carry something in turn.
        scenario.up.blackouts = (1..5).map(|n| n * SEC..n * SEC + 200 * MS).collect();
        scenario.client.flows = vec![Flow::reliable(5, 1_000, 20_000).every(MS)];
        let report = run(&scenario.sealed(Toy::new(Flights::default()), 64));
        let (client, server) = (&report.client_stats, &report.server_stats);
        assert!(client.key_updates >= 3, "{}", client.key_updates);
        assert_eq!((client.packets_forged, server.packets_forged), (0, 0), "seed {seed}");
    }
}

/// Sends each sealed packet again, on the other path: to the id of that one, through the radio of that one. Counts those to
/// the client, and those to the server.
fn replay_across(copies: [Rc<Cell<u64>>; 2]) -> impl Tap {
    let [client, second, server] =
        [Pair::CLIENT, "10.0.2.1:40001", Pair::SERVER].map(|at| at.parse::<SocketAddr>().unwrap());
    let mut ids: [[Option<[u8; 8]>; 2]; 2] = [[None; 2]; 2];
    move |_: Duration, datagram: &Datagram, forged: &mut Vec<Forged>| {
        if datagram.bytes[0] & 0xf0 != 0xb0 {
            return Verdict::Pass;
        }
        let is_up = datagram.to == server;
        let radio = if is_up { datagram.from } else { datagram.to };
        let (path, other) = if radio == client { (0, second) } else { (1, client) };
        let known = &mut ids[usize::from(is_up)];
        let id: [u8; 8] = datagram.bytes[1..9].try_into().unwrap();
        assert_eq!(*known[path].get_or_insert(id), id);
        if let Some(across) = known[1 - path] {
            assert_ne!(across, id, "ids of two paths share nothing");
            let mut bytes = datagram.bytes.to_vec();
            bytes[1..9].copy_from_slice(&across);
            let (from, to) = if is_up { (other, server) } else { (server, other) };
            forged.push(Forged { from, to, after: MS, bytes });
            let count = &copies[usize::from(is_up)];
            count.set(count.get() + 1);
        }
        Verdict::Pass
    }
}

// ARQ-SEC-2, ARQ-MP-2
#[test]
fn a_packet_of_one_path_does_not_open_on_another() {
    for seed in seeds(3) {
        let mut scenario = two_radios(seed).sealed(Toy::new(Flights::default()), 1 << 20);
        // The second one carries something, too.
        for wire in [&mut scenario.up, &mut scenario.down] {
            wire.blackouts.push(SEC..2 * SEC);
        }
        let mut pair = Pair::new(&scenario);
        let copies = [0, 0].map(|none| Rc::new(Cell::new(none)));
        pair.world.set_tap(replay_across(copies.clone()));
        pair.run_to_connected(SEC).unwrap();
        pair.run_to_delivery(60 * SEC).unwrap();
        pair.world.run_for(SEC).unwrap();
        for (side, copies) in [pair.client_side(), pair.server_side()].into_iter().zip(copies) {
            let forged = side.connection().stats().packets_forged;
            assert!(forged > 1_000, "seed {seed}: {forged}");
            // The last ones are under way.
            assert!(copies.get() - forged <= 5, "seed {seed}: {forged} of {}", copies.get());
        }
    }
}
