// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

use super::*;
use crate::{config::ValidConfig, units::Rate};

const MS: Duration = Duration::from_millis(1);

/// What the peer has already leaves with the message before it whose time is over.
// ARQ-BEF-3
#[test]
#[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
fn only_what_has_not_arrived_expires() {
    let t0 = Instant::now();
    let id = LaneId::new(4, Reliability::BestEffort).unwrap();
    let limits = QueueLimits::new(&ValidConfig::default());
    let mut lane = SendLane::new(id, limits, Some(100 * MS));
    for at in [0, 0, 50] {
        lane.push(t0 + at * MS, vec![1; 900].into(), false);
        let chunks = ChunkLimits { new: 1_000, most: 1_000, again: 1_000 };
        let at = lane.next_symbol(0, chunks, 0).unwrap();
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
#[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
fn what_expires_is_told_at_once_but_once_in_a_round_trip() {
    let t0 = Instant::now();
    let id = LaneId::new(4, Reliability::BestEffort).unwrap();
    let limits = QueueLimits::new(&ValidConfig::default());
    let mut lane = SendLane::new(id, limits, Some(10 * MS));
    for at in 0..4 {
        lane.push(t0 + at * MS, vec![1; 900].into(), false);
    }
    lane.expire(t0 + 10 * MS);
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
#[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
fn the_times_of_messages_are_counted() {
    let t0 = Instant::now();
    let id = LaneId::new(4, Reliability::Reliable).unwrap();
    let mut lane = SendLane::new(id, QueueLimits::new(&ValidConfig::default()), None);
    lane.set_credit(1 << 20);
    for _ in 0..2 {
        lane.push(t0, vec![1; 900].into(), false);
        let at = lane
            .next_symbol(0, ChunkLimits { new: 1_000, most: 1_000, again: 1_000 }, 1 << 20)
            .unwrap();
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
#[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
fn who_hears_of_room_in_silence_finds_it() {
    let t0 = Instant::now();
    let id = LaneId::new(4, Reliability::Reliable).unwrap();
    let mut lane = SendLane::new(id, QueueLimits::new(&ValidConfig::default()), None);
    let outlet = || Outlet {
        rate: Rate::from_bits_per_second(1_000_000),
        silence: 3_000 * MS,
        queued_bytes: 0,
    };
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
#[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
fn what_follows_a_dropped_rest_begins_anew() {
    let t0 = Instant::now();
    let id = LaneId::new(4, Reliability::Reliable).unwrap();
    let mut lane = SendLane::new(id, QueueLimits::new(&ValidConfig::default()), None);
    let outlet = || Outlet {
        rate: Rate::from_bits_per_second(100_000_000),
        silence: Duration::ZERO,
        queued_bytes: 0,
    };
    for _ in 0..20 {
        lane.push(t0, vec![1; 65_000].into(), true);
    }
    assert!(lane.has_room(t0, outlet), "the rest, of a megabyte and more");
    lane.drop_rest();
    assert!(!lane.has_room(t0, outlet));
}
