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
    Config, ConnectionError, ConnectionHandle, Datagram, Endpoint, EndpointConfig, EndpointStats,
    Routed, Violation,
};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch, Mutex as AsyncMutex, Notify, Semaphore},
};

use super::{
    connection::{ArqConnection, ConnectError, Inner},
    now,
    timer::Deadlines,
    warning::Warning,
    Driver,
};
use crate::socket::{
    udp::{SocketOptions, UdpDatagramSocket},
    DatagramSocket, Segments,
};

/// A socket that connects to peers and accepts them. Dropping it ends the accepting; the socket
/// and its connections live on until the last of those has ended.
pub struct ArqEndpoint {
    shared: Arc<Shared>,
    accepted: AsyncMutex<mpsc::Receiver<ArqConnection>>,
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
        let accept = config.accept.clone().unwrap_or_default();
        let max_connections = config.max_connections;
        // Those that end before anybody takes them make room for others among the connections, but not here.
        let (offer, accepted) = mpsc::channel(max_connections.clamp(1, Semaphore::MAX_PERMITS));
        let shared = Arc::new(Shared {
            socket,
            registry: Mutex::new(Registry {
                core: Endpoint::new(config, seed, now()),
                connections: BTreeMap::new(),
                unanswerable: 0,
                refusals: Refusals { limit: max_connections, ..Refusals::default() },
                violations: Warning::default(),
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
    /// when they have ended meanwhile: [`EndpointConfig::max_connections`] of them, and further ones are closed.
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
    violations: Warning,
    /// Where accepted connections go; `None` once nobody wants them, or the driver has stopped.
    offer: Option<mpsc::Sender<ArqConnection>>,
    /// The configuration of accepted connections.
    accept: Config,
}

impl Registry {
    /// Who is turned away for want of room hears it; the operator should, too.
    fn warn_of_refusal(&mut self) {
        let (refused, connections) = (self.core.stats().refused, self.connections.len());
        if let Some(untold) = self.refusals.tell(now(), refused, connections) {
            tracing::warn!(connections, untold, "a peer was refused: there are as many as may be");
        }
    }
}

/// Peers that were refused because there are as many connections as there may be.
#[derive(Debug, Default)]
struct Refusals {
    limit: usize,
    /// Handshakes refused so far, for this reason or another.
    refused: u64,
    warning: Warning,
}

impl Refusals {
    /// Whether to warn of the latest refusal, and of how many before it.
    fn tell(&mut self, now: Instant, refused: u64, connections: usize) -> Option<u64> {
        let is_refusal = std::mem::replace(&mut self.refused, refused) != refused;
        let is_for_want_of_room = is_refusal && connections >= self.limit;
        is_for_want_of_room.then(|| self.warning.tell(now)).flatten()
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

    /// The operator should know which peer broke the protocol.
    pub(super) fn warn_of_violation(&self, remote: SocketAddr, violation: Violation) {
        let untold = self.registry.lock().violations.tell(now());
        if let Some(untold) = untold {
            tracing::warn!(%remote, %violation, untold, "a peer broke the protocol: its connection is closed");
        }
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
        datagrams: impl Iterator<Item = Datagram<'a>>,
    ) -> Sorted<'a> {
        let mut sorted = Sorted::default();
        let mut reply = Vec::new();
        let mut registry = self.registry.lock();
        for datagram in datagrams {
            if !is_answerable(&datagram) {
                registry.unanswerable += 1;
                continue;
            }
            match registry.core.route(now(), datagram.from, datagram.bytes, &mut reply) {
                Routed::Connection(handle) => {
                    let connection = registry.connections.get(&handle);
                    sorted.push(connection, datagram);
                }
                Routed::Accepted { handle, connection, replaced } => {
                    let offer = registry.offer.clone();
                    let inner = Inner::new(self, handle, *connection, &registry.accept, offer);
                    registry.connections.insert(handle, inner.clone());
                    sorted.push(Some(&inner), datagram);
                    let replaced = replaced.and_then(|old| registry.connections.get(&old).cloned());
                    sorted.replaced.extend(replaced.map(|old| (old, datagram.from)));
                }
                Routed::Reply => {
                    self.reply(&datagram, &reply);
                    registry.warn_of_refusal();
                }
                Routed::Dropped => tracing::trace!(from = %datagram.from, "dropped a datagram"),
            }
        }
        drop(registry);
        sorted.sort();
        sorted
    }

    fn reply(&self, received: &Datagram<'_>, reply: &[u8]) {
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
fn is_answerable(received: &Datagram<'_>) -> bool {
    let is_one_hosts = |ip: IpAddr| match ip.to_canonical() {
        IpAddr::V4(ip) => !ip.is_multicast() && !ip.is_broadcast(),
        IpAddr::V6(ip) => !ip.is_multicast(),
    };
    received.from.port() != 0 && received.to.is_none_or(is_one_hosts)
}

/// A batch of datagrams, by connection.
#[derive(Default)]
pub(super) struct Sorted<'a> {
    /// Connections that a restarted peer has replaced, and where the new one came from.
    pub(super) replaced: Vec<(Arc<Inner>, SocketAddr)>,
    connections: BTreeMap<ConnectionHandle, Arc<Inner>>,
    datagrams: Vec<(ConnectionHandle, Datagram<'a>)>,
}

impl<'a> Sorted<'a> {
    fn push(&mut self, connection: Option<&Arc<Inner>>, datagram: Datagram<'a>) {
        // Retired between the endpoint's table and ours: a late packet.
        let Some(connection) = connection else { return };
        let handle = connection.handle();
        self.connections.entry(handle).or_insert_with(|| connection.clone());
        self.datagrams.push((handle, datagram));
    }

    /// Whoever likes can mix the datagrams of thousands of connections: that must not take long.
    fn sort(&mut self) {
        if self.connections.len() > 1 {
            // Stable: those of one connection stay in the order of their arrival.
            self.datagrams.sort_by_key(|(handle, _)| *handle);
        }
    }

    /// Each connection with its datagrams, in the order of their arrival.
    pub(super) fn by_connection(
        &self,
    ) -> impl Iterator<Item = (&Arc<Inner>, &[(ConnectionHandle, Datagram<'a>)])> {
        // Both are in the order of the handles, and each connection has a datagram.
        let of_one = self.datagrams.chunk_by(|(one, _), (other, _)| one == other);
        self.connections.values().zip(of_one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_endpoint_warns_of_who_is_refused_for_that() {
        let now = Instant::now();
        let mut refusals = Refusals { limit: 3, ..Refusals::default() };
        assert_eq!(refusals.tell(now, 0, 3), None, "nobody was refused");
        assert_eq!(refusals.tell(now, 1, 2), None, "of another version");
        assert_eq!(refusals.tell(now, 2, 3), Some(0));
        assert_eq!(refusals.tell(now, 3, 3), None, "told just now");
    }
}
