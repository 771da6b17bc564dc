// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Hosts that move from one network to another while they talk.

use std::{
    io,
    net::SocketAddr,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        Arc,
    },
    task::{Context, Poll},
};

use arq_tokio::socket::{memory::MemorySocket, DatagramSocket, ReceiveBatch, Segments};

use super::*;

/// Where the two are after they have moved to another network.
const SERVER_ELSEWHERE: ([u8; 4], u16) = ([10, 1, 0, 1], 7447);
const CLIENT_ELSEWHERE: ([u8; 4], u16) = ([10, 1, 0, 2], 1);

/// A socket bound to all addresses of a host that has one of two at a time.
#[derive(Debug)]
struct Roaming {
    addresses: [MemorySocket; 2],
    /// The one that it has.
    current: Arc<AtomicUsize>,
}

impl Roaming {
    fn current(&self) -> &MemorySocket {
        &self.addresses[self.current.load(Ordering::Relaxed)]
    }

    fn other(&self) -> &MemorySocket {
        &self.addresses[1 - self.current.load(Ordering::Relaxed)]
    }
}

impl DatagramSocket for Roaming {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let [first, second] = self.addresses.each_ref().map(|socket| socket.poll_readable(cx));
        if first.is_ready() {
            first
        } else {
            second
        }
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.current().poll_writable(cx)
    }

    fn try_receive(&self, batch: &mut ReceiveBatch) -> io::Result<()> {
        // What still goes to the other address is lost.
        while self.other().try_receive(batch).is_ok() {}
        self.current().try_receive(batch)
    }

    fn try_send(&self, segments: &Segments<'_>) -> io::Result<()> {
        let current = self.current().local_addr().ip();
        if segments.source.is_some_and(|source| source != current) {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        self.current().try_send(segments)
    }

    fn local_addr(&self) -> SocketAddr {
        SocketAddr::from(([0, 0, 0, 0], self.current().local_addr().port()))
    }

    fn max_segments(&self) -> usize {
        self.current().max_segments()
    }
}

/// An endpoint on such a host, and which of the addresses it has.
fn roaming(
    network: &MemoryNetwork,
    addresses: [([u8; 4], u16); 2],
    accept: Option<ValidConfig>,
) -> (Endpoint, Arc<AtomicUsize>) {
    let current = Arc::<AtomicUsize>::default();
    let addresses = addresses.map(|address| network.bind(SocketAddr::from(address)).unwrap());
    let socket = Roaming { addresses, current: current.clone() };
    let config = EndpointConfig::new(accept);
    let endpoint = Endpoint::over(Box::new(socket), config, &Handle::current()).unwrap();
    (endpoint, current)
}

/// Both ends say something, and are heard in time.
async fn talk(first: &Connection, second: &Connection) {
    for (from, to) in [(first, second), (second, first)] {
        from.send(lane(5), "still there").await.unwrap();
        let heard = timeout(5 * SECOND, to.recv(lane(5))).await.expect("it arrives");
        assert_eq!(heard.unwrap(), "still there");
    }
}

