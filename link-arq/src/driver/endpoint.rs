// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A socket and the connections on it.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use arq_proto::{
    Config, ConnectionError, ConnectionHandle, Endpoint, EndpointConfig, EndpointStats, Routed,
};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch, Mutex as AsyncMutex, Notify},
};

use super::{
    connection::{ArqConnection, ConnectError, Inner},
    now,
    timer::Deadlines,
    Driver,
};
use crate::socket::{
    udp::{SocketOptions, UdpDatagramSocket},
    DatagramSocket, Received, Segments,
};

/// Refused peers try again and again: one line tells of all of them for so long.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// A socket that connects to peers and accepts them. Dropping it ends the accepting; the socket
/// and its connections live on until the last of those has ended.
pub struct ArqEndpoint {
    shared: Arc<Shared>,
    accepted: AsyncMutex<mpsc::UnboundedReceiver<ArqConnection>>,
    progress: watch::Receiver<Progress>,
}

/// What one who waits for the socket to close wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Some connection is in use.
    InUse,
    /// All connections have ended, and wait for late packets at most.
    Draining,
}

impl ArqEndpoint {
    /// Binds a UDP socket and starts its driver on `runtime`.
    ///
    /// # Errors
    /// What the kernel answers, `AddrInUse` for a taken port.
    pub fn bind(
        address: SocketAddr,
        options: &SocketOptions,
        config: EndpointConfig,
        runtime: &Handle,
    ) -> io::Result<Self> {
        let _context = runtime.enter();
        let socket = UdpDatagramSocket::bind(address, options)?;
        Self::start(Box::new(socket), config, runtime, false)
    }

    /// Runs on any socket, with the clock of `runtime` itself, which a test may have paused.
    ///
    /// # Errors
    /// When the operating system has no entropy to give.
    pub fn over(
        socket: Box<dyn DatagramSocket>,
        config: EndpointConfig,
        runtime: &Handle,
    ) -> io::Result<Self> {
        Self::start(socket, config, runtime, true)
    }

    fn start(
        socket: Box<dyn DatagramSocket>,
        config: EndpointConfig,
        runtime: &Handle,
        virtual_time: bool,
    ) -> io::Result<Self> {
        let _context = runtime.enter();
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let (offer, accepted) = mpsc::unbounded_channel();
        let accept = config.accept.clone().unwrap_or_default();
        let refusals = Refusals { limit: config.max_connections, ..Refusals::default() };
        let shared = Arc::new(Shared {
            socket,
            registry: Mutex::new(Registry {
                core: Endpoint::new(config, seed, now()),
                connections: BTreeMap::new(),
                unanswerable: 0,
                refusals,
                offer: Some(offer),
                accept,
            }),
            deadlines: Deadlines::new(virtual_time)?,
            queues: Mutex::default(),
            blocked: AtomicBool::new(false),
            wake: Notify::new(),
        });
        let (report, progress) = watch::channel(Progress::InUse);
        runtime.spawn(super::run(Driver(shared.clone()), report));
        Ok(Self { shared, accepted: AsyncMutex::new(accepted), progress })
    }

    /// Opens a connection to `remote`. Dropping the future gives it up.
    ///
    /// # Errors
    /// No answer within the handshake time-out, and why nothing could be sent if so; a refusal; `LocallyClosed` when the
    /// driver has stopped.
    pub async fn connect(
        &self,
        remote: SocketAddr,
        config: Config,
    ) -> Result<ArqConnection, ConnectError> {
        let inner = {
            let mut registry = self.shared.registry.lock();
            // While there is an endpoint, only the end of the driver takes the offer away.
            if registry.offer.is_none() {
                return Err(ConnectionError::LocallyClosed.into());
            }
            let (handle, core) = registry.core.connect(now(), remote, config.clone());
            let inner = Inner::new(&self.shared, handle, core, &config, None);
            registry.connections.insert(handle, inner.clone());
            inner
        };
        inner.transmit(super::connection::DRIVER_BATCHES);
        let connection = inner.into_handle();
        connection.established().await?;
        Ok(connection)
    }

    /// Waits for the next peer that connects. `None` when the driver has stopped. Those that nobody takes are kept, also
    /// when they have ended meanwhile.
    pub async fn accept(&self) -> Option<ArqConnection> {
        self.accepted.lock().await.recv().await
    }

    /// The address that the socket is bound to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.local_addr()
    }

    /// What happened to datagrams that belong to no connection.
    #[must_use]
    pub fn stats(&self) -> EndpointStats {
        let registry = self.shared.registry.lock();
        let mut stats = registry.core.stats();
        stats.datagrams_dropped += registry.unanswerable;
        stats
    }

    /// Ends the accepting. Waits for the socket to close, at most `patience`, unless a connection
    /// that is in use keeps it open.
    pub async fn shut_down(self, patience: Duration) {
        let mut progress = self.progress.clone();
        self.shared.abandon_unaccepted();
        drop(self);
        let closed = async {
            while progress.changed().await.is_ok() && *progress.borrow() == Progress::Draining {}
        };
        let _ = tokio::time::timeout(patience, closed).await;
    }
}

