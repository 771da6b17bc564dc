// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Who sends for a connection: packets leave in the order of their numbers, and system calls are made
//! without the connection's lock.
//!
//! There is one sender at a time. A task that changes the connection tells the sender, if there is one
//! ([`Role::take_on`]); the sender then asks the state machine once more before it lays down its role. A message to an
//! idle connection takes the lock once: the task that hands it over becomes the sender, and fills the first batch under
//! that lock.

use std::{io, net::IpAddr, sync::Arc, time::Instant};

use arq_proto::{Refusal, Transmit};

use super::{Aftermath, Inner, Phase, State};
use crate::{
    driver::{
        buffers, now, offload,
        shared::Shared,
        sync::{AtomicU8, MutexGuard, Ordering},
    },
    socket::{is_too_long, DatagramSocket, Segments},
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
/// The driver, at its next turn or when the socket has room again for what it refused.
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
        state: MutexGuard<'_, State>,
        now: Instant,
    ) {
        let Some(endpoint) = self.endpoint.upgrade() else { return };
        if endpoint.turns.is_blocked() {
            drop(state);
            // The room that there may be now is for those who wait already.
            return self.wait_for_room(&endpoint, None, true);
        }
        let socket = endpoint.socket();
        let next = self.next_batch(&*socket, state, now, buffers::take());
        self.send_batches(&endpoint, &*socket, next, batches);
    }

    /// The driver's part: goes on where a task stopped.
    pub(in crate::driver) fn resume(self: &Arc<Self>, endpoint: &Arc<Shared>) {
        let mut state = self.state.lock();
        if !self.role.is_parked() {
            return;
        }
        self.role.becomes(SENDING);
        let Some(batch) = state.unsent.take() else {
            return self.send_up_to(DRIVER_BATCHES, state, now());
        };
        drop(state);
        if endpoint.turns.is_blocked() {
            return self.wait_for_room(endpoint, Some(batch), true);
        }
        let next = Next { batch, settled: None };
        self.send_batches(endpoint, &*endpoint.socket(), Some(next), DRIVER_BATCHES);
    }

    /// Sends `next` and the batches that follow it. `None`: the sender's role is laid down already.
    fn send_batches(
        self: &Arc<Self>,
        endpoint: &Arc<Shared>,
        socket: &dyn DatagramSocket,
        mut next: Option<Next>,
        batches: usize,
    ) {
        for sent in 1..=batches {
            let Some(Next { batch, settled }) = next else { return };
            let buffer = self.send_batch(endpoint, socket, batch, sent == 1);
            let is_over = buffer.is_some() && settled.is_some() && self.role.lay_down();
            if let Some(aftermath) = settled {
                self.follow_up(aftermath);
            }
            let Some(buffer) = buffer else { return };
            if is_over || sent == batches {
                buffers::give_back(buffer);
                match is_over {
                    true => return,
                    false => break,
                }
            }
            next = self.next_batch(socket, self.state.lock(), now(), buffer);
        }
        self.park(None);
        endpoint.serve_later(self.clone());
    }

    /// Gives the buffer back, unless the socket is full: then the batch waits, and nobody sends.
    fn send_batch(
        self: &Arc<Self>,
        endpoint: &Arc<Shared>,
        socket: &dyn DatagramSocket,
        batch: Batch,
        is_first: bool,
    ) -> Option<Vec<u8>> {
        let Batch { bytes, transmit, source } = &batch;
        let segments = Segments {
            destination: transmit.destination,
            source: *source,
            contents: bytes,
            segment_bytes: transmit.segment_size,
        };
        if transmit.from_other_port {
            endpoint.send_from_other_port(&segments);
            return Some(batch.bytes);
        }
        match socket.try_send(&segments) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.wait_for_room(endpoint, Some(batch), is_first);
                return None;
            }
            // As good as lost on the way: the protocol repairs it.
            Err(error) => {
                tracing::trace!(handle = ?self.handle, %error, "send failed");
                self.with_core(|state, now| state.on_refused_send(now, transmit, error));
                // It has changed something while it sends: it looks again.
                self.role.take_on();
            }
        }
        Some(batch.bytes)
    }

    /// Fills `bytes` with the next batch, or lays down the sender's role.
    fn next_batch(
        self: &Arc<Self>,
        socket: &dyn DatagramSocket,
        mut state: MutexGuard<'_, State>,
        now: Instant,
        mut bytes: Vec<u8>,
    ) -> Option<Next> {
        bytes.clear();
        self.role.becomes(SENDING);
        let fit = MAX_OFFLOAD_BYTES / usize::from(state.core.path_mtu());
        let most = if offload::is_damaged() { 1 } else { socket.max_segments() };
        let max_segments = most.min(fit.max(1));
        let Some(transmit) = state.core.poll_transmit(now, &mut bytes, max_segments) else {
            self.role.becomes(IDLE);
            self.settle_and_unlock(state);
            buffers::give_back(bytes);
            return None;
        };
        let source = transmit.source.filter(|_| self.keeps_source);
        let settled = (!transmit.more).then(|| self.settle(&mut state));
        Some(Next { batch: Batch { bytes, transmit, source }, settled })
    }

    fn wait_for_room(
        self: &Arc<Self>,
        endpoint: &Arc<Shared>,
        unsent: Option<Batch>,
        is_starved: bool,
    ) {
        self.park(unsent);
        endpoint.wait_for_room(self.clone(), is_starved);
    }

    fn park(self: &Arc<Self>, unsent: Option<Batch>) {
        self.with_core(|state, _| {
            state.unsent = unsent;
            self.role.becomes(PARKED);
        });
    }
}

impl State {
    fn on_refused_send(&mut self, now: Instant, transmit: &Transmit, error: io::Error) {
        let (socket, size) = (transmit.socket, transmit.segment_size);
        if is_too_long(&error) {
            self.core.handle_refused(now, socket, size);
        }
        if is_refused_source(&error) {
            // The address is gone: until the peer asks another, the routing table chooses among those that are left.
            self.core.handle_local_ip_gone(socket);
        }
        // Who cannot open a connection hears of it; an open one repairs what is lost.
        if matches!(self.phase, Phase::Opening) {
            let refusal = refusal(&error);
            self.send_error = Some(Arc::new(error));
            if let Some(refusal) = refusal {
                self.core.handle_send_refused(now, socket, refusal);
            }
        }
    }
}

/// What a refusal means for further datagrams, if that is known. A full queue, or a lack of memory, means nothing.
fn refusal(error: &io::Error) -> Option<Refusal> {
    /// What a firewall of this host makes of a datagram that it drops. EACCES is a route that is prohibited.
    const EPERM: i32 = 1;
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
        _ => None,
    }
}

/// Whether a send failed as it does where the source address is none of this host's: EINVAL on Linux. A lack of memory or
/// a firewall says nothing about the address, and another one would make the peer ask it.
fn is_refused_source(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::AddrNotAvailable)
}
