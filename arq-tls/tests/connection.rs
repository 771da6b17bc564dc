// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! TLS under real connections over loopback.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use arq_proto::session::Protection;
use arq_tls::{client_config, server_config, Peer, Psks, ServerName, Tls};
use arq_tokio::{
    Connect, Connection, Endpoint, EndpointConfig, LaneId, Reliability, SocketOptions, ValidConfig,
};
use tokio::runtime::Handle;

mod support;
use support::{Authority, Identity};

const ANY: ([u8; 4], u16) = ([127, 0, 0, 1], 0);
const NAME: &str = "router.fleet";

fn endpoint(config: EndpointConfig) -> Endpoint {
    let address = SocketAddr::from(ANY);
    Endpoint::bind(address, &SocketOptions::default(), config, &Handle::current()).unwrap()
}

fn listener(tls: Tls) -> Endpoint {
    let config = EndpointConfig::new(ValidConfig::default());
    endpoint(config.with_protection(Protection::Sealed(Arc::new(tls))))
}

/// Connects, and gives the endpoint that must live meanwhile.
async fn connect(listener: &Endpoint, tls: Tls) -> Result<(Connection, Endpoint), String> {
    let client = endpoint(EndpointConfig::default());
    let connect = Connect::sealed(ValidConfig::default(), Arc::new(tls), NAME);
    let connected = client.connect(listener.local_addr(), connect).await;
    connected.map(|connection| (connection, client)).map_err(|error| error.to_string())
}

fn peer(connection: &Connection) -> Option<Peer> {
    connection.peer_identity()?.downcast_ref::<Peer>().cloned()
}

async fn assert_carries(from: &Connection, to: &Connection) {
    let lane = LaneId::new(3, Reliability::Reliable).unwrap();
    let message = vec![7; 20_000];
    from.send(lane, message.clone()).await.unwrap();
    assert_eq!(to.recv(lane).await.unwrap(), message);
}

/// Programs of one host with one key: each newcomer makes the server ask the older ones, which answer.
// ARQ-RPL-2
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_asks_the_older_connections_of_a_host() {
    let psks = Psks::parse("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").unwrap();
    let listener = listener(Tls::server(psks.server_config().unwrap(), Some(&psks)));
    let client = || Tls::client(psks.client_config().unwrap(), ServerName::Any, Some(&psks));
    let (near, _one) = connect(&listener, client()).await.unwrap();
    let far = listener.accept().await.unwrap();
    let _other = connect(&listener, client()).await.unwrap();
    let newcomer = listener.accept().await.unwrap();
    // The driver hands this over after it has asked.
    assert_carries(&near, &far).await;
    assert_eq!((far.stats().suspicions, newcomer.stats().suspicions), (1, 0));
}

struct Fleet {
    ca: Authority,
    router: Identity,
    vehicle: Identity,
}

impl Fleet {
    fn new() -> Self {
        Self::of("fleet CA")
    }

    fn of(authority: &str) -> Self {
        let ca = Authority::new(authority);
        let (router, vehicle) = (ca.identity(NAME), ca.identity("vehicle-7"));
        Self { ca, router, vehicle }
    }

    fn server(&self) -> Tls {
        let config = server_config(self.router.own(), Some(&self.ca.trust())).unwrap();
        Tls::server(config, None)
    }

    fn client(&self, own: Option<&Identity>) -> Tls {
        let own = own.map(Identity::own);
        let config = client_config(own, &self.ca.trust(), &ServerName::Asked).unwrap();
        Tls::client(config, ServerName::Asked, None)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_open_a_connection_and_tell_who_is_there() {
    let fleet = Fleet::new();
    let listener = listener(fleet.server());
    let (near, _client) = connect(&listener, fleet.client(Some(&fleet.vehicle))).await.unwrap();
    let far = listener.accept().await.unwrap();
    assert_eq!(peer(&near).unwrap().common_name(), Some(NAME));
    assert_eq!(peer(&far).unwrap().common_name(), Some("vehicle-7"));
    assert_carries(&near, &far).await;
    assert_carries(&far, &near).await;
}

/// Long chains take several datagrams each way.
#[tokio::test(flavor = "multi_thread")]
async fn long_chains_open_a_connection() {
    let mut fleet = Fleet::new();
    for identity in [&mut fleet.router, &mut fleet.vehicle] {
        for _ in 0..8 {
            identity.chain += &fleet.ca.pem;
        }
    }
    let listener = listener(fleet.server());
    let (near, _client) = connect(&listener, fleet.client(Some(&fleet.vehicle))).await.unwrap();
    assert_carries(&near, &listener.accept().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_trusted_is_named_in_the_error() {
    let (fleet, other) = (Fleet::new(), Fleet::of("other CA"));
    let listener = listener(other.server());
    let called_at = Instant::now();
    let error = connect(&listener, fleet.client(Some(&fleet.vehicle))).await.err().unwrap();
    // Long before the handshake's time-out of 10 s.
    let took = called_at.elapsed();
    assert!(took > Duration::from_millis(900) && took < Duration::from_secs(4), "{took:?}");
    let words =
        ["the certificate of router.fleet comes from", "no authority that this side trusts"];
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
}

/// The client is let in by its own account before the server has read its last flight.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_not_trusted_hears_why() {
    let (fleet, other) = (Fleet::new(), Fleet::of("other CA"));
    for (own, words) in [
        (None, "the peer shows no certificate"),
        (Some(&other.vehicle), "the certificate of vehicle-7 comes from"),
    ] {
        let listener = listener(fleet.server());
        // Before or after the caller has the connection.
        let reason = match connect(&listener, fleet.client(own)).await {
            Ok((connection, _client)) => connection.closed().await.to_string(),
            Err(error) => error,
        };
        assert!(reason.contains("the peer ended the handshake"), "{reason}");
        assert!(reason.contains(words), "{reason}");
        // The server remembers the client for a second, in which it repeats why.
        let counted = async {
            while listener.unopened().failed == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), counted).await.unwrap();
        assert_eq!(listener.unopened().failed, 1);
    }
}

fn by_psk(client: &str, server: &str) -> [Tls; 2] {
    let (client, server) = (Psks::parse(client).unwrap(), Psks::parse(server).unwrap());
    [
        Tls::client(client.client_config().unwrap(), ServerName::Any, Some(&client)),
        Tls::server(server.server_config().unwrap(), Some(&server)),
    ]
}

const OLD: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const NEW: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWc=";

#[tokio::test(flavor = "multi_thread")]
async fn pre_shared_keys_open_a_connection_also_while_they_are_changed() {
    let (appended, in_front) = (format!("{OLD}\n{NEW}"), format!("{NEW}\n{OLD}"));
    for (client, server) in [
        (OLD, OLD),
        (OLD, appended.as_str()),
        (appended.as_str(), OLD),
        (in_front.as_str(), appended.as_str()),
        (appended.as_str(), in_front.as_str()),
        (NEW, in_front.as_str()),
        (in_front.as_str(), NEW),
    ] {
        let [client, server] = by_psk(client, server);
        let listener = listener(server);
        let (near, _client) = connect(&listener, client).await.unwrap();
        let far = listener.accept().await.unwrap();
        assert_eq!([peer(&near), peer(&far)], [Some(Peer::Psk), Some(Peer::Psk)]);
        assert_carries(&near, &far).await;
    }
}
