// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does the wire do what it was asked for, in virtual time?

use super::*;
use crate::wire::{Change, Policer};

fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

/// Sends `packets` packets of 1,000 bytes, one each `gap`, and returns (number, due) of all that leave.
fn run(model: &mut Model<u64>, packets: u64, gap: Duration) -> Vec<(u64, Duration)> {
    for number in 0..packets {
        let now = gap * u32::try_from(number).unwrap();
        model.push(now, 1_000, number);
    }
    let end = Duration::from_secs(1_000_000);
    std::iter::from_fn(|| model.poll(end)).map(|left| (left.packet, left.due)).collect()
}

fn wire(change: impl FnOnce(&mut Wire)) -> Model<u64> {
    let mut wire = Wire::default();
    change(&mut wire);
    let mut model = Model::new(0, 0);
    model.set_wire(wire, None);
    model.restart(Duration::ZERO, 1, Vec::new());
    model
}

#[test]
fn a_clean_wire_changes_nothing() {
    let left = run(&mut wire(|_| {}), 100, us(10));
    assert!(left.iter().enumerate().all(|(i, (number, due))| {
        *number == i as u64 && *due == us(10) * u32::try_from(i).unwrap()
    }));
    assert_eq!(left.len(), 100);
}

#[test]
fn packets_are_conserved_with_every_fault_at_once() {
    let mut model = wire(|w| {
        w.mtu_bytes = Some(1_400);
        w.policer = Some(Policer { rate_mbps: 20.0, burst_bytes: 20_000 });
        w.rate_mbps = Some(10.0);
        w.queue_bytes = 10_000;
        w.loss = Loss::Gilbert { percent: 10.0, burst_packets: 3.0 };
        w.bit_error_rate = 1e-6;
        w.duplicate_percent = 5.0;
        w.reorder_percent = 5.0;
        w.reorder_hold_ms = 4.0;
        w.delay_ms = 3.0;
        w.jitter_ms = 2.0;
    });
    let left = run(&mut model, 20_000, us(300));
    let c = model.count();
    assert_eq!(c.entered_packets, 20_000);
    assert_eq!(c.left_packets, left.len() as u64);
    let gone = c.lost + c.queue_full + c.policed + c.blacked_out + c.too_long;
    assert_eq!(c.entered_packets + c.duplicated, c.left_packets + gone, "{c:?}");
    assert!(c.lost > 0 && c.queue_full > 0 && c.policed > 0 && c.duplicated > 0, "{c:?}");
    assert_eq!(model.deadline(), None);
    assert_eq!(model.in_flight(), 0);
}

#[test]
fn timing_does_not_change_who_is_lost() {
    let fates = |gap: Duration, rate_mbps| {
        let mut model = wire(|w| {
            w.loss = Loss::Gilbert { percent: 20.0, burst_packets: 4.0 };
            w.rate_mbps = rate_mbps;
            w.queue_bytes = 1 << 30;
        });
        (0..5_000).map(|n| model.push(gap * n, 1_000, 0)).collect::<Vec<_>>()
    };
    let calm = fates(us(1_000), None);
    assert_eq!(calm, fates(us(1), Some(1.0)));
    let pattern = pattern(Loss::Gilbert { percent: 20.0, burst_packets: 4.0 }, 1, 0, 5_000);
    assert!(calm.iter().zip(pattern).all(|(fate, lost)| (*fate == Fate::Lost) == lost));
}

#[test]
fn one_fault_does_not_change_another() {
    let lost = |duplicate_percent, jitter_ms| {
        let mut model = wire(|w| {
            w.loss = Loss::Random { percent: 30.0 };
            w.duplicate_percent = duplicate_percent;
            w.jitter_ms = jitter_ms;
        });
        (0..1_000).map(|n| model.push(us(n), 1_000, n)).collect::<Vec<_>>()
    };
    assert_eq!(lost(0.0, 0.0), lost(50.0, 3.0));
}

#[test]
fn delay_and_jitter_have_their_mean_and_deviation() {
    let mut model = wire(|w| {
        w.delay_ms = 50.0;
        w.jitter_ms = 10.0;
    });
    let left = run(&mut model, 100_000, us(1_000));
    let delays: Vec<f64> =
        left.iter().map(|(n, due)| (*due - us(1_000 * n)).as_secs_f64() * 1e3).collect();
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    let variance = delays.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / delays.len() as f64;
    assert!((mean - 50.0).abs() < 0.1, "{mean}");
    assert!((variance.sqrt() - 10.0).abs() < 0.1, "{}", variance.sqrt());
    assert!(left.windows(2).any(|pair| pair[0].0 > pair[1].0), "this jitter reorders");
}

#[test]
fn jitter_can_keep_the_order() {
    let mut model = wire(|w| {
        w.delay_ms = 50.0;
        w.jitter_ms = 10.0;
        w.jitter_reorders = false;
    });
    let left = run(&mut model, 10_000, us(1_000));
    assert!(left.windows(2).all(|pair| pair[0].0 < pair[1].0));
}

#[test]
fn held_packets_are_overtaken_and_nobody_else_is() {
    let mut model = wire(|w| {
        w.delay_ms = 5.0;
        w.jitter_reorders = false;
        w.reorder_percent = 5.0;
        w.reorder_hold_ms = 3.5;
    });
    let left = run(&mut model, 10_000, us(1_000));
    let late = left.iter().filter(|(n, due)| *due > us(1_000 * n + 5_000)).count();
    assert_eq!(late as u64, model.count().reordered);
    assert!((400..600).contains(&late), "{late} of 10,000");
}

