// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The parts one by one; how they work together is simulated in `tests/congestion`.

use super::{tuning::DRAIN_ROUNDS, *};
use crate::{
    congestion::RttSample,
    units::{PacketNumber, Rate},
};

mod loss_of_the_medium;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MTU: u64 = 1_000;
const HOLD_BACK: Phase = Phase::ProbeDown { rounds: 0 };

#[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
fn t0() -> Instant {
    Instant::now()
}

fn rate(bytes_per_second: u64) -> Rate {
    Rate::from_bytes_per_second(bytes_per_second)
}

/// An acknowledgement of `packets` up to `largest`, sent 10 ms ago, of 100 in flight.
fn ack(now: Instant, largest: u64, packets: u64) -> AckSample {
    AckSample {
        now,
        bytes: packets * MTU,
        packets,
        largest: PacketNumber(largest),
        sent_at: now - 10 * MS,
        rtt: Some(exactly(10 * MS)),
        smoothed_rtt: 10 * MS,
        in_flight_bytes: 100 * MTU,
        app_limited: false,
    }
}

/// A round trip over which the host did not sleep.
fn exactly(rtt: Duration) -> RttSample {
    RttSample { least: rtt, most: rtt }
}

fn sending(now: Instant, number: u64) -> SentSample {
    SentSample { now, number: PacketNumber(number), bytes: MTU, app_limited: false }
}

fn loss(now: Instant, packets: u64, cause: LossCause) -> LossSample {
    let (bytes, largest) = (packets * MTU, PacketNumber(0));
    LossSample { now, bytes, packets, largest, sent_at: now, cause }
}

/// The fates of packets from `first` on, of which `lost` are lost, far apart.
fn settle(model: &mut LossModel, first: u64, packets: u64, lost: u64) {
    for n in 0..packets {
        model.tally(PacketNumber(first + n), (n + 1) * lost / packets > n * lost / packets);
    }
}

/// Rounds of `sent` packets of which `lost` are lost.
fn rounds(sent: u64, lost: u64, count: usize) -> Vec<Round> {
    rounds_lasting(10 * MS, sent, lost, count)
}

fn rounds_lasting(time: Duration, sent: u64, lost: u64, count: usize) -> Vec<Round> {
    let t0 = t0();
    let mut rounds = Rounds::new();
    let mut out = Vec::new();
    let mut now = t0 + 10 * MS;
    rounds.on_sent(&sending(now, 0));
    rounds.on_ack(&ack(now, 0, 1));
    for n in 1..=count as u64 {
        rounds.on_sent(&sending(now, n));
        rounds.on_loss(&loss(now, lost, LossCause::Gap));
        now += time;
        out.extend(rounds.on_ack(&ack(now, n, sent - lost)));
    }
    out
}

// ARQ-CC-6
#[test]
fn a_round_is_what_comes_back_in_a_round_trip() {
    let round = rounds(100, 20, 1)[0];
    assert_eq!((round.sent_packets(), round.lost_packets), (100, 20));
    // 80 kB in 10 ms.
    assert_eq!(round.rate_of(round.bytes), Some(rate(8_000_000)));
    assert!(!round.is_train && !round.app_limited);
    assert!(rounds(7, 0, 1).is_empty(), "too few packets to tell anything");
    assert_eq!(rounds(7, 0, 2).len(), 1, "but two round trips of them are enough");
}

// ARQ-CC-6
#[test]
fn what_is_released_at_once_is_no_rate_and_silence_belongs_to_the_round() {
    let t0 = t0();
    let mut rounds = Rounds::new();
    rounds.on_ack(&ack(t0 + 10 * MS, 0, 1));
    // Sent over 20 ms, held back, and acknowledged within 2 ms.
    let compressed = AckSample { sent_at: t0 + 20 * MS, ..ack(t0 + 12 * MS, 200, 200) };
    let round = rounds.on_ack(&compressed).unwrap();
    assert_eq!(round.rate_of(round.bytes), Some(rate(10_000_000)), "200 kB in 20 ms");
    rounds.on_loss(&loss(t0, 100, LossCause::Timeout));
    let silent = rounds.on_ack(&ack(t0 + 512 * MS, 300, 50)).unwrap();
    assert_eq!((silent.sent_packets(), silent.lost_packets), (150, 100));
    assert_eq!(silent.rate_of(silent.bytes), Some(rate(100_000)), "50 kB in half a second");
}

