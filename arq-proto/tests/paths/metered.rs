// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A radio whose bytes cost money: what passes it, counted on its wires with the headers of IPv4 and UDP.

use std::{cell::RefCell, net::SocketAddr, rc::Rc, time::Duration};

use arq_proto::{Budget, Interface, InterfaceUse, PathStats, Reliability, SocketId};
use arq_sim::{lane, Datagram, FadeConfig, Flow, Forged, Pair, Scenario, Verdict, WireConfig};

use crate::common::{MS, SEC};

const MIN: Duration = Duration::from_secs(60);
const HEADERS: u64 = 28;
const SECOND: &str = "10.0.2.1:40001";
/// HELLO leaves before a budget is named.
const HELLO_BYTES: f64 = 1_228.0;

/// Packets through the metered radio.
#[derive(Debug, Default)]
struct Counted {
    sent_bytes: u64,
    received_bytes: u64,
    /// When each packet left, of either side.
    at: Vec<Duration>,
}

/// One radio or two, of which the last has a budget of so many bits per second that is kept at each packet.
fn metered(scenario: &Scenario, rate_bps: u64) -> (Pair, Rc<RefCell<Counted>>) {
    let mut pair = Pair::new(scenario);
    pair.world.stop_log();
    let (socket, address) = match scenario.radios.len() {
        0 => (SocketId(0), Pair::CLIENT),
        _ => (SocketId(1), SECOND),
    };
    pair.world.with_conn(pair.conn, |clock, connection, _| {
        let purpose = InterfaceUse::Metered(Budget::new(rate_bps, clock.now()));
        connection.handle_interface(clock.now(), Interface { socket, is_up: true, purpose });
    });
    let counted = Rc::new(RefCell::new(Counted::default()));
    let (count, radio): (_, SocketAddr) = (counted.clone(), address.parse().unwrap());
    pair.world.set_tap(move |at: Duration, datagram: &Datagram, _: &mut Vec<Forged>| {
        let mut counted = count.borrow_mut();
        let bytes = datagram.bytes.len() as u64 + HEADERS;
        if datagram.from == radio {
            counted.sent_bytes += bytes;
            let earned = rate_bps as f64 / 8.0 * (at + 60 * MIN).as_secs_f64();
            let both = counted.sent_bytes + counted.received_bytes;
            assert!(both as f64 <= earned + HELLO_BYTES, "{both} bytes of {earned} at {at:?}");
            counted.at.push(at);
        } else if datagram.to == radio {
            counted.received_bytes += bytes;
            counted.at.push(at);
        }
        Verdict::Pass
    });
    pair.run_to_connected(SEC).unwrap();
    (pair, counted)
}

fn clean(seed: u64) -> Scenario {
    let wire = WireConfig::with_delay(30 * MS);
    Scenario::new(seed).wire(wire.clone()).radio(wire)
}

fn radio(pair: &Pair) -> PathStats {
    pair.client_side().connection().paths().nth(1).unwrap()
}

/// Keep-alives of the session, commands and images, for half an hour.
fn busy() -> [Flow; 3] {
    [
        Flow::reliable(0, 50, 720).every(2_500 * MS),
        Flow::reliable(1, 250, 36_000).every(50 * MS),
        Flow::reliable(5, 30_000, 1_800).every(SEC),
    ]
}

/// The other radio loses everything from now on.
fn kill_the_other(pair: &mut Pair) {
    let dead = WireConfig { mtu: Some(1), ..WireConfig::default() };
    pair.world.lay_wire(pair.client, pair.server, dead.clone());
    pair.world.lay_wire(pair.server, pair.client, dead);
}

// ARQ-MP-11
#[test]
fn an_idle_metered_radio_costs_a_question_each_quarter_of_a_minute() {
    let (mut pair, counted) = metered(&clean(1), 1_000);
    pair.world.run_for(30 * MIN).unwrap();
    let counted = counted.borrow();
    let bytes = counted.sent_bytes + counted.received_bytes;
    println!("{} bytes sent, {} received", counted.sent_bytes, counted.received_bytes);
    assert!(bytes <= 40_000, "{bytes} bytes");
    assert_eq!(radio(&pair).budget_bytes, Some(450_000), "it earns more");
    assert!(radio(&pair).is_backup);
}