/// Waits until the peer's address is such a one: messages go there before it has answered from there.
async fn until(connection: &Connection, is_expected: impl Fn(SocketAddr) -> bool) {
    let expected = async {
        while !is_expected(connection.remote()) {
            tokio::time::sleep(SECOND / 100).await;
        }
    };
    timeout(SECOND, expected).await.expect("the peer is followed");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_moves_to_another_network_is_followed() {
    let network = MemoryNetwork::lossless();
    let config = config().validate().unwrap();
    let server = endpoint(&network, SERVER, Some(config.clone()));
    let (client, moved) = roaming(&network, [CLIENT, CLIENT_ELSEWHERE], None);
    let near = client.connect(SERVER.into(), config).await.unwrap();
    let far = server.accept().await.unwrap();
    assert_eq!(near.local(), SocketAddr::from(CLIENT), "known although all are bound");
    talk(&near, &far).await;
    moved.store(1, Ordering::Relaxed);
    talk(&near, &far).await;
    until(&far, |remote| remote == SocketAddr::from(CLIENT_ELSEWHERE)).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_answers_from_what_is_left_when_the_address_that_was_asked_is_gone() {
    let network = MemoryNetwork::lossless();
    let config = config().validate().unwrap();
    let (server, moved) = roaming(&network, [SERVER, SERVER_ELSEWHERE], Some(config.clone()));
    let client = endpoint(&network, CLIENT, None);
    let near = client.connect(SERVER.into(), config).await.unwrap();
    let far = server.accept().await.unwrap();
    talk(&far, &near).await;
    moved.store(1, Ordering::Relaxed);
    talk(&far, &near).await;
    until(&near, |remote| remote == SocketAddr::from(SERVER_ELSEWHERE)).await;
}

/// A network whose NAT forgets nothing, and after `stuck` is set sends what comes from the client's first port to nobody.
fn sticky(stuck: &Arc<AtomicBool>) -> MemoryNetwork {
    let stuck = stuck.clone();
    MemoryNetwork::new(move |from, to, _| {
        let first = SocketAddr::from(CLIENT);
        !(stuck.load(Ordering::Relaxed) && (from == first || to == first))
    })
}

fn mobile() -> Config {
    Config { may_change_port: true, ..config() }
}

// ARQ-PTH-9
#[tokio::test(start_paused = true)]
async fn a_flow_that_leads_nowhere_is_left_for_another_port() {
    let stuck = Arc::new(AtomicBool::new(false));
    let pair = pair_with(sticky(&stuck), mobile()).await;
    pair.near.send(lane(5), "before").await.unwrap();
    assert_eq!(pair.far.recv(lane(5)).await.unwrap(), b"before"[..]);
    for round in 0..3 {
        stuck.store(round == 0, Ordering::Relaxed);
        pair.near.send(lane(5), "there").await.unwrap();
        let there = timeout(2 * SECOND, pair.far.recv(lane(5))).await;
        assert_eq!(there.expect("it finds a way").unwrap(), b"there"[..]);
        pair.far.send(lane(5), "back").await.unwrap();
        let back = timeout(SECOND, pair.near.recv(lane(5))).await;
        assert_eq!(back.expect("both ways").unwrap(), b"back"[..]);
        until(&pair.far, |remote| remote != CLIENT.into()).await;
    }
}

// ARQ-PTH-9
#[tokio::test(start_paused = true)]
async fn a_router_that_was_replaced_behind_a_nat_is_noticed_within_a_second() {
    let stuck = Arc::new(AtomicBool::new(false));
    let network = sticky(&stuck);
    let pair = pair_with(network.clone(), mobile()).await;
    pair.near.send(lane(5), "before").await.unwrap();
    pair.far.recv(lane(5)).await.unwrap();
    stuck.store(true, Ordering::Relaxed);
    network.kill(SERVER.into());
    let _replacement = endpoint(&network, SERVER, Some(config().validate().unwrap()));
    pair.near.send(lane(5), "after").await.unwrap();
    let reason = timeout(SECOND, pair.near.closed()).await.expect("it is noticed");
    assert_eq!(reason, ConnectionError::PeerLostState);
}

// ARQ-PTH-9
#[tokio::test(start_paused = true)]
async fn who_was_told_its_port_keeps_it() {
    let stuck = Arc::new(AtomicBool::new(false));
    let pair = pair_with(sticky(&stuck), config()).await;
    pair.near.send(lane(5), "before").await.unwrap();
    pair.far.recv(lane(5)).await.unwrap();
    stuck.store(true, Ordering::Relaxed);
    pair.near.send(lane(5), "after").await.unwrap();
    assert_eq!(pair.near.closed().await, ConnectionError::TimedOut);
}
