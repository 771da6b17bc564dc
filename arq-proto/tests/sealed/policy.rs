// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Nobody falls back: who takes sealed packets takes no others, and each side says so in words.

use std::{net::SocketAddr, sync::Arc};

use arq_proto::{
    session::{Protection, Security},
    Connect, ConnectionError, Endpoint, EndpointConfig, Routed, ValidConfig,
};
use arq_sim::{
    toy::{Flights, Toy},
    AppPlan, Clock, HostConfig, Pair, Scenario, WireConfig, World,
};

use crate::common::{MS, SEC};

fn error_of(scenario: &Scenario, connect: impl Into<Connect>) -> Option<ConnectionError> {
    let mut pair = Pair::new(scenario);
    let plan = AppPlan::default();
    let id = pair.world.connect(pair.client, pair.server, connect, plan);
    pair.run(5 * SEC, |pair| pair.world.conn(id).closed.is_some()).unwrap();
    let (at, error) = pair.world.conn(id).closed.clone().unwrap();
    // Whoever reads packets can say REFUSE, too: it is doubted for a second.
    assert!(at >= SEC, "{at:?}");
    assert!(pair.world.endpoint(pair.server).stats().mismatched > 0);
    Some(error)
}

// ARQ-VER-2, ARQ-VER-3
#[test]
fn a_clear_and_a_sealed_side_refuse_each_other_with_words() {
    let toy = Toy::new(Flights::default());
    let sealed = Scenario::new(1).sealed(toy.clone(), 64);
    let error = error_of(&sealed, ValidConfig::default());
    assert_eq!(error, Some(ConnectionError::PeerOnlySealed));
    let error = error_of(
        &Scenario::new(1),
        Connect::sealed(ValidConfig::default(), Arc::new(toy), "server"),
    );
    assert_eq!(error, Some(ConnectionError::PeerOnlyClear));
    assert_eq!(
        error.unwrap().to_string(),
        "the peer offers no encryption: not connecting in clear"
    );
}

// ARQ-ADM-2
#[test]
fn who_does_not_knock_gets_no_answer() {
    let toy = Toy::new(Flights::default()).with_knock(7);
    let mut pair = Pair::new(&Scenario::new(1).sealed(toy.clone(), 64));
    pair.run_to_connected(SEC).unwrap();
    for stranger in [toy.with_knock(8), Toy::new(Flights::default())] {
        let stranger = Connect::sealed(ValidConfig::default(), Arc::new(stranger), "server");
        assert!(asked(&toy, stranger).is_empty());
    }
    assert!(asked(&toy, ValidConfig::default().into()).is_empty(), "nor who comes in the clear");
    let other = Connect::sealed(ValidConfig::default(), Arc::new(toy.clone()), "server");
    assert!(!asked(&toy, other).is_empty());
}

/// What a server without room answers to the first HELLO.
fn asked(toy: &Toy, connect: Connect) -> Vec<u8> {
    let now = Clock::new().now();
    let accept = EndpointConfig::new(ValidConfig::default())
        .with_max_unvalidated_handshakes(0)
        .with_protection(Protection::Sealed(Arc::new(toy.clone())));
    let mut server = Endpoint::new(accept, [1; 32], now);
    let mut client = Endpoint::new(EndpointConfig::default(), [2; 32], now);
    let address = Pair::SERVER.parse().unwrap();
    let (_, mut connection) = client.connect(now, address, connect);
    let (mut hello, mut reply) = (Vec::new(), Vec::new());
    connection.poll_transmit(now, &mut hello, 1).unwrap();
    let routed = server.route(now, Pair::CLIENT.parse().unwrap(), &hello, &mut reply);
    assert!(matches!(routed, Routed::Reply | Routed::Dropped), "{routed:?}");
    reply
}

#[test]
fn a_session_that_cannot_begin_ends_the_connection_with_its_words() {
    let now = Clock::new().now();
    let mut client = Endpoint::new(EndpointConfig::default(), [2; 32], now);
    let nameless =
        Connect::sealed(ValidConfig::default(), Arc::new(Toy::new(Flights::default())), "");
    let (_, connection) = client.connect(now, Pair::SERVER.parse().unwrap(), nameless);
    assert!(connection.is_drained());
    let error = connection.close_reason().unwrap().to_string();
    assert_eq!(error, "the handshake failed: a server has a name");
}

// ARQ-RPL-1
#[test]
fn a_false_newcomer_does_not_take_the_place_of_the_one_that_lives() {
    let now = Clock::new().now();
    let toy: Arc<dyn Security> = Arc::new(Toy::new(Flights::default()));
    let accept = EndpointConfig::new(ValidConfig::default());
    let accept = accept.with_protection(Protection::Sealed(toy.clone()));
    let mut server = Endpoint::new(accept, [1; 32], now);
    let mut client = Endpoint::new(EndpointConfig::default(), [2; 32], now);
    let (near, far) = (Pair::CLIENT.parse().unwrap(), Pair::SERVER.parse().unwrap());
    let mut accept = |port: Option<u16>| {
        let connect = Connect::sealed(ValidConfig::default(), toy.clone(), "server");
        let (_, mut connection) = client.connect(now, far, connect);
        let mut hello = Vec::new();
        connection.poll_transmit(now, &mut hello, 1).unwrap();
        let from: SocketAddr = near;
        let from = port.map_or(from, |port| (from.ip(), port).into());
        match server.route(now, from, &hello, &mut Vec::new()) {
            Routed::Accepted { handle, older, .. } => (handle, older),
            routed => panic!("{routed:?}"),
        }
    };
    let (first, none) = accept(None);
    assert_eq!(none, None);
    assert_eq!(accept(Some(9)).1, None, "another address");
    assert_eq!(accept(None).1, Some(first));
    assert_eq!(accept(None).1, Some(first));
}

/// A host has several addresses: who asked at one of them takes no answer from another.
#[test]
fn a_server_answers_from_where_it_was_asked() {
    let toy: Arc<dyn Security> = Arc::new(Toy::new(Flights::default()));
    let address = SocketAddr::from(([10, 0, 0, 1], 7447));
    let accept = EndpointConfig::new(ValidConfig::default());
    let mut world = World::new(1);
    let server = world.add_host(HostConfig {
        local_ip: Some(address.ip()),
        endpoint: accept.with_protection(Protection::Sealed(toy.clone())),
        ..HostConfig::new("server", address)
    });
    let client = world.add_host(HostConfig::new("client", ([10, 0, 0, 2], 7).into()));
    world.lay_wire(client, server, WireConfig::with_delay(10 * MS));
    world.lay_wire(server, client, WireConfig::with_delay(10 * MS));
    let connect = Connect::sealed(ValidConfig::default(), toy, "server");
    world.connect(client, server, connect, AppPlan::default());
    world.run_until(SEC, |world| !world.accepted(server).is_empty()).unwrap();
    let accepted = world.conn(world.accepted(server)[0]);
    assert_eq!(accepted.connected_at, None, "it has yet to answer");
    assert_eq!(accepted.connection().local_ip(), Some(address.ip()));
}
