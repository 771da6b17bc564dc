// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A peer that does not know of several paths.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};

use arq_sim::{
    toy::{Flights, Toy},
    Datagram, Flow, Forged, Pair, Scenario, Verdict, WireConfig,
};
use bytes::Bytes;

use crate::common::{lossy, MS, SEC};

/// A frame of paths would end the association at a side that has not agreed to them, so none was sent where all arrives.
// ARQ-MP-1
#[test]
fn with_a_side_that_does_not_offer_paths_there_is_one_and_no_frame_of_them() {
    let each = [(4, 1), (1, 4), (4, 4)];
    for ((client, server), is_sealed) in
        each.into_iter().flat_map(|one| [(one, false), (one, true)])
    {
        let wire = WireConfig::with_delay(10 * MS);
        let mut scenario = Scenario::new(1).wire(wire.clone()).radio(wire);
        scenario.config.paths = client;
        scenario.server_paths = Some(server);
        if is_sealed {
            scenario = scenario.sealed(Toy::new(Flights::default()), 64);
        }
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

/// What a client and a server with so many paths send over one radio, in clear or sealed: times, ends, bytes.
fn over_one_radio(paths: [u8; 2], is_sealed: bool) -> Vec<(Duration, SocketAddr, Bytes)> {
    let mut scenario = Scenario::new(4).wire(lossy(0.05));
    scenario.config.paths = paths[0];
    scenario.server_paths = Some(paths[1]);
    if is_sealed {
        scenario = scenario.sealed(Toy::new(Flights::default()), 64);
    }
    let flows = [
        Flow::reliable(2, 250, 100).every(20 * MS),
        Flow::reliable(5, 60_000, 10).every(200 * MS),
        Flow::best_effort(3, 3_000, 30).every(50 * MS),
    ];
    let mut pair = Pair::new(&scenario);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let sink = seen.clone();
    pair.world.set_tap(move |at: Duration, datagram: &Datagram, _: &mut Vec<Forged>| {
        sink.borrow_mut().push((at, datagram.to, datagram.bytes.clone()));
        Verdict::Pass
    });
    pair.run_to_connected(60 * SEC).unwrap();
    pair.world.run_for(SEC - pair.world.now()).unwrap();
    for side in [pair.conn, pair.accepted().unwrap()] {
        pair.world.with_conn(side, |clock, _, app| {
            flows.iter().for_each(|flow| app.add_flow(clock.offset(), flow.clone()));
        });
    }
    pair.world.run_for(8 * SEC).unwrap();
    drop(pair);
    Rc::try_unwrap(seen).unwrap().into_inner()
}

// ARQ-MP-1
#[test]
fn where_there_is_one_radio_paths_change_nothing_but_the_parameter() {
    for is_sealed in [false, true] {
        let alone = over_one_radio([1, 1], is_sealed);
        for paths in [[4, 1], [1, 4], [4, 4]] {
            let offered = over_one_radio(paths, is_sealed);
            assert_eq!(alone.len(), offered.len(), "{paths:?}, sealed {is_sealed}");
            // Other parameters make other keys.
            let is_like = |n: &usize| {
                let [(at, to, bytes), other] = [&alone[*n], &offered[*n]];
                let same = (*at, *to, bytes.len()) == (other.0, other.1, other.2.len());
                same && (is_sealed || *bytes == other.2)
            };
            let unlike: Vec<_> = (0..alone.len()).filter(|n| !is_like(n)).collect();
            // What a side says of itself in the handshake, and what that is authenticated by.
            let last = unlike.last().map(|n| offered[*n].0);
            assert!(last <= Some(20 * MS) && unlike.len() <= 4, "{paths:?}: {unlike:?}");
            for n in unlike {
                let [plain, named] = [&alone[n], &offered[n]].map(|(.., bytes)| bytes.len());
                let more = if is_sealed { 0 } else { 3 };
                assert_eq!(named, plain + more, "{paths:?}, sealed {is_sealed}");
            }
        }
    }
}
