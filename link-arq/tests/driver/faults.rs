// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Drivers that die and sockets that cannot send: nobody waits for either.

use std::{
    io,
    net::SocketAddr,
    task::{Context, Poll},
};

use tokio::runtime::Builder;
use zenoh_link_arq::{
    driver::ConnectError,
    socket::{memory::MemorySocket, DatagramSocket, ReceiveBatch, Segments},
};

use super::*;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// The driver does not survive the first datagram.
    Fatal,
    /// There is no way to the peer.
    NoRoute,
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
            Fault::NoRoute => Err(io::ErrorKind::NetworkUnreachable.into()),
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
    let config = config().build().unwrap();
    let socket = Box::new(Faulty(network.bind(SERVER.into()).unwrap(), Fault::Fatal));
    let accept = EndpointConfig { accept: Some(config.clone()), ..Default::default() };
    let server = ArqEndpoint::over(socket, accept, &Handle::current()).unwrap();
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
    let config = config().build().unwrap();
    let never_driven = runtime();
    let accept = EndpointConfig { accept: Some(config.clone()), ..Default::default() };
    let socket = Box::new(network.bind(SERVER.into()).unwrap());
    let server = ArqEndpoint::over(socket, accept, never_driven.handle()).unwrap();
    drop(never_driven);
    runtime().block_on(async {
        let accepted = timeout(SECOND, server.accept()).await;
        assert!(accepted.expect("the end is told").is_none());
        let connecting = timeout(SECOND, server.connect(CLIENT.into(), config)).await;
        connecting.expect("the end is told").unwrap_err();
    });
}

#[tokio::test(start_paused = true)]
async fn who_cannot_connect_hears_that_nothing_could_be_sent() {
    let network = MemoryNetwork::lossless();
    let socket = Box::new(Faulty(network.bind(CLIENT.into()).unwrap(), Fault::NoRoute));
    let client = ArqEndpoint::over(socket, EndpointConfig::default(), &Handle::current()).unwrap();
    let error = client.connect(SERVER.into(), config().build().unwrap()).await.unwrap_err();
    let ConnectError::Unsent { reason: ConnectionError::HandshakeTimedOut, source } = &error else {
        panic!("{error}")
    };
    assert_eq!(source.kind(), io::ErrorKind::NetworkUnreachable);
}
