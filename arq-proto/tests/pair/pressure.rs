// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What happens when the application or the path is slower than the sender?

use std::time::Duration;

use arq_proto::{
    config::MIN_WINDOW_BYTES, Config, CongestionConfig, FecConfig, LaneId, Reliability,
};
use arq_sim::{lane, AppPlan, Bottleneck, Flow, Pair, Reading, Scenario, WireConfig};

use crate::common::{lossy, MS, SEC};

const BULK: u8 = 5;

fn bulk_lane() -> LaneId {
    lane(BULK, Reliability::Reliable)
}

/// Ten megabits per second with a queue of 50 ms.
fn slow_path() -> WireConfig {
    let bottleneck = Bottleneck { rate_bps: 10_000_000, queue_bytes: 62_500 };
    WireConfig { bottleneck: Some(bottleneck), ..WireConfig::with_delay(10 * MS) }
}

// ARQ-FLW-1, ARQ-FLW-4
#[test]
fn a_reader_that_stops_stops_the_sender_and_loses_nothing() {
    let mut scenario =
        Scenario::new(1).wire(lossy(0.05)).client_sends([Flow::reliable(BULK, 10_000, 1_000)]);
    scenario.server = AppPlan { reading: Reading::Never, ..AppPlan::default() };
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(10 * SEC).unwrap();
    pair.world.run_for(30 * SEC).unwrap();
    let config = Config::default();
    let accepted = pair.client_side().app.bytes_accepted();
    // The receiver's window, and what the sender's lane takes before it is sent: 256 KiB.
    let bound = u64::from(config.lane_window_bytes) + (256 << 10) + 65_535;
    assert!(accepted <= bound, "{accepted} bytes accepted, {bound} are bearable");
    assert!(accepted >= bound / 2, "the window is used: {accepted}");
    assert_eq!(pair.client_side().closed, None, "a slow reader is no reason to end");

    let server = pair.accepted().unwrap();
    pair.world.with_conn(server, |_, _, app| app.set_reading(Reading::AtOnce));
    pair.run_to_delivery(60 * SEC).unwrap();
}

/// What the peer grants is its own word, and what it does not acknowledge is kept.
// ARQ-FLW-5
#[test]
fn a_peer_that_grants_much_and_acknowledges_nothing_fills_no_memory() {
    let granted = 128 << 20;
    let generous = Config {
        lane_window_bytes: granted,
        connection_window_bytes: granted,
        ..Config::default()
    };
    let hasty = Config {
        congestion: CongestionConfig::Constant { window_bytes: granted.into() },
        ..Config::default()
    };
    let mut pair = Pair::new(&Scenario::new(1).config(generous));
    pair.run_to_connected(SEC).unwrap();
    let flows = [3, 4].map(|priority| Flow::reliable(priority, 60_000, 1_000));
    let (client, server) = (pair.client, pair.server);
    let id = pair.world.connect(client, server, hasty.validate().unwrap(), AppPlan::sends(flows));
    pair.world.run_until(SEC, |world| world.conn(id).app.bytes_accepted() > 0).unwrap();
    let black = WireConfig { blackouts: vec![Duration::ZERO..Duration::MAX], ..slow_path() };
    pair.world.lay_wire(server, client, black);
    pair.world.run_for(SEC).unwrap();
    let kept = pair.world.conn(id).connection().stats().send_buffer_bytes;
    assert!((32 << 20..34 << 20).contains(&kept), "{kept}");
}

#[test]
fn a_slow_reader_slows_the_sender_down() {
    let mut scenario =
        Scenario::new(2).client_sends([Flow::reliable(BULK, 10_000, 1_000)]).within(30 * SEC);
    // A megabyte per second.
    scenario.server = AppPlan { reading: Reading::Every(10 * MS), ..AppPlan::default() };
    let report = crate::common::run(&scenario);
    assert!(report.transfer >= 9_900 * MS, "{:?}", report.transfer);
}