// ARQ-MP-11
#[test]
fn beside_a_busy_radio_a_metered_one_carries_what_is_overdue_within_its_budget() {
    let fades = |seed| {
        let fades =
            Some(FadeConfig { share: 0.05, mean: 200 * MS, is_regular: false, lost: 1.0, seed });
        WireConfig { fades, ..WireConfig::with_delay(30 * MS) }
    };
    let scenario = Scenario { up: fades(5), down: fades(5), ..clean(2) };
    let (mut pair, counted) = metered(&scenario.both_send(busy()), 16_000);
    pair.world.run_for(30 * MIN).unwrap();
    let counted = counted.borrow();
    println!("{} bytes sent, {} received", counted.sent_bytes, counted.received_bytes);
    let inbox = pair.server_side().app.inbox(lane(1, Reliability::Reliable));
    assert!(counted.sent_bytes > 100_000 && inbox.messages > 35_900, "{}", inbox.messages);
}

// ARQ-MP-11
#[test]
fn while_the_other_radio_is_dead_a_metered_one_keeps_the_session_within_its_budget() {
    let (mut pair, counted) = metered(&clean(3).both_send(busy()), 16_000);
    pair.world.run_for(MIN).unwrap();
    kill_the_other(&mut pair);
    let mut least = u64::MAX;
    for _ in 0..29 * 60 {
        pair.world.run_for(SEC).unwrap();
        least = least.min(radio(&pair).budget_bytes.unwrap());
    }
    let counted = counted.borrow();
    println!(
        "{} bytes sent, {} received, at least {least} left",
        counted.sent_bytes, counted.received_bytes
    );
    for side in [pair.client_side(), pair.server_side()] {
        assert!(side.connection().is_established());
        let messages = |priority| side.app.inbox(lane(priority, Reliability::Reliable)).messages;
        println!(
            "{} of the session, {} commands, {} images",
            messages(0),
            messages(1),
            messages(5)
        );
        let inbox = side.app.inbox(lane(0, Reliability::Reliable));
        assert!(inbox.messages >= 718, "{} messages of the session", inbox.messages);
        let late = inbox.latencies.iter().skip(1).max().unwrap();
        assert!(*late < 400 * MS, "{late:?}");
    }
    // The last tenth was for the session.
    assert!((72_000..720_000).contains(&least), "{least}");
}

// ARQ-MP-11
#[test]
fn a_metered_radio_that_is_the_only_one_keeps_its_budget_as_well() {
    let wire = WireConfig::with_delay(30 * MS);
    let mut scenario = Scenario::new(5).wire(wire).both_send(busy());
    scenario.config.paths = 4;
    let (mut pair, counted) = metered(&scenario, 16_000);
    pair.world.run_for(30 * MIN).unwrap();
    let counted = counted.borrow();
    println!("{} bytes sent, {} received", counted.sent_bytes, counted.received_bytes);
    let inbox = pair.client_side().app.inbox(lane(0, Reliability::Reliable));
    assert!(inbox.messages >= 718, "{} messages of the session", inbox.messages);
}

// ARQ-MP-11
#[test]
fn nothing_at_all_passes_a_metered_radio_that_is_used_up() {
    let control = [Flow::reliable(0, 250, 90_000).every(20 * MS)];
    let mut scenario = clean(4).both_send(control);
    scenario.config.idle_timeout = 60 * MIN;
    let (mut pair, counted) = metered(&scenario, 1_000);
    pair.world.run_for(10 * SEC).unwrap();
    kill_the_other(&mut pair);
    pair.world.run_for(30 * MIN).unwrap();
    let counted = counted.borrow();
    println!("{} bytes sent, {} received", counted.sent_bytes, counted.received_bytes);
    // A tenth of an hour's worth takes six minutes, longer where the peer's last packets are owed; and is gone at once.
    let gaps = counted.at.windows(2).filter(|at| at[1] - at[0] > 5 * MIN);
    let gaps: Vec<_> = gaps.map(|at| at[0]..at[1]).collect();
    println!("nothing in {gaps:.0?}");
    let quiet: Duration = gaps.iter().map(|gap| gap.end - gap.start).sum();
    assert!(gaps.len() >= 3 && gaps[0].start < MIN && quiet > 27 * MIN, "{gaps:?}");
}
