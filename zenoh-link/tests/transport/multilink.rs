// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does the link share a transport with tcp, and does either carry on when the other goes?

use crate::harness::{exchange, joints, protocol, soon, until, Letter, Node};

async fn beside_tcp() -> (Node, Node) {
    let peer = || Node::with(|unicast| unicast.max_links(2));
    let (listener, connector) = (peer(), peer());
    let at = listener.listen().await;
    let at_tcp = listener.listen_on("tcp/127.0.0.1:0".parse().unwrap()).await.unwrap();
    connector.connect(&at).await.unwrap();
    let transport = connector.connect(&at_tcp).await.unwrap();
    assert_eq!(joints(&transport), 2);
    assert!(connector.connect(&at).await.is_err(), "a third link");
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
