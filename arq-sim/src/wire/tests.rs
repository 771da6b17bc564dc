// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does each fault happen as often as it says, and only when it is switched on?

use super::*;
use crate::Clock;
use impairments::{Discipline, Frame, Limit, Rate};

const PACKETS: usize = 4_000;
const MS: Duration = Duration::from_millis(1);

fn datagram(index: usize) -> Datagram {
    let mut bytes = vec![0; 100];
    bytes[..8].copy_from_slice(&(index as u64).to_le_bytes());
    let port = SocketAddr::from(([10, 0, 0, 1], 1));
    Datagram { from: port, to: port, ecn: None, bytes: Bytes::from(bytes) }
}

/// Sends one datagram per millisecond; returns what happened, in the order of sending.
fn drive(config: WireConfig, seed: u64) -> (Instant, Vec<Passage>) {
    let start = Clock::new().now();
    let mut wire = Wire::new(config, seed, start);
    let mut out = Vec::new();
    for index in 0..PACKETS {
        let now = start + MS * index as u32;
        wire.push(now, datagram(index), &mut out);
    }
    while let Some(at) = wire.next_release() {
        wire.pull(at, &mut out);
    }
    (start, out)
}

fn index_of(passage: &Passage) -> u64 {
    u64::from_le_bytes(passage.datagram.bytes[..8].try_into().unwrap())
}

/// Indices in the order of arrival.
fn arrivals(passages: &[Passage]) -> Vec<u64> {
    let mut arrived: Vec<_> = passages
        .iter()
        .filter_map(|p| match p.fate {
            Fate::Arrives(at) => Some((at, index_of(p))),
            _ => None,
        })
        .collect();
    arrived.sort_by_key(|&(at, _)| at);
    arrived.into_iter().map(|(_, index)| index).collect()
}

fn share(passages: &[Passage], of: impl Fn(&Fate) -> bool) -> f64 {
    passages.iter().filter(|p| of(&p.fate)).count() as f64 / PACKETS as f64
}

#[test]
fn a_clean_wire_only_delays() {
    let (start, out) = drive(WireConfig::with_delay(20 * MS), 1);
    assert_eq!(out.len(), PACKETS);
    for (index, passage) in out.iter().enumerate() {
        assert_eq!(passage.fate, Fate::Arrives(start + MS * (index as u32 + 20)));
    }
}

#[test]
fn losses_have_the_share_and_the_shape_that_was_asked_for() {
    let (_, out) = drive(WireConfig { loss: Loss::Random(0.25), ..WireConfig::default() }, 2);
    assert!((0.22..0.28).contains(&share(&out, |f| *f == Fate::Lost)));

    let loss = Loss::Bursts { good_packets: 90.0, bad_packets: 10.0, loss_in_bad: 1.0 };
    let (_, out) = drive(WireConfig { loss, ..WireConfig::default() }, 3);
    assert!((0.05..0.16).contains(&share(&out, |f| *f == Fate::Lost)));
    let lost: Vec<_> = out.iter().map(|p| p.fate == Fate::Lost).collect();
    let after_loss = lost.windows(2).filter(|w| w[0]).count();
    let both = lost.windows(2).filter(|w| w[0] && w[1]).count();
    assert!(both as f64 / after_loss as f64 > 0.8, "losses come in bursts");
}

#[test]
fn copies_travel_apart_from_their_original() {
    let config = WireConfig { duplicate: 1.0, jitter: 10 * MS, ..WireConfig::default() };
    let (_, out) = drive(config, 4);
    assert_eq!(out.len(), 2 * PACKETS);
    let apart = out.chunks(2).filter(|pair| pair[0].fate != pair[1].fate).count();
    assert!(apart > PACKETS * 9 / 10);
}

#[test]
fn held_back_datagrams_are_overtaken() {
    let config = WireConfig { reorder: 0.5, hold_back: 20 * MS, ..WireConfig::default() };
    let (_, out) = drive(config, 5);
    let order = arrivals(&out);
    assert_eq!(order.len(), PACKETS);
    let swapped = order.windows(2).filter(|w| w[1] < w[0]).count();
    assert!(swapped > PACKETS / 5, "{swapped}");
}

