// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The peer's address may change (NAT rebinding, roaming): it is followed once the peer has shown
//! that it receives there (RFC 9000 §8.2, §9). A spoofed source address gets small questions and
//! nothing else.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use rand_core::RngCore;

use super::{receive::Datagram, transmit::PATH_PACKET_BYTES, Connection};
use crate::{
    chunk_size::ChunkTuner, recovery::estimate::LossEstimator, timer::TimerKind,
    units::PacketNumber,
};

/// A question is repeated this often, then not before something comes from there again.
const MAX_REPEATS: u8 = 5;
/// The longest wait between two questions, unless a probe time-out is longer.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes sent to an address that has not answered, per byte received from it (RFC 9000 §8.1).
const MAX_AMPLIFICATION: u64 = 3;

/// An address from which authentic packets come, while it is asked to answer.
#[derive(Debug)]
pub(super) struct PathProbe {
    address: SocketAddr,
    token: u64,
    received_bytes: u64,
    sent_bytes: u64,
    repeats: u8,
    /// The next wait for an answer.
    interval: Duration,
    due: bool,
    /// The newest packet of all came from there.
    has_newest: bool,
}

impl PathProbe {
    /// Takes `bytes` of what may be sent to the address; `false` when that is used up.
    fn take_allowance(&mut self, bytes: u64) -> bool {
        let allowed = self.sent_bytes + bytes <= MAX_AMPLIFICATION * self.received_bytes;
        if allowed {
            self.sent_bytes += bytes;
        }
        allowed
    }
}

impl Connection {
    /// The local address that the server's answer, or since then the peer's newest packet, was sent to, where the platform
    /// tells: a server that is bound to several answers from there. `None` once
    /// [`handle_local_ip_gone`](Self::handle_local_ip_gone) was called, until the next such packet.
    #[must_use]
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.local_ip
    }

    /// The system refused to send from [`local_ip`](Self::local_ip): this host does not have that address any more.
    pub fn handle_local_ip_gone(&mut self) {
        self.local_ip = None;
    }

    /// Where an authentic packet came from and went to. Only one that is newer than all before can mean that
    /// the peer has moved: an old one was merely delayed.
    pub(super) fn note_path(&mut self, now: Instant, received: Datagram<'_>, number: PacketNumber) {
        let Datagram { from, to, bytes } = received;
        let newest = number >= self.acks.expected();
        self.local_ip = to.filter(|_| newest).or(self.local_ip);
        if let Some(probe) = self.path_probe.as_mut().filter(|_| newest) {
            probe.has_newest = probe.address == from;
        }
        if from == self.remote {
            return;
        }
        if let Some(probe) = self.path_probe.as_mut().filter(|probe| probe.address == from) {
            probe.received_bytes += bytes.len() as u64;
            // Asked in vain, and still sending from there: the answer may have been lost, or be under way.
            if newest && !self.timers.is_set(TimerKind::Path) {
                probe.repeats = 0;
                self.ask_path(now);
            }
        } else if newest {
            self.path_probe = Some(PathProbe {
                address: from,
                token: self.rng.next_u64(),
                received_bytes: bytes.len() as u64,
                sent_bytes: 0,
                repeats: 0,
                interval: self.recovery.pto_base(),
                due: true,
                has_newest: true,
            });
            self.ask_path(now);
        }
    }

    /// Asks, and waits for the answer: twice as long each time. Only the path in use is measured, and the
    /// new one may be slower by any factor (RFC 9000 §8.2.4).
    fn ask_path(&mut self, now: Instant) {
        let Some(probe) = &mut self.path_probe else { return };
        probe.due = true;
        self.timers.set(TimerKind::Path, Some(now + probe.interval));
        probe.interval = (probe.interval * 2).min(MAX_INTERVAL).max(probe.interval);
    }

    pub(super) fn on_path_response(&mut self, from: SocketAddr, token: u64) {
        let Some(probe) = &self.path_probe else { return };
        // Whoever has sent from elsewhere since is there no longer.
        if probe.address != from || probe.token != token || !probe.has_newest {
            return;
        }
        // Not louder: a peer may move as often as it likes.
        tracing::debug!(old = %self.remote, new = %from, "the peer has moved");
        self.remote = from;
        self.path_probe = None;
        self.timers.set(TimerKind::Path, None);
        self.acks.loss = LossEstimator::default();
        self.chunk_tuner = ChunkTuner::default();
        self.path_mtu.on_path_change();
        // First the size of packets, then those who count in it.
        self.follow_path_mtu();
        self.recovery.on_path_change();
    }

    pub(super) fn on_path_timer(&mut self, now: Instant) {
        let Some(probe) = &mut self.path_probe else { return };
        // The token stays good: its answer may take longer than all that.
        if probe.repeats < MAX_REPEATS {
            probe.repeats += 1;
            self.ask_path(now);
        }
    }

    /// The peer asks whether we receive at the address that it used. Answered there only as far as
    /// the limit for an address that has not answered us allows.
    pub(super) fn on_path_challenge(&mut self, from: SocketAddr, token: u64) {
        let answered = if from == self.remote {
            true
        } else if let Some(probe) = self.path_probe.as_mut().filter(|probe| probe.address == from) {
            probe.take_allowance(PATH_PACKET_BYTES)
        } else {
            false
        };
        if answered {
            self.path_response = Some((from, token));
        }
    }

    /// Where a question may go now, and its token.
    pub(super) fn take_path_challenge(&mut self) -> Option<(SocketAddr, u64)> {
        let probe = self.path_probe.as_mut()?;
        if !std::mem::take(&mut probe.due) || !probe.take_allowance(PATH_PACKET_BYTES) {
            return None;
        }
        Some((probe.address, probe.token))
    }
}
