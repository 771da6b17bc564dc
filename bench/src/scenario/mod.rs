// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What is measured: a scenario is a file that says which links carry which traffic over which network.

pub mod flow;
pub mod wire;
