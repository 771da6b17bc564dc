// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The sending side of the lanes: messages, their order, and which lane goes next.

pub(crate) mod lane;
pub(crate) mod message;
pub(crate) mod queue;
pub(crate) mod scheduler;
