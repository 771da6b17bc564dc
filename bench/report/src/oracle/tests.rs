// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Do the bounds hold against published figures, against a simulation, and against each other?

use std::time::Duration;

use impairments::FadeConfig;
use netlab::wire::{Event, Fade, Loss};
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use super::*;
use crate::record::Percentiles;

fn flow(payload_bytes: usize, pattern: Pattern) -> Flow {
    let described = serde_json::json!({
        "name": "data", "payload_bytes": payload_bytes, "pattern": "flood", "seconds": 1.0,
    });
    Flow { pattern, ..serde_json::from_value(described).unwrap() }
}

fn periodic(payload_bytes: usize) -> Flow {
    flow(payload_bytes, Pattern::Periodic { rate_hz: 50.0, messages: 500 })
}

fn network(delay_ms: f64, percent: f64) -> Conditions {
    let wire = Wire { delay_ms, loss: Loss::Random { percent }, ..Wire::default() };
    Conditions { forward: wire.clone(), backward: wire, ..Conditions::default() }
}

fn with_rate(mut network: Conditions, rate_mbps: f64) -> Conditions {
    network.forward.rate_mbps = Some(rate_mbps);
    network
}

fn p50_p99(ideal: &Percentiles) -> (f64, f64) {
    let round = |value: Option<f64>| (value.unwrap() * 1e6).round() / 1e6;
    (round(ideal.p50), round(ideal.p99))
}

/// A log of so many packets, one each 10 us, of which each is lost with this probability.
fn random_log(packets: u64, loss: f64, seed: u64) -> Vec<Passage> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut lost = || f64::from(random.next_u32()) < loss * 2f64.powi(32);
    (0..packets).map(|i| Passage { entered_ns: i * 10_000, lost: lost() }).collect()
}

#[test]
fn closed_form_gives_the_targets_ideal_rows() {
    let ideal = |bytes, delay, loss| {
        p50_p99(&closed_form(&periodic(bytes), &network(delay, loss)).unwrap())
    };
    let row = |bytes, delay| [0.0, 5.0, 10.0, 25.0].map(|loss| ideal(bytes, delay, loss));
    assert_eq!(row(10_000, 0.5), [(0.5, 0.5), (0.5, 2.5), (1.5, 2.5), (1.5, 4.5)]);
    assert_eq!(row(10_000, 10.0), [(10.0, 10.0), (10.0, 50.0), (30.0, 50.0), (30.0, 90.0)]);
    assert_eq!(row(100_000, 10.0), [(10.0, 10.0), (30.0, 50.0), (50.0, 70.0), (70.0, 130.0)]);
}

#[test]
fn closed_form_gives_the_means_of_the_models_monte_carlo() {
    // n packets, loss in per cent, mean in round trips (400,000 runs each).
    for (packets, percent, mean) in
        [(1, 10.0, 0.61), (10, 5.0, 0.93), (10, 25.0, 2.12), (47, 10.0, 1.92), (70, 10.0, 2.08)]
    {
        let ideal = closed_form(&periodic(packets * 1_452), &network(0.5, percent)).unwrap();
        let found = ideal.mean_of_delivered.unwrap();
        assert!((found - mean).abs() < 0.006, "{packets} packets at {percent} %: {found}");
    }
}

#[test]
fn transmission_time_counts() {
    // 12 packets of 1,500 bytes at 12 Mb/s take 1 ms each.
    let clean = with_rate(network(10.0, 0.0), 12.0);
    assert_eq!(p50_p99(&closed_form(&periodic(12 * 1_452), &clean).unwrap()), (22.0, 22.0));
    // The last packet sets the pace of the first round, the first repeat that of the next.
    let lossy = with_rate(network(10.0, 5.0), 12.0);
    let ideal = closed_form(&periodic(12 * 1_452), &lossy).unwrap();
    assert!((22.0..=42.0).contains(&ideal.p50.unwrap()), "{ideal:?}");
    assert!(ideal.p99 > ideal.p90 && ideal.p99_9 >= ideal.p99, "{ideal:?}");
}