// ARQ-CC-6
#[test]
fn start_up_learns_before_a_round_is_over_unless_there_is_a_queue() {
    for (waited, learnt) in [(Duration::ZERO, Some(rate(6_000_000))), (3 * MS, None)] {
        let (t0, mut tolerant) = (t0(), Tolerant::new(MTU as u16, None));
        (0..=100).for_each(|number| tolerant.on_sent(&sending(t0, number)));
        tolerant.on_ack(&ack(t0 + 10 * MS, 0, 1));
        let within = tolerant.pacing_rate().unwrap().time_for(tolerant.window());
        assert!((3 * MS..4 * MS).contains(&within), "the first window leaves in {within:?}");
        let rtt = Some(exactly(10 * MS + waited));
        tolerant.on_ack(&AckSample { rtt, ..ack(t0 + 15 * MS, 60, 60) });
        // 60 kB came back within 5 ms, and count as if they had taken the round trip of 10 ms.
        assert_eq!(tolerant.rate.get(), learnt, "{waited:?} in a queue");
    }
}

// ARQ-CC-3
#[test]
fn a_time_out_that_was_none_leaves_no_trace() {
    let t0 = t0();
    let round = |time_out: Option<LossSample>| {
        let mut rounds = Rounds::new();
        rounds.on_ack(&ack(t0 + 10 * MS, 0, 1));
        if let Some(lost) = time_out {
            rounds.on_loss(&lost);
            rounds.on_spurious_loss(&lost);
        }
        let arrived = if time_out.is_some() { 50 } else { 100 };
        rounds.on_ack(&ack(t0 + 20 * MS, 100, arrived)).unwrap()
    };
    // The packets after the one that began the round.
    let lost = LossSample { largest: PacketNumber(50), ..loss(t0, 50, LossCause::Timeout) };
    let (lost, none) = (round(Some(lost)), round(None));
    assert_eq!((lost.sent_packets(), lost.lost_packets, lost.lost_bytes), (100, 0, 0));
    assert_eq!(lost.rate_of(lost.bytes), none.rate_of(none.bytes));
}

// ARQ-CC-10
#[test]
fn rounds_in_which_the_host_slept_lower_no_rate_unless_a_queue_shows() {
    // The rate after rounds at a fifth of it.
    let rate_after = |rounds: u64, sleeps: bool, queue: Duration| {
        let mut tolerant = Tolerant::new(MTU as u16, None);
        let (mut now, mut number) = (t0(), 0);
        let mut round = |packets: u64, sleeps: bool, queue: Duration| {
            tolerant.on_sent(&sending(now, number));
            if sleeps {
                tolerant.on_sleep();
            }
            now += 10 * MS;
            // What an acknowledgement may have waited for the host is no queue.
            let wait = if sleeps { 200 * MS } else { Duration::ZERO };
            let rtt = RttSample { least: 10 * MS + queue, most: 10 * MS + queue + wait };
            tolerant.on_ack(&AckSample { rtt: Some(rtt), ..ack(now, number, packets) });
            number += 1;
            tolerant.rate.get().map(Rate::bytes_per_second)
        };
        let before = (0..4).filter_map(|_| round(100, false, Duration::ZERO)).max();
        let after = (0..rounds).map(|_| round(20, sleeps, queue)).last().unwrap();
        after.unwrap() as f64 / before.unwrap() as f64
    };
    assert!(rate_after(30, false, Duration::ZERO) < 0.5);
    assert!(rate_after(1_000, true, Duration::ZERO) == 1.0);
    assert!(rate_after(30, true, 10 * MS) < 0.5, "a path that became slower");
}

