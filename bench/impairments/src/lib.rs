// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What does a network do to a packet, and when does it come out?
//!
//! Queues, rates, fades and delays as functions of packet and time: the time is passed in, chance follows from a seed,
//! and nothing here reads a clock or a socket. The simulator runs these models in virtual time; an emulator can run the
//! same ones below real links.
//!
//! * [`Model`]: one direction of an emulated wire with all that [`wire::Wire`] asks for.
//! * [`Link`]: a queue ([`Discipline`]: drop-tail, CoDel, FQ-CoDel) before a server ([`Rate`]: fixed, a token bucket, a
//!   rate for each second, or the delivery opportunities of a recording), which may send several packets as one frame.
//! * [`TokenBucket`]: a policer.
//! * [`Fades`]: spells in which a radio loses packets, by the clock.
//! * [`DelayTrace`]: a delay that changes as it was recorded.
//! * [`Path`]: the oracle. When could a message arrive at the earliest?
//!
//! Times count from the beginning of a run.

mod delay;
mod fades;
mod link;
mod model;
mod oracle;
mod policer;
mod queue;
mod rate;
pub mod recording;
pub mod wire;

pub use delay::DelayTrace;
pub use fades::{FadeConfig, Fades};
pub use link::{Exit, Frame, Link, LinkConfig};
pub use model::{expected_share, pattern, Departure, Fate, Model};
pub use oracle::Path;
pub use policer::{Policer, TokenBucket};
pub use queue::{CoDel, Discipline, Limit, Packet};
pub use rate::{Opportunities, Rate, RateTrace, OPPORTUNITY_BYTES};
