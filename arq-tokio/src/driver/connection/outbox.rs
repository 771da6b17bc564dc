// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Who sends for a connection: packets leave in the order of their numbers, and system calls are made
//! without the connection's lock.
//!
//! A socket that is full keeps its next batch for later, and no other socket from sending: a modem that stalls must not stop
//! Wi-Fi. Only where all are full, as one socket alone is, nobody sends until the driver finds room.
//!
//! There is one sender at a time. A task that changes the connection tells the sender, if there is one
//! ([`Role::take_on`]); the sender then asks the state machine once more before it lays down its role. A message to an
//! idle connection takes the lock once: the task that hands it over becomes the sender, and fills the first batch under
//! that lock.

use std::{io, net::IpAddr, sync::Arc, time::Instant};

use arq_proto::{Refusal, SocketId, Transmit};

use super::{Aftermath, Guarded, Inner, Lifecycle};
use crate::{
    driver::{
        buffers, now, offload,
        ports::{Mask, Sockets},
        shared::Shared,
        sync::{AtomicU8, MutexGuard, Ordering},
    },
    socket::{is_too_long, Segments},
};

/// Batches that a task of the application sends before it leaves the rest to the driver.
pub(super) const CALLER_BATCHES: usize = 4;
/// Batches that the driver sends for one connection before it serves the next.
pub(in crate::driver) const DRIVER_BATCHES: usize = 8;
/// The kernel takes no more than an IP packet's length in one segmented call.
const MAX_OFFLOAD_BYTES: usize = 65_000;

/// Who sends for the connection.
#[derive(Debug, Default)]
pub(super) struct Role(AtomicU8);

/// Nobody: the next who changes something.
const IDLE: u8 = 0;
/// A task, right now.
const SENDING: u8 = 1;
/// A task, right now, and something was changed meanwhile.
const AGAIN: u8 = 2;
/// The driver, at its next turn or when a socket has room again: all of them are full.
const PARKED: u8 = 3;

impl Role {
    /// Makes the caller the sender. If there is one already, that one will look for the caller's change.
    pub(super) fn take_on(&self) -> bool {
        let mut role = IDLE;
        loop {
            let new = match role {
                IDLE => SENDING,
                SENDING => AGAIN,
                _ => return false,
            };
            match self.0.compare_exchange(role, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return role == IDLE,
                Err(other) => role = other,
            }
        }
    }