#[test]
fn the_steps_are_those_of_the_percentiles() {
    for network in [network(10.0, 10.0), with_rate(network(10.0, 10.0), 10.0)] {
        let steps = closed_form_steps(&periodic(20_000), &network).unwrap();
        let ideal = closed_form(&periodic(20_000), &network).unwrap();
        let at = |share| steps.iter().find(|(_, come)| *come >= share).map(|(ms, _)| *ms);
        assert_eq!((at(0.5), at(0.99)), (ideal.p50, ideal.p99));
        assert!(steps.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
    }
}

#[test]
fn where_the_formula_does_not_hold_there_is_none() {
    let flow = periodic(10_000);
    let change = |change: fn(&mut Conditions)| {
        let mut network = network(10.0, 10.0);
        change(&mut network);
        closed_form(&flow, &network)
    };
    assert_eq!(
        change(|n| n.forward.loss = Loss::Gilbert { percent: 10.0, burst_packets: 3.0 }),
        None
    );
    assert_eq!(change(|n| n.forward.jitter_ms = 1.0), None);
    assert_eq!(change(|n| n.forward.bit_error_rate = 1e-6), None);
    assert_eq!(change(|n| n.forward.loss = Loss::Random { percent: 100.0 }), None);
    let nearly_all = network(10.0, 99.0);
    assert!(closed_form(&flow, &nearly_all).is_some());
    assert_eq!(closed_form(&periodic(64_000_000), &nearly_all), None, "too many repeats to walk");
    assert_eq!(change(|n| n.events.push(event(Change::LossPercent(5.0)))), None);
    assert!(change(|n| n.events.push(event(Change::Blackout))).is_some());
    // What happens to acknowledgements is none of its business.
    assert!(change(|n| n.backward.loss = Loss::State { enter_percent: 1.0, leave_percent: 5.0 })
        .is_some());
    let flood = self::flow(10_000, Pattern::Flood { seconds: 1.0 });
    assert_eq!(closed_form(&flood, &network(10.0, 10.0)), None);
}

fn event(change: Change) -> Event {
    Event { at_s: 1.0, until_s: Some(2.0), every_s: None, change }
}

#[test]
fn capacity_is_what_is_left_after_loss_and_headers() {
    let capacity = |loss| {
        let mut network = with_rate(network(10.0, 0.0), 100.0);
        network.forward.loss = loss;
        capacity_mbps(&network)
    };
    let payload = 100.0 * 1_452.0 / 1_500.0;
    let close = |found: Option<f64>, share: f64| (found.unwrap() - payload * share).abs() < 1e-9;
    assert!(close(capacity(Loss::None), 1.0));
    assert!(close(capacity(Loss::Random { percent: 25.0 }), 0.75));
    assert!(close(capacity(Loss::Gilbert { percent: 10.0, burst_packets: 5.0 }), 0.9));
    assert!(close(capacity(Loss::State { enter_percent: 1.0, leave_percent: 4.0 }), 0.8));
    assert_eq!(capacity(Loss::Correlated { percent: 25.0, correlation_percent: 25.0 }), None);
    assert_eq!(capacity_mbps(&network(10.0, 0.0)), None);
}

#[test]
fn with_bit_errors_shorter_packets_carry_more() {
    let mut network = with_rate(network(10.0, 0.0), 100.0);
    network.forward.bit_error_rate = 1e-4;
    let best = capacity_mbps(&network).unwrap();
    let full = 100.0 * (1.0f64 - 1e-4).powf(8.0 * 1_500.0) * 1_452.0 / 1_500.0;
    assert!(best > 1.4 * full, "{best} against {full} with packets of full length");
}

#[test]
fn genie_meets_the_fates_of_the_log_in_their_order() {
    let slowest = |fates: &[(u64, bool)], packets: usize| {
        let log: Vec<_> = fates
            .iter()
            .map(|(ms, lost)| Passage { entered_ns: ms * 1_000_000, lost: *lost })
            .collect();
        let flow = flow(packets * 1_452, Pattern::Periodic { rate_hz: 1.0, messages: 1 });
        genie(&flow, &network(10.0, 0.0), &log, 1_000_000).unwrap().max
    };
    // Entered before the message: not its fate.
    assert_eq!(slowest(&[(0, true), (1, false)], 1), Some(10.0));
    assert_eq!(slowest(&[(1, true), (5, true), (21, false)], 1), Some(30.0));
    // Two packets meet two fates, and the repeat the next one.
    assert_eq!(slowest(&[(1, false), (1, true), (21, true), (41, false)], 2), Some(50.0));
    // Nothing is lost behind the log.
    assert_eq!(slowest(&[(1, true)], 1), Some(30.0));
    assert_eq!(slowest(&[(0, true)], 3), Some(10.0));
}

#[test]
fn where_events_change_what_a_packet_takes_there_is_no_genie() {
    let log = [Passage { entered_ns: 0, lost: false }];
    let with = |change| {
        let mut network = with_rate(network(10.0, 0.0), 10.0);
        network.events.push(event(change));
        genie(&periodic(1_000), &network, &log, 0)
    };
    assert_eq!(with(Change::DelayMs(20.0)), None);
    assert_eq!(with(Change::RateMbps(1.0)), None);
    assert!(with(Change::LossPercent(20.0)).is_some() && with(Change::Blackout).is_some());
}

#[test]
fn genie_waits_for_the_end_of_a_blackout() {
    let mut network = network(10.0, 0.0);
    network.events.push(Event {
        at_s: 0.5,
        until_s: Some(1.5),
        every_s: Some(10.0),
        change: Change::Blackout,
    });
    let flow = flow(100, Pattern::Periodic { rate_hz: 1.0, messages: 12 });
    let log = [Passage { entered_ns: 0, lost: false }];
    let ideal = genie(&flow, &network, &log, 0).unwrap();
    // Of the messages at 0..=11 s those at 1 and 11 s leave half a second late, with the first repeat that gets through.
    assert_eq!((ideal.p50, ideal.max), (Some(10.0), Some(510.0)));
    assert!((ideal.mean_of_delivered.unwrap() - (10.0 * 12.0 + 1_000.0) / 12.0).abs() < 1e-6);
}

#[test]
fn repeats_that_keep_step_with_blackouts_have_no_genie() {
    let mut network = network(50.0, 0.0);
    let (at_s, until_s, every_s) = (0.0, Some(0.45), Some(0.5));
    network.events.push(Event { at_s, until_s, every_s, change: Change::Blackout });
    let flow = flow(100, Pattern::Periodic { rate_hz: 10.0, messages: 5 });
    assert_eq!(genie(&flow, &network, &[Passage { entered_ns: 0, lost: false }], 0), None);
}

#[test]
fn genie_through_independent_losses_agrees_with_the_closed_form() {
    let flow = flow(100_000, Pattern::Periodic { rate_hz: 1_000.0, messages: 20_000 });
    let network = with_rate(network(2.0, 10.0), 1_000.0);
    let bound = closed_form(&flow, &network).unwrap();
    // A packet each 10 us for 20.5 s.
    let run = genie(&flow, &network, &random_log(2_050_000, 0.1, 7), 0).unwrap();
    for (found, expected) in [
        (run.p50, bound.p50),
        (run.p90, bound.p90),
        (run.mean_of_delivered, bound.mean_of_delivered),
    ] {
        let (found, expected) = (found.unwrap(), expected.unwrap());
        assert!((found - expected).abs() < 0.05 * expected, "{found} against {expected}");
    }
}

#[test]
fn closed_form_agrees_with_a_simulation_of_each_packet() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut is_lost = |loss: f64| f64::from(random.next_u32()) < loss * 2f64.powi(32);
    for (count, loss, rate) in [(1, 0.3, 10.0), (7, 0.05, 5.0), (30, 0.25, 3.0)] {
        let flow = periodic(count * 1_452);
        let network = with_rate(network(5.0, loss * 100.0), rate);
        let tau = 1_500.0 * 8.0 / (rate * 1e3);
        let mut simulated: Vec<f64> = (0..40_000)
            .map(|_| {
                let arrival = |i: usize, is_lost: &mut dyn FnMut(f64) -> bool| {
                    let mut at = 5.0 + i as f64 * tau;
                    while is_lost(loss) {
                        at += 10.0;
                    }
                    at
                };
                (1..=count).map(|i| arrival(i, &mut is_lost)).fold(0.0, f64::max)
            })
            .collect();
        simulated.sort_by(f64::total_cmp);
        let bound = closed_form(&flow, &network).unwrap();
        let mean = simulated.iter().sum::<f64>() / simulated.len() as f64;
        assert!((mean - bound.mean_of_delivered.unwrap()).abs() < 0.02 * mean, "{mean} {bound:?}");
        // A quantile may fall on either side of a step of the distribution.
        let (below, above) = (simulated[19_600], simulated[20_400]);
        let p50 = bound.p50.unwrap();
        assert!((below - 1e-6..=above + 1e-6).contains(&p50), "{below}..{above}: {p50}");
    }
}

