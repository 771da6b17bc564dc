// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How many bytes may be in flight, and how fast they may leave.
//!
//! A [`Controller`] is driven by plain numbers, so that each one can be tested without a connection
//! and all of them against one shared model (`tests` below).
//!
//! Requirements, numbered as in `docs/protocol.md`, to which the sections belong:
//!
//! - **ARQ-CC-1** Ack-eliciting packets count by their UDP payload while in flight. Chunks leave while the
//!   controller's window and a window in packets have room, or nothing is in flight; probes, ACKs and control
//!   frames leave regardless.
//! - **ARQ-CC-2** A controller's input: packets sent, acknowledged and lost, silence, path changes.
//! - **ARQ-CC-3** A probe time-out alone is no congestion. After silence (ARQ-PTO-5) an adaptive controller
//!   SHOULD use its least window (RFC 9002 §7.6).
//! - **ARQ-CC-4** Chunks are paced at the controller's rate, or 5/4 of the window per smoothed round trip.
//! - **ARQ-CC-5** `cubic` is RFC 9438, `aimd` NewReno (RFC 9002 §7), both with HyStart++ (RFC 9406).
//! - **ARQ-CC-6** `tolerant` follows the delivered rate and excuses loss of the medium.
//! - **ARQ-CC-7** `max_rate` limits all UDP payload, a quarter being reserved for chunks.
//! - **ARQ-CC-8** A pause keeps the estimate for 30 s; then it halves every 10 s.
//! - **ARQ-CC-9** `tolerant` learns how many bytes, up to 256 KiB, may leave at once.
//! - **ARQ-CC-10** Rounds with a stall never lower the rate of `tolerant`, unless they show a queue.
//! - **ARQ-CC-11** The window of `cubic` and `aimd` grows only as far as it is used (RFC 9002 §7.8).
//! - **ARQ-CC-12** A mark (CE) is congestion: `cubic` and `aimd` reduce once in a round trip, to 0.85 and 0.8 (RFC 8511),
//!   in slow start as after a loss. `tolerant` reduces as after excessive loss, whether a queue shows or not, and ends
//!   start-up.
//! - **ARQ-CC-13** A sender goes on to send more than 1.6 bytes for each that arrives only where a lesser rate loses as
//!   much (RFC 8083).
//! - **ARQ-CC-14** Where three bursts in a row have queued, and a more urgent lane has sent a small message within a
//!   second, `tolerant` sends bulk in bursts of 2 ms, unless its application waits for room.

mod aimd;
pub(crate) mod breaker;
mod constant;
mod cubic;
mod hystart;
mod loss_based;
mod tolerant;

use std::{
    fmt,
    time::{Duration, Instant},
};

use aimd::Aimd;
use constant::Constant;
use cubic::Cubic;
use tolerant::Tolerant;

use crate::{
    config::CongestionConfig,
    sent::LossCause,
    units::{PacketNumber, Rate},
};

/// A packet that is about to leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentSample {
    /// Now.
    pub(crate) now: Instant,
    /// Its number.
    pub(crate) number: PacketNumber,
    /// Its size, as acknowledgements and losses count it.
    pub(crate) bytes: u64,
    /// Whether nothing follows it because the application has no more, or a limit of the
    /// configuration or the peer's forbids it.
    pub(crate) app_limited: bool,
}

/// A round trip. The host may have slept while the acknowledgement waited for it: then it is known within bounds alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RttSample {
    /// It took at least so long.
    pub(crate) least: Duration,
    /// And at most so long: what was measured.
    pub(crate) most: Duration,
}

impl RttSample {
    /// The round trip, if it is known.
    pub(crate) fn exact(self) -> Option<Duration> {
        (self.least == self.most).then_some(self.most)
    }
}

/// What one acknowledgement newly acknowledged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckSample {
    /// Now.
    pub(crate) now: Instant,
    /// Bytes newly acknowledged.
    pub(crate) bytes: u64,
    /// Packets newly acknowledged.
    pub(crate) packets: u64,
    /// The largest packet newly acknowledged.
    pub(crate) largest: PacketNumber,
    /// When that packet was sent.
    pub(crate) sent_at: Instant,
    /// The round-trip sample that this acknowledgement gave, if it gave one.
    pub(crate) rtt: Option<RttSample>,
    /// The smoothed round trip.
    pub(crate) smoothed_rtt: Duration,
    /// Bytes in flight before this acknowledgement, what it acknowledges included. Where acknowledgements come often
    /// that is less and less of a flight that nothing follows.
    pub(crate) in_flight_bytes: u64,
    /// Whether the largest packet was the last one that there was to send: the application, not the window, limited
    /// what was in flight. Of the packets of a flight before its last one it is not known.
    pub(crate) app_limited: bool,
}

