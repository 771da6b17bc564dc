// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What the driver of a socket, its endpoint and its connections share.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use arq_proto::{
    Connect, ConnectionError, ConnectionHandle, Datagram, Endpoint, EndpointConfig, EndpointEvent,
    EndpointStats, Routed, SocketId, ValidConfig,
};
use tokio::{
    runtime::Handle,
    sync::{mpsc, Notify},
};

use super::{
    connection::{Connection, Inner},
    handshakes::{Handshakes, Unopened},
    host, now,
    paths::Paths,
    ports::{Mask, Sockets},
    sorted::Sorted,
    sync::{Mutex, RwLock},
    timer::Deadlines,
    turns::Turns,
    warning::Warning,
};
use crate::socket::{DatagramSocket, Segments};

/// Answers to what one receive call has brought of strangers: a system call each.
const REPLIES_A_CALL: usize = 64;

/// What the driver and the connections share.
pub(super) struct Shared {
    ports: RwLock<Ports>,
    runtime: Handle,
    /// Where the socket was bound at first.
    local: SocketAddr,
    /// The interfaces that the sockets are bound to, if there are several.
    paths: Option<Paths>,
    pub(super) deadlines: Deadlines,
    pub(super) wake: Notify,
    pub(super) turns: Turns,
    pub(super) handshakes: Handshakes,
    registry: Mutex<Registry>,
}

/// The sockets in use, and the one from which a silent peer was asked last.
#[derive(Clone)]
pub(super) struct Ports {
    pub(super) sockets: Sockets,
    pub(super) other: Option<OtherPort>,
}

/// A socket that may take the place of the one in use.
#[derive(Clone)]
pub(super) struct OtherPort {
    pub(super) instead_of: SocketId,
    pub(super) socket: Arc<dyn DatagramSocket>,
}

struct Registry {
    core: Endpoint,
    connections: BTreeMap<ConnectionHandle, Arc<Inner>>,
    /// Datagrams dropped for where they came from or went to.
    unanswerable: u64,
    refusals: Refusals,
    violations: Warning,
    strangers: Warning,
    unopened: Unopened,
    /// Where accepted connections go; `None` once nobody wants them, or the driver has stopped.
    offer: Option<mpsc::Sender<Connection>>,
    /// The configuration of accepted connections.
    accept: ValidConfig,
}

impl Registry {
    /// Who is turned away for want of room hears it; the operator should, too.
    fn note_refusal(&mut self, now: Instant) -> Option<Crowded> {
        let (refused, connections) = (self.core.stats().refused, self.connections.len());
        let untold = self.refusals.tell(now, refused, connections)?;
        Some(Crowded { connections, untold })
    }
}

/// A peer was refused for want of room.
struct Crowded {
    connections: usize,
    /// How many before it nobody was told of.
    untold: u64,
}

/// Answers to datagrams that belong to no connection.
#[derive(Default)]
struct Replies {
    to: Vec<Reply>,
    bytes: Vec<u8>,
}

/// Where what is answered came from and went to, and the length of the answer.
struct Reply {
    socket: SocketId,
    destination: SocketAddr,
    received_at: Option<IpAddr>,
    length: usize,
}

