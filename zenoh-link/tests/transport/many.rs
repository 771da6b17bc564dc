// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Do many links come up at once, from one side, from both, and beside ones that come and go?

use std::{
    slice,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
};

use tokio::{sync::Barrier, task::JoinSet};
use zenoh_link::EndPoint;

use crate::harness::{exchange, joints, send, soon, until, Letter, Node};

/// Opens all of `endpoints` from `node` at one moment, which `start` gives.
async fn open_at_once(node: &Node, endpoints: &[EndPoint], start: &Arc<Barrier>) -> usize {
    let mut openings = JoinSet::new();
    for endpoint in endpoints {
        let (manager, endpoint, start) = (node.manager.clone(), endpoint.clone(), start.clone());
        openings.spawn(async move {
            start.wait().await;
            manager.open_transport_unicast(endpoint).await
        });
    }
    let opened = soon("all open", openings.join_all()).await;
    opened.into_iter().filter(|result| result.is_ok()).count()
}

async fn listen_times(node: &Node, count: usize) -> Vec<EndPoint> {
    let mut endpoints = Vec::new();
    for _ in 0..count {
        endpoints.push(node.listen().await);
    }
    endpoints
}

/// Eight links each way, opened all at once: one transport with all of them, and it works.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_links_between_two_peers() {
    const LINKS: usize = 8;
    let peer = || Node::with(|unicast| unicast.max_links(LINKS).accept_pending(4 * LINKS));
    let (one, other) = (peer(), peer());
    let (of_one, of_other) = (listen_times(&one, LINKS).await, listen_times(&other, LINKS).await);
    let start = Arc::new(Barrier::new(2 * LINKS));
    let opened =
        tokio::join!(open_at_once(&one, &of_other, &start), open_at_once(&other, &of_one, &start));
    assert_eq!(opened, (LINKS, LINKS));

    let transport = one.transport_to(&other).await;
    until("all links are up", || joints(&transport) == 2 * LINKS).await;
    assert_eq!(one.manager.get_transports_unicast().await.len(), 1);
    exchange_in_any_order(&one, &other, 1_000).await;
}

/// Forty nodes find one listener at the same moment.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_peers_at_one_listener() {
    const PEERS: usize = 40;
    let hub = Node::with(|unicast| unicast.accept_pending(PEERS));
    let at = hub.listen().await;
    let start = Arc::new(Barrier::new(PEERS));
    let mut openings = JoinSet::new();
    for number in 0..PEERS as u32 {
        let (at, start) = (at.clone(), start.clone());
        openings.spawn(async move {
            let peer = Node::new();
            start.wait().await;
            let transport = peer.connect(&at).await.unwrap();
            send(&transport, &[Letter::new(number, 2_000)]).await;
            peer
        });
    }
    let peers = soon("all open", openings.join_all()).await;
    until("every letter is here", || hub.journal(|j| j.letters.len()) == PEERS).await;
    let mut numbers: Vec<_> = hub.journal(|j| j.letters.iter().map(|l| l.number).collect());
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..PEERS as u32));
    for peer in peers {
        peer.close().await;
    }
    hub.alone().await;
}

/// Two peers that call each other at the same moment end with one transport, round after round.
#[tokio::test(flavor = "multi_thread")]
async fn simultaneous_connect() {
    for _ in 0..10 {
        let peer = || Node::with(|unicast| unicast.max_links(2));
        let (one, other) = (peer(), peer());
        let (at_one, at_other) = (one.listen().await, other.listen().await);
        let start = Arc::new(Barrier::new(2));
        let opened = tokio::join!(
            open_at_once(&one, slice::from_ref(&at_other), &start),
            open_at_once(&other, slice::from_ref(&at_one), &start)
        );
        assert_eq!(opened, (1, 1));
        let transport = one.transport_to(&other).await;
        until("both links are up", || joints(&transport) == 2).await;
        assert_eq!(one.manager.get_transports_unicast().await.len(), 1);
        assert_eq!(other.manager.get_transports_unicast().await.len(), 1);
        exchange_in_any_order(&one, &other, 50).await;
    }
}