impl Drop for ArqEndpoint {
    fn drop(&mut self) {
        let mut registry = self.shared.registry.lock();
        registry.core.set_accept(None);
        registry.offer = None;
        drop(registry);
        self.shared.wake.notify_one();
    }
}

impl fmt::Debug for ArqEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArqEndpoint").field("local", &self.local_addr()).finish_non_exhaustive()
    }
}

/// What the driver and the connections share.
pub(super) struct Shared {
    pub(super) socket: Box<dyn DatagramSocket>,
    pub(super) deadlines: Deadlines,
    pub(super) wake: Notify,
    queues: Mutex<Queues>,
    /// Somebody waits for room: who comes now waits behind. Asked before every send, so it takes no lock.
    blocked: AtomicBool,
    registry: Mutex<Registry>,
}

struct Registry {
    core: Endpoint,
    connections: BTreeMap<ConnectionHandle, Arc<Inner>>,
    /// Datagrams dropped for where they came from or went to.
    unanswerable: u64,
    refusals: Refusals,
    /// Where accepted connections go; `None` once nobody wants them, or the driver has stopped.
    offer: Option<mpsc::UnboundedSender<ArqConnection>>,
    /// The configuration of accepted connections.
    accept: Config,
}

impl Registry {
    /// Who is turned away for want of room hears it; the operator should, too.
    fn warn_of_refusals(&mut self) {
        let refused = self.core.stats().refused;
        let connections = self.connections.len();
        if self.refusals.is_news(now(), refused, connections) {
            tracing::warn!(connections, refused, "a peer was refused: there are as many as may be");
        }
    }
}

/// Peers that were refused because there are as many connections as there may be.
#[derive(Debug, Default)]
struct Refusals {
    limit: usize,
    /// Handshakes refused so far, for this reason or another.
    refused: u64,
    warned_at: Option<Instant>,
}

impl Refusals {
    /// Whether to warn of the latest refusal: the first time, then as often as [`WARN_INTERVAL`] allows.
    fn is_news(&mut self, now: Instant, refused: u64, connections: usize) -> bool {
        let is_refusal = std::mem::replace(&mut self.refused, refused) != refused;
        let is_due = self.warned_at.is_none_or(|at| now >= at + WARN_INTERVAL);
        let is_news = is_refusal && connections >= self.limit && is_due;
        if is_news {
            self.warned_at = Some(now);
        }
        is_news
    }
}

/// Connections that have more to send.
#[derive(Default)]
struct Queues {
    /// Their turn was over.
    ready: VecDeque<Arc<Inner>>,
    /// The socket was full before they had sent anything in their turn: these are the first when it has room.
    starved: VecDeque<Arc<Inner>>,
    /// The socket was full when they had sent something.
    served: VecDeque<Arc<Inner>>,
}

impl Shared {
    pub(super) fn local_addr(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    pub(super) fn connection(&self, handle: ConnectionHandle) -> Option<Arc<Inner>> {
        self.registry.lock().connections.get(&handle).cloned()
    }

    pub(super) fn connections(&self) -> Vec<Arc<Inner>> {
        self.registry.lock().connections.values().cloned().collect()
    }

    /// Forgets a connection that has drained.
    pub(super) fn retire(&self, handle: ConnectionHandle) {
        let mut registry = self.registry.lock();
        registry.core.remove(handle);
        registry.connections.remove(&handle);
        drop(registry);
        self.wake.notify_one();
    }

    /// Nobody can connect or be connected to any more.
    pub(super) fn is_finished(&self) -> bool {
        let registry = self.registry.lock();
        registry.offer.is_none() && registry.connections.is_empty()
    }

    pub(super) fn is_released(&self) -> bool {
        self.registry.lock().offer.is_none()
    }

    /// The driver ends: who waits for a peer would wait for ever.
    pub(super) fn stop(&self) {
        self.registry.lock().offer = None;
    }

    fn abandon_unaccepted(&self) {
        for connection in self.connections() {
            connection.abandon_unaccepted();
        }
    }

    pub(super) fn serve_later(&self, connection: Arc<Inner>) {
        self.queues.lock().ready.push_back(connection);
        self.wake.notify_one();
    }

    /// The socket is full, for one that `is_starved` if this turn has brought it nothing.
    pub(super) fn wait_for_room(&self, connection: Arc<Inner>, is_starved: bool) {
        let mut queues = self.queues.lock();
        let queue = if is_starved { &mut queues.starved } else { &mut queues.served };
        queue.push_back(connection);
        self.blocked.store(true, Ordering::Release);
        drop(queues);
        self.wake.notify_one();
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Acquire)
    }

