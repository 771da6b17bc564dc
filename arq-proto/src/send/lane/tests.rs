// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

mod under_way;

use super::*;
use crate::{
    config::{Config, ValidConfig},
    units::Rate,
};

const MS: Duration = Duration::from_millis(1);
/// Of the connection: more than any test uses.
const CREDIT: u64 = 1 << 20;
const CHUNKS: ChunkLimits = ChunkLimits { new: 1_000, most: 1_000, again: 1_000 };
/// A path that carries all that waits at once.
const FAST: Outlet = Outlet {
    rate: Rate::from_bits_per_second(100_000_000),
    silence: Duration::ZERO,
    queued_bytes: 0,
};

#[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
fn t0() -> Instant {
    Instant::now()
}

fn lane(reliability: Reliability, repair_for: Option<Duration>) -> SendLane {
    let id = LaneId::new(4, reliability).unwrap();
    SendLane::new(id, QueueLimits::new(&ValidConfig::default()), repair_for)
}

fn push(lane: &mut SendLane, bytes: usize) {
    lane.push(t0(), vec![1; bytes].into(), false);
}

/// A reliable lane that has credit, and messages of so many bytes.
fn lane_with(messages: &[usize]) -> SendLane {
    let mut lane = lane(Reliability::Reliable, None);
    lane.set_credit(CREDIT);
    messages.iter().for_each(|&bytes| push(&mut lane, bytes));
    lane
}

fn send(lane: &mut SendLane) -> Option<SymbolRef> {
    let at = lane.next_symbol(0, CHUNKS, CREDIT)?;
    lane.on_sent(t0(), at, 0);
    Some(at)
}

fn send_all(lane: &mut SendLane) -> Vec<(MessageSeq, Symbol)> {
    std::iter::from_fn(|| send(lane).map(|at| (at.seq, at.symbol))).collect()
}

/// What the peer has already leaves with the message before it whose time is over.
// ARQ-BEF-3
#[test]
fn only_what_has_not_arrived_expires() {
    let (t0, mut lane) = (t0(), lane(Reliability::BestEffort, Some(100 * MS)));
    for at in [0, 0, 50] {
        lane.push(t0 + at * MS, vec![1; 900].into(), false);
        let at = lane.next_symbol(0, CHUNKS, 0).unwrap();
        lane.on_sent(t0 + 50 * MS, at, 0);
    }
    for seq in [1, 2] {
        let cost = lane.on_acked(t0 + 60 * MS, seq, 0, Symbol::Source(0));
        assert_eq!(cost, 0, "best effort takes no credit");
    }
    lane.expire(t0 + 99 * MS);
    assert_eq!((lane.expired(), lane.buffered_bytes()), (0, 2_700));
    lane.expire(t0 + 100 * MS);
    assert_eq!((lane.expired(), lane.buffered_bytes()), (1, 0));
    assert_eq!((lane.take_forget(), lane.expiry()), (Some(3), None));
}

// ARQ-BEF-3
#[test]
fn what_expires_is_told_at_once_but_once_in_a_round_trip() {
    let (t0, mut lane) = (t0(), lane(Reliability::BestEffort, Some(10 * MS)));
    for at in 0..4 {
        lane.push(t0 + at * MS, vec![1; 900].into(), false);
    }
    assert_eq!(lane.expiry(), Some(t0 + 10 * MS));
    lane.expire(t0 + 10 * MS);
    assert_eq!((lane.unsent_bytes(), lane.expiry()), (2_700, Some(t0 + 11 * MS)));
    assert!(lane.has_urgent_forget());
    assert_eq!(lane.take_forget(), Some(1));
    lane.expire(t0 + 11 * MS);
    assert!(!lane.has_urgent_forget(), "one is under way");
    assert_eq!(lane.take_forget(), Some(2), "but another packet takes it along");
    lane.expire(t0 + 12 * MS);
    for urgent in [false, true] {
        lane.on_forget_settled();
        assert_eq!(lane.has_urgent_forget(), urgent);
    }
}

/// Each message counts until it leaves, and until it and all before it have arrived.
#[test]
fn the_times_of_messages_are_counted() {
    let (t0, mut lane) = (t0(), lane_with(&[]));
    for _ in 0..2 {
        lane.push(t0, vec![1; 900].into(), false);
        let at = lane.next_symbol(0, CHUNKS, CREDIT).unwrap();
        lane.on_sent(t0 + 3 * MS, at, 0);
    }
    let times = |lane: &SendLane| {
        let mut stats = LaneStats::default();
        lane.fill(&mut stats);
        [stats.queue_wait, stats.delivery].map(|times| (times.count(), times.sum()))
    };
    lane.on_acked(t0 + 20 * MS, 1, 0, Symbol::Source(0));
    assert_eq!(times(&lane), [(2, 6 * MS), (0, Duration::ZERO)], "the first is missing");
    lane.on_acked(t0 + 40 * MS, 0, 0, Symbol::Source(0));
    assert_eq!(times(&lane), [(2, 6 * MS), (2, 80 * MS)]);
}

