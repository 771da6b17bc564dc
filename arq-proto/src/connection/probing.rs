// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How long packets may be, chunks should be, and whether packets leave together: the connection's part of
//! [`path_mtu`], [`chunk_size`] and [`batches`].
//!
//! [`batches`]: crate::batches
//! [`path_mtu`]: crate::path_mtu
//! [`chunk_size`]: crate::chunk_size

use std::time::{Duration, Instant};

use super::{
    transmit::{one_chunk_overhead, Transmit},
    Connection,
};
use crate::{
    chunk_size::ChunkTuner, event::Event, send::lane::ChunkLimits, sent::Settled, units::SocketId,
    wire::frame::Frame,
};

/// Where a round trip takes longer, a probe is sent only when there are messages for which longer packets pay.
const MOST_FOR_A_PROBE: Duration = Duration::from_millis(100);
/// Unless they were asked for, longer packets are looked for after the fate of so many is known: the first messages are
/// not delayed by probes.
const ASKS_AFTER: u32 = 32;
/// Where a packet takes longer, longer ones save next to nothing, and urgent messages wait for them.
const MOST_FOR_A_PACKET: Duration = Duration::from_millis(10);
/// What is longer exists within a machine only.
const LONGEST_FRAME_BYTES: u16 = 9_000;

impl Connection {
    /// The system refused to send datagrams of `size` bytes because they are too long for it
    /// (`EMSGSIZE`). A hint: it shortens the search for what the path carries and decides nothing.
    /// Datagrams with messages that were refused count as lost like others.
    pub fn handle_refused(&mut self, now: Instant, socket: SocketId, size: usize) {
        let now = self.advance(now);
        self.with_path(self.path_through(socket), |connection| {
            let path = &mut connection.path;
            path.mtu.on_refused(now, size, path.recovery.loss().upper());
            connection.follow_path_mtu();
        });
        self.rearm(now);
    }

    /// The system says that the interface on the way to the peer carries datagrams of `bytes`, until the peer moves. The
    /// search ends there: a hint that spares probes. If `mtu` was configured, that holds.
    pub fn handle_interface_mtu(&mut self, now: Instant, socket: SocketId, bytes: u16) {
        let now = self.advance(now);
        if self.config.mtu.is_none() {
            let number = self.path_through(socket);
            self.with_path(number, |connection| connection.path.mtu.set_ceiling(bytes));
        }
        self.rearm(now);
    }

    /// Whether a probe above base is of use, and delays nothing. One of the configured size, and one within the machine, is
    /// asked at once.
    fn wants_more(&self, ceiling: u16) -> bool {
        if self.config.mtu.is_some() || ceiling > LONGEST_FRAME_BYTES {
            return true;
        }
        let takes = self.path.recovery.carried_rate().time_for(ceiling.into());
        let is_known = self.path.mtu.settled() >= ASKS_AFTER;
        self.outgoing.has_long_messages && is_known && takes <= MOST_FOR_A_PACKET
    }

    /// Whether a probe may leave, if the search has one: what the state of the connection says.
    fn admits_mtu_probe(&self) -> bool {
        // A client that still sends its cookie has not been heard; while nobody answers, all that is
        // lost would be taken for too long.
        let lost = self.path.recovery.time_outs() > 0 || !self.path.recovery.is_on_path();
        if self.is_unconfirmed() || lost || self.path.meter.is_some() {
            return false;
        }
        // The handshake had packets as long as a probe: where its round trip was long, a probe may take the line for a
        // second.
        if self.path.recovery.rtt().min() > MOST_FOR_A_PROBE && !self.outgoing.has_long_messages {
            return false;
        }
        self.path.mtu.looks_for_more().is_none_or(|ceiling| self.wants_more(ceiling))
    }

    /// Whether a probe may be to be sent now.
    pub(super) fn may_probe_mtu(&self, now: Instant) -> bool {
        let busy = self.path.recovery.in_flight_bytes() > 0;
        self.admits_mtu_probe() && self.path.mtu.may_ask(now, busy)
    }