impl Replies {
    fn push(&mut self, received: &Datagram<'_>, reply: &[u8]) {
        let Datagram { socket, from: destination, to: received_at, .. } = *received;
        self.to.push(Reply { socket, destination, received_at, length: reply.len() });
        self.bytes.extend_from_slice(reply);
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

impl Shared {
    /// Accepted connections are offered to `offer`. Needs a tokio runtime's context.
    pub(super) fn new(
        sockets: Sockets,
        paths: Option<Paths>,
        config: EndpointConfig,
        offer: mpsc::Sender<Connection>,
        virtual_time: bool,
    ) -> io::Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let accept = config.accept.clone().unwrap_or_default();
        let refusals = Refusals { limit: config.max_connections, ..Refusals::default() };
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let local = sockets.local_addr().unwrap_or(nowhere);
        Ok(Self {
            ports: RwLock::new(Ports { sockets, other: None }),
            runtime: Handle::current(),
            local,
            paths,
            registry: Mutex::new(Registry {
                core: Endpoint::new(config, seed, now()),
                connections: BTreeMap::new(),
                unanswerable: 0,
                refusals,
                violations: Warning::default(),
                strangers: Warning::default(),
                unopened: Unopened::default(),
                offer: Some(offer),
                accept,
            }),
            deadlines: Deadlines::new(virtual_time)?,
            turns: Turns::default(),
            handshakes: Handshakes::default(),
            wake: Notify::new(),
        })
    }

    /// Begins a connection, unless the driver has stopped.
    pub(super) fn connect(
        self: &Arc<Self>,
        remote: SocketAddr,
        connect: Connect,
    ) -> Option<Arc<Inner>> {
        let connect = match host::name() {
            Some(name) if connect.host.is_none() => connect.on_host(name),
            _ => connect,
        };
        let (config, socket) = (connect.config.clone(), connect.socket);
        let bound = self.sockets().get(socket).map_or(self.local, DatagramSocket::local_addr);
        let mut registry = self.registry.lock();
        // While there is an endpoint, only the end of the driver takes the offer away.
        registry.offer.as_ref()?;
        let (handle, core) = registry.core.connect(now(), remote, connect);
        let inner = Inner::new(self, handle, core, &config, (socket, bound), None);
        registry.connections.insert(handle, inner.clone());
        Some(inner)
    }

    /// The endpoint is gone: nobody is accepted any more.
    pub(super) fn release(&self) {
        let mut registry = self.registry.lock();
        registry.core.set_accept(None);
        registry.offer = None;
        drop(registry);
        self.wake.notify_one();
    }

    /// What happened to datagrams that belong to no connection.
    pub(super) fn stats(&self) -> EndpointStats {
        let registry = self.registry.lock();
        let mut stats = registry.core.stats();
        stats.datagrams_dropped += registry.unanswerable;
        stats
    }

    /// One that was to be accepted has ended before it opened.
    pub(super) fn note_unopened(&self, reason: &ConnectionError) {
        let unopened = &mut self.registry.lock().unopened;
        match reason {
            ConnectionError::HandshakeTimedOut { .. } => unopened.timed_out += 1,
            ConnectionError::HandshakeFailed(_) | ConnectionError::PeerEndedHandshake { .. } => {
                unopened.failed += 1;
            }
            _ => {}
        }
    }

    pub(super) fn unopened(&self) -> Unopened {
        self.registry.lock().unopened
    }

    pub(super) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn paths(&self) -> Option<&Paths> {
        self.paths.as_ref()
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(super) fn ports(&self) -> Ports {
        self.ports.read().clone()
    }

    /// The sockets in use.
    pub(super) fn sockets(&self) -> Sockets {
        self.ports.read().sockets.clone()
    }

    /// An interface has come, and has a socket, or has gone.
    pub(super) fn replace(&self, socket: SocketId, by: Option<Arc<dyn DatagramSocket>>) {
        self.ports.write().sockets.set(socket, by);
        // Who has waited for room in the one before waits no more.
        self.turns.unblock(Mask::of(socket));
        self.wake.notify_one();
    }

    /// Sends a question from a port that was not used before, and listens there until the next one.
    pub(super) fn send_from_other_port(&self, instead_of: SocketId, segments: &Segments<'_>) {
        let _context = self.runtime.enter();
        let sockets = self.sockets();
        let Some(current) = sockets.get(instead_of) else { return };
        let sent = current.at_other_port().and_then(|socket| {
            let Some(socket) = socket else { return Ok(()) };
            socket.try_send(segments)?;
            self.ports.write().other = Some(OtherPort { instead_of, socket });
            self.wake.notify_one();
            Ok(())
        });
        if let Err(error) = sent {
            tracing::debug!(%error, "no question from another port");
        }
    }

    /// The peer has answered to the other port: it is the one from now on.
    pub(super) fn change_port(&self) {
        let mut ports = self.ports.write();
        if let Some(OtherPort { instead_of, socket }) = ports.other.take() {
            let old = ports.sockets.get(instead_of).map(DatagramSocket::local_addr);
            tracing::debug!(?old, new = %socket.local_addr(), "another port");
            ports.sockets.set(instead_of, Some(socket));
        }
    }

    /// What a connection tells of its ids and its peer, so that packets of its other paths find it. Returns those whose
    /// peers it has perhaps come to replace.
    pub(super) fn handle_events(
        &self,
        handle: ConnectionHandle,
        events: Vec<EndpointEvent>,
    ) -> Vec<Arc<Inner>> {
        let mut registry = self.registry.lock();
        let registry = &mut *registry;
        let older = events.into_iter().flat_map(|event| registry.core.handle_event(handle, event));
        older.filter_map(|older| registry.connections.get(&older).cloned()).collect()
    }

    pub(super) fn connection(&self, handle: ConnectionHandle) -> Option<Arc<Inner>> {
        self.registry.lock().connections.get(&handle).cloned()
    }

    /// The connection that sent what begins like this.
    pub(super) fn sender_of(&self, quote: &[u8]) -> Option<Arc<Inner>> {
        let registry = self.registry.lock();
        let handle = registry.core.route_report(quote)?;
        registry.connections.get(&handle).cloned()
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

    /// The operator should know which peer broke the protocol, and which is not let in, or does not let this side in.
    pub(super) fn warn_of(&self, remote: SocketAddr, reason: &ConnectionError) {
        let mut registry = self.registry.lock();
        let violation = matches!(reason, ConnectionError::Violation(_));
        let warning = if violation { &mut registry.violations } else { &mut registry.strangers };
        let untold = warning.tell(now());
        drop(registry);
        let Some(untold) = untold else { return };
        match reason {
            ConnectionError::Violation(violation) => {
                tracing::warn!(%remote, %violation, untold, "a peer broke the protocol: its connection is closed");
            }
            reason => tracing::warn!(%remote, %reason, untold, "no secured connection"),
        }
    }

    pub(super) fn abandon_unaccepted(&self) {
        for connection in self.connections() {
            connection.abandon_unaccepted();
        }
    }

    pub(super) fn serve_later(&self, connection: Arc<Inner>) {
        self.turns.later(connection);
        self.wake.notify_one();
    }

    /// A socket is full, for one that `is_starved` if this turn has brought it nothing.
    pub(super) fn wait_for_room(&self, connection: Arc<Inner>, socket: SocketId, is_starved: bool) {
        self.turns.wait_for_room(connection, socket, is_starved);
        self.wake.notify_one();
    }

    /// Finds the connection of each datagram, answers those that belong to none. All have come at one time, and nothing is
    /// sent while the registry is locked, which every other datagram of the socket needs.
    pub(super) fn route<'a>(
        self: &Arc<Self>,
        datagrams: impl Iterator<Item = Datagram<'a>>,
    ) -> Sorted<'a> {
        let (mut sorted, mut replies) = (Sorted::default(), Replies::default());
        let (mut reply, mut crowded, mut dropped) = (Vec::new(), None, None);
        let mut registry = self.registry.lock();
        let now = now();
        for datagram in datagrams {
            if !is_answerable(&datagram) {
                registry.unanswerable += 1;
                continue;
            }
            match registry.core.route(now, datagram.from, datagram.bytes, &mut reply) {
                Routed::Connection(handle) => {
                    let connection = registry.connections.get(&handle);
                    sorted.push(connection, datagram);
                }
                Routed::Accepted { handle, connection, older } => {
                    let offer = registry.offer.clone();
                    let way = (datagram.socket, self.local);
                    let accept = &registry.accept;
                    let inner = Inner::new(self, handle, *connection, accept, way, offer);
                    registry.connections.insert(handle, inner.clone());
                    let older = older.and_then(|old| registry.connections.get(&old).cloned());
                    sorted.older.extend(older.map(|old| (old, datagram.from)));
                    sorted.push(Some(&inner), datagram);
                }
                // Whoever is not answered asks again.
                Routed::Reply if replies.to.len() == REPLIES_A_CALL => {}
                Routed::Reply => {
                    replies.push(&datagram, &reply);
                    crowded = registry.note_refusal(now).or(crowded);
                }
                Routed::Dropped => dropped = Some(datagram.from),
            }
        }
        drop(registry);
        self.reply(&replies);
        if let Some(Crowded { connections, untold }) = crowded {
            tracing::warn!(connections, untold, "a peer was refused: there are as many as may be");
        }
        if let Some(latest) = dropped {
            tracing::trace!(%latest, "dropped what belongs to no connection");
        }
        sorted.sort();
        sorted
    }

    fn reply(&self, replies: &Replies) {
        if replies.to.is_empty() {
            return;
        }
        let sockets = self.sockets();
        let mut rest = &replies.bytes[..];
        for Reply { socket, destination, received_at, length } in &replies.to {
            let (reply, others) = rest.split_at(*length);
            rest = others;
            let Some(way) = sockets.get(*socket) else { continue };
            // What room there will be is for those who have a connection.
            if self.turns.full().contains(*socket) {
                continue;
            }
            let segments = Segments {
                destination: *destination,
                source: received_at.filter(|_| self.local_addr().ip().is_unspecified()),
                ecn: None,
                contents: reply,
                segment_bytes: reply.len(),
            };
            if let Err(error) = way.try_send(&segments) {
                tracing::trace!(%error, "a reply was lost");
            }
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