#[test]
fn who_hears_of_room_in_silence_finds_it() {
    let (t0, mut lane) = (t0(), lane_with(&[]));
    let outlet = || Outlet { silence: 3_000 * MS, ..FAST };
    lane.push(t0, vec![1; 900].into(), false);
    let refused = t0 + 1_000 * MS;
    assert!(!lane.has_room(refused, outlet), "it waits for longer than the queue's age");
    lane.refuse(refused);
    assert!(!lane.has_room(refused + 1_499 * MS, outlet));
    let told = refused + 1_500 * MS;
    assert!(lane.is_blocked() && lane.has_room(told, outlet));
    lane.on_told();
    assert!(!lane.is_blocked(), "it hears of it once");
    assert!(lane.has_room(told, outlet), "and is let in when it comes");
}

#[test]
fn what_follows_a_dropped_rest_begins_anew() {
    let (t0, mut lane) = (t0(), lane_with(&[]));
    for _ in 0..20 {
        lane.push(t0, vec![1; 65_000].into(), true);
    }
    assert!(lane.has_room(t0, || FAST), "the rest, of a megabyte and more");
    lane.drop_rest();
    assert!(!lane.has_room(t0, || FAST));
}

// ARQ-LAN-4
#[test]
fn what_is_kept_of_each_message_fills_the_queue_too() {
    let config = Config { queue_bytes: Some(100_000), ..Config::default() };
    let mut lane = lane_with(&[]);
    lane.limits = QueueLimits::new(&config.validate().unwrap());
    for _ in 0..10 {
        push(&mut lane, 1);
        send(&mut lane);
    }
    let (now, mut waiting) = (t0(), 0);
    while lane.has_room(now, || FAST) {
        lane.push(now, vec![1].into(), false);
        waiting += 1;
    }
    assert_eq!(waiting, 100_000_usize.div_ceil(1 + KEPT_BYTES));
}

#[test]
fn what_came_in_parts_counts_until_the_queue_is_empty() {
    let (t0, mut lane) = (t0(), lane_with(&[]));
    let has_room = |lane: &SendLane| lane.has_room(t0 + 500 * MS, || FAST);
    for more in [true, false] {
        lane.push(t0, vec![1; 900].into(), more);
    }
    assert!(has_room(&lane), "its last part is old, but leaves soon");
    send_all(&mut lane);
    for _ in 0..2 {
        lane.push(t0, vec![1; 900].into(), false);
    }
    assert!(!has_room(&lane), "whole messages wait as long as there is no room");
}

// ARQ-FLW-1
#[test]
fn a_message_begins_when_lane_and_connection_have_credit_for_it() {
    let (mut lane, cost) = (lane(Reliability::Reliable, None), message_cost(900));
    assert_eq!(lane.readiness(CREDIT), Readiness::Nothing);
    (0..3).for_each(|_| push(&mut lane, 900));
    for (granted, connection, readiness) in [
        (0, CREDIT, Readiness::NoCredit),
        (cost - 1, CREDIT, Readiness::NoCredit),
        (cost, cost - 1, Readiness::NoConnectionCredit),
        (cost, cost, Readiness::Ready),
    ] {
        lane.set_credit(granted);
        assert_eq!(lane.readiness(connection), readiness, "{granted}, {connection}");
    }
    assert_eq!(send_all(&mut lane).len(), 1, "the credit is used");
    lane.set_credit(2 * cost - 1);
    assert_eq!(lane.readiness(CREDIT), Readiness::NoCredit);
    lane.set_credit(2 * cost);
    assert_eq!(lane.readiness(CREDIT), Readiness::Ready);
}

// ARQ-MSG-5
#[test]
fn a_lane_sends_a_window_of_messages_ahead_of_the_oldest() {
    let window = LANE_MESSAGE_WINDOW as usize;
    let mut lane = lane_with(&vec![1; window + 1]);
    assert_eq!(send_all(&mut lane).len(), window);
    assert_eq!(lane.readiness(CREDIT), Readiness::NoCredit);
    lane.on_acked(t0(), 0, 0, Symbol::Source(0));
    assert_eq!(lane.readiness(CREDIT), Readiness::Ready);
}

#[test]
fn a_best_effort_lane_keeps_a_megabyte_for_repair() {
    let mut lane = lane(Reliability::BestEffort, Some(100 * MS));
    (0..19).for_each(|_| push(&mut lane, 65_000));
    let sent = send_all(&mut lane).len();
    assert_eq!(sent, 17 * 65, "17 messages are the first that exceed it");
    assert_eq!(lane.readiness(0), Readiness::NoCredit);
}

#[test]
fn what_is_not_repaired_is_not_kept() {
    let mut lane = lane(Reliability::BestEffort, None);
    push(&mut lane, 900);
    send_all(&mut lane);
    assert!(lane.is_empty());
}

#[test]
fn a_lane_that_is_over_keeps_nothing() {
    let mut lane = lane_with(&[900, 900]);
    send(&mut lane);
    assert!(!lane.is_empty());
    lane.clear();
    assert!(lane.is_empty());
    assert_eq!((lane.unsent_bytes(), lane.buffered_bytes()), (0, 0));
}

#[test]
fn memory_of_a_burst_is_given_back_when_little_follows() {
    for (capacity, left) in [(64, 64), (68, 32)] {
        let mut lane = lane_with(&[]);
        lane.messages = VecDeque::with_capacity(capacity);
        push(&mut lane, 900);
        send_all(&mut lane);
        lane.on_acked(t0(), 0, 0, Symbol::Source(0));
        assert_eq!(lane.messages.capacity(), left, "of {capacity}");
    }
}