    /// The sender has nothing more to send, as far as it knows. `false`: something was changed meanwhile.
    fn lay_down(&self) -> bool {
        self.0.compare_exchange(SENDING, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// For a sender that holds the connection's lock, and so sees every change that it was told of.
    fn becomes(&self, role: u8) {
        self.0.store(role, Ordering::Release);
    }

    fn is_parked(&self) -> bool {
        self.0.load(Ordering::Acquire) == PARKED
    }
}

/// Datagrams that leave in one call.
pub(super) struct Batch {
    bytes: Vec<u8>,
    transmit: Transmit,
    source: Option<IpAddr>,
}

/// A batch to send now.
struct Next {
    batch: Batch,
    /// What else has followed, if this is the last one: done when it has left, as a message does not wait for a timer to
    /// be set.
    settled: Option<Aftermath>,
}

/// What became of a batch.
enum Outcome {
    /// It has left, or is lost: here is its buffer.
    Done(Vec<u8>),
    /// Its socket is full, and so is every other: the driver sends next.
    Parked,
    /// Its socket is full, and there is another.
    Full,
}

impl Inner {
    /// Sends what may be sent, at most `batches` of it, unless another task is at it.
    pub(in crate::driver) fn transmit(self: &Arc<Self>, batches: usize) {
        if self.role.take_on() {
            self.send_up_to(batches, self.state.lock(), now());
        }
    }

    /// The caller has made itself the sender. The first batch is filled while it still holds the lock: from a message to
    /// the wire it is taken once.
    pub(super) fn send_up_to(
        self: &Arc<Self>,
        batches: usize,
        state: MutexGuard<'_, Guarded>,
        now: Instant,
    ) {
        let Some(endpoint) = self.endpoint.upgrade() else { return };
        let sockets = endpoint.sockets();
        let full = endpoint.turns.full();
        if !full.is_empty() && full.covers(sockets.present()) {
            drop(state);
            // The room that there may be now is for those who wait already.
            return self.park(&endpoint, full, true);
        }
        let next = self.next_batch(&endpoint, &sockets, state, now, buffers::take());
        self.send_batches(&endpoint, &sockets, next, batches);
    }

    /// The driver's part: goes on where a task stopped, as `socket` has room again or for another turn.
    pub(in crate::driver) fn resume(
        self: &Arc<Self>,
        endpoint: &Arc<Shared>,
        socket: Option<SocketId>,
    ) {
        let mut state = self.state.lock();
        if let Some(socket) = socket {
            state.waits_for = state.waits_for.without(Mask::of(socket));
        }
        if self.role.is_parked() {
            self.role.becomes(SENDING);
        } else if socket.is_none() || !self.role.take_on() {
            // Nobody's turn is over, or another task is at it and looks once more.
            return;
        }
        let sockets = endpoint.sockets();
        let full = endpoint.turns.full();
        if !full.is_empty() && full.covers(sockets.present()) {
            drop(state);
            return self.park(endpoint, full, true);
        }
        let next = self.next_batch(endpoint, &sockets, state, now(), buffers::take());
        self.send_batches(endpoint, &sockets, next, DRIVER_BATCHES);
    }

    /// Sends `next` and the batches that follow it. `None`: the sender's role is laid down already.
    fn send_batches(
        self: &Arc<Self>,
        endpoint: &Arc<Shared>,
        sockets: &Sockets,
        mut next: Option<Next>,
        batches: usize,
    ) {
        for sent in 1..=batches {
            let Some(Next { batch, settled }) = next else { return };
            let outcome = self.send_batch(endpoint, sockets, batch, sent == 1);
            let is_done = matches!(outcome, Outcome::Done(_));
            let is_over = is_done && settled.is_some() && self.role.lay_down();
            if let Some(aftermath) = settled {
                self.follow_up(aftermath);
            }
            let buffer = match outcome {
                Outcome::Done(buffer) => buffer,
                Outcome::Parked => return,
                Outcome::Full => buffers::take(),
            };
            if is_over || sent == batches {
                buffers::give_back(buffer);
                match is_over {
                    true => return,
                    false => break,
                }
            }
            next = self.next_batch(endpoint, sockets, self.state.lock(), now(), buffer);
        }
        self.with_core(|_, _| self.role.becomes(PARKED));
        endpoint.serve_later(self.clone());
    }

    fn send_batch(
        self: &Arc<Self>,
        endpoint: &Arc<Shared>,
        sockets: &Sockets,
        batch: Batch,
        is_first: bool,
    ) -> Outcome {
        let Batch { bytes, transmit, source } = &batch;
        let segments = Segments {
            destination: transmit.destination,
            source: *source,
            ecn: transmit.ecn,
            contents: bytes,
            segment_bytes: transmit.segment_size,
        };
        if transmit.from_other_port {
            endpoint.send_from_other_port(transmit.socket, &segments);
            return Outcome::Done(batch.bytes);
        }
        // An interface that has gone has no socket.
        let sent = match sockets.get(transmit.socket) {
            Some(socket) => socket.try_send(&segments),
            None => Err(io::ErrorKind::NetworkDown.into()),
        };
        match sent {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return self.keep_for_later(endpoint, sockets, batch, is_first);
            }
            // As good as lost on the way: the protocol repairs it.
            Err(error) => {
                tracing::trace!(handle = ?self.handle, %error, "send failed");
                let had_source = source.is_some();
                self.with_core(|state, now| {
                    state.on_refused_send(now, transmit, had_source, error)
                });
                // It has changed something while it sends: it looks again.
                self.role.take_on();
            }
        }
        Outcome::Done(batch.bytes)
    }

    /// Fills `bytes` with the next batch, or lays down the sender's role. What a socket had no room for before goes first.
    fn next_batch(
        self: &Arc<Self>,
        endpoint: &Arc<Shared>,
        sockets: &Sockets,
        mut state: MutexGuard<'_, Guarded>,
        now: Instant,
        mut bytes: Vec<u8>,
    ) -> Option<Next> {
        bytes.clear();
        self.role.becomes(SENDING);
        let full = endpoint.turns.full();
        if let Some(batch) = state.take_unsent(full) {
            buffers::give_back(bytes);
            return Some(Next { batch, settled: None });
        }
        let fit = MAX_OFFLOAD_BYTES / usize::from(state.longest_datagram());
        let most = if offload::is_damaged() { 1 } else { sockets.max_segments() };
        let max_segments = most.min(fit.max(1));
        let shut = state.shut(full);
        let transmit =
            state.core.poll_transmit_unless(now, &mut bytes, max_segments, shut.to_set());
        let Some(transmit) = transmit else {
            // There may be something for those who are full.
            let waits_for = state.begin_to_wait(shut);
            self.role.becomes(IDLE);
            self.settle_and_unlock(state);
            buffers::give_back(bytes);
            waits_for.iter().for_each(|socket| endpoint.wait_for_room(self.clone(), socket, true));
            return None;
        };
        let source = transmit.source.filter(|_| self.keeps_source);
        let settled = (!transmit.more).then(|| self.settle(&mut state));
        Some(Next { batch: Batch { bytes, transmit, source }, settled })
    }

    /// The socket of a batch is full: nothing else leaves there before it.
    fn keep_for_later(
        self: &Arc<Self>,
        endpoint: &Arc<Shared>,
        sockets: &Sockets,
        batch: Batch,
        is_first: bool,
    ) -> Outcome {
        let socket = batch.transmit.socket;
        // Also where another task is about to have this connection wait: the next batch must not be the same one again.
        endpoint.turns.mark_full(socket);
        let full = endpoint.turns.full();
        let (is_parked, waits_for) = self.with_core(|state, _| {
            state.unsent.push(batch);
            let is_parked = full.covers(sockets.present());
            if is_parked {
                self.role.becomes(PARKED);
            }
            // Where none is left, whichever has room first.
            let waits_for = if is_parked { full } else { Mask::of(socket) };
            (is_parked, state.begin_to_wait(waits_for))
        });
        waits_for.iter().for_each(|socket| endpoint.wait_for_room(self.clone(), socket, is_first));
        if waits_for.is_empty() {
            // It has not seen the mark.
            endpoint.wake.notify_one();
        }
        if is_parked {
            Outcome::Parked
        } else {
            Outcome::Full
        }
    }

    /// Every socket is full: the driver sends next.
    fn park(self: &Arc<Self>, endpoint: &Arc<Shared>, full: Mask, is_starved: bool) {
        let waits_for = self.with_core(|state, _| {
            self.role.becomes(PARKED);
            state.begin_to_wait(full)
        });
        waits_for
            .iter()
            .for_each(|socket| endpoint.wait_for_room(self.clone(), socket, is_starved));
    }
}

impl Guarded {
    /// Sockets through which nothing new may leave: those that are `full`, and those that have refused something before.
    fn shut(&self, full: Mask) -> Mask {
        self.unsent.iter().fold(full, |shut, batch| shut.with(Mask::of(batch.transmit.socket)))
    }

