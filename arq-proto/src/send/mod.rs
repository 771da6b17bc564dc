// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The sending side of the lanes: messages, their order, and which lane goes next.
//!
//! Requirements, numbered as in `docs/protocol.md`, to which the sections belong:
//!
//! - **ARQ-LAN-4** A sender bounds what it queues in a lane, in bytes and age, and refuses the rest.
//! - **ARQ-LAN-5** A sender takes the rest of a multi-part message as far as the path carries it within a second.
//! - **ARQ-LAN-6** While no probe is answered, a lane takes one message each 1.5 s.
//! - **ARQ-FLW-5** A sender bounds what it keeps for repair, whatever the peer grants (here its own connection
//!   window, at least 32 MiB).

pub(crate) mod lane;
pub(crate) mod message;
pub(crate) mod queue;
pub(crate) mod scheduler;
pub(crate) mod urgent;