// ARQ-CC-8
#[test]
fn a_pause_is_noticed_although_the_packet_before_it_was_lost() {
    let t0 = t0();
    let mut rounds = Rounds::new();
    let mut last_round = |pause_after: Option<u64>| {
        let first = rounds.next_number().0;
        rounds.on_ack(&ack(t0 + 10 * MS, first, 1));
        for n in first..first + 20 {
            let app_limited = pause_after == Some(n - first);
            rounds.on_sent(&SentSample { app_limited, ..sending(t0, n) });
        }
        rounds.on_loss(&loss(t0, 1, LossCause::Gap));
        let round = rounds.on_ack(&ack(t0 + 30 * MS, first + 19, 19)).unwrap();
        rounds = rounds.restarted();
        round.app_limited
    };
    assert!(!last_round(None));
    assert!(last_round(Some(10)));
    assert!(!last_round(None), "a pause before the round is none in it");
}

// ARQ-CC-8
#[test]
fn a_train_tells_a_rate_if_it_is_long_enough() {
    let t0 = t0();
    let train = |packets: u64| {
        let mut rounds = Rounds::new();
        rounds.on_ack(&ack(t0 + 10 * MS, 0, 1));
        let now = t0 + 14 * MS;
        let last = AckSample {
            sent_at: t0 + 2 * MS,
            in_flight_bytes: packets * MTU,
            app_limited: true,
            ..ack(now, packets, packets)
        };
        rounds.on_ack(&last).unwrap()
    };
    let long = train(20);
    assert!(long.is_train);
    // 20 kB over 4 ms; over 2 ms x 20 / 10 when sent, the first ten having left at once.
    assert_eq!(long.rate_of(long.bytes), Some(rate(5_000_000)));
    assert!(long.was_sent_above(rate(4_900_000)) && !long.was_sent_above(rate(5_000_000)));
    assert_eq!(train(15).rate_of(15 * MTU), None);
}

// ARQ-CC-6
#[test]
fn jitter_is_no_queue_and_a_queue_is_no_jitter() {
    let fed = |samples: &mut dyn Iterator<Item = u32>| {
        let mut min_rtt = MinRtt::new();
        min_rtt.update(t0(), 20 * MS);
        samples.for_each(|ms| min_rtt.update(t0(), ms * MS));
        min_rtt
    };
    // A queue that a burst fills, and that a pause empties, again and again.
    let queue = fed(&mut (0..100).map(|n| 20 + n % 10));
    assert!(queue.jitter() <= MS * 4 && queue.shows_queue(28 * MS), "{:?}", queue.jitter());
    // Between 20 and 40 ms, whatever the one before took.
    let mut rng = fastrand::Rng::with_seed(1);
    let radio = fed(&mut (0..100).map(|_| rng.u32(20..40)));
    assert!(!radio.shows_queue(30 * MS) && radio.may_show_queue(30 * MS), "{:?}", radio.jitter());
    assert!(radio.shows_queue(60 * MS), "{:?}", radio.jitter());
}

// ARQ-CC-8
#[test]
fn pauses_make_no_rate_older() {
    let mut max = MaxRate::new();
    max.on_path_round(rate(100));
    for _ in 0..1_000 {
        max.raise_to(rate(50));
    }
    assert_eq!(max.get(), Some(rate(100)));
    max.raise_to(rate(120));
    assert_eq!(max.get(), Some(rate(120)));
    for _ in 0..17 {
        max.on_path_round(rate(80));
    }
    assert_eq!(max.get(), Some(rate(80)), "after sixteen rounds that the path decided");
}

// ARQ-CC-6
#[test]
fn the_least_round_trip_is_doubted_after_five_seconds() {
    let t0 = t0();
    let mut min_rtt = MinRtt::new();
    min_rtt.update(t0, 20 * MS);
    min_rtt.update(t0 + 3_000 * MS, 20 * MS);
    min_rtt.update(t0 + 7_000 * MS, 40 * MS);
    assert!(!min_rtt.is_stale(t0 + 8_000 * MS));
    assert!(min_rtt.is_stale(t0 + 8_001 * MS));
    assert!(min_rtt.shows_queue(24 * MS) && !min_rtt.shows_queue(23 * MS));
    min_rtt.replace(t0 + 9_000 * MS, 40 * MS);
    assert_eq!(min_rtt.get(), Some(40 * MS));
    assert!(!min_rtt.is_stale(t0 + 10_000 * MS));
}

