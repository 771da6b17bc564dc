// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Do the models reach what the originals do?

use impairments::{Discipline, Frame, Limit, LinkConfig, Rate};

use super::*;
use crate::{Access, Loss, Shared, WireConfig};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const ALL: [Algorithm; 2] = [Algorithm::Bbr1, Algorithm::Bbr3];

/// A way of `mbps` with a queue of so many products of 40 ms.
fn shared(mbps: f64, products: f64, loss: f32, frame: Frame) -> (Shared, Access) {
    let queue = (mbps * 1e6 / 8.0 * 0.04 * products) as u32;
    let link = LinkConfig {
        rate: Rate::fixed(mbps * 1e6),
        queue: Discipline::DropTail(Limit::Bytes(queue)),
        frame,
    };
    let loss = if loss > 0.0 { Loss::Random(loss) } else { Loss::None };
    let down = WireConfig { loss, ..WireConfig::with_delay(20 * MS) };
    let up = WireConfig { link: Some(link), ..down.clone() };
    (Shared::new(1, up, down.clone()), Access { down, ..Access::default() })
}

fn alone(algorithm: Algorithm, mbps: f64, products: f64, loss: f32) -> f64 {
    let (mut shared, access) = shared(mbps, products, loss, Frame::SINGLE);
    shared.join_other(access, algorithm, u64::MAX);
    shared.world.run_for(4 * SECOND).unwrap();
    let goodput = shared.goodput(20 * SECOND).unwrap()[0];
    println!("{algorithm:?}, {mbps} Mb/s, {products} products, {loss} lost: {goodput:.1} Mb/s");
    goodput
}

#[test]
fn alone_on_a_clean_way_each_fills_it() {
    for algorithm in ALL {
        for mbps in [5.0, 20.0, 100.0] {
            assert!(alone(algorithm, mbps, 1.0, 0.0) > 0.9 * mbps);
        }
    }
    assert!(alone(Algorithm::Reno, 5.0, 1.0, 0.0) > 4.5);
}

/// Cardwell et al., "BBR: congestion-based congestion control", figure 8: loss below 15 % costs BBRv1 little more than
/// itself. Above the threshold of 2 % BBRv3 does not look for more.
#[test]
fn loss_costs_the_first_little_and_the_third_much() {
    assert!(alone(Algorithm::Bbr1, 20.0, 1.0, 0.05) > 0.8 * 20.0);
    let third = alone(Algorithm::Bbr3, 20.0, 1.0, 0.05);
    assert!(third < 0.8 * 20.0, "{third}");
    assert!(alone(Algorithm::Bbr3, 20.0, 1.0, 0.005) > 0.8 * 20.0);
}

#[test]
fn two_of_a_kind_share_and_a_frame_is_no_rate() {
    for algorithm in ALL {
        for frame in [Frame::SINGLE, Frame { packets: 64, access: MS }] {
            let (mut shared, access) = shared(50.0, 2.0, 0.0, frame);
            for _ in 0..2 {
                shared.join_other(
                    Access { reads_together: true, ..access.clone() },
                    algorithm,
                    u64::MAX,
                );
                shared.world.run_for(2 * SECOND).unwrap();
            }
            shared.world.run_for(10 * SECOND).unwrap();
            let goodput = shared.goodput(20 * SECOND).unwrap();
            let all = goodput[0] + goodput[1];
            println!("{algorithm:?}, {frame:?}: {goodput:.1?} Mb/s");
            assert!(all > 0.8 * 50.0 && all < 50.0, "{algorithm:?}, {frame:?}: {goodput:.1?}");
            assert!(goodput.iter().all(|&mbps| mbps > 0.25 * all), "{algorithm:?}: {goodput:.1?}");
        }
    }
}

#[test]
fn a_flow_ends_when_all_has_arrived() {
    let (mut shared, access) = shared(10.0, 0.5, 0.02, Frame::SINGLE);
    shared.join_other(access, Algorithm::Reno, 300_000);
    shared.world.run_for(20 * SECOND).unwrap();
    let delivered = shared.bytes_read()[0];
    assert!((300_000..310_000).contains(&delivered), "{delivered}");
}
