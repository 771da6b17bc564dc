// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Who sends for a connection: packets leave in the order of their numbers, and system calls are made
//! without the connection's lock.

use std::{io, net::IpAddr, sync::Arc, time::Instant};

use arq_proto::{Refusal, Transmit};

use super::{Inner, Phase, State};
use crate::{
    driver::{buffers, now, offload, shared::Shared},
    socket::{is_too_long, Segments},
};

/// Batches that a task of the application sends before it leaves the rest to the driver.
pub(super) const CALLER_BATCHES: usize = 4;
/// Batches that the driver sends for one connection before it serves the next.
pub(in crate::driver) const DRIVER_BATCHES: usize = 8;
/// The kernel takes no more than an IP packet's length in one segmented call.
const MAX_OFFLOAD_BYTES: usize = 65_000;

/// Who sends for the connection.
pub(super) enum Outbox {
    /// Nobody: the next who changes something.
    Idle,
    /// A task, right now.
    Sending,
    /// The driver, at its next turn or when the socket has room again for what it refused.
    Parked(Option<Unsent>),
}

impl Outbox {
    /// Makes the caller the sender, unless there is one.
    pub(super) fn take_on(&mut self) -> bool {
        let is_idle = matches!(self, Self::Idle);
        if is_idle {
            *self = Self::Sending;
        }
        is_idle
    }
}

pub(super) struct Unsent {
    bytes: Vec<u8>,
    transmit: Transmit,
    source: Option<IpAddr>,
}

impl Inner {
    /// Sends what may be sent, at most `batches` of it, unless another task is at it.
    pub(in crate::driver) fn transmit(self: &Arc<Self>, batches: usize) {
        if self.state.lock().outbox.take_on() {
            self.send_up_to(batches);
        }
    }

    /// The caller has made itself the sender.
    pub(super) fn send_up_to(self: &Arc<Self>, batches: usize) {
        if let Some(endpoint) = self.endpoint.upgrade() {
            self.send_batches(&endpoint, None, batches);
        }
    }

    /// The driver's part: goes on where a task stopped.
    pub(in crate::driver) fn resume(self: &Arc<Self>, endpoint: &Arc<Shared>) {
        let unsent = {
            let mut state = self.state.lock();
            match std::mem::replace(&mut state.outbox, Outbox::Sending) {
                Outbox::Parked(unsent) => unsent,
                other @ (Outbox::Idle | Outbox::Sending) => {
                    state.outbox = other;
                    return;
                }
            }
        };
        self.send_batches(endpoint, unsent, DRIVER_BATCHES);
    }

    fn send_batches(
        self: &Arc<Self>,
        endpoint: &Arc<Shared>,
        mut unsent: Option<Unsent>,
        batches: usize,
    ) {
        if endpoint.turns.is_blocked() {
            // The room that there may be now is for those who wait already.
            self.wait_for_room(endpoint, unsent, true);
            return;
        }
        let mut buffer = match &mut unsent {
            Some(unsent) => std::mem::take(&mut unsent.bytes),
            None => buffers::take(),
        };
        for sent in 0..batches {
            let next = match unsent.take() {
                Some(unsent) => Some((unsent.transmit, unsent.source)),
                None => self.next_transmit(endpoint, &mut buffer),
            };
            let Some((transmit, source)) = next else {
                buffers::give_back(buffer);
                return;
            };
            let segments = Segments {
                destination: transmit.destination,
                source,
                contents: &buffer,
                segment_bytes: transmit.segment_size,
            };
            if transmit.from_other_port {
                endpoint.send_from_other_port(&segments);
                continue;
            }
            match endpoint.socket().try_send(&segments) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let unsent = Unsent { bytes: buffer, transmit, source };
                    self.wait_for_room(endpoint, Some(unsent), sent == 0);
                    return;
                }
                // As good as lost on the way: the protocol repairs it.
                Err(error) => {
                    tracing::trace!(handle = ?self.handle, %error, "send failed");
                    let size = transmit.segment_size;
                    self.with_core(|state, now| state.on_refused_send(now, size, error));
                }
            }
        }
        buffers::give_back(buffer);
        self.park(None);
        endpoint.serve_later(self.clone());
    }

    /// Fills `buffer` with the next batch, or lays down the sender's role. Until then nothing is settled: a message
    /// does not wait for a timer to be set.
    fn next_transmit(
        self: &Arc<Self>,
        endpoint: &Arc<Shared>,
        buffer: &mut Vec<u8>,
    ) -> Option<(Transmit, Option<IpAddr>)> {
        buffer.clear();
        let mut state = self.state.lock();
        let fit = MAX_OFFLOAD_BYTES / usize::from(state.core.path_mtu());
        let most = if offload::is_damaged() { 1 } else { endpoint.socket().max_segments() };
        let max_segments = most.min(fit.max(1));
        if let Some(transmit) = state.core.poll_transmit(now(), buffer, max_segments) {
            let source = state.core.local_ip().filter(|_| self.keeps_source);
            return Some((transmit, source));
        }
        state.outbox = Outbox::Idle;
        self.settle_and_unlock(state);
        None
    }

    fn wait_for_room(
        self: &Arc<Self>,
        endpoint: &Arc<Shared>,
        unsent: Option<Unsent>,
        is_starved: bool,
    ) {
        self.park(unsent);
        endpoint.wait_for_room(self.clone(), is_starved);
    }

    fn park(self: &Arc<Self>, unsent: Option<Unsent>) {
        self.with_core(|state, _| state.outbox = Outbox::Parked(unsent));
    }
}

impl State {
    fn on_refused_send(&mut self, now: Instant, size: usize, error: io::Error) {
        if is_too_long(&error) {
            self.core.handle_refused(now, size);
        }
        if is_refused_source(&error) {
            // The address is gone: until the peer asks another, the routing table chooses among those that are left.
            self.core.handle_local_ip_gone();
        }
        // Who cannot open a connection hears of it; an open one repairs what is lost.
        if matches!(self.phase, Phase::Opening) {
            let refusal = refusal(&error);
            self.send_error = Some(Arc::new(error));
            if let Some(refusal) = refusal {
                self.core.handle_send_refused(now, refusal);
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
