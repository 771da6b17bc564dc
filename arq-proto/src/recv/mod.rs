// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The receiving side of the lanes: chunks to messages, messages in order.

pub(crate) mod age;
pub(crate) mod lane;
pub mod reassembly;
pub(crate) mod spare;

pub use spare::WORTH_RECYCLING_BYTES;
