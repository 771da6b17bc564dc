// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does the emulator do what it was asked for, on this machine, today?
//!
//! Everything is measured from outside, at sockets in the hosts, and compared with what was asked for, never with what
//! the emulator says of itself, but where the emulator's own word is what is tested.

mod limit;
mod loss;
mod probe;
mod row;
mod timing;
mod tools;

use super::{EmulatorError, Network};

pub use row::Row;

/// How thoroughly it is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Packets for each loss model and direction (1,000 or more); other tests scale with it.
    pub packets: u32,
    /// The first of the two seeds that are tried.
    pub seed: u64,
}

/// The tests by what they are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Which packets are lost.
    Loss,
    /// When they come, how fast, how often and in which order.
    Timing,
    /// What `ping` and `iperf3` see.
    Tools,
    /// What the emulator can carry.
    Limit,
}

impl Section {
    /// All of them, in the order in which they are best made.
    pub const ALL: [Self; 4] = [Self::Loss, Self::Timing, Self::Tools, Self::Limit];

    /// Makes the tests of this section on a network of two hosts.
    ///
    /// # Errors
    /// When the network cannot be used at all; a test that fails is a [`Row`].
    pub fn test(self, network: &mut Network, plan: &Plan) -> Result<Vec<Row>, EmulatorError> {
        match self {
            Self::Loss => loss::rows(network, plan.packets, plan.seed),
            Self::Timing => timing::rows(network, plan.packets, plan.seed),
            Self::Tools => tools::rows(network, plan.seed),
            Self::Limit => limit::rows(network, plan.seed),
        }
    }

    /// What it is about, in a few words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Timing => "delay, rate, duplication and order",
            Self::Tools => "ping and iperf3",
            Self::Limit => "its own limit",
        }
    }
}
