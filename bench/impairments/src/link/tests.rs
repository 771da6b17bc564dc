// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does a link carry what it should, and does it drop what it should?

use super::*;
use crate::{queue::Limit, rate::RateTrace, CoDel};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn packet(item: u64, len_bytes: u32) -> Packet<u64> {
    Packet { len_bytes, flow: item % 2, ecn_capable: false, marked: false, item }
}

fn link(rate: Rate, limit: Limit) -> Link<u64> {
    Link::new(LinkConfig { rate, queue: Discipline::DropTail(limit), frame: Frame::SINGLE })
}

/// Offers packets of `len` bytes, `gap` apart, for `time`; returns what left until then and what was dropped.
fn offer(
    link: &mut Link<u64>,
    len: u32,
    gap: Duration,
    time: Duration,
) -> (Vec<Exit<u64>>, Vec<Exit<u64>>) {
    let packets = (time.as_nanos() / gap.as_nanos()) as u64;
    for item in 0..packets {
        link.push(gap * item as u32, packet(item, len));
    }
    std::iter::from_fn(|| link.poll(time)).partition(|exit| !exit.dropped)
}

#[test]
fn every_kind_of_rate_carries_what_it_says() {
    let each_second = RateTrace::new(SECOND, [8e6, 0.0, 4e6, 1e6], Duration::ZERO).unwrap();
    let every_third_ms: Vec<u32> = (1..=1_000).map(|n| 3 * n).collect();
    for rate in [
        Rate::fixed(5e6),
        Rate::Fixed { bps: 5e6, burst_bytes: 30_000 },
        Rate::Trace(each_second),
        Rate::Opportunities(Opportunities::new(every_third_ms, 7).unwrap()),
    ] {
        for len in [100, 1_000, 1_500] {
            let mut link = link(rate.clone(), Limit::Bytes(60_000));
            let gap = Duration::from_nanos(u64::from(len) * 800);
            let (left, dropped) = offer(&mut link, len, gap, 12 * SECOND);
            let bytes = left.len() as f64 * f64::from(len);
            let capacity = rate.capacity_bytes(Duration::ZERO, 12 * SECOND);
            assert!(
                (bytes / capacity - 1.0).abs() < 0.01,
                "{rate:?}, {len}: {bytes} of {capacity}"
            );
            assert!(!dropped.is_empty());
            assert!(left.windows(2).all(|pair| pair[0].packet.item < pair[1].packet.item));
        }
    }
}

#[test]
fn opportunities_are_used_as_the_file_says() {
    let trace = Opportunities::new([5, 5, 9, 20], 0).unwrap();
    let mut link = link(Rate::Opportunities(trace), Limit::Packets(100));
    // Nothing waits at 5 ms: that is lost, not saved up.
    link.push(6 * MS, packet(0, 1_500));
    link.push(6 * MS, packet(1, 1_000));
    link.push(6 * MS, packet(2, 1_000));
    for item in 3..6 {
        link.push(7 * MS, packet(item, 400));
    }
    assert_eq!(link.deadline(), Some(9 * MS));
    let left: Vec<_> = std::iter::from_fn(|| link.poll(SECOND))
        .map(|exit| (exit.at.as_millis(), exit.packet.item))
        .collect();
    // A packet may take two opportunities, and the file begins again at its last moment.
    assert_eq!(left, [(9, 0), (20, 1), (25, 2), (25, 3), (25, 4), (25, 5)]);
    assert_eq!(link.deadline(), None);
}

#[test]
fn a_queue_of_packets_and_one_of_bytes_refuse_what_does_not_fit() {
    for (limit, waiting) in [(Limit::Packets(3), 3), (Limit::Bytes(2_500), 2)] {
        let mut link = link(Rate::fixed(8e6), limit);
        (0..10).for_each(|item| link.push(Duration::ZERO, packet(item, 1_000)));
        assert_eq!(link.waiting_packets(), waiting, "and one in service");
        let exits: Vec<_> = std::iter::from_fn(|| link.poll(SECOND)).collect();
        assert_eq!(exits.iter().filter(|exit| !exit.dropped).count(), waiting + 1);
        assert_eq!(exits.len(), 10, "nothing vanishes unseen");
    }
}

#[test]
fn a_bucket_lets_a_burst_pass_and_then_the_rate() {
    let rate = Rate::Fixed { bps: 8e6, burst_bytes: 5_000 };
    let mut link = link(rate, Limit::Packets(100));
    (0..8).for_each(|item| link.push(Duration::ZERO, packet(item, 1_000)));
    let left: Vec<_> =
        std::iter::from_fn(|| link.poll(SECOND)).map(|exit| exit.at.as_millis()).collect();
    assert_eq!(left, [0, 0, 0, 0, 0, 1, 2, 3]);
}

#[test]
fn a_frame_takes_what_waits_and_arrives_at_once() {
    let frame = Frame { packets: 64, access: MS };
    let queue = Discipline::DropTail(Limit::Packets(200));
    let mut link = Link::new(LinkConfig { rate: Rate::fixed(8e6), queue, frame });
    (0..100).for_each(|item| link.push(Duration::ZERO, packet(item, 1_000)));
    let mut times: Vec<_> =
        std::iter::from_fn(|| link.poll(SECOND)).map(|exit| exit.at.as_millis()).collect();
    let count = times.len();
    times.dedup();
    // One alone, 64 together, the rest.
    assert_eq!((times, count), (vec![2, 67, 103], 100));
}

#[test]
fn codel_holds_the_delay_where_a_long_queue_would_not() {
    let long = Limit::Packets(1_000);
    let sojourn = |queue| {
        let mut link =
            Link::new(LinkConfig { rate: Rate::fixed(8e6), queue, frame: Frame::SINGLE });
        // 5 % more than passes.
        let (left, _) = offer(&mut link, 1_000, MS.mul_f64(1.0 / 1.05), 30 * SECOND);
        let late = &left[left.len() / 2..];
        let sum: Duration = late.iter().map(|exit| exit.at - exit.entered).sum();
        sum / late.len() as u32
    };
    assert!(sojourn(Discipline::DropTail(long)) > 800 * MS);
    assert!(sojourn(Discipline::CoDel(CoDel::DROPPING, long)) < 50 * MS);
    assert!(sojourn(Discipline::FqCoDel(CoDel::DROPPING, long)) < 50 * MS);
}

#[test]
fn a_late_question_changes_nothing() {
    let run = |ask: bool| {
        let mut link = link(Rate::fixed(7e6), Limit::Bytes(20_000));
        let mut exits = Vec::new();
        for item in 0..2_000u64 {
            let now = Duration::from_micros(item * 900 + item % 7 * 100);
            link.push(now, packet(item, 300 + (item % 1_000) as u32));
            if ask {
                exits.extend(std::iter::from_fn(|| link.poll(now)));
            }
        }
        exits.extend(std::iter::from_fn(|| link.poll(10 * SECOND)));
        exits
    };
    assert_eq!(run(true), run(false));
}
