// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How many symbols of a message should be out now?
//!
//! | when | what leaves | decided in |
//! |---|---|---|
//! | a message begins | its chunks, in the size that makes protection cheapest | [`segment`] |
//! | its last chunk leaves | parity: repair symbols ahead of any loss | [`ahead`] |
//! | a small urgent one leaves beside bulk | copies ahead of any loss | [`copies`] |
//! | a packet has room | small messages that are not acknowledged: redundant bundling | [`bundle`] |
//! | symbols or their ACK are lost | copies and repair symbols | [`repair`] |
//!
//! A connection asks [`Redundancy`] and carries out the answer. The answers are pure functions of the path, of the cost of
//! a loss, and of the message: its shape, and which symbols are [`Out`](repair::Out). The erasure code itself is in
//! [`fec`](crate::fec).
//!
//! Requirements, numbered as in `docs/protocol.md`, to which the sections belong:
//!
//! - **ARQ-REP-1** A message lacks its chunks less its acknowledged chunks and repair symbols (*missing*). With
//!   nothing missing it is delivered, and nothing more of it is sent.
//! - **ARQ-REP-2** A repair covers what is missing with 99 % (90 % above 16 symbols); just that in *bulk* (the
//!   application waits for room).
//! - **ARQ-REP-3** A repair sends unused repair symbols (§8.6), then lost chunks; copies for up to two lost
//!   chunks. A packet carries no symbol twice.
//! - **ARQ-REP-4** To a side without REPAIR, each chunk neither in flight nor acknowledged is sent again, once.
//! - **ARQ-REP-5** A sender MAY add repair symbols (parity) to the last chunk, or copies to a message of one chunk.
//! - **ARQ-REP-6** `fec=auto`, the default, adds parity where it saves more time than it costs, within a byte
//!   budget.
//! - **ARQ-REP-7** A message up to 16 KiB MAY have more chunks than necessary, no two of which fit a packet.
//! - **ARQ-REP-8** A lost ACK declares nothing lost; *suspect* messages get up to 64 repair symbols per time-out.
//! - **ARQ-REP-9** The last packet of a flight is filled up to 1,200 bytes with earlier unacknowledged one-chunk
//!   messages (bundling), four sendings each at most; not once a path's first twenty packets have arrived, until one
//!   seems lost; nor where losses come in long bursts.
//! - **ARQ-REP-10** A message of one chunk up to 512 bytes leaves with up to two copies, in packets of their own, where
//!   losses are independent. Copies take at most a quarter of the bytes of larger frames of less urgent lanes.
//! - **ARQ-REP-11** Where losses come in bursts and an answer is overdue, each packet with symbols is filled like
//!   that until an answer comes. A message leaves again once an eighth of its age has passed since it last left.

pub(crate) mod ahead;
pub(crate) mod bundle;
mod channel;
pub(crate) mod copies;
pub(crate) mod repair;
mod segment;

use std::time::Duration;

use crate::{
    config::FecConfig,
    units::{Probability, Rate},
};
pub(crate) use channel::Channel;

/// The inputs of all decisions beside the message: the path, and what both sides allow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Redundancy {
    pub(crate) fec: FecConfig,
    /// The peer takes repair symbols.
    pub(crate) coding: bool,
    /// The window counts packets, which makes each of them expensive.
    pub(crate) counts_packets: bool,
    pub(crate) channel: Channel,
    /// Share of the acknowledgements that is lost, an upper estimate.
    pub(crate) ack_loss: Probability,
    /// The delay of a repair: a round trip, and the time to detect the loss.
    pub(crate) repair_delay: Duration,
    /// The rate at which packets leave.
    pub(crate) rate: Rate,
    /// A time-out took what was not answered for lost, and no answer has come since.
    pub(crate) is_overdue: bool,
}

impl Redundancy {
    /// Whether `fec=auto` is set and the peer takes repair symbols.
    pub(crate) fn is_auto(&self) -> bool {
        self.fec == FecConfig::Auto && self.coding
    }

    /// Whether the path may lose everything now: an answer is overdue where losses come in bursts.
    pub(crate) fn suspects_fade(&self) -> bool {
        self.is_overdue && self.is_auto() && self.channel.is_bursty()
    }

    /// Whether parity costs too much. In `bulk` another round trip delays nobody.
    fn is_expensive(&self, bulk: bool) -> bool {
        bulk || self.counts_packets
    }

    /// A path with a round trip of 20 ms.
    #[cfg(test)]
    fn over(channel: Channel) -> Self {
        Self {
            fec: FecConfig::Auto,
            coding: true,
            counts_packets: false,
            channel,
            ack_loss: Probability::ZERO,
            repair_delay: Duration::from_millis(22),
            rate: Rate::from_bytes_per_second(1_250_000),
            is_overdue: false,
        }
    }
}
