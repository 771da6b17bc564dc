// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do zenoh's links behave on networks that lose packets, measured side by side?
//!
//! [`lab`] makes the network, [`traffic`] runs a publisher and a subscriber in it, [`delivery`] sums up what became
//! of the messages, and [`demo`] puts the three together as the first command that a visitor runs.

pub mod check;
pub mod cli;
pub mod compare;
pub mod delivery;
pub mod demo;
pub mod emulator;
pub mod lab;
pub mod measure;
pub mod opponent;
pub mod oracle;
pub mod record;
pub mod report;
pub mod results;
pub mod scenario;
pub mod summary;
pub mod traffic;
