// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Drivers that die and sockets that cannot send: nobody waits for either.

use std::{
    io,
    net::SocketAddr,
    task::{Context, Poll},
};

use arq_tokio::{
    socket::{memory::MemorySocket, DatagramSocket, ReceiveBatch, Segments},
    ConnectError,
};
use tokio::runtime::Builder;

use super::*;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// The driver does not survive the first datagram.
    Fatal,
    /// Each send is refused like this.
    Refuses(io::ErrorKind),
}

#[derive(Debug)]
struct Faulty(MemorySocket, Fault);

impl DatagramSocket for Faulty {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_readable(cx)
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_writable(cx)
    }

    fn try_receive(&self, batch: &mut ReceiveBatch) -> io::Result<()> {
        let received = self.0.try_receive(batch);
        assert!(received.is_err() || self.1 != Fault::Fatal, "as a bug would");
        received
    }

    fn try_send(&self, segments: &Segments<'_>) -> io::Result<()> {
        match self.1 {
            Fault::Fatal => self.0.try_send(segments),
            Fault::Refuses(kind) => Err(kind.into()),
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    fn max_segments(&self) -> usize {
        self.0.max_segments()
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_driver_that_has_died() {
    let network = MemoryNetwork::lossless();
    let config = config().validate().unwrap();
    let socket = Box::new(Faulty(network.bind(SERVER.into()).unwrap(), Fault::Fatal));
    let accept = EndpointConfig::new(config.clone());
    let server = Endpoint::over(socket, accept, &Handle::current()).unwrap();
    let client = endpoint(&network, CLIENT, None);
    let (accepted, answered) = tokio::join!(
        timeout(SECOND, server.accept()),
        timeout(SECOND, client.connect(SERVER.into(), config.clone())),
    );
    assert!(accepted.expect("the end is told").is_none());
    answered.expect_err("the test kills the driver");
    let connecting = timeout(SECOND, server.connect(CLIENT.into(), config)).await;
    let error = connecting.expect("the end is told").unwrap_err();
    assert!(matches!(error, ConnectError::Ended(ConnectionError::LocallyClosed)), "{error}");
}

/// A runtime may shut down between the call and the first turn of the driver.
#[test]
fn nobody_waits_for_a_driver_that_has_never_run() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let network = MemoryNetwork::lossless();
    let config = config().validate().unwrap();
    let never_driven = runtime();
    let accept = EndpointConfig::new(config.clone());
    let socket = Box::new(network.bind(SERVER.into()).unwrap());
    let server = Endpoint::over(socket, accept, never_driven.handle()).unwrap();
    drop(never_driven);
    runtime().block_on(async {
        let accepted = timeout(SECOND, server.accept()).await;
        assert!(accepted.expect("the end is told").is_none());
        let connecting = timeout(SECOND, server.connect(CLIENT.into(), config)).await;
        connecting.expect("the end is told").unwrap_err();
    });
}

/// How long an attempt takes whose sends are refused like this, and what becomes of it.
async fn refused(kind: io::ErrorKind) -> (Duration, ConnectError) {
    let network = MemoryNetwork::lossless();
    let socket = Box::new(Faulty(network.bind(CLIENT.into()).unwrap(), Fault::Refuses(kind)));
    let client = Endpoint::over(socket, EndpointConfig::default(), &Handle::current()).unwrap();
    let begin = Instant::now();
    let error = client.connect(SERVER.into(), config().validate().unwrap()).await.unwrap_err();
    (begin.elapsed(), error)
}

// ARQ-UNR-2
#[tokio::test(start_paused = true)]
async fn who_cannot_send_hears_that_at_once() {
    for kind in [io::ErrorKind::NetworkUnreachable, io::ErrorKind::InvalidInput] {
        let (took, error) = refused(kind).await;
        assert_eq!(took, Duration::ZERO, "{kind}");
        let ConnectError::Unsent { reason: ConnectionError::Unsendable, source } = &error else {
            panic!("{error}")
        };
        assert_eq!(source.kind(), kind);
    }
}

#[tokio::test(start_paused = true)]
async fn a_send_that_fails_for_a_reason_that_may_pass_is_tried_until_the_time_out() {
    let (_, error) = refused(io::ErrorKind::OutOfMemory).await;
    let ConnectError::Unsent { reason: ConnectionError::HandshakeTimedOut { .. }, source } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(source.kind(), io::ErrorKind::OutOfMemory);
}

/// A network whose hosts say which ports are closed.
fn telling() -> MemoryNetwork {
    let network = MemoryNetwork::lossless();
    network.report_closed_ports(true);
    network
}

// ARQ-UNR-1
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_port_that_is_closed() {
    let client = endpoint(&telling(), CLIENT, None);
    let begin = Instant::now();
    let error = client.connect(SERVER.into(), config().validate().unwrap()).await.unwrap_err();
    assert!(begin.elapsed() < SECOND / 100, "{:?}", begin.elapsed());
    let closed = ConnectionError::Unreachable(Unreachable::Port);
    assert!(matches!(&error, ConnectError::Ended(reason) if *reason == closed), "{error}");
}

// ARQ-UNR-4
#[tokio::test(start_paused = true)]
async fn a_peer_whose_process_is_gone_is_noticed() {
    let network = telling();
    let pair = pair_with(network.clone(), config()).await;
    pair.near.send(lane(5), "before").await.unwrap();
    pair.far.recv(lane(5)).await.unwrap();
    network.kill(SERVER.into());
    let begin = Instant::now();
    pair.near.send(lane(5), "after").await.unwrap();
    let reason = timeout(3 * SECOND, pair.near.closed()).await.expect("it is noticed");
    assert_eq!(reason, ConnectionError::PeerGone, "after {:?}", begin.elapsed());
    assert!(begin.elapsed() < SECOND, "{:?}", begin.elapsed());
}

// ARQ-UNR-3, ARQ-UNR-4
#[tokio::test(start_paused = true)]
async fn forged_reports_end_nothing() {
    let network = MemoryNetwork::lossless();
    let pair = pair_with(network.clone(), config()).await;
    let destination = SocketAddr::from(SERVER);
    for round in 0..1_000_u32 {
        pair.near.send(lane(5), message(round, 100)).await.unwrap();
        for quote in [&[][..], &[0xa8; 20], &[0xa0; 20]] {
            let (cause, reporter) = (Unreachable::Port, destination.ip());
            let report = UnreachableReport::new(cause, destination, reporter, quote);
            network.report(CLIENT.into(), &report);
        }
        assert_eq!(pair.far.recv(lane(5)).await.unwrap(), message(round, 100));
    }
    assert_eq!(pair.near.stats().suspicions, 0);
}