// ARQ-CC-8
#[test]
fn the_estimate_outlives_half_a_minute_and_then_halves() {
    let t0 = t0();
    let mut tolerant = Tolerant::new(MTU as u16, None);
    let mut now = t0;
    for n in 0..20 {
        tolerant.on_sent(&sending(now, n));
        now += 10 * MS;
        tolerant.on_ack(&ack(now, n, 1_000));
    }
    let before = tolerant.rate.get().unwrap();
    assert!(tolerant.queue_window > 0);
    let after = |tolerant: &mut Tolerant, seconds: u32| {
        tolerant.on_time(now + seconds * 1_000 * MS);
        tolerant.rate.get().unwrap()
    };
    assert_eq!(after(&mut tolerant, 29), before);
    assert_eq!(after(&mut tolerant, 31), before.mul_f64(0.5));
    assert_eq!(tolerant.queue_window, 0, "the queue is another");
    assert_eq!(after(&mut tolerant, 32), before.mul_f64(0.5));
    assert_eq!(after(&mut tolerant, 42), before.mul_f64(0.25));
    assert_eq!(tolerant.phase, Phase::START);
}

// ARQ-CC-6
#[test]
fn what_was_sent_before_a_slowdown_lowers_the_rate_no_further() {
    let mut tolerant = Tolerant::new(MTU as u16, None);
    tolerant.min_rtt.update(t0(), 10 * MS);
    tolerant.rate.replace(rate(100_000_000));
    tolerant.phase = Phase::cruise(t0(), false);
    rounds(100, 0, 10).iter().for_each(|round| tolerant.loss.on_round(round, false));
    // Twice as long as the path, at a tenth of its rate, and half of it is dropped.
    let rates = [1_000, 1_500, 1_500, 1_500].map(|packets: u32| {
        let lasting = packets / 10 * MS;
        let mut round = rounds_lasting(lasting, packets.into(), u64::from(packets) / 2, 1)[0];
        round.min_rtt = Some(lasting);
        tolerant.on_round(t0(), &round);
        tolerant.rate.get()
    });
    assert!(matches!(tolerant.phase, Phase::Slowdown { .. }) && rates[1] < rates[0], "{rates:?}");
    assert_eq!(rates[3], rates[1], "{rates:?}");
}

/// In the middle of a connection: 10 MB/s over 10 ms.
fn in_phase(phase: Phase) -> Tolerant {
    let mut tolerant = Tolerant::new(MTU as u16, None);
    tolerant.min_rtt.update(t0(), 10 * MS);
    tolerant.rate.replace(rate(10_000_000));
    tolerant.phase = phase;
    tolerant
}

/// A round in which packets waited until the round trip took `time`, and which took as long.
fn queued_round(time: Duration, sent: u64, lost: u64) -> Round {
    let mut round = rounds_lasting(time, sent, lost, 1)[0];
    round.min_rtt = Some(time);
    round
}

// ARQ-CC-6
#[test]
fn a_probe_is_judged_once_however_long_none_follows() {
    let mut tolerant = in_phase(Phase::cruise(t0(), false));
    tolerant.hold_until = 20;
    for (first, phase, lost) in [(0, Phase::ProbeUp, 30), (100, HOLD_BACK, 5)] {
        tolerant.loss.mark(PacketNumber(first), phase);
        settle(&mut tolerant.loss, first, 100, lost);
    }
    let now = t0() + SECOND;
    rounds(100, 0, 21).iter().for_each(|round| tolerant.on_round(now, round));
    assert_eq!((tolerant.phase, tolerant.rate.get()), (Phase::ProbeUp, Some(rate(10_000_000))));
}