    /// The socket has room again. It may be full before all who have waited are served: those who got nothing are
    /// the first next time, so that each gets its share.
    pub(super) fn unblock(&self) {
        let mut queues = self.queues.lock();
        let Queues { ready, starved, served } = &mut *queues;
        // Those whose turn was over have sent more recently.
        starved.append(served);
        starved.append(ready);
        std::mem::swap(ready, starved);
        self.blocked.store(false, Ordering::Release);
    }

    /// Those whose turn it is: each once, so that none is served twice before another.
    pub(super) fn take_ready(&self) -> VecDeque<Arc<Inner>> {
        std::mem::take(&mut self.queues.lock().ready)
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.queues.lock().ready.is_empty()
    }

    /// Finds the connection of each datagram, answers those that belong to none.
    pub(super) fn route<'a>(
        self: &Arc<Self>,
        datagrams: impl Iterator<Item = Received<'a>>,
    ) -> Sorted<'a> {
        let mut sorted = Sorted::default();
        let mut reply = Vec::new();
        let mut registry = self.registry.lock();
        for received in datagrams {
            if !is_answerable(&received) {
                registry.unanswerable += 1;
                continue;
            }
            match registry.core.route(now(), received.from, received.datagram, &mut reply) {
                Routed::Connection(handle) => {
                    let connection = registry.connections.get(&handle);
                    sorted.push(connection, received);
                }
                Routed::Accepted { handle, connection, replaced } => {
                    let offer = registry.offer.clone();
                    let inner = Inner::new(self, handle, *connection, &registry.accept, offer);
                    registry.connections.insert(handle, inner.clone());
                    sorted.push(Some(&inner), received);
                    let replaced = replaced.and_then(|old| registry.connections.get(&old).cloned());
                    sorted.replaced.extend(replaced.map(|old| (old, received.from)));
                }
                Routed::Reply => {
                    self.reply(&received, &reply);
                    registry.warn_of_refusals();
                }
                Routed::Dropped => tracing::trace!(from = %received.from, "dropped a datagram"),
            }
        }
        sorted
    }

    fn reply(&self, received: &Received<'_>, reply: &[u8]) {
        // What room there will be is for those who have a connection.
        if self.is_blocked() {
            return;
        }
        let segments = Segments {
            destination: received.from,
            source: received.to.filter(|_| self.local_addr().ip().is_unspecified()),
            contents: reply,
            segment_bytes: reply.len(),
        };
        if let Err(error) = self.socket.try_send(&segments) {
            tracing::trace!(%error, "a reply was lost");
        }
    }
}

/// Whether there could be an answer: to port 0, or from an address that belongs to no host alone, nothing can
/// be sent. No peer sends so, but whoever likes can; the kernel's refusal of the answer is EINVAL, as for
/// segmentation offload that a driver does not have.
fn is_answerable(received: &Received<'_>) -> bool {
    let is_one_hosts = |ip: IpAddr| match ip.to_canonical() {
        IpAddr::V4(ip) => !ip.is_multicast() && !ip.is_broadcast(),
        IpAddr::V6(ip) => !ip.is_multicast(),
    };
    received.from.port() != 0 && received.to.is_none_or(is_one_hosts)
}

/// A batch of datagrams, by connection.
#[derive(Default)]
pub(super) struct Sorted<'a> {
    /// Connections with datagrams.
    pub(super) connections: Vec<Arc<Inner>>,
    /// Connections that a restarted peer has replaced, and where the new one came from.
    pub(super) replaced: Vec<(Arc<Inner>, SocketAddr)>,
    /// Each with the index of its connection, in order of arrival.
    datagrams: Vec<(usize, Received<'a>)>,
}

impl<'a> Sorted<'a> {
    fn push(&mut self, connection: Option<&Arc<Inner>>, received: Received<'a>) {
        // Retired between the endpoint's table and ours: a late packet.
        let Some(connection) = connection else { return };
        let known =
            self.connections.iter().rposition(|known| known.handle() == connection.handle());
        let slot = known.unwrap_or_else(|| {
            self.connections.push(connection.clone());
            self.connections.len() - 1
        });
        self.datagrams.push((slot, received));
    }

    /// The datagrams of one connection, in order of arrival.
    pub(super) fn of(&self, slot: usize) -> impl Iterator<Item = Received<'a>> + '_ {
        self.datagrams.iter().filter(move |(at, _)| *at == slot).map(|(_, received)| *received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_endpoint_warns_of_the_first_refusal_and_then_once_a_minute() {
        let start = Instant::now();
        let mut refusals = Refusals { limit: 3, ..Refusals::default() };
        for (seconds, refused, connections, is_news) in [
            (0, 0, 3, false),
            // Of another version.
            (1, 1, 2, false),
            (2, 2, 3, true),
            (3, 2, 3, false),
            (61, 3, 3, false),
            (62, 3, 3, false),
            (63, 4, 3, true),
        ] {
            let now = start + Duration::from_secs(seconds);
            assert_eq!(refusals.is_news(now, refused, connections), is_news, "at {seconds} s");
        }
    }
}
