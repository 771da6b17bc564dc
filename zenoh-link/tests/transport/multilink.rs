// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does the link share a transport with tcp, and does either carry on when the other goes?

use zenoh_protocol::core::Priority;

use crate::harness::{exchange, for_priorities, joints, protocol, soon, until, Letter, Node};

async fn beside_tcp() -> (Node, Node) {
    let peer = || Node::with(|unicast| unicast.max_links(2));
    let (listener, connector) = (peer(), peer());
    let at = listener.listen().await;
    let at_tcp = listener.listen_on("tcp/127.0.0.1:0".parse().unwrap()).await.unwrap();
    connector.connect(&at).await.unwrap();
    let transport = connector.connect(&at_tcp).await.unwrap();
    assert_eq!(joints(&transport), 2);
    connector.is_refused(&at, "a third link").await;
    (listener, connector)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transport_over_both() {
    let (listener, connector) = beside_tcp().await;
    let transport = connector.transport_to(&listener).await;
    assert_eq!(connector.manager.get_transports_unicast().await.len(), 1);
    exchange(&listener, &connector, &Letter::series(500, 1_000)).await;
    soon("close", transport.close()).await.unwrap();
    listener.alone().await;
}

async fn one_is_lost(lost: &str) {
    let (listener, connector) = beside_tcp().await;
    let transport = connector.transport_to(&listener).await;
    let of_lost = |link: &zenoh_link::Link| link.src.protocol().as_str() == lost;
    let links = transport.get_links().unwrap();
    let link = links.into_iter().find(of_lost).unwrap();
    soon("close the link", transport.close_link(link)).await.unwrap();
    for (node, peer) in [(&listener, &connector), (&connector, &listener)] {
        let transport = node.transport_to(peer).await;
        until("one link is left", || !transport.get_links().unwrap().iter().any(of_lost)).await;
    }
    exchange(&listener, &connector, &Letter::series(500, 1_000)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tcp_is_lost() {
    if protocol() != "tcp" {
        one_is_lost("tcp").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_is_lost() {
    if protocol() != "tcp" {
        one_is_lost(protocol()).await;
    }
}

/// Two links, each for some of the priorities: urgent letters take the one, the rest the other.
#[tokio::test(flavor = "multi_thread")]
async fn priorities_are_shared_out_among_links() {
    let peer = || Node::with(|unicast| unicast.max_links(2));
    let (listener, connector) = (peer(), peer());
    let at = listener.listen().await;
    connector.connect(&for_priorities(&at, "0-3")).await.unwrap();
    let transport = connector.connect(&for_priorities(&at, "4-7")).await.unwrap();
    assert_eq!(joints(&transport), 2);
    let ranges = transport.get_links().unwrap().into_iter().filter_map(|link| link.priorities);
    let ranges: std::collections::BTreeSet<_> = ranges.map(|range| range.to_string()).collect();
    assert!(ranges.into_iter().eq(["0-3", "4-7"]));

    let of_both =
        |letter| [Priority::RealTime, Priority::Data].map(|priority| Letter { priority, ..letter });
    let letters: Vec<_> = Letter::series(200, 1_000).into_iter().flat_map(of_both).collect();
    exchange(&listener, &connector, &letters).await;
}
