// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Reports that datagrams do not arrive: whoever likes can send one.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use arq_proto::{
    wire::{
        packet::{Echo, Hello, PacketKind, Reset},
        VERSION,
    },
    Config, Connection, ConnectionError, ConnectionId, Datagram, LaneId, Refusal, SocketId,
    Unreachable, UnreachableReport, ValidConfig,
};
use arq_sim::{
    harness::Victim,
    hostile::{data_packet, Sighting},
};
use bytes::Bytes;

use crate::{
    client::{server, Client, SERVER_ID},
    common::{MS, SEC},
    stranger,
};

/// A connection whose peer is the test.
pub(crate) trait Side {
    fn pass(&mut self, time: Duration);
    fn with(&mut self, act: &mut dyn FnMut(Instant, &mut Connection));
    fn connection(&self) -> &Connection;
    /// Its newest packet.
    fn seen(&self) -> Sighting;
    /// Its peer acknowledges all of them.
    fn answer(&mut self);

    fn report(&mut self, report: &UnreachableReport<'_>) {
        self.with(&mut |now, connection| connection.handle_unreachable(now, report));
    }

    fn error(&self) -> Option<&ConnectionError> {
        self.connection().close_reason()
    }

    /// The peer's host says that it has nobody at the port.
    fn port_closed(&mut self, quoted: Sighting) {
        let quote = data_packet(quoted, 0, true, &[1]);
        let destination = self.connection().remote();
        self.report(&port_closed(destination, destination.ip(), &quote));
    }

    /// Somebody says that the peer does not know this packet.
    fn reset(&mut self, seen: Sighting) {
        let mut reset = Vec::new();
        Reset { unknown: seen.dcid, echo: Echo::Number(seen.number) }.encode(&mut reset);
        let from = self.connection().remote();
        self.with(&mut |now, connection| connection.handle_datagram(now, from, &mut reset));
    }

    /// The peer is gone, and its host says so of each packet a millisecond later. How long it takes to end.
    fn until_noticed(&mut self) -> Option<Duration>
    where
        Self: Sized,
    {
        self.until_ended_by(|side| side.port_closed(side.seen()))
    }

    /// How long it takes to end if what it sends meets with this a millisecond later.
    fn until_ended_by(&mut self, mut meets: impl FnMut(&mut Self)) -> Option<Duration>
    where
        Self: Sized,
    {
        let mut met = self.connection().stats().packets_sent;
        for passed in 1..20_000 {
            self.pass(MS);
            if self.error().is_some() {
                return Some(passed * MS);
            }
            let sent = self.connection().stats().packets_sent;
            if std::mem::replace(&mut met, sent) != sent {
                meets(self);
            }
        }
        None
    }

    /// Its application sends a message.
    fn send(&mut self) {
        let lane = LaneId::all().next().unwrap();
        self.with(&mut |now, connection| {
            connection.send(now, lane, Bytes::from_static(b"x")).unwrap();
        });
    }
}

fn port_closed(destination: SocketAddr, reporter: IpAddr, quote: &[u8]) -> UnreachableReport<'_> {
    UnreachableReport::new(Unreachable::Port, destination, reporter, quote)
}

impl Side for Victim {
    fn pass(&mut self, time: Duration) {
        self.sleep(time);
    }

    fn with(&mut self, act: &mut dyn FnMut(Instant, &mut Connection)) {
        self.with_connection(act);
    }

    fn connection(&self) -> &Connection {
        Self::connection(self)
    }

    fn seen(&self) -> Sighting {
        let (dcid, number) = self.sends_to().unwrap();
        Sighting { dcid, number }
    }

    fn answer(&mut self) {
        let ack = self.ack_of_all();
        self.frames(&ack);
    }
}

impl Side for Client {
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some((at, _)) = self.connection.poll_timeout().filter(|(at, _)| *at <= end) {
            self.now = self.now.max(at);
            self.connection.handle_timeout(self.now);
            self.drive();
        }
        self.now = end;
    }

    fn with(&mut self, act: &mut dyn FnMut(Instant, &mut Connection)) {
        act(self.now, &mut self.connection);
        self.drive();
    }

    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn seen(&self) -> Sighting {
        self.seen.unwrap()
    }

    fn answer(&mut self) {
        self.ack_all();
    }
}

/// A side that has been answered 10 ms after it asked, and has just sent a message.
pub(crate) fn sent<S: Side>(mut side: S) -> S {
    for _ in 0..20 {
        side.send();
        side.pass(10 * MS);
        side.answer();
    }
    side.send();
    side
}

fn hello(scid: ConnectionId) -> Vec<u8> {
    let mut out = Vec::new();
    Hello { scid, instance: 0, attempt: 0, versions: vec![VERSION], bytes: 1_200 }.encode(&mut out);
    out
}

