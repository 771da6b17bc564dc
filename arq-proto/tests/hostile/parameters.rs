// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Whatever a peer announces is kept to.

use arq_proto::{
    config::MAX_MTU,
    wire::{params::Params, BASE_MTU},
    Config, LaneId,
};
use bytes::Bytes;

use crate::{
    client::{params, Client},
    common::MS,
};

/// The longest packet that goes to a server that announces this, over a path that carries all.
fn longest(mtu: u16, params: Params) -> usize {
    let config = Config { mtu: Some(mtu), ..Config::default() };
    let mut client = Client::of_server(config.validate().unwrap(), params);
    let lane = LaneId::all().next().unwrap();
    for _ in 0..30 {
        client.connection.send(client.now, lane, Bytes::from_static(&[7; 30_000])).unwrap();
        client.drive();
        client.now += 10 * MS;
        client.ack_all();
        client.connection.handle_timeout(client.now);
        client.drive();
    }
    assert_eq!(client.error(), None);
    client.longest
}

// ARQ-PKT-4
#[test]
fn no_packet_is_longer_than_the_peer_takes() {
    for most in [576, 600, 1_199, 1_200, 1_300, 1_452] {
        let longest = longest(1_452, Params { max_datagram_bytes: most, ..params() });
        // Nor much shorter, where there is so much to say.
        let most = usize::from(most);
        assert!((most - 50..=most).contains(&longest), "{longest} of {most} bytes");
    }
}

// ARQ-MSG-6
#[test]
fn a_peer_that_takes_no_second_cut_gets_what_passes_everywhere() {
    let params = Params { max_datagram_bytes: MAX_MTU, ..params() };
    let longest = |resegment| longest(1_452, Params { resegment, ..params.clone() });
    assert!(longest(true) > usize::from(BASE_MTU), "the path carries more");
    assert!(longest(false) <= usize::from(BASE_MTU));
}
