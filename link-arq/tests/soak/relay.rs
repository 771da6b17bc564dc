// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A relay of datagrams on the loopback interface that does to them what the weather does. Each
//! client has a socket of its own toward the server, as behind a NAT.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    io,
    net::SocketAddr,
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        Arc, Mutex,
    },
    time::Duration,
};

use tokio::{
    net::UdpSocket,
    sync::mpsc::{unbounded_channel, UnboundedSender},
    task::JoinHandle,
    time::{sleep_until, Instant},
};

use crate::weather::{Luck, Weather};

/// A client that was silent for so long is gone: longer than any blackout and any linger.
const FORGET_AFTER: Duration = Duration::from_secs(30);
/// What waits in the relay at most; what exceeds it is dropped, as by any hop.
const MAX_HELD: usize = 20_000;

/// What the relay and those who watch it share.
pub(crate) struct Sky {
    weather: Mutex<Weather>,
    /// Datagrams that came, both directions.
    pub(crate) entered: AtomicU64,
    /// Datagrams that were not passed on.
    pub(crate) lost: AtomicU64,
}

impl Sky {
    pub(crate) fn weather(&self) -> Weather {
        *self.weather.lock().unwrap()
    }

    pub(crate) fn change_to(&self, weather: Weather) {
        *self.weather.lock().unwrap() = weather;
    }
}

/// A running relay.
pub(crate) struct Relay {
    address: SocketAddr,
    pub(crate) sky: Arc<Sky>,
    task: JoinHandle<io::Result<()>>,
}

impl Relay {
    /// A relay in front of `server`, under a clear sky.
    pub(crate) async fn to(server: SocketAddr, seed: u64) -> Self {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let address = front.local_addr().unwrap();
        let sky = Arc::new(Sky {
            weather: Mutex::new(Weather::CLEAR),
            entered: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        });
        let task = tokio::spawn(run(front, server, sky.clone(), seed));
        Self { address, sky, task }
    }

    /// Where clients connect to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A client and its socket toward the server.
struct Client {
    back: Arc<UdpSocket>,
    reader: JoinHandle<()>,
    heard_at: Instant,
}

impl Client {
    async fn new(
        address: SocketAddr,
        server: SocketAddr,
        answers: UnboundedSender<(SocketAddr, Vec<u8>)>,
    ) -> io::Result<Self> {
        let back = Arc::new(UdpSocket::bind("127.0.0.1:0").await?);
        back.connect(server).await?;
        let socket = back.clone();
        let reader = tokio::spawn(async move {
            let mut buffer = vec![0; 65_536];
            while let Ok(length) = socket.recv(&mut buffer).await {
                if answers.send((address, buffer[..length].to_vec())).is_err() {
                    return;
                }
            }
        });
        Ok(Self { back, reader, heard_at: Instant::now() })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// A datagram under way, and where it goes.
struct Held {
    at: Instant,
    order: u64,
    to: To,
    datagram: Vec<u8>,
}

#[derive(Clone, Copy)]
enum To {
    ServerFrom(SocketAddr),
    Client(SocketAddr),
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Held {}

/// Datagrams in the order in which they arrive.
struct Line {
    held: BinaryHeap<Reverse<Held>>,
    order: u64,
    sky: Arc<Sky>,
    up: Luck,
    down: Luck,
}

impl Line {
    fn enter(&mut self, to: To, mut datagram: Vec<u8>) {
        self.sky.entered.fetch_add(1, Relaxed);
        let luck = match to {
            To::ServerFrom(_) => &mut self.up,
            To::Client(_) => &mut self.down,
        };
        let arrivals = luck.arrivals(Instant::now(), &self.sky.weather(), &mut datagram);
        if arrivals.is_empty() || self.held.len() >= MAX_HELD {
            self.sky.lost.fetch_add(1, Relaxed);
            return;
        }
        for delay in arrivals {
            self.order += 1;
            let (at, datagram) = (Instant::now() + delay, datagram.clone());
            self.held.push(Reverse(Held { at, order: self.order, to, datagram }));
        }
    }

    fn take_due(&mut self) -> Option<Held> {
        let is_due = self.held.peek().is_some_and(|Reverse(next)| next.at <= Instant::now());
        is_due.then(|| self.held.pop()).flatten().map(|Reverse(held)| held)
    }

    async fn next_due(&self) {
        match self.held.peek() {
            Some(Reverse(next)) => sleep_until(next.at).await,
            None => std::future::pending().await,
        }
    }
}

async fn run(
    front: Arc<UdpSocket>,
    server: SocketAddr,
    sky: Arc<Sky>,
    seed: u64,
) -> io::Result<()> {
    let (up, down) = (Luck::new(seed), Luck::new(!seed));
    let mut line = Line { held: BinaryHeap::new(), order: 0, sky, up, down };
    let mut clients = BTreeMap::<SocketAddr, Client>::new();
    let (sender, mut answers) = unbounded_channel();
    let mut buffer = vec![0; 65_536];
    loop {
        tokio::select! {
            received = front.recv_from(&mut buffer) => {
                // A client that is gone answers with an error.
                let Ok((length, from)) = received else { continue };
                if !clients.contains_key(&from) {
                    clients.retain(|_, client| client.heard_at.elapsed() < FORGET_AFTER);
                    clients.insert(from, Client::new(from, server, sender.clone()).await?);
                }
                if let Some(client) = clients.get_mut(&from) {
                    client.heard_at = Instant::now();
                }
                line.enter(To::ServerFrom(from), buffer[..length].to_vec());
            }
            Some((client, datagram)) = answers.recv() => line.enter(To::Client(client), datagram),
            () = line.next_due() => {}
        }
        while let Some(Held { to, datagram, .. }) = line.take_due() {
            // A full buffer loses a datagram, as any hop may.
            let _ = match to {
                To::ServerFrom(client) => clients.get(&client).map(|c| c.back.try_send(&datagram)),
                To::Client(client) => Some(front.try_send_to(&datagram, client)),
            };
        }
    }
}
