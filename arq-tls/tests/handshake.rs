// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Two sessions, by bytes alone: parameters, keys, key updates, sizes.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use arq_proto::session::{PacketKey, Security, Session};
use arq_tls::{client_config, server_config, Psks, ServerName, Tls};

mod support;
use support::{handshake, Authority, Side};

fn certificates() -> [Tls; 2] {
    let ca = Authority::new("fleet CA");
    let (router, vehicle) = (ca.identity("router.fleet"), ca.identity("vehicle-7"));
    let client = client_config(Some(vehicle.own()), &ca.trust(), &ServerName::Asked).unwrap();
    let server = server_config(router.own(), Some(&ca.trust())).unwrap();
    [Tls::client(client, ServerName::Asked, None), Tls::server(server, None)]
}

fn psk(text: &str) -> [Tls; 2] {
    let psks = Psks::parse(text).unwrap();
    let (client, server) = (psks.client_config().unwrap(), psks.server_config().unwrap());
    [Tls::client(client, ServerName::Any, Some(&psks)), Tls::server(server, Some(&psks))]
}

const PSK: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

fn pass(from: &dyn PacketKey, to: &dyn PacketKey, number: u64) -> Option<Vec<u8>> {
    let mut packet = b"what is said".to_vec();
    let tag = from.seal(0, number, b"header", &mut packet);
    packet.extend(tag);
    to.open(0, number, b"header", &mut packet).map(|plain| plain.to_vec())
}

fn assert_speak(from: &dyn PacketKey, to: &dyn PacketKey) {
    assert_eq!(pass(from, to, 7).unwrap(), b"what is said");
}

#[test]
fn both_sides_come_to_the_same_keys_and_know_each_others_parameters() {
    for [client, server] in [certificates(), psk(PSK)] {
        let [client, server] = handshake(&client, &server, "router.fleet").unwrap();
        assert_eq!(client.session.peer_params().unwrap(), b"of the server");
        assert_eq!(server.session.peer_params().unwrap(), b"of the client");
        assert!(!client.session.is_handshaking() && !server.session.is_handshaking());
        let (ours, theirs) = (client.keys.unwrap(), server.keys.unwrap());
        assert_speak(&*ours.local.packet, &*theirs.remote.packet);
        assert_speak(&*theirs.local.packet, &*ours.remote.packet);
        assert_eq!(pass(&*ours.local.packet, &*ours.remote.packet, 7), None, "one key a direction");
        let sample = *b"sixteen bytes...";
        assert_eq!(ours.local.header.mask(&sample), theirs.remote.header.mask(&sample));
        assert_ne!(ours.local.header.mask(&sample), theirs.local.header.mask(&sample));
    }
}

/// A server tells clients apart by their certificates, and not by a key that all have.
// ARQ-RPL-2
#[test]
fn credentials_are_those_of_the_holder() {
    let shown = |[client, server]: &[Tls; 2]| {
        let [_, server] = handshake(client, server, "router.fleet").unwrap();
        server.session.peer_credential().unwrap().to_vec()
    };
    let one = certificates();
    let own = shown(&one);
    assert_eq!(own, shown(&one));
    assert_ne!(own, shown(&certificates()));
    assert_eq!(shown(&psk(PSK)), shown(&psk(PSK)));
}

#[test]
fn keys_are_updated_as_often_as_one_likes() {
    let [client, server] = certificates();
    let [client, server] = handshake(&client, &server, "router.fleet").unwrap();
    let (mut ours, mut theirs) = (client.updates.unwrap(), server.updates.unwrap());
    let mut last = client.keys.unwrap().local.packet;
    for _ in 0..100 {
        let ((our_local, our_remote), (their_local, their_remote)) = (ours.next(), theirs.next());
        assert_speak(&*our_local, &*their_remote);
        assert_speak(&*their_local, &*our_remote);
        assert_eq!(pass(&*last, &*their_remote, 7), None, "keys of another phase");
        last = our_local;
    }
}

#[test]
fn limits_of_the_keys_are_those_of_rfc_9001() {
    let [client, server] = psk(PSK);
    let [client, _] = handshake(&client, &server, "").unwrap();
    let key = client.keys.unwrap().local.packet;
    // AES-GCM, or ChaCha20-Poly1305 where the processor has no AES (§6.6).
    let limits = (key.confidentiality_limit(), key.integrity_limit());
    assert!([(1 << 23, 1 << 52), (u64::MAX, 1 << 36)].contains(&limits), "{limits:?}");
}