const CAUSES: [Unreachable; 4] =
    [Unreachable::Port, Unreachable::Host, Unreachable::Network, Unreachable::Prohibited];

// ARQ-UNR-1
#[test]
fn a_report_that_quotes_the_hello_ends_an_attempt_at_once() {
    for cause in CAUSES {
        let mut client = Client::waiting();
        let quote = hello(client.id);
        let reporter = stranger(9).ip();
        client.report(&UnreachableReport::new(cause, server(), reporter, &quote));
        assert_eq!(client.error(), Some(&ConnectionError::Unreachable(cause)));
    }
}

// ARQ-UNR-1
#[test]
fn reports_by_one_who_has_not_seen_the_hello_end_no_attempt() {
    let mut client = Client::waiting();
    let id = client.id;
    let other = hello(ConnectionId(id.0 ^ 1));
    let data = data_packet(Sighting { dcid: id, number: 0 }, 0, true, &[1]);
    let own = hello(id);
    for _ in 0..100 {
        for quote in [&other[..], &data, &other[..9], &[]] {
            client.report(&port_closed(server(), server().ip(), quote));
        }
        client.report(&port_closed(stranger(9), server().ip(), &own));
    }
    assert_eq!(client.error(), None);
    client.challenge(SERVER_ID);
    assert!(client.connection.is_established(), "it opens as if nothing had been");
}

/// How long an attempt lasts that meets with this whenever it has said HELLO.
fn attempt(meets: impl Fn(Instant, &mut Connection)) -> (Duration, Option<ConnectionError>) {
    let mut client = Client::waiting();
    let begin = client.now;
    while client.error().is_none() {
        let sent = client.connection.stats().packets_sent;
        let (now, connection) = (client.now, &mut client.connection);
        // Many reports of one HELLO are one.
        (0..10).for_each(|_| meets(now, connection));
        while client.error().is_none() && client.connection.stats().packets_sent == sent {
            client.pass(MS);
        }
    }
    (client.now - begin, client.error().cloned())
}

// ARQ-UNR-2
#[test]
fn weak_evidence_about_each_hello_is_believed_after_400_ms() {
    let (took, error) = attempt(|now, connection| {
        connection.handle_unreachable(now, &port_closed(server(), server().ip(), &[]));
    });
    assert_eq!(error, Some(ConnectionError::Unreachable(Unreachable::Port)));
    assert!((400 * MS..405 * MS).contains(&took), "{took:?}");
    let (took, error) = attempt(|now, connection| {
        connection.handle_send_refused(now, SocketId::default(), Refusal::Dropped)
    });
    assert_eq!(error, Some(ConnectionError::Unsendable));
    assert!((400 * MS..405 * MS).contains(&took), "{took:?}");
}

// ARQ-UNR-2
#[test]
fn a_host_that_knows_no_way_need_not_be_asked_twice() {
    let (took, error) = attempt(|now, connection| {
        connection.handle_send_refused(now, SocketId::default(), Refusal::NoWay)
    });
    assert_eq!((took, error), (Duration::ZERO, Some(ConnectionError::Unsendable)));
}

// ARQ-UNR-2
#[test]
fn a_firewall_that_drops_each_second_hello_ends_no_attempt() {
    let count = std::cell::Cell::new(0);
    let (took, error) = attempt(|now, connection| {
        if count.replace(count.get() + 1) / 10 % 2 == 0 {
            connection.handle_send_refused(now, SocketId::default(), Refusal::Dropped);
        }
    });
    let timed_out = matches!(error, Some(ConnectionError::HandshakeTimedOut { .. }));
    assert!(timed_out, "{error:?} after {took:?}");
}

// ARQ-UNR-4, ARQ-SUS-2, ARQ-SUS-3
#[test]
fn a_peer_that_is_gone_is_noticed_by_who_sends_to_it() {
    let took = sent(Client::confirmed()).until_noticed().unwrap();
    assert!((250 * MS..300 * MS).contains(&took), "{took:?}");
    // Before a peer that has dialled there may be a NAT, which answers in its place.
    let took = sent(Victim::new(ValidConfig::default())).until_noticed().unwrap();
    assert!((1_250 * MS..1_300 * MS).contains(&took), "{took:?}");
}

