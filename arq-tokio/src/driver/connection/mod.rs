// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! One connection: the state machine behind a short lock, shared by the driver and the application.
//!
//! Whoever changes the state machine, be it the driver or a task of the application, also sends
//! what follows from that, so a message leaves without a detour through another task. Packets of a
//! connection must leave in the order of their numbers, or the peer takes them for lost: therefore
//! one task at a time is its sender ([`outbox`]), and those that come meanwhile leave their work to it.

mod adapter;
mod handle;
mod lane;
mod outbox;
mod path_log;
mod paths;

use std::{
    io,
    net::SocketAddr,
    sync::{atomic::AtomicUsize, Arc, Weak},
    task::Waker,
    time::{Duration, Instant},
};

use arq_proto::{
    ConnectionError, ConnectionHandle, Datagram, Event, LaneSet, PathEvent, PathNumber, SocketId,
    UnreachableReport, ValidConfig,
};
use bytes::Bytes;
use tokio::sync::mpsc;

use super::{
    lanes::LaneWaiters,
    now, offload,
    ports::Mask,
    shared::Shared,
    sync::{Mutex, MutexGuard},
    timer::Deadlines,
};
use outbox::{Batch, Role};
use path_log::{Line, PathLog};

pub use handle::{ConnectError, Connection, SendError};
pub use lane::Lane;
pub(super) use outbox::DRIVER_BATCHES;
pub use paths::PathInfo;

/// Who waits for a sign of life of the peer hears of one at most this often, however busy the
/// connection is.
const LIFE_SIGN_INTERVAL: Duration = Duration::from_millis(500);

/// What the driver and the application share of a connection.
pub(super) struct Inner {
    handle: ConnectionHandle,
    /// Weak, so that the socket closes with its driver and not with the last forgotten handle.
    endpoint: Weak<Shared>,
    /// The socket of the handshake, and where it is bound.
    socket: SocketId,
    bound: SocketAddr,
    /// Packets leave from the address that the peer has asked: on a socket that is bound to all of them, for
    /// what it accepts. What this side has opened leaves as the routing table says, which knows when this host
    /// has moved to another network.
    keeps_source: bool,
    linger: Duration,
    idle_timeout: Duration,
    /// The system is asked what the interface toward the peer carries.
    asks_interface: bool,
    /// Handles that the application has, or is about to be given.
    handles: AtomicUsize,
    /// Messages that were read: their memory serves the next ones.
    spent: Mutex<Vec<Bytes>>,
    /// Who sends.
    role: Role,
    state: Mutex<Guarded>,
}

/// What only one thread at a time may look at.
struct Guarded {
    core: arq_proto::Connection,
    lifecycle: Lifecycle,
    waiters: LaneWaiters,
    /// Lanes that may hold a message.
    readable: LaneSet,
    /// Lanes that somebody reads: not all of them before the application is set up.
    lanes_read: LaneSet,
    /// What sockets had no room for: one batch of each.
    unsent: Vec<Batch>,
    /// Sockets for whose room this connection waits.
    waits_for: Mask,
    /// The deadline in the endpoint's index: no later than the state machine's.
    armed: Option<Instant>,
    /// Why the latest datagram that was refused could not leave, while the connection was being opened.
    send_error: Option<Arc<io::Error>>,
    /// The latest sign of life of the peer that those who wait for one were told of.
    life_sign_at: Option<Instant>,
    /// The address of the peer for which the system was asked what the interface carries.
    interface_toward: Option<SocketAddr>,
    /// Where to hand an accepted connection once its handshake is done.
    offer: Option<mpsc::Sender<Connection>>,
    /// There is another path than that of the handshake, or was.
    has_paths: bool,
    /// What was said of its paths.
    path_log: PathLog,
    retired: bool,
}

enum Lifecycle {
    Opening,
    Established,
    Closed(ConnectionError),
}

/// What is left to do once the lock is gone.
#[derive(Default)]
struct Aftermath {
    wake: Vec<Waker>,
    offer: Option<mpsc::Sender<Connection>>,
    /// Why it ended, if the operator should hear of it, and where the peer is.
    complaint: Option<(SocketAddr, ConnectionError)>,
    /// Why one that was to be accepted has ended before it opened.
    unopened: Option<ConnectionError>,
    /// Where the peer is since a moment ago.
    toward: Option<SocketAddr>,
    /// Paths that can be used since a moment ago.
    opened: Vec<PathNumber>,
    /// What the log is to say of paths.
    lines: Vec<Line>,
    retire: bool,
    /// The alarm is too late for the new deadline.
    arm: bool,
}