#[test]
fn jitter_keeps_the_order_only_when_told_to() {
    let config = WireConfig { jitter: 10 * MS, ..WireConfig::default() };
    assert!(!arrivals(&drive(config.clone(), 6).1).is_sorted());
    let config = WireConfig { jitter_in_order: true, ..config };
    assert!(arrivals(&drive(config, 6).1).is_sorted());
}

#[test]
fn damage_changes_bytes_and_truncation_shortens() {
    let (_, out) = drive(WireConfig { corrupt: 1.0, ..WireConfig::default() }, 7);
    for (index, passage) in out.iter().enumerate() {
        assert!(matches!(passage.fate, Fate::ArrivesDamaged(_)));
        assert_eq!(passage.datagram.bytes.len(), 100);
        assert_ne!(passage.datagram.bytes, datagram(index).bytes);
    }
    let (_, out) = drive(WireConfig { truncate: 1.0, ..WireConfig::default() }, 8);
    assert!(out.iter().all(|p| p.datagram.bytes.len() < 100));
}

#[test]
fn a_bottleneck_spaces_datagrams_out_and_drops_what_does_not_fit() {
    // One datagram of 100 bytes takes 2 ms: twice what comes in, so half is dropped in the end.
    let bottleneck = Bottleneck { rate_bps: 400_000, queue_bytes: 1_000 };
    let config = WireConfig { bottleneck: Some(bottleneck), ..WireConfig::default() };
    let (_, out) = drive(config, 9);
    assert!((0.45..0.51).contains(&share(&out, |f| *f == Fate::QueueFull)));
    let mut times: Vec<_> = out
        .iter()
        .filter_map(|p| match p.fate {
            Fate::Arrives(at) => Some(at),
            _ => None,
        })
        .collect();
    times.sort();
    assert!(times.windows(2).all(|w| w[1] - w[0] >= 2 * MS - Duration::from_micros(1)));
}

#[test]
fn a_policer_drops_what_exceeds_its_rate_and_delays_nothing() {
    // 100 bytes a millisecond are sent; half of that may pass, and five at once after a pause.
    let policer = Some(Policer { rate_bps: 400_000, burst_bytes: 500 });
    let (start, out) = drive(WireConfig { policer, ..WireConfig::default() }, 1);
    assert!((0.495..0.51).contains(&share(&out, |fate| *fate == Fate::Policed)));
    for (index, passage) in out.iter().enumerate() {
        let now = start + MS * index as u32;
        assert!(matches!(passage.fate, Fate::Policed) || passage.fate == Fate::Arrives(now));
        assert!(index >= 5 || passage.fate == Fate::Arrives(now), "the burst");
    }
}

#[test]
fn clumps_arrive_at_multiples_of_their_time_and_in_order() {
    let config = WireConfig { clump: 15 * MS, ..WireConfig::with_delay(7 * MS) };
    let (start, out) = drive(config, 1);
    assert_eq!(arrivals(&out), (0..PACKETS as u64).collect::<Vec<_>>());
    for (index, passage) in out.iter().enumerate() {
        let Fate::Arrives(at) = passage.fate else { panic!("{:?}", passage.fate) };
        let (after, earliest) = (at - start, MS * (index as u32 + 7));
        assert_eq!(after.as_millis() % 15, 0);
        assert!((earliest..=earliest + 15 * MS).contains(&after));
    }
}

#[test]
fn blackouts_and_the_mtu_swallow_datagrams() {
    let config = WireConfig { blackouts: vec![10 * MS..20 * MS], ..WireConfig::default() };
    let (_, out) = drive(config, 10);
    let dark = out.iter().filter(|p| p.fate == Fate::Blackout).count();
    assert_eq!(dark, 10);
    let (_, out) = drive(WireConfig { mtu: Some(99), ..WireConfig::default() }, 11);
    assert!(out.iter().all(|p| p.fate == Fate::TooLong));
}