// ARQ-SUS-3, ARQ-LIV-1
#[test]
fn a_process_of_the_same_machine_is_noticed_without_traffic() {
    let config = Config { mtu: Some(1_200), ..Config::default() };
    let mut victim = Victim::new(config.validate().unwrap());
    let (own, peer) = (victim.peer().ip(), victim.peer());
    let at = victim.next_packet(0);
    let mut packet = data_packet(at, 0, true, &[1]);
    victim.with_connection(|now, connection| {
        let datagram = Datagram::new(peer, Some(own), &mut packet);
        connection.handle_datagrams(now, [datagram]);
    });
    victim.answer();
    let took = victim.until_noticed().unwrap();
    assert!((400 * MS..500 * MS).contains(&took), "{took:?}");
    assert_eq!(victim.error(), Some(&ConnectionError::PeerGone));
}

// ARQ-UNR-4
#[test]
fn a_host_that_rations_its_reports_is_believed_all_the_same() {
    // Linux: six at once, then one a second. They answer what was on its way.
    let mut side = sent(Client::confirmed());
    let mut numbers = Vec::new();
    for _ in 0..6 {
        side.send();
        numbers.push(side.seen());
    }
    numbers.into_iter().for_each(|number| side.port_closed(number));
    let took = side.until_ended_by(|_| {}).unwrap();
    assert!((245 * MS..300 * MS).contains(&took), "{took:?}");
}

// ARQ-UNR-4
#[test]
fn one_report_makes_a_side_ask_and_then_forget() {
    let mut side = sent(Victim::new(ValidConfig::default()));
    let seen = side.seen();
    side.port_closed(seen);
    let sent = side.connection().stats().packets_sent;
    // Also of the same packet, many times.
    (0..1_000).for_each(|_| side.port_closed(seen));
    assert_eq!(side.connection().stats().packets_sent, sent, "one question at a time");
    side.pass(10 * SEC);
    assert_eq!(side.error(), None, "silence alone is for the idle time-out");
    assert_eq!(side.connection().stats().suspicions, 1);
    side.pass(10 * SEC);
    assert_eq!(side.error(), Some(&ConnectionError::TimedOut));
}

// ARQ-UNR-3
#[test]
fn reports_that_prove_nothing_make_nobody_ask() {
    let mut side = sent(Victim::new(ValidConfig::default()));
    let (seen, peer) = (side.seen(), side.connection().remote());
    let sent = side.connection().stats().packets_sent;
    let quote_of = |dcid: u64, number| {
        data_packet(Sighting { dcid: ConnectionId(seen.dcid.0 ^ dcid), number }, 0, true, &[1])
    };
    let (true_one, hello) = (quote_of(0, seen.number), hello(seen.dcid));
    assert!(matches!(PacketKind::of(hello[0]), Ok(PacketKind::Hello)));
    let quotes = [
        quote_of(1, seen.number),
        quote_of(0, seen.number + 1),
        quote_of(0, seen.number.wrapping_sub(1 << 20)),
        true_one[..12].to_vec(),
        hello,
        Vec::new(),
    ];
    for quote in &quotes {
        (0..1_000).for_each(|_| side.report(&port_closed(peer, peer.ip(), quote)));
    }
    for cause in CAUSES {
        // Who else has no port there to speak of; and networks heal.
        let reporter = if cause == Unreachable::Port { stranger(9).ip() } else { peer.ip() };
        let report = UnreachableReport::new(cause, peer, reporter, &true_one);
        (0..1_000).for_each(|_| side.report(&report));
    }
    side.report(&port_closed(stranger(9), peer.ip(), &true_one));
    let stats = side.connection().stats();
    assert_eq!((stats.suspicions, stats.packets_sent), (0, sent), "{stats:?}");
    assert!(stats.unreachable_reports >= 10_000);
    side.pass(10 * SEC);
    assert_eq!(side.error(), None);
}

/// Who sees all packets forges a report of each, but cannot keep the peer from answering.
fn an_observer(mut side: impl Side, answers: impl Fn(u32) -> bool) {
    let mut reported = side.seen().number;
    let before = side.connection().stats().packets_sent;
    for passed in 1..60_000 {
        side.pass(MS);
        let seen = side.seen();
        side.port_closed(seen);
        if seen.number != reported && answers(seen.number) {
            side.answer();
        }
        reported = seen.number;
        assert_eq!(side.error(), None, "after {passed} ms");
    }
    let stats = side.connection().stats();
    assert!(stats.suspicions > 100, "the forger is at work: {}", stats.suspicions);
    let a_second = (stats.packets_sent - before) / 60;
    assert!(a_second <= 40, "{a_second} packets a second");
}

// ARQ-UNR-4
#[test]
fn an_observer_who_forges_a_report_of_each_packet_ends_nothing() {
    an_observer(sent(Client::confirmed()), |_| true);
    an_observer(sent(Victim::new(ValidConfig::default())), |_| true);
    // Nor where three of four answers are lost.
    an_observer(sent(Victim::new(ValidConfig::default())), |number| number % 4 == 0);
}