// ARQ-LAN-1
#[test]
fn a_lane_that_is_not_read_holds_no_other() {
    let mut scenario = Scenario::new(3)
        .wire(lossy(0.05))
        .client_sends([Flow::reliable(BULK, 10_000, 1_000), Flow::reliable(BULK + 1, 1_000, 500)]);
    scenario.server = AppPlan { reading: Reading::AllBut(bulk_lane()), ..AppPlan::default() };
    let mut pair = Pair::new(&scenario);
    let other = lane(BULK + 1, Reliability::Reliable);
    pair.run(30 * SEC, |pair| {
        pair.accepted().is_some() && pair.server_side().app.inbox(other).messages == 500
    })
    .unwrap();
}

fn least_windows() -> Config {
    let least = MIN_WINDOW_BYTES as u32;
    Config { lane_window_bytes: least, connection_window_bytes: least, ..Config::default() }
}

/// Credit comes in steps of a quarter of the window, 32 KiB here, of which a long message needs more than two.
// ARQ-LAN-2
#[test]
fn short_messages_do_not_take_the_credit_that_a_long_urgent_one_waits_for() {
    const URGENT: u8 = 1;
    let backlog = Flow::reliable(BULK, 1_000, 2_000);
    let mut scenario = Scenario::new(6).config(least_windows()).client_sends([backlog]);
    scenario.server = AppPlan { reading: Reading::Every(MS / 2), ..AppPlan::default() };
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(SEC).unwrap();
    pair.world.run_for(200 * MS).unwrap();
    let client = pair.conn;
    pair.world.with_conn(client, |clock, _, app| {
        app.add_flow(clock.offset(), Flow::reliable(URGENT, 60_000, 5));
    });
    pair.run(60 * SEC, |pair| {
        let urgent = lane(URGENT, Reliability::Reliable);
        pair.accepted().is_some() && pair.server_side().app.inbox(urgent).messages == 5
    })
    .unwrap();
    let behind = pair.server_side().app.inbox(bulk_lane()).messages;
    assert!(behind < 1_500, "{behind} of 2,000 short ones came first");
    pair.run(60 * SEC, |pair| pair.server_side().app.inbox(bulk_lane()).messages == 2_000).unwrap();
}

/// Half of the window lies unread, and little of the rest was announced again: the urgent message needs more.
// ARQ-LAN-2, ARQ-FLW-4
#[test]
fn a_reader_that_stalls_ends_no_other_lane() {
    const URGENT: u8 = 1;
    let mut scenario =
        Scenario::new(7).config(least_windows()).client_sends([Flow::reliable(BULK, 1_000, 61)]);
    scenario.server = AppPlan { reading: Reading::AllBut(bulk_lane()), ..AppPlan::default() };
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(SEC).unwrap();
    pair.world.run_for(200 * MS).unwrap();
    let client = pair.conn;
    let send = |pair: &mut Pair, flow: Flow| {
        pair.world.with_conn(client, |clock, _, app| app.add_flow(clock.offset(), flow));
        pair.world.run_for(200 * MS).unwrap();
    };
    send(&mut pair, Flow::reliable(BULK + 1, 1_000, 10));
    send(&mut pair, Flow::reliable(URGENT, 60_000, 1));
    send(&mut pair, Flow::reliable(BULK + 2, 1_000, 10));
    let inbox =
        |priority| pair.server_side().app.inbox(lane(priority, Reliability::Reliable)).messages;
    assert_eq!((inbox(URGENT), inbox(BULK + 1), inbox(BULK + 2)), (1, 10, 10));
}

// ARQ-LAN-4
#[test]
fn nothing_stale_hides_in_the_lane() {
    // The path takes a tenth of what the application offers.
    let scenario = Scenario::new(4)
        .wire(slow_path())
        .client_sends([Flow::reliable(BULK, 10_000, 200).every(MS)]);
    let mut pair = Pair::new(&scenario);
    pair.run_to_connected(SEC).unwrap();
    let age = Config::default().queue_age;
    while pair.run(100 * MS, Pair::all_delivered).is_err() {
        let stats = pair.client_side().connection().stats();
        // A lane takes one more message just before the oldest reaches that age, and what it holds
        // then has to leave through the bottleneck: 256 KiB at 10 Mb/s.
        assert!(stats.queue_age <= age + 300 * MS, "{:?}", stats.queue_age);
    }
}