// ARQ-CC-6
#[test]
fn what_is_held_back_on_purpose_shows_no_slower_path() {
    // 7.4 MB/s, of more in flight each time.
    let rounds = [queued_round(20 * MS, 148, 0), queued_round(30 * MS, 222, 0)];
    for (phase, slower) in [(Phase::ProbeDown { rounds: 0 }, false), (Phase::ProbeUp, true)] {
        let mut tolerant = in_phase(phase);
        tolerant.on_round(t0(), &rounds[0]);
        tolerant.phase = phase;
        tolerant.on_round(t0(), &rounds[1]);
        assert_eq!(matches!(tolerant.phase, Phase::Slowdown { .. }), slower, "{phase:?}");
    }
}

// ARQ-CC-6
#[test]
fn to_see_the_least_round_trip_lowers_no_rate() {
    let mut tolerant = in_phase(Phase::ProbeRtt { until: t0() + SECOND, least: None });
    rounds(50, 0, 40).iter().for_each(|round| tolerant.on_round(t0(), round));
    assert_eq!(tolerant.rate.get(), Some(rate(10_000_000)));
}

// ARQ-CC-6
#[test]
fn draining_ends_and_start_up_has_taught_no_loss() {
    let mut tolerant = in_phase(Phase::Drain { rounds: 0 });
    tolerant.loss.accept(0.2);
    for _ in 0..DRAIN_ROUNDS {
        tolerant.on_round(t0(), &queued_round(20 * MS, 100, 20));
    }
    // What was lost meanwhile is no reason to send less.
    assert!(matches!(tolerant.phase, Phase::Cruise { queue: true, .. }), "{:?}", tolerant.phase);
    assert_eq!(tolerant.loss.base(), 0.0);
}

// ARQ-CC-6, ARQ-CC-8
#[test]
fn start_up_sends_what_was_measured_once_the_path_has_decided_it() {
    let mut tolerant = Tolerant::new(MTU as u16, None);
    tolerant.min_rtt.update(t0(), 10 * MS);
    tolerant.smoothed_rtt = 40 * MS;
    let initial = rate(INITIAL_PACKETS * MTU * 100);
    tolerant.rate.raise_to(rate(30_000));
    assert_eq!(tolerant.bandwidth(), Some(initial), "a small message says nothing");
    tolerant.rate.on_path_round(rate(31_000));
    assert_eq!(tolerant.bandwidth(), Some(rate(31_000)));
    // Hours later: less than a new connection would send is no more known to be the path's than it was.
    for (known, after) in [(rate(31_000), rate(31_000)), (rate(100_000_000), initial)] {
        tolerant.rate.replace(known);
        tolerant.busy_at = Some(t0());
        tolerant.age(t0() + 3_600 * SECOND);
        assert_eq!(tolerant.bandwidth(), Some(after));
    }
    tolerant.rate.on_path_round(rate(40_000));
    assert_eq!(tolerant.bandwidth(), Some(rate(40_000)), "the path has become thin meanwhile");
}

// ARQ-CC-6
#[test]
fn a_measurement_that_is_set_aside_settles_nothing() {
    let mut tolerant = in_phase(Phase::cruise(t0(), false));
    let round = queued_round(30 * MS, 300, 60);
    let sample = AckSample { rtt: Some(exactly(30 * MS)), ..ack(t0(), 0, 1) };
    while !tolerant.longer.is_likely() {
        // On a long path there are few reductions between two measurements.
        if tolerant.round % 8 == 7 {
            tolerant.phase = Phase::ProbeRtt { until: t0(), least: None };
            tolerant.probe_rtt(t0(), &sample);
            assert_eq!(tolerant.min_rtt.get(), Some(10 * MS), "what loses too much is a queue");
        }
        tolerant.on_round(t0(), &round);
        assert!(tolerant.round <= 40, "{:?}", tolerant.rate);
    }
}