proptest! {
    #[test]
    fn percentiles_ascend_and_more_loss_is_never_earlier(
        bytes in 1usize..300_000,
        delay in 0.1f64..200.0,
        percent in 0.0f64..60.0,
        more in 0.0f64..20.0,
        rate in proptest::option::of(1.0f64..1_000.0),
    ) {
        let with = |percent| {
            let mut network = network(delay, percent);
            network.forward.rate_mbps = rate;
            closed_form(&periodic(bytes), &network).unwrap()
        };
        let (ideal, worse) = (with(percent), with(percent + more));
        let ladder = |p: Percentiles| [p.p50, p.p90, p.p99, p.p99_9].map(Option::unwrap);
        prop_assert!(ladder(ideal).is_sorted() && ladder(ideal)[0] >= delay);
        for (better, later) in ladder(ideal).into_iter().zip(ladder(worse)) {
            prop_assert!(better <= later + 1e-9);
        }
    }

    #[test]
    fn a_loss_more_in_the_log_never_makes_the_genie_earlier(
        lost in proptest::collection::vec(any::<bool>(), 1..60),
        at in any::<prop::sample::Index>(),
    ) {
        // With one packet a message each repeat meets a fate of its own time, whatever happened before.
        let log = |lost: &[bool]| -> Vec<_> {
            (0..).zip(lost).map(|(i, &lost)| Passage { entered_ns: i * 20_000_000, lost }).collect()
        };
        let flow = flow(1_000, Pattern::Periodic { rate_hz: 50.0, messages: 20 });
        let mean = |lost: &[bool]| {
            genie(&flow, &network(10.0, 0.0), &log(lost), 0).unwrap().mean_of_delivered.unwrap()
        };
        let mut worse = lost.clone();
        worse[at.index(lost.len())] = true;
        prop_assert!(mean(&lost) <= mean(&worse));
    }
}

