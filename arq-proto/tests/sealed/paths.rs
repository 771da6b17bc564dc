// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Sealed packets over several paths.

use std::{cell::Cell, rc::Rc};

use arq_sim::{
    toy::{Flights, Toy},
    Datagram, Flow, Forged, Pair, Scenario, Verdict, WireConfig,
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

// ARQ-SEC-2, ARQ-MP-2
#[test]
fn a_packet_of_one_path_does_not_open_on_another() {
    let scenario = two_radios(1).sealed(Toy::new(Flights::default()), 1 << 20);
    let mut pair = Pair::new(&scenario);
    let copies = Rc::new(Cell::new(0));
    let made = copies.clone();
    let mut id_of_first = None;
    let client: std::net::SocketAddr = Pair::CLIENT.parse().unwrap();
    let server: std::net::SocketAddr = Pair::SERVER.parse().unwrap();
    pair.world.set_tap(move |_, datagram: &Datagram, forged: &mut Vec<Forged>| {
        let is_sealed = datagram.bytes[0] & 0xf0 == 0xb0;
        if datagram.to == server && is_sealed {
            let id: [u8; 8] = datagram.bytes[1..9].try_into().unwrap();
            if datagram.from == client {
                id_of_first = Some(id);
            } else if let Some(first) = id_of_first {
                assert_ne!(first, id, "ids of two paths share nothing");
                let mut bytes = datagram.bytes.to_vec();
                bytes[1..9].copy_from_slice(&first);
                forged.push(Forged { from: client, to: server, after: MS, bytes });
                made.set(made.get() + 1);
            }
        }
        Verdict::Pass
    });
    pair.run_to_connected(SEC).unwrap();
    pair.run_to_delivery(60 * SEC).unwrap();
    let stats = pair.server_side().connection().stats();
    assert!(copies.get() >= 3, "{}", copies.get());
    assert_eq!(stats.packets_forged, copies.get());
}