    /// What a socket has refused that is not `full` any more.
    fn take_unsent(&mut self, full: Mask) -> Option<Batch> {
        let may_leave = |batch: &Batch| !full.contains(batch.transmit.socket);
        let place = self.unsent.iter().position(may_leave)?;
        Some(self.unsent.swap_remove(place))
    }

    /// The longest datagram that any path may carry: which one the next batch takes is not known yet.
    fn longest_datagram(&self) -> u16 {
        let of_handshake = self.core.path_mtu();
        if !self.has_paths {
            return of_handshake;
        }
        self.core.paths().map(|path| path.path_mtu_bytes).fold(of_handshake, u16::max)
    }

    /// Notes that it waits for room in these sockets; returns those for which it did not already.
    fn begin_to_wait(&mut self, sockets: Mask) -> Mask {
        let new = sockets.without(self.waits_for);
        self.waits_for = self.waits_for.with(new);
        new
    }

    fn on_refused_send(
        &mut self,
        now: Instant,
        transmit: &Transmit,
        had_source: bool,
        error: io::Error,
    ) {
        let (socket, size) = (transmit.socket, transmit.segment_size);
        if is_too_long(&error) {
            self.core.handle_refused(now, socket, size);
        }
        if is_refused_source(&error) {
            // The address is gone: until the peer asks another, the routing table chooses among those that are left.
            self.core.handle_local_ip_gone(socket);
        }
        // Without that address the next one may pass.
        let refusal = refusal(&error).filter(|_| !(had_source && is_refused_source(&error)));
        // Who cannot open a connection hears of it; an open one repairs what is lost, on another path if there is one.
        if matches!(self.lifecycle, Lifecycle::Opening) {
            self.send_error = Some(Arc::new(error));
        }
        if let Some(refusal) = refusal {
            self.core.handle_send_refused(now, socket, refusal);
        }
    }
}

/// What a refusal means for further datagrams, if that is known. A full queue, or a lack of memory, means nothing.
fn refusal(error: &io::Error) -> Option<Refusal> {
    /// What a firewall of this host makes of a datagram that it drops. EACCES is a route that is prohibited.
    const EPERM: i32 = 1;
    /// The interface that the socket is bound to is gone.
    const ENODEV: i32 = 19;
    match error.kind() {
        io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::InvalidInput => Some(Refusal::NoWay),
        io::ErrorKind::PermissionDenied if error.raw_os_error() == Some(EPERM) => {
            Some(Refusal::Dropped)
        }
        io::ErrorKind::PermissionDenied => Some(Refusal::NoWay),
        _ if error.raw_os_error() == Some(ENODEV) => Some(Refusal::NoWay),
        _ => None,
    }
}

/// Whether a send failed as it does where the source address is none of this host's: EINVAL on Linux. A lack of memory or
/// a firewall says nothing about the address, and another one would make the peer ask it.
fn is_refused_source(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::AddrNotAvailable)
}