#[test]
fn a_copy_leaves_with_its_original() {
    let mut model = wire(|w| w.duplicate_percent = 100.0);
    assert_eq!(
        run(&mut model, 2, us(10)).iter().map(|(n, _)| *n).collect::<Vec<_>>(),
        [0, 0, 1, 1]
    );
}

#[test]
fn long_packets_suffer_more_from_bit_errors() {
    for (len, expected) in [(100u16, 0.0080), (1_500, 0.113)] {
        let mut model = wire(|w| w.bit_error_rate = 1e-5);
        let lost = (0..200_000).filter(|_| model.push(us(0), len, 0) == Fate::Lost).count();
        let share = lost as f64 / 200_000.0;
        assert!((share - expected).abs() < 0.003, "{len} bytes: {share}");
    }
}

#[test]
fn a_lost_packet_has_used_its_share_of_the_bottleneck() {
    let mut model = wire(|w| {
        w.rate_mbps = Some(8.0);
        w.queue_bytes = 1 << 30;
        w.loss = Loss::Random { percent: 50.0 };
    });
    let left = run(&mut model, 10_000, us(1));
    let seconds = left.last().unwrap().1.as_secs_f64();
    let mbps = left.len() as f64 * 8_000.0 / seconds / 1e6;
    assert!((mbps - 4.0).abs() < 0.1, "rate x (1 - loss), not {mbps}");
}

#[test]
fn what_is_too_long_vanishes() {
    let mut model = wire(|w| w.mtu_bytes = Some(999));
    assert_eq!(model.push(us(0), 1_000, 0), Fate::TooLong);
    assert_eq!(model.push(us(0), 999, 0), Fate::Passed);
}

#[test]
fn events_begin_with_the_restart() {
    let mut model = wire(|w| w.loss = Loss::Gilbert { percent: 0.0, burst_packets: 2.0 });
    let event =
        |at_s, until_s, change| Event { at_s, until_s: Some(until_s), every_s: None, change };
    let events = vec![
        event(1.0, 2.0, Change::Blackout),
        event(3.0, 4.0, Change::LossPercent(100.0)),
        event(5.0, 6.0, Change::DelayMs(7.0)),
    ];
    let began = us(10_000_000);
    model.restart(began, 1, events);
    let mut at = |s: f64| model.push(began + Duration::from_secs_f64(s), 100, 0);
    assert_eq!(at(0.5), Fate::Passed);
    assert_eq!(at(1.5), Fate::BlackedOut);
    assert_eq!(at(2.5), Fate::Passed);
    assert_eq!(at(4.5), Fate::Lost);
    model.restart(began, 1, vec![event(5.0, 6.0, Change::DelayMs(7.0))]);
    model.push(began + Duration::from_secs_f64(5.5), 100, 1);
    let end = Duration::from_secs(1_000);
    let left = std::iter::from_fn(|| model.poll(end)).last().unwrap();
    assert_eq!(left.due, began + Duration::from_secs_f64(5.507));
}

#[test]
fn both_directions_of_a_radio_fade_together_and_another_radio_at_other_times() {
    let fade = Some(Fade { share_percent: 20.0, mean_ms: 50.0 });
    let lost = |direction, radio| {
        let mut model = Model::new(direction, radio);
        model.set_wire(Wire { fade, ..Wire::default() }, None);
        model.restart(Duration::ZERO, 1, Vec::new());
        let fates =
            (0..60_000).map(|ms| model.push(Duration::from_millis(ms), 100, ms) == Fate::Lost);
        fates.collect::<Vec<_>>()
    };
    let (there, back, other) = (lost(1, 7), lost(2, 7), lost(3, 8));
    assert_eq!(there, back);
    assert_ne!(there, other);
    let share = there.iter().filter(|lost| **lost).count() as f64 / there.len() as f64;
    assert!((share - 0.2).abs() < 0.03, "{share}");
}

#[test]
fn the_fades_that_a_model_tells_are_those_that_it_loses_packets_in() {
    let fade = Some(Fade { share_percent: 20.0, mean_ms: 50.0 });
    let mut model = Model::new(1, 1);
    model.set_wire(Wire { fade, ..Wire::default() }, None);
    assert!(Model::<()>::new(1, 1).fades().is_none());
    let began = us(7_000_123);
    model.restart(began, 5, Vec::new());
    let mut told = model.fades().unwrap();
    for ms in 0..20_000 {
        let since = Duration::from_millis(ms);
        let is_lost = model.push(began + since, 100, ms) == Fate::Lost;
        assert_eq!(is_lost, told.at(since).is_some(), "{since:?}");
    }
}

#[test]
fn a_recorded_radio_stands_in_for_the_rate() {
    let recorded = Recorded {
        opportunities: crate::Opportunities::new([5, 10], 0).unwrap(),
        delays: crate::DelayTrace::new(us(10_000), [us(2_000)], Duration::ZERO),
    };
    let mut model = Model::new(0, 0);
    model.set_wire(Wire { delay_ms: 1.0, ..Wire::default() }, Some(recorded));
    model.restart(us(100_000), 1, Vec::new());
    for number in 0..3 {
        model.push(us(101_000), 1_000, number);
    }
    let left: Vec<_> =
        std::iter::from_fn(|| model.poll(us(900_000))).map(|left| left.due).collect();
    assert_eq!(
        left,
        [us(108_000), us(113_000), us(113_000)],
        "opportunity, 2 ms, and the wire's delay"
    );
}