/// What was declared lost at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LossSample {
    /// Now.
    pub(crate) now: Instant,
    /// Bytes lost.
    pub(crate) bytes: u64,
    /// Packets lost.
    pub(crate) packets: u64,
    /// The largest packet lost.
    pub(crate) largest: PacketNumber,
    /// When the newest lost packet was sent.
    pub(crate) sent_at: Instant,
    /// How it was noticed.
    pub(crate) cause: LossCause,
}

/// Queues have marked packets of ours (RFC 3168: CE).
#[derive(Debug, Clone, Copy)]
pub(crate) struct CeSample {
    /// Now.
    pub(crate) now: Instant,
    /// Packets newly told to be marked.
    pub(crate) packets: u64,
    /// When the largest packet was sent that the same acknowledgement tells of.
    pub(crate) sent_at: Instant,
}

/// A congestion controller.
pub(crate) trait Controller: Send + fmt::Debug {
    /// Something may leave now: what time alone has changed counts from here on.
    fn on_time(&mut self, _now: Instant) {}
    /// A packet was sent.
    fn on_sent(&mut self, sample: &SentSample);
    /// Packets were acknowledged.
    fn on_ack(&mut self, sample: &AckSample);
    /// Packets were declared lost.
    fn on_loss(&mut self, sample: &LossSample);
    /// Packets were marked; told before the acknowledgement that brought it.
    fn on_ce(&mut self, sample: &CeSample);
    /// What was declared lost earlier was acknowledged: a reaction to that loss alone was unfounded.
    fn on_spurious_loss(&mut self, sample: &LossSample);
    /// The fate of a packet of this path is final. Told of one after the other, in the order of sending.
    fn on_settled(&mut self, _number: PacketNumber, _lost: bool) {}
    /// This host has slept: for a while it could neither send nor hear what was acknowledged.
    fn on_sleep(&mut self) {}
    /// More probes went unanswered than bad luck explains (RFC 9002 §7.6, persistent congestion). Called again for
    /// each further one.
    fn on_silence(&mut self);
    /// The path changed.
    fn on_path_change(&mut self);
    /// Packets now have up to `mtu` bytes of UDP payload: what is counted in packets follows.
    fn on_mtu(&mut self, _mtu: u16) {}
    /// Bytes that may be in flight.
    fn window(&self) -> u64;
    /// The rate at which they may leave, or `None` to follow the window: 5/4 of it per smoothed
    /// round trip (RFC 9002 §7.7).
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }
    /// The rate that the path was seen to carry, or `None`: a window per smoothed round trip.
    fn carried_rate(&self) -> Option<Rate> {
        None
    }
    /// Bytes that may leave at once after a pause, beyond what the pacer lets out by itself.
    fn burst(&self) -> u64 {
        0
    }
    /// Whether even the pacer's bursts were seen to queue.
    fn bursts_queue(&self) -> bool {
        false
    }
}

/// No path needs a larger window; keeps arithmetic far from overflow.
const MAX_WINDOW_BYTES: u64 = 1 << 30;

/// Bytes of so many packets, of very long ones fewer: queues count bytes. Two at least.
pub(crate) fn bytes_of(packets: u64, mtu: u64) -> u64 {
    const LONG: u64 = 9_216;
    (packets * mtu.min(LONG)).max(2 * mtu)
}

/// The controller that a configuration names, for datagrams of `mtu` bytes. `max_rate` is enforced
/// by the pacer; a controller that looks for more rate is told where to stop.
#[must_use]
pub(crate) fn build(
    config: CongestionConfig,
    mtu: u16,
    max_rate: Option<Rate>,
) -> Box<dyn Controller> {
    match config {
        CongestionConfig::Constant { window_bytes } => {
            Box::new(Constant::new(window_bytes.max(mtu.into())))
        }
        CongestionConfig::Aimd => Box::new(Aimd::new(mtu)),
        CongestionConfig::Cubic => Box::new(Cubic::new(mtu)),
        CongestionConfig::Tolerant => Box::new(Tolerant::new(mtu, max_rate)),
    }
}

#[cfg(test)]
mod tests;
