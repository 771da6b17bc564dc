// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Keys change, and end.

use std::{cell::RefCell, rc::Rc, time::Duration};

use arq_proto::ConnectionError;
use arq_sim::{
    toy::{Flights, Toy},
    Datagram, Flow, Forged, Loss, Pair, Scenario, Verdict, WireConfig,
};

use crate::common::{run, seeds, MS, SEC};

fn busy(seed: u64) -> Scenario {
    let flow = || [Flow::reliable(5, 1_000, 3_000).every(MS)];
    Scenario::new(seed).client_sends(flow()).server_sends(flow())
}

// ARQ-KEY-1, ARQ-KEY-2
#[test]
fn keys_change_under_load_and_no_packet_fails_to_open_where_none_is_late() {
    for seed in seeds(3) {
        let report = run(&busy(seed).sealed(Toy::new(Flights::default()), 64));
        let (client, server) = (&report.client_stats, &report.server_stats);
        assert!(client.key_updates >= 20, "{}", client.key_updates);
        assert!(client.key_updates.abs_diff(server.key_updates) <= 1);
        assert_eq!((client.packets_forged, server.packets_forged), (0, 0));
    }
}

// ARQ-KEY-2
#[test]
fn old_keys_open_what_is_late() {
    for seed in seeds(3) {
        let wire = WireConfig {
            loss: Loss::Random(0.25),
            jitter: 50 * MS,
            ..WireConfig::with_delay(10 * MS)
        };
        let report = run(&busy(seed).wire(wire).sealed(Toy::new(Flights::default()), 64));
        let (client, server) = (&report.client_stats, &report.server_stats);
        assert!(client.key_updates >= 5, "{}", client.key_updates);
        assert_eq!((client.packets_forged, server.packets_forged), (0, 0), "seed {seed}");
    }
}

/// On a bad radio nothing of what is late is taken for forged, however long it lasts.
// ARQ-KEY-1, ARQ-KEY-2
#[test]
fn ten_minutes_of_changes_each_thousand_packets_lose_nothing() {
    const INTERVAL: Duration = Duration::from_millis(10);
    // More than 50 packets, of which there is at least one in an interval.
    let held_back = 50 * INTERVAL;
    let wire = WireConfig {
        loss: Loss::Random(0.25),
        reorder: 0.25,
        hold_back: held_back,
        ..WireConfig::with_delay(10 * MS)
    };
    let messages = (600 * SEC).as_millis() as u64 / INTERVAL.as_millis() as u64;
    for seed in seeds(1) {
        let flow = || [Flow::reliable(5, 1_000, messages).every(INTERVAL)];
        let scenario = Scenario::new(seed).wire(wire.clone()).within(620 * SEC);
        let scenario = scenario.client_sends(flow()).server_sends(flow());
        let report = run(&scenario.sealed(Toy::new(Flights::default()), 1_000));
        let (client, server) = (&report.client_stats, &report.server_stats);
        println!("{:?}: {} updates", report.delivered_after, client.key_updates);
        assert!(report.delivered_after > 590 * SEC, "{:?}", report.delivered_after);
        assert!(client.key_updates >= 50, "{}", client.key_updates);
        assert_eq!((client.packets_forged, server.packets_forged), (0, 0), "seed {seed}");
    }
}

// ARQ-KEY-3
#[test]
fn a_key_that_may_seal_no_more_ends_the_association() {
    // The limit is reached before an acknowledgement could allow others.
    let toy = Toy::new(Flights::default()).with_limits(20, 1 << 36);
    let slow = WireConfig::with_delay(300 * MS);
    let scenario = Scenario::new(1)
        .wire(slow)
        .client_sends([Flow::reliable(5, 60_000, 5)])
        .sealed(toy, 1 << 20);
    let mut pair = Pair::new(&scenario);
    pair.run(20 * SEC, |pair| pair.client_side().closed.is_some()).unwrap();
    assert_eq!(pair.client_side().error(), Some(&ConnectionError::KeysUsedUp));
}

// ARQ-KEY-3
#[test]
fn so_many_forgeries_that_one_might_open_end_it_too() {
    let toy = Toy::new(Flights::default()).with_limits(1 << 23, 100);
    let mut pair = Pair::new(&busy(1).sealed(toy, 64));
    pair.run_to_connected(SEC).unwrap();
    let server = pair.world.address(pair.server);
    pair.world.set_tap(move |_: Duration, datagram: &Datagram, forged: &mut Vec<Forged>| {
        if datagram.to == server {
            let Datagram { from, to, bytes, .. } = datagram.clone();
            let mut bytes = bytes.to_vec();
            *bytes.last_mut().unwrap() ^= 1;
            forged.push(Forged { from, to, after: MS, bytes });
        }
        Verdict::Pass
    });
    pair.run(10 * SEC, |pair| pair.server_side().closed.is_some()).unwrap();
    assert_eq!(pair.server_side().error(), Some(&ConnectionError::KeysUsedUp));
    assert_eq!(pair.server_side().connection().stats().packets_forged, 100);
}

// ARQ-SEC-5
#[test]
fn neither_number_nor_key_phase_can_be_seen() {
    let mut pair = Pair::new(&busy(1).sealed(Toy::new(Flights::default()), 1 << 20));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (recorder, server) = (seen.clone(), pair.world.address(pair.server));
    pair.world.set_tap(move |_: Duration, datagram: &Datagram, _: &mut Vec<Forged>| {
        if datagram.to == server && datagram.bytes[0] & 0xfe == 0xb0 {
            let number = u32::from_be_bytes(*datagram.bytes[9..].first_chunk().unwrap());
            recorder.borrow_mut().push((datagram.bytes[0] & 1, number));
        }
        Verdict::Pass
    });
    pair.run_to_delivery(20 * SEC).unwrap();
    let seen = seen.borrow();
    assert_eq!(pair.client_side().connection().stats().key_updates, 0);
    let odd = seen.iter().filter(|(phase, _)| *phase == 1).count();
    // Of some thousand coins.
    assert!((odd * 2).abs_diff(seen.len()) < seen.len() / 8, "{odd} of {}", seen.len());
    let ordered = seen.windows(2).filter(|pair| pair[0].1 < pair[1].1).count();
    assert!((ordered * 2).abs_diff(seen.len()) < seen.len() / 8, "{ordered} of {}", seen.len());
}
