// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What a connection has done and how it stands: one snapshot for logs, tests, bench and exporters.

use std::time::Duration;

use crate::{
    ecn::EcnState,
    histogram::Histogram,
    units::{LaneId, Probability},
};

/// A snapshot of one connection. Counters only grow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Smoothed round-trip time (RFC 9002 §5.3); zero before the first sample.
    pub srtt: Duration,
    /// Smallest round-trip time seen.
    pub min_rtt: Duration,
    /// Mean deviation of the round-trip time (RFC 9002 §5.3); zero before the first sample.
    pub rtt_variation: Duration,
    /// Share of our packets that are lost, an upper estimate.
    pub loss: Probability,
    /// Share of the peer's packets that are lost, an upper estimate.
    pub reverse_loss: Probability,
    /// Mean number of packets lost in a row, in hundredths.
    pub loss_run_hundredths: u32,
    /// Bytes that the controller allows in flight.
    pub window_bytes: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// Pacing rate in bytes per second; zero before the first round-trip sample.
    pub pacing_bytes_per_sec: u64,
    /// Messages accepted and not yet wholly sent for the first time, in bytes over all lanes.
    pub queued_bytes: u64,
    /// Everything kept for sending, in bytes: queued, in flight and lost.
    pub send_buffer_bytes: u64,
    /// How long the oldest message that was not wholly sent has waited, at the last call.
    pub queue_age: Duration,
    /// What received messages, whole or in part, take until the application takes them: the length of each, and 64
    /// bytes (what they cost of the credit).
    pub receive_buffer_bytes: u64,
    /// Datagrams sent, of every kind.
    pub packets_sent: u64,
    /// Bytes of UDP payload sent.
    pub bytes_sent: u64,
    /// Datagrams received and accepted.
    pub packets_received: u64,
    /// Bytes of UDP payload received and accepted.
    pub bytes_received: u64,
    /// Transmissions of two datagrams and more.
    pub batches_sent: u64,
    /// Times that these were found to be lost where single datagrams arrive, so that none leave any more.
    pub batches_stopped: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Packets declared lost that were acknowledged later.
    pub packets_spuriously_lost: u64,
    /// Whether our packets are marked as capable of ECN (RFC 3168) on the path of the handshake.
    pub ecn: EcnState,
    /// Packets of ours that queues have marked (CE), as the peer says.
    pub packets_marked: u64,
    /// Packets of the peer's that queues have marked.
    pub marks_received: u64,
    /// Times that far more was sent than arrived, so that the rate was limited to what arrives (RFC 8083).
    pub breaker_openings: u64,
    /// Chunks sent again.
    pub chunks_retransmitted: u64,
    /// Small messages that were sent again in a later packet, ahead of any loss (bundling).
    pub chunks_bundled: u64,
    /// Chunks and repair symbols received that brought nothing new.
    pub chunks_duplicate: u64,
    /// Repair symbols sent.
    pub repair_symbols_sent: u64,
    /// Repair symbols received.
    pub repair_symbols_received: u64,
    /// Chunks computed from repair symbols instead of received.
    pub chunks_recovered: u64,
    /// Times that the tail of a flight was unanswered.
    pub ptos: u64,
    /// Acknowledgements sent.
    pub acks_sent: u64,
    /// Datagrams dropped: damaged, malformed, replayed or not for this connection; and those that go-back-N refuses, which
    /// were received all the same.
    pub datagrams_dropped: u64,
    /// Best-effort messages given up by this side after their deadline.
    pub messages_expired: u64,
    /// Best-effort messages of the peer's dropped by this side: the application did not take them before their deadline, or
    /// this host stood still.
    pub messages_stale: u64,
    /// Times that the application's clock went backwards and was clamped.
    pub clock_regressions: u64,
    /// Times that this side was driven 5 ms to 1 s after something was due: its host gave it no processor.
    pub host_sleeps: u64,
    /// The longest datagram sent, in bytes of UDP payload: what the path is known to carry.
    pub path_mtu_bytes: u16,
    /// Datagrams sent only to ask whether their size passes.
    pub mtu_probes_sent: u64,
    /// Those that did not.
    pub mtu_probes_lost: u64,
    /// Bytes of UDP payload in all of them.
    pub mtu_probe_bytes: u64,
    /// Times that large datagrams were found to vanish where small ones passed.
    pub black_holes: u64,
    /// The largest chunk of the next message, in bytes.
    pub chunk_bytes: u16,
    /// Times that the chunk size was changed because loss grew with the size of packets, or did not any
    /// more.
    pub chunk_size_changes: u64,
    /// Reports that a datagram did not reach the peer, true or made up.
    pub unreachable_reports: u64,
    /// Times that something said that the peer is gone, which nobody can say who has not seen a packet.
    pub suspicions: u64,
    /// Packets under the connection's id that its keys did not open: forged, or damaged where UDP did not see it. Counted
    /// with those dropped. Always 0 where packets are not sealed.
    pub packets_forged: u64,
    /// Times that the keys changed.
    pub key_updates: u64,
    /// Attempts at a cryptographic handshake that came to nothing, and were followed by another.
    pub handshakes_spoiled: u64,
    /// Each lane.
    pub lanes: [LaneStats; LaneId::COUNT],
}

/// Messages of one lane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneStats {
    /// Accepted from the application.
    pub messages_sent: u64,
    /// Handed to the application.
    pub messages_delivered: u64,
    /// How long each message sent waited until its first byte left.
    pub queue_wait: Histogram,
    /// How long it took, from the application's hand on, until this side knew that the peer has it and all before it in the
    /// lane. Of messages that are repaired; those given up are not in it.
    pub delivery: Histogram,
}

/// What an endpoint did with datagrams that belong to no connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// HELLOs answered by CHALLENGE.
    pub challenges_sent: u64,
    /// Handshakes refused.
    pub refused: u64,
    /// Resets sent.
    pub resets_sent: u64,
    /// Datagrams dropped: malformed, unknown, or more than may be answered.
    pub datagrams_dropped: u64,
    /// HELLOs that offered another protection of packets than the endpoint takes.
    pub mismatched: u64,
    /// Connections accepted. Where packets are sealed, also those whose handshake is not over yet, and may fail.
    pub accepted: u64,
}
