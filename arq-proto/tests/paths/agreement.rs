// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A peer that does not know of several paths.

use std::{cell::Cell, rc::Rc, time::Duration};

use arq_sim::{Datagram, Flow, Forged, Pair, Scenario, Verdict, WireConfig};

use crate::common::MS;

/// A frame of paths would end the association at a side that has not agreed to them, so none was sent where all arrives.
// ARQ-MP-1
#[test]
fn with_a_side_that_does_not_offer_paths_there_is_one_and_no_frame_of_them() {
    for (client, server) in [(4, 1), (1, 4), (4, 4)] {
        let wire = WireConfig::with_delay(10 * MS);
        let mut scenario = Scenario::new(1).wire(wire.clone()).radio(wire);
        scenario.config.paths = client;
        scenario.server_paths = Some(server);
        let flows = [
            Flow::reliable(2, 250, 100).every(20 * MS),
            Flow::reliable(5, 60_000, 10).every(200 * MS),
        ];
        let scenario = scenario.both_send(flows);
        let mut pair = Pair::new(&scenario);
        let elsewhere = Rc::new(Cell::new(0));
        let (count, first) = (elsewhere.clone(), pair.world.address(pair.client));
        pair.world.set_tap(move |_: Duration, datagram: &Datagram, _: &mut Vec<Forged>| {
            let is_first = [datagram.from, datagram.to].contains(&first);
            count.set(count.get() + u32::from(!is_first));
            Verdict::Pass
        });
        pair.run_to_connected(scenario.limit).unwrap();
        pair.run_to_delivery(scenario.limit).unwrap();
        let paths =
            [pair.client_side(), pair.server_side()].map(|side| side.connection().paths().count());
        match client.min(server) {
            1 => assert_eq!((paths, elsewhere.get()), ([1, 1], 0), "{client}, {server}"),
            _ => assert!(paths == [2, 2] && elsewhere.get() > 0, "{client}, {server}: {paths:?}"),
        }
    }
}