/// With room for one link only, one of two simultaneous calls may lose, but never both.
#[tokio::test(flavor = "multi_thread")]
async fn simultaneous_connect_with_one_link() {
    for _ in 0..10 {
        let peer = || Node::with(|unicast| unicast.max_links(1));
        let (one, other) = (peer(), peer());
        let (at_one, at_other) = (one.listen().await, other.listen().await);
        let start = Arc::new(Barrier::new(2));
        let (left, right) = tokio::join!(
            open_at_once(&one, slice::from_ref(&at_other), &start),
            open_at_once(&other, slice::from_ref(&at_one), &start)
        );
        assert!(left + right >= 1);
        exchange(&one, &other, &Letter::series(20, 500)).await;
    }
}

/// Two peers come and go while the hub sends to whoever is there: the third misses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn intermittent_peers_do_not_disturb_a_stable_one() {
    const ROUNDS: usize = 25;
    let hub = Arc::new(Node::new());
    let at = hub.listen().await;
    let stable = Node::new();
    stable.connect(&at).await.unwrap();
    let to_stable = hub.transport_to(&stable).await;

    let going = Arc::new(AtomicBool::new(true));
    let restless = (0..2).map(|_| tokio::spawn(come_and_go(hub.clone(), at.clone(), ROUNDS)));
    let restless: Vec<_> = restless.collect();
    let bystanders =
        tokio::spawn(disturb_all(hub.clone(), to_stable.get_zid().unwrap(), going.clone()));

    let letters = Letter::series(3_000, 1_000);
    send(&to_stable, &letters).await;
    for task in restless {
        soon("come and go", task).await.unwrap();
    }
    going.store(false, Ordering::Relaxed);
    soon("the hub ends", bystanders).await.unwrap();
    stable.receives(&letters).await;
    assert_eq!(stable.journal(|journal| journal.closed), 0);
}

async fn come_and_go(hub: Arc<Node>, at: EndPoint, rounds: usize) {
    let node = Node::new();
    for _ in 0..rounds {
        let transport = node.connect(&at).await.unwrap();
        soon("close", transport.close()).await.unwrap();
        // zenoh refuses a peer that calls while its former transport is being taken down.
        node.alone().await;
        hub.without(&node).await;
    }
}

/// Keeps sending to every peer but the stable one; whether they still listen is their affair.
///
/// Droppable, because a message that waits for room on a link that is being taken down makes zenoh
/// wait in turn, on the one thread that writes to all links of the process.
async fn disturb_all(
    hub: Arc<Node>,
    stable: zenoh_protocol::core::ZenohIdProto,
    going: Arc<AtomicBool>,
) {
    let letter = Letter::new(0, 1_000);
    while going.load(Ordering::Relaxed) {
        for transport in hub.manager.get_transports_unicast().await {
            if transport.get_zid().is_ok_and(|zid| zid != stable) {
                let sending = move || transport.schedule(letter.droppable().as_mut());
                let _ = tokio::task::spawn_blocking(sending).await.unwrap();
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Several links carry one priority side by side, so only the set of letters is certain.
async fn exchange_in_any_order(one: &Node, other: &Node, count: u32) {
    let letters = Letter::series(count, 1_000);
    let (forth, back) = (one.transport_to(other).await, other.transport_to(one).await);
    tokio::join!(send(&forth, &letters), send(&back, &letters));
    for node in [one, other] {
        until("every letter is here", || {
            node.journal(|journal| journal.letters.len() >= letters.len())
        })
        .await;
        let mut arrived = node.journal(|journal| journal.letters.clone());
        arrived.sort_by_key(|letter| letter.number);
        assert_eq!(arrived, letters);
    }
}