/// What the core's plan for flights is made for: each within one datagram but for the server's with long chains.
#[test]
fn flights_are_small() {
    let sizes = |client: &Tls, server: &Tls| {
        let [client, server] = handshake(client, server, "router.fleet").unwrap();
        let Side { sent_bytes: [hello, finish, _], .. } = client;
        let Side { sent_bytes: [answer, rest, tickets], .. } = server;
        assert_eq!(tickets, 0, "no tickets");
        [hello, answer + rest, finish]
    };
    let [client, server] = certificates();
    let [hello, answer, finish] = sizes(&client, &server);
    assert!(hello <= 300 && answer <= 1000 && finish <= 750, "{hello} {answer} {finish}");
    let [client, server] = psk(PSK);
    let [hello, answer, finish] = sizes(&client, &server);
    assert!(hello <= 300 && answer <= 450 && finish <= 250, "{hello} {answer} {finish}");
}

#[test]
fn the_name_of_the_server_is_not_on_the_wire() {
    let [client, _] = certificates();
    let mut session = client.connect("router.fleet", b"").unwrap();
    let mut hello = Vec::new();
    assert!(session.write(&mut hello).is_none());
    assert!(!hello.windows(6).any(|window| window == b"router"));
}

#[test]
fn who_knows_the_secret_knocks_the_same_and_with_certificates_nobody_knocks() {
    let [client, server] = psk(PSK);
    assert_eq!(client.knock(b"packet"), server.knock(b"packet"));
    assert_ne!(client.knock(b"packet"), client.knock(b"Packet"));
    let [other, _] = psk("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWc=");
    assert_ne!(client.knock(b"packet"), other.knock(b"packet"));
    let [client, server] = certificates();
    assert_eq!((client.knock(b"packet"), server.knock(b"packet")), (None, None));
}

/// Flights of a stranger: every bit of the first one altered, and what is no flight at all.
#[test]
fn altered_flights_are_refused_and_nothing_panics() {
    let [client, server] = psk(PSK);
    let mut hello = Vec::new();
    let _ = client.connect("", b"of the client").unwrap().write(&mut hello);
    for bit in 0..hello.len() * 8 {
        let mut altered = hello.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        let mut session = server.accept(b"").unwrap();
        if session.read(&altered).is_ok() {
            let mut answer = Vec::new();
            while session.write(&mut answer).is_some() {}
            assert!(session.is_handshaking(), "bit {bit}");
        }
    }
    for byte in 0..=u8::MAX {
        let mut session = server.accept(b"").unwrap();
        let _ = session.read(&[byte; 1000]);
        assert!(session.is_handshaking() && session.peer().is_none());
    }
}

/// A client that reads the answer to its first flight, with one bit altered.
fn reads_altered(client: &Tls, server: &Tls, bit: usize) -> (Box<dyn Session>, usize) {
    let (mut hello, mut answer, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    let mut asking = client.connect("", b"").unwrap();
    let _ = asking.write(&mut hello);
    let mut accepting = server.accept(b"of the server").unwrap();
    accepting.read(&hello).unwrap();
    let _ = accepting.write(&mut answer);
    while accepting.write(&mut rest).is_some() {}
    let bits = (answer.len() + rest.len()) * 8;
    match bit / 8 {
        byte if byte < answer.len() => answer[byte] ^= 1 << (bit % 8),
        byte => rest[byte - answer.len()] ^= 1 << (bit % 8),
    }
    let _ = asking.read(&answer).and_then(|()| asking.read(&rest));
    (asking, bits)
}

/// What was altered on the way is noticed by who receives it, whatever bit it is.
#[test]
fn an_altered_answer_leads_to_no_keys() {
    let [client, server] = psk(PSK);
    let (_, bits) = reads_altered(&client, &server, 0);
    for bit in (0..bits).step_by(3) {
        let (client, _) = reads_altered(&client, &server, bit);
        assert!(client.is_handshaking(), "bit {bit}");
    }
}

#[test]
fn who_has_nothing_to_accept_or_connect_with_says_so() {
    let [client, server] = psk(PSK);
    let text = |error: arq_proto::session::SessionError| error.text;
    assert_eq!(text(client.accept(b"").err().unwrap()), "this side has nothing to accept with");
    assert_eq!(
        text(server.connect("", b"").err().unwrap()),
        "this side has nothing to connect with"
    );
}