impl Inner {
    pub(super) fn new(
        endpoint: &Arc<Shared>,
        handle: ConnectionHandle,
        #[cfg_attr(not(feature = "qlog"), expect(unused_mut, reason = "nobody observes it"))]
        mut core: arq_proto::Connection,
        config: &ValidConfig,
        (socket, bound): (SocketId, SocketAddr),
        offer: Option<mpsc::Sender<Connection>>,
    ) -> Arc<Self> {
        #[cfg(feature = "qlog")]
        crate::driver::qlog::begin(&mut core, now());
        Arc::new(Self {
            handle,
            endpoint: Arc::downgrade(endpoint),
            socket,
            bound,
            // Those that are accepted, and only those, are offered.
            keeps_source: offer.is_some() && endpoint.local_addr().ip().is_unspecified(),
            linger: config.linger,
            idle_timeout: config.idle_timeout,
            asks_interface: config.mtu.is_none(),
            handles: AtomicUsize::new(1),
            spent: Mutex::default(),
            role: Role::default(),
            state: Mutex::new(Guarded {
                core,
                lifecycle: Lifecycle::Opening,
                waiters: LaneWaiters::default(),
                readable: LaneSet::default(),
                lanes_read: LaneSet::default(),
                unsent: Vec::new(),
                waits_for: Mask::default(),
                has_paths: false,
                path_log: PathLog::default(),
                armed: None,
                send_error: None,
                life_sign_at: None,
                interface_toward: None,
                offer,
                retired: false,
            }),
        })
    }

    pub(super) fn handle(&self) -> ConnectionHandle {
        self.handle
    }

    /// The application's first handle, which all others are clones of.
    pub(super) fn into_handle(self: Arc<Self>) -> Connection {
        Connection(self)
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state.lock().lifecycle, Lifecycle::Closed(_))
    }

    pub(super) fn handle_datagrams<'a>(
        self: &Arc<Self>,
        datagrams: impl Iterator<Item = Datagram<'a>>,
    ) {
        let spent = std::mem::take(&mut *self.spent.lock());
        let (events, from) = self.with_core(|state, now| {
            spent.into_iter().for_each(|message| state.core.recycle(message));
            state.core.handle_datagrams(now, datagrams);
            let events = std::iter::from_fn(|| state.core.poll_endpoint_event());
            (events.collect::<Vec<_>>(), state.core.remote().ip())
        });
        // Before anything is sent that an answer to a new id may follow; never under this connection's lock.
        if let Some(endpoint) = self.endpoint.upgrade().filter(|_| !events.is_empty()) {
            for older in endpoint.handle_events(self.handle, events) {
                older.with_core(|state, now| state.core.handle_sibling(now, from));
                older.transmit(DRIVER_BATCHES);
            }
        }
    }

    /// When the peer was last heard.
    pub(super) fn heard_at(&self) -> Instant {
        self.state.lock().core.heard_at()
    }

    pub(super) fn handle_timeout(self: &Arc<Self>) {
        self.with_core(|state, now| {
            // The index has already forgotten this one.
            state.armed = state.armed.filter(|armed| *armed > now);
            state.core.handle_timeout(now);
        });
    }

    /// The network says that something has not arrived.
    pub(super) fn handle_unreachable(self: &Arc<Self>, report: &UnreachableReport<'_>) {
        self.with_core(|state, now| state.core.handle_unreachable(now, report));
    }

    /// Another instance has opened a connection from the peer's address.
    pub(super) fn handle_newcomer(self: &Arc<Self>, address: SocketAddr) {
        self.with_core(|state, now| state.core.handle_newcomer(now, address));
    }

    /// Nobody accepts any more: forgets a peer whose handshake is not done.
    pub(super) fn abandon_unaccepted(self: &Arc<Self>) {
        let unaccepted = self.state.lock().offer.is_some();
        if unaccepted {
            self.with_core(|state, now| state.core.abandon(now, ConnectionError::LocallyClosed));
        }
    }

    /// The driver ends: nobody will send or receive for this connection any more.
    pub(super) fn driver_gone(self: &Arc<Self>) {
        self.with_core(|state, now| state.core.close(now, "the driver stopped"));
    }

    /// Changes the state machine and does all that follows, but for sending.
    fn with_core<R>(self: &Arc<Self>, change: impl FnOnce(&mut Guarded, Instant) -> R) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state, now());
        self.settle_and_unlock(state);
        result
    }

    /// All that follows from a change, but for sending.
    fn settle_and_unlock(self: &Arc<Self>, mut state: MutexGuard<'_, Guarded>) {
        let aftermath = self.settle(&mut state);
        drop(state);
        self.follow_up(aftermath);
    }

    /// Brings the shell's view up to date with the state machine.
    fn settle(&self, state: &mut Guarded) -> Aftermath {
        let mut aftermath = Aftermath::default();
        while let Some(event) = state.core.poll_event() {
            state.waiters.collect(&event, &mut aftermath.wake);
            match event {
                Event::Connected => {
                    tracing::debug!(handle = ?self.handle, remote = %state.core.remote(), "connected");
                    state.lifecycle = Lifecycle::Established;
                    aftermath.offer = state.offer.take();
                }
                Event::Closed(reason) => {
                    tracing::debug!(handle = ?self.handle, %reason, "closed");
                    if state.is_complaint(&reason) {
                        aftermath.complaint = Some((state.core.remote(), reason.clone()));
                    }
                    let was_offered = state.offer.take().is_some();
                    aftermath.unopened = was_offered.then(|| reason.clone());
                    state.lifecycle = Lifecycle::Closed(reason);
                }
                Event::Readable(lane) => state.readable.insert(lane),
                Event::BatchesLost => offload::note_damage(state.core.remote()),
                Event::Path(path, event) => {
                    state.has_paths |= !matches!(event, PathEvent::Limited { .. });
                    if event == PathEvent::Opened {
                        aftermath.opened.push(path);
                    }
                    aftermath.lines.extend(state.path_log.note(now(), path, event));
                }
                // Those who wait were collected above.
                _ => {}
            }
        }
        if state.path_log.is_waiting() {
            aftermath.lines.extend(state.path_log.overdue(now()));
        }
        aftermath.toward = state.note_address().filter(|_| self.asks_interface);
        state.note_life_sign(&mut aftermath.wake);
        state.waiters.collect_progress(&mut aftermath.wake);
        let drained = state.core.is_drained();
        let deadline = if drained { None } else { state.core.poll_timeout().map(|(at, _)| at) };
        if !Deadlines::is_soon_enough(state.armed, deadline) {
            if let Some(endpoint) = self.endpoint.upgrade() {
                aftermath.arm = endpoint.deadlines.change(self.handle, state.armed, deadline);
            }
            state.armed = deadline;
        }
        if drained && !state.retired {
            state.retired = true;
            aftermath.retire = true;
            state.waiters.collect_lifecycle(&mut aftermath.wake);
        }
        aftermath
    }

    fn follow_up(self: &Arc<Self>, aftermath: Aftermath) {
        let Aftermath { wake, offer, complaint, unopened, toward, opened, lines, retire, arm } =
            aftermath;
        wake.into_iter().for_each(Waker::wake);
        if let Some(offer) = offer {
            // Nobody accepts any more, or too many wait: the handle is dropped and the connection closes.
            drop(offer.try_send(Connection(self.clone())));
        }
        let of_paths = !opened.is_empty() || !lines.is_empty();
        let is_told = complaint.is_some() || unopened.is_some() || toward.is_some();
        if !is_told && !of_paths && !retire && !arm {
            return;
        }
        let Some(endpoint) = self.endpoint.upgrade() else { return };
        if arm {
            endpoint.deadlines.arm_sooner();
        }
        if let Some(remote) = toward {
            self.ask_interface(&endpoint, remote);
        }
        if of_paths {
            self.follow_paths(&endpoint, &opened, &lines);
        }
        if let Some(reason) = unopened {
            endpoint.note_unopened(&reason);
        }
        if let Some((remote, reason)) = complaint {
            endpoint.warn_of(remote, &reason);
        }
        if retire {
            endpoint.retire(self.handle);
        }
    }

    /// How long datagrams to `remote` may be is the system's to know; the connection's lock is not held meanwhile.
    fn ask_interface(self: &Arc<Self>, endpoint: &Shared, remote: SocketAddr) {
        let sockets = endpoint.sockets();
        let Some(bytes) = sockets.get(self.socket).and_then(|socket| socket.mtu_toward(remote))
        else {
            return;
        };
        self.with_core(|state, now| {
            // The peer may have moved since.
            if state.core.remote() == remote {
                state.core.handle_interface_mtu(now, self.socket, bytes);
            }
        });
    }
}