#[test]
fn the_same_seed_decides_the_same() {
    let config = WireConfig {
        loss: Loss::Random(0.1),
        duplicate: 0.3,
        reorder: 0.3,
        hold_back: 5 * MS,
        corrupt: 0.1,
        ..WireConfig::default()
    };
    let fates = |seed| {
        let (start, out) = drive(config.clone(), seed);
        out.into_iter()
            .map(|p| match p.fate {
                Fate::Arrives(at) | Fate::ArrivesDamaged(at) => {
                    Some((at - start, p.datagram.bytes))
                }
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(fates(12), fates(12));
    assert_ne!(fates(12), fates(13));
}

#[test]
fn the_mtu_changes_when_it_should() {
    let config = WireConfig {
        mtu: Some(100),
        mtu_changes: vec![(2_000 * MS, 200), (1_000 * MS, 50)],
        ..WireConfig::default()
    };
    let (_, out) = drive(config, 1);
    let lost: Vec<_> = out.iter().filter(|p| p.fate == Fate::TooLong).map(index_of).collect();
    assert_eq!(lost, (1_000..2_000).collect::<Vec<_>>());
}

#[test]
fn bit_errors_hit_long_datagrams_more() {
    let start = Clock::new().now();
    for (bytes, expected) in [(72, 0.008), (472, 0.039), (1_172, 0.0915), (1_472, 0.113)] {
        let config = WireConfig { bit_error_rate: 1e-5, ..WireConfig::default() };
        let mut wire = Wire::new(config, 3, start);
        let mut out = Vec::new();
        for index in 0..PACKETS {
            let long = Datagram { bytes: Bytes::from(vec![0; bytes]), ..datagram(index) };
            wire.push(start, long, &mut out);
        }
        let lost = share(&out, |fate| *fate == Fate::Lost);
        assert!((lost - expected).abs() < 0.015, "{bytes} bytes: {lost}");
    }
}

#[test]
fn a_link_counts_headers_and_keeps_its_queue_and_its_times() {
    let link = LinkConfig {
        // A packet of 128 bytes each 2 ms: half of what is sent.
        rate: Rate::fixed(512_000.0),
        queue: Discipline::DropTail(Limit::Packets(20)),
        frame: Frame::SINGLE,
    };
    let config = WireConfig { link: Some(link), ..WireConfig::with_delay(5 * MS) };
    let mut wire = Wire::new(config.clone(), 1, Clock::new().now());
    assert!(wire.take_sojourns().is_empty(), "from now on");
    let (start, out) = drive(config, 1);
    let passed = share(&out, |fate| matches!(fate, Fate::Arrives(_)));
    assert!((passed - 0.5).abs() < 0.01, "{passed}");
    assert!(share(&out, |fate| *fate == Fate::QueueFull) > 0.48);
    assert_eq!(out[0].fate, Fate::Arrives(start + 7 * MS));
    wire.push(wire.start, datagram(0), &mut Vec::new());
    wire.push(wire.start, datagram(1), &mut Vec::new());
    assert_eq!((wire.queue_len(), wire.next_release()), (1, Some(wire.start + 2 * MS)));
    wire.pull(wire.start + 4 * MS, &mut Vec::new());
    assert_eq!(wire.take_sojourns(), [2 * MS, 4 * MS]);
}

#[test]
fn fades_lose_by_the_clock_and_a_recorded_delay_keeps_the_order() {
    let fades = FadeConfig { share: 0.25, mean: 50 * MS, is_regular: true, lost: 1.0, seed: 3 };
    let delays = DelayTrace::new(100 * MS, [60 * MS, 5 * MS], Duration::ZERO);
    let config = WireConfig { fades: Some(fades), delays, ..WireConfig::default() };
    let (_, out) = drive(config, 1);
    let lost: Vec<_> = out.iter().map(|passage| passage.fate == Fate::Lost).collect();
    let spells = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    assert!((19..=21).contains(&spells), "one each 200 ms of 4 s: {spells}");
    let arrived = arrivals(&out);
    assert!(arrived.windows(2).all(|pair| pair[0] < pair[1]));
    assert!((2_900..3_100).contains(&arrived.len()), "{}", arrived.len());
}