#[test]
fn a_message_waits_for_the_end_of_its_fade_and_for_no_other() {
    let fade = Some(Fade { share_percent: 5.0, mean_ms: 100.0 });
    let mut network = network(30.0, 0.0);
    network.forward.fade = fade;
    let config = FadeConfig {
        share: 0.05,
        mean: Duration::from_millis(100),
        is_regular: true,
        lost: 1.0,
        seed: 3,
    };
    let mut fades = Fades::new(config, 1);
    let first = fades.until(Duration::from_secs(3))[0].clone();
    // A fade of 100 ms each 2 s meets five of a hundred messages, the first of them 5 ms after its beginning.
    let departure_ns = (first.start + Duration::from_millis(5)).as_nanos() as u64;
    let bound = through_fades(&periodic(200), &network, &fades, departure_ns).unwrap();
    assert_eq!(p50_p99(&bound).0, 30.0);
    let is_near = |found: Option<f64>, wanted: f64| (found.unwrap() - wanted).abs() < 0.1;
    assert!(is_near(bound.max, 125.0) && is_near(bound.p99, 105.0), "{bound:?}");
    assert!(is_near(bound.mean_of_delivered, 32.75), "{bound:?}");

    let of_run = |network: &Conditions, fades| {
        ideal(&periodic(200), network, &[], fades, departure_ns).this_run
    };
    assert_eq!(of_run(&network, Some(&fades)), Some(bound));
    assert_eq!(of_run(&network, None), None);
    let slow = with_rate(network.clone(), 6.0);
    assert_eq!(of_run(&slow, Some(&fades)), None, "its queue decides, too");
    network.events = vec![event(Change::Blackout)];
    assert_eq!(of_run(&network, Some(&fades)), None);
}
