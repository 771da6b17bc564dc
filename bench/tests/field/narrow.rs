// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Lines that carry little: narrow radios, paths that carry no packet of 1,200 bytes, and images that are too long for the
//! first moment of a line.

use std::time::Duration;

use netlab::wire::{Conditions, Wire};
use netlab::Network;

use crate::{
    alone, beside_others,
    sessions::{ready, role},
    support::{network_or_skip, Role},
    unreachable::{udp_port, LATER, LINKS},
};

fn both_ways(wire: Wire) -> Conditions {
    Conditions { forward: wire.clone(), backward: wire, ..Conditions::default() }
}

/// A listener on host 1 and an opener on host 0, and how long the latter took; none in 30 s is no session.
fn opened(network: &Network, link: &str) -> (Role, Role, Duration) {
    let endpoint = [format!("{link}/{}:7447", network.host(1).ipv4())];
    let listener = ready(role(network.host(1), "listener", "listen", &endpoint));
    let mut opener = role(network.host(0), "opener", "connect", &endpoint);
    let took = opener.answer().parse().expect("milliseconds");
    (listener, opener, Duration::from_millis(took))
}

/// 9.6 kb/s with a round trip of 600 ms: what a telemetry radio or a satellite gives. Each packet is shorter than tcp's, but
/// of the two keep-alives that meet each 2.5 s, tcp's second one carries the acknowledgement of the first.
#[test]
fn a_narrow_line_opens_with_stock_time_outs_and_idles_near_tcps_bytes() {
    const WATCHED: Duration = Duration::from_secs(30);
    let _beside = beside_others();
    let Some(mut network) = network_or_skip("a narrow line", 2) else { return };
    let wire = Wire { delay_ms: 300.0, rate_mbps: Some(0.0096), ..Wire::default() };
    let [tcp, arq] = LINKS.map(|link| {
        network.begin(&both_ways(wire.clone()), 1).expect("a network");
        let (_listener, _opener, took) = opened(&network, link);
        // What opening leaves in the line's queue is out of it.
        std::thread::sleep(Duration::from_secs(15));
        let sent = |network: &mut Network| -> u64 {
            [(0, 1), (1, 0)].map(|(from, to)| network.counts(from, to).expect("counts").left_bytes).iter().sum()
        };
        let before = sent(&mut network);
        std::thread::sleep(WATCHED);
        let idle = sent(&mut network) - before;
        println!("9.6 kb/s, 600 ms: open after {took:?}, {idle} bytes in {WATCHED:?} of rest over {link}");
        (took, idle)
    });
    assert!(arq.0 <= tcp.0 + 6 * LATER, "open after {:?}, over tcp {:?}", arq.0, tcp.0);
    // An acknowledgement has three counts of marks more.
    assert!(10 * arq.1 <= 14 * tcp.1, "{} bytes while idle, over tcp {}", arq.1, tcp.1);
}

#[test]
fn a_path_below_1_200_bytes_opens() {
    let _beside = beside_others();
    let Some(mut network) = network_or_skip("a path below 1,200 bytes", 2) else { return };
    for mtu in [1_152, 604] {
        let wire = Wire { delay_ms: 5.0, mtu_bytes: Some(mtu), ..Wire::default() };
        network.begin(&both_ways(wire), 1).expect("a network");
        let (_listener, _opener, took) = opened(&network, "arq");
        println!("a path of {mtu} bytes: open after {took:?}");
        assert!(took < Duration::from_secs(5), "{took:?} at {mtu} bytes");
    }
}

/// The line would carry each image in 170 ms. Of the first one it is not known, and zenoh drops it after 50 ms.
#[test]
fn an_image_that_is_dropped_ends_no_session() {
    let _alone = alone();
    let Some(mut network) = network_or_skip("an image that is dropped", 2) else { return };
    let wire = Wire { delay_ms: 20.0, rate_mbps: Some(100.0), ..Wire::default() };
    network.begin(&both_ways(wire), 1).expect("a network");
    let endpoint = [format!("arq/{}:7447", network.host(1).ipv4())];
    let mut subscriber = ready(role(network.host(1), "subscriber", "listen", &endpoint));
    let mut camera = ready(role(network.host(0), "images", "connect", &endpoint));
    let port = udp_port(network.host(0));
    camera.tell("go");
    for _ in 0..60 {
        assert_eq!(subscriber.answer(), "message");
    }
    assert_eq!(udp_port(network.host(0)), port, "the same link");
}