impl Guarded {
    /// Whether the end of a connection is something that nobody else tells the operator of. An attempt to connect tells
    /// its caller.
    fn is_complaint(&self, reason: &ConnectionError) -> bool {
        match reason {
            ConnectionError::Violation(_) => true,
            ConnectionError::HandshakeFailed(_) => self.offer.is_some(),
            ConnectionError::PeerEndedHandshake { .. } => {
                matches!(self.lifecycle, Lifecycle::Established)
            }
            _ => false,
        }
    }

    /// The address of the peer, if it is another one than before.
    fn note_address(&mut self) -> Option<SocketAddr> {
        let remote = self.core.remote();
        let is_open = matches!(self.lifecycle, Lifecycle::Established);
        let is_new = is_open && self.interface_toward.replace(remote) != Some(remote);
        is_new.then_some(remote)
    }

    fn note_life_sign(&mut self, wake: &mut Vec<Waker>) {
        let heard_at = self.core.heard_at();
        if self.life_sign_at.is_none_or(|told| heard_at >= told + LIFE_SIGN_INTERVAL) {
            self.life_sign_at = Some(heard_at);
            self.waiters.collect_life_sign(wake);
        }
    }

    fn reason(&self) -> ConnectionError {
        match &self.lifecycle {
            Lifecycle::Closed(reason) => reason.clone(),
            Lifecycle::Opening | Lifecycle::Established => {
                self.core.close_reason().cloned().unwrap_or(ConnectionError::LocallyClosed)
            }
        }
    }
}