// ARQ-CC-6, ARQ-CC-10
#[test]
fn what_was_measured_without_a_sleep_tells_more() {
    // The host may have slept for half of it; what is known is 10 ms.
    let asleep = RttSample { least: 20 * MS, most: 40 * MS };
    let known = RttSample { least: 5 * MS, most: 40 * MS };
    for (samples, of_round, least) in [
        (&[exactly(30 * MS), asleep][..], 30, 30),
        (&[asleep, exactly(30 * MS)], 30, 30),
        (&[asleep, asleep], 20, 20),
        (&[known, known], 5, 10),
    ] {
        let (mut rounds, now) = (Rounds::new(), t0() + SECOND);
        rounds.on_sent(&sending(now, 0));
        rounds.on_ack(&ack(now, 0, 1));
        rounds.on_sent(&sending(now, 1));
        let mut tolerant = in_phase(Phase::ProbeRtt { until: now + 20 * MS, least: None });
        let round = samples.iter().zip([10, 20]).find_map(|(&rtt, ms)| {
            let sample = AckSample { rtt: Some(rtt), ..ack(now + ms * MS, 1, 4) };
            tolerant.probe_rtt(sample.now, &sample);
            rounds.on_ack(&sample)
        });
        assert_eq!(round.unwrap().min_rtt, Some(of_round * MS), "{samples:?}");
        assert_eq!(tolerant.min_rtt.get(), Some(least * MS), "{samples:?}");
    }
}

// ARQ-CC-6
#[test]
fn a_queue_that_no_reduction_lessens_is_taken_for_a_longer_path() {
    let mut tolerant = in_phase(Phase::cruise(t0(), false));
    let round = queued_round(40 * MS, 400, 40);
    while !tolerant.longer.is_likely() {
        tolerant.on_round(t0(), &round);
        assert!(tolerant.round <= 30, "{:?}", tolerant.rate);
    }
    let sample = AckSample { rtt: Some(exactly(40 * MS)), ..ack(t0() + SECOND, 0, 1) };
    tolerant.probe_rtt(t0() + SECOND, &sample);
    assert!(matches!(tolerant.phase, Phase::ProbeRtt { .. }), "{:?}", tolerant.phase);
    tolerant.on_round(t0() + SECOND, &round);
    assert!(matches!(tolerant.phase, Phase::ProbeRtt { .. }), "no reduction cuts it short");
    tolerant.probe_rtt(t0() + 2 * SECOND, &sample);
    assert_eq!(tolerant.min_rtt.get(), Some(40 * MS));
    assert!(matches!(tolerant.phase, Phase::Startup { .. }), "{:?}", tolerant.phase);
}

// ARQ-CC-12
#[test]
fn marks_end_start_up_and_cost_a_seventh_a_round_trip_without_any_queue_in_sight() {
    let mut tolerant = Tolerant::new(MTU as u16, None);
    let (mut now, mut number) = (t0(), 0);
    let mut round = |tolerant: &mut Tolerant, mark: Option<Duration>| {
        tolerant.on_sent(&sending(now, number));
        now += 10 * MS;
        if let Some(ago) = mark {
            tolerant.on_ce(&CeSample { now, packets: 1 << 61, sent_at: now - ago });
        }
        tolerant.on_ack(&ack(now, number, 100));
        number += 1;
        tolerant.known_rate().bytes_per_second() as f64
    };
    let known = (0..2).map(|_| round(&mut tolerant, None)).last().unwrap();
    assert!(matches!(tolerant.phase, Phase::Startup { .. }));
    round(&mut tolerant, Some(10 * MS));
    assert_eq!(tolerant.phase, Phase::Drain { rounds: 0 });
    while !matches!(tolerant.phase, Phase::Cruise { .. }) {
        round(&mut tolerant, None);
    }
    let share = |rate: f64| (rate / known * 1_000.0).round();
    assert_eq!(share(round(&mut tolerant, Some(10 * MS))), 850.0);
    assert_eq!(tolerant.hold_until, tolerant.round + HOLD_ROUNDS);
    let known_then = tolerant.known_rate();
    // Sent before the reduction: it does not tell what that has changed.
    round(&mut tolerant, Some(11 * MS));
    assert!(tolerant.known_rate() >= known_then);
    for _ in 0..1_000 {
        round(&mut tolerant, Some(MS));
    }
    assert!(
        tolerant.known_rate().bytes_per_second() > 0
            && tolerant.window() >= bytes_of(MIN_WINDOW_PACKETS, MTU)
    );
}
