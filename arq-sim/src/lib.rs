// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Virtual time and an emulated wire: how does the protocol behave, whatever the network does?
//!
//! A [`World`] holds hosts, each with an `arq_proto::Endpoint`, and wires between them. Time jumps
//! from event to event, so an hour of a lossy link takes milliseconds, and one seed decides
//! everything. After every step the rules of the crate's `invariant` module are checked; the
//! applications on top check that each message arrives once, in order, and as it was sent.
//!
//! Most tests want a [`Scenario`], which runs a [`Pair`]:
//!
//! ```
//! use arq_sim::{Flow, Loss, Scenario, WireConfig};
//! use std::time::Duration;
//!
//! let wire = WireConfig {
//!     loss: Loss::Random(0.25),
//!     ..WireConfig::with_delay(Duration::from_millis(10))
//! };
//! let report = Scenario::new(1)
//!     .wire(wire)
//!     .client_sends([Flow::reliable(3, 10_000, 20)])
//!     .run()?;
//! assert_eq!(report.server_bytes_read, 200_000);
//! # Ok::<(), Box<arq_sim::Failure>>(())
//! ```

mod app;
mod clock;
pub mod cold;
mod drop_publisher;
pub mod fades;
pub mod grid;
mod guest;
pub mod harness;
mod host;
pub mod hostile;
mod invariant;
mod log;
mod moves;
mod pair;
pub mod parallel;
pub mod payload;
mod random;
pub mod reference;
pub mod repair;
mod scenario;
mod shared;
mod tap;
pub mod toy;
mod wire;
mod world;

pub use app::{lane, App, AppPlan, Flow, LaneInbox, Pacing, Reading, Sizes};
pub use clock::Clock;
pub use drop_publisher::DropPublisher;
pub use guest::Guest;
pub use host::{Conn, ConnId, Host, HostConfig, HostId};
pub use log::{Entry, LoggedFate, PacketLog};
pub use moves::Move;
pub use pair::{Pair, Report};
pub use scenario::{Failure, Scenario};
pub use shared::{Access, Shared};
pub use tap::{Forged, Tap, Verdict};
pub use wire::{
    flip_bits, Bottleneck, Datagram, EcnFault, FadeConfig, Fate, Loss, Passage, Policer, Wire,
    WireConfig,
};
pub use world::{Exchange, Halt, World};
