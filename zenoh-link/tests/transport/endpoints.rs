// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Do locators mean what they say: addresses, protocols allowed, `bind`, `iface`, bad keys, and
//! listeners that come and go?

#[cfg(target_os = "linux")]
use std::net::UdpSocket;

use zenoh_link::EndPoint;

use crate::harness::{endpoint, endpoint_with, exchange, pair, protocol, Letter, Node};

#[tokio::test(flavor = "multi_thread")]
async fn listeners_are_added_and_removed() {
    let (listener, connector) = (Node::new(), Node::new());
    for address in ["127.0.0.1:0", "[::1]:0", "localhost:0"] {
        if protocol() == "udp" && address.starts_with('[') {
            // `udp/…?rel=1` takes the address for a server name of its QUIC, and refuses this one.
            continue;
        }
        let at = listener.listen_on(endpoint(address)).await.unwrap();
        let [only] = &listener.manager.get_listeners().await[..] else {
            panic!("not one listener: {:?}", listener.manager.get_listeners().await);
        };
        let only = only.clone();
        assert_eq!(only.address(), at.address());
        let locators = listener.manager.get_locators();
        assert!(locators.iter().any(|locator| locator.address() == at.address()), "{locators:?}");

        let transport = connector.connect(&at).await.unwrap();
        transport.close().await.unwrap();
        listener.alone().await;

        listener.manager.del_listener(&only).await.unwrap();
        assert_eq!(listener.manager.get_listeners().await, []);
        assert!(listener.manager.del_listener(&only).await.is_err(), "removed twice");
        let impatient = Node::with(|u| u.open_timeout(std::time::Duration::from_secs(1)));
        assert!(impatient.connect(&at).await.is_err(), "a removed listener answers");
        // The port is free again at once.
        listener.listen_on(at).await.unwrap();
        let [again] = &listener.manager.get_listeners().await[..] else {
            panic!("not one listener")
        };
        listener.manager.del_listener(&again.clone()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transport_outlives_its_listener() {
    let (listener, connector, at) = pair(Node::new).await;
    let listeners = listener.manager.get_listeners().await;
    listener.manager.del_listener(&listeners[0]).await.unwrap();
    exchange(&listener, &connector, &Letter::series(50, 1_000)).await;
    let late = Node::with(|unicast| unicast.open_timeout(std::time::Duration::from_secs(1)));
    assert!(late.connect(&at).await.is_err(), "a removed listener takes new peers");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_listeners_on_one_port_are_refused() {
    let (one, other) = (Node::new(), Node::new());
    let at = one.listen().await;
    assert!(other.listen_on(at).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unspecified_address_is_reached_through_every_interface() {
    let (listener, connector) = (Node::new(), Node::new());
    let everywhere = listener.listen_on(endpoint("0.0.0.0:0")).await.unwrap();
    let port = everywhere.address().as_str().rsplit(':').next().unwrap().to_owned();
    let advertised = listener.manager.get_locators();
    assert!(
        advertised.iter().all(|locator| !locator.address().as_str().starts_with("0.0.0.0")),
        "{advertised:?} cannot be connected to"
    );
    connector.connect(&endpoint(&format!("127.0.0.1:{port}"))).await.unwrap();
    exchange(&listener, &connector, &Letter::series(10, 1_000)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_allowed_protocols_pass() {
    let allowing = |protocols: &[&str]| {
        let protocols = protocols.iter().map(|name| name.to_string()).collect();
        Node::build(|manager| manager.protocols(Some(protocols)))
    };
    let (nothing, other) = (allowing(&[]), allowing(&["ws"]));
    let (listener, connector) = (allowing(&[protocol()]), allowing(&["ws", protocol()]));
    assert!(nothing.listen_on(endpoint("127.0.0.1:0")).await.is_err());
    assert!(other.listen_on(endpoint("127.0.0.1:0")).await.is_err());
    let at = listener.listen().await;
    assert!(nothing.connect(&at).await.is_err());
    assert!(other.connect(&at).await.is_err());
    connector.connect(&at).await.unwrap();
    exchange(&listener, &connector, &Letter::series(10, 1_000)).await;
}

/// An address that no other scenario takes by chance: those live on 127.0.0.1.
#[cfg(target_os = "linux")]
fn free_address() -> String {
    UdpSocket::bind("127.0.0.2:0").unwrap().local_addr().unwrap().to_string()
}

/// Connects with `config` to a listener; what the two sides call the connecting end.
async fn connecting_end(config: &str) -> zenoh_result::ZResult<(String, String)> {
    let (listener, connector) = (Node::new(), Node::new());
    let at = listener.listen().await;
    let at = endpoint_with(at.address().as_str(), config);
    let ours = connector.connect(&at).await?.get_links()?[0].src.address().to_string();
    let theirs = listener.transport_to(&connector).await.get_links()?[0].dst.address().to_string();
    exchange(&listener, &connector, &Letter::series(10, 1_000)).await;
    Ok((ours, theirs))
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn bind_chooses_the_connecting_end() {
    let bound = free_address();
    let seen = connecting_end(&format!("bind={bound}")).await.unwrap();
    assert_eq!(seen, (bound.clone(), bound));
}

#[tokio::test(flavor = "multi_thread")]
async fn bind_to_the_other_address_family_is_refused() {
    assert!(connecting_end("bind=[::1]:0").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn bind_and_iface_together_are_refused() {
    assert!(connecting_end("bind=127.0.0.1:0;iface=lo").await.is_err());
}

/// Binding to a device takes a privilege on old kernels only.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn iface_binds_to_a_device() {
    connecting_end("iface=lo").await.unwrap();
    let node = Node::new();
    node.listen_on(endpoint_with("127.0.0.1:0", "iface=lo")).await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_iface_connects_nothing() {
    if protocol() == "arq" {
        assert!(connecting_end("iface=nosuchdevice0").await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_keys_are_errors_that_name_the_good_ones() {
    if protocol() != "arq" {
        eprintln!("skipped: the stock links ignore what they do not know");
        return;
    }
    let node = Node::new();
    for (bad, named) in [
        ("arq/127.0.0.1:0#ifcae=lo", "iface"),
        ("arq/127.0.0.1:0#preset=nonsense", "preset"),
        ("arq/127.0.0.1:0#dscp=nonsense", "dscp"),
        ("arq/127.0.0.1:0#config=/no/such/file.json5", "file.json5"),
        ("arq/127.0.0.1:0?mixed_rel=perhaps", "mixed_rel"),
    ] {
        let bad: EndPoint = bad.parse().unwrap();
        let listening = node.listen_on(bad.clone()).await;
        let error = listening.expect_err(&format!("{bad} listens")).to_string();
        assert!(error.contains(named), "{bad}: {error}");
        let error = node.connect(&bad).await.expect_err(&format!("{bad} connects")).to_string();
        assert!(error.contains(named), "{bad}: {error}");
    }
}