    /// A padded packet without data that asks whether its size passes (RFC 8899 §4.1). Not in flight:
    /// its loss is no congestion, and says nothing about what the path loses.
    pub(super) fn transmit_mtu_probe(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if !self.admits_mtu_probe() {
            return None;
        }
        let busy = self.path.recovery.in_flight_bytes() > 0;
        let size = self.path.mtu.next_probe(now, self.path.recovery.loss().upper(), busy)?;
        if self.path.recovery.pacing_delay(now).is_some() {
            return None;
        }
        let mut draft = self.start_packet(now, out, size.into())?;
        let start = draft.start;
        draft.put(out, &Frame::Ping, None);
        draft.pad(out);
        self.protection.set_ack_now(&mut out[start..]);
        draft.in_flight = false;
        let number = self.path.recovery.next_number();
        self.finish_packet(now, out, draft)?;
        self.path.mtu.on_probe_sent(number, size, now + 2 * self.path.recovery.pto_base());
        // Something after it must arrive, or silence would be taken for its loss.
        self.path.ping_due = true;
        Some(self.single(start, out.len()))
    }

    /// A small packet after time-outs of large ones: does the path carry that?
    pub(super) fn transmit_small_packet(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if !std::mem::take(&mut self.path.small_packet_due) {
            return None;
        }
        let mut draft = self.start_packet(now, out, self.path.mtu.size().into())?;
        let start = draft.start;
        draft.put(out, &Frame::Ping, None);
        self.protection.set_ack_now(&mut out[start..]);
        self.finish_packet(now, out, draft)?;
        Some(self.single(start, out.len()))
    }

    pub(super) fn on_mtu_timer(&mut self, now: Instant) {
        let (acked, loss) = (self.path.recovery.largest_acked(), self.path.recovery.loss().upper());
        self.path.mtu.on_deadline(now, acked, loss);
        self.follow_path_mtu();
    }

    /// What became of packets that are settled tells of sizes and batches.
    pub(super) fn learn_shapes(&mut self, now: Instant, settled: &[Settled]) {
        let loss = self.path.recovery.loss().upper();
        let had_stopped = self.path.batches.are_stopped();
        for &Settled { bytes, burst, side, lost, .. } in settled {
            self.path.batches.on_settled(burst, lost);
            // Most packets of a batch are long: its loss is not that of their size.
            if !self.path.batches.doubts(burst) {
                self.path.mtu.on_settled(now, bytes, lost, loss);
                self.path.mtu.compare(now, bytes, side, lost);
                self.path.chunk_tuner.on_settled(bytes, lost);
            }
        }
        if self.path.batches.are_stopped() && !had_stopped {
            self.on_batches_lost();
        }
        self.follow_path_mtu();
        // Longer than chance alone makes them.
        let burst = self.path.recovery.loss().mean_run() * (1.0 - loss.as_f64());
        let chunks = self.path.chunk_tuner.changes();
        self.path.chunk_tuner.decide(self.largest_chunk_bytes(), burst);
        if self.path.chunk_tuner.changes() != chunks {
            self.path.recovery.on_chunk_size_change();
        }
    }

    /// What was lost was this host's doing, and is over.
    fn on_batches_lost(&mut self) {
        self.counters.batches_stopped += 1;
        self.events.push_back(Event::BatchesLost);
        self.path.chunk_tuner = ChunkTuner::default();
        self.path.recovery.forget_losses();
    }

    pub(super) fn follow_path_mtu(&mut self) {
        self.path.recovery.set_mtu(self.path.mtu.size_in_use());
    }

    /// Bytes that the protection of a packet takes.
    pub(super) fn tag_bytes(&self) -> usize {
        self.protection.tag_bytes()
    }

    pub(super) fn chunk_limits(&self) -> ChunkLimits {
        let largest = self.largest_chunk_bytes();
        let new = match self.config.chunk_bytes {
            Some(bytes) => largest.min(bytes.into()),
            None => self.path.chunk_tuner.chunk_bytes(largest),
        };
        let most = self.chunk_bytes_in(self.path.mtu.size());
        let again =
            self.path.doubtful_above.map_or(most, |bytes| most.min(self.chunk_bytes_in(bytes)));
        ChunkLimits { new, most, again }
    }

    /// The largest chunk that fits a packet of the size in use.
    fn largest_chunk_bytes(&self) -> usize {
        self.chunk_bytes_in(self.path.mtu.size_in_use())
    }

    pub(super) fn chunk_bytes_in(&self, packet: u16) -> usize {
        let cookie = self.cookie().map_or(0, |cookie| cookie.max_bytes());
        let timestamp = self.config.deadline.map_or(0, |_| Frame::TIMESTAMP_BYTES);
        let overhead = one_chunk_overhead(self.tag_bytes()) + cookie + timestamp;
        usize::from(packet).saturating_sub(overhead)
    }
}
