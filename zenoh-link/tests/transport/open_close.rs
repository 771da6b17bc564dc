// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Do transports open and close from both sides, within their limits, again and again?

use crate::harness::{
    endpoint, endpoint_with, exchange, joints, pair, protocol, send, soon, Letter, Node,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_connecting_side_closes() {
    let (listener, connector, at) = pair(Node::new).await;
    for _ in 0..3 {
        let transport = connector.transport_to(&listener).await;
        soon("close", transport.close()).await.unwrap();
        connector.alone().await;
        listener.alone().await;
        connector.connect(&at).await.unwrap();
        listener.transport_to(&connector).await;
    }
    exchange(&listener, &connector, &Letter::series(10, 100)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_one_link() {
    let (listener, connector, _) = pair(Node::new).await;
    for (node, peer) in [(&listener, &connector), (&connector, &listener)] {
        assert_eq!(joints(&node.transport_to(peer).await), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_listening_side_closes() {
    let (listener, connector, at) = pair(Node::new).await;
    for _ in 0..3 {
        let transport = listener.transport_to(&connector).await;
        soon("close", transport.close()).await.unwrap();
        listener.alone().await;
        connector.alone().await;
        connector.connect(&at).await.unwrap();
        listener.transport_to(&connector).await;
    }
    exchange(&listener, &connector, &Letter::series(10, 100)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_close_at_once() {
    let (listener, connector, at) = pair(Node::new).await;
    for _ in 0..5 {
        let (one, other) =
            (listener.transport_to(&connector).await, connector.transport_to(&listener).await);
        // Either may find that the other was first.
        let _ = soon("close", async { tokio::join!(one.close(), other.close()) }).await;
        listener.alone().await;
        connector.alone().await;
        connector.connect(&at).await.unwrap();
        listener.transport_to(&connector).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_closes_leaves_all_its_peers() {
    let hub = Node::new();
    let at = hub.listen().await;
    let peers = [Node::new(), Node::new(), Node::new()];
    for peer in &peers {
        peer.connect(&at).await.unwrap();
        hub.transport_to(peer).await;
    }
    hub.close().await;
    for peer in &peers {
        peer.alone().await;
        assert_eq!(peer.journal(|journal| (journal.opened, journal.closed)), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_arrives_before_a_close_is_whole_from_the_beginning() {
    let (listener, connector, _) = pair(Node::new).await;
    let letters = Letter::series(200, 1_000);
    let transport = connector.transport_to(&listener).await;
    send(&transport, &letters).await;
    soon("close", transport.close()).await.unwrap();
    listener.alone().await;
    let arrived = listener.journal(|journal| journal.letters.clone());
    // zenoh's close overtakes what waits in its own queues; nothing may be missing in between. More
    // than those hold was sent, so that the link had taken some.
    assert!(!arrived.is_empty());
    assert_eq!(arrived, letters[..arrived.len()]);
}

/// zenoh gives up the write that waits when it closes, and then writes what is queued behind it.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_missing_where_a_write_was_waiting_at_the_close() {
    nothing_is_missing_amid_writes(Node::new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_missing_where_a_write_was_waiting_at_the_close_without_qos() {
    nothing_is_missing_amid_writes(|| Node::with(|unicast| unicast.qos(false))).await;
}

async fn nothing_is_missing_amid_writes(node: impl Fn() -> Node) {
    if protocol() != "arq" {
        // No other link can be told to be slow.
        return;
    }
    let (listener, connector) = (node(), node());
    let at = listener.listen().await;
    let slowly = endpoint_with(at.address().as_str(), "max_rate=8000000;queue_bytes=1");
    let transport = connector.connect(&slowly).await.unwrap();
    listener.transport_to(&connector).await;
    let letters = Letter::series(400, 1_000);
    send(&transport, &letters).await;
    soon("close", transport.close()).await.unwrap();
    listener.alone().await;
    let arrived = listener.journal(|journal| journal.letters.clone());
    assert!(!arrived.is_empty());
    assert_eq!(arrived, letters[..arrived.len()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_beyond_the_limit_are_refused() {
    let two_links = || Node::with(|unicast| unicast.max_links(2).max_sessions(1));
    let (listener, connector, at) = pair(two_links).await;
    let transport = connector.connect(&at).await.unwrap();
    assert_eq!(joints(&transport), 2);
    connector.is_refused(&at, "a third link").await;
    assert_eq!(joints(&transport), 2);

    let stranger = Node::new();
    stranger.is_refused(&at, "a second session").await;

    soon("close", transport.close()).await.unwrap();
    listener.alone().await;
    stranger.connect(&at).await.unwrap();
    listener.transport_to(&stranger).await;
    assert_eq!(listener.manager.get_transports_unicast().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_listens() {
    let short = || Node::with(|unicast| unicast.open_timeout(std::time::Duration::from_secs(1)));
    // Taken and let go again, so free in all likelihood.
    let listener = short();
    let at = listener.listen().await;
    listener.close().await;
    let connector = short();
    assert!(connector.connect(&at).await.is_err());
    assert!(connector.connect(&endpoint("no.such.host.invalid:7447")).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transport_opens_within_a_second_without_loss() {
    let (listener, connector) = (Node::new(), Node::new());
    let at = listener.listen().await;
    let started = std::time::Instant::now();
    connector.connect(&at).await.unwrap();
    assert!(started.elapsed().as_millis() < 1_000, "{:?}", started.elapsed());
}
