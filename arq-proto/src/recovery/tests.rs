// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use smallvec::smallvec;

use super::*;
use crate::{units::Probability, wire::ack::Ack};

const MS: Duration = Duration::from_millis(1);

fn recovery(now: Instant) -> Recovery {
    let skipped_numbers = SkippedNumbers::new(&mut ChaCha8Rng::from_seed([0; 32]));
    Recovery::new(&ValidConfig::default(), 1_200, skipped_numbers, now)
}

fn packet(sent_at: Instant, in_flight: bool) -> SentPacket {
    let fate = if in_flight { Fate::InFlight } else { Fate::NeverInFlight };
    let (burst, contents) = (Burst::Single, Contents::new());
    let side = Side::Neither;
    SentPacket {
        sent_at,
        bytes: 1_000,
        fate,
        departure: Departure::new(true, false),
        burst,
        side,
        contents,
        stride: Stride::default(),
    }
}

/// A flight of which the last packet arrives first, so that others are given up for lost.
fn overtaken_flight(recovery: &mut Recovery, sent_at: Instant, packets: u32) -> Outcome {
    (0..packets).for_each(|_| recovery.on_sent(packet(sent_at, true)));
    let last = recovery.next_number().0 - 1;
    acknowledge(recovery, sent_at + 20 * MS, last)
}

/// Acknowledges from `start` to the newest.
fn acknowledge(recovery: &mut Recovery, now: Instant, start: u64) -> Outcome {
    let end = recovery.next_number().0 - 1;
    let ack = Ack { delay_us: 0, ranges: smallvec![(start, end)], ecn: None };
    recovery.on_ack(now, &ack, true).unwrap()
}

// ARQ-CC-1, ARQ-PTO-6
#[test]
fn with_nothing_in_flight_a_packet_may_leave_although_all_probes_are_spent() {
    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    let t0 = Instant::now();
    let mut recovery = recovery(t0);
    let send = |recovery: &mut Recovery, in_flight| {
        recovery.on_sent(packet(t0, in_flight));
    };
    send(&mut recovery, true);
    let _ = recovery.on_pto(t0 + 200 * MS, Probability::ZERO, false);
    while recovery.probe_budget != Some(0) {
        send(&mut recovery, true);
    }
    // Only what asks for no answer got through, and was answered beside something else.
    send(&mut recovery, false);
    let newest = recovery.next_number().0 - 1;
    let _ = acknowledge(&mut recovery, t0 + 600 * MS, newest);
    assert_eq!(recovery.in_flight_bytes(), 0, "all of it is lost");
    assert!(recovery.window_allows(1_200), "or no timer would ever run again");
}

// ARQ-PTH-4
#[test]
fn what_an_earlier_path_did_to_packets_says_nothing_about_this_one() {
    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    let t0 = Instant::now();
    let mut recovery = recovery(t0);
    let fresh = recovery.detector;
    let _ = overtaken_flight(&mut recovery, t0, 10);
    let outcome = acknowledge(&mut recovery, t0 + 30 * MS, 0);
    assert!(recovery.packets_spuriously_lost > 0 && !outcome.settled.is_empty());
    assert_ne!(recovery.detector, fresh, "the path reorders");

    // Longer than what the path was seen to reorder.
    let _ = overtaken_flight(&mut recovery, t0 + 40 * MS, 30);
    recovery.on_path_change();
    let known = recovery.packets_spuriously_lost;
    assert_eq!(recovery.detector, fresh);
    // What was still under way tells of the path that it took.
    let outcome = acknowledge(&mut recovery, t0 + 70 * MS, 10);
    assert!(recovery.packets_spuriously_lost > known);
    assert_eq!((recovery.detector, outcome.settled.len()), (fresh, 0));
}

// ARQ-LOS-3
#[test]
fn what_waits_before_the_first_answer_is_not_counted_as_lost() {
    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    let t0 = Instant::now();
    let mut recovery = recovery(t0);
    let prior = recovery.loss().upper();
    recovery.assume_rtt_at_most(10 * MS);
    (0..4).for_each(|_| recovery.on_sent(packet(t0, true)));
    for ms in [30, 60, 120] {
        let outcome = recovery.on_pto(t0 + ms * MS, Probability::ZERO, false);
        assert_eq!(outcome.settled.len(), 0, "nobody knows yet how long an answer takes");
        recovery.on_sent(packet(t0 + ms * MS, true));
    }
    let outcome = acknowledge(&mut recovery, t0 + 150 * MS, 0);
    assert!(outcome.settled.len() == 7 && outcome.settled.iter().all(|packet| !packet.lost));
    assert!(recovery.loss().upper() < prior);
}