// ARQ-LAN-2
#[test]
fn low_priorities_starve_for_a_bounded_time() {
    let scenario = Scenario::new(5).wire(slow_path()).client_sends([
        // Ten seconds of traffic more urgent than the rest.
        Flow::reliable(0, 60_000, 200),
        Flow::reliable(7, 500, 20),
    ]);
    let mut pair = Pair::new(&scenario);
    let low = lane(7, Reliability::Reliable);
    let took = pair
        .run(60 * SEC, |pair| {
            pair.accepted().is_some() && pair.server_side().app.inbox(low).messages == 20
        })
        .unwrap();
    assert!(took < 5 * SEC, "20 small messages took {took:?} beside urgent traffic");
}

#[test]
fn an_urgent_message_does_not_wait_for_bulk() {
    let beacon = || Flow::reliable(1, 300, 300).every(20 * MS);
    let config = Config {
        // Twice the bandwidth-delay product: the queue below belongs to the path, not to us.
        congestion: CongestionConfig::Constant { window_bytes: 50_000 },
        ..Config::default()
    };
    let p99 = |flows: Vec<Flow>| {
        let scenario =
            Scenario::new(6).wire(slow_path()).config(config.clone()).client_sends(flows);
        let mut pair = Pair::new(&scenario);
        pair.run_to_delivery(60 * SEC).unwrap();
        let mut latencies =
            pair.server_side().app.inbox(lane(1, Reliability::Reliable)).latencies.clone();
        latencies.sort_unstable();
        latencies[latencies.len() * 99 / 100]
    };
    let alone = p99(vec![beacon()]);
    let beside = p99(vec![beacon(), Flow::reliable(BULK, 100_000 / 2, 150)]);
    // Half of the window waits in the path's queue, 20 ms at 10 Mb/s.
    assert!(alone < 15 * MS, "{alone:?}");
    assert!(beside < alone + Duration::from_millis(45), "{beside:?} beside bulk, {alone:?} alone");
}

/// Thirteen packets: ten leave at once, the others as they accrue.
// ARQ-CC-4
#[test]
fn a_slow_pacer_lets_out_each_packet_in_its_time() {
    let config = Config {
        max_rate_bps: Some(1_000_000),
        mtu: Some(1_200),
        fec: FecConfig::Off,
        ..Config::default()
    };
    let flow = Flow::reliable(BULK, 13 * 1_150, 50).every(300 * MS);
    let mut pair = Pair::new(&Scenario::new(1).config(config).client_sends([flow]));
    pair.run_to_delivery(60 * SEC).unwrap();
    let mut latencies = pair.server_side().app.inbox(bulk_lane()).latencies.clone();
    latencies.sort_unstable();
    let median = latencies[latencies.len() / 2];
    assert!(median <= (35 + 10) * MS, "{median:?}");
}

/// The batch has emptied the bucket.
// ARQ-CC-4, ARQ-LAN-2
#[test]
fn an_urgent_message_waits_for_one_packet_of_the_pacer() {
    let config = Config {
        max_rate_bps: Some(1_000_000),
        mtu: Some(1_200),
        fec: FecConfig::Off,
        ..Config::default()
    };
    let mut pair = Pair::new(&Scenario::new(1).config(config));
    pair.run_to_connected(SEC).unwrap();
    let client = pair.conn;
    for _ in 0..20 {
        let send = |pair: &mut Pair, flow: Flow| {
            pair.world.with_conn(client, |clock, _, app| app.add_flow(clock.offset(), flow));
            pair.world.run_for(MS).unwrap();
        };
        send(&mut pair, Flow::reliable(BULK, 13 * 1_150, 1));
        send(&mut pair, Flow::reliable(1, 300, 1));
        pair.world.run_for(500 * MS).unwrap();
    }
    let urgent = &pair.server_side().app.inbox(lane(1, Reliability::Reliable)).latencies;
    let worst = urgent.iter().max().unwrap();
    assert_eq!(urgent.len(), 20);
    assert!(*worst <= (10 + 10) * MS, "{worst:?}");
}