// ARQ-ACK-2
#[test]
fn a_round_trip_is_as_long_as_the_oldest_unheard_packet_waits() {
    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    let t0 = Instant::now();
    let mut recovery = recovery(t0);
    recovery.assume_rtt_at_most(10 * MS);
    (0..2).for_each(|n| recovery.on_sent(packet(t0 + 5 * n * MS, true)));
    let at = |recovery: &mut Recovery, ms: u32| recovery.rtt_so_far(t0 + ms * MS);
    assert_eq!([4, 25, 1_000].map(|ms| at(&mut recovery, ms)), [10, 25, 40].map(|ms| ms * MS));
    let _ = acknowledge(&mut recovery, t0 + 30 * MS, 0);
    assert_eq!(at(&mut recovery, 1_000), recovery.rtt().smoothed(), "all of it was heard");
}

/// A round trip takes 20 ms. A packet of 100 ms is given up at 200.
fn after_a_time_out(t0: Instant) -> Recovery {
    let mut recovery = recovery(t0);
    recovery.on_sent(packet(t0, true));
    let _ = acknowledge(&mut recovery, t0 + 20 * MS, 0);
    recovery.on_sent(packet(t0 + 100 * MS, true));
    assert!(!recovery.may_be_stalled(t0 + 101 * MS), "nothing is known of stalls");
    assert!(recovery.on_pto(t0 + 200 * MS, Probability::ZERO, false).by_time_out);
    recovery
}

// ARQ-PTO-10
#[test]
fn a_silence_is_taken_for_a_stall_like_the_last_one_until_one_was_none() {
    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    let t0 = Instant::now();
    let mut recovery = after_a_time_out(t0);
    let at = |ms: u32| t0 + ms * MS;
    // It arrives after all, half a second after it left.
    let _ = acknowledge(&mut recovery, at(600), 1);
    recovery.on_sent(packet(at(1_000), true));
    assert!(recovery.may_be_stalled(at(1_624)) && !recovery.may_be_stalled(at(1_625)));
    // What was silent is lost, and only the probe is acknowledged.
    let _ = recovery.on_pto(at(1_100), Probability::ZERO, true);
    recovery.on_sent(packet(at(1_100), true));
    let _ = acknowledge(&mut recovery, at(1_120), 3);
    recovery.on_sent(packet(at(1_200), true));
    assert!(!recovery.may_be_stalled(at(1_201)), "that was an outage");
}

// ARQ-PTO-10
#[test]
fn a_lost_acknowledgement_is_no_stall() {
    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    let t0 = Instant::now();
    let mut recovery = after_a_time_out(t0);
    let at = |ms: u32| t0 + ms * MS;
    recovery.on_sent(packet(at(600), true));
    // The packet has arrived; so says what answers the probe.
    let _ = acknowledge(&mut recovery, at(620), 1);
    recovery.on_sent(packet(at(700), true));
    assert!(recovery.packets_spuriously_lost == 1 && !recovery.may_be_stalled(at(701)));
}

// ARQ-MP-5
#[test]
fn questions_that_a_silence_swallows_are_no_loss_of_the_path() {
    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    let t0 = Instant::now();
    let mut recovery = recovery(t0);
    recovery.on_sent(packet(t0, true));
    let _ = acknowledge(&mut recovery, t0 + 20 * MS, 0);
    let known = recovery.loss;
    recovery.on_sent(packet(t0 + 40 * MS, true));
    let _ = recovery.move_in_flight();
    for n in 1..40 {
        recovery.ask(t0 + 40 * MS + n * 25 * MS, false, true);
        recovery.on_sent(packet(t0 + 40 * MS + n * 25 * MS, true));
    }
    // The last one is answered: all before it are lost, those of long ago beyond doubt.
    let newest = recovery.next_number().0 - 1;
    let outcome = acknowledge(&mut recovery, t0 + 1_040 * MS, newest);
    assert!(recovery.packets_lost == 39 && !outcome.settled.iter().any(|packet| packet.lost));
    assert_eq!(recovery.loss, known);
    assert_eq!(outcome.needless_bytes, 0, "a question is no copy");
}
